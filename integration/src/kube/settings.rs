//! The parts' configuration files. Each setting that is not a default says why it is there.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::images::PAUSE;
use super::place::{NODE_NAME, Place};

pub(super) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// kubelet's own directory, inside the node's mount namespace as all below.
pub(super) const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// Writes all of them into the node's directory.
pub(super) fn write(place: &Place, config_refresh: Duration) -> Result<()> {
    let write = |name: &str, content: &str| {
        let path = place.file(name);
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))
    };
    std::fs::create_dir_all(place.file("cni")).context("create the directory of the CNI")?;
    write("containerd.toml", &containerd(place))?;
    write(
        "cni/10-bridge.conflist",
        &serde_json::to_string_pretty(&cni(place))?,
    )?;
    write(
        "kubelet.json",
        &serde_json::to_string_pretty(&kubelet(place, config_refresh))?,
    )?;
    write(
        "kube-proxy.json",
        &serde_json::to_string_pretty(&kube_proxy(place))?,
    )
}

fn containerd(place: &Place) -> String {
    // The disabled snapshotters only complain that they cannot work here; `opt` makes /opt.
    // A process inside another container may not lower its OOM score: hence the restriction.
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt",
]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{}"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#,
        place.file("cni").display()
    )
}

fn cni(place: &Place) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": true,
                // A Pod may be the endpoint of a Service that it asks itself.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": place.addresses.pods }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
            // A Pod takes this over from the machine's first network namespace, where it is the
            // machine's own affair: here it is as on a node that forwards.
            { "type": "tuning", "sysctl": { "net.ipv4.ip_forward": "1" } },
        ],
    })
}

fn kubelet(place: &Place, config_refresh: Duration) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": place.file("ca.pem") },
        },
        "authorization": { "mode": "Webhook" },
        "address": place.addresses.lan,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "clusterDNS": [place.addresses.dns],
        "clusterDomain": "cluster.local",
        "syncFrequency": format!("{}s", config_refresh.as_secs()),
        // Control groups of the run's own, on machines of either version.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", place.cgroup),
        "failCgroupV1": false,
        // The machine is shared: its swap, its OOM scores and how full it is are not ours.
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        // Pods with dnsPolicy Default get no resolver rather than the machine's.
        "resolvConf": "",
        // By default under /usr, which is the machine's.
        "volumePluginDir": format!("{KUBELET_ROOT}/volume-plugins"),
    })
}

fn kube_proxy(place: &Place) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": place.kubeconfig("kube-proxy") },
        "mode": "nftables",
        "clusterCIDR": place.addresses.pods,
        "hostnameOverride": NODE_NAME,
        // The size of the table is the machine's, and read-only in a network namespace.
        "conntrack": { "maxPerCore": 0, "min": 0 },
        "oomScoreAdj": 0,
    })
}
