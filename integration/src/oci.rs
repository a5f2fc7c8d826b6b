//! Container images without an engine: an OCI archive, made here of files.
//!
//! Uncompressed, for they are unpacked on this machine a moment later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// An image of one layer, in the making.
#[derive(Debug, Clone)]
pub struct OciImage {
    name: String,
    entries: BTreeMap<String, Entry>,
    entrypoint: Vec<String>,
    env: Vec<String>,
    user: String,
}

#[derive(Debug, Clone)]
enum Entry {
    Directory { mode: u32 },
    Copy { from: PathBuf, mode: u32 },
    Text { content: String },
    Link { to: String },
}

/// An image of one static program and other files `(path in the image, file here)`, all of
/// them executable; its entry point is a command line.
#[must_use]
pub fn oci_image(name: &str, files: &[(&str, &Path)], entrypoint: &[&str]) -> OciImage {
    let mut image = OciImage::new(name);
    for (path, from) in files {
        image = image.copy(path, from);
    }
    image.entrypoint(entrypoint)
}

impl OciImage {
    /// An empty image under its full name, as `lab.test/pause:1`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            entries: BTreeMap::new(),
            entrypoint: Vec::new(),
            env: vec![
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            ],
            user: String::new(),
        }
    }

    /// The name that Pods give it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A copy of a program of this machine, executable to all.
    #[must_use]
    pub fn copy(self, path: &str, from: &Path) -> Self {
        self.entry(
            path,
            Entry::Copy {
                from: from.to_owned(),
                mode: 0o755,
            },
        )
    }

    /// A file with this text, readable to all.
    #[must_use]
    pub fn text(self, path: &str, content: &str) -> Self {
        self.entry(
            path,
            Entry::Text {
                content: content.to_owned(),
            },
        )
    }

    /// A symbolic link.
    #[must_use]
    pub fn link(self, path: &str, to: &str) -> Self {
        self.entry(path, Entry::Link { to: to.to_owned() })
    }

    /// A directory with these permissions; those that files lie in are made without being named.
    #[must_use]
    pub fn directory(self, path: &str, mode: u32) -> Self {
        self.entry(path, Entry::Directory { mode })
    }

    /// The command line that Pods run by default.
    #[must_use]
    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// One environment variable more than PATH, as `NAME=value`.
    #[must_use]
    pub fn env(mut self, assignment: &str) -> Self {
        self.env.push(assignment.to_owned());
        self
    }

    /// The user it runs as, in numbers as `65534:65534`; by default root.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    fn entry(mut self, path: &str, entry: Entry) -> Self {
        self.entries
            .insert(path.trim_matches('/').to_owned(), entry);
        self
    }

    /// Writes the archive.
    pub fn write(&self, to: &Path) -> Result<()> {
        let layer = self.layer()?;
        let layer_digest = digest(&layer);
        let config = serde_json::to_vec(&json!({
            "architecture": architecture()?,
            "os": "linux",
            "config": { "Entrypoint": self.entrypoint, "Env": self.env, "User": self.user },
            "rootfs": { "type": "layers", "diff_ids": [&layer_digest] },
        }))?;
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        }))?;
        let mut of_index = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        let annotations = json!({ "io.containerd.image.name": self.name });
        of_index
            .as_object_mut()
            .context("a descriptor is an object")?
            .insert("annotations".to_owned(), annotations);
        let index = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [of_index],
        }))?;

        let file = std::fs::File::create(to).with_context(|| format!("create {}", to.display()))?;
        let mut archive = Builder::new(std::io::BufWriter::new(file));
        add(
            &mut archive,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#,
            0o644,
        )?;
        add(&mut archive, "index.json", &index, 0o644)?;
        for blob in [&config, &manifest, &layer] {
            let name = digest(blob).replace(':', "/");
            add(&mut archive, &format!("blobs/{name}"), blob, 0o644)?;
        }
        let writer = archive.into_inner()?;
        writer
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        Ok(())
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let mut entries = self.entries.clone();
        for path in self.entries.keys() {
            for parent in Path::new(path).ancestors().skip(1) {
                let parent = parent.to_string_lossy().into_owned();
                if !parent.is_empty() {
                    entries
                        .entry(parent)
                        .or_insert(Entry::Directory { mode: 0o755 });
                }
            }
        }
        let mut layer = Builder::new(Vec::new());
        // Sorted by path, so that a directory comes before what lies in it.
        for (path, entry) in entries {
            match entry {
                Entry::Directory { mode } => {
                    let mut header = header(0, mode, EntryType::Directory);
                    layer.append_data(&mut header, format!("{path}/"), std::io::empty())?;
                }
                Entry::Copy { from, mode } => {
                    let content =
                        std::fs::read(&from).with_context(|| format!("read {}", from.display()))?;
                    add(&mut layer, &path, &content, mode)?;
                }
                Entry::Text { content } => add(&mut layer, &path, content.as_bytes(), 0o644)?,
                Entry::Link { to } => {
                    let mut header = header(0, 0o777, EntryType::Symlink);
                    layer.append_link(&mut header, &path, &to)?;
                }
            }
        }
        Ok(layer.into_inner()?)
    }
}

fn header(size: usize, mode: u32, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn add<W: std::io::Write>(
    to: &mut Builder<W>,
    path: &str,
    content: &[u8],
    mode: u32,
) -> Result<()> {
    let mut header = header(content.len(), mode, EntryType::Regular);
    to.append_data(&mut header, path, content)
        .with_context(|| format!("add {path} to the archive"))
}

fn descriptor(media_type: &str, blob: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(blob), "size": blob.len() })
}

fn digest(blob: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(blob) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("images for {other} are not made here"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unpack(archive: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(std::fs::File::open(archive).unwrap());
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        files
    }

    #[test]
    fn every_blob_lies_under_its_digest_and_the_index_leads_to_the_layer() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("image.tar");
        let image = OciImage::new("lab.test/x:1")
            .text("/etc/x/y", "hello")
            .link("/etc/z", "x/y")
            .entrypoint(&["/x"]);
        image.write(&at).unwrap();
        let files = unpack(&at);
        for (path, content) in &files {
            if let Some(hex) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(digest(content), format!("sha256:{hex}"));
            }
        }
        let blob = |descriptor: &Value| {
            let hex = descriptor["digest"].as_str().unwrap().replace(':', "/");
            files[&format!("blobs/{hex}")].clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(
            entry["annotations"]["io.containerd.image.name"],
            "lab.test/x:1"
        );
        let manifest: Value = serde_json::from_slice(&blob(entry)).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(
            config["rootfs"]["diff_ids"][0],
            manifest["layers"][0]["digest"]
        );
        let layer = dir.path().join("layer.tar");
        std::fs::write(&layer, blob(&manifest["layers"][0])).unwrap();
        let paths: Vec<String> = unpack(&layer).into_keys().collect();
        assert_eq!(paths, ["etc/", "etc/x/", "etc/x/y", "etc/z"]);
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let at = dir.path().join(name);
            let program = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
            oci_image("lab.test/x:1", &[("/x", program)], &["/x"])
                .write(&at)
                .unwrap();
            std::fs::read(at).unwrap()
        };
        assert!(make("one") == make("two"));
    }
}
