//! Reading typed values out of the tree, with a remark for each that has the wrong type.

use std::collections::HashMap;

use super::syntax::strange_space;
use super::tree::{Data, NOTHING, Node};
use super::{Given, Text};
use crate::finding::{Place, Position, Report, printable, quoted};

/// Known names at this distance or nearer are suggested (Jaro-Winkler, 1.0 is equal).
const NEAR: f64 = 0.8;

/// The fields of one mapping, taken out one by one; what is left in the end is unknown.
pub(crate) struct Fields<'n> {
    place: Place,
    entries: Vec<Entry<'n>>,
    known: Vec<&'static str>,
}

struct Entry<'n> {
    name: &'n str,
    position: Position,
    value: &'n Node,
    taken: bool,
}

/// A field's value and where it stands.
pub(crate) struct Field<'n> {
    pub(crate) node: &'n Node,
    pub(crate) place: Place,
}

impl<'n> Fields<'n> {
    /// Opens a mapping. Reports another type, keys that are no text, and duplicate keys.
    pub(crate) fn open(Field { node, place }: Field<'n>, report: &mut Report) -> Option<Self> {
        let Data::Mapping(pairs) = &node.data else {
            wrong_type(node, &place, "a mapping (`field: value`)", report);
            return None;
        };
        let mut entries: Vec<Entry<'n>> = Vec::with_capacity(pairs.len());
        let mut first: HashMap<&str, Position> = HashMap::with_capacity(pairs.len());
        for (key, value) in pairs {
            let Data::Scalar { text: name, .. } = &key.data else {
                report.error(
                    &place.at(key.position),
                    "a field's name must be text",
                    "write `field: value`",
                );
                continue;
            };
            if let Some(Position { line, .. }) = first.get(name.as_str()) {
                let place = place.child(&printable(name), key.position);
                let what = format!(
                    "the field {} is given twice, first on line {line}",
                    quoted(name)
                );
                report.error(&place, what, "keep one of them");
                continue;
            }
            first.insert(name, key.position);
            entries.push(Entry {
                name,
                position: key.position,
                value,
                taken: false,
            });
        }
        Some(Self {
            place,
            entries,
            known: Vec::new(),
        })
    }

    /// The field of this name, if given.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Field<'n>> {
        self.known.push(name);
        let entry = self.entries.iter_mut().find(|entry| entry.name == name)?;
        entry.taken = true;
        Some(Field {
            node: entry.value,
            place: self.place.child(name, entry.value.position),
        })
    }

    /// The field of this name; its absence is reported with `fix`.
    pub(crate) fn require(
        &mut self,
        name: &'static str,
        fix: &str,
        report: &mut Report,
    ) -> Option<Field<'n>> {
        let field = self.take(name);
        if field.is_none() {
            let place = self.place.child(name, self.place.position);
            report.error(&place, format!("the field `{name}` is missing"), fix);
        }
        field
    }

    /// Where the mapping begins.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Reports the fields that nobody took.
    pub(crate) fn close(self, report: &mut Report) {
        let Self {
            place,
            entries,
            known,
        } = self;
        for Entry { name, position, .. } in entries.iter().filter(|entry| !entry.taken) {
            // To YAML such a space is a letter of the name.
            if let Some(first) = name.chars().next().filter(|c| c.is_whitespace()) {
                let place = place.child(&printable(name.trim_start()), *position);
                let what = strange_space(first);
                report.error(&place, what, "indent with spaces");
                continue;
            }
            let place = place.child(&printable(name), *position);
            report.error(&place, "unknown field", suggestion(name, &known));
        }
    }
}

fn suggestion(name: &str, known: &[&str]) -> String {
    if name == "<<" {
        return "write the fields out; YAML 1.2 has no merge keys".to_owned();
    }
    let folded = name.to_ascii_lowercase();
    let nearest = known
        .iter()
        .map(|candidate| {
            (
                strsim::jaro_winkler(&folded, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match nearest {
        Some((nearness, candidate)) if nearness >= NEAR => format!("did you mean `{candidate}`?"),
        _ => format!("remove it; the fields here are {}", backticked(known)),
    }
}

fn backticked(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Reads text.
pub(crate) fn text(Field { node, place }: Field<'_>, report: &mut Report) -> Option<Text> {
    match &node.data {
        Data::Scalar { text, plain } if kind(text, *plain) == Kind::Text => Some(Given {
            value: text.clone(),
            place,
        }),
        _ => {
            wrong_type(node, &place, "text", report);
            None
        }
    }
}

/// Reads a whole decimal number.
pub(crate) fn number(
    Field { node, place }: Field<'_>,
    unit: &str,
    report: &mut Report,
) -> Option<Given<i64>> {
    if let Data::Scalar { text, plain } = &node.data
        && kind(text, *plain) == Kind::Number
        && let Ok(value) = text.parse()
    {
        return Some(Given { value, place });
    }
    wrong_type(node, &place, &format!("a whole number of {unit}"), report);
    None
}

/// Reads true or false.
pub(crate) fn boolean(
    Field { node, place }: Field<'_>,
    report: &mut Report,
) -> Option<Given<bool>> {
    if let Data::Scalar { text, plain } = &node.data
        && let Kind::Boolean(value) = kind(text, *plain)
    {
        return Some(Given { value, place });
    }
    wrong_type(node, &place, "`true` or `false`", report);
    None
}

/// Reads a list, each entry by `each`; entries it gives nothing for are left out.
pub(crate) fn list<T>(
    Field { node, place }: Field<'_>,
    report: &mut Report,
    mut each: impl FnMut(Field<'_>, &mut Report) -> Option<T>,
) -> Option<Given<Vec<T>>> {
    let Data::Sequence(nodes) = &node.data else {
        wrong_type(node, &place, "a list", report);
        return None;
    };
    let mut value = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        value.extend(each(
            Field {
                node,
                place: place.item(index, node.position),
            },
            report,
        ));
    }
    Some(Given { value, place })
}

/// Reads a list that must not be empty.
pub(crate) fn filled_list<T>(
    field: Field<'_>,
    fix: &str,
    report: &mut Report,
    each: impl FnMut(Field<'_>, &mut Report) -> Option<T>,
) -> Option<Given<Vec<T>>> {
    if matches!(&field.node.data, Data::Sequence(nodes) if nodes.is_empty()) {
        report.error(&field.place, "the list `[]` is empty", fix);
    }
    list(field, report, each)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Boolean(bool),
    Number,
    Text,
}

/// What a scalar is by YAML's core schema (YAML 1.2.2 §10.3.2).
fn kind(text: &str, plain: bool) -> Kind {
    if !plain {
        return Kind::Text;
    }
    match text {
        _ if NOTHING.contains(&text) => Kind::Nothing,
        "true" | "True" | "TRUE" => Kind::Boolean(true),
        "false" | "False" | "FALSE" => Kind::Boolean(false),
        _ if is_number(text) => Kind::Number,
        _ => Kind::Text,
    }
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned.to_ascii_lowercase().as_str(), ".inf" | ".nan") {
        return true;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    // Rust's floats are this shape too, but for the words that the first test leaves over.
    unsigned.bytes().any(|b| b.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'))
        && unsigned.parse::<f64>().is_ok()
}

fn wrong_type(node: &Node, place: &Place, wanted: &str, report: &mut Report) {
    let (found, fix) = match &node.data {
        Data::Sequence(_) if wanted == "text" => (
            "a list".to_owned(),
            "put text that begins with `[` in quotes".to_owned(),
        ),
        Data::Sequence(_) => ("a list".to_owned(), format!("write {wanted}")),
        Data::Mapping(_) => ("a mapping".to_owned(), format!("write {wanted}")),
        Data::Scalar { text, plain } => match kind(text, *plain) {
            Kind::Nothing => {
                report.error(
                    place,
                    "the field has no value",
                    format!("write {wanted}, or leave the field out if it is optional"),
                );
                return;
            }
            Kind::Boolean(_) | Kind::Number if wanted == "text" => (
                quoted(text),
                format!("put it in quotes, as in `\"{}\"`", printable(text)),
            ),
            Kind::Text if !plain && kind(text, true) != Kind::Text => (
                format!("the text {}", quoted(text)),
                "remove the quotes".to_owned(),
            ),
            Kind::Boolean(_) | Kind::Number => (quoted(text), format!("write {wanted}")),
            Kind::Text => (
                format!("the text {}", quoted(text)),
                format!("write {wanted}"),
            ),
        },
    };
    report.error(place, format!("expected {wanted}, found {found}"), fix);
}
