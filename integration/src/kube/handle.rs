//! What a test, or a person, does with a running node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::inside::Inside;
use super::pki::ADMIN;
use super::place::{NODE_NAME, Place};
use super::settings::CONTAINERD_SOCKET;
use crate::Wait;
use crate::lab::{Cmd, Node, Output};
use crate::oci::OciImage;

/// A running node. Objects are named by their namespace and name.
#[derive(Debug, Clone)]
pub struct KubeHandle {
    pub(super) machine: Node,
    pub(super) inside: Inside,
    pub(super) place: Place,
    /// Machines of the lab that load balancer addresses are routed from.
    pub(super) neighbours: Vec<Node>,
}

impl KubeHandle {
    /// The node as a machine: programs that run there see its network and the
    /// machine's files. The API answers it at `https://127.0.0.1:6443`.
    #[must_use]
    pub fn machine(&self) -> &Node {
        &self.machine
    }

    /// Runs a short command among the node's own files and processes.
    pub fn run_inside(&self, cmd: impl Into<Cmd>) -> Result<Output> {
        self.inside.run(&cmd.into())
    }

    /// The administrator's kubeconfig, for programs on [`Self::machine`].
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.kubeconfig(ADMIN)
    }

    /// kubectl with these arguments, as the administrator.
    #[must_use]
    pub fn kubectl_cmd(&self, args: &[&str]) -> Cmd {
        Cmd::new(self.place.program("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args.iter().copied())
    }

    /// Runs `kubectl ARGS`, at most a minute.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.machine.run(self.kubectl_cmd(args))
    }

    /// Applies objects, YAML or JSON, by server-side apply.
    pub fn apply(&self, objects: &str) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), objects)?;
        let path = file
            .path()
            .to_str()
            .context("the temporary path is not UTF-8")?;
        let apply = ["apply", "--server-side", "--field-manager=lab", "-f", path];
        self.kubectl(&apply)?.ok()?;
        Ok(())
    }

    /// `kubectl get … -o json`.
    pub fn get(&self, args: &[&str]) -> Result<Value> {
        let args = [&["get", "--output=json"], args].concat();
        serde_json::from_str(&self.kubectl(&args)?.ok()?).context("kubectl's JSON")
    }

    /// GETs a path of the API, as the administrator. It costs a tenth of what kubectl does.
    pub fn api_get(&self, path: &str) -> Result<String> {
        let at = |name: &str| self.place.file(name);
        let curl = Cmd::new("curl")
            .args(["--silent", "--show-error", "--fail-with-body"])
            .args(["--max-time", "10", "--cacert"])
            .arg(at("ca.pem"))
            .arg("--cert")
            .arg(at(&format!("{ADMIN}.pem")))
            .arg("--key")
            .arg(at(&format!("{ADMIN}.key")))
            .arg(format!("https://127.0.0.1:6443{path}"));
        self.machine.run(curl)?.ok()
    }

    /// A Pod.
    pub fn pod(&self, namespace: &str, name: &str) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        serde_json::from_str(&self.api_get(&path)?).context("the API server's JSON")
    }

    /// One of kubelet's pages of metrics: `probes`, `resource`, `cadvisor`.
    pub fn kubelet_metrics(&self, page: &str) -> Result<String> {
        self.api_get(&format!("/api/v1/nodes/{NODE_NAME}/proxy/metrics/{page}"))
    }

    /// Deletes objects, without waiting for their end.
    pub fn delete(&self, namespace: &str, objects: &[&str]) -> Result<()> {
        let how = ["delete", "--namespace", namespace, "--wait=false"];
        self.kubectl(&[&how[..], objects].concat())?.ok()?;
        Ok(())
    }

    /// Loads an OCI archive into containerd. Pods give it by the name in its
    /// annotation `io.containerd.image.name`, with `imagePullPolicy: Never`.
    pub fn import_image(&self, archive: &Path) -> Result<()> {
        let ctr = |args: &[&str]| -> Result<String> {
            let cmd =
                Cmd::new("ctr").args(["--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]);
            self.run_inside(
                cmd.args(args.iter().copied())
                    .timeout(Duration::from_secs(120)),
            )?
            .ok()
        };
        let path = archive
            .to_str()
            .context("the archive's path is not UTF-8")?;
        let said = ctr(&["images", "import", path])?;
        let names: Vec<&str> = said
            .lines()
            .filter_map(|line| line.strip_prefix("unpacking ")?.split(' ').next())
            .collect();
        if names.is_empty() {
            bail!("containerd found no image in {path}: {said}");
        }
        for name in names {
            // kubelet sees an image only when containerd's CRI has marked it as its own.
            let filter = format!("name=={name}");
            Wait::new(format!("the CRI to know {name}"), Duration::from_secs(20)).until(|| {
                let list = ctr(&["images", "list", &filter])?;
                Ok(list
                    .contains("io.cri-containerd.image=managed")
                    .then_some(()))
            })?;
        }
        Ok(())
    }

    /// Makes an image and loads it.
    pub fn load_image(&self, image: &OciImage) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        image.write(file.path())?;
        // The node's own /run and /var hide nothing of the temporary directory.
        self.import_image(file.path())
            .with_context(|| format!("load {}", image.name()))
    }

    /// Waits until an object exists and has a condition, as `condition=Ready`.
    pub fn wait_for(
        &self,
        namespace: &str,
        object: &str,
        what: &str,
        timeout: Duration,
    ) -> Result<()> {
        let limit = format!("--timeout={}s", timeout.as_secs().max(1));
        for what in ["create", what] {
            let condition = format!("--for={what}");
            let cmd =
                self.kubectl_cmd(&["wait", "--namespace", namespace, object, &condition, &limit]);
            let output = self
                .machine
                .run(cmd.timeout(timeout + Duration::from_secs(15)))?;
            if !output.success() {
                let describe = self.kubectl(&["describe", "--namespace", namespace, object])?;
                bail!(
                    "{object} in {namespace}: {}\n{}",
                    output.stderr.trim(),
                    describe.stdout
                );
            }
        }
        Ok(())
    }

    /// Waits until a Pod of this name is ready; on a timeout the error describes it.
    pub fn wait_pod_ready(&self, namespace: &str, pod: &str, timeout: Duration) -> Result<()> {
        let ready = Wait::new(format!("the Pod {pod} to be ready"), timeout)
            .every(Duration::from_millis(100))
            .until(|| Ok(self.is_pod_ready(namespace, pod)?.then_some(())));
        ready.or_else(|error| {
            let describe = self.kubectl(&["describe", "--namespace", namespace, "pod", pod])?;
            Err(error.context(describe.stdout))
        })
    }

    /// Whether Kubernetes says that a Pod is ready.
    pub fn is_pod_ready(&self, namespace: &str, pod: &str) -> Result<bool> {
        let pod = self.pod(namespace, pod)?;
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        Ok(conditions.into_iter().flatten().any(|condition| {
            let field = |name| condition.get(name).and_then(Value::as_str);
            field("type") == Some("Ready") && field("status") == Some("True")
        }))
    }

    /// Waits until the Pod of this name is another one than that with `old_uid`, and ready.
    pub fn wait_pod_recreated(
        &self,
        namespace: &str,
        pod: &str,
        old_uid: &str,
        timeout: Duration,
    ) -> Result<()> {
        Wait::new(format!("another Pod {pod}"), timeout)
            .every(Duration::from_millis(200))
            .until(|| Ok((self.pod_uid(namespace, pod)? != old_uid).then_some(())))?;
        self.wait_pod_ready(namespace, pod, timeout)
    }

    /// A Pod's address.
    pub fn pod_ip(&self, namespace: &str, pod: &str) -> Result<String> {
        self.pod_field(namespace, pod, "/status/podIP")
    }

    /// A Pod's UID.
    pub fn pod_uid(&self, namespace: &str, pod: &str) -> Result<String> {
        self.pod_field(namespace, pod, "/metadata/uid")
    }

    fn pod_field(&self, namespace: &str, pod: &str, pointer: &str) -> Result<String> {
        let pod_json = self.pod(namespace, pod)?;
        let field = pod_json.pointer(pointer).and_then(Value::as_str);
        Ok(field
            .with_context(|| format!("the Pod {pod} has no {pointer}"))?
            .to_owned())
    }

    /// Runs a command in a container.
    pub fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        command: &[&str],
    ) -> Result<Output> {
        let exec = [
            "exec",
            "--namespace",
            namespace,
            pod,
            "--container",
            container,
            "--",
        ];
        self.kubectl(&[&exec[..], command].concat())
    }

    /// What a container has written.
    pub fn logs(&self, namespace: &str, pod: &str, container: &str) -> Result<String> {
        self.kubectl(&[
            "logs",
            "--namespace",
            namespace,
            pod,
            "--container",
            container,
        ])?
        .ok()
    }

    /// Gives a Service of type LoadBalancer its address, as an implementation of
    /// load balancers would: in the status, and by routes to this node from the
    /// lab's LAN host and from the machine of its upstream resolvers.
    pub fn set_loadbalancer_ip(&self, namespace: &str, service: &str, address: &str) -> Result<()> {
        let patch = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } });
        let patch = format!("--patch={patch}");
        let status = ["patch", "--subresource=status", "--type=merge", &patch];
        self.kubectl(&[&status[..], &["--namespace", namespace, "service", service]].concat())?
            .ok()?;
        for neighbour in &self.neighbours {
            neighbour.sh(&format!(
                "ip route replace {address} via {}",
                self.lan_address()
            ))?;
        }
        Ok(())
    }

    /// The node's address on the site's LAN, which is its address in Kubernetes.
    #[must_use]
    pub fn lan_address(&self) -> &str {
        &self.place.addresses.lan
    }

    /// The node's address on the "internet".
    #[must_use]
    pub fn internet_address(&self) -> &str {
        &self.place.addresses.internet
    }

    /// Where Pods look for the cluster's DNS: a test's DNS Service takes this ClusterIP.
    #[must_use]
    pub fn cluster_dns(&self) -> &str {
        &self.place.addresses.dns
    }

    /// An address for a Service, by its last part: 1 and 10 are taken. The API server gives these, the first
    /// 256 of the range, to no Service that asks for none.
    #[must_use]
    pub fn service_address(&self, last: u8) -> String {
        let range = &self.place.addresses.services;
        let network = range.strip_suffix(".0/16").unwrap_or(range);
        format!("{network}.{last}")
    }

    /// The range of the Pods' addresses.
    #[must_use]
    pub fn pod_range(&self) -> &str {
        &self.place.addresses.pods
    }

    /// The node's directory: the logs of its parts, its certificates.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.place.dir
    }
}
