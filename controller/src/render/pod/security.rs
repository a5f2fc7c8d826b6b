//! Security contexts.

use k8s_openapi::api::core::v1::{
    Capabilities, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl,
};

/// The user and group of the agent: `nobody`, tailscaled's operator.
const NOBODY: i64 = 65534;

/// The one sysctl is on Kubernetes' list of safe ones and lets the agent bind port 53 without a
/// capability. `net.ipv4.ip_forward` is not on that list.
pub(super) fn pod() -> PodSecurityContext {
    PodSecurityContext {
        seccomp_profile: Some(seccomp()),
        sysctls: Some(vec![Sysctl {
            name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
            value: "0".to_owned(),
        }]),
        ..PodSecurityContext::default()
    }
}

/// The agent and the install container.
pub(super) fn unprivileged() -> SecurityContext {
    SecurityContext {
        run_as_user: Some(NOBODY),
        run_as_group: Some(NOBODY),
        run_as_non_root: Some(true),
        ..confined(None)
    }
}

/// tailscaled: root with the one capability that its device, addresses and rules need.
pub(super) fn network_admin() -> SecurityContext {
    SecurityContext {
        run_as_user: Some(0),
        run_as_group: Some(0),
        run_as_non_root: Some(false),
        ..confined(Some("NET_ADMIN"))
    }
}

fn confined(capability: Option<&str>) -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: capability.map(|name| vec![name.to_owned()]),
        }),
        seccomp_profile: Some(seccomp()),
        ..SecurityContext::default()
    }
}

fn seccomp() -> SeccompProfile {
    SeccompProfile {
        type_: "RuntimeDefault".to_owned(),
        ..SeccompProfile::default()
    }
}
