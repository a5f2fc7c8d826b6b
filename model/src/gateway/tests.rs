use std::net::Ipv4Addr;

use super::*;
use crate::finding::Finding;

const GATEWAY: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnetgateway.yaml");
const OTHERS: &str = include_str!("../../../docs/examples/prod-1/kubernetes/tailnet.yaml");

fn gateway(text: &str) -> Gateway {
    let parsed = parse(text);
    match parsed
        .objects
        .into_iter()
        .next()
        .map(|located| located.object)
    {
        Some(Object::Gateway(gateway)) => *gateway,
        other => panic!("{other:?} {:?}", parsed.findings),
    }
}

fn tailnet() -> Tailnet {
    Tailnet {
        name: "corp".into(),
        url: "https://headscale.example.org".into(),
        api_key: KeyRef {
            name: "headscale-api".into(),
            key: "apiKey".into(),
        },
        ca_bundle: None,
        policy: Policy::Observe,
        route_approvers: vec!["tag:fabric".into()],
        hosts: Some(KeyRef {
            name: "tailnet-hosts".into(),
            key: "hosts".into(),
        }),
        ingress_names: Some("{name}-{namespace}.prod-1.tailnet.example.internal".into()),
        reserved_networks: Vec::new(),
    }
}

fn egress(tailnet: &str, target: [u8; 4], aliases: &[&str]) -> Egress {
    Egress {
        namespace: Some("billing".into()),
        name: "db".into(),
        tailnet: tailnet.into(),
        target: Ipv4Addr::from(target),
        dns_aliases: aliases
            .iter()
            .map(|name| DnsName::parse_host(name).unwrap())
            .collect(),
    }
}

fn ingress(name: &str, namespace: Option<&str>, address: Option<[u8; 4]>) -> Ingress {
    Ingress {
        namespace: namespace.map(Into::into),
        name: name.into(),
        tailnet: "corp".into(),
        address: address.map(Ipv4Addr::from),
    }
}

fn printed(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| finding.in_file("f").to_string())
        .collect()
}

#[test]
fn the_documents_of_a_file_are_read_in_order_with_their_places() {
    let parsed = parse(OTHERS);
    assert_eq!(printed(&parsed.findings), [""; 0]);
    let kinds: Vec<(&str, u32)> = parsed
        .objects
        .iter()
        .map(|Located { object, position }| {
            let kind = match object {
                Object::Gateway(_) => "gateway",
                Object::Tailnet(_) => "tailnet",
                Object::Egress(_) => "egress",
                Object::Ingress(_) => "ingress",
                Object::Site(_) => "site",
            };
            (kind, position.line)
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("tailnet", 3),
            ("site", 18),
            ("egress", 28),
            ("ingress", 38)
        ]
    );
    assert_eq!(
        parsed.objects[0].object,
        Object::Tailnet(Box::new(tailnet()))
    );
}

#[test]
fn one_bad_document_spares_the_others() {
    let text = format!("{OTHERS}---\napiVersion: tsunaro.io/v1alpha1\nkind: TailnetSites\n");
    let parsed = parse(&text);
    assert_eq!(parsed.objects.len(), 4);
    assert_eq!(
        printed(&parsed.findings),
        [
            "f:48:7: kind: `TailnetSites` is not a kind of tsunaro.io; write one of TailnetGateway, Tailnet, TailnetEgress, TailnetIngress, TailnetSite"
        ]
    );
}

#[test]
fn files_without_objects_say_so() {
    for (text, expected) in [
        ("", "the file is empty"),
        ("---\n---\n", "the file is empty"),
        ("hello", "expected a mapping"),
        ("kind: TailnetGateway", "the field `apiVersion` is missing"),
        (
            "apiVersion: tsunaro.io/v1\nkind: Tailnet\n",
            "`tsunaro.io/v1` is not a version",
        ),
        ("a: [", "not valid YAML"),
    ] {
        let parsed = parse(text);
        let lines = printed(&parsed.findings).join("\n");
        assert!(lines.contains(expected), "{text}: {lines}");
        assert!(parsed.objects.is_empty(), "{text}");
    }
}

#[test]
fn what_the_api_server_adds_is_no_finding() {
    let text = GATEWAY.replace(
        "  name: prod-1-gw\nspec",
        "  name: prod-1-gw\n  uid: 6c1d9a52-0000-4000-8000-000000000001\n  generation: 3\n  resourceVersion: \"7\"\n  managedFields: [{ manager: kubectl }]\nspec",
    ) + "status:\n  pinned: true\n  observedGeneration: 3\n  conditions: []\n";
    let live = gateway(&text);
    assert!(live.pinned);
    assert_eq!(
        live.uid.as_deref(),
        Some("6c1d9a52-0000-4000-8000-000000000001")
    );
}

#[test]
fn egress_targets_of_the_own_tailnet_become_routes_unless_switched_off() {
    let egresses = [
        egress("corp", [10, 0, 10, 20], &[]),
        egress("corp", [192, 0, 2, 9], &[]),
        egress("lab", [10, 0, 10, 21], &[]),
        egress("corp", [10, 0, 10, 20], &[]),
    ];
    for (change, expected) in [
        (
            "",
            &["10.0.10.20/32", "192.0.2.0/24", "198.51.100.0/24"][..],
        ),
        (
            "    aggregate: false\n    snat: false\n",
            &[
                "10.0.10.20/32",
                "192.0.2.0/24",
                "192.0.2.9/32",
                "198.51.100.0/24",
            ],
        ),
    ] {
        let gateway = gateway(&GATEWAY.replace("  service:\n", &format!("{change}  service:\n")));
        assert_eq!(gateway.routes.snat, change.is_empty());
        let routes: Vec<String> = wanted_routes(&gateway, &egresses)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(routes, expected);
    }
    let off = gateway(&GATEWAY.replace(
        "advertiseEgressTargets: true",
        "advertiseEgressTargets: false",
    ));
    assert_eq!(wanted_routes(&off, &egresses).len(), 2);
}

#[test]
fn the_hosts_file_is_sorted_and_its_parser_takes_it_without_a_remark() {
    let egresses = [
        egress(
            "corp",
            [10, 0, 10, 20],
            &[
                "proxy.corp.example",
                "billing-db.prod-1.tailnet.example.internal",
            ],
        ),
        egress("lab", [10, 0, 10, 21], &["other.example"]),
    ];
    let ingresses = [
        ingress("kube-api", Some("platform"), Some([198, 51, 100, 20])),
        ingress("web", None, Some([198, 51, 100, 21])),
        ingress("later", None, None),
        ingress(&"x".repeat(60), Some("namespace"), Some([198, 51, 100, 22])),
    ];
    let file = |egresses: &[Egress]| {
        let egresses = egresses.iter().map(Source::Egress);
        hosts_file(
            &tailnet(),
            egresses.chain(ingresses.iter().map(Source::Ingress)),
            1 << 20,
        )
    };
    let HostsFile { text, left_out } = file(&egresses);
    assert_eq!(left_out, 0);
    assert_eq!(
        text,
        "# Names of the tailnet corp, written by the controller.\n\
         10.0.10.20 billing-db.prod-1.tailnet.example.internal\n\
         198.51.100.20 kube-api-platform.prod-1.tailnet.example.internal\n\
         10.0.10.20 proxy.corp.example\n\
         198.51.100.21 web-default.prod-1.tailnet.example.internal\n"
    );
    let parsed = crate::hosts::Hosts::parse(text.as_bytes()).unwrap();
    assert_eq!((parsed.entries.len(), parsed.findings.len()), (4, 0));
    let reversed: Vec<_> = egresses.iter().rev().cloned().collect();
    assert_eq!(file(&reversed).text, text);
}

#[test]
fn a_hosts_file_that_is_full_keeps_the_first_names_and_counts_the_others() {
    let egresses = [
        egress("corp", [10, 0, 10, 20], &["z.example", "y.example"]),
        egress("corp", [10, 0, 10, 21], &["a.example"]),
        egress("corp", [10, 0, 10, 20], &["z.example"]),
    ];
    let file = |most| hosts_file(&tailnet(), egresses.iter().map(Source::Egress), most);
    let whole = file(1 << 20);
    assert_eq!(whole.left_out, 0);
    let one_octet_less = file(whole.text.len() - 1);
    assert_eq!(one_octet_less.left_out, 1);
    assert!(!one_octet_less.text.contains("a.example"));
    assert!(one_octet_less.text.contains("z.example"));
    assert_eq!(file(whole.text.len()), whole);
}

#[test]
fn the_agents_config_names_the_load_balancer_address_and_its_files() {
    let paths = || AgentPaths {
        hosts: "/h".into(),
        auth_key: "/k".into(),
    };
    let gateway = gateway(GATEWAY);
    let config = agent_config(&gateway, Some(&tailnet()), &[], paths());
    assert_eq!(config.hosts.as_deref(), Some("/h"));
    assert_eq!(config.tailnet.auth_key_file.as_deref(), Some("/k"));
    assert_eq!(config.dns.addresses, [Ipv4Addr::new(198, 51, 100, 17)]);
    let without = Tailnet {
        hosts: None,
        ..tailnet()
    };
    assert_eq!(
        agent_config(&gateway, Some(&without), &[], paths()).hosts,
        None
    );
    assert_eq!(agent_config(&gateway, None, &[], paths()).hosts, None);
}

#[test]
fn objects_that_get_in_each_others_way_are_told() {
    let twin = |changes: &[(&str, &str)]| {
        changes.iter().fold(GATEWAY.to_owned(), |text, (from, to)| {
            text.replace(from, to)
        })
    };
    let apart = [
        ("  name: prod-1-gw\n", "  name: prod-1-b\n"),
        ("hostname: prod-1-gw", "hostname: prod-1-b"),
        ("prod-1-gw-state", "prod-1-b-state"),
        ("198.51.100.17", "198.51.100.18"),
        ("10.96.0.54", "10.96.0.55"),
        ("prod-1-gw-dns", "prod-1-b-dns"),
    ];
    let fields = |text: &str| -> Vec<String> {
        let parsed = parse(text);
        let objects: Vec<&Located> = parsed.objects.iter().collect();
        let findings = check_together(&objects);
        findings
            .into_iter()
            .map(|(_, finding)| finding.field)
            .collect()
    };
    assert_eq!(fields(&format!("{GATEWAY}---\n{}", twin(&apart))), [""; 0]);
    for (left_out, field) in [
        "metadata.name",
        "spec.hostname",
        "spec.stateSecretRef.name",
        "spec.service.loadBalancerIP",
        "spec.dns.serviceClusterIP",
        "spec.dns.serviceName",
    ]
    .into_iter()
    .enumerate()
    {
        let changes: Vec<_> = apart
            .iter()
            .copied()
            .enumerate()
            .filter(|(index, _)| *index != left_out)
            .map(|(_, change)| change)
            .collect();
        assert_eq!(
            fields(&format!("{GATEWAY}---\n{}", twin(&changes))),
            [field]
        );
    }
    for (what, name, field) in [
        ("prod-1-b-dns", "prod-1-gw-headless", "spec.dns.serviceName"),
        (
            "prod-1-b-state",
            "prod-1-gw-authkey",
            "spec.stateSecretRef.name",
        ),
    ] {
        let taken = twin(&apart).replace(what, name);
        assert_eq!(fields(&format!("{GATEWAY}---\n{taken}")), [field]);
    }
    assert_eq!(
        fields(&format!("{GATEWAY}---\n{GATEWAY}")),
        ["metadata.name"]
    );
    let reserved = OTHERS.replace(
        "  policy:\n",
        "  reservedNetworks: [192.0.0.0/16]\n  policy:\n",
    );
    assert_eq!(
        fields(&format!("{GATEWAY}---\n{reserved}")),
        ["spec.routes.lan"]
    );
}

#[test]
fn lists_are_read_as_their_items_however_they_are_written() {
    let site = "{ apiVersion: tsunaro.io/v1alpha1, kind: TailnetSite, metadata: { name: a }, spec: { tailnetRef: { name: corp }, prefixes: [192.0.2.0/24] } }";
    for (list, count) in [
        (
            format!("{{ apiVersion: v1, kind: List, items: [{site}] }}"),
            1,
        ),
        (
            format!(
                "{{ apiVersion: tsunaro.io/v1alpha1, kind: TailnetSiteList, metadata: {{ resourceVersion: '7' }}, items: [{site}] }}"
            ),
            1,
        ),
        ("{ apiVersion: v1, kind: List, items: [] }".to_owned(), 0),
        ("{ apiVersion: v1, kind: List, items: null }".to_owned(), 0),
    ] {
        let parsed = parse(&list);
        assert_eq!(parsed.findings, [], "{list}");
        assert_eq!((parsed.objects.len(), parsed.foreign), (count, 0), "{list}");
    }
}

#[test]
fn what_the_api_server_would_not_take_as_a_list_or_as_metadata_is_an_error() {
    let site = |metadata: &str| {
        format!(
            "{{ apiVersion: tsunaro.io/v1alpha1, kind: TailnetSite, metadata: {{ name: a, {metadata} }}, spec: {{ tailnetRef: {{ name: corp }}, prefixes: [192.0.2.0/24] }} }}"
        )
    };
    for (text, field) in [
        (
            "{ apiVersion: v1, kind: List, items: 3 }".to_owned(),
            "items",
        ),
        (
            "{ apiVersion: v1, kind: List, items: { a: b } }".to_owned(),
            "items",
        ),
        (site("annotations: 3"), "metadata.annotations"),
        (site("annotations: [a]"), "metadata.annotations"),
        (site("annotations: { a: 3 }"), "metadata.annotations.[a]"),
        (site("labels: { a: true }"), "metadata.labels.[a]"),
        (site("finalizers: a"), "metadata.finalizers"),
        (site("finalizers: [3]"), "metadata.finalizers[0]"),
    ] {
        let fields: Vec<String> = parse(&text)
            .findings
            .into_iter()
            .map(|finding| finding.field)
            .collect();
        assert_eq!(fields, [field], "{text}");
    }
    for fine in [
        "annotations: null",
        "annotations: {}",
        "labels: { a: b }",
        "finalizers: []",
        "finalizers: [a/b]",
    ] {
        assert_eq!(parse(&site(fine)).findings, [], "{fine}");
    }
}

#[test]
fn more_egress_targets_than_the_agent_takes_are_an_error_of_the_gateway() {
    let egress = |number: u32| {
        let target = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        format!(
            "---\napiVersion: tsunaro.io/v1alpha1\nkind: TailnetEgress\nmetadata: {{ name: e{number}, namespace: a }}\nspec: {{ tailnetRef: {{ name: corp }}, target: {target} }}\n"
        )
    };
    let check = |text: &str| -> Vec<String> {
        let parsed = parse(text);
        assert!(!parsed.findings.iter().any(Finding::is_error));
        let objects: Vec<_> = parsed.objects.iter().collect();
        check_together(&objects)
            .into_iter()
            .map(|(_, finding)| finding.field)
            .collect()
    };
    let most: String = (1..=4096).map(egress).collect();
    assert_eq!(check(&format!("{GATEWAY}{most}")), [""; 0]);
    let more = format!("{GATEWAY}{most}{}", egress(4097));
    assert_eq!(check(&more), ["spec.routes.advertiseEgressTargets"]);
    let off = more.replace(
        "advertiseEgressTargets: true",
        "advertiseEgressTargets: false",
    );
    assert_eq!(check(&off), [""; 0]);
}

#[test]
fn one_of_our_kinds_under_another_group_is_left_alone_with_a_warning() {
    let parsed = parse(&GATEWAY.replace("tsunaro.io/v1alpha1", "tsunaro.com/v1alpha1"));
    assert_eq!((parsed.objects.len(), parsed.foreign), (0, 1));
    let [finding] = parsed.findings.as_slice() else {
        panic!("{:?}", parsed.findings);
    };
    assert!(!finding.is_error());
    assert_eq!(finding.field, "apiVersion");
    assert!(finding.what.contains("`tsunaro.com`"), "{finding:?}");
}
