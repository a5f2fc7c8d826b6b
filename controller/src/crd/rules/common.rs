//! CEL expressions that several rules share. Each takes the expression of a text.

/// Labels with dots between them, in lower case.
const SUBDOMAIN: &str =
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$";
/// One label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A label that begins with a letter (RFC 1035 §2.3.1).
const SERVICE: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// A zone in its one spelling.
const ZONE: &str = "^[a-z0-9_-]{1,63}([.][a-z0-9_-]{1,63})*$";
/// A name as people write it.
const NAME: &str = "^[A-Za-z0-9_-]{1,63}([.][A-Za-z0-9_-]{1,63})*[.]?$";
const TAG: &str = "^tag:[a-z][a-z0-9-]{0,62}$";
const IMAGE: &str = "^([a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?/)?[a-z0-9]([a-z0-9._-]*[a-z0-9])?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$";
const VERSIONED: &str = "(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$";
const LATEST: &str = ":latest(@|$)";
/// A label key or a class: an optional prefix with a slash, and a word.
const QUALIFIED: &str =
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// What nobody advertises: the tailnet's own range, loopback, multicast, link-local, "this network",
/// broadcast.
const RESERVED: &str = "['100.64.0.0/10', '127.0.0.0/8', '224.0.0.0/4', '169.254.0.0/16', '0.0.0.0/8', '255.255.255.255/32']";

/// The expression of a field.
pub(super) fn value(field: &str) -> String {
    format!("self{field}")
}

fn matches(text: &str, regex: &str) -> String {
    format!("{text}.matches('{regex}')")
}

pub(super) fn subdomain(text: &str) -> String {
    matches(text, SUBDOMAIN)
}

pub(super) fn label(text: &str) -> String {
    matches(text, LABEL)
}

pub(super) fn service_name(text: &str) -> String {
    matches(text, SERVICE)
}

pub(super) fn zone(text: &str) -> String {
    matches(text, ZONE)
}

pub(super) fn name(text: &str) -> String {
    matches(text, NAME)
}

pub(super) fn tag(text: &str) -> String {
    matches(text, TAG)
}

pub(super) fn qualified(text: &str) -> String {
    matches(text, QUALIFIED)
}

pub(super) fn image(text: &str) -> String {
    matches(text, IMAGE)
}

/// An image with a tag or digest, but not `latest`.
pub(super) fn versioned(text: &str) -> String {
    format!("{} && !{}", matches(text, VERSIONED), matches(text, LATEST))
}

/// The IPv4 address of a host.
pub(super) fn host_ipv4(text: &str) -> String {
    format!(
        "isIP({text}) && ip({text}).family() == 4 && !ip({text}).isUnspecified() && !ip({text}).isLoopback() && !cidr('224.0.0.0/4').containsIP({text})"
    )
}

/// An address of a host that is written in one way only.
pub(super) fn host_ip(text: &str) -> String {
    format!(
        "isIP({text}) && !ip({text}).isUnspecified() && !cidr('224.0.0.0/4').containsIP({text}) && !cidr('ff00::/8').containsIP({text})"
    )
}

/// Not an IPv6 prefix or address.
pub(super) fn not_ipv6(text: &str) -> String {
    format!("!{text}.contains(':')")
}

/// A prefix without host bits.
pub(super) fn canonical_prefix(text: &str) -> String {
    format!(
        "isCIDR({text}) && !{text}.matches('(^|[./])0[0-9]') && cidr({text}) == cidr({text}).masked()"
    )
}

/// A prefix that a gateway may advertise; true for what is no IPv4 prefix, which others say.
pub(super) fn routable_prefix(text: &str) -> String {
    format!(
        "!isCIDR({text}) || {text}.contains(':') || (cidr({text}).prefixLength() > 0 && !{RESERVED}.exists(r, cidr(r).containsCIDR(cidr({text}).masked()) || cidr({text}).masked().containsCIDR(r)))"
    )
}

/// An IPv4 address that a gateway may advertise; true for what is no address.
pub(super) fn routable_ip(text: &str) -> String {
    format!("!isIP({text}) || !{RESERVED}.exists(r, cidr(r).containsIP({text}))")
}

/// An address, or an address and a port.
pub(super) fn upstream(text: &str) -> String {
    let host = host_ip;
    let v4 = format!("{text}.split(':')[0]");
    let v6 = format!("{text}.substring(1, {text}.indexOf(']'))");
    let port = format!("int({text}.substring({text}.lastIndexOf(':') + 1)) <= 65535");
    format!(
        "({} ? ({} && {port}) : {} ? ({} && {port}) : ({}))",
        matches(text, "^[0-9.]+:[1-9][0-9]{0,4}$"),
        host(&v4),
        matches(text, r"^\\[[0-9A-Fa-f:.]+\\]:[1-9][0-9]{0,4}$"),
        host(&v6),
        host(text),
    )
}
