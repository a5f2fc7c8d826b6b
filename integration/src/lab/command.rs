//! A command to run on a node of the lab.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The uid and gid of programs without privileges: `nobody`, as in the Pod.
pub const UNPRIVILEGED_UID: u32 = 65534;

/// A program with its arguments, and how to run it.
#[derive(Debug, Clone)]
pub struct Cmd {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) name: Option<String>,
    pub(crate) unprivileged: bool,
    pub(crate) timeout: Duration,
}

impl Cmd {
    /// A command that runs as root, with an environment of PATH, HOME and LANG.
    #[must_use]
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            name: None,
            unprivileged: false,
            timeout: Duration::from_secs(60),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// One environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The name of its log, `<name>.log`; by default the program's.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Runs it as uid and gid 65534 without groups, without capabilities and
    /// without a way to gain any, as a container of a restricted Pod.
    #[must_use]
    pub fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// How long [`Node::run`](super::Node::run) lets it run; 60 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn log_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            self.program.file_name().map_or_else(
                || "command".into(),
                |name| name.to_string_lossy().into_owned(),
            )
        })
    }

    pub(crate) fn display(&self) -> String {
        let mut text = self.program.display().to_string();
        for arg in &self.args {
            text.push(' ');
            text.push_str(&arg.to_string_lossy());
        }
        text
    }
}

impl<T: AsRef<str>, const N: usize> From<[T; N]> for Cmd {
    /// A command line in words; the first is the program.
    fn from(words: [T; N]) -> Self {
        let mut words = words.iter().map(AsRef::as_ref);
        Self::new(words.next().unwrap_or_default()).args(words)
    }
}
