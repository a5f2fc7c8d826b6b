//! The pinned programs that the lab runs beside ours, built once and cached.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::{Step, say};

/// Nobody debugs these programs, and a compiler that writes no DWARF is done sooner.
const BUILD_FLAGS: [&str; 3] = ["-trimpath", "-gcflags=all=-dwarf=false", "-ldflags"];
const LINK_FLAGS: &str = "-s -w";
/// The compiler lives for seconds: it may leave more garbage than Go's default of 100.
const COMPILERS_GOGC: &str = "400";

/// Paths of the built programs.
#[derive(Debug, Clone)]
pub struct Peers {
    /// Tailscale's command line.
    pub tailscale: PathBuf,
    /// Tailscale's daemon.
    pub tailscaled: PathBuf,
    /// The control server.
    pub headscale: PathBuf,
    /// The resolver that ours is compared with.
    pub coredns: PathBuf,
}

impl Peers {
    /// Finds the programs in the cache, and builds those that are not there.
    /// Cold, that takes many minutes; two processes never build the same one.
    pub fn ensure() -> Result<Self> {
        Self::ensure_in(&cache_dir()?)
    }

    fn ensure_in(cache: &Path) -> Result<Self> {
        let go = go_version("go")?;
        let tailscale = module(cache, "tailscale", &go)?;
        let headscale = module(cache, "headscale", &go)?;
        let coredns = module(cache, "coredns", &go)?;
        Ok(Self {
            tailscale: tailscale.join("tailscale"),
            tailscaled: tailscale.join("tailscaled"),
            headscale: headscale.join("headscale"),
            coredns: coredns.join("coredns"),
        })
    }
}

/// Kubernetes for a node, in one binary that does what its name says: `kube-apiserver`,
/// `kube-controller-manager`, `kube-scheduler`, `kubelet`, `kube-proxy`, `kubectl`. Built as
/// [`Peers::ensure`] does; cold, that takes five to ten minutes.
pub fn ensure_kubernetes() -> Result<PathBuf> {
    let dir = module(&cache_dir()?, "kubernetes", &go_version("go")?)?;
    Ok(dir.join("kubernetes"))
}

/// The oldest Headscale that is supported, for contract tests; built on first use.
pub fn headscale_028() -> Result<PathBuf> {
    let built = module(&cache_dir()?, "headscale028", &go_version("go")?)?;
    Ok(built.join("headscale"))
}

/// Where built things are kept between runs, outside the checkout.
pub fn cache_dir() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = if let Some(dir) = set("TSUNARO_CACHE") {
        PathBuf::from(dir)
    } else if let Some(dir) = set("XDG_CACHE_HOME") {
        PathBuf::from(dir).join("tsunaro")
    } else {
        let home = set("HOME").context("none of TSUNARO_CACHE, XDG_CACHE_HOME, HOME is set")?;
        PathBuf::from(home).join(".cache/tsunaro")
    };
    Ok(base.join("peers"))
}

fn go_version(program: &str) -> Result<String> {
    let output = Command::new(program)
        .args(["env", "GOVERSION", "GOARCH"])
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8(output.stdout)?),
        Ok(output) => bail!(
            "`go env` failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => bail!(
            "the lab needs Go 1.26 or newer to build tailscaled, Headscale and CoreDNS, and `go` \
             does not run ({error}): install it from https://go.dev/dl and put it on PATH"
        ),
    }
}

/// The directory of one module's built tools.
fn module(cache: &Path, name: &str, go: &str) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name);
    Ok(ensure_built(&source, cache, name, go)?.0)
}

/// The directory, and whether this call has built it.
fn ensure_built(source: &Path, cache: &Path, name: &str, go: &str) -> Result<(PathBuf, bool)> {
    let dir = cache.join(format!("{name}-{}", key(source, go)?));
    if dir.is_dir() {
        return Ok((dir, false));
    }
    std::fs::create_dir_all(cache).with_context(|| format!("create {}", cache.display()))?;
    let lock_path = cache.join(format!("{name}.lock"));
    let lock =
        File::create(&lock_path).with_context(|| format!("create {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        say(&format!("another process builds {name}; waiting for it"));
        lock.lock().context("lock the cache")?;
    }
    // The one that held the lock may have built what we want.
    if dir.is_dir() {
        return Ok((dir, false));
    }
    remove_interrupted(cache, name)?;
    build(source, cache, name, &dir)?;
    Ok((dir, true))
}

fn temp_prefix(name: &str) -> String {
    format!(".{name}-")
}

/// Removes the directories of builds that were killed; the lock is ours.
fn remove_interrupted(cache: &Path, name: &str) -> Result<()> {
    for entry in std::fs::read_dir(cache)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_string_lossy()
            .starts_with(&temp_prefix(name))
        {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn key(source: &Path, go: &str) -> Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = source.join(file);
        hash.update(std::fs::read(&path).with_context(|| format!("read {}", path.display()))?);
    }
    for file in go_files(source)? {
        hash.update(std::fs::read(&file).with_context(|| format!("read {}", file.display()))?);
    }
    hash.update(go);
    for flag in BUILD_FLAGS {
        hash.update(flag);
    }
    hash.update(link_flags(source)?);
    let digest = hash.finalize();
    Ok(digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The programs of our own in a module: none where all tools are others'.
fn go_files(source: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source).with_context(|| format!("read {}", source.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "go") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The linker's flags: Kubernetes is told the version that go.mod pins, for without it its
/// parts call themselves v0.0.0, and refuse each other.
fn link_flags(source: &Path) -> Result<String> {
    let pins = std::fs::read_to_string(source.join("go.mod")).context("read go.mod")?;
    let mut flags = LINK_FLAGS.to_owned();
    let pinned = pins
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    if let Some(version) = pinned {
        let mut numbers = version.trim_start_matches('v').split('.');
        let major = numbers.next().unwrap_or_default();
        let minor = numbers
            .next()
            .context("the version of Kubernetes has no minor number")?;
        for package in [
            "k8s.io/component-base/version",
            "k8s.io/client-go/pkg/version",
        ] {
            for (variable, value) in [
                ("gitVersion", version),
                ("gitMajor", major),
                ("gitMinor", minor),
            ] {
                write!(flags, " -X {package}.{variable}={value}")?;
            }
        }
    }
    Ok(flags)
}

fn build(source: &Path, cache: &Path, name: &str, dir: &Path) -> Result<()> {
    let tools = run_go(source, &["list", "tool"])?;
    let tools: Vec<&str> = tools.lines().collect();
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool.rsplit('/').next())
        .collect();
    let link_flags = link_flags(source)?;
    let temp = tempfile::Builder::new()
        .prefix(&temp_prefix(name))
        .tempdir_in(cache)?;
    let step = Step::announced(format!(
        "building {} (minutes when cold)",
        names.join(" and ")
    ));
    // With the slash each program gets its own name in there.
    let target = format!("{}/", temp.path().display());
    let mut args = vec!["build"];
    args.extend(BUILD_FLAGS);
    args.extend([link_flags.as_str(), "-o", &target]);
    args.extend(tools);
    run_go(source, &args)?;
    step.done();
    // tempdir makes it 0700; programs without root run these binaries too.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(temp.path(), mode)?;
    std::fs::rename(temp.keep(), dir).with_context(|| format!("rename to {}", dir.display()))
}

fn run_go(source: &Path, args: &[&str]) -> Result<String> {
    // A build does not outlive who asked for it.
    let output = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "go"])
        .args(args)
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=readonly")
        .env("GOTOOLCHAIN", "local")
        .env("GOGC", COMPILERS_GOGC)
        .output()
        .context("run go")?;
    if !output.status.success() {
        bail!(
            "`go {}` in {}: {}",
            args.join(" "),
            source.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_go_the_error_says_what_to_install_in_one_line() {
        let text = go_version("/nowhere/go").unwrap_err().to_string();
        assert!(text.contains("needs Go 1.26"), "{text}");
        assert!(text.contains("install it from"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn the_key_of_a_build_changes_with_the_pins_and_with_go() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("go.mod"), "a").unwrap();
        std::fs::write(dir.path().join("go.sum"), "b").unwrap();
        let first = key(dir.path(), "go1.26").unwrap();
        assert_eq!(first, key(dir.path(), "go1.26").unwrap());
        assert_ne!(first, key(dir.path(), "go1.27").unwrap());
        std::fs::write(dir.path().join("go.sum"), "c").unwrap();
        let second = key(dir.path(), "go1.26").unwrap();
        assert_ne!(first, second);
        std::fs::write(dir.path().join("main.go"), "package main").unwrap();
        assert_ne!(second, key(dir.path(), "go1.26").unwrap());
    }

    #[test]
    fn kubernetes_is_linked_with_the_version_that_its_go_mod_pins_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let flags = |go_mod: &str| {
            std::fs::write(dir.path().join("go.mod"), go_mod).unwrap();
            link_flags(dir.path()).unwrap()
        };
        assert_eq!(flags("require example.test/x v1.2.3\n"), "-s -w");
        let with =
            flags("require (\n\tk8s.io/component-base v0.34.4\n\tk8s.io/kubernetes v1.34.4\n)\n");
        assert!(
            with.starts_with("-s -w -X k8s.io/component-base/version.gitVersion=v1.34.4 "),
            "{with}"
        );
        assert!(
            with.contains("k8s.io/client-go/pkg/version.gitMinor=34"),
            "{with}"
        );
    }

    #[test]
    fn two_builds_at_once_build_once_and_clear_an_interrupted_one_away() {
        let source = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(source.path().join(name), text).unwrap();
        write(
            "go.mod",
            "module lab.test/hello\n\ngo 1.26\n\ntool lab.test/hello\n",
        );
        write("go.sum", "");
        write(
            "main.go",
            "package main\n\nfunc main() { println(\"hello\") }\n",
        );
        let cache = tempfile::tempdir().unwrap();
        let interrupted = cache.path().join(".hello-killed");
        std::fs::create_dir(&interrupted).unwrap();
        let ensure = || ensure_built(source.path(), cache.path(), "hello", "go").unwrap();
        let (one, two) = std::thread::scope(|scope| {
            let other = scope.spawn(ensure);
            (ensure(), other.join().unwrap())
        });
        assert_eq!(one.0, two.0);
        assert!(one.1 != two.1, "exactly one builds");
        assert!(!ensure().1);
        assert!(!interrupted.exists());
        let output = Command::new(one.0.join("hello")).output().unwrap();
        assert_eq!(output.stderr, b"hello\n");
    }
}
