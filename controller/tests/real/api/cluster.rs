//! The API server with our definitions, and kubectl.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tsunaro_integration::kube::{KubeNode, KubeOptions};
use tsunaro_integration::lab::Output;

use crate::applied::Applied;

/// How long a definition may take to be served on a loaded machine; it takes about a second.
const ESTABLISHED: Duration = Duration::from_secs(60);

/// A running API server that serves deploy/crds.
pub(crate) struct Cluster {
    node: KubeNode,
}

impl Cluster {
    pub(crate) fn start() -> Result<Self> {
        let node = KubeNode::start_control_plane(KubeOptions::default())?;
        let cluster = Self { node };
        let definitions = in_repository("deploy/crds");
        cluster.kubectl(&["apply", "--filename", &definitions])?;
        for plural in [
            "tailnets",
            "tailnetgateways",
            "tailnetegresses",
            "tailnetingresses",
            "tailnetsites",
        ] {
            let name = format!("customresourcedefinition/{plural}.tsunaro.io");
            let node = &cluster.node;
            node.wait_for("default", &name, "condition=Established", ESTABLISHED)?;
        }
        Ok(cluster)
    }

    /// Runs kubectl, whatever comes of it.
    pub(crate) fn try_kubectl(&self, args: &[&str]) -> Result<Output> {
        self.node.kubectl(args)
    }

    /// What a successful `kubectl ARGS` prints.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.try_kubectl(args)?.ok()
    }

    /// `kubectl get ARGS -o json`.
    pub(crate) fn get(&self, args: &[&str]) -> Result<Value> {
        self.node.get(args)
    }

    /// One `kubectl apply OPTIONS` of many objects, and what became of each.
    pub(crate) fn apply(&self, options: &[&str], objects: &[Value]) -> Result<Applied> {
        let directory = tempfile::tempdir()?;
        for (index, object) in objects.iter().enumerate() {
            let path = directory.path().join(Applied::file_name(index));
            std::fs::write(path, object.to_string())?;
        }
        let path = directory
            .path()
            .to_str()
            .context("the temporary path is not UTF-8")?;
        let output = self.try_kubectl(&[&["apply", "--filename", path][..], options].concat())?;
        Ok(Applied::read(&output, objects.len()))
    }
}

/// A path of the repository.
pub(crate) fn in_repository(path: &str) -> String {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", path].iter().collect();
    root.display().to_string()
}
