//! Errors of the API server and of Headscale, in words for conditions and logs.

use std::sync::OnceLock;

use secrecy::ExposeSecret;

use crate::headscale;
use crate::headscale::redact::clean;
use crate::reconcile::{Failure, FailureOf};

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// Something changed meanwhile: look again.
    #[error("{0} changed meanwhile and is read again")]
    Changed(String),
    /// A step failed.
    #[error("{}", .0.message)]
    Failed(Failure),
}

impl Stopped {
    /// What the API server said to something about `what`.
    pub(crate) fn kubernetes(what: &str, error: &kube::Error) -> Self {
        if let kube::Error::Api(status) = error
            && status.code == 409
        {
            return Self::Changed(what.to_owned());
        }
        Self::Failed(Failure {
            of: FailureOf::Kubernetes,
            message: format!("{what}: {}", words(error)),
        })
    }
}

impl From<headscale::Error> for Stopped {
    fn from(error: headscale::Error) -> Self {
        let of = if is_away(&error) {
            FailureOf::HeadscaleAway
        } else {
            FailureOf::Headscale
        };
        Self::Failed(Failure {
            of,
            message: error.to_string(),
        })
    }
}

/// Whether Headscale gave no answer, or takes our key no more.
fn is_away(error: &headscale::Error) -> bool {
    error.is_transient() || matches!(error, headscale::Error::Unauthorized { .. })
}

/// An error of the API server as a person would say it: one line, of bounded length, without keys.
pub(crate) fn words(error: &kube::Error) -> String {
    let text = match error {
        kube::Error::Api(status) if status.code == 401 => format!(
            "{}; the token of the ServiceAccount, or the user of KUBECONFIG, is not accepted",
            status.message
        ),
        kube::Error::Api(status) if status.code == 403 => format!(
            "not allowed: {}; apply the RBAC of deploy/controller",
            status.message
        ),
        kube::Error::Api(status) if status.code == 404 && status.details.is_none() => {
            "the API server does not know this kind: apply deploy/crds".to_owned()
        }
        kube::Error::Api(status) => match taken_address(&status.message) {
            Some(address) => format!(
                "another Service has {address}: give it another address, or this one (kubectl get services \
                 --all-namespaces --field-selector spec.clusterIP={address})"
            ),
            None if status.message.contains(OUT_OF_RANGE) => format!(
                "{}; see the cluster's ranges (kubectl get servicecidrs), delete the gateway, and make it again \
                 with an address of one of them",
                status.message
            ),
            None => status.message.clone(),
        },
        other => chain(other),
    };
    clean(&text, TOKEN.get().map_or("", String::as_str))
}

/// A ClusterIP of another range than the cluster's.
const OUT_OF_RANGE: &str = "the provided network does not match the current range";

/// The ClusterIP that the API server gave to another Service, perhaps to one that had not asked for it.
fn taken_address(message: &str) -> Option<std::net::Ipv4Addr> {
    let (_, rest) = message.split_once("failed to allocate IP ")?;
    let (address, why) = rest.split_once(": ")?;
    (why == "provided IP is already allocated").then(|| address.parse().ok())?
}

/// The token of KUBECONFIG, which an API server might repeat.
static TOKEN: OnceLock<String> = OnceLock::new();

/// Remembers the token that we authenticate with, so that no error tells it. One in a file, as in a Pod,
/// changes and is known by its form.
pub(crate) fn keep_secret(config: &kube::Config) {
    if let Some(token) = &config.auth_info.token {
        let _ = TOKEN.set(token.expose_secret().to_owned());
    }
}

/// An error with its causes, without those that only repeat it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_address_that_another_service_has_is_told_with_the_command_that_shows_whose() {
        let message = "Service \"gw-a-dns\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.1.60\"]: \
                       failed to allocate IP 10.96.1.60: provided IP is already allocated";
        let status = Status::failure(message, "Invalid").with_code(422);
        assert_eq!(
            words(&kube::Error::Api(Box::new(status))),
            "another Service has 10.96.1.60: give it another address, or this one (kubectl get services \
             --all-namespaces --field-selector spec.clusterIP=10.96.1.60)"
        );
    }

    #[test]
    fn the_servers_words_are_one_line_of_bounded_length_without_keys() {
        let message = format!(
            "no\nWARN forged hskey-api-abc-def eyJhbG.eyJpc3abc.c2lnabc= Bearer abc.d~ef {}",
            "x".repeat(50_000)
        );
        let status = Status::failure(&message, "InternalError").with_code(500);
        let said = words(&kube::Error::Api(Box::new(status)));
        assert!(!said.contains('\n') && !said.contains("abc"), "{said}");
        assert!(said.chars().count() <= 600, "{}", said.len());
    }
}
