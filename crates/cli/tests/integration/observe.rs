//! `narrows observe -r` as a program: what it prints, what it refuses, how it
//! ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use narrows_units::{Instant, Rng};
use narrows_wire::capture::{Direction, Interface, PcapngWriter, ToWrite};
use narrows_wire::link::LinkType;
use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, UdpFields, ip};
use serde_json::Value;

use crate::observing::{corpus, observe, out};

/// The counters that JSON ends with.
fn counters(words: &[&str]) -> Value {
    let text = out(&[words, &["--format", "json"]].concat());
    serde_json::from_str(text.lines().last().expect("counters")).expect("JSON")
}

#[test]
fn a_capture_is_read_from_a_file_or_from_standard_input_alike() {
    let path = &corpus("capture/micros-little.pcap");
    let text = out(&["-r", path]);
    let last = text.lines().last().expect("counters");
    assert!(last.starts_with("packets "), "{last}");
    let piped = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["observe", "-r", "-"])
        .stdin(std::fs::File::open(path).expect("the capture"))
        .output()
        .expect("narrows runs");
    assert_eq!(String::from_utf8_lossy(&piped.stdout), text);
    let seen = counters(&["-r", path])["packets"].as_u64();
    let twice = counters(&["-r", path, "-r", path])["packets"].as_u64();
    assert_eq!(twice, seen.map(|n| 2 * n));
}

#[test]
fn it_ends_after_a_number_of_packets_that_the_filter_takes() {
    let path = &corpus("capture/micros-little.pcap");
    let all = counters(&["-r", path])["observed"].as_u64();
    assert!(all.is_some_and(|n| n > 1), "{all:?}");
    assert_eq!(counters(&["-r", path, "--count", "1"])["observed"], 1);
    assert_eq!(counters(&["-r", path, "not ip and not ip6"])["observed"], 0);
}

#[test]
fn pseudonyms_stand_in_place_of_addresses_and_depend_on_the_key() {
    let path = &corpus("capture/micros-little.pcap");
    let of = |words: &[&str]| out(&[&["-r", path], words].concat());
    let open = of(&[]);
    let keyed = of(&["--anonymize", "--anonymize-key", "blue"]);
    assert!(keyed.contains("host-") && !open.contains("host-"));
    assert_eq!(keyed, of(&["--anonymize", "--anonymize-key", "blue"]));
    assert_ne!(keyed, of(&["--anonymize", "--anonymize-key", "red"]));
    assert_ne!(of(&["--anonymize"]), of(&["--anonymize"]));
}

#[test]
fn what_contradicts_itself_is_refused_before_anything_is_read() {
    let path = &corpus("capture/micros-little.pcap");
    for (words, said) in [
        (&[][..], "nothing to observe"),
        (&["-r", path, "-i", "lo"], "cannot be used with"),
        (&["-r", path, "--profile", "s+q+x"], "--profile"),
        (&["-r", path, "--t-max", "0ms"], "more than zero"),
        (&["-r", path, "--block", "3"], "--block"),
        (&["-r", path, "--count", "0"], "--count"),
        (&["-r", path, "--top"], "standard output is no terminal"),
        (&["-r", path, "-w", path], "is a capture that is read"),
        (&["-w", "x.pcapng", "tcp"], "nothing to observe"),
        (&["-r", path, "port", "x"], "filter"),
        (&[path, "--by-prefix", "33"], "from 0 to 32"),
        (
            &[path, "--by-prefix", "24", "--format", "csv"],
            "text or json",
        ),
        (&[path, "--prometheus", "70000"], "a free port"),
    ] {
        let output = observe(words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

/// A packet of one of `flows` flows: mostly segments with timestamps and marks,
/// some with a hole or a repetition before them, some datagrams, some noise.
fn packet(rng: &mut Rng, flows: u32, ms: u32) -> Vec<u8> {
    let which = rng.below(flows);
    let forward = rng.below(3) > 0;
    let [_, two, three, four] = which.to_be_bytes();
    let (client, server) = ([10, two, three, four], [192, 0, 2, 1]);
    let (from, to) = if forward {
        (client, server)
    } else {
        (server, client)
    };
    let (source_port, destination_port) = if forward {
        (40_000, 443)
    } else {
        (443, 40_000)
    };
    let datagram = which % 5 == 4;
    let header = IpFields {
        source: from.into(),
        destination: to.into(),
        traffic_class: rng.below(4) as u8,
        ttl: 64,
        protocol: if datagram { ip::UDP } else { ip::TCP },
        ident: 0,
    };
    let payload = vec![rng.draw_u64() as u8; 40];
    let mut bytes = Vec::new();
    if datagram {
        let udp = UdpFields {
            source_port,
            destination_port,
        };
        header.write(&mut bytes, 8 + payload.len());
        udp.write(&mut bytes, header.source, header.destination, &payload, 0);
    } else {
        let flags = match rng.below(40) {
            0 => TcpFlags::SYN | 5 << 9,
            1 => TcpFlags::SYN | TcpFlags::ACK | 5 << 9,
            2 => TcpFlags::FIN | TcpFlags::ACK,
            _ => TcpFlags::ACK | ((ms / 20 % 2) as u16) << 11 | (rng.below(4) as u16) << 9,
        };
        let numbers = (ms - rng.below(3).min(ms)) * 40;
        let tcp = TcpFields {
            source_port,
            destination_port,
            seq: numbers,
            ack: numbers,
            flags: TcpFlags(flags),
            window: 1_000,
            options: TcpOptions {
                timestamps: (rng.below(10) > 0).then_some((ms + 1, ms.saturating_sub(15))),
                ..TcpOptions::default()
            },
        };
        header.write(&mut bytes, tcp.header_len() + payload.len());
        tcp.write(&mut bytes, header.source, header.destination, &payload, 0);
    }
    if rng.below(50) == 0 {
        let at = rng.below(bytes.len() as u32) as usize;
        bytes[at] = rng.draw_u64() as u8;
    }
    bytes
}

/// A capture at two interfaces; what it ends with may be cut off.
fn written(rng: &mut Rng, flows: u32, packets: u32) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "test").expect("memory");
    let interfaces = ["left", "right"].map(|name| {
        let interface = Interface {
            name: name.to_owned(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        writer.add_interface(&interface).expect("memory")
    });
    for n in 0..packets {
        let ms = n * 10 / flows.min(packets);
        let bytes = packet(rng, flows, ms);
        let packet = ToWrite {
            at: Instant::from_nanos(u64::from(n) * 10_000_000 / u64::from(flows)),
            bytes: &bytes,
            zero_tail: 0,
            cut: 0,
            id: (n % 7 == 0).then_some(u64::from(n)),
            direction: Some(Direction::Inbound),
            comment: None,
        };
        let at = interfaces[usize::from(rng.below(4) == 0)];
        writer.write(at, &packet).expect("memory");
    }
    let mut file = writer.finish().expect("memory");
    file.truncate(file.len() - rng.below(60) as usize);
    file
}

/// What is printed about a capture that comes through a pipe, a few packets at a
/// time.
fn piped(path: &str, words: &[&str]) -> String {
    let file = std::fs::read(path).expect("the capture");
    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args([&["observe", "-r", "-"], words].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("narrows runs");
    let mut input = child.stdin.take().expect("a pipe");
    let feeder = std::thread::spawn(move || {
        for piece in file.chunks(1_777) {
            // Whoever has counted enough reads no further.
            if input.write_all(piece).is_err() {
                return;
            }
        }
    });
    let output = child.wait_with_output().expect("narrows ends");
    feeder.join().expect("all was written");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn what_is_found_does_not_depend_on_how_much_is_read_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture.pcapng");
    let path = path.to_str().expect("a plain name");
    let mut rng = Rng::for_name(1, "pieces");
    for (flows, packets, words) in [
        (1, 40, &[][..]),
        (3, 3_000, &["--format", "csv"]),
        (100, 20_000, &["--format", "json", "--rows", "samples"]),
        (100, 20_000, &["--interval", "1s", "tcp"]),
        (100, 20_000, &["--interval", "1s", "-v"]),
        (100, 20_000, &["--by-prefix", "24"]),
        (1_000, 30_000, &["--format", "qlog", "--rows", "estimates"]),
        (1_000, 30_000, &["--format", "csv", "--max-flows", "300"]),
        (1_000, 30_000, &["--format", "spindump", "--idle", "50ms"]),
        (1_000, 30_000, &["--format", "json", "--count", "7000"]),
        (1_000, 30_000, &["--format", "csv", "--profile", "s+d+q"]),
    ] {
        std::fs::write(path, written(&mut rng, flows, packets)).expect("a capture");
        let whole = out(&[&["-r", path], words].concat());
        assert!(whole.lines().count() > 3, "{words:?}: {whole}");
        let pieces = piped(path, words);
        assert!(whole == pieces, "{flows} flows, {words:?}");
    }
}

/// What the metrics page of a program says once `wanted` says that it is as it should be.
fn page(at: &str, wanted: impl Fn(&str) -> bool) -> String {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let mut stream = std::net::TcpStream::connect(at).expect("it listens");
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        if wanted(&answer) {
            return answer;
        }
        assert!(std::time::Instant::now() < patience, "{answer}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn metrics_are_answered_at_a_port_while_packets_come() {
    let mut rng = Rng::for_name(1, "metrics");
    let file = written(&mut rng, 20, 2_000);
    let (first, rest) = file.split_at(file.len() / 2);
    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["observe", "-", "--prometheus", "0", "--rows", "none"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("narrows runs");
    let mut said = BufReader::new(child.stderr.take().expect("its standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says where");
    let at = line.trim().strip_prefix("narrows: metrics at http://");
    let at = at
        .and_then(|l| l.strip_suffix("/metrics"))
        .expect("an address");
    let mut input = child.stdin.take().expect("a pipe");
    let count = |page: &str| {
        let name = "narrows_observe_packets_total{tap=\"left\"} ";
        let line = page.lines().find_map(|l| l.strip_prefix(name));
        line.map_or(0, |n| n.parse::<u64>().expect("a number"))
    };
    // A page is made when something has come; this much comes at a time.
    let mut pieces = first.chunks(first.len() / 20);
    let page_after = |input: &mut std::process::ChildStdin,
                      pieces: &mut std::slice::Chunks<'_, u8>| {
        for piece in pieces {
            input.write_all(piece).expect("it reads");
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
    };
    page_after(&mut input, &mut pieces);
    let early = page(at, |page| count(page) > 0);
    page_after(&mut input, &mut rest.chunks(rest.len() / 20));
    let late = page(at, |page| count(page) > count(&early));
    assert!(
        late.contains("narrows_observe_rtt_seconds_bucket{tap=\"left\",technique=\"ts-all\""),
        "{late}"
    );
    drop(input);
    assert!(child.wait().expect("it ends").success());
}
