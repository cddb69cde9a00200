//! Packets in fragments: what a later fragment belongs to, the first one knows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_units::{Duration, Instant};
use narrows_wire::{FlowKey, ip};

use crate::layout::{Above, Layout};

/// How long a fragmented packet is followed: Linux's `ipfrag_time`.
const FOLLOWED: Duration = Duration::from_secs(30);
/// Fragmented packets at a time.
const MOST: usize = 16_384;

/// Source, destination, protocol and identification of a fragmented packet.
pub(crate) type Fragmented = (IpAddr, IpAddr, u8, u32);

/// What is known of a fragmented packet, whose first fragment went on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// The key of the first one, as it came.
    pub key: FlowKey,
    /// Whether it belonged to a connection.
    pub connected: bool,
    seen: Instant,
}

/// The fragmented packets that are followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments(BTreeMap<Fragmented, Followed>);

impl Fragments {
    /// What is known of the packet.
    pub(crate) fn find(&self, now: Instant, of: &Fragmented) -> Option<Followed> {
        let followed = self.0.get(of)?;
        (now.since(followed.seen) < FOLLOWED).then_some(*followed)
    }

    /// Follows the packet whose first fragment has `key`. Whether there is room.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        of: Fragmented,
        key: FlowKey,
        connected: bool,
    ) -> bool {
        let room = self.0.len() < MOST || self.0.contains_key(&of);
        if room {
            let followed = Followed {
                key,
                connected,
                seen: now,
            };
            self.0.insert(of, followed);
        }
        room
    }

    /// Forgets what was followed for long enough; whether any is left.
    pub(crate) fn sweep(&mut self, now: Instant) -> bool {
        self.0.retain(|_, f| now.since(f.seen) < FOLLOWED);
        !self.0.is_empty()
    }
}

/// By what a fragment's packet is known; `None` of a whole packet.
pub(crate) fn fragmented(bytes: &[u8], layout: &Layout) -> Option<Fragmented> {
    let ip = &layout.ip;
    if !ip.more_fragments && ip.fragment_offset == 0 {
        return None;
    }
    let ident = if layout.v4 {
        ip.ident
    } else {
        fragment_ident(bytes)?
    };
    Some((ip.source, ip.destination, ip.protocol, ident))
}

/// Whether a fragment hides from rules what is above IP: a first one without the whole header, or one
/// of TCP that writes over a part of it (RFC 1858 §3, RFC 3128).
pub(crate) fn is_tiny(layout: &Layout) -> bool {
    let ip = &layout.ip;
    let known = match ip.protocol {
        ip::TCP | ip::UDP => true,
        ip::ICMP => layout.v4,
        ip::ICMPV6 => !layout.v4,
        _ => false,
    };
    match ip.fragment_offset {
        0 => ip.more_fragments && known && layout.above == Above::Other,
        8 => ip.protocol == ip::TCP,
        _ => false,
    }
}

/// The identification in an IPv6 fragment header.
fn fragment_ident(bytes: &[u8]) -> Option<u32> {
    let mut next = *bytes.get(6)?;
    let mut at = 40;
    loop {
        let header = bytes.get(at..at + 8)?;
        match next {
            44 => {
                return Some(u32::from_be_bytes([
                    header[4], header[5], header[6], header[7],
                ]));
            }
            51 => at += (usize::from(header[1]) + 2) * 4,
            0 | 43 | 60 | 135 => at += (usize::from(header[1]) + 1) * 8,
            _ => return None,
        }
        next = header[0];
    }
}
