//! What to do about tailscaled: a pure function of what is wanted, what was observed and what was
//! tried before.

mod drift;
mod login;
mod saved;

use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};

pub use drift::{DriftMemory, HEAL_PAUSE};
pub use login::{LOGIN_RETRY, LoginMemory, LoginState, login_state};
pub use saved::SavedMemory;

use crate::tailnet::{AuthKey, Backend, Prefs, PrefsChange};

/// What the config asks of tailscaled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Desired {
    /// The exact set to advertise, sorted; None: neither routes nor prefs are ours.
    pub routes: Option<Vec<Ipv4Net>>,
    /// Masquerade what peers send to the site; counts only with routes.
    pub snat: bool,
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
    /// Connected to the control server.
    pub online: bool,
    /// The node key has expired, by time or by an administrator.
    pub expired: bool,
    /// What the control server said against the last login attempt, if it was refused.
    pub login_error: Option<String>,
}

/// What was done so far, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// About the login.
    pub login: LoginMemory,
    /// About the advertised routes.
    pub routes: DriftMemory<Vec<Ipv4Net>>,
    /// About the prefs of a gateway, by whether it is to masquerade.
    pub prefs: DriftMemory<bool>,
    /// About what a restart of tailscaled brought back.
    pub saved: SavedMemory,
    /// Since when it runs without the control server.
    offline_since: Option<Duration>,
    offline: bool,
}

/// Without the control server for so long, tailscaled has lost it; before, it is still connecting.
const OFFLINE: Duration = Duration::from_secs(10);

/// Why tailscaled does not take a write, by what a person does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Its config file locks the prefs.
    Locked,
    /// We are neither root nor its operator.
    NotOperator,
    /// Another reason, or no answer.
    Other,
}

/// A write that tailscaled did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What to do about it.
    pub kind: RefusalKind,
    /// What was said, with the fix.
    pub why: String,
}

/// One write to tailscaled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Replace the advertised routes by this sorted set.
    SetRoutes(Vec<Ipv4Net>),
    /// Put prefs right that keep a node from being a gateway.
    MendPrefs(PrefsChange),
    /// Start with this key and ask for a login, since there is none.
    LogIn(AuthKey),
    /// Start with this new key while logged in; the node stays the same.
    LogInAgain(AuthKey),
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing: all is as wanted, or nothing can be done now.
    Nothing,
    /// This write. Its outcome is observed before the next plan.
    Write(Action),
    /// A write that another writer undoes keeps its distance: plan again at this time.
    Later(Duration),
}

/// The next write, if any. `now` is the time since the agent's start. Right after its own apply
/// the plan is `Nothing`.
pub fn plan(desired: &Desired, observed: &Observed, memory: &Memory, now: Duration) -> Next {
    match observed.backend {
        Backend::NeedsLogin => match &desired.key {
            Some(key) => memory.login.next_login(key, observed, now),
            None => Next::Nothing,
        },
        Backend::Running => {
            if let Some(key) = desired.key.as_ref()
                && memory.login.is_new_while_running(key)
            {
                return Next::Write(Action::LogInAgain(key.clone()));
            }
            let Some(wanted) = &desired.routes else {
                return Next::Nothing;
            };
            let prefs = next_prefs(desired, observed, memory, now);
            if matches!(prefs, Next::Write(_)) || advertises(&observed.prefs, wanted) {
                return prefs;
            }
            match memory.routes.may_write(wanted, now) {
                Ok(()) => Next::Write(Action::SetRoutes(wanted.clone())),
                Err(at) => Next::Later(at),
            }
        }
        Backend::Stopped if desired.routes.is_some() => next_prefs(desired, observed, memory, now),
        // A write in these states is lost or refused; the change to Running brings us back here.
        Backend::NoState
        | Backend::InUseOtherUser
        | Backend::NeedsMachineAuth
        | Backend::Stopped
        | Backend::Starting => Next::Nothing,
    }
}

fn next_prefs(desired: &Desired, observed: &Observed, memory: &Memory, now: Duration) -> Next {
    let Some(change) = mending(&observed.prefs, desired.snat) else {
        return Next::Nothing;
    };
    match memory.prefs.may_write(&desired.snat, now) {
        Ok(()) => Next::Write(Action::MendPrefs(change)),
        Err(at) => Next::Later(at),
    }
}

/// True when the daemon advertises exactly this set.
pub fn advertises(prefs: &Prefs, wanted: &[Ipv4Net]) -> bool {
    if !prefs.unreadable_routes.is_empty() {
        return false;
    }
    let sorted = |mut nets: Vec<IpNet>| {
        nets.sort_unstable();
        nets.dedup();
        nets
    };
    let want = wanted.iter().copied().map(IpNet::V4).collect();
    sorted(prefs.advertise_routes.clone()) == sorted(want)
}

/// The change that makes these prefs fit for a gateway that masquerades or does not; None when
/// they are.
pub fn mending(prefs: &Prefs, snat: bool) -> Option<PrefsChange> {
    let Prefs {
        want_running,
        route_all,
        corp_dns,
        shields_up,
        exit_node,
        no_snat,
        ..
    } = prefs;
    let change = PrefsChange {
        advertise_routes: None,
        want_running: (!want_running).then_some(true),
        // Accepted routes go before the gateway's own connected networks.
        route_all: route_all.then_some(false),
        // The Pod's resolv.conf belongs to the cluster.
        corp_dns: corp_dns.then_some(false),
        shields_up: shields_up.then_some(false),
        no_exit_node: !exit_node.is_empty(),
        no_snat: (*no_snat == snat).then_some(!snat),
    };
    (change != PrefsChange::default()).then_some(change)
}

/// The command that makes the same change by hand.
pub fn mending_command(change: &PrefsChange) -> String {
    let PrefsChange {
        advertise_routes: _,
        want_running,
        route_all,
        corp_dns,
        shields_up,
        no_exit_node,
        no_snat,
    } = change;
    let mut flags = Vec::new();
    if route_all.is_some() {
        flags.push("--accept-routes=false");
    }
    if corp_dns.is_some() {
        flags.push("--accept-dns=false");
    }
    if shields_up.is_some() {
        flags.push("--shields-up=false");
    }
    if *no_exit_node {
        flags.push("--exit-node=");
    }
    match no_snat {
        Some(true) => flags.push("--snat-subnet-routes=false"),
        Some(false) => flags.push("--snat-subnet-routes=true"),
        None => {}
    }
    match (flags.is_empty(), want_running.is_some()) {
        (true, _) => "tailscale up".to_owned(),
        (false, false) => format!("tailscale set {}", flags.join(" ")),
        (false, true) => format!("tailscale set {} && tailscale up", flags.join(" ")),
    }
}

impl Memory {
    /// Notes an observation, before the plan that is made from it.
    pub fn observe(&mut self, desired: &Desired, observed: &Observed, now: Duration) {
        self.login.observe(desired, observed, now);
        self.saved.observe(observed);
        let offline = observed.backend == Backend::Running && !observed.online;
        self.offline_since = offline.then(|| self.offline_since.unwrap_or(now));
        self.offline = self
            .offline_since
            .is_some_and(|since| now >= since + OFFLINE);
        if observed.backend != Backend::Running {
            // What a login or a restart changed is nobody's drift.
            self.routes.forget();
            if observed.backend != Backend::Stopped {
                self.prefs.forget();
            }
            return;
        }
        if let Some(wanted) = &desired.routes {
            self.routes
                .observe(wanted, advertises(&observed.prefs, wanted), now);
            let fit = mending(&observed.prefs, desired.snat).is_none();
            self.prefs.observe(&desired.snat, fit, now);
        }
    }

    /// Notes a write that tailscaled took.
    pub fn written(&mut self, action: &Action, now: Duration) {
        match action {
            Action::SetRoutes(_) => self.routes.written(now),
            Action::MendPrefs(_) => self.prefs.written(now),
            Action::LogIn(key) | Action::LogInAgain(key) => self.login.tried(key.clone(), now),
        }
    }

    /// tailscaled runs, and has lost the control server.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// The connection to tailscaled was lost: it may come back with other prefs.
    pub fn lost(&mut self) {
        self.routes.forget();
        self.prefs.forget();
        self.saved.lost();
    }
}

#[cfg(test)]
mod tests;
