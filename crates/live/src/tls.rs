//! TLS for QUIC over real sockets, with a certificate that signs itself and is made anew.

use std::fmt;
use std::io;
use std::sync::Arc;

use narrows_quic::{SERVER_NAME, Tls};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::rustls::client::Resumption;
use quinn_proto::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use quinn_proto::rustls::crypto::{self, CryptoProvider};
use quinn_proto::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
};
use quinn_proto::rustls::{
    self, CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig};

/// Of both ends of one program: servers show a certificate, and clients trust it alone.
///
/// # Errors
/// If the system has no randomness to give, or TLS does not take the certificate.
pub fn both() -> io::Result<Tls> {
    let (tls, certificate) = server()?;
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from(certificate);
    roots.add(certificate).map_err(io::Error::other)?;
    let client = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(io::Error::other)?;
    Ok(Tls {
        client: Some(client),
        ..tls
    })
}

/// Of servers, with the certificate that they show.
///
/// # Errors
/// As [`both`].
pub fn server() -> io::Result<(Tls, Vec<u8>)> {
    let made =
        rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]).map_err(io::Error::other)?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let shown = certificate.to_vec();
    let server = ServerConfig::with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key))
        .map_err(io::Error::other)?;
    let tls = Tls {
        endpoint: EndpointConfig::default(),
        client: None,
        server: Some(server),
    };
    Ok((tls, shown))
}

/// Of clients, for which a server is right if it proves to have the key of a certificate that is
/// `known`.
///
/// # Errors
/// If TLS has not what QUIC needs.
pub fn client(known: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> io::Result<Tls> {
    let provider = Arc::new(crypto::ring::default_provider());
    let known = Arc::new(Known {
        known,
        provider: Arc::clone(&provider),
    });
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(known)
        .with_no_client_auth();
    // Each connection sees the certificate.
    client.resumption = Resumption::disabled();
    let client = QuicClientConfig::try_from(client).map_err(io::Error::other)?;
    Ok(Tls {
        endpoint: EndpointConfig::default(),
        client: Some(ClientConfig::new(Arc::new(client))),
        server: None,
    })
}

/// Takes a certificate that is known, whoever signed it; the signature of the handshake is verified.
struct Known<F> {
    known: F,
    provider: Arc<CryptoProvider>,
}

impl<F> fmt::Debug for Known<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

impl<F: Fn(&[u8]) -> bool + Send + Sync> ServerCertVerifier for Known<F> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match (self.known)(certificate) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // QUIC is over TLS 1.3 alone (RFC 9001 §4.2).
        Err(rustls::Error::General("QUIC has no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let schemes = &self.provider.signature_verification_algorithms;
        schemes.supported_schemes()
    }
}
