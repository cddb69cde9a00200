//! TLS for the QUIC flows of a run.

use std::fmt;
use std::io;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, ServerConfig};

/// What clients call every server.
pub const SERVER_NAME: &str = "narrows";

/// A certificate that signs itself, made for one run, and its key. Servers
/// show it, and clients trust it alone.
#[derive(Clone)]
pub struct Certificate(Arc<(CertificateDer<'static>, Vec<u8>)>);

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    /// A new one.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()])
            .map_err(io::Error::other)?;
        let key = made.signing_key.serialize_der();
        Ok(Self(Arc::new((made.cert.der().clone(), key))))
    }

    /// How a server proves itself.
    ///
    /// # Errors
    /// If TLS does not take the certificate.
    pub fn server(&self) -> io::Result<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.1.clone()));
        ServerConfig::with_single_cert(vec![self.0.0.clone()], key).map_err(io::Error::other)
    }

    /// How a client knows the server.
    ///
    /// # Errors
    /// If TLS does not take the certificate.
    pub fn client(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.0.clone()).map_err(io::Error::other)?;
        ClientConfig::with_root_certificates(Arc::new(roots)).map_err(io::Error::other)
    }
}
