//! Did tailscaled save what it was told? It answers a change with success also when its state
//! store cannot be written; only after a restart the old prefs are back.

use ipnet::IpNet;

use super::Observed;
use crate::tailnet::Backend;

/// Sets of routes that are remembered, newest last.
const MAX_SETS: usize = 4;

/// What a restart of tailscaled brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedMemory {
    /// The sets of routes that tailscaled was seen with, each other than the one before.
    sets: Vec<Vec<IpNet>>,
    /// The connection was lost and the prefs were not seen since.
    lost: bool,
    unsaved: bool,
}

impl SavedMemory {
    /// tailscaled came back from its last restart with routes older than those it had.
    pub fn is_unsaved(&self) -> bool {
        self.unsaved
    }

    pub(super) fn lost(&mut self) {
        self.lost = true;
    }

    pub(super) fn observe(&mut self, observed: &Observed) {
        match observed.backend {
            Backend::Stopped | Backend::Starting | Backend::Running => {}
            // The prefs of a profile that is not loaded, or of none.
            Backend::NeedsLogin => {
                *self = Self::default();
                return;
            }
            Backend::NoState | Backend::InUseOtherUser | Backend::NeedsMachineAuth => return,
        }
        let mut routes = observed.prefs.advertise_routes.clone();
        routes.sort_unstable();
        if self.lost {
            self.lost = false;
            let older = self.sets.split_last().map_or(&[][..], |(_, older)| older);
            self.unsaved = self.sets.last() != Some(&routes) && older.contains(&routes);
        }
        if self.sets.last() != Some(&routes) {
            self.sets.push(routes);
            let surplus = self.sets.len().saturating_sub(MAX_SETS);
            self.sets.drain(..surplus);
        }
    }
}
