//! DNS names in canonical form.

use std::borrow::Borrow;
use std::fmt;

use thiserror::Error;

/// A DNS name in canonical form: uncompressed wire format (RFC 1035 §3.1) with ASCII letters in
/// lower case (RFC 4343), 1 to 255 octets, the root label included.
///
/// Equality, hashing and the borrow as `[u8]` all work on that form, so a map of names can be
/// asked with any suffix of a wire name without building one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DnsName(Box<[u8]>);

/// Why a text or octet string is no name that we accept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// No text at all.
    #[error("the name is empty")]
    Empty,
    /// Two dots in a row, or a leading dot.
    #[error("it has an empty label (two dots in a row, or a leading dot)")]
    EmptyLabel,
    /// A label of more than 63 octets (RFC 1035 §2.3.4).
    #[error("the label \"{0}…\" is longer than 63 octets")]
    LabelTooLong(String),
    /// More than 255 octets on the wire, 253 characters as text (RFC 1035 §2.3.4).
    #[error("it is longer than 253 characters")]
    TooLong,
    /// A character outside `a-z 0-9 _ -`.
    #[error("it has the character {0:?}, which is none of a-z, 0-9, '-' and '_'")]
    Character(char),
    /// Octets that are no uncompressed wire name.
    #[error("it is not an uncompressed wire-format name")]
    Wire,
}

const MAX_OCTETS: usize = 255;
const MAX_LABEL: usize = 63;

impl DnsName {
    /// The root, `.`.
    pub fn root() -> Self {
        Self(Box::new([0]))
    }

    /// Reads a host-style name as people write it in files: labels of `a-z 0-9 _ -` in any case,
    /// an optional trailing dot. `.` alone is the root.
    ///
    /// # Errors
    /// Any [`NameError`] but `Wire`; wildcards and non-ASCII text are `Character`.
    pub fn parse_host(text: &str) -> Result<Self, NameError> {
        Self::parse(text, is_host_character)
    }

    /// Reads a name as a person asks for it: like [`DnsName::parse_host`], but any printable
    /// ASCII character may stand in a label, `*` included.
    ///
    /// # Errors
    /// Any [`NameError`] but `Wire`.
    pub fn parse_query(text: &str) -> Result<Self, NameError> {
        Self::parse(text, |c| c.is_ascii_graphic())
    }

    fn parse(text: &str, allowed: impl Fn(char) -> bool) -> Result<Self, NameError> {
        let mut octets = Vec::with_capacity(text.len() + 2);
        write_text(text, allowed, &mut octets)?;
        Ok(Self(octets.into_boxed_slice()))
    }

    /// As [`DnsName::parse_host`] of UTF-8 text, but appends the canonical wire form to `octets`:
    /// many names in one buffer. After an error nothing was appended.
    ///
    /// # Errors
    /// As [`DnsName::parse_host`]; `Character` for what is no UTF-8.
    pub fn write_host(text: &[u8], octets: &mut Vec<u8>) -> Result<(), NameError> {
        if write_good_host(text, octets) {
            return Ok(());
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| NameError::Character(char::REPLACEMENT_CHARACTER))?;
        let start = octets.len();
        write_text(text, is_host_character, octets).inspect_err(|_| octets.truncate(start))
    }

    /// Takes an uncompressed wire-format name, in any case.
    ///
    /// # Errors
    /// [`NameError::Wire`] when the octets are not exactly one such name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        let mut at = 0;
        loop {
            let length = usize::from(*wire.get(at).ok_or(NameError::Wire)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > MAX_LABEL {
                return Err(NameError::Wire);
            }
            at += length;
        }
        if at != wire.len() || at > MAX_OCTETS {
            return Err(NameError::Wire);
        }
        // Length octets are below 64 and so never mistaken for letters.
        Ok(Self(wire.iter().map(u8::to_ascii_lowercase).collect()))
    }

    /// Builds a name from labels of opaque octets, the leftmost first, in any case.
    ///
    /// # Errors
    /// `EmptyLabel`, `LabelTooLong` or `TooLong`.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, NameError> {
        let mut octets = Vec::new();
        for label in labels {
            if label.is_empty() {
                return Err(NameError::EmptyLabel);
            }
            if label.len() > MAX_LABEL {
                return Err(NameError::LabelTooLong(
                    String::from_utf8_lossy(label).chars().take(16).collect(),
                ));
            }
            octets.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
            octets.extend(label.iter().map(u8::to_ascii_lowercase));
        }
        octets.push(0);
        if octets.len() > MAX_OCTETS {
            return Err(NameError::TooLong);
        }
        Ok(Self(octets.into_boxed_slice()))
    }

    /// This name below `parent`: `web` below `example.org.` is `web.example.org.`.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn below(&self, parent: &Self) -> Result<Self, NameError> {
        let own = self.0.len() - 1;
        if own + parent.0.len() > MAX_OCTETS {
            return Err(NameError::TooLong);
        }
        let mut octets = Vec::with_capacity(own + parent.0.len());
        octets.extend(self.0.iter().take(own));
        octets.extend_from_slice(&parent.0);
        Ok(Self(octets.into_boxed_slice()))
    }

    /// The canonical wire form, root label included.
    pub fn as_wire(&self) -> &[u8] {
        &self.0
    }

    /// True for `.`.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }

    /// The labels from the left, without the root label.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        self.suffixes().filter_map(|wire| {
            let (length, rest) = wire.split_first()?;
            rest.get(..usize::from(*length))
                .filter(|label| !label.is_empty())
        })
    }

    /// The wire forms of this name and of each of its ancestors, the root last.
    pub fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(&*self.0), |wire| parent(wire))
    }

    /// True when this name is `zone` or below it, compared by whole labels.
    pub fn is_within(&self, zone: &Self) -> bool {
        self.suffixes().any(|suffix| suffix == zone.as_wire())
    }
}

const fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// What [`write_text`] does with a host name that nothing is wrong with: hosts files have a million
/// of them. False leaves the rest, and the words for what is wrong, to that; nothing was appended
/// then.
fn write_good_host(text: &[u8], octets: &mut Vec<u8>) -> bool {
    let text = text.strip_suffix(b".").unwrap_or(text);
    if text.len() + 2 > MAX_OCTETS {
        return false;
    }
    let start = octets.len();
    octets.reserve(text.len() + 2);
    // A dot before each label becomes its length.
    octets.push(b'.');
    octets.extend_from_slice(text);
    let written = octets.get_mut(start..).unwrap_or_default();
    let good = lower_host_characters(written) && count_labels(text, written);
    if good {
        octets.push(0);
    } else {
        octets.truncate(start);
    }
    good
}

/// Per octet what stands for it in a host name, dots included; zero where nothing does.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler evaluates it, and would say so"
)]
const HOST_CHARACTERS: [u8; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 128 {
        if is_host_character(octet as char) || octet == b'.' {
            table[octet as usize] = octet.to_ascii_lowercase();
        }
        octet += 1;
    }
    table
};

/// Puts host characters into lower case; false when there are others than they and dots.
fn lower_host_characters(octets: &mut [u8]) -> bool {
    let mut good = true;
    for octet in octets {
        let lower = HOST_CHARACTERS
            .get(usize::from(*octet))
            .copied()
            .unwrap_or_default();
        good &= lower != 0;
        *octet = lower;
    }
    good
}

/// Writes the length of each label of `text` before it; false when one is empty or too long.
fn count_labels(text: &[u8], octets: &mut [u8]) -> bool {
    let mut start = 0;
    for end in memchr::memchr_iter(b'.', text).chain([text.len()]) {
        let length = end - start;
        if !(1..=MAX_LABEL).contains(&length) {
            return false;
        }
        if let Some(place) = octets.get_mut(start) {
            *place = u8::try_from(length).unwrap_or(u8::MAX);
        }
        start = end + 1;
    }
    true
}

fn write_text(
    text: &str,
    allowed: impl Fn(char) -> bool,
    octets: &mut Vec<u8>,
) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text == "." {
        octets.push(0);
        return Ok(());
    }
    let start = octets.len();
    let text = text.strip_suffix('.').unwrap_or(text);
    for label in text.split('.') {
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if let Some(c) = label.chars().find(|c| !allowed(*c)) {
            return Err(NameError::Character(c));
        }
        if label.len() > MAX_LABEL {
            return Err(NameError::LabelTooLong(label.chars().take(16).collect()));
        }
        octets.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        octets.extend(label.bytes().map(|b| b.to_ascii_lowercase()));
    }
    octets.push(0);
    if octets.len() - start > MAX_OCTETS {
        return Err(NameError::TooLong);
    }
    Ok(())
}

/// The part of a wire-format name that comes before `zone`, its end by whole labels: empty for
/// the zone's own name, none for a name outside of it. Both in canonical form.
pub fn relative_to<'a>(wire: &'a [u8], zone: &[u8]) -> Option<&'a [u8]> {
    let cut = wire.len().checked_sub(zone.len())?;
    let (relative, end) = wire.split_at_checked(cut)?;
    if end != zone {
        return None;
    }
    let mut at = 0;
    while at < cut {
        at += usize::from(*relative.get(at)?) + 1;
    }
    (at == cut).then_some(relative)
}

/// The wire form of the parent of a wire-format name; none for the root.
pub fn parent(wire: &[u8]) -> Option<&[u8]> {
    match wire.first() {
        None | Some(0) => None,
        Some(length) => wire.get(usize::from(*length) + 1..),
    }
}

impl Borrow<[u8]> for DnsName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for DnsName {
    /// Presentation format with a final dot; octets outside printable ASCII as `\DDD`, and `.`,
    /// `\`, `"`, `;` escaped (RFC 1035 §5.1).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for label in self.labels() {
            for octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' => write!(f, "\\{}", char::from(*octet))?,
                    0x21..=0x7e => write!(f, "{}", char::from(*octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DnsName({self})")
    }
}

#[cfg(test)]
mod tests;
