use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ipnet::IpNet;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::debug;

use super::answers::{ListedKey, MintRequest, MintedKey, Node, NodeList, Policy, ServerVersion};
use super::endpoint::Endpoint;
use super::error::{Error, Phase};
use super::expiry::Expiry;
use super::id::{KeyId, NodeId};
use super::retry::{next_pause, pauses};
use super::secret::ApiKey;
use super::server::ServerUrl;
use super::tls::Trust;
use super::transport::{Transport, TryLimits};
use super::wire::{
    ApiKeyReply, ApiKeysReply, ApproveBody, ExpireKeyBody, HealthReply, KeysReply, MintBody,
    MintReply, NodesReply, OneNodeReply, PolicyBody, PolicyReply, VersionReply,
};

/// The first version whose `expire` call knows `disableExpiry`. Earlier ones ignore it, and expire
/// the node that it should have healed.
const DISABLE_EXPIRY_SINCE: (u32, u32) = (0, 29);

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Name resolution, TCP and TLS of one try. 5 s.
    pub connect: Duration,
    /// From the first byte of a request to the last one of its answer. 15 s: Headscale hashes a new
    /// key with bcrypt, and works out the policy for all nodes when that is set.
    pub answer: Duration,
    /// A whole call with all its tries and pauses. 30 s.
    pub call: Duration,
    /// Tries of a call, the first included. 3.
    pub tries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(15),
            call: Duration::from_secs(30),
            tries: 3,
        }
    }
}

/// A client of one Headscale. Cloning it is cheap.
///
/// A call that fails for want of an answer is made again, unless it mints a key and may have
/// arrived. What may be done again safely is done again: a deletion whose first answer got lost
/// ends with [`Error::NotFound`].
///
/// # Errors
/// Every method returns any variant of [`Error`] that is not said to belong to another.
#[derive(Debug, Clone)]
pub struct Headscale {
    transport: Arc<Transport>,
    limits: Limits,
}

impl Headscale {
    /// A client with default limits. Nothing is connected yet. `trust` is of no meaning for an
    /// `http://` server.
    pub fn new(server: ServerUrl, key: ApiKey, trust: Trust) -> Self {
        Self::with_limits(server, key, trust, Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(server: ServerUrl, key: ApiKey, trust: Trust, limits: Limits) -> Self {
        Self {
            transport: Arc::new(Transport { server, key, trust }),
            limits,
        }
    }

    /// The server.
    pub fn server(&self) -> &ServerUrl {
        &self.transport.server
    }

    /// Success if Headscale is up and reaches its database. Needs no API key.
    pub async fn health(&self) -> Result<(), Error> {
        let HealthReply { status } = self.get(Endpoint::Health).await?;
        if status == "pass" {
            return Ok(());
        }
        Err(Error::Unavailable {
            at: self.transport.at(Endpoint::Health),
            phase: Phase::Answering,
            cause: "Headscale says that it is not healthy".to_owned(),
            retry_after: None,
        })
    }

    /// Which Headscale this is. Needs no API key.
    pub async fn version(&self) -> Result<ServerVersion, Error> {
        let reply: VersionReply = self.get(Endpoint::Version).await?;
        Ok(reply.into())
    }

    /// When our API key stops being valid; None if Headscale does not list it.
    pub async fn api_key_expiry(&self) -> Result<Option<Expiry>, Error> {
        let ApiKeysReply { api_keys } = self.get(Endpoint::ApiKeys).await?;
        let Some(ours) = self.transport.key.listed_as() else {
            return Ok(None);
        };
        Ok(api_keys.into_iter().find_map(|key| {
            let ApiKeyReply { prefix, expiration } = key;
            (prefix == ours).then(|| Expiry::of_key(expiration))
        }))
    }

    /// Mints a pre-auth key. After an error that [may have happened](Error::may_have_happened),
    /// look for it by [`ListedKey::was_minted_for`]: its text is lost.
    ///
    /// # Errors
    /// [`Error::InvalidTag`] for a tag that is none; [`Error::Rejected`] without any tag.
    pub async fn mint_key(&self, request: &MintRequest) -> Result<MintedKey, Error> {
        let MintRequest { tags, expiration } = request;
        let body = MintBody {
            reusable: false,
            ephemeral: false,
            expiration: *expiration,
            acl_tags: tags.iter().map(String::as_str).collect(),
        };
        let MintReply { pre_auth_key } = self.send(Endpoint::MintKey, &body).await?;
        let minted = MintedKey::from_reply(pre_auth_key).ok_or_else(|| {
            self.transport
                .decode_error(Endpoint::MintKey, "the key is empty")
        })?;
        debug!(id = %minted.id, "minted a pre-auth key");
        Ok(minted)
    }

    /// All pre-auth keys, used and expired ones included.
    pub async fn keys(&self) -> Result<Vec<ListedKey>, Error> {
        let KeysReply { pre_auth_keys } = self.get(Endpoint::Keys).await?;
        Ok(pre_auth_keys.into_iter().map(ListedKey::from).collect())
    }

    /// Ends a pre-auth key's validity now.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown key, though 0.28 and 0.29 call that a success.
    pub async fn expire_key(&self, id: KeyId) -> Result<(), Error> {
        let body = ExpireKeyBody { id: id.to_string() };
        self.carry_out(Endpoint::ExpireKey, encode(&body)).await
    }

    /// All nodes. For many callers, [`NodeCache`](super::NodeCache).
    pub async fn nodes(&self) -> Result<NodeList, Error> {
        let NodesReply { nodes } = self.get(Endpoint::Nodes).await?;
        Ok(NodeList::new(nodes.into_iter().map(Node::from).collect()))
    }

    /// Expires a node's key now: it is logged out, and if it is tagged, no pre-auth key logs it in
    /// again before [`disable_expiry`](Self::disable_expiry) or its deletion.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown node.
    pub async fn expire_node(&self, id: NodeId) -> Result<(), Error> {
        self.carry_out(Endpoint::ExpireNode(id), Bytes::new()).await
    }

    /// Lets a node's key never expire, which logs an expired node in again.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown node; [`Error::Unsupported`] before Headscale 0.29, which
    /// would expire the node instead: it is not asked.
    pub async fn disable_expiry(&self, id: NodeId) -> Result<(), Error> {
        let endpoint = Endpoint::DisableExpiry(id);
        let version = self.version().await?;
        if version
            .numbers()
            .is_some_and(|numbers| numbers < DISABLE_EXPIRY_SINCE)
        {
            return Err(Error::Unsupported {
                at: self.transport.at(endpoint),
                version: version.text,
                needs: "0.29",
            });
        }
        let OneNodeReply { node } =
            decode(self, endpoint, &self.call(endpoint, Bytes::new()).await?)?;
        match Node::from(node).expiry {
            Expiry::Never => Ok(()),
            Expiry::At(at) => Err(self
                .transport
                .decode_error(endpoint, &format!("the node still expires at {at}"))),
        }
    }

    /// Deletes a node. It may only come back with a new login.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown node.
    pub async fn delete_node(&self, id: NodeId) -> Result<(), Error> {
        self.carry_out(Endpoint::DeleteNode(id), Bytes::new()).await
    }

    /// Replaces the list of a node's approved prefixes, advertised or not, and returns it as it is
    /// now: the approval of an exit route brings its sibling with it.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown node.
    pub async fn approve_routes(
        &self,
        id: NodeId,
        routes: &BTreeSet<IpNet>,
    ) -> Result<BTreeSet<IpNet>, Error> {
        let body = ApproveBody {
            routes: routes.iter().map(IpNet::to_string).collect(),
        };
        let OneNodeReply { node } = self.send(Endpoint::ApproveRoutes(id), &body).await?;
        Ok(Node::from(node).approved)
    }

    /// The policy; None if none was ever set.
    pub async fn policy(&self) -> Result<Option<Policy>, Error> {
        match self.get::<PolicyReply>(Endpoint::Policy).await {
            Ok(reply) => Ok(Some(reply.into())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the policy by this HuJSON; Headscale applies it at once, to approvals too.
    ///
    /// # Errors
    /// [`Error::Rejected`] for a policy that Headscale does not take;
    /// [`Error::PolicyNotWritable`] if it is a file.
    pub async fn set_policy(&self, text: &str) -> Result<Policy, Error> {
        let reply: PolicyReply = self
            .send(Endpoint::SetPolicy, &PolicyBody { policy: text })
            .await?;
        debug!(bytes = text.len(), "set the policy");
        Ok(reply.into())
    }

    async fn get<T: DeserializeOwned>(&self, endpoint: Endpoint) -> Result<T, Error> {
        decode(self, endpoint, &self.call(endpoint, Bytes::new()).await?)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        endpoint: Endpoint,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        decode(self, endpoint, &self.call(endpoint, encode(body)).await?)
    }

    /// A call whose answer says nothing but that it was done.
    async fn carry_out(&self, endpoint: Endpoint, body: Bytes) -> Result<(), Error> {
        self.call(endpoint, body).await?;
        debug!(request = %endpoint, "done at Headscale");
        Ok(())
    }

    async fn call(&self, endpoint: Endpoint, body: Bytes) -> Result<Bytes, Error> {
        let Limits {
            connect,
            answer,
            call,
            tries,
        } = self.limits;
        let end = Instant::now() + call;
        let mut pauses = pauses(tries);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let limits = TryLimits {
                connect: connect.min(left),
                answer: answer.min(left),
            };
            let error = match self
                .transport
                .exchange(endpoint, body.clone(), limits)
                .await
            {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            let left = end.saturating_duration_since(Instant::now());
            let Some(pause) = next_pause(endpoint, &error, pauses.next(), left) else {
                return Err(error);
            };
            debug!(%error, pause_ms = pause.as_millis(), "Headscale is asked again");
            tokio::time::sleep(pause).await;
        }
    }
}

/// Cannot fail: no map with keys other than text, no foreign `Serialize`.
fn encode(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}

fn decode<T: DeserializeOwned>(
    headscale: &Headscale,
    endpoint: Endpoint,
    body: &[u8],
) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| {
        headscale
            .transport
            .decode_error(endpoint, &error.to_string())
    })
}
