//! From the API server's objects to domain types, by the validation that files go through too: the
//! object is written as JSON and read like a file, so that there is one reading of every field.

use kube::ResourceExt;
use serde::Serialize;
use thiserror::Error;
use tsunaro_model::finding::Finding;
use tsunaro_model::gateway::{Egress, Gateway, Ingress, Object, Site, Tailnet, parse};

/// Why an object of the API server is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.sentence())]
pub struct Invalid {
    /// What is wrong; positions in it mean nothing.
    pub findings: Vec<Finding>,
}

impl Invalid {
    /// All remarks in one line, for a condition's message.
    fn sentence(&self) -> String {
        let remarks: Vec<String> = self
            .findings
            .iter()
            .filter(|finding| finding.is_error())
            .map(
                |Finding {
                     field, what, fix, ..
                 }| format!("{field}: {what}; {fix}"),
            )
            .collect();
        remarks.join(". ")
    }
}

/// A gateway and the warnings about it.
///
/// # Errors
/// What the validation finds wrong.
pub fn gateway(object: &super::TailnetGateway) -> Result<(Gateway, Vec<Finding>), Invalid> {
    match read(object)? {
        (Object::Gateway(gateway), warnings) => Ok((*gateway, warnings)),
        _ => Err(Invalid {
            findings: Vec::new(),
        }),
    }
}

/// A tailnet and the warnings about it.
///
/// # Errors
/// What the validation finds wrong.
pub fn tailnet(object: &super::Tailnet) -> Result<(Tailnet, Vec<Finding>), Invalid> {
    match read(object)? {
        (Object::Tailnet(tailnet), warnings) => Ok((*tailnet, warnings)),
        _ => Err(Invalid {
            findings: Vec::new(),
        }),
    }
}

/// An egress.
///
/// # Errors
/// What the validation finds wrong.
pub fn egress(object: &super::TailnetEgress) -> Result<Egress, Invalid> {
    match read(object)? {
        (Object::Egress(egress), _) => Ok(egress),
        _ => Err(Invalid {
            findings: Vec::new(),
        }),
    }
}

/// An ingress.
///
/// # Errors
/// What the validation finds wrong.
pub fn ingress(object: &super::TailnetIngress) -> Result<Ingress, Invalid> {
    match read(object)? {
        (Object::Ingress(ingress), _) => Ok(ingress),
        _ => Err(Invalid {
            findings: Vec::new(),
        }),
    }
}

/// A site.
///
/// # Errors
/// What the validation finds wrong.
pub fn site(object: &super::TailnetSite) -> Result<Site, Invalid> {
    match read(object)? {
        (Object::Site(site), _) => Ok(site),
        _ => Err(Invalid {
            findings: Vec::new(),
        }),
    }
}

fn read(object: &(impl Serialize + ResourceExt)) -> Result<(Object, Vec<Finding>), Invalid> {
    // Types of this crate have text keys only, so writing them cannot fail; an empty text would be
    // reported as an empty file.
    let text = serde_json::to_string(object).unwrap_or_default();
    let mut parsed = parse(&text);
    match parsed.objects.pop() {
        Some(located) => Ok((located.object, parsed.findings)),
        None => Err(Invalid {
            findings: parsed.findings,
        }),
    }
}
