use std::fmt;
use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

/// Why a CA bundle is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCaBundle {
    /// No `BEGIN CERTIFICATE` in it.
    #[error("there is no certificate in it: put PEM certificates there")]
    Empty,
    /// One block is broken.
    #[error("its certificate number {number} is not readable: {detail}")]
    Certificate {
        /// Which one, from 1.
        number: usize,
        /// What is wrong.
        detail: String,
    },
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}

/// The certificate authorities that a server's certificate may come from.
#[derive(Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
    authorities: usize,
}

impl Trust {
    /// Only these PEM certificates: the public authorities are then not trusted.
    pub fn only(pem: &[u8]) -> Result<Self, InvalidCaBundle> {
        let mut roots = RootCertStore::empty();
        for (index, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let number = index + 1;
            let broken = |detail: String| InvalidCaBundle::Certificate { number, detail };
            let certificate = certificate.map_err(|error| broken(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| broken(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(InvalidCaBundle::Empty);
        }
        Self::of(roots)
    }

    /// The public authorities of Mozilla's list, as they were when this program was built.
    pub fn public() -> Result<Self, InvalidCaBundle> {
        Self::of(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
    }

    fn of(roots: RootCertStore) -> Result<Self, InvalidCaBundle> {
        let authorities = roots.len();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidCaBundle::Library(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            authorities,
        })
    }

    pub(super) fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({} authorities)", self.authorities)
    }
}

/// What a failed TLS handshake says about the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandshakeFailure {
    /// Its certificate is not good for us.
    Untrusted(String),
    /// It does not speak TLS, or not ours.
    NotTls(String),
    /// The connection broke.
    Broken(String),
}

impl From<&io::Error> for HandshakeFailure {
    fn from(error: &io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Untrusted(error.to_string()),
            Some(_) => Self::NotTls(error.to_string()),
            None => Self::Broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
