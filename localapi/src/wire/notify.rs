//! Messages of the IPN bus.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tsunaro_model::tailnet::HealthWarning;

use super::PrefsReply;
use super::status::backend_by_number;
use crate::bus::IpnEvent;
use crate::redact::Redactor;

/// `ipn.Notify`: whatever is null or absent did not change.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Notify {
    #[serde(rename = "SessionID", default)]
    session_id: String,
    err_message: Option<String>,
    login_finished: Option<IgnoredAny>,
    state: Option<u8>,
    prefs: Option<PrefsReply>,
    self_change: Option<IgnoredAny>,
    #[serde(rename = "BrowseToURL")]
    browse_to_url: Option<String>,
    health: Option<HealthReply>,
}

/// `health.State`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthReply {
    warnings: Option<BTreeMap<String, UnhealthyReply>>,
}

/// `health.UnhealthyState`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct UnhealthyReply {
    text: String,
    #[serde(default)]
    impacts_connectivity: bool,
}

impl Notify {
    /// The changes in one message, the state last: who reacts to it has seen the rest.
    pub(crate) fn into_events(self) -> Result<Vec<IpnEvent>, String> {
        let Self {
            session_id,
            err_message,
            login_finished,
            state,
            prefs,
            self_change,
            browse_to_url,
            health,
        } = self;
        let redactor = Redactor::default();
        let state = state.map(backend_by_number).transpose()?;
        let health = health.map(|health| {
            let HealthReply { warnings } = health;
            let warnings = warnings.unwrap_or_default().into_iter();
            warnings
                .map(|(code, warning)| {
                    let UnhealthyReply {
                        text,
                        impacts_connectivity,
                    } = warning;
                    HealthWarning {
                        code,
                        text: redactor.clean(&text),
                        impacts_connectivity,
                    }
                })
                .collect()
        });
        let session = (!session_id.is_empty()).then_some(session_id);
        Ok([
            session.map(IpnEvent::Session),
            err_message.map(|text| IpnEvent::ErrorMessage(redactor.clean(&text))),
            prefs.map(|prefs| IpnEvent::Prefs(Box::new(prefs.into()))),
            health.map(IpnEvent::Health),
            browse_to_url
                .filter(|url| !url.is_empty())
                .map(IpnEvent::BrowseToUrl),
            login_finished.map(|_| IpnEvent::LoginFinished),
            self_change.map(|_| IpnEvent::NodeChanged),
            state.map(IpnEvent::State),
        ]
        .into_iter()
        .flatten()
        .collect())
    }
}
