//! QUIC between hosts: how its ends know each other.
//!
//! A session that has fetches by QUIC has a port of UDP for them alone. The server answers an address there
//! only after a first packet whose connection id (RFC 9000 §7.2) has the number of a transfer and the
//! client's proof of it. Everything else is dropped without an answer, and leaves nothing behind, so that
//! a Retry (RFC 9000 §8.1.2) has nothing to add: that the client has its address, its control connection
//! has shown. The client takes a certificate by its keyed fingerprint alone, and on its stream, which
//! nobody else reads then, names the transfer with a key that was never sent in clear.

mod fetch;
mod served;

pub(super) use fetch::{Fetch, Fetches};
pub(super) use served::{Listening, Served};

use narrows_wire::quic::Quic;

use super::token::{Purpose, Secret};
use super::wire::{KEY, same};

/// Bytes of the largest packet for which MTU discovery searches: Ethernet's.
const MTU: u32 = 1_500;

/// Bytes of a connection id: the most that there are (RFC 9000 §17.2).
const ID: usize = 20;

/// Bytes of it that are the number.
const NUMBER: usize = 4;

/// Datagrams that one connection sends or a port reads in a row, before others have their turn
/// (our choice).
const TURN: usize = 64;

/// The id to which the client's first packets for transfer `number` are addressed.
fn id_of(secret: &Secret, number: u32) -> [u8; ID] {
    let number = number.to_be_bytes();
    let tag = secret.tag(Purpose::Connection, &number);
    let mut id = [0; ID];
    id[..NUMBER].copy_from_slice(&number);
    id[NUMBER..].copy_from_slice(&tag[..ID - NUMBER]);
    id
}

/// The transfer for which a datagram opens a connection of the session of `secret`; `None` of what
/// opens none.
fn number_of(secret: &Secret, datagram: &[u8]) -> Option<u32> {
    let Ok(Quic::Long(long)) = Quic::parse(datagram) else {
        return None;
    };
    let number = u32::from_be_bytes(*long.destination.first_chunk::<NUMBER>()?);
    let fits = long.is_first() && long.destination.len() == ID;
    (fits && same(long.destination, &id_of(secret, number))).then_some(number)
}

/// What a stream begins with, so that it is served.
fn stream_key(secret: &Secret) -> [u8; KEY] {
    let tag = secret.tag(Purpose::Stream, b"");
    let mut key = [0; KEY];
    key.copy_from_slice(&tag[..KEY]);
    key
}

#[cfg(test)]
mod tests;
