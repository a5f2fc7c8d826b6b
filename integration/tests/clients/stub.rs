//! A stub resolver: our small program with the getaddrinfo of a libc, under a resolv.conf.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tsunaro_integration::lab::{Cmd, Node, Output};
use tsunaro_integration::say;

use crate::asked::PROMPT;
use crate::site::{GATEWAY, Site, ZONE};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/getaddrinfo.c");

/// Puts a resolv.conf of its own over the node's, and the name service that Debian has.
const UNDER: &str = "\
mount --bind \"$1\" /etc/resolv.conf
mount --bind \"$2\" /etc/nsswitch.conf
shift 2
exec \"$@\"
";

/// The C library of a stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Libc {
    Glibc,
    Musl,
}

/// What getaddrinfo gave for a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// `ok`, or the error.
    pub(crate) result: String,
    /// The canonical name, empty if there is none.
    pub(crate) canonical: String,
    /// Sorted.
    pub(crate) addresses: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Libc {
    /// The built program; built once in this process.
    fn program(self, site: &Site) -> Result<PathBuf> {
        static GLIBC: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        static MUSL: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let (slot, compiler, option) = match self {
            Self::Glibc => (&GLIBC, "gcc", "-O1"),
            Self::Musl => (&MUSL, "musl-gcc", "-static"),
        };
        let build = || -> Result<PathBuf> {
            let program = site.lab.dir().join(format!("getaddrinfo-{compiler}"));
            let output = Command::new(compiler)
                .args(["-Wall", "-Werror", option, "-o"])
                .arg(&program)
                .arg(SOURCE)
                .output()
                .with_context(|| format!("run {compiler}"))?;
            if !output.status.success() {
                bail!("{compiler}: {}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(program)
        };
        slot.get_or_init(|| build().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(|text| anyhow!(text))
    }

    /// Asks for A and AAAA of a name at once, on the LAN host.
    pub(crate) fn ask(self, site: &Site, conf: Conf, name: &str) -> Result<Found> {
        let program = self.program(site)?;
        let program = program.to_string_lossy();
        let text = under(site.client(), conf, &[&program, "any", name])?.ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, result, took, canonical, addresses @ ..] = words.as_slice() else {
            bail!("the program wrote {text:?}");
        };
        let mut addresses: Vec<String> = addresses.iter().map(|&at| at.to_owned()).collect();
        addresses.sort();
        let found = Found {
            result: (*result).to_owned(),
            canonical: canonical.trim_start_matches('-').to_owned(),
            addresses,
            took: Duration::from_secs_f64(took.parse::<f64>()? / 1e3),
        };
        say(&format!(
            "{self:?} {conf:?} {name}: {} {} in {:.1} ms",
            found.result,
            found.addresses.len(),
            found.took.as_secs_f64() * 1e3
        ));
        Ok(found)
    }

    /// The same, which must give this and be prompt.
    pub(crate) fn expect(
        self,
        site: &Site,
        conf: Conf,
        name: &str,
        (result, canonical, addresses): (&str, &str, &[&str]),
    ) -> Result<()> {
        let found = self.ask(site, conf, name)?;
        ensure!(
            found.result == result && found.canonical == canonical && found.addresses == addresses,
            "{self:?} {conf:?} {name}: {found:?}; expected {result} {canonical:?} {addresses:?}"
        );
        ensure!(found.took < PROMPT, "{self:?} {name} took {:?}", found.took);
        Ok(())
    }
}

/// A resolv.conf that names the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conf {
    /// Nothing else.
    Plain,
    /// With the zone in the search list.
    Search,
    /// The same with `ndots:5`, as kubelet writes it.
    SearchNdots5,
    /// Gives up after a second.
    OneSecond,
}

impl Conf {
    fn text(self) -> String {
        let more = match self {
            Self::Plain => String::new(),
            Self::Search => format!("search {ZONE}\n"),
            Self::SearchNdots5 => format!("search {ZONE}\noptions ndots:5\n"),
            Self::OneSecond => "options timeout:1 attempts:1\n".to_owned(),
        };
        format!("nameserver {GATEWAY}\n{more}")
    }
}

/// Runs a program under this resolv.conf.
pub(crate) fn under(node: &Node, conf: Conf, words: &[&str]) -> Result<Output> {
    let resolv = node.dir().join(format!("{conf:?}.conf"));
    let switch = node.dir().join("nsswitch.conf");
    for (path, text) in [
        (&resolv, conf.text()),
        (&switch, "hosts: files dns\n".to_owned()),
    ] {
        // Tests run side by side: a file in use is never written again.
        if !path.exists() {
            let staged = tempfile::NamedTempFile::new_in(node.dir())?;
            std::fs::write(staged.path(), text)?;
            staged.persist(path)?;
        }
    }
    node.run(
        Cmd::new("sh")
            .args(["-ec", UNDER, "under"])
            .arg(resolv)
            .arg(switch)
            .args(words.iter().copied()),
    )
}
