//! The list of what an image's programs were built from, in CycloneDX 1.5 JSON.
//!
//! Crates that are linked in are `required`; those that only ran while it was built (build scripts,
//! procedural macros and what these use) are `excluded`. What no crate names but is linked in too,
//! Rust's standard library and glibc, is listed by version.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{MetadataCommand, Package, PackageId};
use serde::Serialize;

use super::build::Platform;
use super::source::{Source, output};
use super::{DESCRIPTION, TITLE};

/// The document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sbom {
    bom_format: &'static str,
    spec_version: &'static str,
    serial_number: String,
    version: u32,
    metadata: Metadata,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Serialize)]
struct Metadata {
    timestamp: String,
    component: Component,
    properties: Vec<Property>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    bom_ref: String,
    name: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    licenses: Vec<License>,
    purl: String,
}

#[derive(Debug, Clone, Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

#[derive(Debug, Clone, Serialize)]
struct License {
    expression: String,
}

#[derive(Debug, Serialize)]
struct Property {
    name: &'static str,
    value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    of: String,
    depends_on: Vec<String>,
}

type Crate = (String, String);

/// Lists what the programs of an image are built from: each with its package and the SHA-256 of it
/// in hexadecimal digits. `image` is the image's digest.
pub(super) fn collect(
    source: &Source,
    platform: Platform,
    programs: &[(&str, String)],
    image: &str,
) -> Result<Sbom> {
    let (mut linked, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (package, _) in programs {
        linked.extend(crates(source, platform, package, "normal,no-proc-macro")?);
        all.extend(crates(source, platform, package, "normal,build")?);
    }
    let metadata = MetadataCommand::new()
        .current_dir(&source.root)
        .other_options(["--locked", "--filter-platform", platform.target].map(str::to_owned))
        .exec()
        .context("cargo metadata failed")?;
    let of = |id: &PackageId| {
        let package = metadata.packages.iter().find(|each| each.id == *id)?;
        Some((package.name.to_string(), package.version.to_string()))
    };
    let mut components = Vec::new();
    let mut applications = Vec::new();
    for each in &metadata.packages {
        let key = (each.name.to_string(), each.version.to_string());
        if let Some((_, binary)) = programs.iter().find(|(name, _)| each.name == *name) {
            applications.push(purl(&key));
            components.push(Component {
                kind: "application",
                hashes: vec![Hash {
                    alg: "SHA-256",
                    content: binary.clone(),
                }],
                ..component(each, "required")
            });
        } else if linked.contains(&key) {
            components.push(component(each, "required"));
        } else if all.contains(&key) {
            components.push(component(each, "excluded"));
        }
    }
    ensure!(
        components.len() == all.len() && applications.len() == programs.len(),
        "cargo metadata does not know every crate that cargo tree names"
    );
    components.extend([
        runtime("rust-std", &output(Command::new("rustc").arg("--version"))?)?,
        runtime(
            "glibc",
            &output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?,
        )?,
    ]);
    components.sort_by(|one, two| one.bom_ref.cmp(&two.bom_ref));

    let mut dependencies = BTreeMap::new();
    for node in &metadata
        .resolve
        .as_ref()
        .context("cargo metadata resolved nothing")?
        .nodes
    {
        let Some(from) = of(&node.id).filter(|key| all.contains(key)) else {
            continue;
        };
        // Development dependencies are not among all.
        let to: BTreeSet<String> = node
            .dependencies
            .iter()
            .filter_map(of)
            .filter(|key| all.contains(key))
            .map(|key| purl(&key))
            .collect();
        dependencies.insert(purl(&from), to.into_iter().collect());
    }
    let main = container(source, image);
    dependencies.insert(main.bom_ref.clone(), applications);
    let dependencies = dependencies
        .into_iter()
        .map(|(of, depends_on)| Dependency { of, depends_on })
        .collect();
    Ok(Sbom {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        serial_number: serial_number(image)?,
        version: 1,
        metadata: Metadata {
            timestamp: source.committed.to_string(),
            component: main,
            properties: vec![
                Property {
                    name: "tsunaro:image:digest",
                    value: image.to_owned(),
                },
                Property {
                    name: "tsunaro:source:commit",
                    value: source.commit.clone(),
                },
                Property {
                    name: "tsunaro:target",
                    value: platform.target.to_owned(),
                },
            ],
        },
        components,
        dependencies,
    })
}

impl Sbom {
    /// How many components it lists.
    pub(super) fn components(&self) -> usize {
        self.components.len()
    }

    /// The document as a file.
    pub(super) fn json(&self) -> Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        Ok(json)
    }
}

/// The crates that cargo would build along these edges, by its own choice of features.
fn crates(
    source: &Source,
    platform: Platform,
    package: &str,
    edges: &str,
) -> Result<BTreeSet<Crate>> {
    let tree = output(
        Command::new("cargo")
            .args([
                "tree",
                "--locked",
                "--quiet",
                "--package",
                package,
                "--target",
                platform.target,
            ])
            .args(["--edges", edges, "--prefix", "none", "--format", "{p}"])
            .current_dir(&source.root),
    )?;
    tree.lines().map(parse_tree_line).collect()
}

/// Reads `name v1.2.3 (proc-macro) (*)`.
fn parse_tree_line(line: &str) -> Result<Crate> {
    let mut words = line.split_whitespace();
    let name = words.next();
    let version = words.next().and_then(|word| word.strip_prefix('v'));
    let (name, version) = name
        .zip(version)
        .with_context(|| format!("cargo tree wrote {line:?}"))?;
    Ok((name.to_owned(), version.to_owned()))
}

fn container(source: &Source, digest: &str) -> Component {
    let purl = format!("pkg:oci/{TITLE}@{}", digest.replace(':', "%3A"));
    Component {
        kind: "container",
        bom_ref: purl.clone(),
        name: TITLE.to_owned(),
        version: source.version.clone(),
        description: Some(DESCRIPTION.to_owned()),
        scope: None,
        hashes: Vec::new(),
        licenses: vec![License {
            expression: source.license.clone(),
        }],
        purl,
    }
}

fn component(package: &Package, scope: &'static str) -> Component {
    let key = (package.name.to_string(), package.version.to_string());
    let purl = purl(&key);
    let (name, version) = key;
    // Old crates write MIT/Apache-2.0, which is no SPDX expression.
    let license = package.license.as_ref().map(|license| License {
        expression: license.replace('/', " OR "),
    });
    Component {
        kind: "library",
        bom_ref: purl.clone(),
        name,
        version,
        description: package.description.as_deref().map(one_line),
        scope: Some(scope),
        hashes: Vec::new(),
        licenses: license.into_iter().collect(),
        purl,
    }
}

/// The specification allows no line breaks there.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Something that the toolchain links in, from the `name version …` that a tool prints.
fn runtime(name: &str, printed: &str) -> Result<Component> {
    let version = printed
        .split_whitespace()
        .nth(1)
        .with_context(|| format!("no version in {printed:?}"))?;
    let purl = format!("pkg:generic/{name}@{version}");
    Ok(Component {
        kind: "library",
        bom_ref: purl.clone(),
        name: name.to_owned(),
        version: version.to_owned(),
        description: None,
        scope: Some("required"),
        hashes: Vec::new(),
        licenses: Vec::new(),
        purl,
    })
}

/// The package URL, whose version may hold a plus sign that has to be escaped.
fn purl((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// A UUID of version 8 (RFC 9562, 5.8) out of the image's digest: one image, one document.
fn serial_number(digest: &str) -> Result<String> {
    let hex = digest
        .strip_prefix("sha256:")
        .and_then(|hex| hex.get(..32))
        .context("no SHA-256 digest")?;
    let number = u128::from_str_radix(hex, 16).context("no SHA-256 digest")?;
    let number = number & !(0xf << 76) & !(0x3 << 62) | (0x8 << 76) | (0x2 << 62);
    let text = format!("{number:032x}");
    let part = |from, to| text.get(from..to).unwrap_or_default();
    Ok(format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    ))
}

#[cfg(test)]
mod tests;
