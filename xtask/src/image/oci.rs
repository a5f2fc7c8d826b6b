//! An image as an OCI image layout in a tar archive (OCI image specification 1.1). The same input
//! gives the same bytes: order, owners, modes and times are fixed, and nothing else goes in.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use serde::Serialize;
use tar::{Builder, EntryType, Header};

use super::hex;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The name under which containerd's import keeps the image (`images.AnnotationImageName`).
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The tag alone, which other tools read (annotations.md).
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// An image of a layer for each file, so that a new version of one leaves the others in caches.
#[derive(Debug, Clone)]
pub(super) struct Image {
    /// With a registry and a tag.
    pub(super) name: String,
    pub(super) architecture: &'static str,
    /// The time of everything in it.
    pub(super) created: Timestamp,
    /// `uid:gid`.
    pub(super) user: &'static str,
    pub(super) entrypoint: Vec<String>,
    pub(super) command: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) files: Vec<File>,
}

/// A file of the image, owned by root.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Without a leading slash, in a directory that needs no entry of its own.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) content: Vec<u8>,
}

/// The archive of an image.
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    /// The manifest's digest, which is the image's: `sha256:…`.
    pub(super) digest: String,
    /// The sizes of the compressed layers, in the order of the files.
    pub(super) layers: Vec<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<PlatformJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct PlatformJson {
    architecture: &'static str,
    os: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u8,
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
    annotations: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u8,
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

#[derive(Serialize)]
struct ConfigJson<'a> {
    created: String,
    architecture: &'static str,
    os: &'static str,
    config: ExecutionJson<'a>,
    rootfs: RootfsJson,
    history: Vec<HistoryJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ExecutionJson<'a> {
    user: &'static str,
    entrypoint: &'a [String],
    cmd: &'a [String],
    working_dir: &'static str,
    labels: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct RootfsJson {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: Vec<String>,
}

#[derive(Clone, Serialize)]
struct HistoryJson {
    created: String,
    created_by: &'static str,
}

impl Image {
    /// Writes the archive.
    pub(super) fn archive(&self, compression: Compression) -> Result<Archive> {
        let mut blobs = Blobs::default();
        let (mut diff_ids, mut layers) = (Vec::new(), Vec::new());
        for file in &self.files {
            let entry = (file.path.as_str(), file.mode, file.content.as_slice());
            let tar = self.tar([entry].into_iter())?;
            diff_ids.push(format!("sha256:{}", hex(&tar)));
            layers.push(blobs.add(LAYER, gzip(&tar, compression)?));
        }
        let sizes = layers.iter().map(|layer| layer.size).collect();
        let config = blobs.add(CONFIG, serde_json::to_vec(&self.config(diff_ids))?);
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config,
            layers,
            annotations: self.labels.clone(),
        };
        let mut manifest = blobs.add(MANIFEST, serde_json::to_vec(&manifest)?);
        let digest = manifest.digest.clone();
        manifest.platform = Some(PlatformJson {
            architecture: self.architecture,
            os: "linux",
        });
        manifest
            .annotations
            .insert(CONTAINERD_NAME.to_owned(), self.name.clone());
        manifest
            .annotations
            .insert(REF_NAME.to_owned(), self.tag()?.to_owned());
        let index = Index {
            schema_version: 2,
            media_type: INDEX,
            manifests: vec![manifest],
        };
        let index = serde_json::to_vec(&index)?;
        let fixed = [
            (
                "oci-layout",
                br#"{"imageLayoutVersion":"1.0.0"}"#.as_slice(),
            ),
            ("index.json", &index),
        ];
        let entries = fixed.into_iter().chain(
            blobs
                .0
                .iter()
                .map(|(path, bytes)| (path.as_str(), bytes.as_slice())),
        );
        Ok(Archive {
            bytes: self.tar(entries.map(|(path, bytes)| (path, 0o644, bytes)))?,
            digest,
            layers: sizes,
        })
    }

    fn config(&self, diff_ids: Vec<String>) -> ConfigJson<'_> {
        let created = self.created.to_string();
        ConfigJson {
            created: created.clone(),
            architecture: self.architecture,
            os: "linux",
            config: ExecutionJson {
                user: self.user,
                entrypoint: &self.entrypoint,
                cmd: &self.command,
                working_dir: "/",
                labels: &self.labels,
            },
            rootfs: RootfsJson {
                kind: "layers",
                diff_ids,
            },
            // One entry a layer (config.md).
            history: vec![
                HistoryJson {
                    created,
                    created_by: "cargo xtask image",
                };
                self.files.len()
            ],
        }
    }

    /// What follows the last colon, unless that belongs to the registry's port.
    fn tag(&self) -> Result<&str> {
        let (_, tag) = self
            .name
            .rsplit_once(':')
            .filter(|(_, tag)| !tag.contains('/'))
            .with_context(|| {
                format!(
                    "the image's name has no tag: write it like {}:1.2.3",
                    self.name
                )
            })?;
        Ok(tag)
    }

    fn tar<'a>(&self, entries: impl Iterator<Item = (&'a str, u32, &'a [u8])>) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, mode, content) in entries {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(
                self.created
                    .as_second()
                    .try_into()
                    .context("the time lies before 1970")?,
            );
            header.set_size(content.len() as u64);
            tar.append_data(&mut header, path, content)
                .with_context(|| path.to_owned())?;
        }
        Ok(tar.into_inner()?)
    }
}

/// Blobs by their path in the layout.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn add(&mut self, media_type: &'static str, bytes: Vec<u8>) -> Descriptor {
        let hex = hex(&bytes);
        let size = bytes.len();
        self.0.insert(format!("blobs/sha256/{hex}"), bytes);
        Descriptor {
            media_type,
            digest: format!("sha256:{hex}"),
            size,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

fn gzip(bytes: &[u8], compression: Compression) -> Result<Vec<u8>> {
    // No file name, and neither a time nor an operating system (RFC 1952, 2.3.1).
    let mut gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), compression);
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

#[cfg(test)]
mod tests;
