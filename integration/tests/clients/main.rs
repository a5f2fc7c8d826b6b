//! The resolvers and stub clients of real life ask the real agent: dig, kdig, glibc, musl, a
//! CoreDNS in front, systemd-resolved, and MagicDNS of a peer in the tailnet.
//!
//! All tests share one lab, which starts with the first of them. docs/clients.md says what they
//! show.

mod asked;
mod coredns;
mod glibc;
mod magicdns;
mod musl;
mod resolved;
mod site;
mod stub;
mod tools;

use std::process::ExitCode;

use tsunaro_integration::run_sharing;

use crate::site::Site;

type Named = tsunaro_integration::Named<Site>;

fn main() -> ExitCode {
    let all = [
        tools::TESTS,
        glibc::TESTS,
        musl::TESTS,
        coredns::TESTS,
        resolved::TESTS,
        magicdns::TESTS,
    ];
    run_sharing("the lab", Site::start, all.concat())
}
