//! The effective settings: flags and environment win over the config file, then the defaults.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tsunaro_model::config::{Config, Listen};

use crate::cli::{FileArgs, RunArgs};
use crate::files::Paths;

/// Where to listen; fixed for the life of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listeners {
    /// DNS over UDP and TCP.
    pub(crate) dns: Vec<SocketAddr>,
    /// Probes, status, metrics.
    pub(crate) http: SocketAddr,
}

/// Where a host names its resolvers (resolv.conf(5)).
const RESOLV_CONF: &str = "/etc/resolv.conf";

const DNS_PORT: u16 = 53;
const HTTP_PORT: u16 = 9181;

/// Chooses the listeners. `ipv6` tells whether the host has IPv6 at all.
pub(crate) fn listeners(args: &RunArgs, listen: &Listen, ipv6: bool) -> Listeners {
    let Listen { dns, http } = listen;
    let any = if ipv6 {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    } else {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    };
    let given = [&args.dns_listen, dns]
        .into_iter()
        .find(|list| !list.is_empty());
    Listeners {
        dns: given
            .cloned()
            .unwrap_or_else(|| vec![SocketAddr::new(any, DNS_PORT)]),
        http: args
            .http_listen
            .or(*http)
            .unwrap_or_else(|| SocketAddr::new(any, HTTP_PORT)),
    }
}

/// The DNS listeners of a config without flags.
pub(crate) fn listeners_of(config: &Config) -> Vec<SocketAddr> {
    if config.listen.dns.is_empty() {
        return vec![SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DNS_PORT)];
    }
    config.listen.dns.clone()
}

/// Whether this host can bind an IPv6 socket.
pub(crate) fn host_has_ipv6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// The files to watch under this config.
pub(crate) fn paths(args: &FileArgs, config: &Config) -> Paths {
    let FileArgs {
        config: config_path,
        hosts: _,
        hosts_max_bytes,
    } = args;
    Paths {
        config: config_path.clone(),
        hosts: hosts_path(args, config),
        key: config
            .tailnet
            .auth_key_file
            .as_deref()
            .map(|file| beside(config_path, file)),
        resolvers: config.routes.is_some().then(|| RESOLV_CONF.into()),
        hosts_max_bytes: *hosts_max_bytes,
    }
}

/// The hosts file: the flag's, else the config's, relative to the config file.
pub(crate) fn hosts_path(args: &FileArgs, config: &Config) -> Option<PathBuf> {
    args.hosts.clone().or_else(|| {
        config
            .hosts
            .as_deref()
            .map(|file| beside(&args.config, file))
    })
}

fn beside(config: &Path, file: &str) -> PathBuf {
    config
        .parent()
        .map_or_else(|| PathBuf::from(file), |directory| directory.join(file))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(extra: &[&str]) -> RunArgs {
        let mut line = vec!["tsunaro-agent", "run", "--config", "etc/gateway.yaml"];
        line.extend(extra);
        match Cli::parse_from(line).command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_defaults() {
        let file = Listen {
            dns: vec!["127.0.0.1:5300".parse().unwrap()],
            http: Some("127.0.0.1:9181".parse().unwrap()),
        };
        let none = Listen::default();
        for (extra, listen, ipv6, dns, http) in [
            (&[][..], &none, true, "[::]:53", "[::]:9181"),
            (&[], &none, false, "0.0.0.0:53", "0.0.0.0:9181"),
            (&[], &file, true, "127.0.0.1:5300", "127.0.0.1:9181"),
            (
                &["--dns-listen", "192.0.2.9:53"],
                &file,
                true,
                "192.0.2.9:53",
                "127.0.0.1:9181",
            ),
            (
                &["--http-listen", "192.0.2.9:80"],
                &file,
                true,
                "127.0.0.1:5300",
                "192.0.2.9:80",
            ),
        ] {
            let got = listeners(&args(extra), listen, ipv6);
            assert_eq!(
                (got.dns[0].to_string(), got.http.to_string()),
                (dns.to_owned(), http.to_owned())
            );
        }
    }

    #[test]
    fn paths_of_the_config_are_relative_to_it() {
        assert_eq!(
            beside(Path::new("etc/gateway.yaml"), "hosts"),
            Path::new("etc/hosts")
        );
        assert_eq!(
            beside(Path::new("gateway.yaml"), "hosts"),
            Path::new("hosts")
        );
        assert_eq!(
            beside(Path::new("etc/gateway.yaml"), "/srv/hosts"),
            Path::new("/srv/hosts")
        );
    }
}
