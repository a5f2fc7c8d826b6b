//! Names of conditions and reasons: stable, for people and their alerts.

/// Types of a gateway's conditions, in the order in which they are shown.
pub mod condition {
    /// The Pod runs, the node is online and advertises what is wanted.
    pub const READY: &str = "Ready";
    /// The spec is valid.
    pub const ACCEPTED: &str = "Accepted";
    /// What the spec refers to is there.
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    /// Every wanted prefix is advertised, approved and served by some node.
    pub const ROUTES_IN_SYNC: &str = "RoutesInSync";
    /// The Pod is as the StatefulSet's template says.
    pub const WORKLOAD_CURRENT: &str = "WorkloadCurrent";
    /// The load balancer gave the Service its address.
    pub const SERVICE_READY: &str = "ServiceReady";
    /// The agent answers DNS queries.
    pub const DNS_READY: &str = "DNSReady";
    /// The cluster's resolver forwards the zone.
    pub const CLUSTER_DNS_FORWARD: &str = "ClusterDNSForward";
    /// No node of an earlier gateway is left over.
    pub const STALE_NODES: &str = "StaleNodes";
    /// Nodes with the right tags advertise every prefix of a site.
    pub const ADVERTISED: &str = "Advertised";
    /// They are approved for every prefix of a site.
    pub const APPROVED: &str = "Approved";
    /// The policy has what the gateways of a tailnet need.
    pub const POLICY_IN_SYNC: &str = "PolicyInSync";
}

/// Reasons. One is used by several conditions where it means the same.
pub mod reason {
    /// All of it runs.
    pub const FRESH_RUNTIME_READY: &str = "FreshRuntimeReady";
    /// Something that this gateway did not make is in its way.
    pub const FRESH_BLOCKED: &str = "FreshBlocked";
    /// `suspend` is true, and nothing was created yet.
    pub const SUSPENDED: &str = "Suspended";
    /// The spec is not valid.
    pub const INVALID: &str = "Invalid";
    /// The spec is valid.
    pub const ACCEPTED: &str = "Accepted";
    /// Everything referred to is there.
    pub const RESOLVED: &str = "Resolved";
    /// The Tailnet does not exist.
    pub const TAILNET_NOT_FOUND: &str = "TailnetNotFound";
    /// The Tailnet is not valid.
    pub const TAILNET_INVALID: &str = "TailnetInvalid";
    /// The Secret with the API key is missing or its content is none.
    pub const API_KEY_INVALID: &str = "APIKeyInvalid";
    /// Headscale gave no answer, or refused the API key.
    pub const HEADSCALE_UNREACHABLE: &str = "HeadscaleUnreachable";
    /// Headscale refused a request.
    pub const HEADSCALE_FAILED: &str = "HeadscaleFailed";
    /// The API server refused a write.
    pub const APPLY_FAILED: &str = "ApplyFailed";
    /// Objects are being created.
    pub const CREATING: &str = "Creating";
    /// Three keys were minted within an hour.
    pub const MINT_LIMIT: &str = "MintLimit";
    /// There is no Pod.
    pub const NO_POD: &str = "NoPod";
    /// The Pod is not ready.
    pub const POD_NOT_READY: &str = "PodNotReady";
    /// The Pod runs and the node has not logged in yet.
    pub const REGISTERING: &str = "Registering";
    /// The node is not connected to Headscale.
    pub const NODE_OFFLINE: &str = "NodeOffline";
    /// The node's key has expired at Headscale.
    pub const NODE_EXPIRED: &str = "NodeExpired";
    /// The node is no longer at Headscale.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// tailscaled has lost its login.
    pub const LOGIN_LOST: &str = "LoginLost";
    /// Another node is logged in with a key of the gateway.
    pub const KEY_USED_ELSEWHERE: &str = "KeyUsedElsewhere";
    /// A wanted prefix is not advertised.
    pub const NOT_ADVERTISED: &str = "NotAdvertised";
    /// A prefix is advertised that nobody wants.
    pub const UNWANTED_ADVERTISED: &str = "UnwantedAdvertised";
    /// A wanted prefix is not approved.
    pub const PENDING_APPROVAL: &str = "PendingApproval";
    /// No node serves a prefix that is approved.
    pub const NOT_SERVING: &str = "NotServing";
    /// All wanted prefixes are advertised, approved, and served by some node.
    pub const APPROVED: &str = "Approved";
    /// Every prefix of a site is advertised.
    pub const ADVERTISED: &str = "Advertised";
    /// Every prefix of a site is advertised, approved and served.
    pub const READY: &str = "Ready";
    /// Another site has a prefix of this one.
    pub const OVERLAPS: &str = "Overlaps";
    /// The Pod is as its template says.
    pub const POD_CURRENT: &str = "PodCurrent";
    /// The template has changed since the Pod was made.
    pub const POD_TEMPLATE_STALE: &str = "PodTemplateStale";
    /// The Service has its address.
    pub const LOAD_BALANCER_ASSIGNED: &str = "LoadBalancerAssigned";
    /// The Service has no address yet.
    pub const LB_PENDING: &str = "LBPending";
    /// The Service has another address than it should.
    pub const OTHER_ADDRESS: &str = "OtherAddress";
    /// The agent does not answer the controller.
    pub const AGENT_UNREACHABLE: &str = "AgentUnreachable";
    /// Not ours to know.
    pub const EXTERNALLY_MANAGED: &str = "ExternallyManaged";
    /// The gateway is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The deletion waits for a person.
    pub const DELETION_BLOCKED: &str = "DeletionBlocked";
    /// Headscale answers.
    pub const HEADSCALE_REACHABLE: &str = "HeadscaleReachable";
    /// The ConfigMap for the names is another Tailnet's, or has something else in it.
    pub const HOSTS_TAKEN: &str = "HostsTaken";
    /// The ConfigMap has no room for all names.
    pub const HOSTS_INCOMPLETE: &str = "HostsIncomplete";
    /// The ConfigMap for the names could not be read or written.
    pub const HOSTS_NOT_WRITTEN: &str = "HostsNotWritten";
    /// The policy is as it should be.
    pub const POLICY_CURRENT: &str = "PolicyCurrent";
    /// The policy lacks lines.
    pub const LINES_MISSING: &str = "LinesMissing";
    /// Another Tailnet sets the policy of the same Headscale.
    pub const POLICY_TAKEN: &str = "PolicyTaken";
    /// The policy cannot be read or written.
    pub const POLICY_FAILED: &str = "PolicyFailed";
}
