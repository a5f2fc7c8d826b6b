//! `install`: copies this binary to where another container runs it.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::cli::InstallArgs;

/// The copy's name, whatever this binary is called.
const NAME: &str = "tsunaro-agent";

/// Everybody may run it, only its owner may replace it.
const MODE: u32 = 0o755;

/// Copies the running binary into the directory.
///
/// # Errors
/// When it cannot be read, or the directory not be written.
pub(crate) fn install(args: &InstallArgs) -> Result<ExitCode> {
    // The running file itself: a path may name another one by now.
    let source = Path::new("/proc/self/exe");
    let target = copy_into(source, &args.directory)
        .with_context(|| format!("cannot install {NAME} into {}", args.directory.display()))?;
    // It is installed, also when nobody reads that.
    let _ = writeln!(io::stdout(), "installed {}", target.display());
    Ok(ExitCode::SUCCESS)
}

/// Whoever opens the target sees all of the old file, all of the new one, or none, also when we
/// are killed.
fn copy_into(source: &Path, directory: &Path) -> io::Result<PathBuf> {
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let target = directory.join(NAME);
    let mut copy = NamedTempFile::with_prefix_in(format!(".{NAME}-"), directory)?;
    io::copy(&mut File::open(source)?, copy.as_file_mut())?;
    // On the open file: the umask has no say in it.
    copy.as_file()
        .set_permissions(Permissions::from_mode(MODE))?;
    copy.as_file().sync_all()?;
    copy.persist(&target).map_err(|error| error.error)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_copy_replaces_a_running_or_read_only_file_and_leaves_nothing_else_behind() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, "new").unwrap();
        let into = dir.path().join("into");
        fs::create_dir(&into).unwrap();
        let old = into.join(NAME);
        fs::write(&old, "old").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o444)).unwrap();
        let before = File::open(&old).unwrap();

        let target = copy_into(&source, &into).unwrap();
        assert_eq!(target, old);
        assert_eq!(fs::read(&target).unwrap(), b"new");
        let now = fs::metadata(&target).unwrap();
        assert_eq!(now.permissions().mode() & 0o7777, MODE);
        assert_ne!(
            now.ino(),
            before.metadata().unwrap().ino(),
            "written over instead of replaced"
        );
        assert_eq!(fs::read_dir(&into).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_none_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let kind = |to: &Path| copy_into(&file, to).unwrap_err().kind();
        assert_eq!(kind(&dir.path().join("absent")), io::ErrorKind::NotFound);
        assert_eq!(kind(&file), io::ErrorKind::NotADirectory);
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }
}
