//! Everything that knows Kubernetes and Headscale: the custom resources, the objects rendered from
//! them, and the client of the control server.

pub mod crd;
pub mod headscale;
pub mod reconcile;
pub mod render;
