use std::collections::BTreeSet;

use serde_json::Value;
use tsunaro_model::gateway::{Object, parse};

use super::*;
use crate::crd::to_yaml;

const GATEWAY: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnetgateway.yaml");
const OTHERS: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnet.yaml");

/// A worked example, with changes to its text.
struct Example {
    gateway: Gateway,
    tailnet: Tailnet,
    egresses: Vec<Egress>,
}

impl Example {
    fn new() -> Self {
        Self::changed(&[])
    }

    fn changed(changes: &[(&str, &str)]) -> Self {
        let mut text = format!("{GATEWAY}---\n{OTHERS}");
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let parsed = parse(&text);
        let objects = || parsed.objects.iter().map(|located| located.object.clone());
        let errors: Vec<_> = parsed
            .findings
            .iter()
            .filter(|finding| finding.is_error())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        Self {
            gateway: objects()
                .find_map(|object| match object {
                    Object::Gateway(gateway) => Some(*gateway),
                    _ => None,
                })
                .unwrap(),
            tailnet: objects()
                .find_map(|object| match object {
                    Object::Tailnet(tailnet) => Some(*tailnet),
                    _ => None,
                })
                .unwrap(),
            egresses: objects()
                .filter_map(|object| match object {
                    Object::Egress(egress) => Some(egress),
                    _ => None,
                })
                .collect(),
        }
    }

    fn render(&self) -> Objects {
        render(&Input {
            gateway: &self.gateway,
            tailnet: Some(&self.tailnet),
            egresses: &self.egresses,
            namespace: "tsunaro-system",
        })
    }

    fn values(&self) -> [Value; 9] {
        self.render().to_values().unwrap()
    }

    fn pod(&self) -> Value {
        self.values()[8]["spec"]["template"]["spec"].clone()
    }
}

#[test]
fn nine_objects_come_in_order_with_the_stateful_set_last() {
    let names: Vec<String> = Example::new()
        .values()
        .iter()
        .map(|object| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            "ServiceAccount prod-1-gw",
            "Role prod-1-gw",
            "RoleBinding prod-1-gw",
            "PodDisruptionBudget prod-1-gw",
            "Service prod-1-gw",
            "Service prod-1-gw-dns",
            "Service prod-1-gw-headless",
            "ConfigMap prod-1-gw-agent",
            "StatefulSet prod-1-gw",
        ]
    );
}

#[test]
fn the_objects_of_the_worked_example_are_these() {
    let objects = Example::new().render();
    insta::assert_snapshot!(
        "service_account",
        to_yaml(&objects.service_account).unwrap()
    );
    insta::assert_snapshot!("role", to_yaml(&objects.role).unwrap());
    insta::assert_snapshot!("role_binding", to_yaml(&objects.role_binding).unwrap());
    insta::assert_snapshot!(
        "disruption_budget",
        to_yaml(&objects.disruption_budget).unwrap()
    );
    insta::assert_snapshot!("service", to_yaml(&objects.service).unwrap());
    insta::assert_snapshot!("dns_service", to_yaml(&objects.dns_service).unwrap());
    insta::assert_snapshot!(
        "headless_service",
        to_yaml(&objects.headless_service).unwrap()
    );
    insta::assert_snapshot!("config_map", to_yaml(&objects.config_map).unwrap());
    insta::assert_snapshot!("stateful_set", to_yaml(&objects.stateful_set).unwrap());
}

#[test]
fn no_object_has_owners_and_every_object_has_all_six_labels_and_the_uid() {
    let mut example = Example::new();
    example.gateway.uid = Some("6c1d9a52-0000-4000-8000-000000000001".to_owned());
    for object in example.values() {
        let metadata = &object["metadata"];
        assert!(metadata.get("ownerReferences").is_none(), "{object}");
        let labels = &metadata["labels"];
        for label in [
            "name",
            "instance",
            "version",
            "component",
            "part-of",
            "managed-by",
        ] {
            assert!(
                labels[format!("app.kubernetes.io/{label}")].is_string(),
                "{label} of {object}"
            );
        }
        assert_eq!(
            labels["tsunaro.io/gateway-uid"],
            "6c1d9a52-0000-4000-8000-000000000001"
        );
        assert_eq!(metadata["namespace"], "tsunaro-system");
    }
}

#[test]
fn the_template_does_not_change_with_routes_records_the_uid_or_the_control_server() {
    let mut changed = Example::changed(&[
        ("lan: [192.0.2.0/24]", "lan: [192.0.2.0/24, 203.0.113.0/24]"),
        ("target: 10.0.10.20", "target: 10.0.10.21"),
        (
            "wildcardAddress: 198.51.100.80",
            "wildcardAddress: 198.51.100.81",
        ),
        ("headscale.example.org", "hs.example.org"),
    ]);
    changed.gateway.uid = Some("6c1d9a52-0000-4000-8000-000000000001".to_owned());
    assert_eq!(Example::new().pod(), changed.pod());
    assert_ne!(Example::new().values()[7], changed.values()[7]);
}

#[test]
fn only_the_tailscale_container_has_the_token_the_device_and_a_capability() {
    let pod = Example::new().pod();
    let containers = pod["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .chain(pod["containers"].as_array().unwrap());
    let mut names = Vec::new();
    for container in containers {
        let name = container["name"].as_str().unwrap();
        names.push(name);
        let mounts: BTreeSet<&str> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|mount| mount["name"].as_str().unwrap())
            .collect();
        let security = &container["securityContext"];
        let special = name == "tailscale";
        assert_eq!(mounts.contains("token"), special, "{name}");
        assert_eq!(mounts.contains("tun"), special, "{name}");
        assert_eq!(mounts.contains("key"), name == "agent", "{name}");
        assert_eq!(security["runAsUser"] == 0, special, "{name}");
        assert_eq!(
            security["capabilities"]["drop"],
            serde_json::json!(["ALL"]),
            "{name}"
        );
        assert_eq!(
            security["capabilities"].get("add").is_some(),
            special,
            "{name}"
        );
        assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
        let probed =
            container.get("readinessProbe").is_some() || container.get("livenessProbe").is_some();
        assert_eq!(probed, name == "agent", "{name}");
    }
    assert_eq!(names, ["install", "tailscale", "agent"]);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(
        pod["securityContext"]["sysctls"],
        serde_json::json!([{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }])
    );
}

#[test]
fn nothing_is_mounted_by_sub_path_and_every_mount_has_its_volume() {
    let pod = Example::new().pod();
    let volumes: BTreeSet<&str> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| volume["name"].as_str().unwrap())
        .collect();
    let mut used = BTreeSet::new();
    for container in pod["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .chain(pod["containers"].as_array().unwrap())
    {
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(mount.get("subPath").is_none(), "{mount}");
            used.insert(mount["name"].as_str().unwrap());
        }
    }
    assert_eq!(volumes, used);
}

#[test]
fn an_image_of_coredns_is_answered_by_the_default_and_another_image_is_taken() {
    for (image, expected) in [
        ("docker.io/coredns/coredns:1.14.7", DEFAULT_AGENT_IMAGE),
        ("registry.example/tsunaro:v2", "registry.example/tsunaro:v2"),
    ] {
        let pod = Example::changed(&[("docker.io/coredns/coredns:1.14.7", image)]).pod();
        assert_eq!(pod["containers"][0]["image"], expected);
        assert_eq!(pod["initContainers"][0]["image"], expected);
        assert_eq!(
            pod["initContainers"][1]["image"],
            "ghcr.io/tailscale/tailscale:v1.102.4"
        );
    }
}

#[test]
fn certificates_of_the_control_server_reach_tailscaled() {
    let pem = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
    let mut example = Example::new();
    assert!(!example.pod().to_string().contains("SSL_CERT_FILE"));
    example.tailnet.ca_bundle = Some(pem.to_owned());
    assert_eq!(example.values()[7]["data"]["ca.crt"], pem);
    let environment = example.pod()["initContainers"][1]["env"].clone();
    assert!(environment.as_array().unwrap().contains(
        &serde_json::json!({ "name": "SSL_CERT_FILE", "value": "/etc/tailscaled/ca.crt" })
    ));
}

#[test]
fn without_a_hosts_config_map_there_is_no_hosts_file_to_wait_for() {
    let example = Example::changed(&[("    hostsConfigMap: { name: tailnet-hosts }\n", "")]);
    assert!(!example.pod().to_string().contains("hosts"));
    let config = example.values()[7]["data"]["gateway.yaml"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!config.contains("hosts"), "{config}");
}

#[test]
fn the_agents_config_is_one_that_the_agent_accepts() {
    for example in [
        Example::new(),
        Example::changed(&[(
            "    advertiseEgressTargets: true",
            "    advertiseEgressTargets: false",
        )]),
    ] {
        let values = example.values();
        let text = values[7]["data"]["gateway.yaml"].as_str().unwrap();
        let parsed = tsunaro_model::config::parse(text);
        assert_eq!(parsed.findings, [], "{text}");
        let routes = tsunaro_model::routes::wanted(&parsed.config.unwrap().routes.unwrap());
        assert_eq!(
            routes,
            tsunaro_model::gateway::wanted_routes(&example.gateway, &example.egresses)
        );
    }
}

/// The part of docs/controller-objects.md under a heading.
fn documented(heading: &str) -> &'static str {
    let docs = include_str!("../../../docs/controller-objects.md");
    let (_, section) = docs.split_once(&format!("\n## {heading}\n")).unwrap();
    section.split("\n## ").next().unwrap()
}

#[test]
fn every_security_and_probe_setting_has_its_reason_in_the_docs() {
    let pod = Example::new().pod();
    let everywhere = documented("Pod");
    let mut checked = 0;
    let mut check = |settings: &Value, section: &str| {
        for name in settings
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            let code = [format!("`{name}:"), format!("`{name}`")];
            let told = code
                .iter()
                .any(|code| section.contains(code) || everywhere.contains(code));
            // The path of a probe is in the row of its kind.
            assert!(told || name == "httpGet", "{name} has no reason");
            checked += 1;
        }
    };
    check(&pod["securityContext"], everywhere);
    for (kind, container, heading) in [
        ("initContainers", 1, "Container `tailscale`"),
        ("containers", 0, "Container `agent`"),
    ] {
        let container = &pod[kind][container];
        let section = documented(heading);
        for settings in ["securityContext", "readinessProbe", "livenessProbe"] {
            check(&container[settings], section);
        }
    }
    assert!(checked >= 20, "{checked}");
    assert_eq!(
        pod["initContainers"][0]["securityContext"],
        pod["containers"][0]["securityContext"]
    );
}

#[test]
fn words_that_yaml_1_1_reads_as_truth_values_are_quoted() {
    let example = Example::changed(&[("io.cilium/lb-pool: tailnet", "io.cilium/lb-pool: \"on\"")]);
    let yaml = to_yaml(&example.render().service).unwrap();
    assert!(
        yaml.contains("io.cilium/lb-pool: \"on\"") || yaml.contains("io.cilium/lb-pool: 'on'"),
        "{yaml}"
    );
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    let render = || Example::new().values().map(|object| object.to_string());
    assert_eq!(render(), render());
}
