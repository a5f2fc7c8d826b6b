//! A Kubernetes node of one machine, real in all its parts and gone with the test.
//!
//! [`KubeNode::start`] runs etcd, kube-apiserver, controller-manager, scheduler, containerd,
//! kubelet and kube-proxy in network, mount, PID, UTS and IPC namespaces of their own. Given a
//! [`Lab`](crate::lab::Lab), the node is plugged into the lab's bridges: its Pods reach the
//! control server and the site's LAN, and the LAN reaches its load balancer addresses.
//!
//! ```no_run
//! use std::time::Duration;
//! use tsunaro_integration::kube::{BUSYBOX, KubeNode, KubeOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let node = KubeNode::start(KubeOptions::default())?;
//! node.apply(&format!(
//!     "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: \
//!      [{{name: c, image: '{BUSYBOX}', imagePullPolicy: Never, command: [sleep, '600']}}]}}}}"
//! ))?;
//! node.wait_pod_ready("default", "p", Duration::from_secs(30))?;
//! println!("{}", node.exec("default", "p", "c", &["ip", "address"])?.ok()?);
//! # Ok(())
//! # }
//! ```

mod daemon;
mod handle;
mod held;
mod images;
mod inside;
mod node;
mod part;
mod pki;
mod place;
mod settings;

pub use handle::KubeHandle;
pub use held::{Held, end_start, hold, holder, remove_killed};
pub use images::{BUSYBOX, PAUSE, busybox, tailscale};
pub use node::{KubeNode, KubeOptions};
pub use part::Part;
pub use place::NODE_NAME;
