//! The seam between answering and asking upstreams.
//!
//! The types are the forwarder's; the server needs no more of it than [`Resolve`], which tests
//! replace.

use std::future::Future;

use tsunaro_model::name::DnsName;

use crate::forward::Forwarder;
pub use crate::forward::{
    CachedWire, ClientTransport, ExtendedError, Failure, Forwarded, Opener, Question,
};

/// Asks the upstreams of extra zones. Dropping a future of it must be harmless.
pub trait Resolve: Send + Sync + 'static {
    /// Answers without waiting, if it can. None: only [`Resolve::resolve`] can tell.
    fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>>;

    /// A fresh answer from the cache in wire format, for a key of the cache and the question
    /// section as sent. None: [`Resolve::resolve_from_cache`] can tell.
    fn find_wire(&self, key: &[u8], question: &[u8]) -> Option<CachedWire> {
        let _ = (key, question);
        None
    }

    /// What a thread may ask upstreams with by itself.
    fn opener(&self) -> Option<Opener> {
        None
    }

    /// Answers a question for a name in the extra zone with apex `zone`.
    fn resolve(
        &self,
        zone: &DnsName,
        question: &Question,
    ) -> impl Future<Output = Result<Forwarded, Failure>> + Send;
}

impl Resolve for Forwarder {
    fn resolve_from_cache(&self, question: &Question) -> Option<Result<Forwarded, Failure>> {
        Self::resolve_from_cache(self, question)
    }

    fn find_wire(&self, key: &[u8], question: &[u8]) -> Option<CachedWire> {
        Self::find_wire(self, key, question)
    }

    fn opener(&self) -> Option<Opener> {
        Some(Self::opener(self))
    }

    async fn resolve(&self, zone: &DnsName, question: &Question) -> Result<Forwarded, Failure> {
        Self::resolve(self, zone, question).await
    }
}
