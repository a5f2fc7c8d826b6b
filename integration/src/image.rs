//! The project's own image, for tests that run it as users do.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::Step;

/// The name that rendered objects give it by.
pub const OWN_IMAGE: &str = concat!("ghcr.io/tsunaro/tsunaro:v", env!("CARGO_PKG_VERSION"));

/// The image as an OCI archive under the name [`OWN_IMAGE`]: the file of `TSUNARO_IMAGE` where that
/// is set, else what `cargo xtask image --quick` makes now.
pub fn own_image() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TSUNARO_IMAGE").filter(|value| !value.is_empty()) {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .with_context(|| format!("TSUNARO_IMAGE names {}", path.display()));
    }
    let step = Step::announced("cargo xtask image (minutes when cold)");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "image",
            "--quick",
        ])
        .args(["--name", OWN_IMAGE])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output()
        .context("run cargo")?;
    ensure!(
        output.status.success(),
        "cargo xtask image: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let said = String::from_utf8(output.stdout)?;
    step.done();
    archive(&said).with_context(|| format!("cargo xtask image names no archive: {said}"))
}

/// The file in the line `archive FILE (…)`.
fn archive(said: &str) -> Option<PathBuf> {
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("archive "))?;
    Some(line.rsplit_once(" (")?.0.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_the_file_that_xtask_names() {
        let said = "x:1\n  image    sha256:0\n  archive  /t/a (b)/x.tar (9.1 MB, sha256:1)\n";
        assert_eq!(archive(said), Some(PathBuf::from("/t/a (b)/x.tar")));
        assert_eq!(archive("error"), None);
    }
}
