//! Queries, well formed or not.

use anyhow::{Context, Result};

use super::{name, rtype::type_number};

/// Recursion desired (RFC 1035 §4.1.1).
pub const RD: u16 = 0x0100;
/// Authentic data (RFC 4035 §3.2.3).
pub const AD: u16 = 0x0020;
/// Checking disabled (RFC 4035 §3.2.2).
pub const CD: u16 = 0x0010;

const CLASS_IN: u16 = 1;
const TYPE_OPT: u16 = 41;
const TYPE_SOA: u16 = 6;
const TYPE_IXFR: u16 = 251;

/// A query to be sent.
#[derive(Debug, Clone)]
pub struct Query {
    /// The absolute question name in presentation form.
    pub name: String,
    /// The question type.
    pub rtype: u16,
    /// The question class; 1 is IN.
    pub class: u16,
    /// Bits of the header: [`RD`], [`AD`], [`CD`].
    pub flags: u16,
    /// The opcode, 0..15.
    pub opcode: u8,
    /// The OPT record, if any.
    pub edns: Option<Edns>,
    /// Which rule of the format it breaks.
    pub shape: Shape,
}

/// An OPT record (RFC 6891 §6.1).
#[derive(Debug, Clone)]
pub struct Edns {
    /// The size of UDP messages that the sender takes, in octets.
    pub size: u16,
    /// The version.
    pub version: u8,
    /// DO, and the bits beside it that must be zero.
    pub flags: u16,
    /// Options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// What the encoder makes of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A message as it should be.
    Proper,
    /// The question twice, with QDCOUNT 2.
    TwoQuestions,
    /// No question, with QDCOUNT 0.
    NoQuestion,
    /// The OPT record twice.
    TwoOpts,
    /// QR set: a reply.
    AsReply,
    /// Cut to this many octets.
    Cut(usize),
}

impl Default for Edns {
    fn default() -> Self {
        Self {
            size: 1232,
            version: 0,
            flags: 0,
            options: Vec::new(),
        }
    }
}

impl Query {
    /// A question of class IN with RD and an OPT record.
    pub fn new(name: &str, rtype: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            rtype: type_number(rtype)?,
            class: CLASS_IN,
            flags: RD,
            opcode: 0,
            edns: Some(Edns::default()),
            shape: Shape::Proper,
        })
    }

    /// The message with this id.
    pub fn encode(&self, id: u16) -> Result<Vec<u8>> {
        let mut bits = self.flags | u16::from(self.opcode & 0x0f) << 11;
        if self.shape == Shape::AsReply {
            bits |= 0x8000;
        }
        let questions = match self.shape {
            Shape::NoQuestion => 0,
            Shape::TwoQuestions => 2,
            _ => 1,
        };
        // RFC 1995 §3: the client's SOA is in the authority section.
        let authority = u16::from(self.rtype == TYPE_IXFR);
        let opts = match (&self.edns, self.shape) {
            (None, _) => 0,
            (Some(_), Shape::TwoOpts) => 2,
            (Some(_), _) => 1,
        };
        let mut octets = Vec::new();
        for field in [id, bits, questions, 0, authority, opts] {
            octets.extend(field.to_be_bytes());
        }
        for _ in 0..questions {
            octets.extend(name::encode(&self.name)?);
            octets.extend(self.rtype.to_be_bytes());
            octets.extend(self.class.to_be_bytes());
        }
        if authority == 1 {
            octets.extend(soa_of_serial_one(&self.name)?);
        }
        for _ in 0..opts {
            if let Some(edns) = &self.edns {
                edns.encode(&mut octets)?;
            }
        }
        if let Shape::Cut(length) = self.shape {
            octets.truncate(length);
        }
        Ok(octets)
    }
}

impl Edns {
    fn encode(&self, octets: &mut Vec<u8>) -> Result<()> {
        octets.push(0);
        octets.extend(TYPE_OPT.to_be_bytes());
        octets.extend(self.size.to_be_bytes());
        octets.extend([0, self.version]);
        octets.extend(self.flags.to_be_bytes());
        let mut data = Vec::new();
        for (code, value) in &self.options {
            data.extend(code.to_be_bytes());
            data.extend(length(value)?);
            data.extend(value);
        }
        octets.extend(length(&data)?);
        octets.extend(data);
        Ok(())
    }
}

fn soa_of_serial_one(owner: &str) -> Result<Vec<u8>> {
    let mut data = name::encode(owner)?;
    data.extend(name::encode(owner)?);
    for number in [1_u32, 7200, 1800, 86_400, 5] {
        data.extend(number.to_be_bytes());
    }
    let mut octets = name::encode(owner)?;
    octets.extend(TYPE_SOA.to_be_bytes());
    octets.extend(CLASS_IN.to_be_bytes());
    octets.extend(0_u32.to_be_bytes());
    octets.extend(length(&data)?);
    octets.extend(data);
    Ok(octets)
}

fn length(data: &[u8]) -> Result<[u8; 2]> {
    Ok(u16::try_from(data.len())
        .context("data too long")?
        .to_be_bytes())
}
