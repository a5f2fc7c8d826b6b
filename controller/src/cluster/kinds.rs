//! How the nine kinds of objects are addressed.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, Resource};

use crate::reconcile::Kind;

/// One resource of the API server; the three Services are of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    ServiceAccount,
    Role,
    RoleBinding,
    DisruptionBudget,
    Service,
    ConfigMap,
    StatefulSet,
}

impl Family {
    pub(crate) const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::Role,
        Self::RoleBinding,
        Self::DisruptionBudget,
        Self::Service,
        Self::ConfigMap,
        Self::StatefulSet,
    ];

    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::ServiceAccount => Self::ServiceAccount,
            Kind::Role => Self::Role,
            Kind::RoleBinding => Self::RoleBinding,
            Kind::DisruptionBudget => Self::DisruptionBudget,
            Kind::Service | Kind::DnsService | Kind::HeadlessService => Self::Service,
            Kind::ConfigMap => Self::ConfigMap,
            Kind::StatefulSet => Self::StatefulSet,
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        fn of<K: Resource<DynamicType = ()>>() -> ApiResource {
            ApiResource::erase::<K>(&())
        }
        match self {
            Self::ServiceAccount => of::<ServiceAccount>(),
            Self::Role => of::<Role>(),
            Self::RoleBinding => of::<RoleBinding>(),
            Self::DisruptionBudget => of::<PodDisruptionBudget>(),
            Self::Service => of::<Service>(),
            Self::ConfigMap => of::<ConfigMap>(),
            Self::StatefulSet => of::<StatefulSet>(),
        }
    }

    pub(crate) fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}
