//! What the tests share.

use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Result, anyhow};
use tsunaro_integration::kube::KubeNode;

use crate::by_hand::{Change, Site};

/// One node on one lab, and the gateway on it: each made when it is first needed.
#[derive(Default)]
pub(crate) struct Shared {
    site: OnceLock<Result<Site, String>>,
    gateway: OnceLock<Result<(), String>>,
    unasked: Mutex<Option<Change>>,
}

impl Shared {
    /// The node, with the cluster's DNS and a Pod of a user, and the tailnet.
    pub(crate) fn site(&self) -> Result<&Site> {
        self.site
            .get_or_init(|| Site::start().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("the node did not start: {error}"))
    }

    pub(crate) fn node(&self) -> Result<&KubeNode> {
        Ok(&self.site()?.node)
    }

    /// The same with a gateway on it, of which all ways are open.
    pub(crate) fn gateway(&self) -> Result<&Site> {
        let site = self.site()?;
        self.gateway
            .get_or_init(|| site.install().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("the gateway was not installed: {error}"))?;
        site.wait_healthy()?;
        Ok(site)
    }

    /// Installs the gateway, for the test that looks how; at most once.
    pub(crate) fn install(&self) -> Result<()> {
        let site = self.site()?;
        let mut first = false;
        self.gateway
            .get_or_init(|| {
                first = true;
                site.install().map_err(|error| format!("{error:#}"))
            })
            .as_ref()
            .map_err(|error| anyhow!("the gateway was not installed: {error}"))?;
        anyhow::ensure!(first, "the gateway is installed already");
        Ok(())
    }

    /// Keeps a change that is on its way for a later test.
    pub(crate) fn keep(&self, change: Change) {
        *self.unasked.lock().unwrap_or_else(PoisonError::into_inner) = Some(change);
    }

    /// The change that was kept.
    pub(crate) fn kept(&self) -> Option<Change> {
        self.unasked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
