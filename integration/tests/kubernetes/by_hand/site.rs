//! A cluster of one node with all that the gateway finds there, and the gateway's own objects.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tsunaro_integration::kube::{BUSYBOX, KubeNode, KubeOptions, tailscale};
use tsunaro_integration::lab::{
    Asking, CONTROL, CONTROL_NAME, CONTROL_URL, DnsMonitor, HsNode, KeyOptions, LB_ADDRESS, Lab,
    LabOptions, Start,
};
use tsunaro_integration::oci::oci_image;
use tsunaro_integration::{OWN_IMAGE, own_image};

use crate::POD_READY;

/// The names of the worked example.
pub(super) const ZONE: &str = "prod-1.tailnet.example.internal";
pub(super) const NAMESPACE: &str = "tsunaro-system";
pub(super) const NAME: &str = "prod-1-gw";
pub(super) const POD: &str = "prod-1-gw-0";
/// What a name of the zone that does not exist gets.
pub(super) const WILDCARD: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 80);

pub(crate) const TAILSCALE_IMAGE: &str = "ghcr.io/tailscale/tailscale:v1.102.4";
pub(crate) const COREDNS_IMAGE: &str = "docker.io/coredns/coredns:1.14.7";

/// The manifests, in the order in which their README has them.
const FILES: [&str; 3] = ["1-namespace.yaml", "2-before.yaml", "3-gateway.yaml"];

/// Node and tailnet.
pub(crate) struct Site {
    // First, so that it ends before the bridges that it is plugged into.
    pub(crate) node: KubeNode,
    pub(crate) lab: Lab,
    /// The gateway's Service for the cluster.
    pub(super) dns_ip: String,
    /// The number of seconds that the app's Pod sleeps, by which its process is found.
    sleep: String,
}

impl Site {
    /// A cluster with its DNS and a Pod of a user, a tailnet with a peer; no gateway yet.
    pub(crate) fn start() -> Result<Self> {
        let image = own_image()?;
        let lab = Lab::start(LabOptions {
            gateways: [Start::Off, Start::Off],
            peer: Start::Daemon,
            peer_accepts_dns: true,
            split_dns: vec![(ZONE.to_owned(), vec![LB_ADDRESS.to_owned()])],
            ..LabOptions::default()
        })?;
        // It takes its time for the first login, while the node starts.
        let key = KeyOptions::tagged("tag:peer");
        lab.peer()
            .login(&lab.headscale().rest().preauth_key(&key)?)?;
        let node = KubeNode::start(KubeOptions {
            lab: Some(&lab),
            ..KubeOptions::default()
        })?;
        node.import_image(&image)?;
        node.load_image(&tailscale(TAILSCALE_IMAGE, lab.peers(), lab.peer().ca())?)?;
        let coredns = &lab.peers().coredns;
        node.load_image(&oci_image(
            COREDNS_IMAGE,
            &[("/coredns", coredns)],
            &["/coredns"],
        ))?;
        let cluster_dns = node.cluster_dns().to_owned();
        // At its usual place in this cluster's range of Services.
        let dns_ip = node.service_address(54);
        let sleep = (1_000_000 + std::process::id()).to_string();
        let objects = include_str!("cluster.yaml")
            .replace("ZONE", ZONE)
            .replace("GATEWAY_DNS", &dns_ip)
            .replace("CLUSTER_DNS", &cluster_dns)
            .replace("CONTROL_NAME", CONTROL_NAME)
            .replace("CONTROL_ADDRESS", CONTROL)
            .replace("COREDNS_IMAGE", COREDNS_IMAGE)
            .replace("BUSYBOX", BUSYBOX)
            .replace("SECONDS", &sleep);
        node.apply(&objects)?;
        node.wait_for(
            "kube-system",
            "deployment/coredns",
            "condition=Available",
            POD_READY,
        )?;
        node.wait_pod_ready("billing", "app", POD_READY)?;
        lab.peer().wait_running()?;
        Ok(Self {
            node,
            lab,
            dns_ip,
            sleep,
        })
    }

    /// The manifests, edited as their README says: the control server's address, and the Service's,
    /// which must lie in the range of the cluster.
    pub(super) fn manifests(&self) -> Result<tempfile::TempDir> {
        let dir = tempfile::tempdir()?;
        for file in FILES {
            let text = std::fs::read_to_string(manifest_dir().join(file))?
                .replace("https://headscale.example.org", CONTROL_URL)
                .replace("10.96.0.54", &self.dns_ip);
            for image in text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("image: "))
            {
                ensure!(
                    [OWN_IMAGE, TAILSCALE_IMAGE].contains(&image),
                    "the image {image} is not there"
                );
            }
            std::fs::write(dir.path().join(file), text)?;
        }
        Ok(dir)
    }

    /// Applies everything as docs/install-by-hand.md says, with a fresh key, and gives the
    /// LoadBalancer its address.
    pub(crate) fn install(&self) -> Result<()> {
        let manifests = self.manifests()?;
        let [namespace, before, gateway] = FILES.map(|file| manifests.path().join(file));
        let apply = |files: &[&PathBuf]| {
            let mut args = vec!["apply", "--server-side"];
            for file in files {
                args.extend(["-f", text(file)?]);
            }
            self.kubectl(&args)
        };
        apply(&[&namespace])?;
        let key = format!("--from-literal=authkey={}", self.fresh_key()?);
        let secret = format!("{NAME}-authkey");
        self.kubectl(&[
            "-n", NAMESPACE, "create", "secret", "generic", &secret, &key,
        ])?;
        apply(&[&before, &gateway])?;
        self.node.set_loadbalancer_ip(NAMESPACE, NAME, LB_ADDRESS)
    }

    /// Waits until DNS and packets go all their ways.
    pub(crate) fn wait_healthy(&self) -> Result<()> {
        self.node
            .wait_pod_ready(NAMESPACE, POD, Duration::from_secs(120))?;
        self.wait_condition("RoutesAdvertised", "True/Advertised")?;
        self.wait("a ping of the peer to the LAN", || {
            self.lab
                .peer()
                .ping_once(tsunaro_integration::lab::LAN_HOST)?;
            let (code, _) = self
                .lab
                .peer()
                .dns(LB_ADDRESS, &format!("router.{ZONE}"), "A")?;
            ensure!(code == "NOERROR", "{code}");
            self.cluster_answers().map(Some)
        })
    }

    /// Waits at most two minutes; a timeout shows the logs.
    pub(super) fn wait<T>(
        &self,
        what: &str,
        mut probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let waited = tsunaro_integration::wait_until(what, Duration::from_secs(120), &mut probe);
        waited.map_err(|error| error.context(self.logs()))
    }

    /// The ends of the logs of the gateway's containers, for an error.
    pub(super) fn logs(&self) -> String {
        let mut all = String::new();
        for container in ["tailscale", "agent"] {
            let args = ["logs", "-n", NAMESPACE, POD, "-c", container, "--tail=25"];
            match self.node.kubectl(&args) {
                Ok(output) => {
                    all += &format!("--- {container}\n{}{}", output.stdout, output.stderr);
                }
                Err(error) => all += &format!("--- {container}: {error:#}\n"),
            }
        }
        all
    }

    /// A single-use key with the gateway's tag.
    pub(super) fn fresh_key(&self) -> Result<String> {
        let options = KeyOptions::tagged("tag:fabric");
        self.lab.headscale().rest().preauth_key(&options)
    }

    /// kubectl, which must succeed; what it prints.
    pub(super) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.node.kubectl(args)?.ok()
    }

    /// The gateway at Headscale; an error while there is none, or more than one.
    pub(super) fn hs_node(&self) -> Result<HsNode> {
        let nodes = self.lab.headscale().rest().nodes()?;
        let mut ours: Vec<HsNode> = nodes
            .into_iter()
            .filter(|node| node.name.starts_with(NAME))
            .collect();
        match (ours.pop(), ours.len()) {
            (Some(node), 0) => Ok(node),
            (None, _) => bail!("no {NAME} at Headscale"),
            (Some(_), more) => bail!("{} nodes of {NAME} at Headscale", more + 1),
        }
    }

    /// The agent's report.
    pub(super) fn status(&self) -> Result<Value> {
        let (code, body) = self.http("status")?;
        ensure!(code == 200, "/status answered {code}");
        serde_json::from_str(&body).context("the status is no JSON")
    }

    /// GETs a path of the agent from the node.
    pub(super) fn http(&self, path: &str) -> Result<(u16, String)> {
        let ip = self.node.pod_ip(NAMESPACE, POD)?;
        self.node
            .machine()
            .http_get(&format!("http://{ip}:9181/{path}"))
    }

    /// A condition of the report, as `True/Advertised: its message`.
    pub(super) fn condition(&self, kind: &str) -> Result<String> {
        condition_of(&self.status()?, kind)
    }

    /// Waits until a condition begins so.
    pub(super) fn wait_condition(&self, kind: &str, expected: &str) -> Result<String> {
        self.wait(&format!("{kind}={expected}"), || {
            let got = self.condition(kind)?;
            ensure!(got.starts_with(expected), "it is {got}");
            Ok(Some(got))
        })
    }

    /// Whether Kubernetes says that the Pod is ready.
    pub(super) fn is_ready(&self) -> Result<bool> {
        self.node.is_pod_ready(NAMESPACE, POD)
    }

    /// The pids of this node's processes whose command line begins so, as the machine counts.
    pub(super) fn processes(&self, words: &[&str]) -> Result<Vec<u32>> {
        let wanted: String = words.iter().map(|word| format!("{word}\0")).collect();
        let mut pids = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            let Some(pid) = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
            else {
                continue;
            };
            // What has just ended has none of these.
            let read = |file: &str| std::fs::read(path.join(file)).unwrap_or_default();
            let cgroup = String::from_utf8_lossy(&read("cgroup")).into_owned();
            if cgroup.contains(self.node.id()) && read("cmdline").starts_with(wanted.as_bytes()) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    /// The only one of these.
    pub(super) fn process(&self, words: &[&str]) -> Result<u32> {
        match self.processes(words)?.as_slice() {
            [only] => Ok(*only),
            other => bail!("not one process of {words:?}: {other:?}"),
        }
    }

    /// Asks the cluster's DNS and the gateway's Service once each, from the node.
    pub(super) fn cluster_answers(&self) -> Result<()> {
        for server in [self.node.cluster_dns(), &self.dns_ip] {
            let name = format!("router.{ZONE}");
            let (code, _) = self.node.machine().dns(server, &name, "A")?;
            ensure!(code == "NOERROR", "{server}: {code}");
        }
        Ok(())
    }

    /// Asks a server from the app's Pod, all the time: the cluster's DNS, or the gateway's Service.
    pub(super) fn ask_from_app(&self, server: &str) -> Result<DnsMonitor> {
        let pid = self.process(&["sleep", &self.sleep])?;
        let namespace = PathBuf::from(format!("/proc/{pid}/ns/net"));
        DnsMonitor::start(&namespace, asking(server)?)
    }

    /// Asks at the load balancer's address from the tailnet's peer, all the time.
    pub(super) fn ask_from_peer(&self) -> Result<DnsMonitor> {
        let namespace = Path::new("/run/netns").join(self.lab.peer().namespace());
        DnsMonitor::start(&namespace, asking(LB_ADDRESS)?)
    }

    /// Replaces a file of the agent's ConfigMap.
    pub(super) fn patch_config(&self, key: &str, value: &str) -> Result<()> {
        let patch = format!("--patch={}", json!({ "data": { key: value } }));
        let map = format!("{NAME}-agent");
        self.kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "configmap",
            &map,
            "--type=merge",
            &patch,
        ])?;
        Ok(())
    }

    /// A file of the agent's ConfigMap.
    pub(super) fn config(&self, key: &str) -> Result<String> {
        let map = format!("{NAME}-agent");
        let map = self.node.get(&["-n", NAMESPACE, "configmap", &map])?;
        let text = map["data"][key].as_str();
        Ok(text.with_context(|| format!("no {key}"))?.to_owned())
    }

    /// Waits until kubelet has looked so many times more whether this Pod is ready; of several
    /// whose names begin so, at each.
    pub(super) fn wait_probes(&self, namespace: &str, pod: &str, more: u64) -> Result<()> {
        let probes = || probes(&self.node.kubelet_metrics("probes")?, namespace, pod);
        // Of a kubelet that has just started there are none.
        let before = probes().unwrap_or_default();
        self.wait(&format!("{more} more probes of {pod}"), || {
            let now = probes()?;
            ensure!(now >= before + more, "{now} after {before}");
            Ok(Some(()))
        })
    }

    /// Deletes the Pod, and waits for another one, which may not get ready.
    pub(super) fn replace_pod(&self) -> Result<()> {
        self.replace(&[])
    }

    /// The same without a farewell.
    pub(super) fn replace_pod_at_once(&self) -> Result<()> {
        self.replace(&["--grace-period=1"])
    }

    fn replace(&self, how: &[&str]) -> Result<()> {
        let uid = self.node.pod_uid(NAMESPACE, POD)?;
        let delete = ["-n", NAMESPACE, "delete", "pod", POD, "--wait=false"];
        self.kubectl(&[&delete[..], how].concat())?;
        self.wait("another Pod", || {
            Ok((self.node.pod_uid(NAMESPACE, POD)? != uid).then_some(()))
        })
    }
}

/// `True/Advertised: its message`.
pub(super) fn condition_of(status: &Value, kind: &str) -> Result<String> {
    let conditions = status["conditions"].as_array().context("no conditions")?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .context("no such condition")?;
    let text = |field: &str| found[field].as_str().unwrap_or_default();
    Ok(format!(
        "{}/{}: {}",
        text("status"),
        text("reason"),
        text("message")
    ))
}

/// How often kubelet has looked whether Pods are ready: the smallest number of one container.
fn probes(metrics: &str, namespace: &str, pod: &str) -> Result<u64> {
    let mut counts = std::collections::BTreeMap::new();
    let (namespace, pod) = (
        format!("namespace=\"{namespace}\""),
        format!(",pod=\"{pod}"),
    );
    for line in metrics.lines() {
        let Some((labels, count)) = line
            .strip_prefix("prober_probe_total{")
            .and_then(|rest| rest.split_once("} "))
        else {
            continue;
        };
        let wanted = [namespace.as_str(), &pod, "probe_type=\"Readiness\""];
        if wanted.iter().all(|part| labels.contains(part)) {
            let (of, _result) = labels.split_once(",result=").unwrap_or((labels, ""));
            *counts.entry(of.to_owned()).or_insert(0) += count.parse::<f64>()? as u64;
        }
    }
    counts.into_values().min().context("no probe yet")
}

fn asking(server: &str) -> Result<Asking> {
    Ok(Asking {
        server: format!("{server}:53").parse()?,
        zone: ZONE.to_owned(),
        address: WILDCARD,
    })
}

fn manifest_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/manifests")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
