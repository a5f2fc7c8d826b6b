//! How long forwarded data lives (rules 56 and 57 of the DNS contract). All in seconds unless a
//! `Duration`.

use std::time::Duration;

/// Ceiling of positive TTLs.
const MAX_POSITIVE: u32 = 30;
/// Ceiling of negative TTLs.
const MAX_NEGATIVE: u32 = 10;
/// TTL of records served past their own (RFC 8767 §4).
pub(super) const STALE: u32 = 30;
/// For how long a failure is remembered (RFC 9520 §3.2 asks for at least one second).
pub(super) const FAILURE: Duration = Duration::from_secs(1);
/// How long after its arrival a positive answer may still be served stale.
pub(super) const MAX_STALE_AGE: Duration = Duration::from_secs(3600);

/// A TTL as received; with the top bit set it counts as zero (RFC 2181 §8).
fn received(ttl: u32) -> u32 {
    if i32::try_from(ttl).is_ok() { ttl } else { 0 }
}

/// The TTL of a positive record. Zero stays zero.
pub(super) fn positive(ttl: u32) -> u32 {
    received(ttl).min(MAX_POSITIVE)
}

/// The TTL of a negative answer by its SOA (RFC 2308 §5). Zero stays zero.
pub(super) fn negative(soa_ttl: u32, minimum: u32) -> u32 {
    received(soa_ttl).min(received(minimum)).min(MAX_NEGATIVE)
}

/// What is left of a TTL after `age`, in whole seconds.
pub(super) fn remaining(ttl: u32, age: Duration) -> u32 {
    ttl.saturating_sub(u32::try_from(age.as_secs()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
