//! From a status and a body to an error.
//!
//! Up to 0.29 a refusal is grpc-gateway's `{"code", "message", "details"}`, and most errors of the
//! client are a 500 with code 2. Later versions answer 400, 404 and 409 with
//! `application/problem+json` (RFC 9457).

use std::time::Duration;

use http::header::{LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

use super::endpoint::Endpoint;
use super::error::{At, Error, Phase};
use super::redact::clean;
use super::wire::Refusal;

/// Longest wait that we let a server ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// What grpc-gateway and net/http say of a path that they do not know.
const UNKNOWN_PATH: &str = "Not Found";

/// Headscale's words for an object that is not there (`hscontrol/state`, `hscontrol/db`,
/// `hscontrol/types/policy.go`, and gorm's own).
const NOT_FOUND: [&str; 5] = [
    "node not found",
    "no longer exists in NodeStore",
    "auth-key not found",
    "record not found",
    "acl policy not found",
];
/// `types.ErrPolicyUpdateIsDisabled`.
const POLICY_NOT_WRITABLE: &str = "update is disabled for modes other than";
/// `validateTag` (hscontrol/grpcv1.go) and the errors of `hscontrol/db/preauth_keys.go`.
const INVALID_TAG: [&str; 7] = [
    "tag must start with",
    "tag should be lowercase",
    // 0.28; the next is 0.29's.
    "tag should not contain",
    "tags must not contain",
    "tag is invalid",
    "requested tags",
    "not defined in the policy",
];
/// What the words of a bad request begin with where the status is 500 all the same.
const BAD_REQUEST: [&str; 4] = [
    "setting policy:",
    "verifying SSH rules:",
    "parsing route:",
    "auth-key must be either tagged or owned",
];
const CONFLICT: [&str; 2] = ["already exists", "is not unique"];
/// SQLite under load, and a request that Headscale gave up.
const BUSY: [&str; 2] = ["database is locked", "context deadline exceeded"];

/// The error that an answer without success stands for.
pub(super) fn refusal(
    at: At,
    endpoint: Endpoint,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    secret: &str,
) -> Error {
    let said = serde_json::from_slice::<Refusal>(body)
        .ok()
        .and_then(Refusal::into_message);
    let text = match &said {
        Some(message) => clean(message, secret),
        None => clean(&String::from_utf8_lossy(body), secret),
    };
    let number = status.as_u16();
    let described = if text.is_empty() {
        format!("HTTP {number}")
    } else {
        format!("HTTP {number}: {text}")
    };
    match number {
        300..=399 => {
            let target = headers.get(LOCATION).map_or_else(String::new, |location| {
                let location = String::from_utf8_lossy(location.as_bytes());
                format!(" to {}", clean(&location, secret))
            });
            let detail = format!("it redirects with {number}{target}");
            Error::NotHeadscale { at, detail }
        }
        401 | 403 => Error::Unauthorized { at, status: number },
        429 | 502..=504 => Error::Unavailable {
            at,
            phase: Phase::Answering,
            cause: described,
            retry_after: retry_after(headers),
        },
        // A proxy that knows no such path must not be taken for a Headscale without such a node.
        404 => match said {
            Some(message) if endpoint.object().is_some() && message != UNKNOWN_PATH => {
                Error::NotFound { at, message: text }
            }
            _ => Error::NotHeadscale {
                at,
                detail: described,
            },
        },
        409 => Error::Conflict { at, message: text },
        400 | 422 | 500 if said.is_some() => by_words(at, endpoint, number, text),
        // Headscale does not reach its database.
        500.. if endpoint == Endpoint::Health => Error::Unavailable {
            at,
            phase: Phase::Answering,
            cause: described,
            retry_after: None,
        },
        500.. => Error::Internal {
            at,
            message: described,
        },
        _ => Error::NotHeadscale {
            at,
            detail: described,
        },
    }
}

fn by_words(at: At, endpoint: Endpoint, status: u16, message: String) -> Error {
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if endpoint.object().is_some() && says(&NOT_FOUND) {
        return Error::NotFound { at, message };
    }
    if endpoint == Endpoint::SetPolicy && says(&[POLICY_NOT_WRITABLE]) {
        return Error::PolicyNotWritable { at, message };
    }
    if endpoint == Endpoint::MintKey && says(&INVALID_TAG) {
        return Error::InvalidTag { at, message };
    }
    if status != 500 || BAD_REQUEST.iter().any(|start| message.starts_with(start)) {
        return Error::Rejected {
            at,
            status,
            message,
        };
    }
    if says(&CONFLICT) {
        return Error::Conflict { at, message };
    }
    if says(&BUSY) {
        return Error::Unavailable {
            at,
            phase: Phase::Answering,
            cause: message,
            retry_after: None,
        };
    }
    Error::Internal { at, message }
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3); its form as a date is left out.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests;
