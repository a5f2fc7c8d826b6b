//! What a server costs before anybody asks.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use tsunaro_integration::Step;

use crate::Options;
use crate::content::ZONE;
use crate::cpu;
use crate::local::column;
use crate::results::{Ratio, Results};
use crate::server::Server;
use crate::servers::Place;

type Start = fn(&Place) -> Result<Server>;

/// Start to first answer with 10,000 names, memory at rest, size of the program.
pub(crate) fn run(options: &Options, results: &mut Results) -> Result<()> {
    let place = Place::new(&options.agent)?;
    let step = Step::announced("start, memory at rest, size");
    let agent: Start = |place| place.agent(ZONE, None);
    let unbound: Start = |place| place.unbound(None);
    let servers: [(Start, &std::path::Path); 6] = [
        (agent, &options.agent),
        (Place::coredns_hosts, &place.coredns),
        (Place::nsd, "/usr/sbin/nsd".as_ref()),
        (Place::knot, "/usr/sbin/knotd".as_ref()),
        (unbound, "/usr/sbin/unbound".as_ref()),
        (Place::dnsmasq, "/usr/sbin/dnsmasq".as_ref()),
    ];
    let section = "start";
    let mut names = Vec::new();
    // A start takes milliseconds, so that more of them cost little.
    for round in 0..options.rounds() * 3 {
        for (start, program) in servers {
            let began = Instant::now();
            let server = start(&place)?;
            let took = began.elapsed();
            if round == 0 {
                names.push(server.name);
                results.add(section, server.name, "size", stripped(&place, program)?);
            }
            results.add(section, server.name, "first", took.as_secs_f64() * 1000.0);
            results.add(
                section,
                server.name,
                "rss",
                cpu::memory(server.pid(), false)?,
            );
        }
    }
    step.done();
    results.print(
        section,
        "Start with 10,000 names.",
        &names,
        &[
            column("first", "first answer ms", 0),
            column("rss", "RSS at rest MiB", 1),
            column("size", "stripped MB", 1),
        ],
        &["first", "rss", "size"].map(|measure| Ratio {
            measure,
            to: "CoreDNS hosts",
        }),
    );
    Ok(())
}

/// Megabytes of the program without symbols.
fn stripped(place: &Place, program: &std::path::Path) -> Result<f64> {
    let copy = place.path().join("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .arg(&copy)
        .arg(program)
        .status()?;
    ensure!(status.success(), "strip {}", program.display());
    Ok(std::fs::metadata(copy)?.len() as f64 / 1e6)
}
