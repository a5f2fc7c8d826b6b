//! Reads and writes the lease, and tells who works.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::machine::{Do, Limits, Machine, Seen};
use crate::cluster::failure::words;
use crate::reconcile::marks::MANAGER;

/// Whether this process works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// Another one does, or nobody knows.
    Follows,
    /// This one does, until told otherwise, and not after this moment.
    Leads {
        /// None: for ever.
        until: Option<Instant>,
    },
}

impl Term {
    /// Whether this process works at `now`: a process that was stopped for a while hears of the end of
    /// its term late.
    pub fn holds(self, now: Instant) -> bool {
        match self {
            Self::Follows => false,
            Self::Leads { until } => until.is_none_or(|until| now < until),
        }
    }
}

/// Keeps the lease.
pub struct Keeper {
    api: Api<Lease>,
    name: String,
    machine: Machine,
    started: Instant,
    term: watch::Sender<Term>,
    trouble: Option<String>,
    holder: Option<String>,
}

impl Keeper {
    /// A keeper that knows nothing yet, and what it will tell.
    pub fn new(
        client: Client,
        namespace: &str,
        name: String,
        me: String,
        limits: Limits,
    ) -> (Self, watch::Receiver<Term>) {
        let (term, receiver) = watch::channel(Term::Follows);
        let keeper = Self {
            api: Api::namespaced(client, namespace),
            name,
            machine: Machine::new(me, limits),
            started: Instant::now(),
            term,
            trouble: None,
            holder: None,
        };
        (keeper, receiver)
    }

    /// Tries to get the lease and to keep it, for ever: not before everything is `known`, for another may be
    /// able to work meanwhile.
    ///
    /// # Errors
    /// Who tells what is known has ended.
    pub async fn run(mut self, mut known: watch::Receiver<bool>) -> anyhow::Result<()> {
        known.wait_for(|known| *known).await?;
        loop {
            let limits = self.machine.limits();
            // The try ends with the term: what hangs is no reason to go on working.
            let left = self.machine.works_for(self.now());
            let turn = timeout(left.unwrap_or(limits.renew_deadline), self.turn()).await;
            match turn {
                Ok(Ok(())) => self.recovered(),
                Ok(Err(why)) => self.troubled(why),
                Err(_) => self.troubled("no answer in time".to_owned()),
            }
            self.tell();
            let left = self.machine.works_for(self.now());
            sleep(left.map_or(limits.retry, |left| left.min(limits.retry))).await;
            self.tell();
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        let failed = |error: &kube::Error| words(error);
        let live = self.api.get_opt(&self.name).await.map_err(|e| failed(&e))?;
        let seen = live.as_ref().map(seen);
        let began = self.now();
        let act = self.machine.read(seen.as_ref(), began);
        self.told_of(seen.and_then(|seen| seen.holder));
        let ours = self.spec(live.as_ref(), act);
        let by_us = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let written = match (act, live) {
            (Do::Follow, _) => return Ok(()),
            (_, None) => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.name.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: Some(ours),
                };
                self.api.create(&by_us, &lease).await
            }
            // With the version that was read: of two that take it one fails.
            (_, Some(mut lease)) => {
                lease.spec = Some(ours);
                self.api.replace(&self.name, &by_us, &lease).await
            }
        };
        match written {
            Ok(_) => {
                self.machine.wrote(began);
                self.told_of(Some(self.machine.me().to_owned()));
                Ok(())
            }
            // Another was faster; the next turn sees who.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    fn spec(&self, live: Option<&Lease>, act: Do) -> LeaseSpec {
        let now = MicroTime(k8s_openapi::jiff::Timestamp::now());
        let before = live
            .and_then(|lease| lease.spec.clone())
            .unwrap_or_default();
        let seconds = self.machine.limits().duration.as_secs();
        let changes = before.lease_transitions.unwrap_or(0) + i32::from(act == Do::Take);
        LeaseSpec {
            holder_identity: Some(self.machine.me().to_owned()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: match act {
                Do::Renew => before.acquire_time,
                Do::Create | Do::Take | Do::Follow => Some(now.clone()),
            },
            renew_time: Some(now),
            lease_transitions: Some(changes),
            ..before
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn tell(&self) {
        let term = match self.machine.works_for(self.now()) {
            Some(left) => Term::Leads {
                until: Some(Instant::now() + left),
            },
            None => Term::Follows,
        };
        self.term
            .send_if_modified(|before| std::mem::replace(before, term) != term);
    }

    /// Says once who holds it.
    fn told_of(&mut self, holder: Option<String>) {
        if holder.is_some() && holder != self.holder {
            let name = holder.as_deref().unwrap_or_default();
            tracing::info!(
                holder = name,
                ours = name == self.machine.me(),
                "The lease is held"
            );
            self.holder = holder;
        }
    }

    fn troubled(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!(lease = %self.name, error = %why, "The lease cannot be kept; this is tried again");
            self.trouble = Some(why);
        }
    }

    fn recovered(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!(lease = %self.name, "The lease is kept again");
        }
    }
}

/// Gives the lease back, so that another need not wait for its end; what fails is no matter.
pub(crate) async fn give_back(client: Client, namespace: &str, name: &str, me: &str) {
    let api: Api<Lease> = Api::namespaced(client, namespace);
    let giving = async {
        let mut lease = api.get_opt(name).await.ok()??;
        let spec = lease.spec.as_mut()?;
        if spec.holder_identity.as_deref() != Some(me) {
            return None;
        }
        spec.holder_identity = None;
        api.replace(name, &PostParams::default(), &lease).await.ok()
    };
    let _ = timeout(Duration::from_secs(2), giving).await;
}

fn seen(lease: &Lease) -> Seen {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let renewed = spec.and_then(|spec| spec.renew_time.as_ref());
    Seen {
        holder: holder.filter(|holder| !holder.is_empty()),
        renewed: renewed.map(|at| at.0.to_string()).unwrap_or_default(),
        duration: Duration::from_secs(seconds.unwrap_or(15).clamp(1, 3600)),
    }
}
