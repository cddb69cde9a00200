//! TLS for the QUIC flows of a run.

use std::io;
use std::sync::Arc;

use narrows_quic::{SERVER_NAME, Tls};
use quinn_proto::rustls::RootCertStore;
use quinn_proto::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig};

/// With a certificate that signs itself, made for one run: servers show it, and clients
/// trust it alone.
///
/// # Errors
/// If the system has no randomness to give, or TLS does not take the certificate.
pub fn make() -> io::Result<Tls> {
    let made =
        rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(io::Error::other)?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(io::Error::other)?;
    Ok(Tls {
        endpoint: EndpointConfig::default(),
        client: ClientConfig::with_root_certificates(Arc::new(roots)).map_err(io::Error::other)?,
        server: ServerConfig::with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key))
            .map_err(io::Error::other)?,
    })
}
