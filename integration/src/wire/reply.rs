//! Replies, decoded without the agent's library.

use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use hickory_proto::op::Message;

use super::{name, rtype::type_name};

const TYPE_OPT: u16 = 41;

/// A reply as it came.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The whole message.
    pub octets: Vec<u8>,
    /// The id.
    pub id: u16,
    /// The second word of the header: QR, opcode, flags, low bits of the RCODE.
    pub bits: u16,
    /// The RCODE with the high bits from the OPT record (RFC 6891 §6.1.3).
    pub rcode: u16,
    /// Names and types of the question section, in the case received.
    pub questions: Vec<(String, u16)>,
    /// The answer section.
    pub answer: Vec<Record>,
    /// The authority section.
    pub authority: Vec<Record>,
    /// The additional section without OPT.
    pub additional: Vec<Record>,
    /// The OPT record.
    pub opt: Option<Opt>,
}

/// A resource record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The owner name in the case received, with a final dot.
    pub owner: String,
    /// The type.
    pub rtype: u16,
    /// The class.
    pub class: u16,
    /// Seconds.
    pub ttl: u32,
    /// The data in presentation form; of types unknown here in that of RFC 3597 §5.
    pub data: String,
}

/// An OPT record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opt {
    /// The size of UDP messages that the server takes, in octets.
    pub size: u16,
    /// The version.
    pub version: u8,
    /// DO and the bits beside it.
    pub flags: u16,
    /// Options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
    /// Whether no record comes after it.
    pub is_last: bool,
}

impl Reply {
    /// Decodes a message; an error if it is malformed, has octets after its
    /// end, or cannot be read by hickory.
    pub fn decode(octets: &[u8]) -> Result<Self> {
        let mut cursor = Cursor { octets, at: 0 };
        let (id, bits) = (cursor.u16()?, cursor.u16()?);
        let counts = [cursor.u16()?, cursor.u16()?, cursor.u16()?, cursor.u16()?];
        let [questions, answer, authority, additional] = counts;
        let mut reply = Self {
            octets: octets.to_vec(),
            id,
            bits,
            rcode: bits & 0x0f,
            questions: Vec::new(),
            answer: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
            opt: None,
        };
        for _ in 0..questions {
            let name = cursor.name()?;
            let rtype = cursor.u16()?;
            cursor.u16()?;
            reply.questions.push((name, rtype));
        }
        for _ in 0..answer {
            reply.answer.push(cursor.record()?);
        }
        for _ in 0..authority {
            reply.authority.push(cursor.record()?);
        }
        for index in 0..additional {
            if let Some(opt) = cursor.opt(index + 1 == additional)? {
                ensure!(reply.opt.is_none(), "two OPT records");
                reply.rcode |= opt.1 << 4;
                reply.opt = Some(opt.0);
            } else {
                reply.additional.push(cursor.record()?);
            }
        }
        ensure!(
            cursor.at == octets.len(),
            "{} octets after the message",
            octets.len() - cursor.at
        );
        Message::from_vec(octets).context("hickory cannot read the reply")?;
        Ok(reply)
    }

    /// Whether a bit of the header is set, by its mask.
    #[must_use]
    pub fn has(&self, mask: u16) -> bool {
        self.bits & mask != 0
    }

    /// The opcode.
    #[must_use]
    pub fn opcode(&self) -> u16 {
        self.bits >> 11 & 0x0f
    }

    /// The first option of this code.
    #[must_use]
    pub fn option(&self, code: u16) -> Option<&[u8]> {
        let options = &self.opt.as_ref()?.options;
        let (_, data) = options.iter().find(|(each, _)| *each == code)?;
        Some(data)
    }
}

impl Record {
    /// Type and data, as `A 192.0.2.10`.
    #[must_use]
    pub fn typed(&self) -> String {
        format!("{} {}", type_name(self.rtype), self.data)
    }
}

struct Cursor<'a> {
    octets: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.saturating_add(count);
        let taken = self
            .octets
            .get(self.at..end)
            .with_context(|| format!("the message ends within a field at octet {}", self.at))?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into()?)
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn name(&mut self) -> Result<String> {
        let (name, next) = name::decode(self.octets, self.at)?;
        self.at = next;
        Ok(name)
    }

    fn record(&mut self) -> Result<Record> {
        let owner = self.name()?;
        let (rtype, class, ttl) = (self.u16()?, self.u16()?, self.u32()?);
        let length = usize::from(self.u16()?);
        let end = self.at + length;
        let data = self
            .data(rtype, length)
            .with_context(|| format!("{} {}", owner, type_name(rtype)))?;
        ensure!(
            self.at == end,
            "the data of {owner} {} is not as long as said",
            type_name(rtype)
        );
        Ok(Record {
            owner,
            rtype,
            class,
            ttl,
            data,
        })
    }

    /// An OPT record and the high bits of the RCODE, if the next record is one.
    fn opt(&mut self, is_last: bool) -> Result<Option<(Opt, u16)>> {
        let start = self.at;
        let owner = self.name()?;
        if self.u16()? != TYPE_OPT {
            self.at = start;
            return Ok(None);
        }
        ensure!(owner == ".", "an OPT record of {owner}");
        let size = self.u16()?;
        let [high, version] = self.array()?;
        let flags = self.u16()?;
        let end = usize::from(self.u16()?) + self.at;
        let mut options = Vec::new();
        while self.at < end {
            let code = self.u16()?;
            let length = usize::from(self.u16()?);
            options.push((code, self.take(length)?.to_vec()));
        }
        let opt = Opt {
            size,
            version,
            flags,
            options,
            is_last,
        };
        Ok(Some((opt, u16::from(high))))
    }

    fn data(&mut self, rtype: u16, length: usize) -> Result<String> {
        Ok(match type_name(rtype).as_str() {
            "A" => Ipv4Addr::from(self.array::<4>()?).to_string(),
            "AAAA" => Ipv6Addr::from(self.array::<16>()?).to_string(),
            "NS" | "CNAME" | "PTR" => self.name()?,
            "SOA" => {
                let (mname, rname) = (self.name()?, self.name()?);
                let mut text = format!("{mname} {rname}");
                for _ in 0..5 {
                    text.push_str(&format!(" {}", self.u32()?));
                }
                text
            }
            "TXT" => self.text(length)?,
            "SVCB" | "HTTPS" => {
                let start = self.at;
                let (priority, target) = (self.u16()?, self.name()?);
                let parameters = length.saturating_sub(self.at - start);
                format!("{priority} {target} {}", hex(self.take(parameters)?))
            }
            _ => format!("\\# {length} {}", hex(self.take(length)?)),
        })
    }

    fn text(&mut self, length: usize) -> Result<String> {
        let end = self.at + length;
        let mut strings = Vec::new();
        while self.at < end {
            let [count] = self.array()?;
            let string = String::from_utf8_lossy(self.take(usize::from(count))?).into_owned();
            strings.push(format!("\"{string}\""));
        }
        Ok(strings.join(" "))
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
