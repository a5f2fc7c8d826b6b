//! The signals that we pass on, and the one that says a child ended.

use std::io;

use futures::future::select_all;
use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that the child gets when we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forwarded {
    Terminate,
    Interrupt,
    Hangup,
    Quit,
    User1,
    User2,
}

impl Forwarded {
    pub(super) const ALL: [Self; 6] = [
        Self::Terminate,
        Self::Interrupt,
        Self::Hangup,
        Self::Quit,
        Self::User1,
        Self::User2,
    ];

    /// It asks us to end, too. SIGQUIT is not among them: a Go program answers it with the stacks
    /// of its goroutines and ends, and whoever asked for these wants it back.
    pub(super) const fn stops(self) -> bool {
        matches!(self, Self::Terminate | Self::Interrupt)
    }

    pub(super) const fn signal(self) -> Number {
        match self {
            Self::Terminate => Number::SIGTERM,
            Self::Interrupt => Number::SIGINT,
            Self::Hangup => Number::SIGHUP,
            Self::Quit => Number::SIGQUIT,
            Self::User1 => Number::SIGUSR1,
            Self::User2 => Number::SIGUSR2,
        }
    }

    pub(super) const fn number(self) -> i32 {
        self.signal() as i32
    }
}

/// The signals that are ours from now on.
pub(super) struct Signals {
    forwarded: Vec<(Forwarded, Signal)>,
    child: Signal,
}

/// What a signal tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Pass it on.
    Forward(Forwarded),
    /// Some children ended, or were stopped or continued.
    Children,
}

impl Signals {
    /// Takes them over. A child started later has its own, with the default actions.
    ///
    /// # Errors
    /// When the handlers cannot be set.
    pub(super) fn new() -> io::Result<Self> {
        let forwarded = Forwarded::ALL
            .into_iter()
            .map(|each| Ok((each, signal(SignalKind::from_raw(each.number()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            forwarded,
            child: signal(SignalKind::child())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Heard {
        let forwarded = select_all(self.forwarded.iter_mut().map(|(each, stream)| {
            Box::pin(async {
                stream.recv().await;
                *each
            })
        }));
        tokio::select! {
            // A child that has ended first: it gets no more signals.
            biased;
            _ = self.child.recv() => Heard::Children,
            (signal, ..) = forwarded => Heard::Forward(signal),
        }
    }
}
