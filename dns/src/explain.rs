//! What answers a question and why, for people: the same walk as the server's, in words.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hickory_proto::rr::RecordType;
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{End, Records, Resolution, Snapshot, Source, ZoneRef, rtype};

use crate::query::refusal_of;
use crate::wire::Rcode;

/// What answers a question: the steps in order, then the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The question name.
    pub name: DnsName,
    /// The type's IANA number.
    pub qtype: u16,
    /// The zone that the question name belongs to.
    pub zone: Zone,
    /// Aliases followed, in order.
    pub aliases: Vec<(DnsName, DnsName)>,
    /// How it ends.
    pub outcome: Outcome,
}

/// The zone of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// The authoritative zone, with its apex.
    Primary(DnsName),
    /// An extra zone, with its apex.
    Extra(DnsName),
    /// None of ours.
    None,
}

/// How a question ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// An RRset: where from, and its records in presentation format.
    Records(Source, Vec<String>),
    /// The name exists without this type: NODATA.
    NoData(Source),
    /// There is no such name: NXDOMAIN.
    NoSuchName {
        /// The name above it that exists and so keeps the wildcard away (RFC 4592 §2.2.1).
        blocked_by: Option<DnsName>,
    },
    /// These upstreams decide.
    Forward {
        /// Apex of the extra zone.
        zone: DnsName,
        /// Its servers in order of preference.
        upstreams: Vec<SocketAddr>,
    },
    /// The last alias leads out of all zones and is the answer.
    Outside,
    /// The hosts file was not read: SERVFAIL.
    HostsUnread,
    /// Aliases without an end: SERVFAIL.
    AliasLoop,
    /// A type that is no question for the zones, such as AXFR.
    NotAQuestion(Rcode),
    /// In none of our zones: REFUSED.
    Refused {
        /// The name that was perhaps meant: the same below the apex.
        meant: Option<DnsName>,
    },
}

/// Explains what answers a question of class IN.
pub fn explain(snapshot: &Snapshot, name: &DnsName, qtype: u16) -> Explanation {
    let refusal = refusal_of(qtype);
    let Resolution { zone, chain, end } = snapshot.resolve(name, qtype);
    let owners = std::iter::once(name).chain(chain.iter().copied());
    Explanation {
        name: name.clone(),
        qtype,
        zone: match zone {
            Some(ZoneRef::Primary) => Zone::Primary(snapshot.apex().clone()),
            Some(extra @ ZoneRef::Extra(_)) => Zone::Extra(snapshot.apex_of(extra).clone()),
            None => Zone::None,
        },
        aliases: owners
            .zip(&chain)
            .map(|(owner, target)| (owner.clone(), (*target).clone()))
            .collect(),
        outcome: match refusal {
            Some((rcode, _)) => Outcome::NotAQuestion(rcode),
            None => outcome(snapshot, chain.last().copied().unwrap_or(name), end),
        },
    }
}

/// Reads a type as people write it: a mnemonic in any case, or `TYPE` and a number (RFC 3597).
pub fn parse_type(text: &str) -> Option<u16> {
    let upper = text.to_ascii_uppercase();
    if let Some(number) = upper.strip_prefix("TYPE") {
        return number.parse().ok();
    }
    RecordType::from_str(&upper).ok().map(u16::from)
}

/// A type as people write it.
pub fn type_name(qtype: u16) -> String {
    match RecordType::from(qtype) {
        RecordType::Unknown(number) => format!("TYPE{number}"),
        known => known.to_string(),
    }
}

fn outcome(snapshot: &Snapshot, last: &DnsName, end: End<'_>) -> Outcome {
    match end {
        End::NotOurs => Outcome::Refused {
            meant: meant(snapshot, last),
        },
        End::HostsUnread => Outcome::HostsUnread,
        End::Records(records, source) => Outcome::Records(source, lines(snapshot, &records)),
        End::NoData(_, source) => Outcome::NoData(source),
        End::NoSuchName => Outcome::NoSuchName {
            blocked_by: wildcard_blocker(snapshot, last),
        },
        End::Forward(index) => Outcome::Forward {
            zone: snapshot.apex_of(ZoneRef::Extra(index)).clone(),
            upstreams: snapshot
                .extra_zones()
                .get(index)
                .map(|zone| zone.upstreams.clone())
                .unwrap_or_default(),
        },
        End::Outside => Outcome::Outside,
        End::AliasLoop => Outcome::AliasLoop,
    }
}

/// Names are never completed here, as a search list would; people write short ones all the same.
fn meant(snapshot: &Snapshot, name: &DnsName) -> Option<DnsName> {
    let below = name.below(snapshot.apex()).ok()?;
    let stands = match snapshot.resolve(&below, rtype::A).end {
        End::Records(_, source) | End::NoData(_, source) => source != Source::Wildcard,
        End::Forward(_) | End::Outside => true,
        End::NoSuchName | End::NotOurs | End::HostsUnread | End::AliasLoop => false,
    };
    (stands && !name.is_root()).then_some(below)
}

fn wildcard_blocker(snapshot: &Snapshot, name: &DnsName) -> Option<DnsName> {
    let star = DnsName::from_labels([b"*".as_slice()]).ok()?;
    let star = star.below(snapshot.apex()).ok()?;
    let has_wildcard = matches!(
        snapshot.resolve(&star, rtype::A).end,
        End::Records(_, Source::Wildcard)
    );
    if !has_wildcard {
        return None;
    }
    name.suffixes()
        .skip(1)
        .filter_map(|suffix| DnsName::from_wire(suffix).ok())
        .find(|above| !matches!(snapshot.resolve(above, rtype::A).end, End::NoSuchName))
}

fn lines(snapshot: &Snapshot, records: &Records<'_>) -> Vec<String> {
    match records {
        Records::A(set) => set
            .iter()
            .map(|octets| format!("A {}", Ipv4Addr::from(*octets)))
            .collect(),
        Records::Aaaa(set) => set
            .iter()
            .map(|octets| format!("AAAA {}", Ipv6Addr::from(*octets)))
            .collect(),
        Records::Cname(target) => vec![format!("CNAME {target}")],
        Records::Soa => vec![format!(
            "SOA {} serial {}",
            snapshot.apex(),
            snapshot.serial()
        )],
        Records::Ns => vec![format!("NS {}", snapshot.apex())],
    }
}

impl fmt::Display for Explanation {
    /// One line per step, without a final newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            qtype,
            zone,
            aliases,
            outcome,
        } = self;
        writeln!(f, "{name} {}", type_name(*qtype))?;
        match zone {
            Zone::Primary(apex) => writeln!(f, "  lies in the authoritative zone {apex}")?,
            Zone::Extra(apex) => writeln!(f, "  lies in the extra zone {apex}")?,
            Zone::None => writeln!(f, "  lies in none of our zones")?,
        }
        for (owner, target) in aliases {
            writeln!(f, "  {owner} is an alias for {target} (a static record)")?;
        }
        let last = aliases.last().map_or(name, |(_, target)| target);
        write_outcome(f, last, &type_name(*qtype), outcome)
    }
}

fn write_outcome(
    f: &mut fmt::Formatter<'_>,
    name: &DnsName,
    qtype: &str,
    outcome: &Outcome,
) -> fmt::Result {
    match outcome {
        Outcome::Records(source, lines) => {
            writeln!(f, "  {name} {}", source_words(*source))?;
            for line in lines {
                writeln!(f, "    {line}")?;
            }
            write!(
                f,
                "=> NOERROR with {}",
                if lines.len() == 1 {
                    "this record"
                } else {
                    "these records"
                }
            )
        }
        Outcome::NoData(source) => {
            writeln!(f, "  {name} {}", source_words(*source))?;
            writeln!(f, "  it has no {qtype} record")?;
            write!(f, "=> NOERROR without records (NODATA)")
        }
        Outcome::NoSuchName { blocked_by } => {
            match blocked_by {
                None => writeln!(f, "  {name} does not exist, and no wildcard covers it")?,
                Some(above) => writeln!(
                    f,
                    "  {name} does not exist; the wildcard does not reach below {above}, which does (RFC 4592)"
                )?,
            }
            write!(f, "=> NXDOMAIN")
        }
        Outcome::Forward { zone, upstreams } => {
            writeln!(
                f,
                "  {name} is not overridden for {qtype}: upstreams of {zone} decide"
            )?;
            let upstreams: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
            write!(f, "=> forwarded to {}", upstreams.join(", "))
        }
        Outcome::Outside => {
            writeln!(
                f,
                "  {name} lies in none of our zones, so the alias is the whole answer"
            )?;
            writeln!(f, "  most clients do not follow it")?;
            write!(f, "=> NOERROR with the alias alone")
        }
        Outcome::HostsUnread => {
            writeln!(
                f,
                "  {name} could stand in the hosts file, which was not read yet"
            )?;
            write!(f, "=> SERVFAIL (extended error 14, Not Ready)")
        }
        Outcome::AliasLoop => {
            writeln!(
                f,
                "  the aliases end nowhere: a loop, or more than 8 of them"
            )?;
            write!(f, "=> SERVFAIL")
        }
        Outcome::NotAQuestion(rcode) => {
            writeln!(f, "  the server has no answer to questions for {qtype}")?;
            write!(f, "=> {}", rcode.name())
        }
        Outcome::Refused { meant } => {
            if let Some(meant) = meant {
                writeln!(
                    f,
                    "  names are not completed: write {meant} if you mean that"
                )?;
            }
            write!(f, "=> REFUSED (extended error 20, Not Authoritative)")
        }
    }
}

fn source_words(source: Source) -> &'static str {
    match source {
        Source::Apex => "is the apex of the zone",
        Source::Static => "is a static record",
        Source::Dynamic => "is a dynamic name, from the hosts file",
        Source::Wildcard => "does not exist, and the wildcard address stands for it",
        Source::Override => "is overridden by the hosts file",
        Source::EmptyNonTerminal => "exists only because names below it do (an empty non-terminal)",
    }
}

#[cfg(test)]
mod tests;
