//! systemd-resolved, without systemd: the daemon from Debian's package, unpacked and not
//! installed, for the package's scripts would replace the machine's own /etc/resolv.conf.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tsunaro_integration::lab::{Cmd, Process};
use tsunaro_integration::peers::cache_dir;
use tsunaro_integration::say;

use crate::Named;
use crate::asked::{all_addresses, all_of, wait_for};
use crate::site::{EXTRA, GATEWAY, Site, ZONE};

pub(crate) const TESTS: &[Named] = &[(
    "systemd-resolved hands on our answers and keeps to EDNS",
    hands_on,
)];

const STUB: &str = "127.0.0.53";
const PACKAGES: [&str; 2] = ["systemd-resolved", "libsystemd-shared"];

/// Gives the daemon its user, its directory and its configuration, for itself alone. `$1` is the
/// unpacked package.
const RUN: &str = "\
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir -p /run/systemd/resolve /run/systemd/resolved.conf.d
{ grep -v '^systemd-resolve:' /etc/passwd; echo 'systemd-resolve:x:65533:65534::/:/usr/sbin/nologin'; } > /run/systemd/passwd
mount --bind /run/systemd/passwd /etc/passwd
chown 65533:65534 /run/systemd/resolve
cp \"$2\" /run/systemd/resolved.conf.d/lab.conf
export LD_LIBRARY_PATH=\"$(dirname \"$(find \"$1\" -name 'libsystemd-shared-*.so' | head -n 1)\")\"
export SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console
exec \"$1/lib/systemd/systemd-resolved\"
";

fn hands_on(site: &Site) -> Result<()> {
    let resolved = start(site)?;
    let node = site.client();
    all_of(node, STUB)?;
    for option in ["+bufsize=1232", "+noedns", "+tcp"] {
        let transport = all_addresses(node, &["@127.0.0.53"], option)?;
        say(&format!(
            "systemd-resolved, dig {option}: 200 addresses by {transport}"
        ));
    }
    // At debug level it says for each question what it takes the gateway to understand.
    let log = resolved.log();
    ensure!(
        log.contains("Verified we get a response at feature level UDP+EDNS0")
            && !log.contains("degraded feature set"),
        "it took the gateway for an old server:\n{log}"
    );
    Ok(())
}

fn start(site: &Site) -> Result<Process> {
    let unpacked = unpacked()?;
    let node = site.client();
    let conf = node.write(
        "resolved.conf",
        &format!(
            "[Resolve]\nDNS={GATEWAY}\nFallbackDNS=\nDomains=~{ZONE} ~{EXTRA}\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n"
        ),
    )?;
    let resolved = node.spawn(
        Cmd::new("sh")
            .args(["-ec", RUN, "run"])
            .arg(unpacked)
            .arg(conf)
            .name("resolved"),
    )?;
    wait_for(node, STUB, Duration::from_secs(30))?;
    Ok(resolved)
}

/// The directory with the unpacked packages, which are fetched once.
fn unpacked() -> Result<PathBuf> {
    let cache = cache_dir()?;
    std::fs::create_dir_all(&cache)?;
    let lock = File::create(cache.join("systemd-resolved.lock"))?;
    lock.lock().context("lock the cache")?;
    let dir = cache.join("systemd-resolved");
    if !dir.exists() {
        let staged = tempfile::TempDir::new_in(&cache)?;
        if fetch(staged.path()).is_err() {
            // Lists of packages that are older than the archive name files that are gone.
            command(Command::new("apt-get").args(["update", "--quiet=2"]))?;
            fetch(staged.path())?;
        }
        std::fs::rename(staged.path(), &dir).context("keep the unpacked packages")?;
    }
    Ok(dir)
}

fn fetch(dir: &Path) -> Result<()> {
    command(
        Command::new("apt-get")
            .args(["download", "--quiet=2"])
            .args(PACKAGES)
            .current_dir(dir),
    )?;
    for entry in std::fs::read_dir(dir)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "deb") {
            command(Command::new("dpkg-deb").arg("--extract").args([&file, dir]))?;
        }
    }
    Ok(())
}

fn command(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
