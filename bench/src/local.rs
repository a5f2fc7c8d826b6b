//! Answers from the zone itself.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tsunaro_integration::Step;

use crate::Options;
use crate::content::{FEW, Kind, NAMES, WILD, ZONE, queries};
use crate::load::{self, Report, Shape};
use crate::results::{Column, Ratio, Results};
use crate::server::Server;
use crate::servers::Place;

/// The steady rate beside saturation, in queries a second.
const STEADY: u32 = 10_000;

/// All servers over the same 10,000 names.
pub(crate) fn mixed(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("local answers");
    let servers = [
        place.agent(ZONE, None)?,
        place.coredns_hosts()?,
        place.coredns_file()?,
        place.nsd()?,
        place.knot()?,
        place.unbound(None)?,
        place.dnsmasq()?,
        place.echo()?,
    ];
    let queries = queries(Kind::Mix, ZONE, NAMES);
    let section = "local";
    for _ in 0..options.rounds() {
        for server in &servers {
            let (report, [user, system]) = once(server, &queries, Shape::SATURATED, options)?;
            if server.name != "UDP echo" {
                report.expect(server.name, true, true)?;
            }
            results.add(section, server.name, "kqps", report.rate() / 1000.0);
            results.add(section, server.name, "cpu", user + system);
            results.add(section, server.name, "user", user);
            let (report, [user, system]) = once(server, &queries, Shape::Rate(STEADY), options)?;
            results.add(section, server.name, "cpu10k", user + system);
            results.add(section, server.name, "p50", report.percentile(0.5));
            results.add(section, server.name, "p99", report.percentile(0.99));
            results.add(section, server.name, "lost10k", report.lost as f64);
        }
    }
    step.done();
    results.print(
        section,
        "Local answers: 10,000 A names, a tenth of the queries for missing ones. CPU in seconds a \
         million answers: of a saturated server, and at 10,000 queries a second.",
        &servers.each_ref().map(|server| server.name),
        &[
            column("kqps", "kqps", 0),
            column("cpu", "CPU", 2),
            column("user", "of it user", 2),
            column("cpu10k", "CPU at 10k", 1),
            column("p50", "p50 µs", 0),
            column("p99", "p99 µs", 0),
        ],
        &Ratio::each("cpu", &["CoreDNS hosts", "NSD", "UDP echo"]),
    );
    let ratio = |measure, to| {
        results.median(section, "tsunaro", measure) / results.median(section, to, measure)
    };
    let text = format!(
        "At 10,000 queries a second: {:.2} × CoreDNS, {:.2} × NSD, {:.2} × echo. User CPU an \
         answer: {:.2} × NSD.",
        ratio("cpu10k", "CoreDNS hosts"),
        ratio("cpu10k", "NSD"),
        ratio("cpu10k", "UDP echo"),
        ratio("user", "NSD"),
    );
    results.say(section, &text);
    Ok(())
}

/// Each kind of answer by itself.
pub(crate) fn kinds(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("kinds of local answers");
    let servers = [
        place.agent(WILD, None)?,
        place.coredns_file()?,
        place.nsd()?,
        place.echo()?,
    ];
    let kinds = [
        (Kind::Hit, "hit", "user hit"),
        (Kind::Missing, "NXDOMAIN", "user NXDOMAIN"),
        (Kind::NoData, "NODATA", "user NODATA"),
        (Kind::Wildcard, "wildcard", "user wildcard"),
        (Kind::Alias, "CNAME", "user CNAME"),
    ];
    let section = "kinds";
    // Five kinds, and no goal among them: three rounds are enough to look at.
    for _ in 0..options.rounds().min(3) {
        for (kind, total_of, user_of) in kinds {
            let queries = queries(kind, WILD, FEW);
            for server in &servers {
                let (report, [user, system]) = once(server, &queries, Shape::SATURATED, options)?;
                if server.name != "UDP echo" {
                    let missing = kind == Kind::Missing;
                    report.expect(server.name, !missing, missing)?;
                }
                results.add(section, server.name, total_of, user + system);
                results.add(section, server.name, user_of, user);
            }
        }
    }
    step.done();
    results.print(
        section,
        "Kinds of local answers, saturated: CPU seconds a million answers, then the user part.",
        &servers.each_ref().map(|server| server.name),
        &[
            column("hit", "hit", 2),
            column("NXDOMAIN", "NXDOMAIN", 2),
            column("NODATA", "NODATA", 2),
            column("wildcard", "wildcard", 2),
            column("CNAME", "CNAME", 2),
            column("user hit", "user: hit", 2),
            column("user NXDOMAIN", "user: NXDOMAIN", 2),
            column("user NODATA", "user: NODATA", 2),
            column("user wildcard", "user: wildcard", 2),
            column("user CNAME", "user: CNAME", 2),
        ],
        &[],
    );
    Ok(())
}

/// One measurement: the report, and CPU seconds a million answers, user and system.
pub(crate) fn once(
    server: &Server,
    queries: &[Vec<u8>],
    shape: Shape,
    options: &Options,
) -> Result<(Report, [f64; 2])> {
    let before = server.cpu()?;
    let report = load::run(server.address, queries, shape, options.length())?;
    let used = server.cpu()? - before;
    let millions = report.answered as f64 / 1e6;
    let system = used.total() - used.user();
    Ok((report, [used.user() / millions, system / millions]))
}

pub(crate) fn column(measure: &'static str, title: &'static str, decimals: usize) -> Column {
    Column {
        measure,
        title,
        decimals,
    }
}

/// A load by itself, on a server that somebody else has started.
pub(crate) fn load(
    address: SocketAddr,
    length: Duration,
    rate: Option<u32>,
    kind: Kind,
) -> Result<()> {
    crate::server::take_core(crate::server::LOAD_CORE)?;
    let (zone, names) = match kind {
        Kind::Mix => (ZONE, NAMES),
        Kind::Forwarded => (crate::content::EXTRA, FEW),
        _ => (WILD, FEW),
    };
    let shape = rate.map_or(Shape::SATURATED, Shape::Rate);
    let report = load::run(address, &queries(kind, zone, names), shape, length)?;
    println!(
        "{:.0} answers/s, {} lost, p50 {:.0} µs, p99 {:.0} µs, RCODEs {:?}",
        report.rate(),
        report.lost,
        report.percentile(0.5),
        report.percentile(0.99),
        report.rcodes
    );
    Ok(())
}
