//! Names written so far, to point back to.

use tsunaro_model::name::parent;

/// The highest offset that 14 bits can point to.
const MAX_POINTER: usize = 0x3fff;

/// Names that stand in the message, in wire format.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Written>);

#[derive(Debug)]
struct Written {
    start: usize,
    wire: Box<[u8]>,
    /// Octets that stand there as they are; a pointer stands for the rest.
    literal: usize,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Remembers a name whose first `literal` octets stand at `start`.
    pub(super) fn add(&mut self, start: usize, wire: &[u8], literal: usize) {
        if literal > 1 && start <= MAX_POINTER {
            self.0.push(Written {
                start,
                wire: wire.into(),
                literal,
            });
        }
    }

    /// The longest suffix of `wire` that stands in the message: how many octets come before it,
    /// and where it is.
    pub(super) fn find(&self, wire: &[u8]) -> Option<(usize, u16)> {
        suffixes(wire).find_map(|suffix| {
            let target = self
                .0
                .iter()
                .find_map(|written| written.offset_of(suffix))?;
            Some((wire.len() - suffix.len(), target))
        })
    }
}

impl Written {
    fn offset_of(&self, suffix: &[u8]) -> Option<u16> {
        let at = self.wire.len().checked_sub(suffix.len())?;
        if at >= self.literal || self.start + at > MAX_POINTER {
            return None;
        }
        // By whole labels: the same octets may also lie inside a label. Length octets are below
        // 64 and so never taken for letters.
        suffixes(&self.wire)
            .any(|own| own.len() == suffix.len() && own.eq_ignore_ascii_case(suffix))
            .then(|| u16::try_from(self.start + at).ok())
            .flatten()
    }
}

/// A name and its ancestors without the root, which is shorter than a pointer.
fn suffixes(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(wire), |wire| parent(wire)).filter(|wire| wire.len() > 1)
}
