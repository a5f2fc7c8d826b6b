//! What `kubectl apply` of a directory says of each file in it.

use tsunaro_integration::lab::Output;

/// The outcome of one call.
pub(crate) struct Applied {
    /// What was said against each file; empty for those that were accepted.
    refusals: Vec<String>,
    stdout: String,
    stderr: String,
}

impl Applied {
    /// The name of the file with the object at this index; names sort as indices do.
    pub(crate) fn file_name(index: usize) -> String {
        format!("{index:04}.json")
    }

    /// Errors of several files come one after the other, each from its first line on; each names its
    /// file in that line.
    pub(crate) fn read(output: &Output, count: usize) -> Self {
        let names: Vec<String> = (0..count).map(Self::file_name).collect();
        let mut refusals = vec![String::new(); count];
        let mut current = None;
        for line in output.stderr.lines() {
            let named = names.iter().position(|name| line.contains(name.as_str()));
            current = named.or(current);
            if let Some(text) = current.and_then(|index| refusals.get_mut(index)) {
                text.push_str(line);
                text.push('\n');
            }
        }
        Self {
            refusals,
            stdout: output.stdout.clone(),
            stderr: output.stderr.clone(),
        }
    }

    /// What was said against the object at this index; empty when it was accepted.
    pub(crate) fn refusal(&self, index: usize) -> &str {
        self.refusals.get(index).map_or("", String::as_str)
    }

    /// The number of objects that were accepted: each has one line.
    pub(crate) fn accepted(&self) -> usize {
        self.stdout.lines().count()
    }

    /// Everything that kubectl wrote, for the message of a failed test.
    pub(crate) fn all(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }
}
