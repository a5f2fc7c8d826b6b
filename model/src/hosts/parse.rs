//! Reading a hosts file: every good entry counts, whatever stands beside it.

use std::net::IpAddr;

use thiserror::Error;

use super::{Entries, Hosts};
use crate::address::{BadAddress, parse_host_address};
use crate::finding::{Finding, Place, Position, Severity, quoted};
use crate::name::{DnsName, NameError};

/// Why a file as a whole is no hosts file: keep the last good one (rule 39 of the DNS contract).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostsError {
    /// The first NUL byte, which no text has: a binary file, UTF-16, or a write that did not finish.
    #[error("line {} has a NUL byte, so this is no text file; write it as plain text in UTF-8", .0.line)]
    Nul(Position),
    /// More than the caller's limit, which [`Hosts::parse`] itself does not have.
    #[error("the file is larger than {limit} bytes; shorten it, or raise the limit")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Lines with content, and not one usable entry: probably no hosts file at all.
    #[error(
        "none of {content_lines} lines with content has an address and a name that can be used; write lines such as `192.0.2.10 web.example.internal`"
    )]
    NothingUsable {
        /// Lines that are neither blank nor only a comment.
        content_lines: usize,
        /// The first remarks on them, at most [`Hosts::MAX_FINDINGS`].
        findings: Vec<Finding>,
    },
}

/// What a hosts file says beside its names and addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Lines that are neither blank nor only a comment.
    pub content_lines: usize,
    /// Names or lines that were skipped.
    pub skipped: usize,
    /// The first findings, at most [`Hosts::MAX_FINDINGS`]; `skipped` counts on.
    pub findings: Vec<Finding>,
}

impl Hosts {
    /// Parses the bytes of a hosts file. A file without content is valid and has no entries.
    ///
    /// Skipped names and lines are warnings: the file works without them.
    ///
    /// # Errors
    /// [`HostsError::Nul`] or [`HostsError::NothingUsable`].
    pub fn parse(bytes: &[u8]) -> Result<Self, HostsError> {
        let mut entries = Entries::default();
        // An entry takes about as much room as its line.
        entries.reserve(bytes.len());
        let Reading {
            content_lines,
            skipped,
            findings,
        } = Self::read(bytes, |name, address| entries.push(name, address))?;
        Ok(Self {
            entries,
            content_lines,
            skipped,
            findings,
        })
    }

    /// As [`Hosts::parse`], but hands each name in canonical wire format, and its address, to
    /// `each` in file order and keeps none. After an error what was handed out is of no use.
    ///
    /// # Errors
    /// As [`Hosts::parse`].
    pub fn read(bytes: &[u8], each: impl FnMut(&[u8], IpAddr)) -> Result<Reading, HostsError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if bytes.contains(&0) {
            return Err(HostsError::Nul(position_of_nul(bytes)));
        }
        let mut reader = Reader {
            each,
            usable: false,
            name: Vec::new(),
            reading: Reading::default(),
        };
        let mut start = 0;
        for (index, end) in memchr::memchr_iter(b'\n', bytes)
            .chain([bytes.len()])
            .enumerate()
        {
            reader.read_line(index, bytes.get(start..end).unwrap_or_default());
            start = end + 1;
        }
        let Reader {
            usable, reading, ..
        } = reader;
        if reading.content_lines > 0 && !usable {
            return Err(HostsError::NothingUsable {
                content_lines: reading.content_lines,
                findings: reading.findings,
            });
        }
        Ok(reading)
    }
}

/// A file half read.
struct Reader<F> {
    each: F,
    /// There was an entry.
    usable: bool,
    /// Room for one name.
    name: Vec<u8>,
    reading: Reading,
}

impl<F: FnMut(&[u8], IpAddr)> Reader<F> {
    fn read_line(&mut self, index: usize, line: &[u8]) {
        let (content, comment) = line.split_at(memchr::memchr(b'#', line).unwrap_or(line.len()));
        self.read_content(index, line, content);
        if let Some(hidden) = after_carriage_return(comment) {
            self.reading.content_lines += 1;
            let start = offset(line, hidden);
            self.skip(Word { index, line, start }, || Remark {
                what:
                    "a line ends with a carriage return alone, so the rest is part of its comment"
                        .to_owned(),
                fix: "end each line with a line feed".to_owned(),
            });
        }
    }

    fn read_content(&mut self, index: usize, line: &[u8], content: &[u8]) {
        let mut words = content
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return };
        self.reading.content_lines += 1;
        let at = |word: &[u8]| Word {
            index,
            line,
            start: offset(line, word),
        };
        let address = match read_address(first) {
            Ok(address) => address,
            Err(bad) => return self.skip(at(first), || explain_address(first, bad)),
        };
        if address.is_loopback() {
            self.remark(at(first), || Remark {
                what: format!(
                    "{} is a loopback address: every client would talk to itself",
                    shown(first)
                ),
                fix: "write the address of the host as others reach it".to_owned(),
            });
        }
        let mut named = false;
        for word in words {
            named = true;
            self.name.clear();
            match write_name(word, &mut self.name) {
                Ok(()) => {
                    self.usable = true;
                    (self.each)(&self.name, address);
                }
                Err(error) => self.skip(at(word), || explain_name(word, &error)),
            }
        }
        if !named {
            self.skip(at(first), || Remark {
                what: format!("the address {} has no name", shown(first)),
                fix: "write one or more names after it".to_owned(),
            });
        }
    }

    fn skip(&mut self, word: Word<'_>, remark: impl FnOnce() -> Remark) {
        self.reading.skipped += 1;
        self.remark(word, remark);
    }

    fn remark(&mut self, word: Word<'_>, remark: impl FnOnce() -> Remark) {
        if self.reading.findings.len() < Hosts::MAX_FINDINGS {
            let Remark { what, fix } = remark();
            let place = Place {
                position: word.position(),
                field: String::new(),
            };
            self.reading
                .findings
                .push(Finding::new(Severity::Warning, &place, what, fix));
        }
    }
}

/// What a comment hides in a file whose lines end with carriage returns alone.
fn after_carriage_return(comment: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'\r', comment)?;
    let rest = comment.get(at + 1..)?;
    // Spaces may stand before a line feed.
    (!rest.trim_ascii().is_empty()).then_some(rest)
}

/// What is wrong and what to do; written only if somebody will read it.
struct Remark {
    what: String,
    fix: String,
}

/// Where a word stands; the column is only counted when somebody reads it.
#[derive(Clone, Copy)]
struct Word<'a> {
    index: usize,
    line: &'a [u8],
    start: usize,
}

impl Word<'_> {
    fn position(self) -> Position {
        let before = self.line.get(..self.start).unwrap_or_default();
        // Bytes that continue a UTF-8 character begin with the bits 10.
        let characters = before.iter().filter(|b| **b & 0xc0 != 0x80).count();
        Position {
            line: from_one(self.index),
            column: from_one(characters),
        }
    }
}

fn from_one(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1)
}

/// Where `word`, a part of `line`, begins in it.
fn offset(line: &[u8], word: &[u8]) -> usize {
    word.as_ptr().addr().saturating_sub(line.as_ptr().addr())
}

fn position_of_nul(bytes: &[u8]) -> Position {
    let before = bytes.split(|b| *b == 0).next().unwrap_or_default();
    let index = before.iter().filter(|b| **b == b'\n').count();
    let line = before.rsplit(|b| *b == b'\n').next().unwrap_or_default();
    Word {
        index,
        line,
        start: line.len(),
    }
    .position()
}

fn read_address(word: &[u8]) -> Result<IpAddr, BadAddress> {
    parse_host_address(std::str::from_utf8(word).map_err(|_| BadAddress::NotAnAddress)?)
}

fn explain_address(word: &[u8], bad: BadAddress) -> Remark {
    let text = String::from_utf8_lossy(word);
    Remark {
        what: bad.what(&text),
        fix: format!("{}; the line is skipped", bad.fix()),
    }
}

fn write_name(word: &[u8], octets: &mut Vec<u8>) -> Result<(), NameError> {
    match word {
        b"." => Err(NameError::EmptyLabel),
        _ => DnsName::write_host(word, octets),
    }
}

fn explain_name(word: &[u8], error: &NameError) -> Remark {
    let fix = match error {
        NameError::Character('*') => {
            "write each name; only `dns.wildcardAddress` of the config stands for all others"
        }
        NameError::Character(c) if !c.is_ascii() => {
            "write the name in its ASCII form, with labels that begin with `xn--`"
        }
        NameError::Character(_) => "use only letters, digits, `-`, `_` and dots",
        NameError::Empty | NameError::EmptyLabel => "remove the surplus dot",
        NameError::LabelTooLong(_) | NameError::TooLong | NameError::Wire => "shorten it",
    };
    Remark {
        what: format!("{} is not a host name: {error}", shown(word)),
        fix: fix.to_owned(),
    }
}

fn shown(word: &[u8]) -> String {
    quoted(&String::from_utf8_lossy(word))
}
