//! Second phase: values. The objects as written become domain types.

mod gateway;
mod networks;
mod others;
mod syntax;

use super::parse::Object;
use super::wire;
use crate::finding::Report;

/// The object, as far as its values allow.
pub(super) fn object(object: wire::Object, report: &mut Report) -> Option<Object> {
    match object {
        wire::Object::Gateway(wire) => {
            gateway::gateway(*wire, report).map(|gateway| Object::Gateway(Box::new(gateway)))
        }
        wire::Object::Tailnet(wire) => {
            others::tailnet(*wire, report).map(|tailnet| Object::Tailnet(Box::new(tailnet)))
        }
        wire::Object::Egress(wire) => others::egress(wire, report).map(Object::Egress),
        wire::Object::Ingress(wire) => others::ingress(wire, report).map(Object::Ingress),
        wire::Object::Site(wire) => others::site(wire, report).map(Object::Site),
    }
}
