//! What cluster DNS, a peer's DNS and a peer's pings see while something fails.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tsunaro_integration::lab::{DnsMonitor, DnsReport, LAN_HOST, PingMonitor, PingReport};
use tsunaro_integration::say;

use super::site::Site;

/// Time before the fault and after the healing, so that a loss at either end is seen as one.
const MARGIN: Duration = Duration::from_millis(500);

/// Four monitors at work.
struct Watch {
    cluster: DnsMonitor,
    gateway: DnsMonitor,
    peer: DnsMonitor,
    pings: PingMonitor,
    started: Instant,
}

/// A line of the table.
#[derive(Debug)]
pub(super) struct Row {
    what: String,
    /// By the cluster's CoreDNS.
    cluster: DnsReport,
    /// By the gateway's own Service.
    gateway: DnsReport,
    peer: DnsReport,
    pings: PingReport,
    lasted: Duration,
}

/// Watches while a fault is made and heals; it begins and ends with all ways open.
pub(super) fn during(
    site: &Site,
    what: &str,
    fault: impl FnOnce(&Site) -> Result<()>,
) -> Result<Row> {
    site.wait_healthy()
        .with_context(|| format!("before: {what}"))?;
    from_there(site, what, fault)
}

/// The same without all ways open at the beginning.
pub(super) fn from_there(
    site: &Site,
    what: &str,
    fault: impl FnOnce(&Site) -> Result<()>,
) -> Result<Row> {
    let watch = Watch {
        cluster: site.ask_from_app(site.node.cluster_dns())?,
        gateway: site.ask_from_app(&site.dns_ip)?,
        peer: site.ask_from_peer()?,
        pings: PingMonitor::start(site.lab.peer(), LAN_HOST)?,
        started: Instant::now(),
    };
    pass(MARGIN);
    fault(site)
        .and_then(|()| site.wait_healthy())
        .with_context(|| what.to_owned())?;
    pass(MARGIN);
    let lasted = watch.started.elapsed();
    // All at once, for each then waits for what is on its way.
    for monitor in [&watch.cluster, &watch.gateway, &watch.peer] {
        monitor.fall_silent();
    }
    let row = Row {
        what: what.to_owned(),
        pings: watch.pings.stop()?,
        cluster: watch.cluster.stop()?,
        gateway: watch.gateway.stop()?,
        peer: watch.peer.stop()?,
        lasted,
    };
    say(&row.line());
    for report in [&row.cluster, &row.gateway] {
        if report.failed > 0 {
            say(&format!("  what failed: {:?}", report.faults));
        }
    }
    Ok(row)
}

/// Lets time pass: an outage is nothing but that.
pub(super) fn pass(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

impl Row {
    /// Fails if DNS in the cluster was out for longer than this; zero: if one answer was missing.
    pub(super) fn expect(self, limit: Duration) -> Result<Self> {
        self.expect_each(limit, limit)
    }

    /// The same with a limit for the cluster's CoreDNS, and one for the gateway's Service.
    pub(super) fn expect_each(self, cluster: Duration, gateway: Duration) -> Result<Self> {
        for (report, limit) in [(&self.cluster, cluster), (&self.gateway, gateway)] {
            ensure!(report.asked > 0, "nothing was asked");
            ensure!(
                report.failed == 0 || (report.outage <= limit && !limit.is_zero()),
                "{}: DNS was out for {:?}, which may be {limit:?}: {report:?}",
                self.what,
                report.outage
            );
        }
        Ok(self)
    }

    fn line(&self) -> String {
        let dns = |report: &DnsReport| match report.failed {
            0 => format!("0 of {}", report.asked),
            failed => format!(
                "{failed} of {}, within {:.1} s",
                report.asked,
                report.outage.as_secs_f64()
            ),
        };
        format!(
            "| {} | {} | {} | {} | {} of {}, longest gap {:.1} s | {:.0} s |",
            self.what,
            dns(&self.cluster),
            dns(&self.gateway),
            dns(&self.peer),
            self.pings.lost,
            self.pings.sent,
            self.pings.longest_gap.as_secs_f64(),
            self.lasted.as_secs_f64(),
        )
    }
}

pub(super) fn print_table(rows: &[Row]) {
    say(
        "| what fails | cluster DNS: failed | the gateway's Service: failed | a peer's DNS: failed \
         | a peer's pings: lost | watched |",
    );
    say("|---|---|---|---|---|---|");
    for row in rows {
        say(&row.line());
    }
}
