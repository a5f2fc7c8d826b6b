//! Answers that come from upstreams, or came from there a moment ago.

use anyhow::Result;
use tsunaro_integration::Step;

use crate::Options;
use crate::content::{EXTRA, FEW, Kind, ZONE, new_questions, queries};
use crate::load::{self, Shape};
use crate::local::{column, once};
use crate::results::{Ratio, Results};
use crate::servers::Place;

/// Queries a second at which the time of a miss is measured.
const MISS_RATE: u32 = 1000;
/// Misses in flight when their CPU is measured.
const MISS_WINDOW: usize = 32;

/// 1000 names that are in the cache.
pub(crate) fn hits(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("answers from the cache");
    let upstream = place.upstream()?;
    let servers = [
        place.agent(ZONE, Some(upstream.address))?,
        place.coredns_forward(upstream.address)?,
        place.unbound(Some(upstream.address))?,
        place.echo()?,
    ];
    let queries = queries(Kind::Forwarded, EXTRA, FEW);
    let section = "cache hits";
    for _ in 0..options.rounds() {
        for server in &servers {
            // Fills the cache, and refills what has run out.
            load::run(
                server.address,
                &queries,
                Shape::Rate(5000),
                options.length() / 2,
            )?;
            let (report, [user, system]) = once(server, &queries, Shape::SATURATED, options)?;
            if server.name != "UDP echo" {
                report.expect(server.name, true, false)?;
            }
            results.add(section, server.name, "kqps", report.rate() / 1000.0);
            results.add(section, server.name, "cpu", user + system);
            results.add(section, server.name, "user", user);
            let (_, [user, system]) = once(server, &queries, Shape::Rate(10_000), options)?;
            results.add(section, server.name, "cpu10k", user + system);
        }
    }
    step.done();
    results.print(
        section,
        "Answers from the cache: 1000 names of an upstream. CPU seconds a million answers.",
        &servers.each_ref().map(|server| server.name),
        &[
            column("kqps", "kqps", 0),
            column("cpu", "CPU", 2),
            column("user", "of it user", 2),
            column("cpu10k", "CPU at 10k", 1),
        ],
        &Ratio::each("cpu", &["CoreDNS forward", "unbound"]),
    );
    Ok(())
}

/// Names that nobody asked for before.
pub(crate) fn misses(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("questions for upstreams");
    let upstream = place.upstream()?;
    let servers = [
        place.agent(ZONE, Some(upstream.address))?,
        place.coredns_forward(upstream.address)?,
        place.unbound(Some(upstream.address))?,
    ];
    let section = "cache misses";
    let mut turn = 0;
    for _ in 0..options.rounds() {
        turn += 1;
        let direct = new_questions(turn);
        let report = load::run(
            upstream.address,
            &direct,
            Shape::Rate(MISS_RATE),
            options.length(),
        )?;
        results.add(section, upstream.name, "p50", report.percentile(0.5));
        for server in &servers {
            turn += 1;
            let queries = new_questions(turn);
            let shape = Shape::Window(MISS_WINDOW);
            let (report, [user, system]) = once(server, &queries, shape, options)?;
            report.expect(server.name, true, false)?;
            results.add(section, server.name, "kqps", report.rate() / 1000.0);
            results.add(section, server.name, "cpu", user + system);
            results.add(section, server.name, "user", user);
            results.add(section, server.name, "lost", report.lost as f64);
            turn += 1;
            let queries = new_questions(turn);
            let shape = Shape::Rate(MISS_RATE);
            let (report, [user, system]) = once(server, &queries, shape, options)?;
            results.add(section, server.name, "cpu1k", user + system);
            results.add(section, server.name, "p50", report.percentile(0.5));
            results.add(section, server.name, "p99", report.percentile(0.99));
        }
    }
    // The upstream's own time differs more from round to round than the servers' do.
    let at_upstream = results.median(section, upstream.name, "p50");
    for server in &servers {
        let rounds = results.rounds(section, server.name, "p50");
        for p50 in rounds.unwrap_or_default().to_vec() {
            results.add(section, server.name, "added", p50 - at_upstream);
        }
    }
    step.done();
    results.print(
        section,
        "Questions for upstreams, none asked before: CPU seconds a million answers with 32 in \
         flight; the median time on top of the upstream's own at 1000 a second.",
        &servers.each_ref().map(|server| server.name),
        &[
            column("kqps", "kqps", 1),
            column("cpu", "CPU", 1),
            column("user", "of it user", 1),
            column("cpu1k", "CPU at 1k", 0),
            column("added", "added p50 µs", 0),
            column("p99", "p99 µs", 0),
            column("lost", "lost", 0),
        ],
        &[
            Ratio::each("cpu", &["CoreDNS forward", "unbound"]),
            Ratio::each("cpu1k", &["CoreDNS forward"]),
            Ratio::each("added", &["CoreDNS forward"]),
        ]
        .concat(),
    );
    Ok(())
}
