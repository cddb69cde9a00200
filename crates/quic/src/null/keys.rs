//! Keys that prove a packet whole and hide nothing.

use bytes::BytesMut;
use narrows_units::stable_hash;
use quinn_proto::Side;
use quinn_proto::crypto::{CryptoError, HeaderKey, KeyPair, Keys, PacketKey};

/// Bytes behind each packet: the tag of AES-GCM and ChaCha20-Poly1305 alike
/// (RFC 9001 §5.3).
const TAG_LEN: usize = 16;
/// Bytes that header protection would sample (RFC 9001 §5.4.2); with as many,
/// short packets are padded as real ones are.
const SAMPLE_LEN: usize = 16;
/// Packets that one key may protect: that of AES-GCM (RFC 9001 §6.6).
const CONFIDENTIALITY_LIMIT: u64 = 1 << 23;
/// Packets that may fail to open before the connection ends: AES-GCM's.
const INTEGRITY_LIMIT: u64 = 1 << 52;

/// Whose packets of which kind a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Initial packets of the connection with this hash of the client's first
    /// destination connection id.
    Initial(u64),
    Handshake,
    /// 1-RTT packets of a key generation.
    OneRtt(u64),
}

/// The keys of one end, both directions.
pub(super) fn keys(level: Level, side: Side) -> Keys {
    let header = || -> Box<dyn HeaderKey> { Box::new(Bare) };
    Keys {
        header: KeyPair {
            local: header(),
            remote: header(),
        },
        packet: packet_keys(level, side),
    }
}

/// The keys of one end for packets alone.
pub(super) fn packet_keys(level: Level, side: Side) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair {
        local: Box::new(Proof::new(level, side)),
        remote: Box::new(Proof::new(level, !side)),
    }
}

/// Headers are left as they are.
struct Bare;

impl HeaderKey for Bare {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}

    fn encrypt(&self, _: usize, _: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE_LEN
    }
}

/// Puts a keyed hash behind packets of one sender.
struct Proof(u64);

impl Proof {
    fn new(level: Level, sender: Side) -> Self {
        let (kind, number) = match level {
            Level::Initial(id) => (0, id),
            Level::Handshake => (1, 0),
            Level::OneRtt(generation) => (2, generation),
        };
        Self(stable_hash(number, &[kind, u8::from(sender.is_server())]))
    }

    fn tag(&self, packet: u64, header: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let of_header = stable_hash(self.0 ^ packet, header);
        let of_both = stable_hash(of_header, payload);
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&of_both.to_le_bytes());
        let rest = stable_hash(of_both, &[]);
        tag[8..].copy_from_slice(&rest.to_le_bytes());
        tag
    }
}

impl PacketKey for Proof {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len() - TAG_LEN;
        let tag = self.tag(packet, &buf[..header_len], &buf[header_len..end]);
        buf[end..].copy_from_slice(&tag);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        let end = payload.len().checked_sub(TAG_LEN).ok_or(CryptoError)?;
        if self.tag(packet, header, &payload[..end]) != payload[end..] {
            return Err(CryptoError);
        }
        payload.truncate(end);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn confidentiality_limit(&self) -> u64 {
        CONFIDENTIALITY_LIMIT
    }

    fn integrity_limit(&self) -> u64 {
        INTEGRITY_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: &dyn PacketKey, packet: u64) -> Vec<u8> {
        let mut bytes = b"headpayload".to_vec();
        bytes.resize(bytes.len() + TAG_LEN, 0);
        key.encrypt(packet, &mut bytes, 4);
        bytes
    }

    fn opens(key: &dyn PacketKey, packet: u64, bytes: &[u8]) -> bool {
        let mut payload = BytesMut::from(&bytes[4..]);
        key.decrypt(packet, &bytes[..4], &mut payload).is_ok() && *payload == *b"payload"
    }

    #[test]
    fn a_packet_opens_with_the_other_ends_key_and_its_own_number_only() {
        let level = Level::OneRtt(3);
        let (client, server) = (
            packet_keys(level, Side::Client),
            packet_keys(level, Side::Server),
        );
        let bytes = sealed(&*client.local, 77);
        assert!(opens(&*server.remote, 77, &bytes));
        assert!(!opens(&*server.remote, 78, &bytes));
        assert!(!opens(&*client.remote, 77, &bytes));
        for other in [
            Level::OneRtt(4),
            Level::Handshake,
            Level::Initial(3),
            Level::Initial(0),
        ] {
            let key = packet_keys(other, Side::Server).remote;
            assert!(!opens(&*key, 77, &bytes), "{other:?}");
        }
    }

    #[test]
    fn no_byte_of_a_packet_can_change_unnoticed() {
        let level = Level::Handshake;
        let key = packet_keys(level, Side::Server).local;
        let other = packet_keys(level, Side::Client).remote;
        let bytes = sealed(&*key, 1);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(!opens(&*other, 1, &changed), "byte {at}");
        }
    }
}
