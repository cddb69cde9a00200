//! Packets that a router's stack has in hand.
//!
//! A router is a network namespace, and what it forwards leaves one device as
//! bytes and comes back from another. So that a packet keeps its identity from
//! host to host, as it does in the simulator, it waits here meanwhile and is
//! known again by its bytes.

use std::collections::VecDeque;

use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant};

/// What has not come back by then was dropped, answered or rewritten by the
/// router. A stack forwards within the call that hands it the packet; the rest
/// is waiting in the device's queue, at most 16384 packets.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// The packets in one router's hands, in the order in which it got them.
#[derive(Default)]
pub(super) struct Forwarded(VecDeque<(Instant, Box<Packet>)>);

impl Forwarded {
    /// The router has got `packet`.
    pub(super) fn got(&mut self, now: Instant, packet: Box<Packet>, pool: &mut PacketPool) {
        while let Some((since, _)) = self.0.front() {
            if now.since(*since) <= GIVEN_UP {
                break;
            }
            if let Some((_, lost)) = self.0.pop_front() {
                pool.give(lost);
            }
        }
        self.0.push_back((now, packet));
    }

    /// The packet that `bytes`, sent by the router, were when it got them; its
    /// own bytes are still the old ones.
    pub(super) fn known(&mut self, bytes: &[u8]) -> Option<Box<Packet>> {
        let at = self.0.iter().position(|(_, p)| is_next_hop(p, bytes))?;
        self.0.remove(at).map(|(_, packet)| packet)
    }
}

/// Whether `after` is `before` one hop further on: all but the hops left and
/// the checksum over them is the same (RFC 1812 §5.3.1, RFC 8200 §3).
fn is_next_hop(before: &Packet, after: &[u8]) -> bool {
    let before = &before.bytes[..];
    if before.len() != after.len() {
        return false;
    }
    let same = |range: std::ops::Range<usize>| before.get(range.clone()) == after.get(range);
    match after.first().map(|b| b >> 4) {
        Some(4) => same(0..8) && same(9..10) && same(12..after.len()),
        Some(6) => same(0..7) && same(8..after.len()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::PacketId;

    use super::*;

    fn packet(pool: &mut PacketPool, bytes: &[u8]) -> Box<Packet> {
        let mut packet = pool.take(Instant::ZERO, None);
        packet.bytes.extend_from_slice(bytes);
        packet
    }

    /// An IPv4 header with identification `id`, and eight bytes of payload.
    fn ipv4(id: u8, ttl: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, id, 0x40, 0, ttl, 17, 0xaa, ttl];
        bytes.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, id]);
        bytes
    }

    fn ipv6(last: u8, hops: u8) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 4, 59, hops];
        bytes.extend([0xfd; 32]);
        bytes.extend([1, 2, 3, last]);
        bytes
    }

    #[test]
    fn a_forwarded_packet_is_known_again_by_all_but_its_hops() {
        let mut pool = PacketPool::new();
        let mut router = Forwarded::default();
        for bytes in [ipv4(1, 64), ipv4(2, 64), ipv6(1, 64), ipv6(2, 64)] {
            let packet = packet(&mut pool, &bytes);
            router.got(Instant::ZERO, packet, &mut pool);
        }
        let mut known = |bytes: &[u8]| router.known(bytes).map(|p| p.id);
        assert_eq!(known(&ipv6(2, 63)), Some(PacketId(3)));
        assert_eq!(known(&ipv4(2, 63)), Some(PacketId(1)));
        assert_eq!(known(&ipv4(2, 63)), None, "it went on already");
        assert_eq!(known(&ipv4(3, 63)), None, "nobody gave that to the router");
        assert_eq!(known(&ipv4(1, 63)), Some(PacketId(0)));
        assert_eq!(known(&ipv6(1, 63)), Some(PacketId(2)));
    }

    #[test]
    fn of_two_copies_the_first_goes_on_first() {
        let mut pool = PacketPool::new();
        let mut router = Forwarded::default();
        for _ in 0..2 {
            let packet = packet(&mut pool, &ipv4(1, 64));
            router.got(Instant::ZERO, packet, &mut pool);
        }
        let ids = [(); 2].map(|()| router.known(&ipv4(1, 63)).map(|p| p.id.0));
        assert_eq!(ids, [Some(0), Some(1)]);
    }

    #[test]
    fn what_the_router_kept_is_given_up_and_its_memory_used_again() {
        let mut pool = PacketPool::new();
        let mut router = Forwarded::default();
        let kept = packet(&mut pool, &ipv4(1, 64));
        router.got(Instant::ZERO, kept, &mut pool);
        let later = packet(&mut pool, &ipv4(2, 64));
        let now = Instant::ZERO + GIVEN_UP + Duration::from_nanos(1);
        router.got(now, later, &mut pool);
        assert!(router.known(&ipv4(1, 63)).is_none());
        assert_eq!(pool.outstanding(), 1);
    }

    #[test]
    fn a_header_that_is_cut_short_is_nobodys() {
        let mut pool = PacketPool::new();
        let mut router = Forwarded::default();
        let whole = packet(&mut pool, &ipv4(1, 64));
        router.got(Instant::ZERO, whole, &mut pool);
        for cut in 0..ipv4(1, 64).len() {
            assert!(router.known(&ipv4(1, 63)[..cut]).is_none());
        }
    }
}
