//! The hook over whole IP packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_core::{FlowId, HookVerdict, HostHook, Packet, Role};
use narrows_efm::{SignalCounters, SignalHook, SignalSpec};
use narrows_units::Instant;
use narrows_wire::checksum::Sum;
use narrows_wire::{Ip, IpFields, Tcp, TcpFields, TcpFlags, UdpFields, ip};

const V4: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
);
const V6: (IpAddr, IpAddr) = (
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
);

/// A TCP packet from the first to the second, with `between` behind the IP
/// header.
fn packet(ends: (IpAddr, IpAddr), port: u16, flags: u16, between: &[u8]) -> Packet {
    let payload = if flags & TcpFlags::SYN == 0 { 1000 } else { 0 };
    let tcp = TcpFields {
        source_port: port,
        destination_port: 80,
        seq: 1,
        flags: TcpFlags(flags),
        ..TcpFields::default()
    };
    let mut segment = Vec::new();
    tcp.write(&mut segment, ends.0, ends.1, &[], payload);
    let mut bytes = Vec::new();
    IpFields {
        source: ends.0,
        destination: ends.1,
        traffic_class: 0,
        ttl: 64,
        protocol: if between.is_empty() { ip::TCP } else { 60 },
        ident: 0,
    }
    .write(&mut bytes, between.len() + segment.len() + payload as usize);
    bytes.extend_from_slice(between);
    bytes.extend_from_slice(&segment);
    Packet {
        bytes,
        zero_tail: payload,
        flow: Some(FlowId(u32::from(port))),
        ..Packet::default()
    }
}

fn leaves(marker: &mut SignalHook, packet: &mut Packet) {
    let verdict = marker.egress(Instant::ZERO, Role::Initiator, packet, None);
    assert_eq!(verdict, HookVerdict::Pass);
}

fn answer(marker: &mut SignalHook, ends: (IpAddr, IpAddr), port: u16) {
    let mut back = packet((ends.1, ends.0), 80, TcpFlags::SYN | TcpFlags::ACK, &[]);
    let at = Ip::parse(&back.bytes).unwrap().header_len;
    back.bytes[at + 2..at + 4].copy_from_slice(&port.to_be_bytes());
    back.flow = Some(FlowId(u32::from(port)));
    let before = back.bytes.clone();
    marker.ingress(Instant::ZERO, Role::Initiator, &mut back, None);
    assert_eq!(back.bytes, before, "what arrives stays as it is");
}

/// Opens a connection; the bits of its first packet.
fn first_bits(marker: &mut SignalHook, ends: (IpAddr, IpAddr), port: u16, between: &[u8]) -> u8 {
    leaves(marker, &mut packet(ends, port, TcpFlags::SYN, between));
    answer(marker, ends, port);
    bits(marker, ends, port, between)
}

/// Sends a packet; its bits. Its checksum is checked.
fn bits(marker: &mut SignalHook, ends: (IpAddr, IpAddr), port: u16, between: &[u8]) -> u8 {
    let mut sent = packet(ends, port, TcpFlags::ACK, between);
    leaves(marker, &mut sent);
    let header = Ip::parse(&sent.bytes).unwrap();
    let segment = &sent.bytes[header.header_len..];
    let mut sum = Sum::default();
    let len = header.total_len - header.header_len;
    sum.add_pseudo_header(ends.0, ends.1, ip::TCP, len as u32);
    sum.add(segment);
    assert_eq!(sum.finish(), 0);
    Tcp::parse(segment).unwrap().flags.measurement_bits()
}

fn marker(words: &str) -> SignalHook {
    SignalHook::new(&SignalSpec::parse(words).unwrap())
}

#[test]
fn both_versions_of_ip_are_marked_and_extension_headers_skipped() {
    // Destination options (RFC 8200 §4.6): TCP follows, 8 bytes, padding.
    let options = [ip::TCP, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(first_bits(&mut marker("d"), V4, 1, &[]), 0x02);
    assert_eq!(first_bits(&mut marker("d"), V6, 1, &[]), 0x02);
    assert_eq!(first_bits(&mut marker("d"), V6, 1, &options), 0x02);
}

#[test]
fn fragments_datagrams_and_what_cannot_be_read_go_on_unchanged() {
    let mut marker = marker("d");
    assert_eq!(first_bits(&mut marker, V4, 1, &[]), 0x02);
    let mut first_fragment = packet(V4, 1, TcpFlags::ACK, &[]);
    first_fragment.bytes[6] |= 0x20;
    let mut later_fragment = packet(V4, 1, TcpFlags::ACK, &[]);
    later_fragment.bytes[7] = 1;
    let mut cut = packet(V4, 1, TcpFlags::ACK, &[]);
    cut.bytes.truncate(30);
    let mut datagram = Packet::default();
    IpFields {
        source: V4.0,
        destination: V4.1,
        traffic_class: 0,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    }
    .write(&mut datagram.bytes, 8 + 40);
    let udp = UdpFields {
        source_port: 1,
        destination_port: 80,
    };
    udp.write(&mut datagram.bytes, V4.0, V4.1, &[0x50; 40], 0);
    for mut packet in [
        first_fragment,
        later_fragment,
        cut,
        datagram,
        Packet::default(),
    ] {
        let before = packet.bytes.clone();
        leaves(&mut marker, &mut packet);
        marker.ingress(Instant::ZERO, Role::Responder, &mut packet, None);
        assert_eq!(packet.bytes, before);
    }
    assert_eq!(marker.counters().other, 5);
}

#[test]
fn only_the_flows_that_were_asked_for_are_marked() {
    let mut marker = marker("d").only(vec![FlowId(2)]);
    assert_eq!(first_bits(&mut marker, V4, 1, &[]), 0);
    assert_eq!(first_bits(&mut marker, V4, 2, &[]), 0x02);
}

#[test]
fn the_connection_that_was_silent_longest_makes_room() {
    let mut marker = marker("q announce never").with_room_for(2);
    for port in [1, 2] {
        first_bits(&mut marker, V4, port, &[]);
    }
    for _ in 0..63 {
        assert_eq!(bits(&mut marker, V4, 1, &[]), 0);
        assert_eq!(bits(&mut marker, V4, 2, &[]), 0);
    }
    first_bits(&mut marker, V4, 3, &[]);
    assert_eq!(bits(&mut marker, V4, 2, &[]), 0x04);
    assert_eq!(bits(&mut marker, V4, 1, &[]), 0, "forgotten");
    let mut set = [0; 8];
    // The first of its second block.
    set[3] = 1;
    assert_eq!(
        marker.counters(),
        SignalCounters {
            flows: 3,
            evicted: 1,
            marked: 2 * 64 + 2,
            set,
            passed_over: 1,
            ..SignalCounters::default()
        }
    );
}

#[test]
fn announcements_and_marks_are_counted() {
    let mut marker = marker("d+q");
    for _ in 0..2 {
        first_bits(&mut marker, V6, 9, &[]);
    }
    let counters = marker.counters();
    // The second SYN repeats the first with code 000, and so ends the marks.
    assert_eq!((counters.announced, counters.marked), (1, 1));
}
