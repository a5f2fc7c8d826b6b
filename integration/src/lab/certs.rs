//! A certificate authority of the run, and the control server's certificate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The control server's name in every node's hosts file.
pub const CONTROL_NAME: &str = "hs.lab.test";

/// Files of the control server's TLS.
#[derive(Debug, Clone)]
pub(super) struct Certs {
    pub(super) ca: PathBuf,
    pub(super) cert: PathBuf,
    pub(super) key: PathBuf,
}

impl Certs {
    /// Makes them in `dir`, valid for a day.
    pub(super) fn make(dir: &Path) -> Result<Self> {
        let path = |name: &str| dir.join(name);
        let san = format!("subjectAltName=DNS:{CONTROL_NAME}");
        openssl(
            dir,
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=lab CA",
                "-keyout",
                "ca.key",
                "-out",
                "ca.pem",
            ],
        )?;
        openssl(
            dir,
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=lab control",
                "-addext",
                &san,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-keyout",
                "tls.key",
                "-out",
                "tls.pem",
            ],
        )?;
        Ok(Self {
            ca: path("ca.pem"),
            cert: path("tls.pem"),
            key: path("tls.key"),
        })
    }
}

/// Runs openssl in a directory.
pub(crate) fn openssl(dir: &Path, args: &[&str]) -> Result<()> {
    let output = Command::new("openssl")
        .args(args)
        .current_dir(dir)
        .output()
        .context("run openssl")?;
    if !output.status.success() {
        bail!(
            "openssl {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
