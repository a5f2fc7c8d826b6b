use std::path::Path;

use cargo_metadata::MetadataCommand;

use super::*;

/// A file of the workspace's root.
fn read(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_context_of_the_containerfile_holds_every_member_of_the_workspace() {
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let ignore = read(".dockerignore");
    for package in metadata.workspace_packages() {
        let dir = package.manifest_path.parent().unwrap();
        let dir = dir.strip_prefix(&metadata.workspace_root).unwrap();
        let line = format!("!{dir}");
        assert!(
            ignore.lines().any(|each| each == line),
            ".dockerignore needs the line {line}: cargo reads the manifest of every member"
        );
    }
}

#[test]
fn the_containerfile_builds_with_the_versions_and_programs_of_cargo_xtask_image() {
    let containerfile = read("Containerfile");
    let metadata = MetadataCommand::new().no_deps().exec().unwrap();
    let rust = metadata.packages[0].rust_version.clone().unwrap();
    for part in [
        format!("rust:{}.{}-bookworm", rust.major, rust.minor),
        format!("cargo-auditable --version {}", build::AUDITABLE_VERSION),
        format!("for program in {}; do", PROGRAMS.join(" ")),
        format!("title=\"{TITLE}\""),
        format!("description=\"{DESCRIPTION}\""),
    ] {
        assert!(containerfile.contains(&part), "{part}");
    }
}
