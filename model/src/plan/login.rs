//! When a key is given to tailscaled: once, and again only with a reason.

use std::time::Duration;

use super::{Action, Desired, Next, Observed};
use crate::tailnet::{AuthKey, Backend};

/// Between two login attempts with the same key (a control server limits registrations).
pub const LOGIN_RETRY: Duration = Duration::from_secs(30);

/// What was done about the login so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginMemory {
    attempt: Option<Attempt>,
    /// The content of the key file when the node was first seen running: such a key has done
    /// its work, or was never needed.
    beside_running: Option<Option<AuthKey>>,
}

/// A key given to tailscaled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    key: AuthKey,
    at: Duration,
    /// It led to a login, so that a login that is needed again was lost.
    succeeded: bool,
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
    /// Needed because the node is expired at the control server, which no key mends.
    Expired,
    /// Needed, and about to be tried.
    Pending,
}

/// Where the login stands.
pub fn login_state(desired: &Desired, observed: &Observed, memory: &LoginMemory) -> LoginState {
    if observed.backend != Backend::NeedsLogin {
        return LoginState::NotNeeded;
    }
    let tried = memory.attempt.as_ref().map(|attempt| &attempt.key);
    match &desired.key {
        Some(key) if tried == Some(key) && observed.login_error.is_some() => LoginState::Refused,
        _ if observed.expired => LoginState::Expired,
        None => LoginState::NoKey,
        Some(key) if tried == Some(key) && !memory.was_through() => LoginState::Tried,
        Some(_) => LoginState::Pending,
    }
}

impl LoginMemory {
    /// The last attempt led to a login, which was lost since.
    fn was_through(&self) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|attempt| attempt.succeeded)
    }

    pub(super) fn tried(&mut self, key: AuthKey, now: Duration) {
        self.attempt = Some(Attempt {
            key,
            at: now,
            succeeded: false,
        });
    }

    pub(super) fn observe(&mut self, desired: &Desired, observed: &Observed, _now: Duration) {
        if observed.backend != Backend::Running {
            return;
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.succeeded = true;
        }
        if self.beside_running.is_none() {
            self.beside_running = Some(desired.key.clone());
        }
    }

    pub(super) fn next_login(&self, key: &AuthKey, observed: &Observed, now: Duration) -> Next {
        let known = |other: &AuthKey| other == key;
        if observed.expired {
            // A tagged node that is expired cannot log in with any key; one that was made for it
            // after the fact is tried all the same, once.
            let beside = self.beside_running.as_ref().and_then(Option::as_ref);
            let used = self.attempt.as_ref().map(|attempt| &attempt.key).or(beside);
            if used.is_none_or(known) {
                return Next::Nothing;
            }
        }
        match &self.attempt {
            // tailscaled goes on by itself, until the control server refuses the key or the login
            // that it led to is lost.
            Some(attempt) if known(&attempt.key) => {
                let again = observed.login_error.is_some() || attempt.succeeded;
                let at = attempt.at + LOGIN_RETRY;
                match (again, now >= at) {
                    (false, _) => Next::Nothing,
                    (true, false) => Next::Later(at),
                    (true, true) => Next::Write(Action::LogIn(key.clone())),
                }
            }
            _ => Next::Write(Action::LogIn(key.clone())),
        }
    }

    pub(super) fn is_new_while_running(&self, key: &AuthKey) -> bool {
        let tried = self
            .attempt
            .as_ref()
            .is_some_and(|attempt| attempt.key == *key);
        let beside = self.beside_running.as_ref();
        !tried && beside.is_some_and(|first| first.as_ref() != Some(key))
    }
}
