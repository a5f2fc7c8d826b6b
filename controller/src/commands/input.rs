//! Files of custom resources, and printing what is found in them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tsunaro_model::finding::Finding;
use tsunaro_model::gateway::{Located, Parsed, check_together, parse};

/// What a path of `-` is called in findings.
const STDIN: &str = "<stdin>";

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
    /// Reads and parses all of them.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self> {
        if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
            bail!("standard input (`-`) can be read once only");
        }
        let mut files = Self::default();
        for path in paths {
            let (name, text) = read(path)?;
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
        files.compare();
        Ok(files)
    }

    /// Adds what only shows when all objects are seen together.
    fn compare(&mut self) {
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

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read(path: &Path) -> Result<(String, String)> {
    if is_stdin(path) {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input as UTF-8")?;
        return Ok((STDIN.to_owned(), text));
    }
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((path.display().to_string(), text))
}
