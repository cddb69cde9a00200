//! Properties of the wire formats against naive oracles.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_units::Instant;
use narrows_wire::capture::{CaptureReader, Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::checksum::{self, Sum};
use narrows_wire::link::LinkType;
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{
    Ecn, Icmp, Ip, IpFields, SackList, Tcp, TcpFields, TcpFlags, TcpOptions, Udp, UdpFields, icmp,
    ip,
};
use proptest::prelude::*;

/// RFC 1071 as it reads: 16 bits at a time, the carry added at once.
fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum: u16 = 0;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        let (added, carry) = sum.overflowing_add(word);
        sum = added + u16::from(carry);
    }
    sum
}

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let v4 = || any::<u32>().prop_map(|a| IpAddr::V4(Ipv4Addr::from(a)));
    let v6 = || any::<u128>().prop_map(|a| IpAddr::V6(Ipv6Addr::from(a)));
    prop_oneof![(v4(), v4()), (v6(), v6())]
}

fn ip_fields() -> impl Strategy<Value = IpFields> {
    (addresses(), any::<u8>(), any::<u8>(), any::<u16>()).prop_map(
        |((source, destination), traffic_class, ttl, ident)| IpFields {
            source,
            destination,
            traffic_class,
            ttl,
            protocol: ip::TCP,
            ident: u32::from(ident),
        },
    )
}

/// Counters present up to some point, as they can be written.
fn accecn() -> impl Strategy<Value = AccEcnOption> {
    let counters = prop::collection::vec(0u32..1 << 24, 0..=3);
    (any::<bool>(), counters).prop_map(|(ect1_first, c)| {
        let at = |i: usize| c.get(i).copied();
        let (e0b, e1b) = if ect1_first {
            (at(2), at(0))
        } else {
            (at(0), at(2))
        };
        AccEcnOption {
            ect1_first,
            e0b,
            ceb: at(1),
            e1b,
        }
    })
}

fn cookie() -> impl Strategy<Value = FastOpenCookie> {
    prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 4..=16)]
        .prop_map(|c| FastOpenCookie::new(&c).expect("a cookie of an allowed length"))
}

/// Options that fit the 40 bytes of a header.
fn options() -> impl Strategy<Value = TcpOptions> {
    (
        any::<Option<u16>>(),
        prop::option::of(0u8..=14),
        any::<bool>(),
        prop::collection::vec(any::<(u32, u32)>(), 0..=4),
        any::<Option<(u32, u32)>>(),
        prop::option::of(cookie()),
        prop::option::of(accecn()),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, blocks, timestamps, fast_open, accecn)| {
                let mut sack = SackList::default();
                for (left, right) in blocks {
                    sack.push(left, right);
                }
                TcpOptions {
                    mss,
                    window_scale,
                    sack_permitted,
                    sack,
                    timestamps,
                    fast_open,
                    accecn,
                }
            },
        )
        .prop_filter("more than 40 bytes", |o| o.encoded_len() <= 40)
}

fn tcp_fields() -> impl Strategy<Value = TcpFields> {
    (
        any::<(u16, u16, u32, u32)>(),
        0u16..0x1000,
        any::<u16>(),
        options(),
    )
        .prop_map(|(numbers, flags, window, options)| TcpFields {
            source_port: numbers.0,
            destination_port: numbers.1,
            seq: numbers.2,
            ack: numbers.3,
            flags: TcpFlags(flags),
            window,
            options,
        })
}

/// Whether a transport's bytes with their pseudo header sum to all ones.
fn checks_out(fields: &IpFields, protocol: u8, segment: &[u8]) -> bool {
    let mut all = Vec::new();
    match (fields.source, fields.destination) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            all.extend_from_slice(&a.octets());
            all.extend_from_slice(&b.octets());
            all.extend_from_slice(&[0, protocol]);
            all.extend_from_slice(&(segment.len() as u16).to_be_bytes());
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            all.extend_from_slice(&a.octets());
            all.extend_from_slice(&b.octets());
            all.extend_from_slice(&(segment.len() as u32).to_be_bytes());
            all.extend_from_slice(&[0, 0, 0, protocol]);
        }
        _ => unreachable!("both addresses are of one version"),
    }
    all.extend_from_slice(segment);
    naive_sum(&all) == 0xffff
}

proptest! {
    #[test]
    fn the_sum_equals_the_naive_one_however_it_is_split(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        split in 0usize..100,
    ) {
        let mut sum = Sum::default();
        let at = (split * 2).min(bytes.len() & !1);
        sum.add(&bytes[..at]);
        sum.add(&bytes[at..]);
        prop_assert_eq!(sum.folded(), naive_sum(&bytes));
    }

    #[test]
    fn an_incremental_update_equals_a_full_recomputation(
        mut words in prop::collection::vec(any::<u16>(), 1..20),
        new: u16,
        at in any::<prop::sample::Index>(),
    ) {
        // A header always has a nonzero word: the version.
        words.push(0x4500);
        let bytes = |words: &[u16]| -> Vec<u8> {
            words.iter().flat_map(|w| w.to_be_bytes()).collect()
        };
        let at = at.index(words.len() - 1);
        let before = checksum::of(&bytes(&words));
        let old = std::mem::replace(&mut words[at], new);
        prop_assert_eq!(
            checksum::update(before, old, new),
            checksum::of(&bytes(&words))
        );
    }

    #[test]
    fn an_ip_header_reads_back_as_written(fields in ip_fields(), payload in 0usize..1460) {
        let mut bytes = Vec::new();
        fields.write(&mut bytes, payload);
        prop_assert_eq!(bytes.len(), fields.header_len());
        let read = Ip::parse(&bytes).unwrap();
        prop_assert_eq!(read.source, fields.source);
        prop_assert_eq!(read.destination, fields.destination);
        prop_assert_eq!(read.traffic_class, fields.traffic_class);
        prop_assert_eq!(read.ttl, fields.ttl);
        prop_assert_eq!(read.ident, fields.ident);
        prop_assert_eq!(read.total_len, bytes.len() + payload);
    }

    #[test]
    fn marking_changes_only_the_mark_and_keeps_the_header_checksum(
        fields in ip_fields(),
        ecn in 0u8..4,
        dscp in 0u8..64,
    ) {
        let mut bytes = Vec::new();
        fields.write(&mut bytes, 100);
        ip::set_ecn(&mut bytes, Ecn::from_bits(ecn));
        ip::set_dscp(&mut bytes, dscp);
        prop_assert_eq!(ip::traffic_class(&bytes), dscp << 2 | ecn);
        let mut expected = Vec::new();
        IpFields { traffic_class: dscp << 2 | ecn, ..fields }.write(&mut expected, 100);
        prop_assert_eq!(bytes, expected);
    }

    #[test]
    fn options_read_back_as_written_and_take_the_length_that_they_say(options in options()) {
        let mut bytes = Vec::new();
        options.write(&mut bytes);
        prop_assert_eq!(bytes.len(), options.encoded_len());
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(TcpOptions::parse(&bytes), Ok(options));
    }

    #[test]
    fn a_segment_reads_back_as_written_and_its_checksum_covers_the_tail(
        ip in ip_fields(),
        fields in tcp_fields(),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        tail in 0u32..1400,
    ) {
        let mut bytes = Vec::new();
        fields.write(&mut bytes, ip.source, ip.destination, &payload, tail);
        let read = Tcp::parse(&bytes).unwrap();
        prop_assert_eq!(read.header_len, fields.header_len());
        prop_assert_eq!(
            TcpFields {
                source_port: read.source_port,
                destination_port: read.destination_port,
                seq: read.seq,
                ack: read.ack,
                flags: read.flags,
                window: read.window,
                options: read.options,
            },
            fields
        );
        prop_assert_eq!(&bytes[read.header_len..], &payload[..]);
        bytes.resize(bytes.len() + tail as usize, 0);
        prop_assert!(checks_out(&ip, ip::TCP, &bytes));
    }

    #[test]
    fn a_datagram_reads_back_as_written_and_its_checksum_covers_the_tail(
        ip in ip_fields(),
        ports: (u16, u16),
        payload in prop::collection::vec(any::<u8>(), 0..40),
        tail in 0u32..1400,
    ) {
        let fields = UdpFields { source_port: ports.0, destination_port: ports.1 };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, ip.source, ip.destination, &payload, tail);
        let read = Udp::parse(&bytes).unwrap();
        prop_assert_eq!((read.source_port, read.destination_port), ports);
        prop_assert_ne!(read.checksum, 0);
        bytes.resize(bytes.len() + tail as usize, 0);
        prop_assert_eq!(usize::from(read.length), bytes.len());
        prop_assert!(checks_out(&ip, ip::UDP, &bytes));
    }

    #[test]
    fn any_icmp_message_reads_back_as_written(
        ip in ip_fields(),
        kind: u8,
        code: u8,
        rest: u32,
    ) {
        let protocol = Icmp::protocol(ip.source);
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend_from_slice(&rest.to_be_bytes());
        let message = Icmp::parse(protocol, &bytes).unwrap();
        let mut written = Vec::new();
        message.write(&mut written, ip.source, ip.destination, &[], 0);
        prop_assert_eq!(written.len(), icmp::HEADER_LEN);
        written[2..4].fill(0);
        prop_assert_eq!(written, bytes);
    }

    #[test]
    fn a_capture_reads_back_as_written(
        packets in prop::collection::vec(
            (
                any::<u64>(),
                prop::collection::vec(any::<u8>(), 0..80),
                0u32..2000,
                any::<Option<u64>>(),
                any::<Option<bool>>(),
                prop::option::of("[ -~]{0,40}"),
                0usize..3,
            ),
            0..20,
        ),
        snaplen in 0u32..200,
    ) {
        let mut writer = PcapngWriter::new(Vec::new(), "narrows test").unwrap();
        for name in ["host/client", "link/access/up/mid", "ä"] {
            writer
                .add_interface(&Interface { name: name.into(), link: LinkType::RAW, snaplen })
                .unwrap();
        }
        let direction = |out: bool| if out { Direction::Outbound } else { Direction::Inbound };
        for (at, bytes, zero_tail, id, out, comment, interface) in &packets {
            let packet = ToWrite {
                at: Instant::from_nanos(*at),
                bytes,
                zero_tail: *zero_tail,
                cut: 0,
                id: *id,
                direction: out.map(direction),
                comment: comment.as_deref(),
            };
            writer.write(*interface, &packet).unwrap();
        }
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        for (at, bytes, zero_tail, id, out, comment, interface) in &packets {
            let mut full = bytes.clone();
            full.resize(bytes.len() + *zero_tail as usize, 0);
            let record = reader.read().unwrap().expect("as many packets as were written");
            prop_assert_eq!(record.original_len as usize, full.len());
            if snaplen > 0 {
                full.truncate(snaplen as usize);
            }
            prop_assert_eq!(record.bytes, &full[..]);
            prop_assert_eq!(record.at, Some(Instant::from_nanos(*at)));
            prop_assert_eq!(record.interface, *interface);
            prop_assert_eq!((record.id, record.comment), (*id, comment.as_deref()));
            prop_assert_eq!(record.direction, out.map(direction));
        }
        prop_assert_eq!(reader.read().unwrap(), None);
    }
}
