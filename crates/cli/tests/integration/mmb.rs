//! `narrows mmb`: commands as arguments and from files, captures through a box.

#[allow(dead_code)] // its short run is of other tests
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use crate::program::narrows;
use narrows_units::Instant;
use narrows_wire::capture::{CaptureReader, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::LinkType;
use narrows_wire::{Ecn, FlowKey, IpFields, UdpFields, ip};

/// A datagram with ECT(1) from `from`'s port 5000 to port 80.
fn datagram(from: &str, to: &str, ports: [u16; 2]) -> Vec<u8> {
    let [source, destination]: [IpAddr; 2] = [from, to].map(|a| a.parse().unwrap());
    let mut bytes = Vec::new();
    IpFields {
        source,
        destination,
        traffic_class: 1,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    }
    .write(&mut bytes, 12);
    UdpFields {
        source_port: ports[0],
        destination_port: ports[1],
    }
    .write(&mut bytes, source, destination, b"data", 0);
    bytes
}

/// A capture of one question and its answer.
fn capture(path: &Path) {
    let mut out = PcapngWriter::new(Vec::new(), "test").unwrap();
    let interface = Interface {
        name: "x".to_owned(),
        link: LinkType::RAW,
        snaplen: 0,
    };
    let interface = out.add_interface(&interface).unwrap();
    for (i, bytes) in [
        datagram("10.0.0.1", "10.0.0.9", [5000, 80]),
        datagram("10.0.0.9", "10.0.0.1", [80, 5000]),
    ]
    .iter()
    .enumerate()
    {
        let packet = ToWrite {
            at: Instant::from_nanos(1_000 * (1 + i as u64)),
            bytes,
            zero_tail: 0,
            cut: 0,
            id: None,
            direction: None,
            comment: None,
        };
        out.write(interface, &packet).unwrap();
    }
    fs::write(path, out.finish().unwrap()).unwrap();
}

#[test]
fn a_capture_is_explained_and_sent_through_a_box() {
    let at = tempfile::tempdir().unwrap();
    capture(&at.path().join("in.pcapng"));
    fs::write(
        at.path().join("box.mmb"),
        "# both\nmmb add ip-ect1 mod ip-ect0\n",
    )
    .unwrap();
    let run = |words: &[&str]| {
        let output = narrows(at.path(), words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    };
    let said = run(&["mmb", "-f", "box.mmb", "explain", "in.pcapng"]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].contains("10.0.0.1:5000 > 10.0.0.9:80 protocol 17 by inside: matches 1; changed"),
        "{said}"
    );
    assert!(lines[1].contains("by outside"), "{said}");
    let words = "replay in.pcapng out.pcapng; list";
    let said = run(&["mmb", "-f", "box.mmb", words]);
    assert!(
        said.contains("2 packets: 0 left as they came, 2 changed, 0 dropped"),
        "{said}"
    );
    assert!(
        said.contains("2 packets             64 bytes  add ip-ect1 mod ip-ect0"),
        "{said}"
    );
    let out = fs::read(at.path().join("out.pcapng")).unwrap();
    let mut reader = CaptureReader::new(&out[..]).unwrap();
    let record = reader.read().unwrap().unwrap();
    let bytes = record.ip_packet().unwrap();
    assert_eq!(ip::ecn(bytes), Ecn::Ect0);
    assert_eq!(FlowKey::of(bytes).unwrap().source_port, 5000);
    let json = run(&[
        "mmb",
        "--format",
        "json",
        "-f",
        "snat",
        "--address",
        "192.0.2.1",
        "explain",
        "in.pcapng",
    ]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first = &json["explained"][0];
    assert_eq!(first["direction"], "forward");
    assert!(
        first["left"].as_str().unwrap().starts_with("192.0.2.1:"),
        "{first}"
    );
}

#[test]
fn what_is_wrong_is_refused_where_it_stands() {
    let at = tempfile::tempdir().unwrap();
    fs::write(
        at.path().join("box.mmb"),
        "add all drop\nadd tcp-fni drop\n",
    )
    .unwrap();
    for (words, says) in [
        (
            &["mmb", "add", "tcp-dprt", "80", "drop"][..],
            "did you mean `tcp-dport`?",
        ),
        (&["mmb", "-f", "box.mmb", "list"], "line 2, column 5"),
        (
            &["mmb", "-f", "nothing.mmb", "list"],
            "`nothing.mmb` cannot be read",
        ),
        (&["mmb", "explain", "nothing.pcap"], "`nothing.pcap`"),
        (&["mmb", "del", "1"], "there are no rules"),
        (&["mmb", "fly"], "replay"),
    ] {
        let output = narrows(at.path(), words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
    }
}

#[test]
fn several_commands_are_one_json_document_and_options_come_first() {
    let run = |words: &[&str]| {
        let output = narrows(Path::new("."), words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (status, printed, _) = run(&["mmb", "--format", "json", "add all drop; list; boxes"]);
    assert_eq!(status, Some(0));
    let both: serde_json::Value = serde_json::from_str(&printed).expect("one document");
    assert_eq!(both[1]["rules"][0]["rule"], "add all drop", "{both}");
    assert!(both[2]["boxes"].is_array(), "{both}");
    let (status, printed, _) = run(&["mmb", "--format", "json", "boxes"]);
    assert_eq!(status, Some(0));
    let one: serde_json::Value = serde_json::from_str(&printed).expect("one document");
    assert!(one["boxes"].is_array(), "{one}");
    for words in [
        &["mmb", "attach", "--whole-bundles", "lo", "udp-block"][..],
        &["mmb", "attach", "lo", "--wait", "udp-block"],
    ] {
        let (status, _, said) = run(words);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("options before the command"), "{said}");
    }
    let (status, _, said) = run(&["mmb", "add tcp-dport 80 tcp-dport 443 drop"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("can match no packet"), "{said}");
}
