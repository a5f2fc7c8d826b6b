//! What must come back: the sixth column, a list separated by semicolons.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::action::Action;
use crate::text::{Bound, Pattern, duration, expand, number};

/// One thing that must hold. Those about replies must hold for every reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// `NOERROR` and the like.
    Rcode(u16),
    /// `silence`: no reply at all.
    Silence,
    /// `hangup`: no reply, and the server closes the TCP connection.
    Hangup,
    /// `answer=0`, `answer<=199`: so many records.
    AnswerCount(Bound),
    /// `answer={…}`: these records in any order.
    AnswerSet(Vec<Pattern>),
    /// `answer=[…]`: these records in this order.
    AnswerList(Vec<Pattern>),
    /// `each=TYPE DATA`: every record of the answer is so.
    Each(Pattern),
    /// `ttl=30`: of every record of the answer.
    Ttl(Bound),
    /// `owners=question`: question and answer spell the name as the query did.
    OwnersAsAsked,
    /// `authority=0`.
    AuthorityCount(Bound),
    /// `soa=OWNER/TTL`: the authority section is this SOA alone, with this TTL and MINIMUM.
    Soa(String, Bound),
    /// `additional=0`: so many records beside OPT.
    AdditionalCount(Bound),
    /// `aa=1` and the like: a bit of the header, by its mask.
    Flag(&'static str, u16, bool),
    /// `opcode=4`.
    Opcode(u16),
    /// `opt=1`: an OPT record, the last of the message.
    Opt(bool),
    /// `opt-size=1232`.
    OptSize(u16),
    /// `opt-version=0`.
    OptVersion(u8),
    /// `opt-z=0`: the flags beside DO.
    OptZ(u16),
    /// `do=1`.
    DnssecOk(bool),
    /// `ede=20`: this extended error (RFC 8914).
    ExtendedError(u16),
    /// `cookie=absent-or-valid`: none, or one of 16 to 40 octets.
    CookieAbsentOrValid,
    /// `size<=512`: octets of the message.
    Size(Bound),
    /// `replies=20`: so many in all, each to a query of its own.
    Replies(Bound),
    /// `ahead=NAME/TIME`: the replies for this name come within this time, and before all others.
    Ahead(String, Duration),
    /// `first=varies`: the first record is not always the same.
    FirstVaries,
    /// `source=queried`: the reply comes from the address that was asked.
    SourceQueried,
    /// `within=2s`, `within=1700ms..2s`: the time of every reply.
    Within(Duration, Duration),
    /// `median=10ms`: half of the replies take at most this.
    Median(Duration),
    /// `upstream=1`: queries that both upstreams together saw for these names.
    Upstream(Bound),
    /// `upstream-do=1`: whether those queries had DO set.
    UpstreamDo(bool),
    /// `upstream-cd=1`: whether those queries had CD set.
    UpstreamCd(bool),
    /// `earlier={…}`, `earlier=[…]`: while the reply was not yet as expected,
    /// it was NOERROR with this answer.
    Earlier(Box<Expectation>),
    /// `serial=save|higher|same`: the SOA serial in the answer, against the one saved.
    Serial(Saved),
    /// `metric=save`, `metric=+1`, `metric=1`.
    Metric(MetricIs),
    /// `closed=9s..11s`: when the server closed the connection, after its last reply.
    Closed(Duration, Duration),
    /// `readyz=200`: all the while.
    Ready,
    /// `http=503`, `http=503|refused`.
    Http(Vec<HttpIs>),
    /// `json=/pointer:value` (RFC 6901).
    Json(String, String),
    /// `rejected`: `check` finds an error, and `run` does not start.
    Rejected,
    /// `says=TEXT`: `check` says so.
    Says(String),
    /// `exit=0`: the exit code.
    Exit(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saved {
    Save,
    /// By the arithmetic of RFC 1982.
    Higher,
    Same,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricIs {
    Save,
    /// More than saved by this.
    Rise(u32),
    Value(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HttpIs {
    Status(u16),
    /// Nothing listens.
    Refused,
}

const RCODES: [(&str, u16); 7] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("BADVERS", 16),
];

/// The mnemonic of a response code.
pub(crate) fn rcode_name(code: u16) -> String {
    RCODES
        .iter()
        .find(|(_, known)| *known == code)
        .map_or_else(|| format!("RCODE{code}"), |(name, _)| (*name).to_owned())
}

const FLAGS: [(&str, u16); 6] = [
    ("aa", 0x0400),
    ("tc", 0x0200),
    ("rd", 0x0100),
    ("ra", 0x0080),
    ("ad", 0x0020),
    ("cd", 0x0010),
];

/// Reads the list for an action; each expectation must be one that the action can meet.
pub(crate) fn parse(text: &str, action: &Action) -> Result<Vec<Expectation>> {
    if text == "-" {
        ensure!(may_expect_nothing(action), "nothing is expected");
        return Ok(Vec::new());
    }
    ensure!(
        !may_expect_nothing(action),
        "nothing can be expected of this"
    );
    let mut list = Vec::new();
    for item in text.split(';').map(str::trim) {
        let expectation =
            Expectation::parse(item).with_context(|| format!("the expectation \"{item}\""))?;
        ensure!(
            expectation.fits(action),
            "\"{item}\" cannot be seen by this action"
        );
        list.push(expectation);
    }
    let says_how_it_ends = |each: &Expectation| {
        matches!(
            each,
            Expectation::Rcode(_) | Expectation::Silence | Expectation::Hangup
        )
    };
    ensure!(
        !matches!(action, Action::Ask(_))
            || list.iter().filter(|each| says_how_it_ends(each)).count() == 1,
        "exactly one response code, silence or hangup"
    );
    Ok(list)
}

fn may_expect_nothing(action: &Action) -> bool {
    use crate::action::Via;
    match action {
        Action::Ask(ask) => ask.via == Via::UdpFire,
        Action::Swap { .. }
        | Action::Wait(_)
        | Action::SilenceUpstreams
        | Action::Connect(_)
        | Action::Terminate => true,
        Action::Get { .. } | Action::Metric { .. } | Action::Check | Action::Exit { .. } => false,
    }
}

impl Expectation {
    fn parse(item: &str) -> Result<Self> {
        if let Some((_, code)) = RCODES.iter().find(|(name, _)| *name == item) {
            return Ok(Self::Rcode(*code));
        }
        let at = item.find(['=', '<']);
        let (key, rest) = at
            .and_then(|at| item.split_at_checked(at))
            .unwrap_or((item, ""));
        // `<=` is part of a bound, `=` alone is not.
        let value = rest.strip_prefix('=').unwrap_or(rest);
        if let Some((name, mask)) = FLAGS.iter().find(|(name, _)| *name == key) {
            return Ok(Self::Flag(name, *mask, bit(value)?));
        }
        Ok(match (key, value) {
            ("silence", "") => Self::Silence,
            ("hangup", "") => Self::Hangup,
            ("answer", _) if value.starts_with(['{', '[']) => answer(value)?,
            ("answer", _) => Self::AnswerCount(Bound::parse(value)?),
            ("each", _) => Self::Each(Pattern::parse(value)?),
            ("ttl", _) => Self::Ttl(Bound::parse(value)?),
            ("owners", "question") => Self::OwnersAsAsked,
            ("authority", _) => Self::AuthorityCount(Bound::parse(value)?),
            ("soa", _) => {
                let (owner, ttl) = value.split_once('/').context("no TTL")?;
                Self::Soa(expand(owner), Bound::parse(ttl)?)
            }
            ("additional", _) => Self::AdditionalCount(Bound::parse(value)?),
            ("opcode", _) => Self::Opcode(number(value)?),
            ("opt", _) => Self::Opt(bit(value)?),
            ("opt-size", _) => Self::OptSize(number(value)?),
            ("opt-version", _) => Self::OptVersion(number(value)?),
            ("opt-z", _) => Self::OptZ(number(value)?),
            ("do", _) => Self::DnssecOk(bit(value)?),
            ("ede", _) => Self::ExtendedError(number(value)?),
            ("cookie", "absent-or-valid") => Self::CookieAbsentOrValid,
            ("size", _) => Self::Size(Bound::parse(value)?),
            ("replies", _) => Self::Replies(Bound::parse(value)?),
            ("ahead", _) => {
                let (name, most) = value.split_once('/').context("no time")?;
                Self::Ahead(expand(name), duration(most)?)
            }
            ("first", "varies") => Self::FirstVaries,
            ("source", "queried") => Self::SourceQueried,
            ("within", _) => {
                let (least, most) = range(value)?;
                Self::Within(least, most)
            }
            ("median", _) => Self::Median(duration(value)?),
            ("upstream", _) => Self::Upstream(Bound::parse(value)?),
            ("upstream-do", _) => Self::UpstreamDo(bit(value)?),
            ("upstream-cd", _) => Self::UpstreamCd(bit(value)?),
            ("earlier", _) => Self::Earlier(Box::new(answer(value)?)),
            ("serial", "save") => Self::Serial(Saved::Save),
            ("serial", "higher") => Self::Serial(Saved::Higher),
            ("serial", "same") => Self::Serial(Saved::Same),
            ("metric", "save") => Self::Metric(MetricIs::Save),
            ("metric", _) => Self::Metric(match value.strip_prefix('+') {
                Some(rise) => MetricIs::Rise(number(rise)?),
                None => MetricIs::Value(number(value)?),
            }),
            ("closed", _) => {
                let (least, most) = range(value)?;
                Self::Closed(least, most)
            }
            ("readyz", "200") => Self::Ready,
            ("http", _) => Self::Http(value.split('|').map(http_is).collect::<Result<_>>()?),
            ("json", _) => {
                let (pointer, wanted) = value.split_once(':').context("no value")?;
                Self::Json(pointer.to_owned(), wanted.to_owned())
            }
            ("rejected", "") => Self::Rejected,
            ("says", text) if !text.is_empty() => Self::Says(text.to_owned()),
            ("exit", _) => Self::Exit(number::<u8>(value)?.into()),
            _ => bail!("no such expectation"),
        })
    }

    /// Whether the action shows what the expectation is about.
    fn fits(&self, action: &Action) -> bool {
        use crate::action::{Pace, Via};
        match self {
            Self::Metric(_) => matches!(action, Action::Metric { .. }),
            Self::Http(_) | Self::Json(..) => matches!(action, Action::Get { .. }),
            Self::Rejected | Self::Says(_) => matches!(action, Action::Check),
            Self::Exit(_) => matches!(action, Action::Exit { .. }),
            Self::Hangup => matches!(action, Action::Ask(ask) if ask.via == Via::Tcp),
            Self::Ahead(..) => {
                matches!(action, Action::Ask(ask) if ask.via == Via::TcpOneWrite && ask.names.len() > 1)
            }
            Self::Closed(..) => matches!(action, Action::Ask(ask) if ask.via == Via::TcpIdle),
            Self::Earlier(_) => {
                matches!(action, Action::Ask(ask) if matches!(ask.pace, Pace::Until(_)))
            }
            Self::FirstVaries | Self::Median(_) => {
                matches!(action, Action::Ask(ask) if ask.times > 1)
            }
            Self::Upstream(_) | Self::UpstreamDo(_) | Self::UpstreamCd(_) => {
                matches!(action, Action::Ask(ask) if ask.pace == Pace::Once)
            }
            _ => matches!(action, Action::Ask(_)),
        }
    }
}

fn bit(text: &str) -> Result<bool> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => bail!("\"{text}\" is neither 0 nor 1"),
    }
}

fn range(text: &str) -> Result<(Duration, Duration)> {
    match text.split_once("..") {
        Some((least, most)) => Ok((duration(least)?, duration(most)?)),
        None => Ok((Duration::ZERO, duration(text)?)),
    }
}

fn http_is(word: &str) -> Result<HttpIs> {
    match word {
        "refused" => Ok(HttpIs::Refused),
        _ => Ok(HttpIs::Status(number(word)?)),
    }
}

/// `{A 192.0.2.1, A 192.0.2.2}` or `[CNAME web.Z, A 192.0.2.10]`.
fn answer(text: &str) -> Result<Expectation> {
    let patterns = |inner: &str| {
        inner
            .split(',')
            .map(Pattern::parse)
            .collect::<Result<Vec<_>>>()
    };
    if let Some(inner) = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        return Ok(Expectation::AnswerSet(patterns(inner)?));
    }
    let inner = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    Ok(Expectation::AnswerList(patterns(
        inner.context("neither {…} nor […]")?,
    )?))
}
