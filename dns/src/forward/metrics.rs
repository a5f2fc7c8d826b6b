//! Counters of the forwarder.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters since the start of the process.
        #[derive(Debug, Default)]
        pub struct ForwardMetrics {
            $(pub(super) $name: Counter,)+
        }

        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ForwardCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl ForwardMetrics {
            /// Reads every counter; each on its own, not all at one instant.
            pub fn snapshot(&self) -> ForwardCounts {
                ForwardCounts { $($name: self.$name.get(),)+ }
            }
        }
    };
}

counters! {
    /// Questions that clients brought.
    questions,
    /// Answered by an answer in the cache.
    cache_hits,
    /// Answered by a failure in the cache.
    failure_hits,
    /// Waited for another client's query of the same question.
    joined,
    /// Asked the upstreams.
    asked,
    /// Answered stale because every upstream failed.
    stale,
    /// Turned away because too many were in flight.
    overloaded,
    /// Failed: upstreams were silent.
    timeouts,
    /// Failed: upstreams could not be reached.
    network_errors,
    /// Failed: upstreams answered, but not usefully.
    upstream_errors,
    /// Answered with TC because no upstream gave the whole answer over TCP.
    truncated,
    /// Queries sent over UDP, without resends.
    udp_queries,
    /// Queries sent a second time.
    resends,
    /// Queries repeated over TCP.
    tcp_queries,
    /// Queries to a further upstream because the one before was slow.
    hedges,
    /// Datagrams that were not the reply waited for.
    ignored_replies,
    /// Failed: no socket could be opened.
    no_socket,
    /// Answers that came too late for the client and went to the cache.
    late_answers,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
