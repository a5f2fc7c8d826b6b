//! From text to objects: first structure, then meaning; both collect every remark.

use super::{Egress, Gateway, Ingress, Located, Site, Tailnet, meaning, structure};
use crate::document::tree;
use crate::finding::{Finding, Position, Report};

/// An object of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A `TailnetGateway`.
    Gateway(Box<Gateway>),
    /// A `Tailnet`.
    Tailnet(Box<Tailnet>),
    /// A `TailnetEgress`.
    Egress(Egress),
    /// A `TailnetIngress`.
    Ingress(Ingress),
    /// A `TailnetSite`.
    Site(Site),
}

/// What a file says, and all remarks about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The valid objects in the file's order.
    pub objects: Vec<Located>,
    /// Objects of other API groups, which are left alone.
    pub foreign: usize,
    /// All remarks, by position. An object with an error among them is not in `objects`.
    pub findings: Vec<Finding>,
}

/// Parses and checks a file of YAML documents or JSON. Total: any text gives objects, errors or
/// both. A `List` counts as the objects in it.
pub fn parse(text: &str) -> Parsed {
    // Editors on Windows begin files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut syntax = Report::default();
    let documents = tree::read_all(text, &mut syntax);
    let mut parsed = Parsed::default();
    if documents.is_empty() && !syntax.has_errors() {
        syntax.error(
            &tree::whole_file(Position { line: 1, column: 1 }),
            "the file is empty",
            format!(
                "begin with `apiVersion: {}` and `kind: TailnetGateway`",
                super::API_VERSION
            ),
        );
    }
    for document in &documents {
        structure::each_object(document, &mut syntax, &mut |node, report| {
            object(node, report, &mut parsed);
        });
    }
    parsed.findings.extend(syntax.into_sorted());
    parsed.findings.sort_by_key(|finding| finding.position);
    parsed
}

fn object(node: &tree::Node, file: &mut Report, parsed: &mut Parsed) {
    let mut report = Report::default();
    match structure::object(node, &mut report) {
        structure::Read::Foreign => parsed.foreign += 1,
        structure::Read::Unreadable => {}
        structure::Read::Ours(wire) => {
            let object = meaning::object(*wire, &mut report);
            if let Some(object) = object.filter(|_| !report.has_errors()) {
                parsed.objects.push(Located {
                    object,
                    position: node.position,
                });
            }
        }
    }
    file.append(report);
}
