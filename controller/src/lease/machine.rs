//! What to do about the lease, from what was seen of it.

use std::time::Duration;

/// How long a lease is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nobody else takes the lease before it has not changed for so long.
    pub duration: Duration,
    /// A holder that has not renewed for so long stops working. Less than `duration`: the rest is for
    /// what it has under way.
    pub renew_deadline: Duration,
    /// Between two tries.
    pub retry: Duration,
}

impl Limits {
    /// Those of a lease of this duration: it is renewed five times before it is over, and the holder
    /// stops after two thirds, as other controllers have it (15 s, 10 s, 2 s of client-go; here 3 s).
    pub fn of(duration: Duration) -> Self {
        Self {
            duration,
            renew_deadline: duration * 2 / 3,
            retry: duration / 5,
        }
    }
}

/// A lease as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Who holds it; None if it was given back.
    pub holder: Option<String>,
    /// `renewTime` as it is written: only whether it changed matters.
    pub renewed: String,
    /// For how long its holder took it.
    pub duration: Duration,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// There is none: create it as ours.
    Create,
    /// Take it over.
    Take,
    /// Renew it.
    Renew,
    /// It is another's.
    Follow,
}

/// What one process knows of the lease. Time is that of its own monotonic clock, since any moment.
#[derive(Debug, Clone)]
pub struct Machine {
    me: String,
    limits: Limits,
    /// The lease and when it was seen to change last.
    last: Option<(Seen, Duration)>,
    /// When the last renewal that succeeded was begun: from then on the lease is ours for a while.
    renewed: Option<Duration>,
}

impl Machine {
    /// Nothing is known yet.
    pub fn new(me: String, limits: Limits) -> Self {
        Self {
            me,
            limits,
            last: None,
            renewed: None,
        }
    }

    /// What to do after the lease was read.
    pub fn read(&mut self, lease: Option<&Seen>, now: Duration) -> Do {
        let Some(lease) = lease else {
            self.renewed = None;
            return Do::Create;
        };
        let since = match &self.last {
            Some((last, since)) if last == lease => *since,
            _ => {
                self.last = Some((lease.clone(), now));
                now
            }
        };
        match &lease.holder {
            Some(holder) if *holder == self.me => Do::Renew,
            None => Do::Take,
            Some(_) => {
                self.renewed = None;
                if now.saturating_sub(since) >= lease.duration {
                    Do::Take
                } else {
                    Do::Follow
                }
            }
        }
    }

    /// A write of ours that was begun at `began` succeeded: the lease is ours.
    pub fn wrote(&mut self, began: Duration) {
        self.renewed = Some(began);
    }

    /// For how much longer this process may work.
    pub fn works_for(&self, now: Duration) -> Option<Duration> {
        let end = self.renewed? + self.limits.renew_deadline;
        end.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// The name by which this process holds it.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests;
