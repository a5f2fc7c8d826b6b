//! Tells the reply to our query from anything else that reaches its socket (rule 49 of the DNS
//! contract, RFC 5452 §9.1), and encodes the query.

use hickory_proto::ProtoError;
use hickory_proto::op::{
    DEFAULT_MAX_PAYLOAD_LEN, Edns, Header, Message, MessageType, OpCode, Query, ResponseCode,
};
use hickory_proto::rr::DNSClass;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use super::answer::ExtendedError;
use super::question::Question;

/// EDNS option code of extended errors (RFC 8914 §2).
const EDE_OPTION: u16 = 15;
/// Text of an extended error that is sent on, in octets; keeps a SERVFAIL within 512.
const MAX_EDE_TEXT: usize = 128;

/// What a datagram or a message over TCP is to a query of ours.
#[derive(Debug)]
pub(super) enum Match {
    /// Not the reply: ignored, as if it had not come.
    Ignored,
    /// The reply with TC: as much of it as could be read.
    Truncated(Option<Box<Message>>),
    /// The reply, but it cannot be read.
    Malformed,
    /// The reply.
    Reply(Box<Message>),
}

/// The query for an upstream (rule 47): our own header bits, EDNS and nothing of the client's
/// options.
///
/// # Errors
/// When hickory cannot encode it; no question read from a message is known to do that.
pub(super) fn encode(question: &Question, id: u16) -> Result<Vec<u8>, ProtoError> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = question.recursion_desired;
    message.metadata.checking_disabled = question.checking_disabled;
    message.metadata.authentic_data = question.authentic_data;
    message.add_query(Query::query(question.name.clone(), question.qtype));
    let mut edns = Edns::new();
    edns.set_max_payload(DEFAULT_MAX_PAYLOAD_LEN);
    edns.set_dnssec_ok(question.dnssec_ok);
    message.set_edns(edns);
    message.to_vec()
}

/// Compares octets from the queried address and port with the query.
pub(super) fn classify(octets: &[u8], id: u16, question: &Question) -> Match {
    let mut decoder = BinDecoder::new(octets);
    let Ok(header) = Header::read(&mut decoder) else {
        return Match::Ignored;
    };
    let metadata = header.metadata;
    if metadata.id != id
        || metadata.message_type != MessageType::Response
        || metadata.op_code != OpCode::Query
    {
        return Match::Ignored;
    }
    match header.counts.queries {
        1 => match Query::read(&mut decoder) {
            Ok(query) if asks(&query, question) => {}
            _ => return Match::Ignored,
        },
        // A server that could not read the question cannot repeat it.
        0 if metadata.response_code == ResponseCode::FormErr => {}
        _ => return Match::Ignored,
    }
    match (Message::from_vec(octets), metadata.truncation) {
        (message, true) => Match::Truncated(message.ok().map(Box::new)),
        (Ok(message), false) => Match::Reply(Box::new(message)),
        (Err(_), false) => Match::Malformed,
    }
}

/// The extended error in a reply, its text made safe to send on.
pub(super) fn extended_error(message: &Message) -> Option<ExtendedError> {
    let option = message
        .edns
        .as_ref()?
        .option(EdnsCode::Unknown(EDE_OPTION))?;
    let EdnsOption::Unknown(_, data) = option else {
        return None;
    };
    let (code, text) = data.split_first_chunk::<2>()?;
    let mut safe = String::new();
    for c in String::from_utf8_lossy(text)
        .chars()
        .filter(|c| !c.is_control())
    {
        if safe.len() + c.len_utf8() > MAX_EDE_TEXT {
            break;
        }
        safe.push(c);
    }
    Some(ExtendedError {
        code: u16::from_be_bytes(*code),
        text: safe,
    })
}

fn asks(query: &Query, question: &Question) -> bool {
    query.query_class() == DNSClass::IN
        && query.query_type() == question.qtype
        && query.name().eq_ignore_root(&question.name)
}

#[cfg(test)]
mod tests;
