//! The agent.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::Input;
use super::super::paths::{
    AGENT_BINARY, AGENT_CONFIG_DIR, AGENT_CONFIG_FILE, HOSTS_DIR, KEY_DIR, SOCKET_DIR, SOCKET_FILE,
    in_dir,
};
use super::{
    DNS_PORT, DNS_TCP_PORT_NAME, DNS_UDP_PORT_NAME, HTTP_PORT, HTTP_PORT_NAME, agent_image,
    read_only, requests, security, variable, volumes, words,
};

/// Failed probes in a row before kubelet acts.
const FAILURES: i32 = 3;

pub(super) fn container(input: &Input<'_>) -> Container {
    Container {
        name: "agent".to_owned(),
        image: Some(agent_image(input)),
        command: Some(words(&[AGENT_BINARY, "run"])),
        env: Some(environment()),
        ports: Some(vec![
            port(DNS_UDP_PORT_NAME, "UDP", DNS_PORT),
            port(DNS_TCP_PORT_NAME, "TCP", DNS_PORT),
            port(HTTP_PORT_NAME, "TCP", HTTP_PORT),
        ]),
        readiness_probe: Some(probe("/readyz", 2, 1)),
        liveness_probe: Some(probe("/livez", 10, 5)),
        // `kubectl describe pod` then says why it ended.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        security_context: Some(security::unprivileged()),
        resources: Some(requests("50m", "32Mi")),
        volume_mounts: Some(mounts(input)),
        ..Container::default()
    }
}

fn environment() -> Vec<EnvVar> {
    vec![
        EnvVar {
            name: "POD_IP".to_owned(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: "status.podIP".to_owned(),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        },
        variable(
            "TSUNARO_CONFIG",
            in_dir(AGENT_CONFIG_DIR, AGENT_CONFIG_FILE),
        ),
        // The Pod's address alone, so that tailnet clients cannot reach status and metrics.
        variable("TSUNARO_HTTP_LISTEN", format!("$(POD_IP):{HTTP_PORT}")),
        // Where `tsunaro-agent status` in this container asks.
        variable("TSUNARO_STATUS_ADDRESS", format!("$(POD_IP):{HTTP_PORT}")),
        variable("TSUNARO_TAILSCALED_SOCKET", in_dir(SOCKET_DIR, SOCKET_FILE)),
        variable("TSUNARO_LOG_FORMAT", "json"),
    ]
}

/// Whole directories: a file mounted by `subPath` would never change.
fn mounts(input: &Input<'_>) -> Vec<VolumeMount> {
    let mut mounts = vec![
        read_only(volumes::AGENT_CONFIG, AGENT_CONFIG_DIR),
        read_only(volumes::KEY, KEY_DIR),
        // Connecting to a socket needs no writable mount.
        read_only(volumes::SOCKET, SOCKET_DIR),
    ];
    if volumes::has_hosts(input) {
        mounts.push(read_only(volumes::HOSTS, HOSTS_DIR));
    }
    mounts
}

fn port(name: &str, protocol: &str, port: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        protocol: Some(protocol.to_owned()),
        container_port: port,
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period: i32, timeout: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(HTTP_PORT_NAME.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(FAILURES),
        ..Probe::default()
    }
}
