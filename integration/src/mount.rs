//! A directory of files as kubelet mounts a ConfigMap: every file is a symlink through `..data`,
//! and a change swaps `..data` in one rename.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A mounted volume. The directory itself is the caller's to remove.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    version: u64,
}

impl Mount {
    /// Lays the files into `dir`, which is made; any user may read them, as with a ConfigMap.
    pub fn new(dir: impl Into<PathBuf>, files: &[(&str, &str)]) -> Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        open_to_all(&dir)?;
        let mut mount = Self { dir, version: 0 };
        mount.swap(files)?;
        for (name, _) in files {
            symlink(Path::new("..data").join(name), mount.path(name)).context("link a file")?;
        }
        Ok(mount)
    }

    /// Where a program finds a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Puts new contents in place, all at once.
    pub fn swap(&mut self, files: &[(&str, &str)]) -> Result<()> {
        let old = self.data_dir();
        self.version += 1;
        let new = self.data_dir();
        std::fs::create_dir(&new).with_context(|| format!("create {}", new.display()))?;
        open_to_all(&new)?;
        for (name, content) in files {
            std::fs::write(new.join(name), content).with_context(|| format!("write {name}"))?;
        }
        let staged = self.dir.join("..data_tmp");
        symlink(new.file_name().context("a version has a name")?, &staged).context("stage")?;
        std::fs::rename(&staged, self.dir.join("..data")).context("swap ..data")?;
        if old.exists() {
            std::fs::remove_dir_all(&old).context("remove the old version")?;
        }
        Ok(())
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join(format!("..version_{}", self.version))
    }
}

fn open_to_all(dir: &Path) -> Result<()> {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))
        .context("open a directory")
}
