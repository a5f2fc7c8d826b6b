//! Files of custom resources, and printing what is found in them.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tsunaro_model::finding::{Finding, Position, Severity};
use tsunaro_model::gateway::{Located, Parsed, check_together, parse};

/// What a path of `-` is called in findings.
const STDIN: &str = "<stdin>";
/// The most that is read of one file: a cluster's thousand gateways with all their metadata have a
/// tenth of it.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Endings of the files that are read of a directory, as kubectl does.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The files of a command line, parsed.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Objects with the file that they are in.
    pub(crate) objects: Vec<(String, Located)>,
    /// Findings with the file that they are about.
    pub(crate) findings: Vec<(String, Finding)>,
    /// Objects of other groups.
    pub(crate) foreign: usize,
}

impl Files {
    /// Reads and parses all of them; of a directory, the files of YAML and JSON in it.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self> {
        let mut files = Self::default();
        for path in expand(paths, &mut files.findings)? {
            let (name, text) = read(&path)?;
            let Parsed {
                objects,
                foreign,
                findings,
            } = parse(&text);
            files.foreign += foreign;
            files
                .objects
                .extend(objects.into_iter().map(|object| (name.clone(), object)));
            files
                .findings
                .extend(findings.into_iter().map(|finding| (name.clone(), finding)));
        }
        Ok(files)
    }

    /// Adds what only shows when all objects are seen together.
    pub(crate) fn compare(&mut self) {
        let objects: Vec<&Located> = self.objects.iter().map(|(_, located)| located).collect();
        for (index, finding) in check_together(&objects) {
            let file = self.objects.get(index).map(|(file, _)| file.clone());
            self.findings.push((file.unwrap_or_default(), finding));
        }
    }

    /// True when something cannot be used.
    pub(crate) fn has_errors(&self) -> bool {
        self.findings.iter().any(|(_, finding)| finding.is_error())
    }

    /// All findings, one a line.
    pub(crate) fn print_findings(&self, to: &mut impl Write) -> Result<()> {
        for (file, finding) in &self.findings {
            writeln!(to, "{}", finding.in_file(file)).context("cannot write the findings")?;
        }
        Ok(())
    }
}

/// Refuses to read standard input for two of these.
pub(crate) fn one_stdin<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<()> {
    if paths.into_iter().filter(|path| is_stdin(path)).count() > 1 {
        bail!("standard input (`-`) can be read once only");
    }
    Ok(())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The files themselves; of what a directory has besides, the findings tell.
fn expand(paths: &[PathBuf], findings: &mut Vec<(String, Finding)>) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot_list = || format!("cannot list {}", path.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).with_context(cannot_list)? {
            let file = entry.with_context(cannot_list)?.path();
            let ending = file.extension().and_then(|ending| ending.to_str());
            if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                continue;
            }
            match std::fs::metadata(&file) {
                // Editors lock a file by such a link beside it.
                Err(error) if error.kind() == ErrorKind::NotFound && file.is_symlink() => {
                    findings.push((file.display().to_string(), leads_nowhere()));
                }
                // Nobody means a pipe by naming its directory.
                Ok(meta) if !meta.is_file() => {}
                _ => found.push(file),
            }
        }
        if found.is_empty() {
            bail!(
                "{} has no file that ends in .yaml, .yml or .json",
                path.display()
            );
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

fn leads_nowhere() -> Finding {
    Finding {
        severity: Severity::Warning,
        position: Position { line: 1, column: 1 },
        field: String::new(),
        what: "it is a link that leads nowhere, and left out".to_owned(),
        fix: "remove it, or put back what it leads to".to_owned(),
    }
}

fn read(path: &Path) -> Result<(String, String)> {
    let (name, bytes) = if is_stdin(path) {
        let bytes = all(std::io::stdin().lock()).context("cannot read standard input")?;
        (STDIN.to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        let bytes = File::open(path).map_err(anyhow::Error::from).and_then(all);
        let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
        (name, bytes)
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(_) => bail!("{name} is no text in UTF-8; save it as UTF-8"),
    }
}

fn all(from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len())? > MAX_BYTES {
        bail!("it is longer than {} MiB", MAX_BYTES / 1024 / 1024);
    }
    Ok(bytes)
}
