//! A tunnel's two ends, one beside the other.

use narrows_core::{DOWN, Event, EventSink, PacketPool, UP};
use narrows_wire::{FlowKey, IpFields, PacketEnd, UdpFields, set_end};
use proptest::prelude::*;

use super::*;
use crate::ElementSpec;
use crate::testing::{OWN, datagram};

const FAR: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)),
    IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
];
const A: &str = "10.0.0.1:5000";
const B: &str = "10.0.0.2:80";

/// Both ends, and why packets were dropped.
struct Pair {
    near: Box<dyn Element>,
    far: Box<dyn Element>,
    pool: PacketPool,
    drops: Drops,
}

#[derive(Default)]
struct Drops(Vec<(EntityId, DropCause)>);

impl EventSink for Drops {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::Dropped { element, cause, .. } = event {
            self.0.push((element, cause));
        }
    }
}

const NEAR_ID: EntityId = EntityId(1);
const FAR_ID: EntityId = EntityId(2);

fn site(entity: EntityId, addresses: [IpAddr; 2], other: [IpAddr; 2], way: Port) -> Site<'static> {
    Site {
        entity,
        name: "link/test/tunnel",
        seed: 1,
        mtu: 1500,
        forward: true,
        addresses,
        other_end: Some(OtherEnd {
            addresses: other,
            way,
        }),
        ports: &[],
    }
}

fn near() -> Site<'static> {
    site(NEAR_ID, OWN, FAR, UP)
}

fn far() -> Site<'static> {
    site(FAR_ID, FAR, OWN, DOWN)
}

impl Pair {
    fn new(words: &str) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        Self {
            near: spec.build(&near()),
            far: spec.build(&far()),
            pool: PacketPool::new(),
            drops: Drops::default(),
        }
    }

    fn packet(&mut self, bytes: &[u8], zero_tail: u32) -> Box<Packet> {
        let mut packet = self.pool.take(Instant::ZERO, None);
        packet.bytes.extend_from_slice(bytes);
        packet.zero_tail = zero_tail;
        packet
    }

    /// What an end lets out of a packet that travels as `port` says.
    fn push(&mut self, id: EntityId, port: Port, packet: Box<Packet>) -> Vec<(Port, Box<Packet>)> {
        let mut sent = Vec::new();
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.drops,
            sent: &mut sent,
        };
        let end = if id == NEAR_ID {
            &mut self.near
        } else {
            &mut self.far
        };
        end.push(Instant::ZERO, port, packet, &mut out);
        sent
    }

    /// What is in the tunnel of a packet that goes into it at the near end.
    fn enter(&mut self, bytes: &[u8], zero_tail: u32) -> Box<Packet> {
        let packet = self.packet(bytes, zero_tail);
        let mut sent = self.push(NEAR_ID, UP, packet);
        assert_eq!((sent.len(), sent[0].0), (1, UP));
        sent.remove(0).1
    }

    /// What comes out at the far end, if it does.
    fn leave(&mut self, outer: Box<Packet>) -> Option<Box<Packet>> {
        let mut sent = self.push(FAR_ID, UP, outer);
        assert!(sent.iter().all(|(port, _)| *port == UP));
        sent.pop().map(|(_, packet)| packet)
    }

    fn causes(&self) -> Vec<DropCause> {
        self.drops.0.iter().map(|(_, cause)| *cause).collect()
    }
}

const ALL: [&str; 6] = [
    "tunnel wireguard",
    "tunnel wireguard ipv6",
    "tunnel fou",
    "tunnel fou ipv6 sport auto",
    "tunnel ipsec",
    "tunnel ipsec ipv6",
];

/// A datagram with this port, payload and traffic class, of which the last bytes are counted.
fn any_packet(v6: bool, port: u16, class: u8, payload: &[u8], zero_tail: u32) -> Vec<u8> {
    let address = |v4: &str, v6_text: &str| if v6 { v6_text } else { v4 }.parse().unwrap();
    let fields = IpFields {
        source: address("10.0.0.1", "fd00::1"),
        destination: address("10.0.0.2", "fd00::2"),
        traffic_class: class,
        ttl: 7,
        protocol: ip::UDP,
        ident: 77,
    };
    let udp = UdpFields {
        source_port: port,
        destination_port: 80,
    };
    let mut bytes = Vec::new();
    fields.write(&mut bytes, 8 + payload.len() + zero_tail as usize);
    udp.write(
        &mut bytes,
        fields.source,
        fields.destination,
        payload,
        zero_tail,
    );
    bytes
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_as_the_same_packet(
        words in prop::sample::select(&ALL[..]),
        v6: bool,
        port in 1u16..,
        class: u8,
        payload in prop::collection::vec(any::<u8>(), 0..200),
        zero_tail in 0u32..1100,
    ) {
        let mut pair = Pair::new(words);
        let bytes = any_packet(v6, port, class, &payload, zero_tail);
        let mut packet = pair.packet(&bytes, zero_tail);
        packet.flow = Some(narrows_core::FlowId(3));
        let before = packet.clone();
        let outer = pair.push(NEAR_ID, UP, packet).remove(0).1;
        let ip = Ip::parse(&outer.bytes).unwrap();
        prop_assert_eq!(ip.total_len, outer.len() as usize);
        prop_assert!(outer.len() > before.len() && outer.len() <= 1500);
        prop_assert!(checksum_holds(&outer));
        prop_assert_eq!(ip.traffic_class, class);
        prop_assert_eq!((outer.id, outer.flow), (before.id, before.flow));
        // What is behind the packet may be stored as well as counted.
        let mut whole = pair.pool.duplicate(Instant::ZERO, &outer);
        whole.bytes.resize(outer.len() as usize, 0);
        whole.zero_tail = 0;
        let after = pair.leave(outer).unwrap();
        prop_assert_eq!(&after, &before);
        let whole = pair.leave(whole).unwrap();
        prop_assert_eq!(whole.len(), before.len());
        prop_assert!(whole.bytes.starts_with(&before.bytes));
    }

    #[test]
    fn what_is_damaged_or_cut_in_udp_comes_out_as_it_was_or_not_at_all(
        words in prop::sample::select(&ALL[..]),
        at in 0usize..120,
        bit in 0u8..8,
        cut in 0usize..120,
    ) {
        let mut pair = Pair::new(words);
        let inner = datagram(A, B, 100);
        let mut outer = pair.enter(&inner, 0);
        outer.bytes.truncate(outer.bytes.len() - cut);
        if let Some(byte) = outer.bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
        // ESP's tag, which would show it, is not computed; nor is a checksum where the address, or
        // the version by which it is read, is not known to be this end's.
        let noticed = !words.contains("ipsec")
            && !words.contains("ipv6")
            && at > 0
            && !(16..20).contains(&at);
        if let Some(packet) = pair.leave(outer).filter(|_| noticed) {
            prop_assert_eq!(&packet.bytes, &inner);
        }
    }
}

fn checksum_holds(packet: &Packet) -> bool {
    narrows_wire::checksum::hold(&packet.bytes, packet.zero_tail)
}

#[test]
fn an_outer_packet_is_so_much_longer_and_goes_from_end_to_end() {
    for (words, len, more) in [
        ("tunnel wireguard", 1440, 60),
        ("tunnel wireguard ipv6", 1420, 80),
        // Padded to a multiple of 16.
        ("tunnel wireguard", 1001, 60 + 7),
        ("tunnel fou", 1472, 28),
        ("tunnel fou ipv6", 100, 48),
        ("tunnel ipsec", 1446, 54),
        ("tunnel ipsec", 1445, 55),
    ] {
        let mut pair = Pair::new(words);
        let outer = pair.enter(&datagram(A, B, len), 0);
        assert_eq!(outer.len(), len as u32 + more, "{words} {len}");
        let ip = Ip::parse(&outer.bytes).unwrap();
        let v6 = usize::from(words.contains("ipv6"));
        assert_eq!((ip.source, ip.destination), (OWN[v6], FAR[v6]));
        assert_eq!(ip.ttl, TTL, "its own, not 64 less");
        // And back.
        let packet = pair.packet(&datagram(B, A, len), 0);
        let back = pair.push(FAR_ID, DOWN, packet).remove(0).1;
        let ip = Ip::parse(&back.bytes).unwrap();
        assert_eq!((ip.source, ip.destination), (FAR[v6], OWN[v6]));
        let key = FlowKey::of(&back.bytes).unwrap();
        assert_eq!(key.reversed(), FlowKey::of(&outer.bytes).unwrap());
        let inside = pair.push(NEAR_ID, DOWN, back).remove(0).1;
        assert_eq!(inside.bytes, datagram(B, A, len));
    }
}

const TTL: u8 = 64;

#[test]
fn flows_share_a_five_tuple_unless_the_source_port_is_automatic() {
    let keys = |words: &str| {
        let mut pair = Pair::new(words);
        let mut keys = std::collections::BTreeSet::new();
        for port in 0..100u16 {
            // Each flow keeps its own.
            let two = [(); 2].map(|()| {
                let source = format!("10.0.0.1:{}", 5000 + port);
                let outer = pair.enter(&datagram(&source, B, 100), 0);
                FlowKey::of(&outer.bytes).unwrap()
            });
            assert_eq!(two[0], two[1]);
            keys.insert(two[0]);
        }
        keys
    };
    for words in ["tunnel wireguard", "tunnel fou", "tunnel ipsec"] {
        assert_eq!(keys(words).len(), 1, "{words}");
    }
    let fixed: Vec<_> = keys("tunnel fou sport 7").into_iter().collect();
    assert_eq!((fixed[0].source_port, fixed[0].destination_port), (7, 5555));
    for words in ["tunnel fou sport auto", "tunnel wireguard sport auto"] {
        let keys = keys(words);
        // Of 28231 ports two of a hundred flows meet in one now and then.
        assert!(keys.len() > 97, "{words}: {}", keys.len());
        assert!(
            keys.iter()
                .all(|k| (32_768..60_999).contains(&k.source_port))
        );
    }
}

#[test]
fn ecn_goes_in_as_it_is_and_comes_out_by_the_table() {
    for words in ALL {
        let mut pair = Pair::new(words);
        for inner in 0..4u8 {
            for mark in 0..4u8 {
                let bytes = any_packet(false, 9, 46 << 2 | inner, &[1], 0);
                let mut outer = pair.enter(&bytes, 0);
                assert_eq!(ip::traffic_class(&outer.bytes), 46 << 2 | inner);
                // Another DSCP stays outside.
                ip::set_traffic_class(&mut outer.bytes, 8 << 2 | mark);
                let codepoint = narrows_wire::Ecn::from_bits;
                let expected = ecn::decapsulated(codepoint(inner), codepoint(mark));
                let class = pair.leave(outer).map(|p| ip::traffic_class(&p.bytes));
                assert_eq!(
                    class,
                    expected.map(|e| 46 << 2 | e as u8),
                    "{words} {inner} {mark}"
                );
            }
        }
        assert_eq!(pair.drops.0, [(FAR_ID, DropCause::Probability)]);
        assert_eq!(pair.far.counters().dropped, 1);
    }
}

#[test]
fn what_is_overtaken_by_a_window_is_dropped_and_so_is_what_comes_twice() {
    for words in ["tunnel wireguard replay 4", "tunnel ipsec replay 4"] {
        let mut pair = Pair::new(words);
        let mut sent: Vec<_> = (0..6)
            .map(|n| Some(pair.enter(&datagram(A, B, 100 + n), 0)))
            .collect();
        let copy = pair
            .pool
            .duplicate(Instant::ZERO, sent[4].as_ref().unwrap());
        let mut order = Vec::new();
        // 0 and 1 are as far below 5 as the window is wide, and farther; 2 is in it.
        for n in [4, 5, 1, 0, 2, 3] {
            let outer = sent[n].take().unwrap();
            order.extend(pair.leave(outer).map(|_| n));
        }
        assert_eq!(order, [4, 5, 2, 3], "{words}");
        assert!(pair.leave(copy).is_none());
        assert_eq!(pair.causes(), [DropCause::Replay; 3]);
        assert_eq!(pair.far.counters().dropped, 3);
    }
    let mut pair = Pair::new("tunnel ipsec");
    let mut sent: Vec<_> = (0..200)
        .map(|_| pair.enter(&datagram(A, B, 100), 0))
        .collect();
    sent.reverse();
    assert_eq!(sent.into_iter().filter_map(|p| pair.leave(p)).count(), 200);
}

#[test]
fn esp_numbers_go_on_above_32_bits() {
    for (low, highest, whole) in [
        (5, None, 5),
        (5, Some(4), 5),
        (0, Some(0xffff_ffff), 1 << 32),
        (0xffff_fffe, Some(1 << 32 | 3), 0xffff_fffe),
        (7, Some(3 << 32 | 0xffff_fff0), 4 << 32 | 7),
        (0xffff_ffff, Some(3), 0xffff_ffff),
        // Of two that are equally near, the one with the upper half of the highest.
        (0, Some(1 << 32 | 1 << 31), 1 << 32),
        (1 << 31, Some(1 << 32), 1 << 32 | 1 << 31),
    ] {
        assert_eq!(extended(low, highest), whole, "{low} {highest:?}");
    }
    // As seen by the window: half of the number is on the wire.
    let words = "tunnel ipsec replay 4";
    let Ok(ElementSpec::Tunnel(TunnelSpec::Begins(begins))) = ElementSpec::parse(words) else {
        panic!("{words}");
    };
    let mut ends = Ends::of(&begins, &near(), &near().other_end.unwrap());
    ends.next = 0xffff_fffd;
    let mut pair = Pair::new(words);
    pair.near = Box::new(Tunnel::new(NEAR_ID, Some(ends)));
    for _ in 0..6 {
        let outer = pair.enter(&datagram(A, B, 100), 0);
        assert!(pair.leave(outer).is_some());
    }
}

#[test]
fn a_packet_that_does_not_fit_is_answered_with_the_mtu_of_the_tunnel() {
    for (v6, header) in [(false, 20), (true, 40)] {
        let mut pair = Pair::new("tunnel wireguard");
        let of = |len: u32| {
            let zeros = len - header - 8;
            (any_packet(v6, 9, 0, &[], zeros), zeros)
        };
        let (fits, zeros) = of(1440);
        assert_eq!(pair.enter(&fits, zeros).len(), 1500);
        let (long, zeros) = of(1441);
        let long = pair.packet(&long, zeros);
        let (way, error) = pair.push(NEAR_ID, UP, long).remove(0);
        assert_eq!(way, DOWN);
        let ip = Ip::parse(&error.bytes).unwrap();
        let (message, _) = Icmp::quoted(ip.protocol, &error.bytes[ip.header_len..]).unwrap();
        assert_eq!(message, Icmp::TooBig { mtu: 1440 });
        assert_eq!(pair.drops.0, [(NEAR_ID, DropCause::TooBig)]);
    }
}

#[test]
fn an_error_about_an_outer_packet_reaches_the_sender_inside_and_an_mtu_the_tunnel() {
    let mut pair = Pair::new("tunnel fou");
    let outer = pair.enter(&datagram(A, B, 1472), 0);
    let mut error = Vec::new();
    let router = "198.51.100.1".parse().unwrap();
    let message = Icmp::TooBig { mtu: 1300 };
    message
        .report(&mut error, router, &outer.bytes, outer.zero_tail)
        .unwrap();
    let error = pair.packet(&error, 0);
    let (way, relayed) = pair.push(NEAR_ID, DOWN, error).remove(0);
    assert_eq!(way, DOWN);
    let ip = Ip::parse(&relayed.bytes).unwrap();
    assert_eq!(
        (ip.source, ip.destination),
        (OWN[0], "10.0.0.1".parse::<IpAddr>().unwrap())
    );
    let (message, quoted) = Icmp::quoted(ip.protocol, &relayed.bytes[ip.header_len..]).unwrap();
    assert_eq!(message, Icmp::TooBig { mtu: 1272 });
    assert_eq!(FlowKey::of(quoted), FlowKey::of(&datagram(A, B, 1472)));
    let long = pair.packet(&datagram(A, B, 1273), 0);
    let answer = pair.push(NEAR_ID, UP, long).remove(0).1;
    let ip = Ip::parse(&answer.bytes).unwrap();
    let (message, _) = Icmp::quoted(ip.protocol, &answer.bytes[ip.header_len..]).unwrap();
    assert_eq!(message, Icmp::TooBig { mtu: 1272 });
    let outer = pair.enter(&datagram(A, B, 1272), 0);
    assert_eq!(outer.len(), 1300);
    // One that no IPv4 link may have is not believed.
    let mut error = Vec::new();
    let message = Icmp::TooBig { mtu: 95 };
    message.report(&mut error, router, &outer.bytes, 0).unwrap();
    let error = pair.packet(&error, 0);
    pair.push(NEAR_ID, DOWN, error);
    assert_eq!(pair.enter(&datagram(A, B, 1272), 0).len(), 1300);
}

#[test]
fn an_error_is_believed_that_quotes_addresses_and_ports_or_the_spi_of_the_tunnel() {
    let router = "198.51.100.1".parse().unwrap();
    let message = Icmp::TooBig { mtu: 1300 };
    // What is changed in the outer packet that is quoted: bytes from a place on.
    let source_port = (20, [0x12, 0x34]);
    let destination_port = (22, [0x12, 0x34]);
    let other = (18, [7, 7]);
    let spi = (22, [9, 9]);
    for (words, changed, believed) in [
        ("tunnel fou", None, true),
        ("tunnel fou", Some(source_port), false),
        ("tunnel fou", Some(destination_port), false),
        ("tunnel fou", Some(other), false),
        ("tunnel fou sport auto", None, true),
        ("tunnel fou sport auto", Some(source_port), false),
        ("tunnel fou sport auto", Some((20, [0xee, 0x47])), false),
        ("tunnel fou sport auto", Some((20, [0xee, 0x46])), true),
        ("tunnel wireguard", None, true),
        ("tunnel wireguard", Some(source_port), false),
        ("tunnel wireguard", Some(destination_port), false),
        ("tunnel ipsec", None, true),
        ("tunnel ipsec", Some(spi), false),
        ("tunnel ipsec", Some((9, [17, 0])), false),
        ("tunnel fou", Some((9, [6, 0])), false),
    ] {
        let mut pair = Pair::new(words);
        let mut quoted = pair.enter(&datagram(A, B, 1400), 0).bytes.clone();
        if let Some((at, bytes)) = changed {
            quoted[at..at + 2].copy_from_slice(&bytes);
        }
        let mut error = Vec::new();
        message.report(&mut error, router, &quoted, 0).unwrap();
        let error = pair.packet(&error, 0);
        let relayed = pair.push(NEAR_ID, DOWN, error);
        let what = format!("{words} {changed:?}");
        assert_eq!(relayed.len(), usize::from(believed), "{what}");
        let causes = [DropCause::Unreachable];
        assert_eq!(pair.causes(), causes[usize::from(believed)..], "{what}");
        let long = pair.packet(&datagram(A, B, 1400), 0);
        let (way, _) = pair.push(NEAR_ID, UP, long).remove(0);
        assert_eq!(way == DOWN, believed, "{what}: the tunnel's MTU");
    }
}

/// Puts another source, or destination, into an outer packet, as a `nat` does.
fn translated(outer: &mut Packet, end: PacketEnd, to: &str) {
    set_end(&mut outer.bytes, end, to.parse().unwrap());
}

#[test]
fn wireguard_answers_to_where_the_latest_accepted_packet_came_from_and_the_others_do_not() {
    for (words, answers_to) in [
        ("tunnel wireguard", "203.0.113.7:40001"),
        ("tunnel wireguard sport 7", "203.0.113.7:40001"),
        ("tunnel wireguard sport auto", "192.0.2.1:51820"),
        ("tunnel fou", "192.0.2.1:5555"),
    ] {
        let mut pair = Pair::new(words);
        let inner = datagram(A, B, 100);
        let mut outer = pair.enter(&inner, 0);
        let own = FlowKey::of(&outer.bytes).unwrap().source_port;
        translated(&mut outer, PacketEnd::Source, "203.0.113.7:40001");
        assert_eq!(pair.leave(outer).unwrap().bytes, inner, "{words}");
        // What is not accepted teaches nothing.
        let mut wrong = pair.enter(&inner, 0);
        translated(&mut wrong, PacketEnd::Source, "203.0.113.8:9");
        translated(&mut wrong, PacketEnd::Destination, "192.0.2.2:9");
        assert!(pair.leave(wrong).is_none(), "{words}");
        let answer = pair.packet(&datagram(B, A, 100), 0);
        let mut answer = pair.push(FAR_ID, DOWN, answer).remove(0).1;
        let key = FlowKey::of(&answer.bytes).unwrap();
        let to = std::net::SocketAddr::from((key.destination, key.destination_port));
        assert_eq!(to.to_string(), answers_to, "{words}");
        if answers_to.starts_with("203") {
            // Through the nat it reaches the near end, which learns in its turn.
            let back = format!("192.0.2.1:{own}");
            translated(&mut answer, PacketEnd::Destination, &back);
            let inside = pair.push(NEAR_ID, DOWN, answer).remove(0).1;
            assert_eq!(inside.bytes, datagram(B, A, 100), "{words}");
        }
    }
}

#[test]
fn what_is_not_the_tunnels_passes_and_what_cannot_be_read_does_not() {
    let mut pair = Pair::new("tunnel ipsec");
    let other = pair.packet(&datagram(A, B, 100), 0);
    assert_eq!(pair.leave(other).unwrap().bytes, datagram(A, B, 100));
    let to_the_end = datagram(A, &format!("{}:9", FAR[0]), 100);
    let stray = pair.packet(&to_the_end, 0);
    assert!(pair.leave(stray).is_none());
    let nothing = pair.packet(&[0x45, 0], 0);
    assert!(pair.push(NEAR_ID, UP, nothing).is_empty());
    assert_eq!(pair.causes(), [DropCause::Malformed; 2]);
}

#[test]
fn what_goes_in_and_what_comes_out_is_counted_and_so_are_errors() {
    let mut pair = Pair::new("tunnel fou");
    for _ in 0..2 {
        let outer = pair.enter(&datagram(A, B, 100), 0);
        assert_eq!(outer.len(), 128);
    }
    let mut bytes = 2 * 128;
    for _ in 0..2 {
        let long = pair.packet(&datagram(A, B, 1473), 0);
        bytes += pair.push(NEAR_ID, UP, long)[0].1.len();
    }
    let counters = pair.near.counters();
    let into = (counters.packets_in, counters.bytes_in);
    assert_eq!(into, (4, 2 * 100 + 2 * 1473));
    let out = (counters.packets_out, counters.bytes_out);
    assert_eq!((out, counters.dropped), ((4, u64::from(bytes)), 2));
}

#[test]
fn wireguard_counts_from_zero_and_esp_from_one() {
    let outer = Pair::new("tunnel wireguard").enter(&datagram(A, B, 100), 0);
    // Behind the headers of IP and UDP, a type and a receiver of four bytes each.
    assert_eq!(outer.bytes[36..44], 0u64.to_le_bytes());
    let outer = Pair::new("tunnel ipsec").enter(&datagram(A, B, 100), 0);
    assert_eq!(outer.bytes[24..28], 1u32.to_be_bytes());
}

#[test]
fn a_packet_of_another_length_than_its_header_says_and_a_fragment_are_dropped() {
    let mut pair = Pair::new("tunnel ipsec");
    let padded = pair.packet(&datagram(A, B, 100), 5);
    assert!(pair.push(NEAR_ID, UP, padded).is_empty());
    // The packet inside, of 100 bytes, has 118 with its trailer.
    let mut outer = pair.enter(&datagram(A, B, 100), 0);
    outer.bytes[38..40].copy_from_slice(&150u16.to_be_bytes());
    assert!(pair.leave(outer).is_none());
    // A later fragment, with the checksum of its header.
    let mut outer = pair.enter(&datagram(A, B, 100), 0);
    let sum = u16::from_be_bytes([outer.bytes[10], outer.bytes[11]]);
    outer.bytes[7] = 1;
    outer.bytes[10..12].copy_from_slice(&(sum - 1).to_be_bytes());
    assert!(pair.leave(outer).is_none());
    assert_eq!(pair.causes(), [DropCause::Malformed; 3]);
}

#[test]
fn an_error_about_a_packet_of_ipv6_comes_from_the_address_of_ipv6() {
    let mut pair = Pair::new("tunnel fou");
    let outer = pair.enter(&datagram("[fd00::1]:9", "[fd00::2]:7", 1400), 0);
    let mut error = Vec::new();
    let router = "198.51.100.1".parse().unwrap();
    let message = Icmp::TooBig { mtu: 1400 };
    message.report(&mut error, router, &outer.bytes, 0).unwrap();
    let error = pair.packet(&error, 0);
    let (_, relayed) = pair.push(NEAR_ID, DOWN, error).remove(0);
    let ip = Ip::parse(&relayed.bytes).unwrap();
    assert_eq!(ip.source, OWN[1]);
    assert_eq!(ip.destination, "fd00::1".parse::<IpAddr>().unwrap());
}
