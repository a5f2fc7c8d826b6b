//! What runs while a case is asked: the third column.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tsunaro_integration::wire::Behaviour;

use crate::text::duration;

/// The setup of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Which config is the base.
    pub(crate) base: Base,
    /// The hosts file.
    pub(crate) hosts: HostsKind,
    /// What the first upstream does.
    pub(crate) u1: Peer,
    /// What the second upstream does.
    pub(crate) u2: Peer,
    /// The zone as the config spells it, if not as usual.
    pub(crate) zone: Option<String>,
    /// Static records beside those of the base.
    pub(crate) records: Vec<Static>,
    /// Extra zones beside those of the base.
    pub(crate) extra: Vec<String>,
    /// Where the agent listens.
    pub(crate) bind: Bind,
    /// What asks the agent.
    pub(crate) front: Front,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// `W0`: the fixture without a wildcard.
    NoWildcard,
    /// `W1`: with one.
    Wildcard,
    /// `bare`: the zone alone, without hosts file, records and extra zones.
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostsKind {
    /// As in the fixture.
    Usual,
    /// `hosts=no-apex`: without the line of the apex.
    NoApex,
    /// `hosts=bom`: after a byte order mark, bom.Z comes first.
    Bom,
    /// `hosts=faulty`: with entries that are wrong.
    Faulty,
    /// `hosts=r`: with r.Z.
    WithR,
    /// `hosts=missing`: named by the config, but not there.
    Missing,
}

/// What an upstream of the extra zone is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It answers well.
    Good,
    /// It behaves otherwise.
    Bad(Bad),
    /// Nothing listens on its port.
    Closed,
    /// It passes the question back to the agent.
    Loop,
    /// The config does not name it.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    Silent,
    ServFail,
    Refused,
    NxDomain,
    Late(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Static {
    pub(crate) name: String,
    pub(crate) data: StaticData,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StaticData {
    Target(String),
    Address(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bind {
    /// One loopback address.
    One,
    /// `bind=any`: the IPv4 wildcard address.
    Any,
    /// `bind=any6`: the IPv6 wildcard address, which takes IPv4 as well.
    Any6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// Clients ask the agent.
    None,
    /// `coredns`: a CoreDNS that forwards the zone can be asked as well.
    CoreDns,
}

impl Setup {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let base = match words.next().context("no setup")? {
            "W0" => Base::NoWildcard,
            "W1" => Base::Wildcard,
            "bare" => Base::Bare,
            other => bail!("\"{other}\" is no base of a setup"),
        };
        let mut setup = Self {
            base,
            hosts: HostsKind::Usual,
            u1: Peer::Good,
            u2: Peer::Good,
            zone: None,
            records: Vec::new(),
            extra: Vec::new(),
            bind: Bind::One,
            front: Front::None,
        };
        for word in words {
            setup
                .word(word)
                .with_context(|| format!("the setup \"{text}\""))?;
        }
        Ok(setup)
    }

    fn word(&mut self, word: &str) -> Result<()> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("hosts", kind) => self.hosts = hosts_kind(kind)?,
            ("u1", peer) => self.u1 = peer_kind(peer)?,
            ("u2", peer) => self.u2 = peer_kind(peer)?,
            ("zone", name) if !name.is_empty() => self.zone = Some(name.to_owned()),
            ("record", record) => self.records.push(static_record(record)?),
            ("extra", name) if !name.is_empty() => self.extra.push(name.to_owned()),
            ("bind", "any") => self.bind = Bind::Any,
            ("bind", "any6") => self.bind = Bind::Any6,
            ("coredns", "") => self.front = Front::CoreDns,
            _ => bail!("\"{word}\" is no word of a setup"),
        }
        Ok(())
    }

    /// Whether cases may share an agent with this setup: upstreams that fail
    /// leave traces in it.
    pub(crate) fn can_be_shared(&self) -> bool {
        (self.u1, self.u2, self.front) == (Peer::Good, Peer::Good, Front::None)
    }
}

impl Bad {
    pub(crate) fn behaviour(self, address: Ipv4Addr) -> Behaviour {
        match self {
            Self::Silent => Behaviour::Silent,
            Self::ServFail => Behaviour::ServFail,
            Self::Refused => Behaviour::Refused,
            Self::NxDomain => Behaviour::NxDomain,
            Self::Late(delay) => Behaviour::Late(delay, address),
        }
    }
}

fn hosts_kind(word: &str) -> Result<HostsKind> {
    Ok(match word {
        "no-apex" => HostsKind::NoApex,
        "bom" => HostsKind::Bom,
        "faulty" => HostsKind::Faulty,
        "r" => HostsKind::WithR,
        "missing" => HostsKind::Missing,
        _ => bail!("\"{word}\" is no kind of hosts file"),
    })
}

fn peer_kind(word: &str) -> Result<Peer> {
    Ok(match word {
        "closed" => Peer::Closed,
        "loop" => Peer::Loop,
        "none" => Peer::None,
        "silent" => Peer::Bad(Bad::Silent),
        "servfail" => Peer::Bad(Bad::ServFail),
        "refused" => Peer::Bad(Bad::Refused),
        "nxdomain" => Peer::Bad(Bad::NxDomain),
        _ => match word.strip_prefix("late-") {
            Some(delay) => Peer::Bad(Bad::Late(duration(delay)?)),
            None => bail!("\"{word}\" is nothing that an upstream does"),
        },
    })
}

fn static_record(word: &str) -> Result<Static> {
    let parsed = word
        .split_once("->")
        .map(|(name, target)| (name, StaticData::Target(target.to_owned())))
        .or_else(|| {
            let (name, address) = word.split_once('=')?;
            Some((name, StaticData::Address(address.to_owned())))
        });
    let (name, data) = parsed.with_context(|| format!("\"{word}\" is no record"))?;
    Ok(Static {
        name: name.to_owned(),
        data,
    })
}
