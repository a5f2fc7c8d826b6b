//! What a run is seen by, for tests that nothing is left of one.

use anyhow::Result;

use super::cgroups;
use super::run::{NETNS, ROOT};

/// Everything on this machine that carries the run's id: namespaces, directories, processes,
/// mounts and control groups.
pub fn traces(id: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for dir in [NETNS, ROOT] {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.to_string_lossy().contains(id) {
                found.push(path.display().to_string());
            }
        }
    }
    for entry in std::fs::read_dir("/proc")? {
        let process = entry?.path();
        let Ok(line) = std::fs::read(process.join("cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // All that the lab starts has its node's directory as its own.
        let cwd = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        let cwd = cwd.to_string_lossy();
        if [line.as_str(), &cwd].iter().any(|text| text.contains(id)) {
            found.push(format!("{} in {cwd}: {line}", process.display()));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(id))
            .map(str::to_owned),
    );
    for dir in cgroups::existing(&cgroups::name(id))? {
        found.push(dir.display().to_string());
    }
    Ok(found)
}
