//! Reading one file whole, with a limit, and naming its content.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// A file's content.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// The octets.
    pub(crate) bytes: Vec<u8>,
    /// Their SHA-256, hexadecimal.
    pub(crate) hash: String,
}

// The bytes may be a key.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({} octets)", self.bytes.len())
    }
}

/// Why a file has no content for us.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ReadFault {
    /// Nothing there, or a dangling symlink.
    #[error("it is not there; create it, or name another")]
    Missing,
    /// Larger than allowed.
    #[error(
        "it is larger than {max} octets; raise --hosts-max-bytes if it is a hosts file, else look at what it is"
    )]
    TooLarge {
        /// The limit in octets.
        max: u64,
    },
    /// Anything else, in the system's words.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// Reads a file of at most `max` octets.
///
/// # Errors
/// [`ReadFault`].
pub(crate) fn read_capped(path: &Path, max: u64) -> Result<Content, ReadFault> {
    let fault = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ReadFault::Missing,
        _ => ReadFault::Unreadable(error.to_string()),
    };
    // A FIFO in place of a file would block at the open, a device would never end.
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(fault)?;
    let metadata = file.metadata().map_err(fault)?;
    if !metadata.is_file() {
        return Err(ReadFault::Unreadable("it is not a regular file".to_owned()));
    }
    // One octet more than the file has shows its end without making more room.
    let room = usize::try_from(metadata.len().min(max)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room.saturating_add(1));
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(fault)?;
    if bytes.len() as u64 > max {
        return Err(ReadFault::TooLarge { max });
    }
    let hash = Sha256::digest(&bytes)
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    Ok(Content { bytes, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Holds rule 37.
    #[test]
    fn content_is_named_by_its_sha256() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "abc").unwrap();
        let content = read_capped(&path, 3).unwrap();
        assert_eq!(
            content.hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    // Holds rule 39.
    #[test]
    fn what_cannot_be_read_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        std::fs::write(&large, "abcd").unwrap();
        assert_eq!(read_capped(&large, 3), Err(ReadFault::TooLarge { max: 3 }));
        let dangling = dir.path().join("dangling");
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        assert_eq!(read_capped(&dangling, 3), Err(ReadFault::Missing));
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(
            read_capped(&fifo, 3),
            Err(ReadFault::Unreadable(_))
        ));
        assert!(matches!(
            read_capped(dir.path(), 3),
            Err(ReadFault::Unreadable(_))
        ));
    }
}
