//! Compares what a step has shown with what was expected.

mod reply;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::describe::describe;
use crate::expect::{Expectation, HttpIs, MetricIs, Saved};
use crate::http::HttpSeen;
use crate::observation::{Got, Memory, Observation};

use reply::about_reply;

const TYPE_SOA: u16 = 6;

/// What does not hold, each as "expected …, got …".
pub(crate) fn judge(
    expect: &[Expectation],
    seen: &Observation,
    memory: &mut Memory,
) -> Vec<String> {
    let mut faults = Vec::new();
    let no_reply = [Expectation::Silence, Expectation::Hangup];
    if seen.missing > 0 && !no_reply.iter().any(|each| expect.contains(each)) {
        faults.push(format!(
            "expected a reply, got none to {} of {} queries",
            seen.missing,
            seen.missing + seen.got.len()
        ));
    }
    for each in expect {
        if let Err(fault) = holds(each, seen, memory) {
            faults.push(fault);
        }
    }
    faults
}

fn holds(expectation: &Expectation, seen: &Observation, memory: &mut Memory) -> Result<(), String> {
    match expectation {
        Expectation::Silence => require(seen.got.is_empty() && seen.missing > 0, "silence", || {
            summary(&seen.got)
        }),
        Expectation::Hangup => {
            let hung_up = seen.got.is_empty() && seen.closed_after.is_some();
            require(hung_up, "the connection to be closed", || {
                summary(&seen.got)
            })
        }
        Expectation::Replies(bound) => require(
            bound.holds(seen.got.len()),
            format!("{bound} replies"),
            || format!("{}", seen.got.len()),
        ),
        Expectation::Ahead(name, most) => {
            let is_ahead = |got: &Got| got.query.name == *name;
            let ahead = seen.got.iter().take_while(|got| is_ahead(got)).count();
            let in_all = seen.got.iter().filter(|got| is_ahead(got)).count();
            let last = ahead.checked_sub(1).and_then(|last| seen.got.get(last));
            require(
                ahead == in_all && last.is_some_and(|last| last.after <= *most),
                format!("replies for {name} within {most:?}, before all others"),
                || {
                    let order = seen.got.iter().map(|got| (&got.query.name, got.after));
                    format!("{:?}", order.collect::<Vec<_>>())
                },
            )
        }
        Expectation::FirstVaries => {
            let firsts: BTreeSet<String> = seen
                .got
                .iter()
                .filter_map(|got| Some(got.reply.answer.first()?.typed()))
                .collect();
            require(firsts.len() > 1, "a first record that varies", || {
                format!("always {firsts:?}")
            })
        }
        Expectation::Median(most) => {
            let mut times: Vec<Duration> = seen.got.iter().map(|got| got.after).collect();
            times.sort();
            let median = times.get(times.len() / 2).copied().unwrap_or(Duration::MAX);
            require(
                median <= *most,
                format!("a median of {most:?} at most"),
                || format!("{median:?}, sorted {times:?}"),
            )
        }
        Expectation::Upstream(bound) => {
            let count = seen.upstream.len();
            require(
                bound.holds(count),
                format!("{bound} queries at the upstreams"),
                || count.to_string(),
            )
        }
        Expectation::UpstreamDo(wanted) => {
            let sent = seen.upstream.iter().map(|seen| {
                seen.query
                    .edns
                    .as_ref()
                    .is_some_and(|edns| edns.flags().dnssec_ok)
            });
            all_are(sent, *wanted, "DO in the query to the upstream")
        }
        Expectation::UpstreamCd(wanted) => {
            let sent = seen
                .upstream
                .iter()
                .map(|seen| seen.query.metadata.checking_disabled);
            all_are(sent, *wanted, "CD in the query to the upstream")
        }
        Expectation::Earlier(expected) => {
            let wrong = seen
                .earlier
                .iter()
                .find(|reply| reply.rcode != 0 || about_reply(expected, reply).is_err());
            let got = || wrong.map_or_else(String::new, describe);
            require(wrong.is_none(), "the old answer until the new one", got)
        }
        Expectation::Serial(saved) => serial(*saved, seen, memory),
        Expectation::Metric(wanted) => metric(*wanted, seen, memory),
        Expectation::Closed(least, most) => {
            let within = seen
                .closed_after
                .is_some_and(|after| (*least..=*most).contains(&after));
            require(
                within,
                format!("a close after {least:?} to {most:?}"),
                || format!("{:?}", seen.closed_after),
            )
        }
        Expectation::Ready => {
            let ready = |seen: &HttpSeen| matches!(seen, HttpSeen::Reply { status: 200, .. });
            let wrong = seen.readyz.iter().find(|seen| !ready(seen));
            require(
                !seen.readyz.is_empty() && wrong.is_none(),
                "/readyz 200 all the time",
                || format!("{wrong:?}"),
            )
        }
        Expectation::Http(choices) => {
            let is = |choice: &HttpIs| match (&seen.http, choice) {
                (Some(HttpSeen::Reply { status, .. }), HttpIs::Status(wanted)) => status == wanted,
                (Some(HttpSeen::Refused), HttpIs::Refused) => true,
                _ => false,
            };
            require(choices.iter().any(is), format!("{choices:?}"), || {
                format!("{:?}", seen.http)
            })
        }
        Expectation::Json(pointer, wanted) => json(pointer, wanted, seen),
        Expectation::Rejected => {
            let rejected = seen.check.as_ref().is_some_and(|check| {
                check.check_code == Some(1) && check.run_code.is_some_and(|code| code != 0)
            });
            require(
                rejected,
                "check to exit with 1 and run not to start",
                || format!("{:?}", seen.check),
            )
        }
        Expectation::Says(text) => {
            let says = seen
                .check
                .as_ref()
                .is_some_and(|check| check.text.contains(text));
            require(says, format!("check to say {text}"), || {
                format!("{:?}", seen.check)
            })
        }
        Expectation::Exit(code) => require(
            seen.exit == Some(*code),
            format!("exit code {code}"),
            || format!("{:?}", seen.exit),
        ),
        Expectation::Within(least, most) => every(seen, |got| {
            let within = (*least..=*most).contains(&got.after);
            require(
                within,
                format!("a reply after {least:?} to {most:?}"),
                || format!("{:?}", got.after),
            )
        }),
        Expectation::SourceQueried => every(seen, |got| {
            require(
                got.from == got.server,
                format!("a reply from {}", got.server),
                || got.from.to_string(),
            )
        }),
        Expectation::OwnersAsAsked => every(seen, |got| {
            let names = got.reply.questions.iter().map(|(name, _)| name);
            let spelt = names.chain(got.reply.answer.iter().map(|record| &record.owner));
            let wrong = spelt.clone().find(|name| **name != got.query.name);
            let complete = spelt.count() > 1;
            require(
                complete && wrong.is_none(),
                format!("owners {}", got.query.name),
                || format!("{wrong:?}: {}", describe(&got.reply)),
            )
        }),
        _ => every(seen, |got| about_reply(expectation, &got.reply)),
    }
}

fn every(seen: &Observation, check: impl Fn(&Got) -> Result<(), String>) -> Result<(), String> {
    if seen.got.is_empty() {
        return Err("no reply to look at".to_owned());
    }
    for (index, got) in seen.got.iter().enumerate() {
        check(got).map_err(|fault| {
            let which = if seen.got.len() == 1 {
                String::new()
            } else {
                format!(" (reply {} of {})", index + 1, seen.got.len())
            };
            format!("{fault}{which}")
        })?;
    }
    Ok(())
}

fn require(
    holds: bool,
    expected: impl Into<String>,
    got: impl FnOnce() -> String,
) -> Result<(), String> {
    if holds {
        return Ok(());
    }
    Err(format!("expected {}, got {}", expected.into(), got()))
}

fn all_are(
    mut bits: impl Iterator<Item = bool> + Clone,
    wanted: bool,
    what: &str,
) -> Result<(), String> {
    let any = bits.clone().next().is_some();
    require(
        any && bits.all(|bit| bit == wanted),
        format!("{what} to be {wanted}"),
        || {
            if any {
                (!wanted).to_string()
            } else {
                "no query there".to_owned()
            }
        },
    )
}

fn serial(saved: Saved, seen: &Observation, memory: &mut Memory) -> Result<(), String> {
    let record = seen
        .got
        .iter()
        .flat_map(|got| &got.reply.answer)
        .find(|record| record.rtype == TYPE_SOA);
    let serial: Option<u32> = record.and_then(|record| record.data.split(' ').nth(2)?.parse().ok());
    let Some(now) = serial else {
        return Err("expected an SOA with a serial, got none".to_owned());
    };
    let before = memory.serial;
    let text = || format!("{now} after {before:?}");
    match saved {
        Saved::Save => {}
        Saved::Same => require(before == Some(now), "the same serial", text)?,
        Saved::Higher => {
            // RFC 1982 §3.2: higher by less than half of the space.
            let higher =
                before.is_some_and(|before| (1..1 << 31).contains(&now.wrapping_sub(before)));
            require(higher, "a higher serial", text)?;
        }
    }
    memory.serial = Some(now);
    Ok(())
}

fn metric(wanted: MetricIs, seen: &Observation, memory: &mut Memory) -> Result<(), String> {
    let Some(now) = seen.metric else {
        return Err("expected a metric, got none".to_owned());
    };
    let is = |value: f64| (now - value).abs() < 0.5;
    match wanted {
        MetricIs::Save => {
            memory.metric = Some(now);
            Ok(())
        }
        MetricIs::Value(value) => require(is(value.into()), value.to_string(), || now.to_string()),
        MetricIs::Rise(rise) => {
            let right = memory
                .metric
                .is_some_and(|before| is(before + f64::from(rise)));
            require(right, format!("a rise by {rise}"), || {
                format!("{now} after {:?}", memory.metric)
            })
        }
    }
}

fn json(pointer: &str, wanted: &str, seen: &Observation) -> Result<(), String> {
    let Some(HttpSeen::Reply { body, .. }) = &seen.http else {
        return Err(format!("expected JSON, got {:?}", seen.http));
    };
    let value: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let at = value.as_ref().and_then(|value| value.pointer(pointer));
    let text = at.map(ToString::to_string);
    require(
        text.as_deref() == Some(wanted),
        format!("{pointer} to be {wanted}"),
        || format!("{text:?}"),
    )
}

fn summary(got: &[Got]) -> String {
    let texts: Vec<String> = got.iter().map(|got| describe(&got.reply)).collect();
    texts.join(" / ")
}
