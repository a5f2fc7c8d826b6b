//! References to container images that say which image they mean.

use std::fmt;

use thiserror::Error;

/// A reference with a tag or a digest, never `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image(String);

/// Why a text is no such reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ImageError {
    /// No reference at all.
    #[error("is not an image reference")]
    Malformed,
    /// Neither tag nor digest, which means `latest`.
    #[error("has neither a version tag nor a digest")]
    Unversioned,
    /// The tag `latest`.
    #[error("has the tag `latest`, which means another image tomorrow")]
    Latest,
}

/// Longest reference in characters; the schema has the same limit.
const MAX_LENGTH: usize = 512;
/// Longest tag (distribution spec, "Pulling manifests").
const MAX_TAG: usize = 128;
/// Characters of a SHA-256 digest in hexadecimal.
const DIGEST: usize = 64;

impl Image {
    /// Reads `registry/repository:tag`, `registry/repository@sha256:…` or both together.
    ///
    /// # Errors
    /// Any [`ImageError`].
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(ImageError::Malformed);
        }
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => (named, Some(digest)),
            None => (text, None),
        };
        let (repository, tag) = split_tag(named);
        if !is_repository(repository) || !tag.is_none_or(is_tag) || !digest.is_none_or(is_digest) {
            return Err(ImageError::Malformed);
        }
        match (tag, digest) {
            (Some("latest"), _) => Err(ImageError::Latest),
            (None, None) => Err(ImageError::Unversioned),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// The reference as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for an image of CoreDNS, as manifests from before the agent have it.
    pub fn is_coredns(&self) -> bool {
        let named = self.0.split('@').next().unwrap_or_default();
        let (repository, _) = split_tag(named);
        repository.rsplit('/').next() == Some("coredns")
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A colon after the last slash begins a tag; one before it, a registry's port.
fn split_tag(named: &str) -> (&str, Option<&str>) {
    match named.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (named, None),
    }
}

/// Registry with an optional port, then path components, all in lower case.
fn is_repository(text: &str) -> bool {
    let mut parts = text.split('/');
    let Some(first) = parts.next() else {
        return false;
    };
    let registry = match first.split_once(':') {
        Some((host, port)) if text.contains('/') => {
            is_component(host) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
        }
        Some(_) => false,
        None => is_component(first),
    };
    registry && parts.all(is_component)
}

/// Letters and digits, with `.`, `_` and `-` between them.
fn is_component(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=MAX_TAG).contains(&text.len())
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| {
        hex.len() == DIGEST
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests;
