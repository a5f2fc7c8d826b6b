//! The expectations about one reply alone.

use tsunaro_integration::wire::{Record, Reply};

use super::require;
use crate::describe::describe;
use crate::expect::{Expectation, rcode_name};
use crate::text::{Bound, Pattern};

const TYPE_SOA: u16 = 6;
const OPTION_COOKIE: u16 = 10;
const OPTION_EXTENDED_ERROR: u16 = 15;
const DO: u16 = 0x8000;

/// Whether the reply is so.
pub(super) fn about_reply(expectation: &Expectation, reply: &Reply) -> Result<(), String> {
    let got = || describe(reply);
    let opt = reply.opt.as_ref();
    match expectation {
        Expectation::Rcode(code) => require(reply.rcode == *code, rcode_name(*code), got),
        Expectation::AnswerCount(bound) => count(*bound, &reply.answer, "answer", reply),
        Expectation::AuthorityCount(bound) => count(*bound, &reply.authority, "authority", reply),
        Expectation::AdditionalCount(bound) => {
            count(*bound, &reply.additional, "additional", reply)
        }
        Expectation::AnswerSet(patterns) => require(
            is_set(patterns, &reply.answer),
            format!("the answer {{{}}}", join(patterns)),
            got,
        ),
        Expectation::AnswerList(patterns) => {
            let same = patterns.len() == reply.answer.len()
                && patterns
                    .iter()
                    .zip(&reply.answer)
                    .all(|(pattern, record)| pattern.matches(&record.typed()));
            require(same, format!("the answer [{}]", join(patterns)), got)
        }
        Expectation::Each(pattern) => {
            let all = reply
                .answer
                .iter()
                .all(|record| pattern.matches(&record.typed()));
            require(all, format!("only {pattern} in the answer"), got)
        }
        Expectation::Ttl(bound) => {
            let all = reply.answer.iter().all(|record| is_ttl(*bound, record.ttl));
            require(
                all && !reply.answer.is_empty(),
                format!("TTLs of {bound}"),
                got,
            )
        }
        Expectation::Soa(owner, ttl) => {
            let right = |record: &Record| {
                let minimum = record
                    .data
                    .rsplit(' ')
                    .next()
                    .and_then(|word| word.parse().ok());
                record.rtype == TYPE_SOA
                    && record.owner.eq_ignore_ascii_case(owner)
                    && is_ttl(*ttl, record.ttl)
                    // The MINIMUM of an upstream's SOA is its own business.
                    && (matches!(ttl, Bound::AtMost(_)) || minimum.is_some_and(|minimum| is_ttl(*ttl, minimum)))
            };
            let one = reply.authority.len() == 1 && reply.authority.iter().all(right);
            require(
                one,
                format!("the SOA of {owner} with TTL {ttl} as authority"),
                got,
            )
        }
        Expectation::Flag(name, mask, wanted) => require(
            reply.has(*mask) == *wanted,
            format!("{name}={}", u8::from(*wanted)),
            got,
        ),
        Expectation::Opcode(code) => {
            require(reply.opcode() == *code, format!("opcode {code}"), || {
                reply.opcode().to_string()
            })
        }
        Expectation::Opt(true) => require(
            opt.is_some_and(|opt| opt.is_last),
            "an OPT record, last",
            got,
        ),
        Expectation::Opt(false) => require(opt.is_none(), "no OPT record", got),
        Expectation::OptSize(size) => require(
            opt.is_some_and(|opt| opt.size == *size),
            format!("OPT size {size}"),
            got,
        ),
        Expectation::OptVersion(version) => require(
            opt.is_some_and(|opt| opt.version == *version),
            format!("OPT version {version}"),
            got,
        ),
        Expectation::OptZ(bits) => require(
            opt.is_some_and(|opt| opt.flags & !DO == *bits),
            format!("OPT Z {bits}"),
            got,
        ),
        Expectation::DnssecOk(wanted) => {
            let is = opt.is_some_and(|opt| (opt.flags & DO != 0) == *wanted);
            require(is, format!("DO={}", u8::from(*wanted)), got)
        }
        Expectation::ExtendedError(code) => {
            let info = reply
                .option(OPTION_EXTENDED_ERROR)
                .and_then(|data| data.first_chunk::<2>());
            let is = info.is_some_and(|info| u16::from_be_bytes(*info) == *code);
            require(is, format!("extended error {code}"), got)
        }
        Expectation::CookieAbsentOrValid => {
            let cookie = reply.option(OPTION_COOKIE);
            let fine = cookie.is_none_or(|data| (16..=40).contains(&data.len()));
            require(fine, "no cookie, or one of 16 to 40 octets", got)
        }
        Expectation::Size(bound) => require(
            bound.holds(reply.octets.len()),
            format!("{bound} octets"),
            || reply.octets.len().to_string(),
        ),
        // `parse` lets none of the others come here.
        other => Err(format!("{other:?} is not about a reply")),
    }
}

fn count(bound: Bound, records: &[Record], section: &str, reply: &Reply) -> Result<(), String> {
    require(
        bound.holds(records.len()),
        format!("{bound} records in {section}"),
        || describe(reply),
    )
}

fn is_ttl(bound: Bound, ttl: u32) -> bool {
    usize::try_from(ttl).is_ok_and(|ttl| bound.holds(ttl))
}

fn is_set(patterns: &[Pattern], records: &[Record]) -> bool {
    let mut left: Vec<String> = records.iter().map(Record::typed).collect();
    for pattern in patterns {
        let Some(index) = left.iter().position(|typed| pattern.matches(typed)) else {
            return false;
        };
        left.remove(index);
    }
    left.is_empty()
}

fn join(patterns: &[Pattern]) -> String {
    let texts: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
