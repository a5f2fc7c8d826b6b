//! The same cases over real CoreDNS and real NSD, as a table for people who
//! come from there: `docs/dns-differences.md`.
//!
//! `TSUNARO_UPDATE=1` writes the file; else a test holds it against what the
//! servers do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Failed, Trial};

use crate::action::{Action, Pace, Server, Via};
use crate::asking::{self, Awaits};
use crate::data::{Case, Step};
use crate::describe::brief;
use crate::expect::Expectation;
use crate::gateway::{Engine, Gateway};
use crate::judge::judge;
use crate::observation::{Memory, Observation};
use crate::reference::nsd_can;
use crate::setup::{Bind, Front, HostsKind};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/dns-differences.md");

pub(crate) fn trials(cases: &[Case]) -> Vec<Trial> {
    let cases: Vec<Case> = cases
        .iter()
        .filter(|case| can_be_compared(case))
        .cloned()
        .collect();
    vec![Trial::test(
        "docs/dns-differences.md says what CoreDNS and NSD do",
        move || Ok::<(), Failed>(compare(&cases)?),
    )]
}

/// Cases of questions alone, with a result that does not hang on chance or time.
fn can_be_compared(case: &Case) -> bool {
    let setup = &case.setup;
    let asks = case.steps.iter().all(|step| match &step.action {
        Action::Ask(ask) => {
            ask.pace == Pace::Once
                && ask.server == Server::Agent
                && !matches!(ask.via, Via::UdpFire | Via::UdpLoad { .. } | Via::TcpIdle)
                && !step.expect.contains(&Expectation::Ready)
        }
        _ => false,
    });
    asks && setup.u1 == setup.u2
        && setup.bind == Bind::One
        && setup.front == Front::None
        && setup.hosts != HostsKind::Missing
}

/// What a server does with a case.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    AsContract,
    Differs(String),
    /// The server has no such feature.
    NotAsked,
}

fn compare(cases: &[Case]) -> Result<()> {
    ensure!(
        cases.len() > 50,
        "only {} cases can be compared",
        cases.len()
    );
    let (coredns, nsd) = std::thread::scope(|scope| {
        let nsd = scope.spawn(|| verdicts(cases, Engine::Nsd));
        let coredns = verdicts(cases, Engine::CoreDns);
        (coredns, nsd.join())
    });
    let nsd = nsd.map_err(|_| anyhow::anyhow!("the thread of NSD panicked"))??;
    let text = table(cases, &coredns?, &nsd);
    if std::env::var_os("TSUNARO_UPDATE").is_some() {
        return std::fs::write(FILE, text).context("write docs/dns-differences.md");
    }
    let written =
        std::fs::read_to_string(Path::new(FILE)).context("read docs/dns-differences.md")?;
    let differs = written
        .lines()
        .zip(text.lines())
        .find(|(old, new)| old != new);
    if let Some((old, new)) = differs {
        anyhow::bail!(
            "the file says\n  {old}\nbut now it is\n  {new}\nTSUNARO_UPDATE=1 writes it anew"
        );
    }
    ensure!(
        written == text,
        "docs/dns-differences.md is shorter or longer than now; TSUNARO_UPDATE=1 writes it anew"
    );
    Ok(())
}

fn verdicts(cases: &[Case], engine: Engine) -> Result<Vec<Verdict>> {
    let mut groups: BTreeMap<&str, Vec<(usize, &Case)>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        groups
            .entry(&case.setup_text)
            .or_default()
            .push((index, case));
    }
    let mut verdicts = vec![Verdict::NotAsked; cases.len()];
    for group in groups.values() {
        let asked = group.iter().filter(|(_, case)| {
            engine == Engine::CoreDns || (nsd_can(&case.setup) && !needs_extra_zone(case))
        });
        let mut gateway = None;
        for (index, case) in asked {
            let gateway = match &mut gateway {
                Some(gateway) => gateway,
                none => none.insert(Gateway::start(&case.setup, engine)?),
            };
            if let Some(slot) = verdicts.get_mut(*index) {
                *slot =
                    verdict(case, gateway).with_context(|| format!("{} on {engine:?}", case.id))?;
            }
        }
    }
    Ok(verdicts)
}

fn needs_extra_zone(case: &Case) -> bool {
    // "aliasextra" and "aliasfwd" lead there.
    case.steps.iter().any(|step| {
        let words = [step.text.as_str(), step.expect_text.as_str()];
        words
            .iter()
            .any(|text| text.contains(".E") || text.starts_with("E "))
    })
}

fn verdict(case: &Case, gateway: &mut Gateway) -> Result<Verdict> {
    let mut memory = Memory::default();
    let mut differences = Vec::new();
    for step in &case.steps {
        let Action::Ask(ask) = &step.action else {
            continue;
        };
        let awaits = if step.expect.contains(&Expectation::Silence) {
            Awaits::Silence
        } else {
            Awaits::Reply
        };
        let seen = asking::ask(gateway, ask, awaits)?;
        // Times differ from run to run; a server that is much too slow has not replied at all.
        let timed =
            |each: &&Expectation| matches!(each, Expectation::Within(..) | Expectation::Median(_));
        let expect: Vec<Expectation> = step
            .expect
            .iter()
            .filter(|each| !timed(each))
            .cloned()
            .collect();
        if judge(&expect, &seen, &mut memory).is_empty() {
            continue;
        }
        let mut text = match seen
            .got
            .iter()
            .find(|got| differs_in_reply(step, &got.reply))
            .or(seen.got.first())
        {
            Some(got) => brief(&got.reply),
            None => format!("no reply within {} s", asking::REPLY.as_secs()),
        };
        for each in &expect {
            if !judge(std::slice::from_ref(each), &seen, &mut memory).is_empty() {
                text.push_str(&note(each, &seen));
            }
        }
        differences.push(text);
    }
    if differences.is_empty() {
        return Ok(Verdict::AsContract);
    }
    Ok(Verdict::Differs(differences.join(", then ")))
}

/// What the reply alone does not show of a difference.
fn note(expectation: &Expectation, seen: &Observation) -> String {
    match expectation {
        Expectation::FirstVaries => "; always in one order".to_owned(),
        Expectation::Upstream(_) => format!("; {} queries upstream", seen.upstream.len()),
        Expectation::OwnersAsAsked => {
            let owner = seen
                .got
                .first()
                .and_then(|got| got.reply.answer.first())
                .map(|record| record.owner.as_str());
            format!("; owner {}", owner.unwrap_or("none"))
        }
        _ => String::new(),
    }
}

fn differs_in_reply(step: &Step, reply: &tsunaro_integration::wire::Reply) -> bool {
    step.expect
        .iter()
        .any(|each| matches!(each, Expectation::Rcode(code) if *code != reply.rcode))
}

fn table(cases: &[Case], coredns: &[Verdict], nsd: &[Verdict]) -> String {
    let count = |verdicts: &[Verdict]| {
        let asked = verdicts
            .iter()
            .filter(|each| **each != Verdict::NotAsked)
            .count();
        let same = verdicts
            .iter()
            .filter(|each| **each == Verdict::AsContract)
            .count();
        format!("{same} of {asked}")
    };
    let mut text = format!(
        "# How the answers differ from those of CoreDNS and NSD\n\n\
         This table is generated by the tests (`TSUNARO_UPDATE=1 cargo test -p tsunaro-integration --test dns \
         differences`): the cases of `integration/data/dns-cases.tsv` that are a question and a reply, asked of \
         CoreDNS and NSD with the config of each that comes nearest: CoreDNS with `hosts` over `file` for the zone, \
         `template` for the wildcard, and `hosts` over `forward` and `cache` for the extra zone; NSD with all names \
         in one zone file. NSD forwards nothing, so it is not asked about the extra zone (—). Of the cases asked, \
         CoreDNS answers {} as the gateway does, NSD {}. Below are the others.\n\n\
         Z is the zone, E the extra zone; W1 has a `wildcardAddress`, W0 has none. The fixture behind the names is \
         `integration/tests/dns/fixture.rs`.\n\n\
         | Case | Question | The gateway | CoreDNS | NSD |\n| --- | --- | --- | --- | --- |\n",
        count(coredns),
        count(nsd),
    );
    for ((case, coredns), nsd) in cases.iter().zip(coredns).zip(nsd) {
        if [coredns, nsd]
            .iter()
            .all(|each| !matches!(each, Verdict::Differs(_)))
        {
            continue;
        }
        let join = |of: fn(&Step) -> &String| {
            let texts: Vec<&str> = case.steps.iter().map(|step| of(step).as_str()).collect();
            texts.join(", then ")
        };
        let cell = |verdict: &Verdict| match verdict {
            Verdict::AsContract => "the same".to_owned(),
            Verdict::Differs(text) => text.replace('|', "\\|"),
            Verdict::NotAsked => "—".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | `{}` ({}) | {} | {} | {} |",
            case.id,
            join(|step| &step.text).replace('|', "\\|"),
            case.setup_text,
            join(|step| &step.expect_text).replace('|', "\\|"),
            cell(coredns),
            cell(nsd),
        );
    }
    text
}
