//! The JSON of the LocalAPI: the fields that we read, and how they become domain types.
//!
//! Go writes an empty slice as `null` or leaves it out. Fields that every version so far has
//! written are required, so that a reply of another kind is an error and not a set of defaults.

use serde::{Deserialize, Serialize};

use crate::redact::Redactor;

mod dns;
mod notify;
mod prefs;
mod status;

pub(crate) use dns::DnsConfigReply;
pub(crate) use notify::Notify;
pub(crate) use prefs::{PrefsPatch, PrefsReply};
pub(crate) use status::StatusReply;

/// `ipn.Options`. It holds the key, so it has no `Debug`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct StartRequest<'a> {
    pub(crate) auth_key: &'a str,
}

/// The reply of the `check-…` requests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct WarningReply {
    warning: String,
}

/// The body of a refusal, where it is JSON: `resJSON`, or what `WriteErrorJSON` writes.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorReply {
    #[serde(rename = "Error", alias = "error")]
    pub(crate) error: String,
}

impl WarningReply {
    /// None when all is well.
    pub(crate) fn into_warning(self) -> Option<String> {
        let Self { warning } = self;
        let warning = Redactor::default().clean(&warning);
        (!warning.is_empty()).then_some(warning)
    }
}

#[cfg(test)]
mod tests;
