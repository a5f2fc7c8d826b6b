//! Who tailscaled is to the API server, and the little that it may do.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::{Input, Names, meta};

/// The group of Role and RoleBinding.
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn service_account(input: &Input<'_>) -> ServiceAccount {
    ServiceAccount {
        metadata: meta::object(input, &input.gateway.name),
        // Only the one container that needs the token gets it, by a volume of its own.
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

pub(super) fn role(input: &Input<'_>) -> Role {
    let names = Names::of(input.gateway);
    Role {
        metadata: meta::object(input, &names.gateway),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".to_owned()]),
            resource_names: Some(vec![names.state_secret]),
            verbs: vec!["get".to_owned(), "update".to_owned()],
            ..PolicyRule::default()
        }]),
    }
}

pub(super) fn role_binding(input: &Input<'_>) -> RoleBinding {
    let name = &input.gateway.name;
    RoleBinding {
        metadata: meta::object(input, name),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "Role".to_owned(),
            name: name.clone(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.clone(),
            namespace: Some(input.namespace.to_owned()),
            ..Subject::default()
        }]),
    }
}
