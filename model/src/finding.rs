//! What a parser has to say about a human's file: where, about which field, what, and the fix.

use std::fmt;

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file works, but probably not as its author thinks.
    Warning,
    /// The entry that the finding names is left out; the rest of the file can be used without it.
    LeftOut,
    /// The file cannot be used.
    Error,
}

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// One remark about a file, complete enough to act on without reading the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Where it is.
    pub position: Position,
    /// Path of the field, such as `dns.extraZones[1].upstreams[0]`; empty for the whole document.
    pub field: String,
    /// What is wrong, without a final period.
    pub what: String,
    /// What to write instead, as an imperative without a final period.
    pub fix: String,
}

impl Finding {
    /// True when the file, or the entry the finding names, cannot be used.
    pub fn is_error(&self) -> bool {
        self.severity != Severity::Warning
    }

    /// True when the whole file cannot be used.
    pub fn spoils_the_file(&self) -> bool {
        self.severity == Severity::Error
    }

    pub(crate) fn new(
        severity: Severity,
        place: &Place,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let Place { position, field } = place.clone();
        Self {
            severity,
            position,
            field,
            what: what.into(),
            fix: fix.into(),
        }
    }

    /// The finding as one line, `file:line:column: field: what; fix`.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        InFile {
            finding: self,
            file,
        }
    }
}

/// Which part of a file a remark is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) position: Position,
    /// Path of the field, as in [`Finding::field`].
    pub(crate) field: String,
}

impl Place {
    /// The same path at another position.
    pub(crate) fn at(&self, position: Position) -> Self {
        Self {
            position,
            field: self.field.clone(),
        }
    }

    /// The field `name` inside this one.
    pub(crate) fn child(&self, name: &str, position: Position) -> Self {
        let field = if self.field.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.field)
        };
        Self { position, field }
    }

    /// The entry `index` of this list.
    pub(crate) fn item(&self, index: usize, position: Position) -> Self {
        Self {
            position,
            field: format!("{}[{index}]", self.field),
        }
    }
}

/// Findings as a parser collects them.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Finding>);

impl Report {
    /// Adds a remark on something that cannot be used.
    pub(crate) fn error(&mut self, place: &Place, what: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding::new(Severity::Error, place, what, fix));
    }

    /// Adds a remark on an entry that the file can be used without.
    pub(crate) fn leave_out(
        &mut self,
        place: &Place,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.0
            .push(Finding::new(Severity::LeftOut, place, what, fix));
    }

    /// Nothing is left of what entries were left out of: their remarks count for the whole file.
    pub(crate) fn spoil(&mut self) {
        for finding in &mut self.0 {
            if finding.severity == Severity::LeftOut {
                finding.severity = Severity::Error;
            }
        }
    }

    /// The remark added last.
    pub(crate) fn last(&self) -> Option<&Finding> {
        self.0.last()
    }

    /// True when the whole file cannot be used.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.0.iter().any(Finding::spoils_the_file)
    }

    /// Adds a remark on something that works, but probably not as meant.
    pub(crate) fn warn(&mut self, place: &Place, what: impl Into<String>, fix: impl Into<String>) {
        self.0
            .push(Finding::new(Severity::Warning, place, what, fix));
    }

    /// True when something cannot be used.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(Finding::is_error)
    }

    /// Takes over all remarks of another report.
    pub(crate) fn append(&mut self, other: Self) {
        let Self(findings) = other;
        self.0.extend(findings);
    }

    /// All findings by position; those at one position in the order of discovery.
    pub(crate) fn into_sorted(self) -> Vec<Finding> {
        let Self(mut findings) = self;
        findings.sort_by_key(|finding| finding.position);
        findings
    }
}

/// Longest piece of a file that a message repeats, in characters.
const MAX_QUOTED: usize = 80;

/// How pre-auth keys of Tailscale and Headscale begin; none may reach a message.
const KEY_PREFIXES: [&str; 2] = ["tskey-", "hskey-"];

/// True for what looks like a pre-auth key instead of the path of one.
pub(crate) fn looks_like_key(text: &str) -> bool {
    KEY_PREFIXES.iter().any(|prefix| text.contains(prefix))
}

/// A piece of a file in backticks: control characters escaped, cut when long, keys blanked out.
pub(crate) fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    format!("`{}`", printable(text))
}

/// Like [`quoted`], without the backticks.
pub(crate) fn printable(text: &str) -> String {
    if looks_like_key(text) {
        return "(a key)".to_owned();
    }
    let mut shown: String = text
        .chars()
        .take(MAX_QUOTED)
        .flat_map(escape_control)
        .collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}

fn escape_control(c: char) -> impl Iterator<Item = char> {
    let (escaped, plain) = if c.is_control() {
        (Some(c.escape_default()), None)
    } else {
        (None, Some(c))
    };
    escaped.into_iter().flatten().chain(plain)
}

struct InFile<'a> {
    finding: &'a Finding,
    file: &'a str,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding {
            severity,
            position,
            field,
            what,
            fix,
        } = self.finding;
        write!(f, "{}:{}:{}: ", self.file, position.line, position.column)?;
        if *severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        write!(f, "{what}; {fix}")
    }
}
