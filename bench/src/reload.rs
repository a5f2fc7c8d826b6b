//! New content while queries come.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use tsunaro_integration::Step;

use crate::Options;
use crate::content::{Kind, ZONE, address, queries};
use crate::cpu;
use crate::load::{Client, Shape};
use crate::local::column;
use crate::results::{Ratio, Results};
use crate::server::Server;
use crate::servers::Place;

/// Queries a second meanwhile.
const RATE: u32 = 10_000;
/// How long the new content may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the load goes on after the new content is there.
const AFTER: Duration = Duration::from_secs(1);

/// What makes the new addresses differ, and from the zone's own.
const SALT: u8 = 7;

/// How a server is told.
#[derive(Clone, Copy)]
enum Told {
    /// It watches the file.
    ByItself,
    /// By a signal.
    Hangup,
}

type Start = fn(&Place) -> Result<Server>;

/// 1000, 100,000 and a million names.
pub(crate) fn run(options: &Options, results: &mut Results) -> Result<()> {
    let sizes: &[(usize, &str)] = if options.quick {
        &[
            (1000, "reload of 1000 names"),
            (100_000, "reload of 100,000 names"),
        ]
    } else {
        &[
            (1000, "reload of 1000 names"),
            (100_000, "reload of 100,000 names"),
            (1_000_000, "reload of 1,000,000 names"),
        ]
    };
    let servers: [(Start, Told); 3] = [
        (|place| place.agent(ZONE, None), Told::ByItself),
        (Place::coredns_hosts, Told::ByItself),
        (Place::nsd, Told::Hangup),
    ];
    for (names, section) in sizes {
        let step = Step::announced(*section);
        let mut shown = Vec::new();
        let rounds = match *names {
            _ if options.quick => 1,
            ..=100_000 => 3,
            _ => 2,
        };
        for round in 0..rounds {
            for (start, told) in &servers {
                let place = Place::new(&options.agent)?;
                place.write_mix(*names, 0, 1)?;
                let server = start(&place)?;
                if round == 0 {
                    shown.push(server.name);
                }
                once(&place, &server, *told, *names, section, results)?;
            }
        }
        step.done();
        results.print(
            section,
            "New content under 10,000 queries a second; CPU seconds of the whole round.",
            &shown,
            &[
                column("after", "new data after ms", 0),
                column("lost", "lost", 0),
                column("p99", "p99 ms", 1),
                column("max", "max ms", 1),
                column("peak", "peak RSS MiB", 0),
                column("cpu", "CPU s", 2),
            ],
            &[
                Ratio::each("after", &["NSD"]),
                Ratio::each("peak", &["CoreDNS hosts"]),
            ]
            .concat(),
        );
    }
    Ok(())
}

fn once(
    place: &Place,
    server: &Server,
    told: Told,
    names: usize,
    section: &str,
    results: &mut Results,
) -> Result<()> {
    let queries = queries(Kind::Hit, ZONE, names);
    // Only the swap itself belongs to the measurement: the files are written before.
    let new = place.prepare_mix(names, SALT, 2)?;
    cpu::reset_peak(server.pid())?;
    let before = server.cpu()?;
    let seen = Cell::new(None::<Instant>);
    let marker = crate::content::query(&format!("host{:07}.{ZONE}", 0), 1);
    // Its length and itself, as they stand in a record; some servers repeat the name before it.
    let [a, b, c, d] = address(0, SALT).octets();
    let fresh = [0, 4, a, b, c, d];
    let mut on_answer = |message: &[u8]| {
        let ours = message.get(13..24) == Some(b"host0000000");
        if ours && seen.get().is_none() && message.windows(6).any(|part| part == fresh) {
            seen.set(Some(Instant::now()));
        }
    };
    // Every fiftieth query asks for the name that is looked at.
    let mut mixed = Vec::with_capacity(queries.len());
    for (index, query) in queries.into_iter().enumerate() {
        mixed.push(if index % 50 == 0 {
            marker.clone()
        } else {
            query
        });
    }
    let began = Instant::now();
    let mut swapped = None;
    let report = Client::new(server.address, &mixed)?
        .on_answer(&mut on_answer)
        .run(Shape::Rate(RATE), PATIENCE, || {
            if swapped.is_none() && began.elapsed() > Duration::from_millis(500) {
                new.swap()?;
                swapped = Some(Instant::now());
                match told {
                    Told::ByItself => {}
                    Told::Hangup => server.signal(Signal::SIGHUP)?,
                }
            }
            Ok(seen.get().is_some_and(|at| at.elapsed() > AFTER))
        })?;
    let after = match (seen.get(), swapped) {
        (Some(seen), Some(swapped)) => seen.duration_since(swapped).as_secs_f64() * 1000.0,
        _ => f64::INFINITY,
    };
    let used = server.cpu()? - before;
    results.add(section, server.name, "after", after);
    results.add(section, server.name, "lost", report.lost as f64);
    results.add(
        section,
        server.name,
        "p99",
        report.percentile(0.99) / 1000.0,
    );
    results.add(section, server.name, "max", report.percentile(1.0) / 1000.0);
    results.add(
        section,
        server.name,
        "peak",
        cpu::memory(server.pid(), true)?,
    );
    results.add(section, server.name, "cpu", used.total());
    Ok(())
}
