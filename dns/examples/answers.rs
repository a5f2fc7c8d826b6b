//! Answers one kind of question many times, for instruction counts: `cargo xtask test speed` runs
//! this under callgrind and holds the counts against a budget.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use tsunaro_dns::answer::{Answer, ZoneKind, answer};
use tsunaro_dns::fast;
use tsunaro_dns::forwarding::{ClientTransport, Failure, Forwarded, Question, Resolve};
use tsunaro_dns::metrics::DnsMetrics;
use tsunaro_dns::query::{Incoming, parse};
use tsunaro_dns::wire::Rcode;
use tsunaro_model::config;
use tsunaro_model::hosts::Hosts;
use tsunaro_model::name::DnsName;
use tsunaro_model::zone::{HostsInput, Snapshot};

struct NoUpstreams;

impl Resolve for NoUpstreams {
    fn resolve_from_cache(&self, _: &Question) -> Option<Result<Forwarded, Failure>> {
        None
    }

    async fn resolve(&self, _: &DnsName, _: &Question) -> Result<Forwarded, Failure> {
        Err(Failure::NotConfigured)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (kind, times) = (arguments.next(), arguments.next());
    let times = times.and_then(|text| text.parse::<u64>().ok());
    let (Some(kind), Some(times)) = (kind, times) else {
        eprintln!("usage: answers hit|missing|nodata|wildcard|refused|alias|counters TIMES");
        return ExitCode::from(2);
    };
    if kind == "counters" {
        println!("{} counted", count(times));
        return ExitCode::SUCCESS;
    }
    let Some(answered) = run(&kind, times) else {
        eprintln!("the zone of this program is not valid, or there is no kind {kind}");
        return ExitCode::FAILURE;
    };
    println!("{answered} octets");
    ExitCode::SUCCESS
}

/// Counts queries and replies as a worker of the server does, and nothing else.
fn count(times: u64) -> u64 {
    let metrics = DnsMetrics::default();
    let shard = metrics.add_shard();
    for _ in 0..times {
        shard.query(black_box(ClientTransport::Udp));
        shard.replied(black_box(ZoneKind::Primary), black_box(Rcode::NoError));
    }
    metrics.snapshot().udp_queries
}

/// Octets of all answers.
fn run(kind: &str, times: u64) -> Option<usize> {
    let zone = zone()?;
    let messages: Vec<Vec<u8>> = (0..1000)
        .filter_map(|number| {
            let (name, qtype) = match kind {
                "hit" => (format!("host{number:04}.bench.example"), 1),
                "missing" => (format!("x.host{number:04}.bench.example"), 1),
                "nodata" => (format!("host{number:04}.bench.example"), 28),
                "wildcard" => (format!("free{number:04}.bench.example"), 1),
                "refused" => (format!("host{number:04}.example.org"), 1),
                "alias" => ("alias.bench.example".to_owned(), 1),
                _ => return None,
            };
            let name = DnsName::parse_host(&name).ok()?;
            let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            message.extend(name.as_wire());
            message.extend([0, qtype, 0, 1]);
            Some(message)
        })
        .collect();
    let mut octets = 0;
    let mut rotation = 0;
    for message in messages.iter().cycle().take(usize::try_from(times).ok()?) {
        let mut out = [0; 1232];
        rotation += 1;
        octets += match fast::answer(&zone, &NoUpstreams, message, rotation, &mut out) {
            Some(fast) => fast.length,
            None => general(&zone, message, rotation)?,
        };
    }
    (octets > 0 || times == 0).then_some(octets)
}

fn general(zone: &Arc<Snapshot>, message: &[u8], rotation: usize) -> Option<usize> {
    match parse(message, ClientTransport::Udp) {
        Incoming::Query(query) => match answer(zone, query, rotation) {
            Answer::Reply(reply) => Some(reply.octets.len()),
            Answer::Forward(_) => None,
        },
        Incoming::Drop | Incoming::Reply(_) => None,
    }
}

fn zone() -> Option<Arc<Snapshot>> {
    const CONFIG: &str = "{apiVersion: agent.tsunaro.io/v1alpha1, kind: GatewayConfig, \
        dns: {zone: bench.example, wildcardAddress: 192.0.2.200, staticRecords: [\
        {name: alias, target: host0001}]}}";
    let config = config::parse(CONFIG).config?;
    let text: String = (0..1000)
        .map(|number| {
            format!(
                "192.0.2.{} host{number:04}.bench.example\n",
                number % 250 + 1
            )
        })
        .collect();
    let hosts = Hosts::parse(text.as_bytes()).ok()?;
    let (zone, _) = Snapshot::build(&config.dns, HostsInput::Read(&hosts), 1, 1);
    Some(Arc::new(zone))
}
