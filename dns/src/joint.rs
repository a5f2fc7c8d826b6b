//! The forwarder as the server's resolver.

use std::sync::Arc;

use hickory_proto::rr::RecordType;
use tsunaro_model::zone::{ExtraZone, Snapshot};

use crate::forward::{self, ClientTransport, Forwarder};
use crate::forwarding::{ExtendedError, Failure, Forwarded, Question, Resolve, Transport};

impl Resolve for Forwarder {
    async fn resolve(
        &self,
        _snapshot: &Snapshot,
        zone: &ExtraZone,
        question: Question,
    ) -> Result<Arc<Forwarded>, Failure> {
        let Question {
            name,
            qtype,
            dnssec_ok,
            checking_disabled,
            recursion_desired,
            authentic_data,
            transport,
        } = question;
        let question = forward::Question {
            name,
            qtype: RecordType::from(qtype),
            dnssec_ok,
            checking_disabled,
            recursion_desired,
            authentic_data,
            transport: match transport {
                Transport::Udp => ClientTransport::Udp,
                Transport::Tcp => ClientTransport::Tcp,
            },
        };
        match Forwarder::resolve(self, &zone.apex, &question).await {
            Ok(found) => Ok(Arc::new(Forwarded {
                rcode: found.rcode.into(),
                answer: found.answer,
                authority: found.authority,
                authentic_data: found.authentic_data,
                truncated: found.truncated,
                stale: found.stale,
                continue_at: found.continue_at,
            })),
            Err(failure) => Err(match &failure {
                forward::Failure::Timeout => Failure::Timeout,
                forward::Failure::Network => Failure::Network,
                forward::Failure::Overloaded => Failure::Overloaded,
                _ => {
                    let forward::ExtendedError { code, text } = failure.extended_error();
                    Failure::Upstream { error: Some(ExtendedError { code, text }) }
                }
            }),
        }
    }
}
