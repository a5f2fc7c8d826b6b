//! What an upstream says.

use std::net::Ipv4Addr;

use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, HTTPS, SOA, SVCB, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::Transport;

const TTL: u32 = 60;
/// What a liar says.
const LIE: A = A(Ipv4Addr::new(203, 0, 113, 66));
/// Addresses in a reply that is over 512 octets.
const BIG: u32 = 40;

/// The replies of a well-behaved upstream, but for the labels that say otherwise.
pub(super) fn by_label(query: &Message, address: Ipv4Addr, transport: Transport) -> Vec<Vec<u8>> {
    let Some(question) = query.queries.first() else {
        return encode(&[reply_to(query)]);
    };
    let label = first_label(question.name());
    let right = || records(query, question, address);
    match label.as_str() {
        "nx" => nxdomain(query),
        "nxnosoa" => failure(query, ResponseCode::NXDomain),
        "ndnosoa" => encode(&[reply_to(query)]),
        "bigudp" => encode(&[big(query, question)]),
        "wrongid" if transport == Transport::Udp => encode(&[wrong_id(&right()), right()]),
        "extra" => encode(&[lying(right(), question)]),
        _ => encode(&[right()]),
    }
}

/// A response code, and nothing else.
pub(super) fn failure(query: &Message, rcode: ResponseCode) -> Vec<Vec<u8>> {
    let mut reply = reply_to(query);
    reply.metadata.response_code = rcode;
    encode(&[reply])
}

/// NXDOMAIN with the SOA that bounds its life.
pub(super) fn nxdomain(query: &Message) -> Vec<Vec<u8>> {
    let mut reply = reply_to(query);
    reply.metadata.response_code = ResponseCode::NXDomain;
    if let Some(question) = query.queries.first() {
        reply.add_authority(soa(question.name().base_name()));
    }
    encode(&[reply])
}

fn records(query: &Message, question: &Query, address: Ipv4Addr) -> Message {
    let mut reply = reply_to(query);
    let owner = question.name().clone();
    let ttl = if first_label(&owner).starts_with("stale") {
        1
    } else {
        TTL
    };
    let data = match question.query_type() {
        RecordType::A => RData::A(A(address)),
        RecordType::TXT => RData::TXT(TXT::new(vec!["from upstream".to_owned()])),
        RecordType::HTTPS => RData::HTTPS(HTTPS(SVCB::new(1, Name::root(), Vec::new()))),
        RecordType::SOA => soa(owner.clone()).data,
        _ => {
            reply.add_authority(soa(owner.base_name()));
            return reply;
        }
    };
    reply.add_answer(Record::from_rdata(owner, ttl, data));
    reply
}

fn big(query: &Message, question: &Query) -> Message {
    let mut reply = reply_to(query);
    let base = u32::from(Ipv4Addr::new(198, 51, 100, 0));
    for number in 1..=BIG {
        let data = RData::A(A(Ipv4Addr::from(base + number)));
        reply.add_answer(Record::from_rdata(question.name().clone(), TTL, data));
    }
    reply.edns = None;
    reply
}

/// The reply with a lie under an id that nobody asked with.
fn wrong_id(right: &Message) -> Message {
    let mut forged = right.clone();
    forged.metadata.id ^= 0x5555;
    for record in &mut forged.answers {
        record.data = RData::A(LIE);
    }
    forged
}

/// The reply, and in every section records of names that nobody asked for.
fn lying(mut reply: Message, question: &Query) -> Message {
    let victims = ["evil.example.org.", "web.prod-1.tailnet.example.internal."];
    for victim in victims
        .iter()
        .filter_map(|name| Name::from_ascii(name).ok())
    {
        let lie = Record::from_rdata(victim, TTL, RData::A(LIE));
        reply.add_authority(lie.clone());
        reply.add_additional(lie);
    }
    if let Ok(beside) = Name::from_ascii("evil.example.org.") {
        reply.add_answer(Record::from_rdata(beside, TTL, RData::A(LIE)));
    }
    if question.query_type() == RecordType::A {
        for record in reply.answers.iter_mut().take(1) {
            record.data = RData::A(A::new(198, 51, 100, 9));
        }
    }
    reply
}

fn reply_to(query: &Message) -> Message {
    let mut reply = Message::response(query.metadata.id, OpCode::Query);
    reply.metadata.recursion_desired = query.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.checking_disabled = query.metadata.checking_disabled;
    reply.add_queries(query.queries.iter().cloned());
    if let Some(asked) = &query.edns {
        let mut edns = Edns::new();
        edns.set_max_payload(4096);
        edns.set_dnssec_ok(asked.flags().dnssec_ok);
        reply.set_edns(edns);
    }
    reply
}

fn soa(apex: Name) -> Record {
    let server = Name::from_ascii("ns.upstream.example.").unwrap_or_default();
    let soa = SOA::new(server.clone(), server, 7, 7200, 1800, 86_400, 60);
    Record::from_rdata(apex, TTL, RData::SOA(soa))
}

fn first_label(name: &Name) -> String {
    let label = name.iter().next().unwrap_or_default();
    String::from_utf8_lossy(label).to_ascii_lowercase()
}

fn encode(messages: &[Message]) -> Vec<Vec<u8>> {
    messages
        .iter()
        .filter_map(|message| message.to_vec().ok())
        .collect()
}
