//! Reduces an upstream's reply to what answers the question (rules 54 and 55 of the DNS
//! contract, RFC 2181 §5.4.1, RFC 5452 §6): nothing else is sent on or kept.

use std::sync::OnceLock;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use thiserror::Error;
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::MAX_LINKS;

use super::question::{Question, canonical};
use super::reply::{Lifetime, Reply};
use super::ttl;

/// Why a well-formed reply with a definite RCODE is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Unusable {
    /// A circle of aliases, or more than [`MAX_LINKS`].
    #[error("its aliases do not end")]
    AliasLoop,
    /// NXDOMAIN together with the data asked for.
    #[error("it denies the data that it holds")]
    Contradiction,
    /// Records, and none of them belongs to the question, nor a SOA that denies it: no NODATA.
    #[error("its records belong to other questions")]
    Foreign,
}

/// Scrubs a reply with RCODE NOERROR or NXDOMAIN that arrived in `octets` octets. Names inside
/// `primary` are ours to answer: a chain that enters it is cut there.
pub(super) fn scrub(
    reply: &Message,
    question: &Question,
    primary: &DnsName,
    octets: usize,
) -> Result<Reply, Unusable> {
    let Chain {
        mut answer,
        links,
        end,
    } = follow(&reply.answers, question, primary)?;
    for record in &mut answer {
        record.ttl = ttl::positive(record.ttl);
    }
    let least = answer.iter().map(|record| record.ttl).min();
    let mut scrubbed = Reply {
        rcode: reply.metadata.response_code,
        answer,
        authority: Vec::new(),
        authentic_data: reply.metadata.authentic_data,
        continue_at: None,
        links,
        lifetime: Lifetime::Uncacheable,
        octets,
        wire: OnceLock::new(),
    };
    match end {
        End::Data if scrubbed.rcode == ResponseCode::NXDomain => {
            return Err(Unusable::Contradiction);
        }
        End::Data => scrubbed.lifetime = lifetime(least, Lifetime::Positive),
        End::Enters(name) => {
            scrubbed.rcode = ResponseCode::NoError;
            scrubbed.authentic_data = false;
            scrubbed.continue_at = Some(name);
            scrubbed.lifetime = lifetime(least, Lifetime::Positive);
        }
        End::Nothing(name) => {
            if let Some(denial) = denial(&reply.authorities, &name, question.dnssec_ok) {
                let least = least.map_or(denial.ttl, |least| least.min(denial.ttl));
                scrubbed.authority = denial.records;
                scrubbed.lifetime = lifetime(Some(least), Lifetime::Negative);
            } else if links == 0
                && !reply.answers.is_empty()
                && scrubbed.rcode == ResponseCode::NoError
            {
                return Err(Unusable::Foreign);
            }
        }
    }
    Ok(scrubbed)
}

/// Scrubs the part of an answer that came with TC: never kept, never continued.
pub(super) fn scrub_truncated(
    reply: &Message,
    question: &Question,
    primary: &DnsName,
) -> Option<Reply> {
    let Chain {
        mut answer, links, ..
    } = follow(&reply.answers, question, primary).ok()?;
    for record in &mut answer {
        record.ttl = ttl::positive(record.ttl);
    }
    Some(Reply {
        rcode: reply.metadata.response_code,
        answer,
        authority: Vec::new(),
        authentic_data: false,
        continue_at: None,
        links,
        lifetime: Lifetime::Uncacheable,
        octets: 0,
        wire: OnceLock::new(),
    })
}

fn lifetime(seconds: Option<u32>, kind: fn(u32) -> Lifetime) -> Lifetime {
    match seconds {
        None | Some(0) => Lifetime::Uncacheable,
        Some(seconds) => kind(seconds),
    }
}

struct Chain {
    answer: Vec<Record>,
    links: usize,
    end: End,
}

enum End {
    /// The RRset asked for stands at the end.
    Data,
    /// The chain, or the question name itself, ends at this name without data.
    Nothing(DnsName),
    /// The last alias leads into the primary zone.
    Enters(Name),
}

fn follow(records: &[Record], question: &Question, primary: &DnsName) -> Result<Chain, Unusable> {
    let owned: Vec<(DnsName, &Record)> = records
        .iter()
        .filter(|record| record.dns_class == DNSClass::IN)
        .map(|record| (canonical(&record.name), record))
        .collect();
    let at_owner = |owner: &DnsName| -> Vec<&Record> {
        owned
            .iter()
            .filter(|(name, _)| name == owner)
            .map(|(_, record)| *record)
            .collect()
    };
    let mut answer = Vec::new();
    let mut seen: Vec<DnsName> = Vec::new();
    let mut name = canonical(&question.name);
    loop {
        let here = at_owner(&name);
        let data: Vec<&Record> = here
            .iter()
            .copied()
            .filter(|record| answers(record, question))
            .collect();
        if !data.is_empty() {
            answer.extend(data.into_iter().cloned());
            if question.dnssec_ok {
                answer.extend(signatures(&here, question.qtype));
            }
            return Ok(Chain {
                answer,
                links: seen.len(),
                end: End::Data,
            });
        }
        let Some((alias, target)) = here
            .iter()
            .find_map(|record| Some((*record, target(record)?)))
        else {
            return Ok(Chain {
                answer,
                links: seen.len(),
                end: End::Nothing(name),
            });
        };
        let target_name = canonical(target);
        for (owner, dname) in &owned {
            if explains(dname, owner, &name, &target_name) {
                answer.push((*dname).clone());
                if question.dnssec_ok {
                    answer.extend(signatures(&at_owner(owner), RecordType::DNAME));
                }
            }
        }
        answer.push(alias.clone());
        if question.dnssec_ok {
            answer.extend(signatures(&here, RecordType::CNAME));
        }
        seen.push(name);
        if target_name.is_within(primary) {
            return Ok(Chain {
                answer,
                links: seen.len(),
                end: End::Enters(target.clone()),
            });
        }
        if seen.len() > MAX_LINKS || seen.contains(&target_name) {
            return Err(Unusable::AliasLoop);
        }
        name = target_name;
    }
}

/// True for records of the RRset asked for, at the right owner.
fn answers(record: &Record, question: &Question) -> bool {
    match question.qtype {
        RecordType::ANY => record.record_type() != RecordType::RRSIG || question.dnssec_ok,
        qtype => record.record_type() == qtype,
    }
}

fn target(record: &Record) -> Option<&Name> {
    match &record.data {
        RData::CNAME(target) => Some(&target.0),
        _ => None,
    }
}

/// True for the DNAME that a CNAME from `name` to `target` was made from (RFC 6672 §2.2).
fn explains(dname: &Record, owner: &DnsName, name: &DnsName, target: &DnsName) -> bool {
    if dname.record_type() != RecordType::DNAME || name == owner || !name.is_within(owner) {
        return false;
    }
    let RData::Unknown { rdata, .. } = &dname.data else {
        return false;
    };
    // Its target is never compressed (RFC 6672 §2.5); otherwise it could not be sent on as it is.
    let Ok(new_suffix) = DnsName::from_wire(&rdata.anything) else {
        return false;
    };
    let prefix = name.as_wire().len() - owner.as_wire().len();
    let substituted = name
        .as_wire()
        .iter()
        .take(prefix)
        .chain(new_suffix.as_wire());
    substituted.eq(target.as_wire())
}

/// The RRSIGs among `records` over the given type (RFC 4034 §3.1.1).
fn signatures<'a>(
    records: &'a [&'a Record],
    covered: RecordType,
) -> impl Iterator<Item = Record> + 'a {
    records
        .iter()
        .filter(move |record| covers(record, covered))
        .map(|record| (*record).clone())
}

fn covers(record: &Record, covered: RecordType) -> bool {
    match &record.data {
        RData::Unknown {
            code: RecordType::RRSIG,
            rdata,
        } => rdata
            .anything
            .starts_with(&u16::from(covered).to_be_bytes()),
        _ => false,
    }
}

struct Denial {
    records: Vec<Record>,
    ttl: u32,
}

/// The SOA that denies `name`, with its proofs and signatures for clients that asked for them.
fn denial(authorities: &[Record], name: &DnsName, dnssec_ok: bool) -> Option<Denial> {
    let (soa, zone, minimum) = authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) if record.dns_class == DNSClass::IN => {
            let zone = canonical(&record.name);
            name.is_within(&zone).then_some((record, zone, soa.minimum))
        }
        _ => None,
    })?;
    let ttl = ttl::negative(soa.ttl, minimum);
    let mut records = vec![soa.clone()];
    if dnssec_ok {
        let proves = |record: &&Record| {
            record.dns_class == DNSClass::IN
                && (matches!(record.record_type(), RecordType::NSEC | RecordType::NSEC3)
                    || [RecordType::SOA, RecordType::NSEC, RecordType::NSEC3]
                        .iter()
                        .any(|t| covers(record, *t)))
                && canonical(&record.name).is_within(&zone)
        };
        records.extend(authorities.iter().filter(proves).cloned());
    }
    for record in &mut records {
        record.ttl = ttl;
    }
    Some(Denial { records, ttl })
}

#[cfg(test)]
mod tests;
