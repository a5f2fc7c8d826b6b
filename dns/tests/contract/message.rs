//! Queries by hand, and replies in one line so that tables stay readable.

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::rr::{Name, RData, Record};
use tsunaro_model::name::DnsName;

pub(crate) const Z: &str = "prod-1.tailnet.example.internal.";
pub(crate) const E: &str = "corp.example.com.";

pub(crate) mod rtype {
    pub(crate) use tsunaro_model::zone::rtype::*;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const DS: u16 = 43;
    pub(crate) const RRSIG: u16 = 46;
    pub(crate) const NSEC: u16 = 47;
    pub(crate) const DNSKEY: u16 = 48;
    pub(crate) const HTTPS: u16 = 65;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
    pub(crate) const UNKNOWN: u16 = 65280;
}

/// The wire form of a name in which a last label `Z` or `E` stands for that zone.
pub(crate) fn wire(text: &str) -> Vec<u8> {
    let full = match text.rsplit('.').next() {
        Some("Z") => format!("{}{Z}", text.strip_suffix('Z').unwrap()),
        Some("E") => format!("{}{E}", text.strip_suffix('E').unwrap()),
        _ => text.to_owned(),
    };
    let mut octets = Vec::new();
    for label in full.split('.').filter(|label| !label.is_empty()) {
        octets.push(u8::try_from(label.len()).unwrap());
        octets.extend(label.bytes());
    }
    octets.push(0);
    octets
}

pub(crate) fn name(text: &str) -> DnsName {
    DnsName::from_wire(&wire(text)).unwrap()
}

pub(crate) fn hickory(text: &str) -> Name {
    let mut name = Name::from_labels(name(text).labels()).unwrap();
    name.set_fqdn(true);
    name
}

/// A query in the making; plain: ID 0x1234, RD, class IN, OPT with 1232 octets.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) id: u16,
    pub(crate) bits: u16,
    pub(crate) name: Vec<u8>,
    pub(crate) qtype: u16,
    pub(crate) qclass: u16,
    pub(crate) opt: Option<Opt>,
}

#[derive(Debug, Clone)]
pub(crate) struct Opt {
    pub(crate) size: u16,
    pub(crate) version: u8,
    pub(crate) flags: u16,
    pub(crate) options: Vec<u8>,
}

pub(crate) fn ask(text: &str, qtype: u16) -> Ask {
    let opt = Opt {
        size: 1232,
        version: 0,
        flags: 0,
        options: Vec::new(),
    };
    Ask {
        id: 0x1234,
        bits: 0x0100,
        name: wire(text),
        qtype,
        qclass: 1,
        opt: Some(opt),
    }
}

impl Ask {
    pub(crate) fn plain(mut self) -> Self {
        self.opt = None;
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Opt)) -> Self {
        self.opt.as_mut().map(change);
        self
    }

    pub(crate) fn bits(mut self, bits: u16) -> Self {
        self.bits = bits;
        self
    }

    pub(crate) fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut octets = header(self.id, self.bits, [1, 0, 0, u16::from(self.opt.is_some())]);
        octets.extend(self.question());
        if let Some(opt) = &self.opt {
            octets.extend(opt.octets());
        }
        octets
    }

    pub(crate) fn question(&self) -> Vec<u8> {
        let mut octets = self.name.clone();
        octets.extend(self.qtype.to_be_bytes());
        octets.extend(self.qclass.to_be_bytes());
        octets
    }

    /// As it goes over TCP.
    pub(crate) fn framed(&self) -> Vec<u8> {
        let octets = self.octets();
        let mut framed = u16::try_from(octets.len()).unwrap().to_be_bytes().to_vec();
        framed.extend(octets);
        framed
    }
}

impl Opt {
    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut octets = vec![0, 0, 41];
        octets.extend(self.size.to_be_bytes());
        octets.extend([0, self.version]);
        octets.extend(self.flags.to_be_bytes());
        octets.extend(u16::try_from(self.options.len()).unwrap().to_be_bytes());
        octets.extend(&self.options);
        octets
    }
}

pub(crate) fn header(id: u16, bits: u16, counts: [u16; 4]) -> Vec<u8> {
    [[id, bits].as_slice(), &counts]
        .concat()
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect()
}

/// Code and value of one EDNS option.
pub(crate) fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = code.to_be_bytes().to_vec();
    octets.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    octets.extend(value);
    octets
}

pub(crate) fn decode(octets: &[u8]) -> Message {
    Message::from_vec(octets).unwrap_or_else(|error| panic!("{error}: {octets:02x?}"))
}

/// `RCODE flags: answers / authority`, then `ede N` for each extended error. RD and OPT are left
/// out: they mirror the query, which [`assert_mirrors`] checks.
pub(crate) fn line(octets: &[u8]) -> String {
    let message = decode(octets);
    let header = &message.metadata;
    let opt_rcode = octets.len() > 12
        && message
            .edns
            .as_ref()
            .is_some_and(|edns| edns.rcode_high() == 1);
    let mut line = match u16::from(header.response_code) & 0xf {
        0 if opt_rcode => "BADVERS".to_owned(),
        0 => "NOERROR".to_owned(),
        1 => "FORMERR".to_owned(),
        2 => "SERVFAIL".to_owned(),
        3 => "NXDOMAIN".to_owned(),
        4 => "NOTIMP".to_owned(),
        5 => "REFUSED".to_owned(),
        other => format!("RCODE{other}"),
    };
    let flags = [
        (header.authoritative, " aa"),
        (header.truncation, " tc"),
        (header.recursion_available, " ra"),
        (header.authentic_data, " ad"),
        (header.checking_disabled, " cd"),
    ];
    line.extend(
        flags
            .into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, text)| text),
    );
    line.push(':');
    for record in &message.answers {
        line += &format!(" {}", show(record));
    }
    if !message.authorities.is_empty() {
        line += " /";
        for record in &message.authorities {
            line += &format!(" {}", show(record));
        }
    }
    assert!(
        message.additionals.is_empty(),
        "ADDITIONAL holds only the OPT"
    );
    for (code, text) in extended_errors(&message) {
        line += &format!(" ede {code}");
        assert!(text.len() <= 128);
    }
    line
}

pub(crate) fn extended_errors(message: &Message) -> Vec<(u16, String)> {
    let options = message.edns.iter().flat_map(|edns| &edns.options().options);
    options
        .filter_map(|(_, option)| match option {
            EdnsOption::Unknown(15, value) => {
                let code = u16::from_be_bytes([value[0], value[1]]);
                Some((code, String::from_utf8(value[2..].to_vec()).unwrap()))
            }
            _ => None,
        })
        .collect()
}

fn show(record: &Record) -> String {
    let owner = short(&record.name);
    match &record.data {
        RData::SOA(soa) => format!(
            "[{owner} {} SOA {} {}]",
            record.ttl,
            short(&soa.mname),
            soa.minimum
        ),
        RData::CNAME(target) => format!("[{owner} {} CNAME {}]", record.ttl, short(&target.0)),
        RData::NS(target) => format!("[{owner} {} NS {}]", record.ttl, short(&target.0)),
        data => format!("[{owner} {} {} {data}]", record.ttl, record.record_type()),
    }
}

pub(crate) fn short(name: &Name) -> String {
    let text = name.to_string();
    text.strip_suffix(Z).map_or_else(
        || {
            text.strip_suffix(E)
                .map_or_else(|| text.clone(), |rest| format!("{rest}E"))
        },
        |rest| format!("{rest}Z"),
    )
}

/// What every reply to a well-formed query repeats of it (rules 60, 64, 70).
pub(crate) fn assert_mirrors(query: &Ask, reply: &[u8]) {
    assert_eq!(reply[..2], query.id.to_be_bytes(), "ID");
    assert_eq!(reply[2] & 0x80, 0x80, "QR");
    assert_eq!(
        u16::from_be_bytes([reply[2], reply[3]]) & 0x0100,
        query.bits & 0x0100,
        "RD"
    );
    let question = query.question();
    assert_eq!(
        reply[12..12 + question.len()],
        question,
        "the question, byte for byte"
    );
    let edns = decode(reply).edns;
    assert_eq!(
        edns.is_some(),
        query.opt.is_some(),
        "OPT in the reply iff in the query"
    );
    if let (Some(edns), Some(opt)) = (edns, &query.opt) {
        assert_eq!(edns.max_payload(), 1232, "our size");
        assert_eq!(edns.version(), 0, "our version");
        assert_eq!(edns.flags().dnssec_ok, opt.flags & 0x8000 != 0, "DO copied");
        assert_eq!(edns.flags().z, 0, "Z bits");
    }
}
