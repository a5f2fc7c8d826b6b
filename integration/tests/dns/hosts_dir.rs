//! A directory as kubelet mounts a ConfigMap: `hosts` → `..data/hosts`, and
//! `..data` → the newest of the directories beside it, swapped by a rename.

use std::fs::{File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::host_line;

/// A change of the hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// `put ADDRESS NAME`: the name's lines give way to this one, at the end.
    Put(String, String),
    /// `drop NAME`: without the name's lines.
    Drop(String),
    /// `garbage`: octets that are no text.
    Garbage,
    /// `empty`: a comment alone.
    Empty,
    /// `again`: the same content.
    Again,
}

/// Whether size and time of the file tell of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    New,
    Unseen,
}

impl Edit {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        Ok(match words {
            ["put", address, name] => Self::Put((*address).to_owned(), host_line(name)),
            ["drop", name] => Self::Drop(host_line(name)),
            ["garbage"] => Self::Garbage,
            ["empty"] => Self::Empty,
            ["again"] => Self::Again,
            _ => bail!("\"{}\" is no change of a hosts file", words.join(" ")),
        })
    }

    fn apply(&self, lines: &mut Vec<String>) -> Vec<u8> {
        let others = |name: &str, line: &String| line.split_whitespace().nth(1) != Some(name);
        match self {
            Self::Put(address, name) => {
                lines.retain(|line| others(name, line));
                lines.push(format!("{address} {name}"));
            }
            Self::Drop(name) => lines.retain(|line| others(name, line)),
            Self::Garbage => return (0..=255).cycle().take(4096).collect(),
            Self::Empty => return b"# no names\n".to_vec(),
            Self::Again => {}
        }
        text(lines)
    }
}

/// The mounted directory.
#[derive(Debug)]
pub(crate) struct HostsDir {
    dir: PathBuf,
    lines: Vec<String>,
    generation: u32,
}

impl HostsDir {
    /// Lays the directory, with the file if there are lines.
    pub(crate) fn lay(dir: &Path, lines: Option<Vec<String>>) -> Result<Self> {
        std::fs::create_dir(dir)?;
        let hosts = Self {
            dir: dir.to_owned(),
            lines: lines.clone().unwrap_or_default(),
            generation: 0,
        };
        if let Some(lines) = lines {
            hosts.write(&text(&lines))?;
            hosts.point()?;
            symlink("..data/hosts", dir.join("hosts"))?;
        }
        Ok(hosts)
    }

    /// Changes the file, all at once.
    pub(crate) fn swap(&mut self, edit: &Edit, stamp: Stamp) -> Result<()> {
        let old = self.dir.join("..data/hosts").canonicalize()?;
        let before = old.metadata()?;
        let content = edit.apply(&mut self.lines);
        self.generation += 1;
        let file = self.write(&content)?;
        if stamp == Stamp::Unseen {
            let new = File::options().write(true).open(&file)?;
            let times = FileTimes::new()
                .set_modified(before.modified()?)
                .set_accessed(before.accessed()?);
            new.set_times(times)?;
            let after = new.metadata()?;
            ensure!(after.len() == before.len(), "the sizes differ");
            ensure!(after.modified()? == before.modified()?, "the times differ");
        }
        self.point()?;
        let old = old.parent().context("no directory")?;
        std::fs::remove_dir_all(old).with_context(|| format!("remove {}", old.display()))
    }

    fn generation_name(&self) -> String {
        format!("..generation_{}", self.generation)
    }

    fn write(&self, content: &[u8]) -> Result<PathBuf> {
        let dir = self.dir.join(self.generation_name());
        std::fs::create_dir(&dir)?;
        let file = dir.join("hosts");
        std::fs::write(&file, content)?;
        Ok(file)
    }

    fn point(&self) -> Result<()> {
        let temporary = self.dir.join("..data_tmp");
        symlink(self.generation_name(), &temporary)?;
        std::fs::rename(temporary, self.dir.join("..data")).context("swap ..data")
    }
}

fn text(lines: &[String]) -> Vec<u8> {
    let mut text = lines.join("\n");
    text.push('\n');
    text.into_bytes()
}
