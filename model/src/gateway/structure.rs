//! First phase: fields and types. The tree becomes objects as written.

mod gateway;
mod others;

use super::API_VERSION;
use super::wire::{KeyRef, Metadata, Object};
use crate::document::fields::{self, Field, Fields};
use crate::document::tree::{Data, Node, whole_file};
use crate::document::{Given, Text};
use crate::finding::{Place, Report, quoted};

/// The group of our resources.
const GROUP: &str = "tsunaro.io";
/// The kinds of the group.
const KINDS: [&str; 5] = [
    "TailnetGateway",
    "Tailnet",
    "TailnetEgress",
    "TailnetIngress",
    "TailnetSite",
];

/// What became of one document.
pub(super) enum Read {
    /// One of ours, as far as it could be read.
    Ours(Box<Object>),
    /// An object of another API group.
    Foreign,
    /// No object, or an unknown kind; the report says so.
    Unreadable,
}

/// Calls `each` for the document itself, or for every item when it is a `List`.
pub(super) fn each_object(
    document: &Node,
    report: &mut Report,
    each: &mut dyn FnMut(&Node, &mut Report),
) {
    let Some(items) = items(document) else {
        return each(document, report);
    };
    match &items.data {
        Data::Sequence(items) => items.iter().for_each(|item| each(item, report)),
        // `items: null` is how some write an empty one.
        _ if items.is_nothing() => {}
        Data::Scalar { .. } | Data::Mapping(_) => {
            let place = Place {
                position: items.position,
                field: "items".to_owned(),
            };
            report.error(&place, "it must be a list", "write the objects as a list");
        }
    }
}

/// The items of a `List`, or of a list of one kind as the API itself answers with.
fn items(document: &Node) -> Option<&Node> {
    let kind = scalar(document, "kind")?;
    let ours = || {
        let of_kind = kind.strip_suffix("List");
        group(document) == Some(GROUP) && of_kind.is_some_and(|kind| KINDS.contains(&kind))
    };
    if kind != "List" && !ours() {
        return None;
    }
    child(document, "items")
}

/// Reads one object.
pub(super) fn object(node: &Node, report: &mut Report) -> Read {
    if let (Some(group), Some(kind)) = (group(node), scalar(node, "kind"))
        && group != GROUP
    {
        if KINDS.contains(&kind) {
            warn_of_group(node, group, kind, report);
        }
        return Read::Foreign;
    }
    let root = Field {
        node,
        place: whole_file(node.position),
    };
    let Some(mut fields) = Fields::open(root, report) else {
        return Read::Unreadable;
    };
    let version = required_text(
        &mut fields,
        "apiVersion",
        "write `apiVersion: tsunaro.io/v1alpha1`",
        report,
    );
    if let Some(Text { value, place }) = version
        && value != API_VERSION
    {
        report.error(
            &place,
            format!("{} is not a version that is known here", quoted(&value)),
            format!("write `apiVersion: {API_VERSION}`"),
        );
    }
    let Some(kind) = required_text(
        &mut fields,
        "kind",
        "write `kind: TailnetGateway`, for example",
        report,
    ) else {
        return Read::Unreadable;
    };
    match kind.value.as_str() {
        "TailnetGateway" => gateway::gateway(fields, report),
        "Tailnet" => others::tailnet(fields, report),
        "TailnetEgress" => others::egress(fields, report),
        "TailnetIngress" => others::ingress(fields, report),
        "TailnetSite" => others::site(fields, report),
        other => {
            report.error(
                &kind.place,
                format!("{} is not a kind of {GROUP}", quoted(other)),
                format!("write one of {}", KINDS.join(", ")),
            );
            return Read::Unreadable;
        }
    }
    .map_or(Read::Unreadable, |object| Read::Ours(Box::new(object)))
}

/// The part of `apiVersion` before the slash.
fn group(node: &Node) -> Option<&str> {
    scalar(node, "apiVersion")?.split('/').next()
}

/// One of our kinds under another group: most likely a slip.
fn warn_of_group(node: &Node, group: &str, kind: &str, report: &mut Report) {
    let position = child(node, "apiVersion").map_or(node.position, |version| version.position);
    let place = Place {
        position,
        field: "apiVersion".to_owned(),
    };
    report.warn(
        &place,
        format!(
            "this {kind} is of the group {} and left alone",
            quoted(group)
        ),
        format!("write `apiVersion: {API_VERSION}` if it is meant for this gateway"),
    );
}

/// Fields of `metadata` that the API server knows and that mean nothing here.
const OTHER_METADATA: [&str; 9] = [
    "ownerReferences",
    "generateName",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// `metadata`, which every object needs.
fn metadata(fields: &mut Fields<'_>, report: &mut Report) -> Metadata {
    let mut metadata = Metadata {
        name: None,
        namespace: None,
        uid: None,
    };
    let field = fields.require("metadata", "add `metadata: { name: … }`", report);
    let Some(mut inner) = field.and_then(|field| Fields::open(field, report)) else {
        return metadata;
    };
    metadata.name = required_text(&mut inner, "name", "add the object's name", report);
    metadata.namespace = text(&mut inner, "namespace", report);
    metadata.uid = text(&mut inner, "uid", report);
    for known in ["labels", "annotations"] {
        if let Some(field) = inner.take(known).filter(|field| !field.node.is_nothing()) {
            map(field, report);
        }
    }
    if let Some(field) = inner
        .take("finalizers")
        .filter(|field| !field.node.is_nothing())
    {
        fields::list(field, report, fields::text);
    }
    for known in OTHER_METADATA {
        inner.take(known);
    }
    inner.close(report);
    metadata
}

/// `spec`, opened.
fn spec<'n>(fields: &mut Fields<'n>, report: &mut Report) -> Option<Fields<'n>> {
    let field = fields.require("spec", "add `spec:`", report)?;
    Fields::open(field, report)
}

/// A field that is itself a mapping.
fn inner<'n>(
    fields: &mut Fields<'n>,
    name: &'static str,
    report: &mut Report,
) -> Option<Fields<'n>> {
    let field = fields.take(name)?;
    Fields::open(field, report)
}

fn text(fields: &mut Fields<'_>, name: &'static str, report: &mut Report) -> Option<Text> {
    fields
        .take(name)
        .and_then(|field| fields::text(field, report))
}

fn required_text(
    fields: &mut Fields<'_>,
    name: &'static str,
    fix: &str,
    report: &mut Report,
) -> Option<Text> {
    fields
        .require(name, fix, report)
        .and_then(|field| fields::text(field, report))
}

fn boolean(
    fields: &mut Fields<'_>,
    name: &'static str,
    report: &mut Report,
) -> Option<Given<bool>> {
    fields
        .take(name)
        .and_then(|field| fields::boolean(field, report))
}

fn number(
    fields: &mut Fields<'_>,
    name: &'static str,
    unit: &str,
    report: &mut Report,
) -> Option<Given<i64>> {
    fields
        .take(name)
        .and_then(|field| fields::number(field, unit, report))
}

fn texts(
    fields: &mut Fields<'_>,
    name: &'static str,
    report: &mut Report,
) -> Option<Given<Vec<Text>>> {
    fields
        .take(name)
        .and_then(|field| fields::list(field, report, fields::text))
}

/// `tailnetRef: { name: … }` and others of that shape.
fn reference(
    fields: &mut Fields<'_>,
    name: &'static str,
    fix: &str,
    report: &mut Report,
) -> Option<Text> {
    let field = fields.require(name, fix, report)?;
    let mut inner = Fields::open(field, report)?;
    let text = required_text(&mut inner, "name", fix, report);
    inner.close(report);
    text
}

/// `{ name: …, key: … }` in an optional field.
fn key_ref(fields: &mut Fields<'_>, name: &'static str, report: &mut Report) -> Option<KeyRef> {
    let mut inner = inner(fields, name, report)?;
    let reference = KeyRef {
        name: required_text(&mut inner, "name", "add the object's name", report),
        key: text(&mut inner, "key", report),
    };
    inner.close(report);
    Some(reference)
}

/// A mapping of text to text.
fn map(Field { node, place }: Field<'_>, report: &mut Report) -> Option<Given<Vec<(Text, Text)>>> {
    let Data::Mapping(pairs) = &node.data else {
        // Reports the wrong type.
        Fields::open(Field { node, place }, report)?;
        return None;
    };
    let mut value = Vec::with_capacity(pairs.len());
    for (key, node) in pairs {
        let Data::Scalar { text, .. } = &key.data else {
            continue;
        };
        let at = place.child(
            &format!("[{}]", crate::finding::printable(text)),
            node.position,
        );
        let key = Given {
            value: text.clone(),
            place: Place {
                position: key.position,
                field: at.field.clone(),
            },
        };
        value.extend(fields::text(Field { node, place: at }, report).map(|text| (key, text)));
    }
    // Reports duplicate keys and keys that are no text.
    Fields::open(
        Field {
            node,
            place: place.clone(),
        },
        report,
    );
    Some(Given { value, place })
}

fn child<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Data::Mapping(pairs) = &node.data else {
        return None;
    };
    pairs.iter().find_map(|(key, value)| {
        matches!(&key.data, Data::Scalar { text, .. } if text == name).then_some(value)
    })
}

fn scalar<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    match &child(node, name)?.data {
        Data::Scalar { text, .. } => Some(text),
        Data::Sequence(_) | Data::Mapping(_) => None,
    }
}
