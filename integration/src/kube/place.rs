//! Where a node is: its addresses, its files, its names.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The node's name in Kubernetes, and its hostname.
pub const NODE_NAME: &str = "node";

/// Nodes of one lab are numbered from 1, for an address each.
const MAX_NUMBER: u8 = 9;

/// The addresses of a node, all from its number, so that two on one lab differ in each.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    pub(super) internet: String,
    pub(super) lan: String,
    pub(super) pods: String,
    pub(super) services: String,
    /// The Service `kubernetes`: the first of the range, as kube-apiserver takes it.
    pub(super) api: String,
    /// Where Pods look for the cluster's DNS.
    pub(super) dns: String,
}

impl Addresses {
    pub(super) fn of(number: u8) -> Result<Self> {
        if !(1..=MAX_NUMBER).contains(&number) {
            bail!("nodes are numbered from 1 to {MAX_NUMBER}, not {number}");
        }
        Ok(Self {
            internet: format!("203.0.113.{}", 40 + number),
            lan: format!("192.0.2.{}", 40 + number),
            pods: format!("10.244.{number}.0/24"),
            services: format!("10.{}.0.0/16", 95 + number),
            api: format!("10.{}.0.1", 95 + number),
            dns: format!("10.{}.0.10", 95 + number),
        })
    }
}

/// All that the parts' settings are made of.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The node's directory, at the same path inside its mount namespace.
    pub(super) dir: PathBuf,
    pub(super) addresses: Addresses,
    /// The node's control groups, see [`crate::lab::cgroups`].
    pub(super) cgroup: String,
}

impl Place {
    /// A file of the node's directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A part of Kubernetes: a link to the one binary, named after the part.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }

    pub(super) fn bin(&self) -> PathBuf {
        self.dir.join("kubernetes")
    }

    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir.join(format!("{user}.kubeconfig"))
    }

    /// Whether the node's directory is where its mount namespace can show it.
    pub(super) fn is_under_run(dir: &Path) -> bool {
        dir.starts_with("/run")
    }
}
