//! Volumes.

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, ConfigMapVolumeSource, DownwardAPIProjection, DownwardAPIVolumeFile,
    EmptyDirVolumeSource, HostPathVolumeSource, KeyToPath, ObjectFieldSelector,
    ProjectedVolumeSource, SecretVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};

use super::super::paths::{
    self, AGENT_CONFIG_FILE, CA_FILE, HOSTS_FILE, KEY_FILE, TAILSCALED_CONFIG_FILE,
};
use super::super::{Input, Names};

pub(super) const BIN: &str = "bin";
pub(super) const SOCKET: &str = "socket";
pub(super) const AGENT_CONFIG: &str = "config";
pub(super) const HOSTS: &str = "hosts";
pub(super) const KEY: &str = "key";
pub(super) const TAILSCALED_CONFIG: &str = "tailscaled-config";
pub(super) const TOKEN: &str = "token";
pub(super) const TUN: &str = "tun";

/// Readable by the agent, which is not the owner; no other container mounts the key.
const READABLE: i32 = 0o444;
/// Seconds that a token is valid; kubelet renews it at four fifths of that.
const TOKEN_LIFETIME: i64 = 3600;
/// The ConfigMap with the API server's certificates that every namespace has.
const ROOT_CA: &str = "kube-root-ca.crt";

/// True when the tailnet has a hosts file.
pub(super) fn has_hosts(input: &Input<'_>) -> bool {
    input.tailnet.is_some_and(|tailnet| tailnet.hosts.is_some())
}

pub(super) fn all(input: &Input<'_>) -> Vec<Volume> {
    let names = Names::of(input.gateway);
    let mut tailscaled = vec![item(TAILSCALED_CONFIG_FILE, TAILSCALED_CONFIG_FILE)];
    if input
        .tailnet
        .is_some_and(|tailnet| tailnet.ca_bundle.is_some())
    {
        tailscaled.push(item(CA_FILE, CA_FILE));
    }
    let agent = vec![item(AGENT_CONFIG_FILE, AGENT_CONFIG_FILE)];
    let mut volumes = vec![
        empty(BIN),
        empty(SOCKET),
        config_map(AGENT_CONFIG, &names.config_map, agent, None),
        config_map(TAILSCALED_CONFIG, &names.config_map, tailscaled, None),
        Volume {
            name: KEY.to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(names.key_secret),
                items: Some(vec![item(KEY_FILE, KEY_FILE)]),
                default_mode: Some(READABLE),
                // The key is needed for a login only, and may come later.
                optional: Some(true),
            }),
            ..Volume::default()
        },
        token(),
        Volume {
            name: TUN.to_owned(),
            host_path: Some(HostPathVolumeSource {
                path: paths::TUN.to_owned(),
                type_: Some("CharDevice".to_owned()),
            }),
            ..Volume::default()
        },
    ];
    if let Some(hosts) = input.tailnet.and_then(|tailnet| tailnet.hosts.as_ref()) {
        // A ConfigMap that is missing would otherwise hold the Pod in ContainerCreating.
        let items = vec![item(&hosts.key, HOSTS_FILE)];
        volumes.push(config_map(HOSTS, &hosts.name, items, Some(true)));
    }
    volumes
}

fn empty(name: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    }
}

fn config_map(name: &str, source: &str, items: Vec<KeyToPath>, optional: Option<bool>) -> Volume {
    Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: source.to_owned(),
            items: Some(items),
            optional,
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// What client libraries find under the usual path, for one container only.
fn token() -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            path: "token".to_owned(),
            expiration_seconds: Some(TOKEN_LIFETIME),
            ..ServiceAccountTokenProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let certificates = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: ROOT_CA.to_owned(),
            items: Some(vec![item("ca.crt", "ca.crt")]),
            ..ConfigMapProjection::default()
        }),
        ..VolumeProjection::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection {
            items: Some(vec![DownwardAPIVolumeFile {
                path: "namespace".to_owned(),
                field_ref: Some(ObjectFieldSelector {
                    field_path: "metadata.namespace".to_owned(),
                    ..ObjectFieldSelector::default()
                }),
                ..DownwardAPIVolumeFile::default()
            }]),
        }),
        ..VolumeProjection::default()
    };
    Volume {
        name: TOKEN.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![token, certificates, namespace]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn item(key: &str, path: &str) -> KeyToPath {
    KeyToPath {
        key: key.to_owned(),
        path: path.to_owned(),
        ..KeyToPath::default()
    }
}
