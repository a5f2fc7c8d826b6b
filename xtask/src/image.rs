//! `cargo xtask image`: the image of the Containerfile as an OCI archive, without a container
//! engine, and the same bits from the same commit each time.

mod build;
mod elf;
mod oci;
mod sbom;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sha2::{Digest, Sha256};
use tsunaro_integration::OWN_IMAGE;

use build::{Architecture, Built, Platform, Purpose};
use oci::{File, Image};
use source::Source;

/// What the agent may add to an image, compressed, in bytes: every node that runs a gateway pulls it.
const MAX_AGENT: usize = 15_000_000;

const AGENT: &str = "tsunaro-agent";
const CONTROLLER: &str = "tsunaro-controller";

/// The image's own name.
const TITLE: &str = "tsunaro";
const DESCRIPTION: &str =
    "Subnet router and split-DNS resolver between a Kubernetes cluster and a Headscale tailnet";

/// The image's programs. The first is its entry point.
const PROGRAMS: [&str; 2] = [AGENT, CONTROLLER];

/// What is in the image beside the agent, which is its entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Programs {
    AgentAlone,
    WithController,
}

impl Programs {
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::AgentAlone => &[AGENT],
            Self::WithController => &PROGRAMS,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// The archive; the SBOM lies beside it as FILE.cdx.json. Default: in the target directory.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The image's name with its tag. Default: localhost/tsunaro:vVERSION.
    #[arg(long, value_name = "NAME:TAG")]
    name: Option<String>,
    /// The architecture. Default: this machine's. Another one needs its Rust target and Debian's
    /// cross-compiler.
    #[arg(long, value_enum, value_name = "ARCH")]
    architecture: Option<Architecture>,
    /// Build all of it a second time, from nothing and in another directory, and compare.
    #[arg(long)]
    check: bool,
    /// Build without optimization: quick to make, for tests, not to be shipped.
    #[arg(long, conflicts_with = "check")]
    quick: bool,
    /// Leave the controller out, for gateways that are installed by hand.
    #[arg(long)]
    agent_alone: bool,
}

/// Builds the tools that making the image needs.
pub(crate) fn setup() -> Result<()> {
    build::ensure_auditable()?;
    Ok(())
}

/// Makes the image that gateways by hand run in the tests, under the name that rendered objects give it. The
/// controller in it would take a minute more of a cold run.
pub(crate) fn for_tests() -> Result<PathBuf> {
    run(&ImageArgs {
        output: None,
        name: Some(OWN_IMAGE.to_owned()),
        architecture: None,
        check: false,
        quick: true,
        agent_alone: true,
    })
}

/// Makes the image, and gives the archive.
pub(crate) fn run(args: &ImageArgs) -> Result<PathBuf> {
    let platform = Platform::of(args.architecture)?;
    let source = Source::read(AGENT)?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| format!("localhost/{TITLE}:v{}", source.version));
    let purpose = if args.quick {
        Purpose::Tests
    } else {
        Purpose::Release
    };
    let dir = source.target_directory.join(purpose.directory());
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| dir.join(format!("{TITLE}-{}.oci.tar", platform.architecture)));

    let programs = if args.agent_alone {
        Programs::AgentAlone
    } else {
        Programs::WithController
    };
    let make = |target: &Path| make(&source, platform, purpose, programs, &name, target);
    let made = make(&purpose.target_directory(&source))?;
    if args.check {
        let again = source.target_directory.join("image-check");
        if again.exists() {
            std::fs::remove_dir_all(&again)
                .with_context(|| format!("cannot remove {}", again.display()))?;
        }
        let second = make(&again)?;
        compare(&made, &second)?;
        println!("two builds, one digest: {}", made.digest);
    }
    let sbom = with_suffix(&output, ".cdx.json");
    write(&output, &made.archive)?;
    write(&sbom, &made.sbom)?;
    println!(
        "{name}\n  image    {}\n  archive  {} ({:.1} MB, sha256:{})",
        made.digest,
        output.display(),
        megabytes(made.archive.len()),
        hex(&made.archive),
    );
    for (built, layer) in made.programs.iter().zip(&made.layers) {
        println!(
            "  program  /{} ({:.1} MB, {:.1} MB compressed), static, auditable data of {} crates",
            built.package,
            megabytes(built.bytes.len()),
            megabytes(*layer),
            built.audited,
        );
    }
    println!(
        "  sbom     {} ({} components)\n  commit   {}",
        sbom.display(),
        made.components,
        source.commit,
    );
    Ok(output)
}

/// Everything that one build gives.
struct Made {
    programs: Vec<Built>,
    /// The size of each program's layer.
    layers: Vec<usize>,
    archive: Vec<u8>,
    digest: String,
    sbom: Vec<u8>,
    components: usize,
}

fn make(
    source: &Source,
    platform: Platform,
    purpose: Purpose,
    programs: Programs,
    name: &str,
    target_dir: &Path,
) -> Result<Made> {
    let programs = build::build(source, platform, purpose, programs.packages(), target_dir)?;
    let image = Image {
        name: name.to_owned(),
        architecture: platform.architecture,
        created: source.committed,
        user: "65534:65534",
        entrypoint: vec![format!("/{AGENT}")],
        command: ["run", "--config", "/etc/tsunaro/gateway.yaml"]
            .map(str::to_owned)
            .into(),
        labels: source.labels(TITLE, DESCRIPTION),
        files: programs
            .iter()
            .map(|built| File {
                path: built.package.to_owned(),
                mode: 0o755,
                content: built.bytes.clone(),
            })
            .collect(),
    };
    let archive = image.archive(purpose.compression())?;
    for (built, size) in programs.iter().zip(&archive.layers) {
        ensure!(
            built.package != AGENT || *size < MAX_AGENT || purpose == Purpose::Tests,
            "the layer of {} has {:.1} MB; it may have {:.1} MB",
            built.package,
            megabytes(*size),
            megabytes(MAX_AGENT)
        );
    }
    let hashes: Vec<(&str, String)> = programs
        .iter()
        .map(|built| (built.package, hex(&built.bytes)))
        .collect();
    let sbom = sbom::collect(source, platform, &hashes, &archive.digest)?;
    let components = sbom.components();
    Ok(Made {
        programs,
        layers: archive.layers,
        digest: archive.digest,
        archive: archive.bytes,
        sbom: sbom.json()?,
        components,
    })
}

fn compare(first: &Made, second: &Made) -> Result<()> {
    let programs = first.programs.iter().zip(&second.programs);
    let programs = programs.map(|(one, two)| (one.package, &one.bytes, &two.bytes));
    for (what, one, two) in programs.chain([
        ("archives", &first.archive, &second.archive),
        ("SBOMs", &first.sbom, &second.sbom),
    ]) {
        if one != two {
            let at = one
                .iter()
                .zip(two)
                .position(|(one, two)| one != two)
                .unwrap_or(one.len().min(two.len()));
            bail!(
                "two builds differ in {what}: {} and {} bytes, different from byte {at} on",
                one.len(),
                two.len()
            );
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// The SHA-256 of some bytes in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
