//! `narrows observe` over captures of many kinds: what is read of them, what is written of
//! them, and what is said of those that cannot be read.

use std::path::Path;

use narrows_units::Instant;
use narrows_wire::capture::{CaptureReader, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::LinkType;
use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, ip};
use serde_json::Value;

use crate::observing::{corpus, observe, out};

/// The counters of each point.
fn counters(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    lines.filter(|v: &Value| v["event"] == "counters").collect()
}

fn counted(words: &[&str]) -> Vec<Value> {
    counters(&out(&[words, &["--format", "json"]].concat()))
}

/// A packet of this protocol between 192.0.2.1 and 192.0.2.2.
fn packet(protocol: u8, above: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = IpFields {
        source: [192, 0, 2, 1].into(),
        destination: [192, 0, 2, 2].into(),
        traffic_class: 0,
        ttl: 64,
        protocol,
        ident: 0,
    };
    header.write(&mut bytes, above.len());
    bytes.extend_from_slice(above);
    bytes
}

fn segment(port: u16, payload: usize) -> Vec<u8> {
    let tcp = TcpFields {
        source_port: 40_000,
        destination_port: port,
        seq: 1,
        ack: 1,
        flags: TcpFlags(TcpFlags::ACK),
        window: 1_000,
        options: TcpOptions::default(),
    };
    let mut bytes = Vec::new();
    let (from, to) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    tcp.write(&mut bytes, from, to, &vec![0; payload], 0);
    packet(ip::TCP, &bytes)
}

/// A frame of Ethernet, tagged or not.
fn ether(vlan: Option<u8>, packet: &[u8]) -> Vec<u8> {
    let tag = vlan.map_or(vec![], |vlan| vec![0x81, 0, 0, vlan]);
    [&[0; 12], &tag[..], &[8, 0], packet].concat()
}

/// A capture with one packet each millisecond, each at an interface of these.
fn write(path: &Path, interfaces: &[(&str, LinkType)], packets: &[(usize, Vec<u8>, u32)]) {
    let mut writer = PcapngWriter::new(Vec::new(), "test").expect("memory");
    for (name, link) in interfaces {
        let interface = Interface {
            name: (*name).to_owned(),
            link: *link,
            snaplen: 0,
        };
        writer.add_interface(&interface).expect("memory");
    }
    for (n, (interface, bytes, cut)) in packets.iter().enumerate() {
        let packet = ToWrite {
            at: Instant::from_nanos(1_000_000_000 + n as u64 * 1_000_000),
            bytes,
            zero_tail: 0,
            cut: *cut,
            id: None,
            direction: None,
            comment: None,
        };
        writer.write(*interface, &packet).expect("memory");
    }
    std::fs::write(path, writer.finish().expect("memory")).expect("a capture");
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str().expect("a plain name").to_owned()
    }
}

#[test]
fn a_compressed_capture_is_observed_as_the_plain_one() {
    let plain = out(&["-r", &corpus("compressed/plain.pcap"), "--format", "csv"]);
    assert!(plain.lines().count() > 1, "{plain}");
    for name in ["compressed/members.pcap.gz", "compressed/frames.pcap.zst"] {
        assert_eq!(out(&["-r", &corpus(name), "--format", "csv"]), plain);
    }
    let other = observe(&["-r", &corpus("compressed/magic.xz")]);
    assert_eq!(other.status.code(), Some(1));
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("xz -dc"), "{said}");
}

#[test]
fn segments_that_offload_left_without_a_length_are_observed() {
    let seen = &counted(&[&corpus("capture/offloaded.pcap")])[0];
    assert_eq!(
        (&seen["observed"], &seen["malformed"]),
        (&2.into(), &0.into())
    );
    let folder = Folder::new();
    let path = folder.path("offloaded.pcapng");
    let mut bytes = segment(80, 50);
    bytes[2..4].fill(0);
    let link = [("eth0", LinkType::ETHERNET)];
    write(
        Path::new(&path),
        &link,
        &[(0, ether(None, &bytes), 149_950)],
    );
    let text = out(&[&path, "--format", "json"]);
    let end = text
        .lines()
        .find(|l| l.contains("\"end\""))
        .expect("a flow");
    let end: Value = serde_json::from_str(end).expect("JSON");
    let bytes: u64 = ["initiator", "responder"]
        .map(|side| end[side]["bytes"].as_u64().expect("a number"))
        .iter()
        .sum();
    assert_eq!(bytes, 20 + 20 + 150_000);
}

#[test]
fn each_unnamed_interface_of_a_capture_is_a_point_and_a_named_one_is_shared_by_files() {
    let folder = Folder::new();
    let path = folder.path("unnamed.pcapng");
    let raw = |name| (name, LinkType::RAW);
    let packets = [
        (0, segment(80, 9), 0),
        (1, segment(80, 9), 0),
        (1, segment(80, 9), 0),
    ];
    write(Path::new(&path), &[raw(""), raw("")], &packets);
    let points = counted(&[&path]);
    let point = |at: usize| (points[at]["tap"].as_str(), points[at]["packets"].as_u64());
    assert_eq!(points.len(), 2);
    assert_eq!(point(0), (Some("interface 0"), Some(1)));
    assert_eq!(point(1), (Some("interface 1"), Some(2)));
    assert_eq!(
        counted(&[&path, &path]).len(),
        2,
        "rotated files are the same points"
    );
    // A lone one needs no name, as in pcap.
    write(Path::new(&path), &[raw("")], &packets[..1]);
    assert_eq!(counted(&[&path])[0]["tap"], "");
}

#[test]
fn a_link_type_that_is_not_read_is_named_and_the_status_says_so() {
    let folder = Folder::new();
    let path = folder.path("user.pcapng");
    let links = [("dongle", LinkType(249)), ("eth0", LinkType::ETHERNET)];
    let eth = ether(None, &segment(80, 9));
    write(
        Path::new(&path),
        &links,
        &[(0, vec![1; 60], 0), (0, vec![2; 60], 0), (1, eth, 0)],
    );
    let seen = observe(&[&path, "--format", "json"]);
    assert_eq!(seen.status.code(), Some(1));
    let said = String::from_utf8_lossy(&seen.stderr);
    assert!(
        said.contains("at dongle are of link type 249 (USBPCAP)"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "once: {said}");
    let points = counters(&String::from_utf8_lossy(&seen.stdout));
    assert_eq!(
        (&points[0]["no_ip"], &points[1]["observed"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn captures_stand_before_the_filter_where_no_option_names_them() {
    let path = &corpus("compressed/plain.pcap");
    assert_eq!(out(&[path, "tcp"]), out(&["-r", path, "tcp"]));
    assert_eq!(
        out(&[path, path, "tcp or udp"]),
        out(&["-r", path, "-r", path, "tcp", "or", "udp"])
    );
    assert_eq!(
        out(&["-n", "-c", "1", path]),
        out(&["--count", "1", "-r", path])
    );
    let missing = observe(&["nothere.pcap", "tcp"]);
    assert_eq!(missing.status.code(), Some(1));
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(
        said.contains("nothere.pcap") && said.contains("No such file"),
        "{said}"
    );
}

#[test]
fn what_the_filter_takes_of_a_capture_is_written_as_it_was() {
    let folder = Folder::new();
    let (path, to) = (folder.path("all.pcapng"), folder.path("some.pcapng"));
    let ping = packet(ip::ICMP, &[8, 0, 0, 0, 0, 1, 0, 1]);
    let links = [("eth0", LinkType::ETHERNET), ("tun0", LinkType::RAW)];
    write(
        Path::new(&path),
        &links,
        &[
            (0, ether(None, &segment(80, 9)), 1_000),
            (0, ether(Some(7), &segment(443, 9)), 0),
            (1, segment(80, 9), 0),
            (0, ether(Some(7), &ping), 0),
            (1, ping, 0),
        ],
    );
    let of = |filter: &str| {
        out(&["-r", &path, "-w", &to, filter]);
        let file = std::fs::read(&to).expect("a capture");
        let mut reader = CaptureReader::new(&file[..]).expect("pcapng");
        let mut found = Vec::new();
        while let Some(record) = reader.read().expect("whole") {
            let name = record.interface_name.to_owned();
            found.push((name, record.link, record.bytes.len(), record.original_len));
        }
        found
    };
    assert_eq!(of("").len(), 5);
    let eth = |bytes, cut| {
        (
            "eth0".to_owned(),
            LinkType::ETHERNET,
            bytes,
            bytes as u32 + cut,
        )
    };
    let tun = |bytes| ("tun0".to_owned(), LinkType::RAW, bytes, bytes as u32);
    assert_eq!(of("tcp port 80"), [eth(14 + 49, 1_000), tun(49)]);
    assert_eq!(of("icmp"), [eth(18 + 28, 0), tun(28)]);
    assert_eq!(of("vlan"), [eth(18 + 49, 0), eth(18 + 28, 0)]);
    assert_eq!(of("vlan 7 and tcp"), [eth(18 + 49, 0)]);
    assert_eq!(of("vlan 8"), []);
    // What was found in all is found in what was written of all.
    of("");
    let csv = |path: &str| out(&[path, "--format", "csv"]);
    assert_eq!(csv(&to), csv(&path));
    assert_eq!(
        counted(&[&path, "-c", "3"])[1]["packets"],
        1,
        "three are taken"
    );
}

#[test]
fn a_capture_that_cannot_be_written_is_a_failure() {
    if !Path::new("/dev/full").exists() {
        return eprintln!("skipped: a_capture_that_cannot_be_written_is_a_failure: no /dev/full");
    }
    let path = corpus("compressed/plain.pcap");
    let full = observe(&["-r", &path, "-w", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(
        said.contains("/dev/full") && said.contains("No space left"),
        "{said}"
    );
}

#[test]
fn flows_inside_tunnels_are_observed_where_it_is_asked_for() {
    let folder = Folder::new();
    let path = folder.path("tunnel.pcapng");
    let gre = packet(47, &[&[0, 0, 8, 0][..], &segment(443, 9)].concat());
    write(Path::new(&path), &[("gre", LinkType::RAW)], &[(0, gre, 0)]);
    let seen = |words: &[&str]| {
        let point = &counted(&[&[path.as_str()], words].concat())[0];
        (
            point["observed"].as_u64(),
            point["other_protocols"].as_u64(),
        )
    };
    assert_eq!(seen(&[]), (Some(0), Some(1)));
    assert_eq!(seen(&["--inner"]), (Some(1), Some(0)));
    assert_eq!(seen(&["--inner", "tcp port 80"]), (Some(0), Some(0)));
}
