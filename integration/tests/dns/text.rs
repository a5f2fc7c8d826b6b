//! Small words of the data: durations, bounds, names, patterns.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The primary zone of the fixture.
pub(crate) const ZONE: &str = "prod-1.tailnet.example.internal.";
/// The extra zone of the fixture.
pub(crate) const EXTRA: &str = "corp.example.com.";

/// `Z`, `E`, and names below them in full; other names as they are.
pub(crate) fn expand(word: &str) -> String {
    for (short, zone) in [("Z", ZONE), ("E", EXTRA)] {
        if word == short {
            return zone.to_owned();
        }
        if let Some(below) = word
            .strip_suffix(short)
            .filter(|below| below.ends_with('.'))
        {
            return format!("{below}{zone}");
        }
    }
    word.to_owned()
}

/// The zones in a text as `Z` and `E` again.
pub(crate) fn shorten(text: &str) -> String {
    text.replace(ZONE, "Z").replace(EXTRA, "E")
}

/// Reads `2s` or `250ms`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let parsed = match text.strip_suffix("ms") {
        Some(digits) => digits.parse().ok().map(Duration::from_millis),
        None => text
            .strip_suffix('s')
            .and_then(|digits| digits.parse().ok())
            .map(Duration::from_secs),
    };
    parsed.with_context(|| format!("\"{text}\" is no duration such as 2s or 250ms"))
}

/// Reads a number, also in hexadecimal.
pub(crate) fn number<T: TryFrom<u32>>(text: &str) -> Result<T> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed
        .and_then(|number| T::try_from(number).ok())
        .with_context(|| format!("\"{text}\" is no number that fits"))
}

/// What a count may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// This.
    Exactly(u32),
    /// Not more than this.
    AtMost(u32),
}

impl Bound {
    /// Reads `5` or `<=5`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.strip_prefix("<=") {
            Some(rest) => Ok(Self::AtMost(number(rest)?)),
            None => Ok(Self::Exactly(number(text)?)),
        }
    }

    pub(crate) fn holds(self, count: usize) -> bool {
        match self {
            Self::Exactly(wanted) => u32::try_from(count) == Ok(wanted),
            Self::AtMost(most) => u32::try_from(count).is_ok_and(|count| count <= most),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(wanted) => write!(f, "{wanted}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

/// The type and data of a record, word by word; a word may be a choice as
/// `a|b`, and `*` stands for any part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Vec<String>>);

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let words: Vec<Vec<String>> = text
            .split_whitespace()
            .map(|word| word.split('|').map(expand).collect())
            .collect();
        if words.len() < 2 {
            bail!("\"{text}\" is no type and data of a record");
        }
        Ok(Self(words))
    }

    /// Whether it is the record's, with names compared in any case.
    pub(crate) fn matches(&self, typed: &str) -> bool {
        let words: Vec<&str> = typed.split_whitespace().collect();
        words.len() == self.0.len()
            && self.0.iter().zip(words).all(|(choices, word)| {
                let word = word.to_ascii_lowercase();
                choices
                    .iter()
                    .any(|choice| glob(&choice.to_ascii_lowercase(), &word))
            })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|choices| choices.join("|")).collect();
        f.write_str(&words.join(" "))
    }
}

/// `*` at the end, or alone.
fn glob(pattern: &str, word: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => pattern == word,
    }
}
