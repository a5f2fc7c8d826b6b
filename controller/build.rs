//! Records the commit for `--version`: from TSUNARO_COMMIT, else from git, else `unknown`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TSUNARO_COMMIT");
    println!("cargo:rerun-if-changed=../.git/HEAD");
    println!("cargo:rerun-if-changed=../.git/refs/heads");
    let commit = std::env::var("TSUNARO_COMMIT")
        .ok()
        .or_else(from_git)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=TSUNARO_COMMIT={commit}");
}

fn from_git() -> Option<String> {
    let output = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| commit.trim().to_owned())
}
