//! What a program says of itself: whether it needs a loader, and what it was built from.

use std::io::Read;

use anyhow::{Context, Result};
use flate2::read::ZlibDecoder;
use object::elf::PT_INTERP;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection};
use serde::Deserialize;

/// Where cargo-auditable puts its data: zlib over JSON (its PARSING.md).
const AUDIT_SECTION: &str = ".dep-v0";

/// More than this is no list of crates.
const MAX_AUDIT: u64 = 8 << 20;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The loader of a dynamic program.
    pub(super) interpreter: Option<String>,
    /// The crates in the auditable data.
    pub(super) audited: Vec<String>,
}

#[derive(Deserialize)]
struct Audit {
    packages: Vec<AuditedPackage>,
}

#[derive(Deserialize)]
struct AuditedPackage {
    name: String,
}

/// Reads a 64-bit ELF file.
pub(super) fn inspect(bytes: &[u8]) -> Result<Found> {
    let file = ElfFile64::<Endianness>::parse(bytes).context("it is no 64-bit ELF file")?;
    let endian = file.endian();
    let mut interpreter = None;
    for header in file.elf_program_headers() {
        if header.p_type(endian) == PT_INTERP {
            let path = header
                .data(endian, bytes)
                .ok()
                .context("the interpreter lies outside of the file")?;
            interpreter = Some(
                String::from_utf8_lossy(path)
                    .trim_end_matches('\0')
                    .to_owned(),
            );
        }
    }
    let audited = match file.section_by_name(AUDIT_SECTION) {
        None => Vec::new(),
        Some(section) => audited(section.data()?)?,
    };
    Ok(Found {
        interpreter,
        audited,
    })
}

fn audited(compressed: &[u8]) -> Result<Vec<String>> {
    let mut json = Vec::new();
    ZlibDecoder::new(compressed)
        .take(MAX_AUDIT)
        .read_to_end(&mut json)
        .context("the auditable data is not zlib")?;
    let Audit { packages } =
        serde_json::from_slice(&json).context("the auditable data is no list of packages")?;
    Ok(packages
        .into_iter()
        .map(|AuditedPackage { name }| name)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_names_its_loader() {
        // The test itself: built without +crt-static.
        let found = inspect(&std::fs::read("/proc/self/exe").unwrap()).unwrap();
        assert!(found.interpreter.unwrap().contains("/ld-linux"));
        assert!(found.audited.is_empty());
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert!(inspect(b"#!/bin/sh\n").is_err());
    }
}
