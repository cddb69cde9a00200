use std::net::Ipv4Addr;

use narrows_core::{DropCause, PacketPool};
use narrows_units::Instant;
use narrows_wire::{Ecn, IpFields, SackList, TcpFields, TcpOptions};

use super::*;
use crate::testing::{Bench, ms};

const ACK: u16 = TcpFlags::ACK;

/// A segment of the connection between 10.0.0.1 and 10.0.1.1.
#[derive(Clone)]
struct Made {
    ack: u32,
    flags: u16,
    sack: &'static [(u32, u32)],
    timestamps: Option<(u32, u32)>,
    payload: usize,
    port: u16,
    source: u8,
    /// Bytes of options that replace all others.
    raw: &'static [u8],
}

fn pure(ack: u32) -> Made {
    Made {
        ack,
        flags: ACK,
        sack: &[],
        timestamps: None,
        payload: 0,
        port: 7,
        source: 1,
        raw: &[],
    }
}

impl Made {
    fn packet(&self) -> Box<Packet> {
        let mut packet = PacketPool::new().take(Instant::ZERO, None);
        let mut sack = SackList::default();
        self.sack.iter().for_each(|(l, r)| sack.push(*l, *r));
        let fields = TcpFields {
            source_port: self.port,
            destination_port: 80,
            ack: self.ack,
            flags: TcpFlags(self.flags),
            options: TcpOptions {
                sack,
                timestamps: self.timestamps,
                ..TcpOptions::default()
            },
            ..TcpFields::default()
        };
        let header = match self.raw.len() {
            0 => fields.header_len(),
            more => 20 + more,
        };
        let ip = IpFields {
            source: Ipv4Addr::new(10, 0, 0, self.source).into(),
            destination: Ipv4Addr::new(10, 0, 1, 1).into(),
            traffic_class: 0,
            ttl: 64,
            protocol: TCP,
            ident: 0,
        };
        ip.write(&mut packet.bytes, header + self.payload);
        let (from, to, payload) = (ip.source, ip.destination, self.payload as u32);
        fields.write(&mut packet.bytes, from, to, &[], payload);
        if !self.raw.is_empty() {
            packet.bytes[32] = ((header / 4) as u8) << 4;
            packet.bytes.extend_from_slice(self.raw);
        }
        packet.zero_tail = self.payload as u32;
        packet
    }
}

fn dropped(filter: AckFilter, queue: &[Made]) -> Option<usize> {
    let queue: VecDeque<_> = queue.iter().map(Made::packet).collect();
    superfluous(&queue, filter)
}

fn usual(queue: &[Made]) -> Option<usize> {
    dropped(AckFilter::On, queue)
}

fn aggressive(queue: &[Made]) -> Option<usize> {
    dropped(AckFilter::Aggressive, queue)
}

#[test]
fn the_older_of_two_that_a_newer_one_covers_goes() {
    assert_eq!(usual(&[pure(1), pure(2), pure(3)]), Some(0));
    assert_eq!(usual(&[pure(1), pure(2)]), None);
    assert_eq!(usual(&[pure(1)]), None);
    // The aggressive filter leaves none directly before.
    assert_eq!(aggressive(&[pure(1), pure(2)]), Some(0));
    assert_eq!(aggressive(&[pure(1), pure(2), pure(3)]), Some(0));
    assert_eq!(dropped(AckFilter::Off, &[pure(1), pure(2), pure(3)]), None);
    // Data that comes last acknowledges as well; data that waits stays.
    let data = |ack| Made {
        payload: 100,
        ..pure(ack)
    };
    assert_eq!(usual(&[pure(1), pure(2), data(3)]), Some(0));
    assert_eq!(usual(&[data(1), pure(2), pure(3)]), None);
    // Across the wrap of the sequence space.
    assert_eq!(
        usual(&[pure(u32::MAX - 1), pure(u32::MAX), pure(3)]),
        Some(0)
    );
    assert_eq!(usual(&[pure(4), pure(5), pure(3)]), None);
}

#[test]
fn duplicate_acks_stay() {
    assert_eq!(usual(&[pure(5), pure(5), pure(5)]), None);
    assert_eq!(aggressive(&[pure(5), pure(5)]), None);
}

#[test]
fn other_connections_are_left_alone() {
    let port = |ack| Made {
        port: 8,
        ..pure(ack)
    };
    let source = |ack| Made {
        source: 2,
        ..pure(ack)
    };
    assert_eq!(usual(&[port(1), port(2), pure(3)]), None);
    assert_eq!(usual(&[source(1), source(2), pure(3)]), None);
    assert_eq!(
        usual(&[port(1), pure(1), port(2), pure(2), pure(3)]),
        Some(1)
    );
}

#[test]
fn the_last_ack_before_a_change_of_the_echo_of_ecn_stays() {
    let ece = |ack| Made {
        flags: ACK | TcpFlags::ECE,
        ..pure(ack)
    };
    let cwr = |ack| Made {
        flags: ACK | TcpFlags::CWR,
        ..pure(ack)
    };
    assert_eq!(usual(&[ece(1), ece(2), ece(3)]), Some(0));
    assert_eq!(usual(&[pure(1), ece(2), ece(3)]), None);
    assert_eq!(usual(&[pure(1), ece(2), ece(3), ece(4)]), Some(1));
    assert_eq!(usual(&[cwr(1), pure(2), pure(3)]), None);
    // The newer one may differ from those before it, but not for the aggressive filter.
    assert_eq!(usual(&[pure(1), pure(2), ece(3)]), Some(0));
    assert_eq!(aggressive(&[pure(1), ece(2)]), None);
    assert_eq!(aggressive(&[ece(1), pure(2)]), None);
    assert_eq!(aggressive(&[ece(1), ece(2)]), Some(0));
}

#[test]
fn what_more_than_acknowledges_stays() {
    for flags in [
        TcpFlags::SYN,
        TcpFlags::FIN,
        TcpFlags::RST,
        TcpFlags::PSH,
        TcpFlags::URG,
        TcpFlags::AE,
        0x200,
    ] {
        let more = |ack| Made {
            flags: ACK | flags,
            ..pure(ack)
        };
        assert_eq!(usual(&[more(1), more(2), pure(3)]), None, "{flags:#x}");
    }
    let without = |ack| Made {
        flags: 0,
        ..pure(ack)
    };
    assert_eq!(usual(&[pure(1), pure(2), without(3)]), None);
    let syn = Made {
        flags: ACK | TcpFlags::SYN,
        ..pure(3)
    };
    assert_eq!(usual(&[pure(1), pure(2), syn]), None);
}

#[test]
fn options_that_are_unknown_or_newer_stay() {
    let stamped = |ack, value, echo| Made {
        timestamps: Some((value, echo)),
        ..pure(ack)
    };
    assert_eq!(
        usual(&[stamped(1, 5, 5), stamped(2, 5, 5), stamped(3, 5, 5)]),
        Some(0)
    );
    assert_eq!(
        usual(&[stamped(1, 6, 5), stamped(2, 6, 5), stamped(3, 5, 5)]),
        None
    );
    assert_eq!(
        usual(&[stamped(1, 5, 6), stamped(2, 5, 6), stamped(3, 5, 5)]),
        None
    );
    let raw = |ack, raw| Made { raw, ..pure(ack) };
    // Padding, MD5, an experiment, AccECN, a timestamp of the wrong length.
    for (options, goes) in [
        (&[1u8, 1, 1, 1][..], true),
        (&[19, 4, 0, 0], true),
        (&[254, 4, 0, 0], false),
        (&[172, 2, 1, 1], false),
        (&[8, 4, 0, 0], false),
        (&[5, 4, 0, 0], false),
        // Nothing is read after the end.
        (&[0, 254, 4, 0], true),
    ] {
        let queue = [raw(1, options), raw(2, options), pure(3)];
        assert_eq!(usual(&queue), goes.then_some(0), "{options:?}");
    }
}

#[test]
fn an_ack_stays_that_reports_selectively_what_the_newer_one_does_not() {
    let sack = |ack, sack| Made { sack, ..pure(ack) };
    let goes = |older: &'static [(u32, u32)], newer| {
        usual(&[sack(100, older), sack(100, older), sack(100, newer)]).is_some()
    };
    // More of it, as one block or two.
    assert!(goes(&[(200, 300)], &[(200, 400)]));
    assert!(goes(&[(200, 300)], &[(500, 600), (200, 300)]));
    assert!(goes(&[], &[(200, 300)]));
    // The same, less, other, none.
    assert!(!goes(&[(200, 300)], &[(200, 300)]));
    assert!(!goes(&[(200, 300)], &[(200, 299)]));
    assert!(!goes(&[(200, 300), (400, 500)], &[(200, 300)]));
    assert!(!goes(&[(200, 300)], &[(400, 900)]));
    assert!(!goes(&[(200, 300)], &[]));
    // A duplicate that is reported (RFC 2883).
    assert!(!goes(&[(50, 60)], &[(50, 60), (200, 300)]));
    // The same with a higher acknowledgement.
    let blocks: &[(u32, u32)] = &[(200, 300)];
    assert!(usual(&[sack(100, blocks), sack(110, blocks), sack(120, blocks)]).is_some());
}

#[test]
fn ipv6_in_ipv4_is_looked_into_and_other_protocols_are_not() {
    let wrapped = |ack| {
        let inner = pure(ack).packet();
        let mut packet = PacketPool::new().take(Instant::ZERO, None);
        let v6 = IpFields {
            source: std::net::Ipv6Addr::LOCALHOST.into(),
            destination: std::net::Ipv6Addr::LOCALHOST.into(),
            traffic_class: 0,
            ttl: 64,
            protocol: TCP,
            ident: 0,
        };
        let v4 = IpFields {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 1, 1).into(),
            protocol: IPV6_IN_IPV4,
            ..v6
        };
        v4.write(&mut packet.bytes, 60);
        v6.write(&mut packet.bytes, 20);
        packet.bytes.extend_from_slice(&inner.bytes[20..]);
        packet
    };
    let queue: VecDeque<_> = [1, 2, 3].map(wrapped).into();
    assert_eq!(superfluous(&queue, AckFilter::On), Some(0));
    let mut queue: VecDeque<_> = [1, 2, 3].map(|ack| pure(ack).packet()).into();
    queue.iter_mut().for_each(|p| p.bytes[9] = 17);
    assert_eq!(superfluous(&queue, AckFilter::On), None);
}

/// A cake with 40 ACKs of one connection, of which the filter lets two wait: IP, TCP and
/// Ethernet, 54 bytes each.
fn filtered(words: &str, dscp: u8) -> Bench {
    let mut b = Bench::new(words);
    for ack in 0..40 {
        let mut packet = pure(ack).packet();
        narrows_wire::ip::set_dscp(&mut packet.bytes, dscp);
        b.offer_packet(ms(1), packet);
    }
    b
}

#[test]
fn an_ack_that_is_taken_away_counts_no_more() {
    let mut b = filtered("cake ack-filter memlimit 1100", 0);
    let backlog = b.queue.backlog();
    assert_eq!((backlog.packets, backlog.bytes), (2, 108));
    assert_eq!(b.queue.counts().dropped, 38);
    // 1108 bytes are too many, and the flow of 1000 is the longest.
    (0..2).for_each(|_| assert!(b.offer(ms(1), 9, Ecn::NotEct, 500).1));
    assert_eq!(b.log.drops.last().map(|d| d.2), Some(DropCause::Overflow));
    let mut lengths: Vec<_> = std::iter::from_fn(|| b.take(ms(1)))
        .map(|t| t.length)
        .collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [54, 54, 500]);
}

#[test]
fn a_tin_whose_acks_were_taken_away_is_as_empty_as_one_that_sent_them() {
    let after = |filter: &str| {
        let mut b = filtered(
            &format!("cake bandwidth 10Mbit interplanetary {filter}"),
            46,
        );
        let mut now = ms(1);
        while b.take_from(&mut now).is_some() {}
        // An empty tin gathers no credit: voice has its quarter, and no more. So long a round
        // trip leaves the AQM at rest.
        now = ms(2_000);
        for _ in 0..20 {
            b.offer_class(now, 1, 46 << 2, 1_514);
            b.offer_class(now, 2, 0, 1_514);
        }
        std::iter::from_fn(|| b.take_from(&mut now))
            .map(|t| t.flow)
            .collect::<Vec<_>>()
    };
    let sent = after("no-ack-filter");
    assert_eq!(sent.len(), 40);
    assert!(sent[..12].contains(&2));
    assert_eq!(after("ack-filter"), sent);
}
