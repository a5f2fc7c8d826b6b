//! What the tests of these modules share.

use std::net::Ipv4Addr;
use std::sync::OnceLock;

use hickory_proto::op::{Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, NULL, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tsunaro_model::name::DnsName;

use super::question::{ClientTransport, Question};
use super::reply::{Lifetime, Reply};

pub(super) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

pub(super) fn dns_name(text: &str) -> DnsName {
    DnsName::parse_query(text).unwrap()
}

/// The primary zone of these tests.
pub(super) fn primary() -> DnsName {
    dns_name("prod.example")
}

pub(super) fn question(text: &str, qtype: RecordType) -> Question {
    Question {
        name: name(text),
        qtype,
        dnssec_ok: false,
        checking_disabled: false,
        recursion_desired: true,
        authentic_data: false,
        transport: ClientTransport::Udp,
    }
}

pub(super) fn a(owner: &str, ttl: u32, address: [u8; 4]) -> Record {
    Record::from_rdata(name(owner), ttl, RData::A(A(Ipv4Addr::from(address))))
}

pub(super) fn cname(owner: &str, ttl: u32, target: &str) -> Record {
    Record::from_rdata(name(owner), ttl, RData::CNAME(CNAME(name(target))))
}

pub(super) fn soa(owner: &str, ttl: u32, minimum: u32) -> Record {
    let soa = SOA::new(
        name(owner),
        name("nobody.invalid."),
        1,
        7200,
        1800,
        86_400,
        minimum,
    );
    Record::from_rdata(name(owner), ttl, RData::SOA(soa))
}

/// A record that hickory does not know inside, as RRSIG, NSEC and DNAME without its DNSSEC.
pub(super) fn raw(owner: &str, ttl: u32, code: RecordType, rdata: &[u8]) -> Record {
    Record::from_rdata(
        name(owner),
        ttl,
        RData::Unknown {
            code,
            rdata: NULL::with(rdata.to_vec()),
        },
    )
}

pub(super) fn rrsig(owner: &str, ttl: u32, covered: RecordType) -> Record {
    let mut rdata = u16::from(covered).to_be_bytes().to_vec();
    rdata.extend([13; 30]);
    raw(owner, ttl, RecordType::RRSIG, &rdata)
}

pub(super) fn dname(owner: &str, ttl: u32, target: &str) -> Record {
    raw(owner, ttl, RecordType::DNAME, dns_name(target).as_wire())
}

pub(super) fn reply_to(question: &Question, id: u16, rcode: ResponseCode) -> Message {
    let mut message = Message::response(id, OpCode::Query);
    message.metadata.response_code = rcode;
    message.metadata.recursion_available = true;
    message.add_query(Query::query(question.name.clone(), question.qtype));
    message
}

/// A kept answer of the given lifetime with one address.
pub(super) fn kept(owner: &str, lifetime: Lifetime, octets: usize) -> Reply {
    Reply {
        rcode: ResponseCode::NoError,
        answer: vec![a(owner, 30, [198, 51, 100, 7])],
        authority: Vec::new(),
        authentic_data: false,
        continue_at: None,
        links: 0,
        lifetime,
        octets,
        wire: OnceLock::new(),
    }
}
