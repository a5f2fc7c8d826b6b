//! cargo-deny over the dependency graph, from a pinned version cached beside the peers.

use std::process::Command;

use anyhow::{Context, Result};

use crate::step;

const VERSION: &str = "0.20.2";

pub(crate) fn run() -> Result<()> {
    let root = tsunaro_integration::peers::cache_dir()?.join(format!("cargo-deny-{VERSION}"));
    let binary = root.join("bin/cargo-deny");
    if !binary.exists() {
        step::run(
            &format!("install cargo-deny {VERSION} into the cache (some minutes, once)"),
            Command::new("cargo")
                .args([
                    "install",
                    "--locked",
                    "--quiet",
                    "cargo-deny",
                    "--version",
                    VERSION,
                    "--root",
                ])
                .arg(&root),
        )
        .context("cargo-deny could not be installed from crates.io")?;
    }
    // Advisories need a clone of their database, which closed networks do not have; they are a
    // step of their own so that a new advisory cannot break an unrelated change.
    step::run(
        "cargo deny",
        Command::new(&binary).args([
            "--workspace",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ]),
    )
}
