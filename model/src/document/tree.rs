//! YAML text as a tree with a position on every node. Duplicate keys stay in it, so that the
//! structure check can report all of them.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::syntax;
use crate::finding::{Place, Position, Report};

/// Nesting of lists and mappings at most; the deepest valid config has four levels.
const MAX_DEPTH: usize = 32;

/// Nodes at most, those that aliases repeat included: a short file must not grow without bound.
const MAX_NODES: usize = 200_000;

/// How plain text says that there is no value (YAML 1.2.2 §10.3.2).
pub(crate) const NOTHING: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) data: Data,
}

impl Node {
    /// True for no value, such as an empty document.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(&self.data, Data::Scalar { text, plain: true } if NOTHING.contains(&text.as_str()))
    }
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// `plain`: written without quotes, and so perhaps a number, a truth value or nothing.
    Scalar { text: String, plain: bool },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values in the file's order.
    Mapping(Vec<(Node, Node)>),
}

/// Reads the one document of a file. None: there is none, or the report says why not.
pub(crate) fn read(text: &str, report: &mut Report) -> Option<Node> {
    read_documents(text, Documents::One, report).pop()
}

/// Reads all documents of a file, those without content left out. After a syntax error the report
/// says so, and the documents before it are given.
pub(crate) fn read_all(text: &str, report: &mut Report) -> Vec<Node> {
    let mut documents = read_documents(text, Documents::Any, report);
    documents.retain(|document| !document.is_nothing());
    documents
}

/// How many documents a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Documents {
    One,
    Any,
}

fn read_documents(text: &str, documents: Documents, report: &mut Report) -> Vec<Node> {
    let mut builder = Builder::default();
    for event in Events(Parser::new_from_str(text)) {
        let (event, span) = match event {
            Ok(next) => next,
            Err(error) => {
                let (position, what, fix) = syntax::explain(text, &error);
                report.error(&whole_file(position), what, fix);
                return builder.interrupted(documents);
            }
        };
        let position = position(span.start);
        if matches!(event, Event::DocumentStart(_))
            && documents == Documents::One
            && !builder.roots.is_empty()
        {
            let what = "a second YAML document begins here";
            report.error(
                &whole_file(position),
                what,
                "keep one document, and remove this `---` and what follows",
            );
            break;
        }
        if let Err(Refused { what, fix }) = builder.take(event, position) {
            report.error(&whole_file(position), what, fix);
            return builder.interrupted(documents);
        }
    }
    builder.roots
}

/// A place for remarks on no field in particular.
pub(crate) fn whole_file(position: Position) -> Place {
    Place {
        position,
        field: String::new(),
    }
}

/// A position in the sense of [`Position`]; the scanner counts columns from 0.
pub(crate) fn position(marker: Marker) -> Position {
    let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position {
        line: clamp(marker.line().max(1)),
        column: clamp(marker.col().saturating_add(1)),
    }
}

struct Events<'t>(Parser<'t, saphyr_parser::StrInput<'t>>);

impl<'t> Iterator for Events<'t> {
    type Item = Result<(Event<'t>, saphyr_parser::Span), saphyr_parser::ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_event()
    }
}

struct Refused {
    what: &'static str,
    fix: &'static str,
}

const TOO_MUCH: Refused = Refused {
    what: "the file is nested or repeated too much",
    fix: "write it without deep nesting and with fewer aliases",
};

#[derive(Default)]
struct Builder {
    nodes: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    roots: Vec<Node>,
}

/// A list or mapping whose end has not come yet.
struct Open {
    position: Position,
    anchor: usize,
    content: Content,
}

enum Content {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<(Node, Node)>,
        key: Option<Node>,
    },
}

impl Builder {
    /// What is left after an error: nothing of a single document, which is broken.
    fn interrupted(self, documents: Documents) -> Vec<Node> {
        match documents {
            Documents::One => Vec::new(),
            Documents::Any => self.roots,
        }
    }

    fn take(&mut self, event: Event<'_>, position: Position) -> Result<(), Refused> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            // Anchors end with their document.
            Event::DocumentStart(_) => self.anchors.clear(),
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some())?;
                let data = Data::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                };
                self.add(Node { position, data }, anchor, 1)?;
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.is_some())?;
                self.begin(Open {
                    position,
                    anchor,
                    content: Content::Sequence(Vec::new()),
                })?;
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.is_some())?;
                self.begin(Open {
                    position,
                    anchor,
                    content: Content::Mapping {
                        entries: Vec::new(),
                        key: None,
                    },
                })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Open {
                    position,
                    anchor,
                    content,
                }) = self.open.pop()
                {
                    let data = match content {
                        Content::Sequence(items) => Data::Sequence(items),
                        Content::Mapping { entries, key: _ } => Data::Mapping(entries),
                    };
                    self.add(Node { position, data }, anchor, 1)?;
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(Refused {
                        what: "this alias stands inside the value it refers to",
                        fix: "write the value out",
                    });
                };
                let (nodes, height) = measure(node);
                if self.open.len() + height > MAX_DEPTH || self.nodes + nodes > MAX_NODES {
                    return Err(TOO_MUCH);
                }
                let node = Node {
                    position,
                    data: node.data.clone(),
                };
                self.add(node, 0, nodes)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, open: Open) -> Result<(), Refused> {
        if self.open.len() >= MAX_DEPTH {
            return Err(TOO_MUCH);
        }
        self.open.push(open);
        Ok(())
    }

    fn add(&mut self, node: Node, anchor: usize, nodes: usize) -> Result<(), Refused> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(TOO_MUCH);
        }
        // The parser numbers anchors from 1.
        if anchor > 0 {
            let (nodes, _) = measure(&node);
            self.nodes += nodes;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.roots.push(node),
            Some(Content::Sequence(items)) => items.push(node),
            Some(Content::Mapping { entries, key }) => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push((key, node)),
            },
        }
        Ok(())
    }
}

fn refuse_tag(tagged: bool) -> Result<(), Refused> {
    if tagged {
        return Err(Refused {
            what: "YAML tags (`!…`) have no use in this file",
            fix: "remove the tag, or quote the text",
        });
    }
    Ok(())
}

/// How many nodes a value has, and how many levels.
fn measure(node: &Node) -> (usize, usize) {
    let (nodes, height) = match &node.data {
        Data::Scalar { .. } => (0, 0),
        Data::Sequence(items) => together(items.iter()),
        Data::Mapping(entries) => together(entries.iter().flat_map(|(key, value)| [key, value])),
    };
    (nodes + 1, height + 1)
}

fn together<'n>(nodes: impl Iterator<Item = &'n Node>) -> (usize, usize) {
    nodes
        .map(measure)
        .fold((0, 0), |(count, height), (n, h)| (count + n, height.max(h)))
}
