//! The pure core: names, prefixes, config, hosts, zone, plans, verdicts, status report.
