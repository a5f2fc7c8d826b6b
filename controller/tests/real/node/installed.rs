//! The controller installed on a real node as docs/controller.md says: its own image, its Deployment
//! with its own rights, a gateway whose Pod logs in.

mod changes;
mod created;
mod deleted;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tsunaro_integration::lab::{CONTROL_URL, LB_ADDRESS};

use crate::POD_READY;
use crate::site::{NAME, NAMESPACE, Site};

/// The policy of a tailnet that knows nothing of gateways yet.
const BASE_POLICY: &str = r#"{
  // The peer of the lab.
  "tagOwners": { "tag:peer": [] },
  "acls": [{ "action": "accept", "src": ["*"], "dst": ["*:*"] }],
}"#;
const CONTROLLER: &str = "tsunaro-controller";
/// Its Pods.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/name=tsunaro-controller";

/// A cluster with the controller and a tailnet of the worked example; no gateway yet.
pub(crate) struct Installed {
    pub(crate) site: Site,
}

impl Installed {
    pub(crate) fn start() -> Result<Self> {
        let site = Site::start()?;
        site.lab.headscale().rest().set_policy(BASE_POLICY)?;
        let deploy = root().join("deploy");
        let crds = path(&deploy.join("crds"))?;
        let namespace = path(&deploy.join("manifests/1-namespace.yaml"))?;
        let controller = path(&deploy.join("controller"))?;
        site.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            &crds,
            "-f",
            &namespace,
            "-f",
            &controller,
        ])?;
        let api_key = site.lab.headscale().rest().api_key();
        site.node.apply(
            &json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": { "name": "headscale-api", "namespace": NAMESPACE },
                "stringData": { "apiKey": api_key },
            })
            .to_string(),
        )?;
        site.node.apply(
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "tailnet-policy", "namespace": NAMESPACE },
                "data": { "policy.hujson": BASE_POLICY },
            })
            .to_string(),
        )?;
        site.node.apply(
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "platform" } })
                .to_string(),
        )?;
        site.node.apply(&tailnet(&site)?)?;
        let deployment = format!("deployment/{CONTROLLER}");
        site.node
            .wait_for(NAMESPACE, &deployment, "condition=Available", POD_READY)
            .context(logs_of_controller(&site))?;
        Ok(Self { site })
    }

    /// Applies the worked example, changed as given.
    pub(crate) fn apply(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let text = example("tailnetgateway.yaml")?.replace("10.96.0.54", &self.site.dns_ip);
        self.site.node.apply(&change(text))
    }

    /// Applies it, gives the Service its address, and waits until all is well.
    pub(crate) fn apply_and_wait(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        self.apply(change)?;
        self.site.wait("the LoadBalancer Service", || {
            self.assign()?;
            Ok(Some(()))
        })?;
        self.wait_well()
    }

    /// As a load balancer would.
    pub(crate) fn assign(&self) -> Result<()> {
        self.site
            .node
            .set_loadbalancer_ip(NAMESPACE, NAME, LB_ADDRESS)
    }

    pub(crate) fn wait_well(&self) -> Result<()> {
        for (kind, expected) in WELL {
            self.wait_condition(kind, expected)?;
        }
        Ok(())
    }

    pub(crate) fn gateway(&self) -> Result<Value> {
        self.site.node.get(&["tailnetgateway", NAME])
    }

    /// A condition of the gateway, as `True/Approved`, and its message.
    pub(crate) fn condition(&self, kind: &str) -> Result<(String, String)> {
        condition_of(&self.gateway()?, kind)
    }

    pub(crate) fn wait_condition(&self, kind: &str, expected: &str) -> Result<String> {
        self.wait(&format!("{kind}={expected}"), || {
            let (is, message) = self.condition(kind)?;
            ensure!(is == expected, "{is}: {message}");
            Ok(Some(message))
        })
    }

    /// Waits at most two minutes; a timeout shows the logs.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let waited = tsunaro_integration::wait_until(what, Duration::from_secs(120), probe);
        waited.map_err(|error| error.context(self.logs()))
    }

    pub(crate) fn logs(&self) -> String {
        format!("{}{}", self.site.logs(), logs_of_controller(&self.site))
    }

    /// The controller's lines as JSON.
    pub(crate) fn log_lines(&self) -> Result<Vec<Value>> {
        let selector = format!("--selector={SELECTOR}");
        let text = self
            .site
            .kubectl(&["logs", "-n", NAMESPACE, &selector, "--tail=-1"])?;
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("no JSON: {line}")))
            .collect::<Result<Vec<Value>>>()?;
        // Of all replicas.
        lines.sort_by_key(|line| line["timestamp"].as_str().map(str::to_owned));
        Ok(lines)
    }
}

/// What the worked example promises of a gateway that is well.
pub(crate) const WELL: [(&str, &str); 9] = [
    ("Ready", "True/FreshRuntimeReady"),
    ("Accepted", "True/Accepted"),
    ("ResolvedRefs", "True/Resolved"),
    ("RoutesInSync", "True/Approved"),
    ("WorkloadCurrent", "True/PodCurrent"),
    ("ServiceReady", "True/LoadBalancerAssigned"),
    ("DNSReady", "True/Serving"),
    ("ClusterDNSForward", "Unknown/ExternallyManaged"),
    ("StaleNodes", "Unknown/ExternallyManaged"),
];

pub(crate) fn condition_of(object: &Value, kind: &str) -> Result<(String, String)> {
    let conditions = object["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .context("no such condition")?;
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let is = format!("{}/{}", text("status"), text("reason"));
    Ok((is, text("message")))
}

/// The example's Tailnet, site, egress and ingress, edited as a user would.
fn tailnet(site: &Site) -> Result<String> {
    let ca = std::fs::read_to_string(site.lab.peer().ca())?;
    let ca: String = ca.lines().map(|line| format!("      {line}\n")).collect();
    let text = example("tailnet.yaml")?
        .replace(
            "    url: https://headscale.example.org\n",
            &format!("    url: {CONTROL_URL}\n    caBundle: |\n{ca}"),
        )
        .replace(
            "    mode: Observe\n",
            "    mode: Apply\n    baseConfigMapRef: { name: tailnet-policy }\n",
        );
    ensure!(
        text.contains("caBundle") && text.contains("Apply"),
        "the example has another form: {text}"
    );
    Ok(text)
}

fn example(file: &str) -> Result<String> {
    let path = root().join("docs/examples/prod-1/kubernetes").join(file);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn logs_of_controller(site: &Site) -> String {
    let selector = format!("--selector={SELECTOR}");
    let args = ["logs", "-n", NAMESPACE, &selector, "--tail=40"];
    let pods = site.node.kubectl(&["get", "pods", "-A"]);
    let said = site.node.kubectl(&args);
    format!(
        "--- controller\n{}\n{}",
        pods.map(|output| output.stdout).unwrap_or_default(),
        said.map(|output| output.stdout + &output.stderr)
            .unwrap_or_default()
    )
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn path(path: &Path) -> Result<String> {
    Ok(path.to_str().context("the path is not UTF-8")?.to_owned())
}
