//! The hosts file: dynamic names of the zone and overrides of the extra zones.

mod entries;
mod parse;

use std::net::IpAddr;

pub use entries::Entries;
pub use parse::{HostsError, Reading};

use crate::finding::Finding;
use crate::name::DnsName;

/// A parsed hosts file: what is good in it, in file order, and what was skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// One entry per (line, name), without the names that were skipped. Not deduplicated, not
    /// filtered by zone: the zone does both.
    pub entries: Entries,
    /// Lines that are neither blank nor only a comment.
    pub content_lines: usize,
    /// Names or lines that were skipped.
    pub skipped: usize,
    /// The first findings, at most [`Hosts::MAX_FINDINGS`]; `skipped` counts on.
    pub findings: Vec<Finding>,
}

impl Hosts {
    /// How many findings are kept for people to read.
    pub const MAX_FINDINGS: usize = 100;
}

/// One name with one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// The absolute name.
    pub name: DnsName,
    /// Its address; IPv4-mapped IPv6 is already IPv4.
    pub address: IpAddr,
}

#[cfg(test)]
mod tests;
