//! What to do about tailscaled: a pure function of what is wanted, what was observed and what was
//! tried before.

use std::collections::BTreeSet;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};

use crate::tailnet::{AuthKey, Backend, Prefs};

/// Between two login attempts with the same key (a control server limits registrations).
pub const LOGIN_RETRY: Duration = Duration::from_secs(30);

/// What the config asks of tailscaled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// The exact set to advertise, sorted; None: routes are not ours.
    pub routes: Option<Vec<Ipv4Net>>,
    /// The key in the key file at present.
    pub key: Option<AuthKey>,
}

/// What tailscaled showed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Its state.
    pub backend: Backend,
    /// Its preferences.
    pub prefs: Prefs,
    /// Its health warnings.
    pub health: Vec<String>,
    /// What the control server said against the last login attempt, if it was refused.
    pub login_error: Option<String>,
}

/// What was done about the login so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginMemory {
    /// The last key given to tailscaled, and when (time since the agent's start).
    attempt: Option<(AuthKey, Duration)>,
    /// The content of the key file when the node was first seen running: such a key has done
    /// its work, or was never needed.
    beside_running: Option<Option<AuthKey>>,
}

/// One write to tailscaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Replace the advertised routes by this sorted set.
    SetRoutes(Vec<Ipv4Net>),
    /// Start with this key and ask for a login, since there is none.
    LogIn(AuthKey),
    /// Start with this new key while logged in; the node stays the same.
    LogInAgain(AuthKey),
}

/// Where the login stands, for the status report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// Logged in, or on the way without needing us.
    NotNeeded,
    /// Needed, and there is no key to try.
    NoKey,
    /// Needed, and asked for with the present key.
    Tried,
    /// Needed, and refused with the present key.
    Refused,
    /// Needed, and about to be tried.
    Pending,
}

/// The next write, if any. At most one at a time: its outcome is observed before the next plan.
///
/// `now` is the time since the agent's start. The plan is empty right after its own apply.
pub fn plan(
    desired: &Desired,
    observed: &Observed,
    memory: &LoginMemory,
    now: Duration,
) -> Option<Action> {
    match observed.backend {
        Backend::NeedsLogin => {
            let key = desired.key.as_ref()?;
            memory
                .may_try(key, observed, now)
                .then(|| Action::LogIn(key.clone()))
        }
        Backend::Running => {
            if let Some(key) = desired
                .key
                .as_ref()
                .filter(|key| memory.is_new_while_running(key))
            {
                return Some(Action::LogInAgain(key.clone()));
            }
            let wanted = desired.routes.as_ref()?;
            (!advertises(&observed.prefs, wanted)).then(|| Action::SetRoutes(wanted.clone()))
        }
        // A write in these states is lost or refused; the change to Running brings us back here.
        Backend::NoState
        | Backend::InUseOtherUser
        | Backend::NeedsMachineAuth
        | Backend::Stopped
        | Backend::Starting => None,
    }
}

/// Where the login stands.
pub fn login_state(desired: &Desired, observed: &Observed, memory: &LoginMemory) -> LoginState {
    match (observed.backend, &desired.key) {
        (Backend::NeedsLogin, None) => LoginState::NoKey,
        (Backend::NeedsLogin, Some(key)) => match &memory.attempt {
            Some((tried, _)) if tried == key && observed.login_error.is_some() => {
                LoginState::Refused
            }
            Some((tried, _)) if tried == key => LoginState::Tried,
            _ => LoginState::Pending,
        },
        _ => LoginState::NotNeeded,
    }
}

/// True when the daemon advertises exactly this set.
pub fn advertises(prefs: &Prefs, wanted: &[Ipv4Net]) -> bool {
    if !prefs.unreadable_routes.is_empty() {
        return false;
    }
    let have: BTreeSet<IpNet> = prefs.advertise_routes.iter().copied().collect();
    let want: BTreeSet<IpNet> = wanted.iter().copied().map(IpNet::V4).collect();
    have == want
}

impl LoginMemory {
    /// Notes that a key was given to tailscaled.
    pub fn tried(&mut self, key: AuthKey, now: Duration) {
        self.attempt = Some((key, now));
    }

    /// Notes an observation: a key found beside a running node is not for use.
    pub fn observe(&mut self, desired: &Desired, observed: &Observed) {
        if observed.backend == Backend::Running && self.beside_running.is_none() {
            self.beside_running = Some(desired.key.clone());
        }
    }

    fn may_try(&self, key: &AuthKey, observed: &Observed, now: Duration) -> bool {
        match &self.attempt {
            Some((tried, at)) if tried == key => {
                // tailscaled goes on by itself until the control server refuses the key.
                observed.login_error.is_some() && now.saturating_sub(*at) >= LOGIN_RETRY
            }
            _ => true,
        }
    }

    fn is_new_while_running(&self, key: &AuthKey) -> bool {
        let tried = self.attempt.as_ref().is_some_and(|(tried, _)| tried == key);
        let beside = self.beside_running.as_ref();
        !tried && beside.is_some_and(|first| first.as_ref() != Some(key))
    }
}

#[cfg(test)]
mod tests;
