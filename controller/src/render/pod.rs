//! The Pod: an install container, tailscaled as a restartable init container, the agent. The reason
//! for each security and probe setting is in docs/controller-objects.md.

mod agent;
mod security;
mod tailscale;
mod volumes;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, PodSpec, PodTemplateSpec, ResourceRequirements, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::paths::{AGENT_BINARY, BIN_DIR};
use super::{DEFAULT_AGENT_IMAGE, Input, meta};

/// Ports and their names, by which Services and probes find them.
pub(super) const DNS_PORT: i32 = 53;
pub(super) const DNS_UDP_PORT_NAME: &str = "dns";
pub(super) const DNS_TCP_PORT_NAME: &str = "dns-tcp";
pub(super) const HTTP_PORT: i32 = 9181;
pub(super) const HTTP_PORT_NAME: &str = "http";

/// Seconds from SIGTERM to SIGKILL: the agent's lame duck of 5 s, what is in flight, then tailscaled.
const GRACE: i64 = 30;

pub(super) fn template(input: &Input<'_>) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(meta::pod_labels(input.gateway)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            init_containers: Some(vec![install(input), tailscale::container(input)]),
            containers: vec![agent::container(input)],
            volumes: Some(volumes::all(input)),
            service_account_name: Some(input.gateway.name.clone()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            security_context: Some(security::pod()),
            termination_grace_period_seconds: Some(GRACE),
            ..PodSpec::default()
        }),
    }
}

/// Copies the static binary to where the tailscale container runs it as its supervisor.
fn install(input: &Input<'_>) -> Container {
    Container {
        name: "install".to_owned(),
        image: Some(agent_image(input)),
        command: Some(words(&[AGENT_BINARY, "install", BIN_DIR])),
        security_context: Some(security::unprivileged()),
        resources: Some(requests("10m", "16Mi")),
        volume_mounts: Some(vec![mount(volumes::BIN, BIN_DIR)]),
        ..Container::default()
    }
}

fn agent_image(input: &Input<'_>) -> String {
    match &input.gateway.dns.image {
        Some(image) => image.to_string(),
        None => DEFAULT_AGENT_IMAGE.to_owned(),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.into()),
        ..EnvVar::default()
    }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        ..VolumeMount::default()
    }
}

fn read_only(volume: &str, path: &str) -> VolumeMount {
    VolumeMount {
        read_only: Some(true),
        ..mount(volume, path)
    }
}

/// What the scheduler sets aside. No limits: a throttled or killed resolver helps nobody.
fn requests(cpu: &str, memory: &str) -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(
            [("cpu", cpu), ("memory", memory)]
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
                .collect(),
        ),
        ..ResourceRequirements::default()
    }
}
