//! `cargo xtask node`: the Kubernetes node of the tests, for a person to play with.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use tsunaro_integration::kube::{BUSYBOX, Held, end_start, hold, holder, remove_killed};
use tsunaro_integration::{Wait, packages};

#[derive(Debug, Args)]
pub(crate) struct Node {
    /// The node's name, for more than one at a time.
    #[arg(long, default_value = "default")]
    name: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a node, and leave it running.
    Up,
    /// End the node, without a trace.
    Down,
    /// Run kubectl against the node.
    Kubectl {
        /// kubectl's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Load an image, an OCI archive, into the node; Pods need `imagePullPolicy: Never`.
    Import {
        /// The archive.
        archive: PathBuf,
    },
    /// Be the process that holds a node.
    #[command(hide = true)]
    Hold,
}

pub(crate) fn run(node: Node) -> Result<ExitCode> {
    let Node { name, action } = node;
    match action {
        Action::Up => up(&name)?,
        Action::Down => {
            match (Held::find(&name)?, holder(&name)?) {
                (Some(node), _) => node.end()?,
                // `up` was ended before its node was there.
                (None, Some(pid)) => end_start(&name, pid)?,
                // Its holder was killed: what has no process is left of it.
                (None, None) if remove_killed(&name)? => {}
                (None, None) => bail!(absent(&name)),
            }
            remove_log(&name)?;
            println!("The node `{name}` is gone.");
        }
        Action::Kubectl { args } => {
            let status = find(&name)?
                .kubectl(&args)
                .status()
                .context("run kubectl")?;
            return Ok(status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1)
                .into());
        }
        Action::Import { archive } => {
            let archive = archive
                .canonicalize()
                .with_context(|| format!("{}", archive.display()))?;
            find(&name)?.handle().import_image(&archive)?;
            println!("Loaded {}.", archive.display());
        }
        Action::Hold => hold(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<Held> {
    match (Held::find(name)?, holder(name)?) {
        (Some(node), _) => Ok(node),
        (None, Some(pid)) => bail!(starting(name, pid)),
        (None, None) => bail!(absent(name)),
    }
}

fn absent(name: &str) -> String {
    format!(
        "no node `{name}` runs: `cargo xtask node{} up` starts one",
        option(name)
    )
}

fn starting(name: &str, pid: i32) -> String {
    format!(
        "the node `{name}` is being started by process {pid}: its log is {}; `cargo xtask node{} \
         down` ends it",
        log_path(name).display(),
        option(name)
    )
}

/// The option that names the node, where it needs one.
fn option(name: &str) -> String {
    match name {
        "default" => String::new(),
        name => format!(" --name {name}"),
    }
}

fn up(name: &str) -> Result<()> {
    if name.is_empty()
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    {
        bail!("a node's name is made of letters, digits and hyphens");
    }
    packages::install()?;
    if Held::find(name)?.is_some() {
        bail!(
            "the node `{name}` runs already, perhaps somebody else's: `cargo xtask node{} down` ends it, and \
             `cargo xtask node --name ANOTHER up` starts another one",
            option(name)
        );
    }
    if let Some(pid) = holder(name)? {
        bail!(starting(name, pid));
    }
    let log_path = log_path(name);
    std::fs::create_dir_all(log_path.parent().context("a log lies in a directory")?)?;
    let log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
    // A session of its own: neither this terminal's end nor its Ctrl-C reaches it.
    let mut holder = Command::new("setsid")
        .arg(std::env::current_exe()?)
        .args(["node", "--name", name, "hold"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("start the holder")?;
    let mut shown = 0;
    // A cold build takes its ten minutes.
    let started = Wait::new("the node to start", Duration::from_secs(1800))
        .every(Duration::from_millis(100))
        .until(|| {
            shown = show(&log_path, shown)?;
            if let Some(status) = holder.try_wait()? {
                return Ok(Some(Err(status)));
            }
            Ok(Held::find(name)?.map(Ok))
        })?;
    let node = match started {
        Ok(node) => node,
        Err(status) => {
            show(&log_path, shown)?;
            // It is another's, where two began at once.
            if self::holder(name)?.is_none() {
                remove_log(name)?;
            }
            bail!("the node did not start: its holder ended with {status}");
        }
    };
    let option = option(name);
    println!(
        "The node `{name}` runs. Images in it: {BUSYBOX}.\n\
         \x20 cargo xtask node{option} kubectl get pods -A\n\
         \x20 cargo xtask node{option} import image.tar\n\
         \x20 ip netns exec {} COMMAND      with KUBECONFIG={}\n\
         \x20 logs: {}/*.log\n\
         \x20 cargo xtask node{option} down",
        node.namespace(),
        node.kubeconfig().display(),
        node.dir().display()
    );
    Ok(())
}

/// Shows what the log has gained since `from`; gives its new length.
fn show(log: &Path, from: u64) -> Result<u64> {
    let mut file = match File::open(log) {
        // `down` takes it away; the holder's end tells the rest.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(from),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    std::io::stderr().write_all(&text)?;
    Ok(from + u64::try_from(text.len())?)
}

fn log_path(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/tsunaro-lab/node-{name}.log"))
}

fn remove_log(name: &str) -> Result<()> {
    match std::fs::remove_file(log_path(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
