//! Everything that knows Kubernetes and Headscale: the custom resources, the objects rendered from
//! them, the client of the control server, and the reconciler.

pub mod cluster;
pub mod crd;
pub mod handover;
pub mod headscale;
pub mod lease;
pub mod metrics;
pub mod reconcile;
pub mod render;
pub mod run;
pub mod tasks;
pub mod term;
