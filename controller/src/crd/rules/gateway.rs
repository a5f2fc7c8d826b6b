//! `TailnetGateway`.

use super::common::{
    canonical_prefix, host_ip, host_ipv4, image, label, name, not_ipv6, qualified, routable_prefix,
    service_name, subdomain, tag, upstream, value, versioned, zone,
};
use super::{Rule, optional, rule};

const TAGS: &str = ".spec.tags";
const LAN: &str = ".spec.routes.lan";
const RANGE: &str = ".spec.service.tailnetLBCIDR";
const LB_IP: &str = ".spec.service.loadBalancerIP";
const CLASS: &str = ".spec.service.loadBalancerClass";
const LABELS: &str = ".spec.service.poolLabels";
const ZONE: &str = ".spec.dns.zone";
const SERVICE: &str = ".spec.dns.serviceName";
const CLUSTER_IP: &str = ".spec.dns.serviceClusterIP";
const RECORDS: &str = ".spec.dns.staticRecords";
const WILDCARD: &str = ".spec.dns.wildcardAddress";
const ZONES: &str = ".spec.dns.extraZones";
const DNS_IMAGE: &str = ".spec.dns.image";

pub(super) fn rules() -> Vec<Rule> {
    [
        identity(),
        images(),
        routes(),
        service(),
        dns(),
        records(),
        extra_zones(),
        refused(),
        pinned(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn identity() -> Vec<Rule> {
    let named = "self.metadata.name";
    vec![
        rule(
            "",
            format!("size({named}) <= 52 && {}", service_name(named)),
            "metadata.name: write at most 52 of a-z, 0-9 and '-', beginning with a letter: Services and the Pod are named after it",
        ),
        rule(
            ".spec.tailnetRef.name",
            subdomain("self.spec.tailnetRef.name"),
            "spec.tailnetRef.name: write the name of a Tailnet, in lower case",
        ),
        rule(
            ".spec.hostname",
            label("self.spec.hostname"),
            "spec.hostname: write one label of a-z, 0-9 and '-', such as prod-1-gw",
        ),
        rule(
            ".spec.tags",
            format!("self.spec.tags.all(t, {})", tag("t")),
            "spec.tags: write each as 'tag:' and then a-z, 0-9 and '-', such as tag:fabric",
        ),
        rule(
            ".spec.stateSecretRef.name",
            format!(
                "{} && !(self.spec.stateSecretRef.name in [{named} + '-authkey', {named} + '-fresh'])",
                subdomain("self.spec.stateSecretRef.name")
            ),
            "spec.stateSecretRef.name: write the name of a Secret in lower case, such as the gateway's with -state; -authkey and -fresh are taken",
        ),
    ]
}

fn images() -> Vec<Rule> {
    let tailscale = "self.spec.image";
    let agent = value(DNS_IMAGE);
    vec![
        rule(
            ".spec.image",
            image(tailscale),
            "spec.image: write an image reference, such as ghcr.io/tailscale/tailscale:v1.102.4",
        ),
        rule(
            ".spec.image",
            versioned(tailscale),
            "spec.image: name a version tag or a digest, never 'latest'",
        ),
        optional(
            DNS_IMAGE,
            &image(&agent),
            "spec.dns.image: write the reference of the agent's image, or remove the field",
        ),
        optional(
            DNS_IMAGE,
            &format!("({})", versioned(&agent)),
            "spec.dns.image: name a version tag or a digest, never 'latest', or remove the field",
        ),
    ]
}

fn routes() -> Vec<Rule> {
    let each = |rule: String| format!("{}.all(p, {rule})", value(LAN));
    let range = value(RANGE);
    vec![
        rule(
            LAN,
            each(not_ipv6("p")),
            "spec.routes.lan: a gateway advertises IPv4 only; remove IPv6 prefixes",
        ),
        rule(
            LAN,
            each(canonical_prefix("p")),
            "spec.routes.lan: write IPv4 prefixes without host bits, such as 192.0.2.0/24",
        ),
        rule(
            LAN,
            each(routable_prefix("p")),
            "spec.routes.lan: remove the default route and what overlaps 100.64.0.0/10, loopback, multicast, link-local or 0.0.0.0/8",
        ),
        rule(
            RANGE,
            not_ipv6(&range),
            "spec.service.tailnetLBCIDR: a gateway advertises IPv4 only; write an IPv4 prefix",
        ),
        rule(
            RANGE,
            canonical_prefix(&range),
            "spec.service.tailnetLBCIDR: write an IPv4 prefix without host bits, such as 198.51.100.0/24",
        ),
        rule(
            RANGE,
            routable_prefix(&range),
            "spec.service.tailnetLBCIDR: write a range that is not the default route and does not overlap 100.64.0.0/10, loopback, multicast, link-local or 0.0.0.0/8",
        ),
    ]
}

fn service() -> Vec<Rule> {
    let (ip, range) = (value(LB_IP), value(RANGE));
    vec![
        rule(
            LB_IP,
            host_ipv4(&ip),
            "spec.service.loadBalancerIP: write the IPv4 address of the Service, such as 198.51.100.17",
        ),
        rule(
            LB_IP,
            format!("!isIP({ip}) || !isCIDR({range}) || cidr({range}).containsIP({ip})"),
            "spec.service.loadBalancerIP: write an address inside spec.service.tailnetLBCIDR, which is what tailnet clients can reach",
        ),
        optional(
            CLASS,
            &qualified(&value(CLASS)),
            "spec.service.loadBalancerClass: write the class that your load balancer documents, such as io.cilium/l2-announcer, or remove the field",
        ),
        optional(
            LABELS,
            &format!(
                "{}.all(k, !k.startsWith('app.kubernetes.io/') && !k.startsWith('tsunaro.io/'))",
                value(LABELS)
            ),
            "spec.service.poolLabels: labels of app.kubernetes.io and tsunaro.io are the controller's own; let your pool select on another label",
        ),
    ]
}

fn dns() -> Vec<Rule> {
    let service = value(SERVICE);
    vec![
        rule(
            ZONE,
            zone(&value(ZONE)),
            "spec.dns.zone: write a domain in lower case without a final dot, such as prod-1.tailnet.example.internal",
        ),
        rule(
            SERVICE,
            format!(
                "{} && !({service} in [self.metadata.name, self.metadata.name + '-headless'])",
                service_name(&service)
            ),
            "spec.dns.serviceName: write the name of a Service, such as the gateway's with -dns; the gateway's own and the one with -headless are taken",
        ),
        rule(
            CLUSTER_IP,
            host_ipv4(&value(CLUSTER_IP)),
            "spec.dns.serviceClusterIP: write a free IPv4 address of the cluster's Service range, such as 10.96.0.54",
        ),
        optional(
            WILDCARD,
            &format!("({})", host_ipv4(&value(WILDCARD))),
            "spec.dns.wildcardAddress: write the IPv4 address of a host, such as 198.51.100.80, or remove the field",
        ),
    ]
}

fn records() -> Vec<Rule> {
    let each = |cel: &str| format!("{}.all(r, {cel})", value(RECORDS));
    let zone = value(ZONE);
    vec![
        optional(
            RECORDS,
            &each("has(r.address) != has(r.target)"),
            "spec.dns.staticRecords: give each record either an address or a target",
        ),
        optional(
            RECORDS,
            &each(&format!(
                "r.name == '@' || ({} && !r.name.endsWith('.') && r.name.lowerAscii() != {zone} && !r.name.lowerAscii().endsWith('.' + {zone}))",
                name("r.name")
            )),
            "spec.dns.staticRecords: write names relative to the zone, such as api, or '@' for the zone itself; no wildcards",
        ),
        optional(
            RECORDS,
            &each(&format!("!has(r.address) || ({})", host_ip("r.address"))),
            "spec.dns.staticRecords: write each address as the IP address of a host, such as 192.0.2.1",
        ),
        optional(
            RECORDS,
            &each(&format!("!has(r.target) || {}", name("r.target"))),
            "spec.dns.staticRecords: write each target as one label in the zone or as a full name",
        ),
        optional(
            RECORDS,
            &each("r.name != '@' || !has(r.target)"),
            "spec.dns.staticRecords: the zone itself ('@') cannot be an alias; give it addresses",
        ),
    ]
}

fn extra_zones() -> Vec<Rule> {
    let zones = value(ZONES);
    let main = value(ZONE);
    let (lb, cluster) = (value(LB_IP), value(CLUSTER_IP));
    vec![
        optional(
            ZONES,
            &format!("{zones}.all(z, {})", zone("z.zone")),
            "spec.dns.extraZones: write each zone in lower case without a final dot, such as corp.example",
        ),
        optional(
            ZONES,
            &format!(
                "{zones}.all(z, z.zone != {main} && !z.zone.endsWith('.' + {main}) && !{main}.endsWith('.' + z.zone))"
            ),
            "spec.dns.extraZones: zones must lie beside spec.dns.zone, not inside or around it",
        ),
        optional(
            ZONES,
            &format!("{zones}.all(a, {zones}.all(b, !a.zone.endsWith('.' + b.zone)))"),
            "spec.dns.extraZones: zones must lie beside each other; remove the one inside another",
        ),
        optional(
            ZONES,
            &format!("{zones}.all(z, z.upstreams.all(u, {}))", upstream("u")),
            "spec.dns.extraZones: write each upstream as an IP address, or as an address and a port, such as 198.51.100.53 or 198.51.100.53:5353",
        ),
        optional(
            ZONES,
            &format!(
                "{zones}.all(z, !z.upstreams.exists(u, u in [{lb}, {lb} + ':53', {cluster}, {cluster} + ':53']))"
            ),
            "spec.dns.extraZones: an upstream is this gateway itself; name the DNS server that knows the zone",
        ),
    ]
}

fn refused() -> Vec<Rule> {
    let absent = |field: &'static str, message: &str| {
        rule(field, format!("!has({})", value(field)), message)
    };
    vec![
        rule(
            ".spec.replicas",
            "self.spec.replicas == 1",
            "spec.replicas: write 1 or remove the field; several Pods cannot share a node identity: make a second TailnetGateway",
        ),
        absent(
            ".spec.forwards",
            "spec.forwards: a gateway forwards no TCP ports; remove the field and make a TailnetIngress for each service",
        ),
        absent(
            ".spec.forwardImage",
            "spec.forwardImage: a gateway forwards no TCP ports; remove the field",
        ),
        absent(
            ".spec.authKeySecretRef",
            "spec.authKeySecretRef: the controller makes its own pre-auth keys; remove the field",
        ),
        absent(
            ".spec.adoption",
            "spec.adoption: a gateway is always a new node; remove the field and run both side by side until the old router goes",
        ),
    ]
}

/// Fields that are identity: they may neither change nor appear nor vanish once pinned. The paths
/// are those of `tsunaro_model::gateway::PINNED_FIELDS`, in the same order.
const PINNED: [(&str, Kind); 10] = [
    (".spec.tailnetRef", Kind::Value),
    (".spec.hostname", Kind::Value),
    (TAGS, Kind::Set),
    (".spec.stateSecretRef", Kind::Value),
    (LB_IP, Kind::Value),
    (CLASS, Kind::OptionalText),
    (ZONE, Kind::Value),
    (SERVICE, Kind::Value),
    (CLUSTER_IP, Kind::Value),
    (ZONES, Kind::OptionalZones),
];

/// How a pinned field is compared.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// It is always there.
    Value,
    /// It is always there, and order means nothing.
    Set,
    /// Without it, the empty text stands for it.
    OptionalText,
    /// Without it, no zones stand for it; their order means nothing, that of upstreams does.
    OptionalZones,
}

impl Kind {
    fn same(self, field: &str) -> String {
        let new = format!("self{field}");
        let old = format!("oldSelf{field}");
        let or = |nothing: &str| {
            let either = |value: &str| format!("(has({value}) ? {value} : {nothing})");
            (either(&new), either(&old))
        };
        match self {
            Self::Value => format!("{new} == {old}"),
            Self::Set => {
                format!("({new}.all(t, t in {old}) && {old}.all(t, t in {new}))")
            }
            Self::OptionalText => {
                let (new, old) = or("''");
                format!("{new} == {old}")
            }
            Self::OptionalZones => format!(
                "(has({new}) && has({old}) ? size({new}) == size({old}) && {new}.all(a, {old}.exists(b, a.zone == b.zone && a.upstreams == b.upstreams)) : (!has({new}) || size({new}) == 0) && (!has({old}) || size({old}) == 0))"
            ),
        }
    }
}

fn pinned() -> Vec<Rule> {
    PINNED
        .into_iter()
        .map(|(field, kind)| {
            let same = kind.same(field);
            rule(
                field,
                format!(
                    "!has(oldSelf.status) || !has(oldSelf.status.pinned) || !oldSelf.status.pinned || {same}"
                ),
                format!(
                    "{}: it is part of the gateway's identity and cannot change, appear or vanish any more; put the old value back, or delete the gateway with deletionPolicy Delete and make a new one",
                    field.trim_start_matches('.')
                ),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_fields_are_those_of_the_model() {
        let paths: Vec<&str> = PINNED
            .iter()
            .map(|(field, _)| field.trim_start_matches('.'))
            .collect();
        assert_eq!(paths, tsunaro_model::gateway::PINNED_FIELDS);
    }
}
