//! What the fuzz targets of `fuzz/` run, and what their committed corpora are replayed through by
//! an ordinary test. Each takes any octets and panics when what always holds does not.

use std::sync::{Arc, LazyLock};

use hickory_proto::op::Message;
use tsunaro_model::config;
use tsunaro_model::hosts::Hosts;
use tsunaro_model::zone::{HostsInput, Snapshot};

use crate::answer::{Answer, Job, Reply, answer, finish};
use crate::forward::judge;
use crate::forwarding::{ClientTransport, Failure, Forwarded};
use crate::query::{Incoming, parse};
use crate::wire::HEADER;

/// Static names, dynamic names, aliases in and out, a wildcard, an extra zone with an override.
static ZONE: LazyLock<Arc<Snapshot>> = LazyLock::new(|| {
    const CONFIG: &str = "{apiVersion: agent.tsunaro.io/v1alpha1, kind: GatewayConfig, \
        dns: {zone: z.example, wildcardAddress: 192.0.2.200, staticRecords: [\
        {name: s, address: 192.0.2.1}, {name: deep.ent, address: 192.0.2.2}, \
        {name: alias, target: web}, {name: chain, target: alias}, {name: many, target: big}, \
        {name: out, target: www.example.org}, {name: fwd, target: www.e.example}], \
        extraZones: [{zone: e.example, upstreams: [192.0.2.53]}]}}";
    let mut hosts = String::from(
        "192.0.2.10 web.z.example z.example\n2001:db8::10 web.z.example six.z.example\n\
         192.0.2.15 a.b.z.example\n192.0.2.30 svc.e.example\n",
    );
    for last in 1..=200 {
        hosts.push_str(&format!("198.51.100.{last} big.z.example\n"));
    }
    let parsed = (config::parse(CONFIG).config, Hosts::parse(hosts.as_bytes()));
    let (Some(config), Ok(hosts)) = parsed else {
        unreachable!("the zone of the fuzz targets is valid");
    };
    Arc::new(Snapshot::build(&config.dns, HostsInput::Read(&hosts), 1, 1).0)
});

/// A message from the network. The first octet's lowest bit says whether it came over TCP.
pub fn wire(octets: &[u8]) {
    let Some((choice, message)) = octets.split_first() else {
        return;
    };
    let transport = match choice & 1 {
        0 => ClientTransport::Udp,
        _ => ClientTransport::Tcp,
    };
    let silent = message.len() < HEADER || message.get(2).is_some_and(|bits| bits & 0x80 != 0);
    match parse(message, transport) {
        Incoming::Drop => assert!(silent),
        Incoming::Reply(written) => {
            let limit = match transport {
                ClientTransport::Udp => 1232,
                ClientTransport::Tcp => usize::from(u16::MAX),
            };
            mirrors(message, &written.octets, limit);
        }
        Incoming::Query(query) => {
            let limit = query.reply_limit();
            let reply = settle(answer(&ZONE, query, usize::from(*choice)), |_| {
                Err(Failure::Timeout)
            });
            mirrors(message, &reply.octets, limit);
            assert!(!(reply.truncated && transport == ClientTransport::Tcp));
        }
    }
    assert!(!silent || matches!(parse(message, transport), Incoming::Drop));
}

/// A valid reply to `message` of at most `limit` octets.
fn mirrors(message: &[u8], reply: &[u8], limit: usize) {
    assert!(reply.len() <= limit, "{} octets", reply.len());
    assert_eq!(reply.get(..2), message.get(..2), "the ID");
    let (Some(asked), Some(replied)) = (message.get(2), reply.get(2)) else {
        unreachable!("a message without a header was dropped");
    };
    assert_eq!(replied & 0xf8, 0x80 | (asked & 0x78), "QR and the opcode");
    assert!(Message::from_vec(reply).is_ok(), "{reply:02x?}");
}

/// An upstream's datagram for a question of ours, up to the reply for the client.
///
/// The first octet chooses the question: bit 0 DO, bit 1 TCP, bits 2 and 3 the name, bits 4 and 5
/// the type, bit 6 whether the rest is the whole message or what follows ID and question (bits
/// and counts first), so that mutations do not all end at the question.
pub fn upstream(octets: &[u8]) {
    const ID: u16 = 0x1234;
    let Some((choice, rest)) = octets.split_first() else {
        return;
    };
    let labels: &[&[u8]] = match choice >> 2 & 3 {
        0 => &[b"www", b"e", b"example"],
        1 => &[b"WwW", b"E", b"example"],
        2 => &[b"fwd", b"z", b"example"],
        _ => &[b"e", b"example"],
    };
    let qtype = match choice >> 4 & 3 {
        0 => 1,
        1 => 28,
        2 => 16,
        _ => 65,
    };
    let transport = match choice & 2 {
        0 => ClientTransport::Udp,
        _ => ClientTransport::Tcp,
    };
    let client = question(labels, qtype, choice & 1 != 0);
    let Incoming::Query(query) = parse(&client, transport) else {
        unreachable!("the question of the fuzz target is valid");
    };
    let limit = query.reply_limit();
    let reply = settle(answer(&ZONE, query, 0), |job| {
        let asked = job.question();
        let message = match choice & 0x40 {
            0 => rest.to_vec(),
            _ => reply_to(ID, &asked.name.iter().collect::<Vec<_>>(), qtype, rest),
        };
        judge(&message, ID, &asked, ZONE.apex()).unwrap_or(Err(Failure::Timeout))
    });
    mirrors(&client, &reply.octets, limit);
    assert!(!(reply.truncated && transport == ClientTransport::Tcp));
}

fn name(labels: &[&[u8]]) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in labels {
        wire.extend(u8::try_from(label.len()));
        wire.extend_from_slice(label);
    }
    wire.push(0);
    wire
}

fn question(labels: &[&[u8]], qtype: u8, dnssec_ok: bool) -> Vec<u8> {
    let mut message = vec![0x56, 0x78, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend(name(labels));
    message.extend([0, qtype, 0, 1]);
    message.extend([0, 0, 41, 4, 0xd0, 0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]);
    message
}

/// A reply with the right ID and question; `rest` gives flags, counts and what follows.
fn reply_to(id: u16, labels: &[&[u8]], qtype: u8, rest: &[u8]) -> Vec<u8> {
    let (head, tail) = rest.split_at(rest.len().min(5));
    let at = |index: usize| head.get(index).copied().unwrap_or(0);
    let mut message = id.to_be_bytes().to_vec();
    message.extend([0x80 | (at(0) & 0x07), at(1), 0, 1]);
    message.extend([0, at(2), 0, at(3), 0, at(4)]);
    message.extend(name(labels));
    message.extend([0, qtype, 0, 1]);
    message.extend_from_slice(tail);
    message
}

/// Carries out an answer's jobs. There are few: each adds a link to the chain.
fn settle(mut answer: Answer, upstream: impl Fn(&Job) -> Result<Forwarded, Failure>) -> Reply {
    for _ in 0..=tsunaro_model::zone::MAX_LINKS {
        match answer {
            Answer::Reply(reply) => return reply,
            Answer::Forward(job) => {
                let result = upstream(&job);
                answer = finish(*job, result);
            }
        }
    }
    unreachable!("more jobs than links")
}

#[cfg(test)]
mod tests;
