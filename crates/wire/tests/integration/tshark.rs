//! What tshark makes of a capture that was written here.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use narrows_units::{Duration, Instant};
use narrows_wire::capture::{Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::{self, LinkType};
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{
    Icmp, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, UdpFields, ip, tunnel,
};

/// Packets of one exchange between `source` and `destination`: stored bytes
/// and zero tail.
fn exchange(source: IpAddr, destination: IpAddr) -> Vec<(Vec<u8>, u32)> {
    let packet = |protocol: u8, above: &[u8], tail: u32| {
        let fields = IpFields {
            source,
            destination,
            traffic_class: 46 << 2 | 1, // EF with ECT(1)
            ttl: 64,
            protocol,
            ident: 7,
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, above.len() + tail as usize);
        bytes.extend_from_slice(above);
        (bytes, tail)
    };
    let segment = |flags: u16, seq: u32, options: TcpOptions, payload: &[u8], tail: u32| {
        let fields = TcpFields {
            source_port: 40_000,
            destination_port: 5201,
            seq,
            ack: 77,
            flags: TcpFlags(flags),
            window: 65_535,
            options,
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, source, destination, payload, tail);
        packet(ip::TCP, &bytes, tail)
    };
    let data = TcpOptions {
        timestamps: Some((2, 1)),
        accecn: Some(AccEcnOption {
            ect1_first: true,
            e1b: Some(1449),
            ceb: Some(1),
            e0b: Some(1),
        }),
        ..TcpOptions::default()
    };
    let syn = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 0)),
        fast_open: FastOpenCookie::new(&[9; 8]),
        ..TcpOptions::default()
    };
    let mut sack = TcpOptions {
        timestamps: Some((3, 2)),
        ..TcpOptions::default()
    };
    sack.sack.push(100, 200);
    sack.sack.push(400, 500);

    let mut udp = Vec::new();
    let ports = UdpFields {
        source_port: 4000,
        destination_port: 4001,
    };
    ports.write(&mut udp, source, destination, b"probe", 59);
    let icmp = |message: Icmp, payload: &[u8], tail: u32| {
        let mut bytes = Vec::new();
        message.write(&mut bytes, source, destination, payload, tail);
        packet(Icmp::protocol(source), &bytes, tail)
    };
    // Whole, as tshark checks a quoted segment even where the quote is cut.
    let quote = segment(TcpFlags::ACK, 1, data, &[], 0).0;
    vec![
        segment(TcpFlags::SYN | 7 << 6, 0, syn, b"early", 0),
        segment(TcpFlags::ACK | 5 << 6, 6, data, b"GET /", 1443),
        segment(TcpFlags::ACK | TcpFlags::PSH, 1454, data, &[], 1),
        segment(TcpFlags::ACK, 1455, sack, &[], 0),
        segment(TcpFlags::FIN | TcpFlags::ACK, 1455, data, &[], 0),
        packet(ip::UDP, &udp, 59),
        icmp(Icmp::EchoRequest { ident: 1, seq: 2 }, b"ping", 52),
        icmp(Icmp::TooBig { mtu: 1400 }, &quote, 0),
    ]
}

fn capture(packets: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "narrows").unwrap();
    for name in ["host/client", "link/access/up/mid"] {
        let interface = Interface {
            name: name.into(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        writer.add_interface(&interface).unwrap();
    }
    for (i, (bytes, zero_tail)) in packets.iter().enumerate() {
        let packet = ToWrite {
            at: Instant::ZERO + Duration::from_nanos(1_000_000_001) * i as u64,
            bytes,
            zero_tail: *zero_tail,
            cut: 0,
            id: Some(i as u64),
            direction: Some(Direction::Outbound),
            comment: (i == 1).then_some("marked: step"),
        };
        writer.write(i % 2, &packet).unwrap();
    }
    writer.finish().unwrap()
}

const FIELDS: [&str; 12] = [
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.interface_name",
    "frame.comment",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "_ws.malformed",
    "tcp.options.unknown",
];

#[test]
fn tshark_finds_whole_packets_with_good_checksums() {
    let version = Command::new("tshark").arg("--version").output();
    if !version.is_ok_and(|v| v.status.success()) {
        // Past the test harness, which hides what passing tests print.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: tshark_finds_whole_packets_with_good_checksums: tshark is not installed"
        );
        return;
    }
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let mut packets = exchange(v4(1), v4(2));
    packets.extend(exchange(v6(1), v6(2)));

    let mut file = tempfile::Builder::new()
        .suffix(".pcapng")
        .tempfile()
        .unwrap();
    file.write_all(&capture(&packets)).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(file.path()).args(["-T", "fields"]);
    for checked in ["ip", "tcp", "udp"] {
        tshark.args(["-o", &format!("{checked}.check_checksum:TRUE")]);
    }
    for field in FIELDS {
        // Only the outermost of several, as errors quote packets.
        tshark.args(["-e", field, "-E", "occurrence=f"]);
    }
    let output = tshark.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");

    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows.len(), packets.len());
    for (i, (row, (bytes, tail))) in rows.iter().zip(&packets).enumerate() {
        let len = (bytes.len() + *tail as usize).to_string();
        assert_eq!(row[0], format!("{i}.{i:09}"), "stamp of packet {i}");
        assert_eq!((row[1], row[2]), (&*len, &*len), "length of packet {i}");
        assert_eq!(row[3], ["host/client", "link/access/up/mid"][i % 2]);
        assert_eq!(row[4], if i == 1 { "marked: step" } else { "" });
        // tshark's status: 1 good, 0 bad, empty where there is no such header.
        let checksums = &row[5..10];
        assert!(checksums.contains(&"1"), "packet {i} was checked: {row:?}");
        let quotes = i % 8 == 7; // its quoted segment is cut, so not checked
        for status in checksums {
            let unchecked = quotes && *status == "2";
            assert!(
                matches!(*status, "" | "1") || unchecked,
                "packet {i}: {row:?}"
            );
        }
        assert_eq!(row[10..], ["", ""], "packet {i} is well formed");
    }
}

/// The kept frame with this name, and the link that it is of.
fn kept(name: &str, link: LinkType) -> (LinkType, Vec<u8>) {
    let path = format!("{}/tests/corpus/packet/{name}", env!("CARGO_MANIFEST_DIR"));
    (link, std::fs::read(path).unwrap())
}

#[test]
fn tshark_finds_the_same_segment_behind_each_link_and_tunnel() {
    let test = "tshark_finds_the_same_segment_behind_each_link_and_tunnel";
    let version = Command::new("tshark").arg("--version").output();
    if !version.is_ok_and(|v| v.status.success()) {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: tshark is not installed"
        );
        return;
    }
    let frames = [
        kept("frame-ethernet-mpls", LinkType::ETHERNET),
        kept("frame-ethernet-pppoe", LinkType::ETHERNET),
        kept("frame-ethernet-snap", LinkType::ETHERNET),
        kept("frame-ppp", LinkType::PPP),
        kept("frame-cisco-hdlc", LinkType::C_HDLC),
        kept("frame-wlan-qos", LinkType::IEEE802_11),
        kept("frame-radiotap", LinkType::IEEE802_11_RADIOTAP),
        kept("frame-nflog", LinkType::NFLOG),
        kept("tunnel-ipip", LinkType::RAW),
        kept("tunnel-6in4", LinkType::RAW),
        kept("tunnel-gre", LinkType::RAW),
        kept("tunnel-gretap", LinkType::RAW),
        kept("tunnel-vxlan", LinkType::RAW),
        kept("tunnel-geneve", LinkType::RAW),
        kept("tunnel-gre-in-vxlan", LinkType::RAW),
        kept("v4-no-length", LinkType::RAW),
    ];
    let mut writer = PcapngWriter::new(Vec::new(), "narrows").unwrap();
    let mut ours = Vec::new();
    for (at, (link, bytes)) in frames.iter().enumerate() {
        let interface = Interface {
            name: at.to_string(),
            link: *link,
            snaplen: 0,
        };
        writer.add_interface(&interface).unwrap();
        let packet = ToWrite {
            at: Instant::ZERO,
            bytes,
            zero_tail: 0,
            cut: 0,
            id: None,
            direction: None,
            comment: None,
        };
        writer.write(at, &packet).unwrap();
        let inside = tunnel::innermost(link::ip_packet(*link, bytes).expect("an IP packet"));
        let ip = Ip::parse(inside).unwrap();
        let tcp = Tcp::parse(&inside[ip.header_len..]).unwrap();
        let payload = ip.total_len - ip.header_len - tcp.header_len;
        let numbers = (tcp.source_port, tcp.destination_port, tcp.seq);
        ours.push(format!(
            "{}\t{}\t{}\t{payload}",
            numbers.0, numbers.1, numbers.2
        ));
    }
    let mut file = tempfile::Builder::new()
        .suffix(".pcapng")
        .tempfile()
        .unwrap();
    file.write_all(&writer.finish().unwrap()).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(file.path());
    tshark.args(["-T", "fields", "-E", "occurrence=l"]);
    for field in ["tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len"] {
        tshark.args(["-e", field]);
    }
    let text = String::from_utf8(tshark.output().unwrap().stdout).unwrap();
    let theirs: Vec<&str> = text.lines().collect();
    assert_eq!(theirs, ours);
}
