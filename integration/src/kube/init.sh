# PID 1 of a node. $1: the node's directory, below /run; $2: its hostname.
set -eu
dir=$1
hostname "$2"

# A /run of the node's own, with the node's directory at the place it has outside.
mount -n -t tmpfs -o mode=0755 tmpfs /mnt
mkdir -p "/mnt/${dir#/run/}" /mnt/lock
mount -n --bind "$dir" "/mnt/${dir#/run/}"
mount -n --move /mnt /run
mount -n -t tmpfs -o mode=0755 tmpfs /var/log
mount -n -t tmpfs -o mode=0755 tmpfs /var/lib
mount -n --bind "$dir/hosts" /etc/hosts
mount -n --bind "$dir/resolv.conf" /etc/resolv.conf

# kubelet sets these for the whole machine unless they are so already: it gets files of its own.
mkdir "$dir/sysctl"
while read -r name value; do
    echo "$value" >"$dir/sysctl/$name"
    mount -n --bind "$dir/sysctl/$name" "/proc/sys/$(echo "$name" | tr . /)"
done <<END
vm.overcommit_memory 1
vm.panic_on_oom 0
kernel.panic 10
kernel.panic_on_oops 1
kernel.keys.root_maxkeys 1000000
kernel.keys.root_maxbytes 25000000
END

# kubelet and containerd share mounts with the containers.
mount -n --make-rshared /
echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$dir/ready"

# Reaps what loses its parent, for as long as the node lives.
while :; do
    sleep 60 &
    wait
done
