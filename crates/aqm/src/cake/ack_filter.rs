//! Which acknowledgement that waits a newer one makes superfluous.
//!
//! Behaviour from Linux net/sched/sch_cake.c v6.17 (`cake_ack_filter`,
//! `cake_tcph_may_drop`, `cake_tcph_sack_compare`): a pure ACK goes if two wait that a newer
//! segment of its connection covers; what says more than the newer one stays. Deviation:
//! IPv6 extension headers before TCP are skipped, where Linux lets such packets alone.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::net::IpAddr;

use narrows_core::Packet;
use narrows_wire::ip::TCP;
use narrows_wire::{Ip, TcpFlags};

/// IPv6 in IPv4 (RFC 4213), looked into.
const IPV6_IN_IPV4: u8 = 41;
/// Kinds of options (IANA): end, padding, SACK, timestamps, MD5 signature.
const END: u8 = 0;
const PADDING: u8 = 1;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const SIGNATURE: u8 = 19;

/// The echo of congestion, a change of which is not to be lost.
const ECN_BITS: u16 = TcpFlags::ECE | TcpFlags::CWR;

/// How much the filter takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckFilter {
    /// Nothing.
    #[default]
    Off,
    /// The older one of two that are superfluous.
    On,
    /// Also a single one directly before the newer segment.
    Aggressive,
}

/// The words of tc.
pub(super) const MODES: &[(&str, AckFilter)] = &[
    ("no-ack-filter", AckFilter::Off),
    ("ack-filter", AckFilter::On),
    ("ack-filter-aggressive", AckFilter::Aggressive),
];

/// What is looked at of a TCP segment.
struct Segment<'p> {
    /// Addresses and ports.
    connection: (IpAddr, IpAddr, [u8; 4]),
    ack: u32,
    flags: TcpFlags,
    options: &'p [u8],
    payload: usize,
}

fn word(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |word| u32::from_be_bytes(*word))
}

/// `a` comes after `b` in sequence space.
fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl<'p> Segment<'p> {
    fn of(packet: &'p Packet) -> Option<Self> {
        let mut bytes = packet.bytes.as_slice();
        let mut ip = Ip::parse(bytes).ok()?;
        if ip.protocol == IPV6_IN_IPV4 && ip.source.is_ipv4() {
            bytes = bytes.get(ip.header_len..)?;
            ip = Ip::parse(bytes).ok()?;
        }
        if ip.protocol != TCP || ip.fragment_offset > 0 {
            return None;
        }
        let tcp = bytes.get(ip.header_len..)?;
        let header = tcp.first_chunk::<20>()?;
        let header_len = usize::from(header[12] >> 4) * 4;
        Some(Self {
            connection: (
                ip.source,
                ip.destination,
                [header[0], header[1], header[2], header[3]],
            ),
            ack: word(&header[8..]),
            flags: TcpFlags(u16::from_be_bytes([header[12] & 0x0f, header[13]])),
            options: tcp.get(20..header_len)?,
            payload: ip.total_len.checked_sub(ip.header_len + header_len)?,
        })
    }

    /// Kind and body of each option up to the first that cannot be read.
    fn each_option(&self) -> impl Iterator<Item = (u8, &'p [u8])> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            loop {
                match *rest {
                    [END, ..] | [] => return None,
                    [PADDING, ref after @ ..] => rest = after,
                    [kind, len, ..] => {
                        let option = rest.get(2..len.into())?;
                        rest = &rest[len.into()..];
                        return Some((kind, option));
                    }
                    [_] => return None,
                }
            }
        })
    }

    fn option(&self, kind: u8) -> Option<&'p [u8]> {
        let mut all = self.each_option();
        all.find(|option| option.0 == kind).map(|option| option.1)
    }

    fn timestamps(&self) -> (u32, u32) {
        match self.option(TIMESTAMPS) {
            Some(body) if body.len() == 8 => (word(body), word(&body[4..])),
            _ => (0, 0),
        }
    }

    /// Selective acknowledgements, as their edges.
    fn blocks(&self) -> impl Iterator<Item = (u32, u32)> + Clone + use<'p> {
        let body = self.option(SACK).unwrap_or_default();
        body.chunks_exact(8).map(|b| (word(b), word(&b[4..])))
    }

    /// Whether flags and options are such that nothing but the acknowledgement is lost
    /// with this segment, where a newer one has `timestamps`.
    fn is_plain(&self, timestamps: (u32, u32)) -> bool {
        // Alone ACK, whatever the echo of ECN; no reserved bit, and not that of AccECN.
        if self.flags.0 & !ECN_BITS != TcpFlags::ACK {
            return false;
        }
        self.each_option().all(|(kind, body)| match kind {
            SIGNATURE => true,
            SACK => body.len() % 8 == 0,
            TIMESTAMPS => {
                body.len() == 8
                    && !is_after(word(body), timestamps.0)
                    && !is_after(word(&body[4..]), timestamps.1)
            }
            _ => false,
        })
    }

    /// Compares what is acknowledged selectively: greater if this segment says anything
    /// that `newer` does not, or reports a duplicate (RFC 2883); less if `newer` says more.
    fn compare_sack(&self, newer: &Self) -> Ordering {
        let (mine, theirs) = (self.blocks(), newer.blocks());
        match (mine.clone().next(), theirs.clone().next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(_), Some(_)) => {}
        }
        let covered = |(left, right): (u32, u32)| {
            let mut all = theirs.clone();
            all.any(|(l, r)| !is_after(l, left) && !is_after(right, r))
        };
        let duplicate = |(left, _): (u32, u32)| is_after(self.ack, left);
        if mine.clone().any(|b| duplicate(b) || !covered(b)) {
            return Ordering::Greater;
        }
        let bytes = |blocks: &mut dyn Iterator<Item = (u32, u32)>| {
            blocks.fold(0u32, |sum, (l, r)| sum.wrapping_add(r.wrapping_sub(l)))
        };
        match bytes(&mut theirs.clone()) > bytes(&mut mine.clone()) {
            true => Ordering::Less,
            false => Ordering::Equal,
        }
    }

    /// Whether it is a pure ACK that says nothing that `newer` does not say.
    fn is_covered_by(&self, newer: &Self, timestamps: (u32, u32)) -> bool {
        if !self.is_plain(timestamps) || self.payload > 0 || is_after(self.ack, newer.ack) {
            return false;
        }
        match self.compare_sack(newer) {
            Ordering::Greater => false,
            // The same again counts: it is a duplicate ACK.
            Ordering::Equal => self.ack != newer.ack,
            Ordering::Less => true,
        }
    }
}

/// The place of the packet in `queue` that its newest one makes superfluous.
pub(super) fn superfluous(queue: &VecDeque<Box<Packet>>, filter: AckFilter) -> Option<usize> {
    let last = queue.len().checked_sub(1).filter(|last| *last > 0)?;
    if filter == AckFilter::Off {
        return None;
    }
    let newer = Segment::of(&queue[last])?;
    if newer.flags.0 & (TcpFlags::ACK | TcpFlags::SYN) != TcpFlags::ACK {
        return None;
    }
    let timestamps = newer.timestamps();
    // The oldest one that is covered, with its echo of ECN.
    let mut oldest: Option<(usize, u16)> = None;
    let mut found = 0;
    for (at, packet) in queue.iter().enumerate().take(last) {
        let Some(segment) = Segment::of(packet) else {
            continue;
        };
        if segment.connection != newer.connection {
            continue;
        }
        let echo = segment.flags.0 & ECN_BITS;
        // The last one before a change of the echo stays.
        if oldest.is_some_and(|(_, of_oldest)| of_oldest != echo) {
            oldest = None;
            found -= 1;
        }
        if !segment.is_covered_by(&newer, timestamps) {
            continue;
        }
        oldest = oldest.or(Some((at, echo)));
        if found > 0 {
            return oldest.map(|(at, _)| at);
        }
        found += 1;
    }
    let (at, echo) = oldest?;
    let next_to_newer = at + 1 == last && echo == newer.flags.0 & ECN_BITS;
    (filter == AckFilter::Aggressive && next_to_newer).then_some(at)
}

#[cfg(test)]
mod tests;
