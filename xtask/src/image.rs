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

use build::{Built, Platform};
use oci::{File, Image};
use source::Source;

/// What an image with the agent alone may have, in bytes.
const MAX_SIZE: usize = 15_000_000;

/// The program of the image; the controller joins it once there is one.
const PACKAGE: &str = "tsunaro-agent";

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// The archive; the SBOM lies beside it as FILE.cdx.json. Default: in the target directory.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The image's name with its tag. Default: localhost/tsunaro-agent:VERSION.
    #[arg(long, value_name = "NAME:TAG")]
    name: Option<String>,
    /// Build all of it a second time, from nothing and in another directory, and compare.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &ImageArgs) -> Result<()> {
    let platform = Platform::of_this_machine()?;
    let source = Source::read(PACKAGE)?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| format!("localhost/{PACKAGE}:{}", source.version));
    let dir = source.target_directory.join("image");
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| dir.join(format!("{PACKAGE}-{}.oci.tar", platform.architecture)));

    let made = make(&source, platform, &name, &dir)?;
    if args.check {
        let again = source.target_directory.join("image-check");
        if again.exists() {
            std::fs::remove_dir_all(&again)
                .with_context(|| format!("cannot remove {}", again.display()))?;
        }
        let second = make(&source, platform, &name, &again)?;
        compare(&made, &second)?;
        println!("two builds, one digest: {}", made.digest);
    }
    let sbom = with_suffix(&output, ".cdx.json");
    write(&output, &made.archive)?;
    write(&sbom, &made.sbom)?;
    println!(
        "{name}\n  image    {}\n  archive  {} ({:.1} MB, sha256:{})\n  program  {:.1} MB, static, {}\n  sbom     {} ({} components)\n  commit   {}",
        made.digest,
        output.display(),
        megabytes(made.archive.len()),
        hex(&made.archive),
        megabytes(made.built.bytes.len()),
        match made.built.audited {
            0 => "without auditable dependency data".to_owned(),
            count => format!("auditable data of {count} crates"),
        },
        sbom.display(),
        made.components,
        source.commit,
    );
    Ok(())
}

/// Everything that one build gives.
struct Made {
    built: Built,
    archive: Vec<u8>,
    digest: String,
    sbom: Vec<u8>,
    components: usize,
}

fn make(source: &Source, platform: Platform, name: &str, target_dir: &Path) -> Result<Made> {
    let built = build::build(source, platform, PACKAGE, target_dir)?;
    let image = Image {
        name: name.to_owned(),
        architecture: platform.architecture,
        created: source.committed,
        user: "65534:65534",
        entrypoint: vec![format!("/{PACKAGE}")],
        command: ["run", "--config", "/etc/tsunaro/gateway.yaml"]
            .map(str::to_owned)
            .into(),
        labels: source.labels(PACKAGE),
        files: vec![File {
            path: PACKAGE.to_owned(),
            mode: 0o755,
            content: built.bytes.clone(),
        }],
    };
    let archive = image.archive()?;
    ensure!(
        archive.bytes.len() < MAX_SIZE,
        "the archive has {:.1} MB; it may have {:.1} MB",
        megabytes(archive.bytes.len()),
        megabytes(MAX_SIZE)
    );
    let sbom = sbom::collect(
        source,
        platform,
        PACKAGE,
        &hex(&built.bytes),
        &archive.digest,
    )?;
    let components = sbom.components();
    Ok(Made {
        built,
        digest: archive.digest,
        archive: archive.bytes,
        sbom: sbom.json()?,
        components,
    })
}

fn compare(first: &Made, second: &Made) -> Result<()> {
    for (what, one, two) in [
        ("programs", &first.built.bytes, &second.built.bytes),
        ("archives", &first.archive, &second.archive),
        ("SBOMs", &first.sbom, &second.sbom),
    ] {
        if one != two {
            let at = one
                .iter()
                .zip(two)
                .position(|(one, two)| one != two)
                .unwrap_or(one.len().min(two.len()));
            bail!(
                "two builds gave different {what}: {} and {} bytes, different from byte {at} on",
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
