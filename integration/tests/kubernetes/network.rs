//! Services, and the node between a lab's networks.

use std::time::Duration;

use anyhow::{Result, ensure};
use tsunaro_integration::kube::{BUSYBOX, KubeNode};
use tsunaro_integration::lab::{CONTROL, LAN_HOST, UPSTREAMS, Zone};
use tsunaro_integration::wait_until;

use crate::by_hand::{COREDNS_IMAGE, Site};
use crate::{Named, POD_READY, Shared};

pub(crate) const TESTS: &[Named] = &[
    (
        "network::a_cluster_ip_answers_on_port_53_over_udp_and_tcp_from_the_node_a_pod_and_the_pod_itself",
        a_cluster_ip_answers_on_port_53,
    ),
    (
        "network::a_node_on_a_lab_carries_pods_to_headscale_and_the_lan_and_the_lan_to_a_load_balancer",
        a_node_carries_packets_between_pods_and_the_lab,
    ),
];

/// Beside the gateway's own: of the range that the lab routes to a gateway.
const LB_ADDRESS: &str = "198.51.100.18";
const NAME: &str = "host.zone.example";
const ADDRESS: &str = "192.0.2.77";

/// A DNS server, and a Service on port 53 that leads to it. Beside it in the Pod, a shell.
const DNS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: { name: corefile }
data:
  Corefile: |
    .:53 {
      hosts {
        192.0.2.77 host.zone.example
      }
      ready 0.0.0.0:8181
    }
---
apiVersion: v1
kind: Pod
metadata: { name: dns, labels: { app: dns } }
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: coredns
      image: COREDNS
      imagePullPolicy: Never
      args: [-conf, /etc/coredns/Corefile]
      readinessProbe: { httpGet: { path: /ready, port: 8181 }, periodSeconds: 1 }
      volumeMounts: [{ name: config, mountPath: /etc/coredns }]
    - { name: shell, image: BUSYBOX, imagePullPolicy: Never, command: [sleep, "600"] }
  volumes: [{ name: config, configMap: { name: corefile } }]
---
apiVersion: v1
kind: Pod
metadata: { name: client }
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - { name: shell, image: BUSYBOX, imagePullPolicy: Never, command: [sleep, "600"] }
---
apiVersion: v1
kind: Service
metadata: { name: dns }
spec:
  type: TYPE
  clusterIP: CLUSTER_IP
  selector: { app: dns }
  ports:
    - { name: dns, port: 53, protocol: UDP }
    - { name: dns-tcp, port: 53, protocol: TCP }
"#;

/// Starts or changes them; their Service's address.
fn start_dns(node: &KubeNode, service_type: &str) -> Result<String> {
    let address = node.service_address(77);
    let objects = DNS
        .replace("COREDNS", COREDNS_IMAGE)
        .replace("BUSYBOX", BUSYBOX)
        .replace("TYPE", service_type)
        .replace("CLUSTER_IP", &address);
    node.apply(&objects)?;
    node.wait_pod_ready("default", "dns", POD_READY)?;
    node.wait_pod_ready("default", "client", POD_READY)?;
    Ok(address)
}

/// Asks over UDP from a Pod's shell.
fn ask_udp(node: &KubeNode, pod: &str, server: &str) -> Result<()> {
    let answer = node
        .exec(
            "default",
            pod,
            "shell",
            &["nslookup", "-type=a", NAME, server],
        )?
        .ok()?;
    ensure!(answer.contains(ADDRESS), "{answer}");
    Ok(())
}

/// Asks over TCP from a Pod's shell, in bytes: busybox has no resolver that speaks TCP.
fn ask_tcp(node: &KubeNode, pod: &str, server: &str) -> Result<()> {
    let query =
        "\\0\\043\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4host\\4zone\\7example\\0\\0\\1\\0\\1";
    let script = format!(
        "{{ printf '{query}'; sleep 1; }} | timeout 4 nc {server} 53 | xxd -p | tr -d '\\n'"
    );
    let answer = node
        .exec("default", pod, "shell", &["sh", "-c", &script])?
        .ok()?;
    // 192.0.2.77 as the data of the last record.
    ensure!(answer.ends_with("0004c000024d"), "{answer:?}");
    Ok(())
}

fn a_cluster_ip_answers_on_port_53(shared: &Shared) -> Result<()> {
    let node = shared.node()?;
    let server = start_dns(node, "ClusterIP")?;
    wait_until(
        "an answer over UDP at the node",
        Duration::from_secs(20),
        || {
            let (code, records) = node.machine().dns(&server, NAME, "A")?;
            ensure!(
                code == "NOERROR" && records == [format!("A {ADDRESS}")],
                "{code} {records:?}"
            );
            Ok(Some(()))
        },
    )?;
    let at = format!("@{server}");
    let tcp = node
        .machine()
        .run(["kdig", &at, NAME, "A", "+tcp", "+short", "+retry=0"])?
        .ok()?;
    assert_eq!(tcp.trim(), ADDRESS);
    for pod in ["client", "dns"] {
        ask_udp(node, pod, &server)?;
        ask_tcp(node, pod, &server)?;
    }
    // Pods are told of the cluster's DNS by kubelet.
    let resolv_conf = node
        .exec("default", "client", "shell", &["cat", "/etc/resolv.conf"])?
        .ok()?;
    let told = format!("nameserver {}\n", node.cluster_dns());
    assert!(resolv_conf.contains(&told), "{resolv_conf}");
    // The Pods stay for the next test: applied while they end, they would be taken for ready.
    Ok(())
}

fn a_node_carries_packets_between_pods_and_the_lab(shared: &Shared) -> Result<()> {
    let Site { lab, node, .. } = shared.site()?;
    let zone = Zone::new("upstream.example").record("www 60 IN A 192.0.2.78");
    let _upstream = lab.upstream().serve(UPSTREAMS[0], &[zone])?;
    start_dns(node, "LoadBalancer")?;

    let sh = |script: &str| {
        node.exec("default", "client", "shell", &["sh", "-c", script])?
            .ok()
    };
    sh(&format!("ping -c 1 -W 2 {LAN_HOST}"))?;
    // Without TLS, Headscale says what is wrong in plain text.
    let plain = format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout 4 nc {CONTROL} 8443");
    let said = sh(&plain)?;
    assert!(said.contains("HTTPS server"), "{said}");
    let www = sh(&format!(
        "nslookup -type=a www.upstream.example {}",
        UPSTREAMS[0]
    ))?;
    assert!(www.contains("192.0.2.78"), "{www}");

    let service = node.get(&["service", "dns"])?;
    assert!(
        service["status"]["loadBalancer"]["ingress"].is_null(),
        "{service}"
    );
    assert!(lab.lan_host().dns(LB_ADDRESS, NAME, "A").is_err());
    node.set_loadbalancer_ip("default", "dns", LB_ADDRESS)?;
    lab.wait_until(
        "an answer at the load balancer's address",
        Duration::from_secs(20),
        || {
            let (code, records) = lab.lan_host().dns(LB_ADDRESS, NAME, "A")?;
            ensure!(
                code == "NOERROR" && records == [format!("A {ADDRESS}")],
                "{code} {records:?}"
            );
            Ok(Some(()))
        },
    )?;
    // The Pod behind the address reaches itself by it, as a gateway's forwarded packets do.
    ask_udp(node, "dns", LB_ADDRESS)?;
    ask_tcp(node, "dns", LB_ADDRESS)?;
    let objects = ["service/dns", "pod/dns", "pod/client", "configmap/corefile"];
    node.delete("default", &objects)
}
