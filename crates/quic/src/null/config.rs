//! What quinn-proto asks for where a connection begins.

use std::sync::Arc;

use narrows_units::stable_hash;
use quinn_proto::crypto::{
    self, AeadKey, CryptoError, HandshakeTokenKey, HmacKey, Keys, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side};

use super::keys::keys;
use super::session::{Session, initial};

/// Bytes of a stateless reset token (RFC 9000 §10.3).
const RESET_TOKEN_LEN: usize = 16;

/// The crypto of an endpoint. The number is its secret, from which reset
/// tokens follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Null(pub(crate) u64);

impl crypto::ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        Ok(Box::new(Session::new(Side::Client, params)))
    }
}

impl crypto::ServerConfig for Null {
    fn initial_keys(&self, _: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys(initial(dst_cid), Side::Server))
    }

    fn retry_tag(&self, _version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        let tag = stable_hash(stable_hash(self.0, orig_dst_cid), packet);
        u128::from(tag).to_le_bytes()
    }

    fn start_session(
        self: Arc<Self>,
        _version: u32,
        params: &TransportParameters,
    ) -> Box<dyn crypto::Session> {
        Box::new(Session::new(Side::Server, params))
    }
}

impl HmacKey for Null {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (i, part) in signature_out.chunks_mut(8).enumerate() {
            let word = stable_hash(self.0.wrapping_add(i as u64), data).to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        RESET_TOKEN_LEN
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = [0; RESET_TOKEN_LEN];
        self.sign(data, &mut own);
        (own == *signature).then_some(()).ok_or(CryptoError)
    }
}

impl HandshakeTokenKey for Null {
    fn aead_from_hkdf(&self, random_bytes: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self(stable_hash(self.0, random_bytes)))
    }
}

impl AeadKey for Null {
    fn seal(&self, data: &mut Vec<u8>, additional_data: &[u8]) -> Result<(), CryptoError> {
        let tag = stable_hash(stable_hash(self.0, additional_data), data);
        data.extend_from_slice(&tag.to_le_bytes());
        Ok(())
    }

    fn open<'a>(
        &self,
        data: &'a mut [u8],
        additional_data: &[u8],
    ) -> Result<&'a mut [u8], CryptoError> {
        let end = data.len().checked_sub(8).ok_or(CryptoError)?;
        let (data, tag) = data.split_at_mut(end);
        let own = stable_hash(stable_hash(self.0, additional_data), data).to_le_bytes();
        if own == *tag {
            Ok(data)
        } else {
            Err(CryptoError)
        }
    }
}
