//! A run's control groups: one subtree, in every hierarchy of cgroup v1 or in the one of v2.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::run::PREFIX;
use crate::Wait;

const ROOT: &str = "/sys/fs/cgroup";

/// The name of a run's subtree.
pub(crate) fn name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Makes the subtree in every hierarchy.
pub(crate) fn make(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let dir = hierarchy.join(name);
        std::fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
    }
    Ok(())
}

/// Removes the subtree from every hierarchy; its processes have ended.
pub(crate) fn remove(name: &str) -> Result<()> {
    for dir in existing(name)? {
        // The kernel lets go of a group some time after the end of its last process.
        Wait::new(
            format!("the removal of {}", dir.display()),
            Duration::from_secs(10),
        )
        .every(Duration::from_millis(10))
        .until(|| remove_tree(&dir).map(Some))?;
    }
    Ok(())
}

/// Where a subtree of this name exists.
pub(crate) fn existing(name: &str) -> Result<Vec<PathBuf>> {
    let mut dirs: Vec<PathBuf> = hierarchies()?.iter().map(|dir| dir.join(name)).collect();
    dirs.retain(|dir| dir.is_dir());
    Ok(dirs)
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").context("read the mounts")?;
    Ok(hierarchies_in(&mounts))
}

fn hierarchies_in(mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(at), Some(kind)) = (fields.next(), fields.next())
            && matches!(kind, "cgroup" | "cgroup2")
            && Path::new(at).starts_with(ROOT)
            && !found.iter().any(|known| known == Path::new(at))
        {
            found.push(PathBuf::from(at));
        }
    }
    found
}

fn remove_tree(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("read {}", dir.display())),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    // The files in it are the kernel's, and go with the directory.
    std::fs::remove_dir(dir).with_context(|| format!("remove {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchies_are_the_cgroup_mounts_of_either_version() {
        let v1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                  cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                  cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                  cgroup /elsewhere cgroup rw,cpu 0 0\n";
        let at = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        assert_eq!(
            hierarchies_in(v1),
            at(&[
                "/sys/fs/cgroup/cpu",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/unified"
            ])
        );
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(hierarchies_in(v2), at(&["/sys/fs/cgroup"]));
    }
}
