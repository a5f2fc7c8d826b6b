//! What a parser has to say about a human's file: where, about which field, what, and the fix.

use std::fmt;

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file works, but probably not as its author thinks.
    Warning,
    /// The file, or the part of it that the finding names, cannot be used.
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
    /// True when the file, or the part the finding names, cannot be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The finding as one line, `file:line:column: field: what; fix`.
    pub fn in_file<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        InFile {
            finding: self,
            file,
        }
    }
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
