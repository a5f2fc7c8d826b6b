//! The parts of a node, and the command line of each.

use crate::lab::Cmd;

use super::pki::ADMIN;
use super::place::{NODE_NAME, Place};
use super::settings::KUBELET_ROOT;

/// A daemon of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// containerd; its shims, and so the containers, outlive it.
    Containerd,
    /// kubelet.
    Kubelet,
    /// kube-proxy.
    Proxy,
}

impl Part {
    /// The name of its program, and of its log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
        }
    }

    pub(super) fn command(self, place: &Place) -> Cmd {
        let program = match self {
            Self::Etcd | Self::Containerd => self.name().into(),
            _ => place.program(self.name()),
        };
        let cmd = Cmd::new(program).name(self.name());
        let at = |name: &str| place.file(name).display().to_string();
        let kubeconfig = place.kubeconfig(self.name()).display().to_string();
        match self {
            Self::Etcd => cmd.args([
                "--logger=zap",
                "--data-dir=/var/lib/etcd",
                "--listen-client-urls=http://127.0.0.1:2379",
                "--advertise-client-urls=http://127.0.0.1:2379",
                "--listen-peer-urls=http://127.0.0.1:2380",
                // Nothing here has to outlive the machine.
                "--unsafe-no-fsync",
            ]),
            Self::ApiServer => cmd.args([
                "--etcd-servers=http://127.0.0.1:2379".to_owned(),
                format!("--advertise-address={}", place.addresses.lan),
                format!("--service-cluster-ip-range={}", place.addresses.services),
                "--allow-privileged".to_owned(),
                "--authorization-mode=Node,RBAC".to_owned(),
                "--enable-admission-plugins=NodeRestriction".to_owned(),
                format!("--client-ca-file={}", at("ca.pem")),
                // No aggregated API is served, but the others wait for this one to be named.
                format!("--requestheader-client-ca-file={}", at("ca.pem")),
                "--requestheader-allowed-names=front-proxy-client".to_owned(),
                format!("--tls-cert-file={}", at("apiserver.pem")),
                format!("--tls-private-key-file={}", at("apiserver.key")),
                format!(
                    "--kubelet-client-certificate={}",
                    at(&format!("{ADMIN}.pem"))
                ),
                format!("--kubelet-client-key={}", at(&format!("{ADMIN}.key"))),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
                format!("--service-account-key-file={}", at("service-account.key")),
                format!(
                    "--service-account-signing-key-file={}",
                    at("service-account.key")
                ),
            ]),
            Self::ControllerManager => cmd.args([
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                format!(
                    "--service-account-private-key-file={}",
                    at("service-account.key")
                ),
                format!("--root-ca-file={}", at("ca.pem")),
                "--use-service-account-credentials".to_owned(),
                "--leader-elect=false".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
            ]),
            Self::Scheduler => cmd.args([
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                "--leader-elect=false".to_owned(),
                "--bind-address=127.0.0.1".to_owned(),
            ]),
            Self::Containerd => cmd.args([format!("--config={}", at("containerd.toml"))]),
            Self::Kubelet => cmd.args([
                format!("--config={}", at("kubelet.json")),
                format!("--kubeconfig={kubeconfig}"),
                format!("--hostname-override={NODE_NAME}"),
                format!("--node-ip={}", place.addresses.lan),
                format!("--root-dir={KUBELET_ROOT}"),
                format!("--cert-dir={KUBELET_ROOT}/pki"),
            ]),
            Self::Proxy => cmd.args([format!("--config={}", at("kube-proxy.json"))]),
        }
    }
}
