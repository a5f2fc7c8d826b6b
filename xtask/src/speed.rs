//! A gate on speed that no noise can fail: instructions per answer, counted by callgrind.
//!
//! The counts move with the compiler and with the seed of the zone's hash table, by some percent;
//! a budget is about a third above what was measured when it was written. Lower one when the code
//! becomes faster.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::step;

/// Instructions per answer: what the octets of one query cost until the reply is written.
const BUDGETS: [(&str, u64); 6] = [
    ("hit", 1220),
    ("missing", 1400),
    ("nodata", 1280),
    ("wildcard", 1180),
    ("refused", 820),
    ("alias", 6800),
];

/// What the server's counters may cost, in percent of the instructions of a hit.
const COUNTERS: f64 = 3.0;

/// Answers that are counted, on top of as many that pay for the start.
const ANSWERS: u64 = 20_000;

pub(crate) fn run() -> Result<()> {
    step::run(
        "build the instruction count for release",
        Command::new("cargo").args([
            "build",
            "--quiet",
            "--release",
            "-p",
            "tsunaro-dns",
            "--example",
            "answers",
        ]),
    )?;
    let program = MetadataCommand::new()
        .no_deps()
        .exec()
        .context("cargo metadata failed")?
        .target_directory
        .into_std_path_buf()
        .join("release/examples/answers");
    let mut over = Vec::new();
    for (kind, budget) in BUDGETS {
        let each = each(&program, kind)?;
        println!("{kind}: {each} instructions an answer, {budget} allowed");
        if each > budget {
            over.push(kind);
        }
    }
    let (counters, hit) = (each(&program, "counters")?, each(&program, "hit")?);
    let percent = counters as f64 * 100.0 / hit as f64;
    println!("counters: {counters} instructions an answer, {percent:.1} % of a hit");
    if percent > COUNTERS {
        over.push("counters");
    }
    if !over.is_empty() {
        bail!(
            "over the budget: {}; see docs/performance.md for how to find out why",
            over.join(", ")
        );
    }
    Ok(())
}

/// Instructions of one answer.
fn each(program: &Path, kind: &str) -> Result<u64> {
    let count = |times: u64| -> Result<u64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args([kind, &times.to_string()])
            .output()
            .context("run valgrind; its Debian package has that name")?;
        let text = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("valgrind failed: {text}");
        }
        collected(&text).with_context(|| format!("no count in {text}"))
    };
    Ok(count(2 * ANSWERS)?.saturating_sub(count(ANSWERS)?) / ANSWERS)
}

/// The count in callgrind's summary.
fn collected(text: &str) -> Option<u64> {
    let (_, after) = text.split_once("Collected : ")?;
    after.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_stands_in_callgrinds_summary() {
        let text = "==1== Events    : Ir\n==1== Collected : 4711\n==1==\n";
        assert_eq!(collected(text), Some(4711));
        assert_eq!(collected("==1== error"), None);
    }
}
