//! `Tailnet`, `TailnetEgress`, `TailnetIngress`, `TailnetSite`.

use super::common::{
    canonical_prefix, host_ipv4, name, not_ipv6, routable_ip, routable_prefix, subdomain, tag,
    value,
};
use super::{Rule, optional, rule};

pub(super) fn tailnet() -> Vec<Rule> {
    let url = "self.spec.headscale.url";
    let ca = ".spec.headscale.caBundle";
    let template = ".spec.dns.ingressNameTemplate";
    let reserved = ".spec.reservedNetworks";
    let networks = value(reserved);
    vec![
        rule(
            ".spec.headscale.url",
            format!(
                r"{url}.matches('^https?://[-A-Za-z0-9._:/]*[-A-Za-z0-9._:]/*$') || {url}.matches('^https?://\\[[0-9A-Fa-f:.]+\\](:[0-9]+)?/*$')"
            ),
            "spec.headscale.url: write Headscale's server_url, such as https://headscale.example.org",
        ),
        rule(
            ".spec.headscale.apiKeySecretRef.name",
            subdomain("self.spec.headscale.apiKeySecretRef.name"),
            "spec.headscale.apiKeySecretRef.name: write the name of a Secret, in lower case",
        ),
        optional(
            ca,
            &format!(
                "({0}.contains('-----BEGIN CERTIFICATE-----') && !{0}.contains('PRIVATE KEY'))",
                value(ca)
            ),
            "spec.headscale.caBundle: write certificates in PEM, from '-----BEGIN CERTIFICATE-----' on, and no private key",
        ),
        rule(
            ".spec.policy.routeApprovers",
            format!(
                "!has(self.spec.policy) || !has(self.spec.policy.routeApprovers) || self.spec.policy.routeApprovers.all(t, {})",
                tag("t")
            ),
            "spec.policy.routeApprovers: write each as 'tag:' and then a-z, 0-9 and '-', such as tag:fabric",
        ),
        rule(
            template,
            format!(
                "!has(self.spec.dns) || !has({0}) || ({0}.contains('{{name}}') && {0}.contains('.') && {1})",
                value(template),
                name(&format!(
                    "{}.replace('{{name}}', 'a').replace('{{namespace}}', 'b')",
                    value(template)
                ))
            ),
            "spec.dns.ingressNameTemplate: write a full name with {name} in it, such as {name}-{namespace}.prod-1.tailnet.example.internal",
        ),
        optional(
            reserved,
            &format!(
                "{networks}.all(p, {} && {} && ({}))",
                not_ipv6("p"),
                canonical_prefix("p"),
                routable_prefix("p")
            ),
            "spec.reservedNetworks: write IPv4 prefixes without host bits, such as 10.96.0.0/12",
        ),
    ]
}

fn tailnet_ref() -> Rule {
    rule(
        ".spec.tailnetRef.name",
        subdomain("self.spec.tailnetRef.name"),
        "spec.tailnetRef.name: write the name of a Tailnet, in lower case",
    )
}

pub(super) fn egress() -> Vec<Rule> {
    let target = ".spec.target";
    let aliases = ".spec.dnsAliases";
    vec![
        tailnet_ref(),
        rule(
            target,
            host_ipv4(&value(target)),
            "spec.target: write the IPv4 address of the host, such as 192.0.2.20",
        ),
        rule(
            target,
            routable_ip(&value(target)),
            "spec.target: write the address of a host at the site, outside 100.64.0.0/10, loopback, multicast and link-local",
        ),
        optional(
            aliases,
            &format!(
                "{}.all(n, {} && n.matches('[^.][.][^.]'))",
                value(aliases),
                name("n")
            ),
            "spec.dnsAliases: write full names, such as db.prod-1.tailnet.example.internal",
        ),
    ]
}

pub(super) fn ingress() -> Vec<Rule> {
    let address = ".spec.address";
    vec![
        tailnet_ref(),
        optional(
            address,
            &format!("({})", host_ipv4(&value(address))),
            "spec.address: write an IPv4 address, such as 198.51.100.20",
        ),
    ]
}

pub(super) fn site() -> Vec<Rule> {
    let prefixes = ".spec.prefixes";
    let advertisers = ".spec.advertisedBy";
    vec![
        tailnet_ref(),
        rule(
            prefixes,
            format!(
                "{}.all(p, {} && {} && ({}))",
                value(prefixes),
                not_ipv6("p"),
                canonical_prefix("p"),
                routable_prefix("p")
            ),
            "spec.prefixes: write IPv4 prefixes of the site without host bits, such as 192.0.2.0/24",
        ),
        optional(
            advertisers,
            &format!("{}.all(t, {})", value(advertisers), tag("t")),
            "spec.advertisedBy: write each as 'tag:' and then a-z, 0-9 and '-', such as tag:fabric",
        ),
    ]
}
