use cyclonedx_bom::models::bom::{Bom, SpecVersion};
use cyclonedx_bom::validation::Validate;

use super::*;
use crate::image::{AGENT, PROGRAMS};

const DIGEST: &str = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn sbom() -> Sbom {
    let source = Source::read(AGENT).unwrap();
    let platform = Platform::of(None).unwrap();
    let programs = PROGRAMS.map(|package| (package, "ab".repeat(32)));
    collect(&source, platform, &programs, DIGEST).unwrap()
}

#[test]
fn the_document_is_valid_and_every_dependency_is_a_component_of_it() {
    let json = sbom().json().unwrap();
    let bom = Bom::parse_from_json(json.as_slice()).unwrap();
    let verdict = bom.validate_version(SpecVersion::V1_5);
    assert!(verdict.passed(), "{verdict:?}");
    assert_eq!(json, sbom().json().unwrap(), "it differs from run to run");

    let sbom = sbom();
    let mut known: BTreeSet<&str> = sbom
        .components
        .iter()
        .map(|each| each.bom_ref.as_str())
        .collect();
    assert_eq!(known.len(), sbom.components(), "a component twice");
    known.insert(&sbom.metadata.component.bom_ref);
    for dependency in &sbom.dependencies {
        for name in dependency.depends_on.iter().chain([&dependency.of]) {
            assert!(known.contains(name.as_str()), "{name}");
        }
    }
}

#[test]
fn what_is_linked_in_is_told_from_what_only_built_it() {
    let sbom = sbom();
    let scope = |name: &str| {
        sbom.components
            .iter()
            .find(|each| each.name == name)
            .and_then(|each| each.scope)
    };
    for (name, expected) in [
        ("tsunaro-agent", Some("required")),
        ("tsunaro-controller", Some("required")),
        // Of the agent, and of the controller.
        ("tsunaro-dns", Some("required")),
        ("k8s-openapi", Some("required")),
        ("tokio", Some("required")),
        ("glibc", Some("required")),
        ("rust-std", Some("required")),
        ("clap_derive", Some("excluded")),
        ("syn", Some("excluded")),
        // Used by tests only.
        ("proptest", None),
        // Another program of the workspace.
        ("tsunaro-integration", None),
    ] {
        assert_eq!(scope(name), expected, "{name}");
    }
    let without: Vec<_> = sbom
        .components
        .iter()
        .filter(|each| each.purl.starts_with("pkg:cargo/") && each.licenses.is_empty())
        .map(|each| &each.name)
        .collect();
    assert!(without.is_empty(), "without a licence: {without:?}");
}

#[test]
fn lines_of_cargo_tree_are_read() {
    for (line, expected) in [
        ("serde v1.0.1", Some(("serde", "1.0.1"))),
        (
            "serde_derive v1.0.1 (proc-macro) (*)",
            Some(("serde_derive", "1.0.1")),
        ),
        (
            "tsunaro-dns v0.1.0 (/src/dns)",
            Some(("tsunaro-dns", "0.1.0")),
        ),
        (
            "zstd-sys v2.0.0+zstd.1.5.7",
            Some(("zstd-sys", "2.0.0+zstd.1.5.7")),
        ),
        ("[build-dependencies]", None),
        ("", None),
    ] {
        let expected = expected.map(|(name, version)| (name.to_owned(), version.to_owned()));
        assert_eq!(parse_tree_line(line).ok(), expected, "{line}");
    }
}

#[test]
fn the_serial_number_is_a_uuid_of_version_8_made_from_the_digest() {
    assert_eq!(
        serial_number(DIGEST).unwrap(),
        "urn:uuid:00112233-4455-8677-8899-aabbccddeeff"
    );
    assert!(serial_number("sha256:0011").is_err());
    assert!(serial_number("sha512:00").is_err());
}
