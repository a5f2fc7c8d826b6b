//! What a step does: the fourth and fifth columns.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tsunaro_integration::wire::{AD, CD, Edns, Query, RD, Shape, type_number};

use crate::hosts_dir::{Edit, Stamp};
use crate::text::{duration, expand, number};

/// A step's action.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Ask the server.
    Ask(Box<Ask>),
    /// `GET /path` of the agent.
    Get { path: String, pace: Pace },
    /// `metric NAME`: read it from the agent.
    Metric { name: String, pace: Pace },
    /// `check`: does the agent refuse the config?
    Check,
    /// `exit`: has the agent ended?
    Exit { pace: Pace },
    /// `do swap EDIT`: the hosts file changes as kubelet changes it;
    /// `do swap-unseen EDIT`: without a change of its size and time.
    Swap { edit: Edit, stamp: Stamp },
    /// `do wait TIME`.
    Wait(Duration),
    /// `do upstreams silent`.
    SilenceUpstreams,
    /// `do connect N`: so many TCP connections that stay open and idle.
    Connect(u32),
    /// `do sigterm`.
    Terminate,
}

/// A question, and how it is asked.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The names, in turn; `%` in one is the number of the repetition.
    pub(crate) names: Vec<String>,
    /// All else of the query.
    pub(crate) query: Query,
    /// Over what.
    pub(crate) via: Via,
    /// `xN`: how often.
    pub(crate) times: u32,
    /// `every=TIME`: the pause between two.
    pub(crate) every: Option<Duration>,
    /// Once, until it is as expected, or all the time.
    pub(crate) pace: Pace,
    /// Which server.
    pub(crate) server: Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// `udp`: each after the reply to the one before.
    Udp,
    /// `udp fire`: without waiting for replies.
    UdpFire,
    /// `udp rate=N [swaps=N]`: at a rate, while the hosts file changes so many times a second.
    UdpLoad { rate: u32, swaps: u32 },
    /// `tcp`: a connection for each.
    Tcp,
    /// `tcp one-write`: all in one write on one connection.
    TcpOneWrite,
    /// `tcp half-close`: closed for writing after the query.
    TcpHalfClose,
    /// `tcp idle`: then nothing more, until the server closes.
    TcpIdle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Now.
    Once,
    /// `until=TIME`: again and again until it is as expected, which must be
    /// within this time of the last change.
    Until(Duration),
    /// `hold=TIME`: again and again; it must be as expected every time.
    Hold(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// The agent.
    Agent,
    /// `to=ADDRESS`: the agent at another of the machine's addresses.
    AgentAt(IpAddr),
    /// `via=coredns`.
    CoreDns,
}

impl Action {
    pub(crate) fn parse(ask: &str, how: &str) -> Result<Self> {
        let words: Vec<&str> = ask.split_whitespace().collect();
        let action = match words.as_slice() {
            ["GET", path] => Self::Get {
                path: (*path).to_owned(),
                pace: pace_only(how)?,
            },
            ["metric", name] => Self::Metric {
                name: (*name).to_owned(),
                pace: pace_only(how)?,
            },
            ["exit"] => Self::Exit {
                pace: pace_only(how)?,
            },
            ["check"] => Self::Check,
            ["do", rest @ ..] => Self::parse_do(rest)?,
            [names, rtype] => Self::Ask(Box::new(Ask::parse(names, rtype, how)?)),
            _ => bail!("\"{ask}\" is nothing to ask"),
        };
        let takes_no_how = !matches!(
            action,
            Self::Get { .. } | Self::Metric { .. } | Self::Exit { .. } | Self::Ask(_)
        );
        ensure!(!takes_no_how || how == "-", "\"{ask}\" takes no \"{how}\"");
        Ok(action)
    }

    fn parse_do(words: &[&str]) -> Result<Self> {
        Ok(match words {
            ["swap", edit @ ..] => Self::Swap {
                edit: Edit::parse(edit)?,
                stamp: Stamp::New,
            },
            ["swap-unseen", edit @ ..] => Self::Swap {
                edit: Edit::parse(edit)?,
                stamp: Stamp::Unseen,
            },
            ["wait", time] => Self::Wait(duration(time)?),
            ["upstreams", "silent"] => Self::SilenceUpstreams,
            ["connect", count] => Self::Connect(number(count)?),
            ["sigterm"] => Self::Terminate,
            _ => bail!("\"{}\" is nothing to do", words.join(" ")),
        })
    }

    /// Whether it leaves traces in the agent or the files, so that no other
    /// case may share them.
    pub(crate) fn leaves_traces(&self) -> bool {
        match self {
            Self::Swap { .. } | Self::SilenceUpstreams | Self::Connect(_) | Self::Terminate => true,
            Self::Ask(ask) => matches!(ask.via, Via::UdpLoad { .. } | Via::UdpFire),
            Self::Get { .. }
            | Self::Metric { .. }
            | Self::Check
            | Self::Exit { .. }
            | Self::Wait(_) => false,
        }
    }

    /// Whether it takes a second or more by its nature.
    pub(crate) fn is_slow(&self) -> bool {
        match self {
            Self::Wait(_) => true,
            Self::Ask(ask) => {
                ask.via == Via::TcpIdle
                    || ask.pace != Pace::Once
                    || ask.every.is_some()
                    || matches!(ask.query.shape, Shape::AsReply | Shape::Cut(_))
            }
            _ => false,
        }
    }

    /// Whether it burdens the machine.
    pub(crate) fn is_load(&self) -> bool {
        matches!(self, Self::Ask(ask) if matches!(ask.via, Via::UdpLoad { .. }))
    }
}

impl Ask {
    fn parse(names: &str, rtype: &str, how: &str) -> Result<Self> {
        let names: Vec<String> = names.split(',').map(expand).collect();
        for name in &names {
            ensure!(name.ends_with('.'), "\"{name}\" is no absolute name");
        }
        type_number(rtype)?;
        let mut words = how.split_whitespace();
        let via = match words.next() {
            Some("udp") => Via::Udp,
            Some("tcp") => Via::Tcp,
            other => bail!("{other:?} is no transport"),
        };
        let mut ask = Self {
            query: Query::new("", rtype)?,
            names,
            via,
            times: 1,
            every: None,
            pace: Pace::Once,
            server: Server::Agent,
        };
        for word in words {
            ask.word(word).with_context(|| format!("in \"{how}\""))?;
        }
        Ok(ask)
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if let Some(times) = word.strip_prefix('x') {
            self.times = number(times)?;
            return Ok(());
        }
        match (word.split_once('=').unwrap_or((word, "")), self.via) {
            (("fire", ""), Via::Udp) => self.via = Via::UdpFire,
            (("rate", rate), Via::Udp) => {
                self.via = Via::UdpLoad {
                    rate: number(rate)?,
                    swaps: 0,
                };
            }
            (("swaps", swaps), Via::UdpLoad { rate, .. }) => {
                self.via = Via::UdpLoad {
                    rate,
                    swaps: number(swaps)?,
                };
            }
            (("one-write", ""), Via::Tcp) => self.via = Via::TcpOneWrite,
            (("half-close", ""), Via::Tcp) => self.via = Via::TcpHalfClose,
            (("idle", ""), Via::Tcp) => self.via = Via::TcpIdle,
            (("every", time), _) => self.every = Some(duration(time)?),
            (("until" | "hold", _), _) => self.pace = pace(word)?,
            (("via", "coredns"), _) => self.server = Server::CoreDns,
            (("to", address), _) => self.server = Server::AgentAt(address.parse().context("to=")?),
            _ => self.message_word(word)?,
        }
        Ok(())
    }

    /// The words that change the message, as dig's options do.
    fn message_word(&mut self, word: &str) -> Result<()> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("+norec", "") => self.query.flags &= !RD,
            ("+cd", "") => self.query.flags |= CD,
            ("+ad", "") => self.query.flags |= AD,
            ("class", "CH") => self.query.class = 3,
            ("opcode", code) => self.query.opcode = number(code)?,
            ("raw", shape) => self.query.shape = shape_of(shape)?,
            ("+noedns", "") => self.query.edns = None,
            ("+edns", version) => self.edns()?.version = number(version)?,
            ("+bufsize", size) => self.edns()?.size = number(size)?,
            ("+ednsflags", flags) => self.edns()?.flags |= number::<u16>(flags)?,
            ("+dnssec", "") => self.edns()?.flags |= 0x8000,
            // RFC 7873 §4: a client cookie of eight octets.
            ("+cookie", "") => self.edns()?.options.push((10, b"12345678".to_vec())),
            _ => bail!("\"{word}\" is no way to ask"),
        }
        Ok(())
    }

    fn edns(&mut self) -> Result<&mut Edns> {
        self.query
            .edns
            .as_mut()
            .context("an option of EDNS without EDNS")
    }

    /// The query of one repetition, from 0.
    pub(crate) fn query(&self, repetition: u32) -> Query {
        let index = usize::try_from(repetition).unwrap_or(0) % self.names.len();
        let name = self.names.get(index).cloned().unwrap_or_default();
        Query {
            name: name.replace('%', &repetition.to_string()),
            ..self.query.clone()
        }
    }
}

fn shape_of(word: &str) -> Result<Shape> {
    Ok(match word {
        "two-questions" => Shape::TwoQuestions,
        "no-question" => Shape::NoQuestion,
        "two-opts" => Shape::TwoOpts,
        "as-reply" => Shape::AsReply,
        "11-octets" => Shape::Cut(11),
        _ => bail!("\"{word}\" is no shape of a message"),
    })
}

fn pace_only(how: &str) -> Result<Pace> {
    if how == "-" {
        Ok(Pace::Once)
    } else {
        pace(how)
    }
}

fn pace(word: &str) -> Result<Pace> {
    match word.split_once('=') {
        Some(("until", time)) => Ok(Pace::Until(duration(time)?)),
        Some(("hold", time)) => Ok(Pace::Hold(duration(time)?)),
        _ => bail!("\"{word}\" is neither until= nor hold="),
    }
}
