//! `crds`: the definitions as one stream or one file each.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tsunaro_controller::crd::{crds, to_yaml};

use crate::cli::CrdsArgs;

pub(crate) fn run(CrdsArgs { directory }: &CrdsArgs) -> Result<ExitCode> {
    for crd in crds() {
        let yaml = to_yaml(&crd).context("cannot write a definition as YAML")?;
        match directory {
            Some(directory) => {
                std::fs::create_dir_all(directory)
                    .with_context(|| format!("cannot make {}", directory.display()))?;
                let name = format!(
                    "{}.yaml",
                    crd.metadata
                        .name
                        .as_deref()
                        .unwrap_or(&crd.spec.names.plural)
                );
                let path = directory.join(name);
                std::fs::write(&path, yaml)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => write!(std::io::stdout().lock(), "---\n{yaml}")
                .context("cannot write the definitions")?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
