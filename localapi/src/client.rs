use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::debug;
use tsunaro_model::tailnet::{AuthKey, DaemonStatus, Prefs, PrefsChange, TailnetDns};

use crate::bus::IpnBus;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::redact::Redactor;
use crate::transport::Call;
use crate::wire::{
    DnsConfigReply, PrefsPatch, PrefsReply, StartRequest, StatusReply, WarningReply,
};

/// A client of the tailscaled behind one unix socket. Cloning it is cheap.
///
/// Each request has a connection of its own and so survives restarts of tailscaled.
///
/// # Errors
/// Every method returns any variant of [`Error`]. Only `change_prefs` meets `Locked`: a locked config
/// file does not forbid logins. tailscaled 1.102 on Linux forbids no one to read.
#[derive(Debug, Clone)]
pub struct LocalApi {
    socket: Arc<Path>,
    timeout: Duration,
}

impl LocalApi {
    /// How long a request may take. tailscaled answers within 50 ms.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// A client of the tailscaled at `socket`. Nothing is opened yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self::with_timeout(socket, Self::DEFAULT_TIMEOUT)
    }

    /// The same with another limit per request, from connecting to the last byte of the answer.
    pub fn with_timeout(socket: impl Into<PathBuf>, timeout: Duration) -> Self {
        Self {
            socket: socket.into().into(),
            timeout,
        }
    }

    /// Path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The state of the daemon and of this node, peers left out.
    pub async fn status(&self) -> Result<DaemonStatus, Error> {
        let call = self.call(Endpoint::Status);
        let reply: StatusReply = self.ask(&call).await?;
        reply
            .try_into()
            .map_err(|detail: String| call.decode_error(&detail))
    }

    /// The current prefs.
    pub async fn prefs(&self) -> Result<Prefs, Error> {
        let reply: PrefsReply = self.ask(&self.call(Endpoint::Prefs)).await?;
        Ok(reply.into())
    }

    /// Changes some prefs and returns all of them as they are now. Last writer wins: there is no
    /// way to change them only if nobody else did.
    ///
    /// tailscaled accepts a change before the first login too, but may lose it at that login: read
    /// the prefs again when the state becomes `Running`.
    pub async fn change_prefs(&self, change: &PrefsChange) -> Result<Prefs, Error> {
        let call = self.call(Endpoint::EditPrefs);
        let body = self.send(&call, &PrefsPatch::from(change)).await?;
        let reply: PrefsReply = decode(&call, &body)?;
        let prefs = Prefs::from(reply);
        debug!(
            routes = prefs.advertise_routes.len(),
            "changed tailscaled's prefs"
        );
        Ok(prefs)
    }

    /// Restarts the backend's state machine with a pre-auth key to log in with; prefs stay. Success
    /// says that the key was taken, not that it is good: the bus tells.
    ///
    /// A node that was logged in logs in again with it at once. One that never was, or whose last
    /// key was refused, needs [`LocalApi::login_interactive`] afterwards.
    pub async fn start(&self, key: &AuthKey) -> Result<(), Error> {
        let call = Call {
            redactor: Redactor::knowing(key),
            ..self.call(Endpoint::Start)
        };
        let request = StartRequest {
            auth_key: key.secret(),
        };
        self.send(&call, &request).await?;
        debug!("gave tailscaled a pre-auth key");
        Ok(())
    }

    /// Asks for a login: with the key given to [`LocalApi::start`], or else by an URL that the bus
    /// and the status then show.
    ///
    /// Only for a state of `NeedsLogin`: a running node would try to log in with the key that
    /// tailscaled still remembers and, if that was for single use, report an error in its health.
    pub async fn login_interactive(&self) -> Result<(), Error> {
        self.exchange(&self.call(Endpoint::LoginInteractive), Bytes::new())
            .await?;
        debug!("asked tailscaled to log in");
        Ok(())
    }

    /// What keeps the kernel from forwarding for other hosts, in tailscaled's words; None when
    /// nothing does, and always None in userspace networking.
    pub async fn check_ip_forwarding(&self) -> Result<Option<String>, Error> {
        let reply: WarningReply = self.ask(&self.call(Endpoint::CheckIpForwarding)).await?;
        Ok(reply.into_warning())
    }

    /// What keeps UDP forwarding slow (generic receive offload), in tailscaled's words.
    pub async fn check_udp_gro_forwarding(&self) -> Result<Option<String>, Error> {
        let reply: WarningReply = self
            .ask(&self.call(Endpoint::CheckUdpGroForwarding))
            .await?;
        Ok(reply.into_warning())
    }

    /// The tailnet's DNS settings, be they applied to this machine or not. None while there is no
    /// network map: before a login, or until the control server answered.
    pub async fn dns_config(&self) -> Result<Option<TailnetDns>, Error> {
        match self.ask(&self.call(Endpoint::DnsConfig)).await {
            Ok(reply) => Ok(Some(DnsConfigReply::into(reply))),
            // serveDNSConfig, ipn/localapi/localapi.go.
            Err(Error::Rejected {
                status: 503,
                message,
                ..
            }) if message == "no netmap" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the stream of changes. Success says that tailscaled streams; its first events are the
    /// whole current state. The limit per request covers only the opening: the bus is silent for
    /// as long as nothing changes.
    pub async fn watch(&self) -> Result<IpnBus, Error> {
        let call = self.call(Endpoint::Watch);
        let answer = self.in_time(&call, call.open(Bytes::new())).await?;
        Ok(IpnBus::new(Arc::clone(&self.socket), answer))
    }

    fn call(&self, endpoint: Endpoint) -> Call<'_> {
        Call {
            socket: &self.socket,
            endpoint,
            redactor: Redactor::default(),
        }
    }

    async fn ask<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, Error> {
        let body = self.exchange(call, Bytes::new()).await?;
        decode(call, &body)
    }

    async fn send<T: Serialize>(&self, call: &Call<'_>, request: &T) -> Result<Bytes, Error> {
        let json = serde_json::to_vec(request).map_err(|error| call.io_error(error.into()))?;
        self.exchange(call, json.into()).await
    }

    async fn exchange(&self, call: &Call<'_>, body: Bytes) -> Result<Bytes, Error> {
        self.in_time(call, call.exchange(body)).await
    }

    async fn in_time<T>(
        &self,
        call: &Call<'_>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|_| {
                Err(Error::Timeout {
                    socket: Arc::clone(&self.socket),
                    request: call.endpoint.to_string(),
                    after: self.timeout,
                })
            })
    }
}

fn decode<T: DeserializeOwned>(call: &Call<'_>, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| call.decode_error(&error.to_string()))
}
