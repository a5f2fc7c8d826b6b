//! Names by which the controller recognises what it wrote.

/// The field manager of every write.
pub const MANAGER: &str = "tsunaro-controller";
/// The finalizer of a gateway that the controller has begun to create.
pub const FINALIZER: &str = "tsunaro.io/gateway";
/// Annotation with the UID of the gateway that an object belongs to; a label too where it is
/// rendered.
pub const UID: &str = crate::render::UID_LABEL;
/// Annotation with a digest of what an object was rendered as: what is no longer rendered shows by it.
pub const RENDERED: &str = "tsunaro.io/rendered";
/// Annotation of the key Secret: the moment at which the key that is being minted expires, to the
/// nanosecond. It is there before the key is, so that a key whose text was lost is found again.
pub const KEY_EXPIRATION: &str = "tsunaro.io/key-expiration";
/// Annotation of the key Secret: Headscale's id of the key that is or was in it.
pub const KEY_ID: &str = "tsunaro.io/key-id";
/// Annotation of the key Secret: when keys were minted in the last hour, separated by spaces.
pub const MINTED: &str = "tsunaro.io/minted";
/// Annotation of the key Secret: the id of the node whose login is being renewed. It is there before
/// that node is deleted, so that our own deletion is not taken for an administrator's.
pub const RENEWING: &str = "tsunaro.io/renewing";
/// Annotation of the key Secret: ids of nodes that used a key of the gateway and are not its own,
/// separated by spaces.
pub const STRANGERS: &str = "tsunaro.io/used-by-others";
/// Annotation of a gateway, by a person: renew the login of this node, although the spec says to
/// hold it.
pub const RENEW_LOGIN: &str = "tsunaro.io/renew-login";
/// Annotation of the Pod: a digest of what it mounts. kubelet refreshes mounts at once when any
/// annotation of a Pod changes, instead of within a minute.
pub const MOUNTS: &str = "tsunaro.io/mounts";
/// Annotation of a gateway, by a person: delete it without asking Headscale.
pub const FORGET_NODE: &str = "tsunaro.io/forget-node";
/// Label of what the controller made; a hosts ConfigMap without it is managed elsewhere.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Annotation of a hosts ConfigMap that the controller writes: the Tailnet whose names are in it.
pub const HOSTS_OF: &str = "tsunaro.io/hosts-of";
/// Keys of the receipt.
pub const RECEIPT_UID: &str = "gatewayUID";
/// Name of the gateway.
pub const RECEIPT_GATEWAY: &str = "gateway";
/// Host name of the node.
pub const RECEIPT_HOSTNAME: &str = "hostname";
/// Id of the key by which the node first logged in.
pub const RECEIPT_KEY_ID: &str = "keyID";
