//! Names, tags, labels, choices: short texts with a syntax of their own. Every rule here has a
//! twin in CEL, in the custom resource's schema.

use crate::document::{Given, Text};
use crate::finding::{Report, quoted};

/// Longest DNS label (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;
/// Longest name of a Kubernetes object.
const MAX_SUBDOMAIN: usize = 253;
/// Longest gateway name: its StatefulSet adds a hyphen and a hash of ten characters to name a
/// revision in a label, which has at most 63.
pub(super) const MAX_GATEWAY_NAME: usize = 52;

/// Letters, digits and hyphens, as in host names and Service names (RFC 1123 §2.1).
fn is_label(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(|b| word(b) || b == b'-')
        && text.bytes().next().is_some_and(word)
        && text.bytes().last().is_some_and(word)
}

/// Labels with dots between them, as in names of most objects.
fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_label)
}

/// A label that begins with a letter, as Service names must (RFC 1035 §2.3.1).
fn is_service_name(text: &str) -> bool {
    is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The name of a gateway.
pub(super) fn gateway_name(text: &Text, report: &mut Report) -> Option<String> {
    let Given { value, place } = text;
    if is_service_name(value) && value.len() <= MAX_GATEWAY_NAME {
        return Some(value.clone());
    }
    report.error(
        place,
        format!("{} cannot name a gateway, since its Services and Pod are named after it", quoted(value)),
        format!("write at most {MAX_GATEWAY_NAME} of a-z, 0-9 and `-`, beginning with a letter and not ending with `-`"),
    );
    None
}

/// The name of a Service.
pub(super) fn service_name(text: &Text, report: &mut Report) -> Option<String> {
    let Given { value, place } = text;
    if is_service_name(value) {
        return Some(value.clone());
    }
    report.error(
        place,
        format!("{} is not the name of a Service", quoted(value)),
        "write at most 63 of a-z, 0-9 and `-`, beginning with a letter and not ending with `-`",
    );
    None
}

/// The name of any other object.
pub(super) fn object_name(text: &Text, report: &mut Report) -> Option<String> {
    let Given { value, place } = text;
    if is_subdomain(value) {
        return Some(value.clone());
    }
    report.error(
        place,
        format!("{} is not the name of an object", quoted(value)),
        "write a-z, 0-9, `-` and `.`, beginning and ending with a letter or digit",
    );
    None
}

/// A node's name at Headscale.
pub(super) fn hostname(text: &Text, report: &mut Report) -> Option<String> {
    let Given { value, place } = text;
    if is_label(value) {
        return Some(value.clone());
    }
    report.error(
        place,
        format!("{} is not a host name of one label", quoted(value)),
        "write at most 63 of a-z, 0-9 and `-`, not beginning or ending with `-`",
    );
    None
}

/// Tags, such as `tag:fabric`; repeated ones are left out with a warning.
pub(super) fn tags(given: Vec<Text>, report: &mut Report) -> Vec<String> {
    let mut tags = Vec::with_capacity(given.len());
    for Given { value, place } in given {
        if !is_tag(&value) {
            report.error(
                &place,
                format!("{} is not a tag", quoted(&value)),
                "write `tag:` and then a-z, 0-9 and `-`, as in `tag:fabric`",
            );
        } else if tags.contains(&value) {
            report.error(
                &place,
                format!("the tag {} is listed twice", quoted(&value)),
                "remove one of them",
            );
        } else {
            tags.push(value);
        }
    }
    tags
}

fn is_tag(text: &str) -> bool {
    text.strip_prefix("tag:").is_some_and(|name| {
        name.len() <= MAX_LABEL
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    })
}

/// A word that Kubernetes allows in label keys and values.
fn is_word(text: &str) -> bool {
    let end = |b: u8| b.is_ascii_alphanumeric();
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(|b| end(b) || b"-_.".contains(&b))
        && text.bytes().next().is_some_and(end)
        && text.bytes().last().is_some_and(end)
}

/// `name` or `prefix/name`, as in label keys and load balancer classes.
pub(super) fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_word(name),
        None => is_word(text),
    }
}

/// The value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

/// One of a few words; without a field, the default.
pub(super) fn choice<T: Copy>(
    given: Option<Text>,
    choices: &[(&str, T)],
    default: T,
    report: &mut Report,
) -> T {
    let Some(Given { value, place }) = given else {
        return default;
    };
    if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == value) {
        return *choice;
    }
    let words: Vec<String> = choices
        .iter()
        .map(|(word, _)| format!("`{word}`"))
        .collect();
    report.error(
        &place,
        format!("{} is not one of the choices", quoted(&value)),
        format!("write {}", words.join(" or ")),
    );
    default
}
