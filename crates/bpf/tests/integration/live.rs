//! Congestion controls in this machine's kernel: registered, negotiated, and
//! deciding as the native build does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, socket};

use narrows_bpf::{EcnFlags, Ect1, Hook, Loaded, Record, Trace};
use narrows_cc::ControlSpec;

use crate::recorded::calls::Trace as Kept;
use crate::rig::path::{Rig, Seen, TcpPacket};
use crate::rig::transfer::{Chosen, Transfer};
use crate::rig::{Namespace, Path, control, skipped};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2));

fn rig(test: &str, path: Path) -> Option<Rig> {
    match Rig::start(path) {
        Ok(rig) => Some(rig),
        Err(why) => {
            skipped(test, &why);
            None
        }
    }
}

/// All records, after the sockets are gone.
fn records(loaded: &mut Loaded) -> Vec<Record> {
    std::thread::sleep(Duration::from_millis(100));
    let mut records = Vec::new();
    loaded.poll(|r| records.push(r)).expect("the ring buffer");
    assert_eq!(loaded.dropped().expect("the counter"), 0);
    records
}

fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .expect("the list of congestion controls")
}

#[test]
fn a_loaded_control_is_listed_until_it_is_dropped() {
    let test = "a_loaded_control_is_listed_until_it_is_dropped";
    for words in [
        "reno",
        "cubic",
        "cubic hystart++",
        "prague variant 2020",
        "prague variant 2022",
        "prague variant 2024",
    ] {
        let Some(loaded) = control(test, words, EcnFlags::None, Trace::Off) else {
            return;
        };
        let name = loaded.name().to_owned();
        let listed = || available().split_whitespace().any(|n| n == name);
        assert!(listed(), "{words}");
        drop(loaded);
        assert!(!listed(), "{words}");
    }
}

#[test]
fn a_name_that_is_taken_is_refused_in_a_sentence() {
    let test = "a_name_that_is_taken_is_refused_in_a_sentence";
    let Some(first) = control(test, "reno", EcnFlags::None, Trace::Off) else {
        return;
    };
    let spec = ControlSpec::parse("cubic").expect("words");
    let second = narrows_bpf::ControlLoader::load(&spec, first.name(), EcnFlags::None, Trace::Off);
    let error = second.expect_err("the name is taken").to_string();
    assert!(error.contains(first.name()), "{error}");
}

/// Tries of a transfer on a machine that is busy.
const TRIES: usize = 10;

/// What `transfer` came to when its SYN was sent once: one that is sent again, as on a
/// machine that was away for a second, asks for no ECN (RFC 3168 §6.1.1.1).
fn with_one_syn<T>(test: &str, transfer: impl Fn() -> Option<(T, Seen)>) -> Option<(T, Seen)> {
    for _ in 0..TRIES {
        let (done, seen) = transfer()?;
        if seen.syn.len() == 1 {
            return Some((done, seen));
        }
    }
    skipped(test, &"every SYN was sent again, the machine is too busy");
    None
}

/// A transfer over `path` with every hook recorded and replayed.
fn traced(test: &str, words: &str, ecn: EcnFlags, path: Path) -> Option<(Vec<Record>, Seen)> {
    let (trace, seen) = record(test, words, ecn, path, 3_000_000, None)?;
    let replayed = trace.replay().unwrap_or_else(|d| panic!("{words}: {d}"));
    assert_eq!(replayed.sockets, 2, "{words}: both ends");
    assert!(replayed.calls[&Hook::PktsAcked] > 100);
    Some((trace.records, seen))
}

fn record(
    test: &str,
    words: &str,
    ecn: EcnFlags,
    path: Path,
    bytes: usize,
    pause: Option<(usize, Duration)>,
) -> Option<(Kept, Seen)> {
    with_one_syn(test, || {
        record_once(test, words, ecn, path.clone(), bytes, pause)
    })
}

fn record_once(
    test: &str,
    words: &str,
    ecn: EcnFlags,
    path: Path,
    bytes: usize,
    pause: Option<(usize, Duration)>,
) -> Option<(Kept, Seen)> {
    let rig = rig(test, path)?;
    let mut loaded = control(test, words, ecn, Trace::Full)?;
    let name = loaded.name().to_owned();
    let _mark = (ecn != EcnFlags::None)
        .then(|| {
            let index = rig.client.index("tun0");
            rig.client.run(|| Ect1::attach(index))
        })
        .transpose()
        .expect("the host hook attaches");
    let transfer = Transfer {
        server: V4,
        bytes,
        pause,
        client_cc: &name,
        server_cc: &name,
        chosen: Chosen::BeforeListen,
    };
    assert_eq!(transfer.run(&rig).received, bytes);
    let seen = rig.stop();
    let records = records(&mut loaded);
    let spec = ControlSpec::parse(words).expect("words");
    let uname = nix::sys::utsname::uname().expect("the kernel has a name");
    let kernel = uname.release().to_string_lossy().into_owned();
    let trace = Kept {
        spec,
        kernel,
        records,
    };
    Some((trace, seen))
}

/// The records of the end that sent the data.
fn sender(records: &[Record]) -> Vec<Record> {
    let of = |r: &&Record| r.raw.remote_port == 5001;
    records.iter().filter(of).cloned().collect()
}

fn receiver(records: &[Record]) -> Vec<Record> {
    let of = |r: &&Record| r.raw.local_port == 5001;
    records.iter().filter(of).cloned().collect()
}

#[test]
fn the_kernel_decides_as_the_native_build_does_through_losses() {
    let test = "the_kernel_decides_as_the_native_build_does_through_losses";
    for words in ["reno", "cubic", "prague"] {
        let path = Path {
            lose: vec![300, 301, 700],
            ..Path::default()
        };
        let ecn = if words == "prague" {
            EcnFlags::AccEcn
        } else {
            EcnFlags::None
        };
        let Some((records, seen)) = traced(test, words, ecn, path) else {
            return;
        };
        assert!(seen.lost >= 3, "{words}: {seen:?}");
        let recovered = sender(&records)
            .iter()
            .filter(|r| r.hook == Hook::Ssthresh)
            .count();
        assert!(recovered >= 1, "{words}");
    }
}

#[test]
fn accurate_ecn_is_negotiated_and_counts_every_mark() {
    let test = "accurate_ecn_is_negotiated_and_counts_every_mark";
    let path = Path {
        mark: Some(Duration::from_millis(1)),
        ..Path::default()
    };
    let Some((records, seen)) = traced(test, "prague", EcnFlags::AccEcn, path) else {
        return;
    };
    let (sent, got) = (sender(&records), receiver(&records));
    let (Some(last), Some(end)) = (sent.last(), got.last()) else {
        panic!("both ends are traced");
    };
    if last.raw.ecn_flags & 16 == 0 {
        skipped(test, &"this kernel has no Accurate ECN");
        return;
    }
    assert!(seen.marked > 10, "{seen:?}");
    assert_eq!(u64::from(end.raw.received_ce), seen.marked);
    assert_eq!(last.facts.delivered_ce, end.raw.received_ce);
    // All data is ECT(1); the handshake is as Linux sends it.
    assert_eq!((seen.data[0], seen.data[2]), (0, 0), "{seen:?}");
    // A SYN of RFC 9768: AE, CWR and ECE.
    assert_eq!(seen.syn_flags[0] & 0x1c0, 0x1c0, "{seen:?}");
    println!("{seen:?}");
}

#[test]
fn without_accurate_ecn_the_receiver_echoes_each_change_of_the_mark() {
    let test = "without_accurate_ecn_the_receiver_echoes_each_change_of_the_mark";
    let path = Path {
        mark: Some(Duration::from_millis(1)),
        ..Path::default()
    };
    let Some((records, seen)) = traced(test, "prague", EcnFlags::Classic, path) else {
        return;
    };
    let sent = sender(&records);
    let last = sent.last().expect("the sender is traced");
    assert_eq!(last.raw.ecn_flags & 17, 1, "classic");
    // Marks of the first and the last packets may be reported more or less often than
    // once: an ACK for two counts both.
    let reported = u64::from(last.facts.delivered_ce);
    println!("{reported} reported, {seen:?}");
    assert!(seen.marked > 10 && reported > 0, "{seen:?}");
    assert!(
        reported.abs_diff(seen.marked) <= seen.marked / 4 + 4,
        "{reported}, {seen:?}"
    );
    assert_eq!(seen.data[2], 0, "{seen:?}");
}

/// Losses, a timeout, a timeout that was spurious, an idle time and, for who
/// asks for them, marks. With `NARROWS_KEEP_TRACES` set to a folder the traces
/// are written there: this is how tests/traces came to be.
#[test]
fn the_kernel_decides_as_the_native_build_does_through_all_that_can_happen() {
    let test = "the_kernel_decides_as_the_native_build_does_through_all_that_can_happen";
    // Says once what is not there.
    let can = control(test, "reno", EcnFlags::None, Trace::Off).is_some()
        && rig(test, Path::default()).is_some();
    if !can {
        return;
    }
    std::thread::scope(|scope| {
        for (words, ecn) in [
            ("reno", EcnFlags::None),
            ("cubic", EcnFlags::AccEcn),
            ("prague variant 2020", EcnFlags::AccEcn),
            ("prague variant 2022", EcnFlags::Classic),
            ("prague variant 2024", EcnFlags::AccEcn),
            ("cubic hystart++", EcnFlags::None),
        ] {
            scope.spawn(move || all_that_can_happen(words, ecn));
        }
    });
}

fn all_that_can_happen(words: &str, ecn: EcnFlags) {
    let test = "the_kernel_decides_as_the_native_build_does_through_all_that_can_happen";
    let ms = Duration::from_millis;
    let path = Path {
        rate: 10_000_000,
        delay: ms(10),
        queue: ms(60),
        mark: (ecn != EcnFlags::None).then_some(ms(if words == "cubic" { 5 } else { 2 })),
        lose: vec![150, 151, 152, 400],
        stalls: vec![(600, ms(400))],
        late: Vec::new(),
        holes: vec![(1000, ms(600))],
    };
    let pause = Some((2_000_000, ms(1500)));
    let Some((trace, seen)) = record(test, words, ecn, path, 2_500_000, pause) else {
        return;
    };
    let replayed = trace.replay().unwrap_or_else(|d| panic!("{words}: {d}"));
    let count = |hook: Hook, argument: u32| {
        let of = |r: &&Record| r.hook == hook && r.argument == argument;
        trace.records.iter().filter(of).count()
    };
    println!("{words}: {replayed:?} {seen:?}");
    assert!(count(Hook::SetState, 3) > 0, "{words}: no recovery");
    assert!(count(Hook::SetState, 4) > 0, "{words}: no timeout");
    assert!(count(Hook::CwndEvent, 0) > 1, "{words}: no new start");
    if ecn != EcnFlags::None {
        assert!(count(Hook::SetState, 2) > 0, "{words}: no CWR");
    }
    if let Some(folder) = std::env::var_os("NARROWS_KEEP_TRACES") {
        let name = format!("{}.trace.gz", words.replace(' ', "-").replace("++", "pp"));
        let file = std::fs::File::create(std::path::Path::new(&folder).join(name));
        trace
            .write(file.expect("the folder is there"))
            .expect("written");
    }
}

/// A state in socket storage, options, telemetry, a timer and a wrapper: the kernel's
/// build and the native one decide and report alike.
#[test]
fn what_a_control_declares_is_in_the_kernel_what_it_is_natively() {
    let test = "what_a_control_declares_is_in_the_kernel_what_it_is_natively";
    for (words, most) in [
        ("roomy ceiling 30 period 20ms", 30),
        ("capped cap 12 beta 900", 12),
    ] {
        let path = Path {
            rate: 20_000_000,
            delay: Duration::from_millis(10),
            queue: Duration::from_millis(30),
            lose: vec![300],
            ..Path::default()
        };
        let Some((records, _)) = traced(test, words, EcnFlags::None, path) else {
            return;
        };
        let sender = sender(&records);
        let widest = sender.iter().map(|r| r.facts.cwnd).max().expect("records");
        assert_eq!(widest, most, "{words}");
        let timers = sender.iter().filter(|r| r.hook == Hook::Timer).count();
        if words.starts_with("roomy") {
            let periods = sender.last().expect("records").telemetry[0];
            assert!(timers > 20, "{timers}");
            assert_eq!(periods, Some(timers as i64));
        } else {
            assert_eq!(timers, 0);
        }
    }
}

/// An option that is set on a socket is read back, is in force while it runs, and is of
/// this socket alone.
#[test]
fn an_option_of_a_socket_is_in_force_while_it_runs() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    let test = "an_option_of_a_socket_is_in_force_while_it_runs";
    let Some(mut loaded) = control(test, "roomy period 5ms", EcnFlags::None, Trace::Full) else {
        return;
    };
    let host = match Namespace::new() {
        Ok(host) => host,
        Err(why) => return skipped(test, &why),
    };
    let name = std::ffi::OsString::from(loaded.name());
    let options = loaded.socket_options().expect("its map");
    host.run(|| {
        let listener = TcpListener::bind("127.0.0.1:5001").expect("a free port");
        let client = TcpStream::connect("127.0.0.1:5001").expect("a connection");
        let (mut server, _) = listener.accept().expect("the connection");
        nix::sys::socket::setsockopt(&client, nix::sys::socket::sockopt::TcpCongestion, &name)
            .expect("TCP_CONGESTION");
        let mut send = |bytes: usize| {
            for _ in 0..5 {
                let mut buffer = vec![7; bytes];
                (&client).write_all(&buffer).expect("write");
                server.read_exact(&mut buffer).expect("read");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        send(200_000);
        let set = |name: &str, value| options.set(client.as_fd(), name, value, true);
        assert!(set("ceiling", 1).is_err() && set("roof", 3).is_err());
        set("ceiling", 3).expect("the option");
        let now = options.of(client.as_fd()).expect("its options");
        assert_eq!(now.to_string(), "roomy ceiling 3 period 5ms");
        let other = options.of(listener.as_fd()).expect("its options");
        assert_eq!(other.to_string(), "roomy period 5ms");
        send(20_000);
    });
    let records = sender(&records(&mut loaded));
    let first = &records[..records.len() / 2];
    assert!(first.iter().any(|r| r.facts.cwnd > 3), "it had no ceiling");
    assert_eq!(records.last().expect("records").facts.cwnd, 3);
}

/// Who asks for Accurate ECN and does not get it runs the kernel's Reno.
#[test]
fn a_control_for_accurate_ecn_gives_way_to_reno_before_a_peer_without() {
    let test = "a_control_for_accurate_ecn_gives_way_to_reno_before_a_peer_without";
    let Some(loaded) = control(test, "prague", EcnFlags::AccEcn, Trace::State) else {
        return;
    };
    let run = |server_cc: &str, chosen| {
        let rig = rig(test, Path::default())?;
        let transfer = Transfer {
            server: V4,
            bytes: 100_000,
            pause: None,
            client_cc: loaded.name(),
            server_cc,
            chosen,
        };
        let done = transfer.run(&rig);
        assert_eq!(done.received, 100_000);
        let seen = rig.stop();
        println!(
            "{server_cc} {chosen:?}: {} {} {seen:?}",
            done.client_cc, done.server_cc
        );
        let own = done.client_cc == loaded.name();
        assert!(own || seen.data[2] == 0, "without ECN: {seen:?}");
        Some((done.client_cc, seen))
    };
    let runs = |server_cc: &str, chosen| Some(with_one_syn(test, || run(server_cc, chosen))?.0);
    let accecn = loaded.ecn() == EcnFlags::AccEcn;
    let own = loaded.name();
    for (server_cc, chosen, expected) in [
        (own, Chosen::BeforeListen, own),
        // A listener's choice counts for connections that come after it.
        (own, Chosen::AfterListen, own),
        // The handshake is over when a connection is accepted.
        (own, Chosen::Accepted, "reno"),
        ("reno", Chosen::BeforeListen, "reno"),
    ] {
        let Some(ran) = runs(server_cc, chosen) else {
            return;
        };
        if accecn {
            assert_eq!(ran, expected, "{server_cc} {chosen:?}");
        }
    }
}

/// IPv4's and IPv6's fields, by tcx and by clsact; packets of other sockets
/// stay as they are.
#[test]
fn ect1_is_on_the_packets_of_sockets_that_ask_for_it_and_no_others() {
    let test = "ect1_is_on_the_packets_of_sockets_that_ask_for_it_and_no_others";
    let Some(prague) = control(test, "prague", EcnFlags::Classic, Trace::Off) else {
        return;
    };
    let Some(reno) = control(test, "reno", EcnFlags::Classic, Trace::Off) else {
        return;
    };
    for (server, clsact, name, marked) in [
        (V4, false, prague.name(), 1),
        (V6, false, prague.name(), 1),
        (V4, true, prague.name(), 1),
        (V6, true, prague.name(), 1),
        (V4, false, reno.name(), 2),
    ] {
        let transfer = || {
            let rig = rig(test, Path::default())?;
            let index = rig.client.index("tun0");
            let hook = rig.client.run(|| {
                if clsact {
                    Ect1::attach_clsact(index)
                } else {
                    Ect1::attach(index)
                }
            });
            let hook = hook.expect("the host hook attaches");
            assert!(!clsact || !hook.is_tcx());
            let transfer = Transfer {
                server,
                bytes: 200_000,
                pause: None,
                client_cc: name,
                server_cc: name,
                chosen: Chosen::BeforeListen,
            };
            assert_eq!(transfer.run(&rig).received, 200_000);
            drop(hook);
            Some(((), rig.stop()))
        };
        let Some(((), seen)) = with_one_syn(test, transfer) else {
            return;
        };
        for field in 0..4 {
            let here = seen.data[field] > 0;
            assert_eq!(here, field == marked, "{server} clsact {clsact}: {seen:?}");
        }
    }
}

/// Loopback has a header of layer 2, as Ethernet has.
#[test]
fn ect1_is_written_behind_an_ethernet_header_and_the_checksum_stays_right() {
    let test = "ect1_is_written_behind_an_ethernet_header_and_the_checksum_stays_right";
    let Some(prague) = control(test, "prague", EcnFlags::Classic, Trace::Off) else {
        return;
    };
    let host = match Namespace::new() {
        Ok(host) => host,
        Err(why) => return skipped(test, &why),
    };
    let _hook = host
        .run(|| Ect1::attach(1))
        .expect("the host hook attaches");
    let capture = host.run(|| {
        let kind = (
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK,
        );
        socket(kind.0, kind.1, kind.2, SockProtocol::EthAll)
    });
    let capture = capture.expect("a packet socket");
    let transfer = Transfer {
        server: IpAddr::V4(Ipv4Addr::LOCALHOST),
        bytes: 30_000,
        pause: None,
        client_cc: prague.name(),
        server_cc: prague.name(),
        chosen: Chosen::BeforeListen,
    };
    assert_eq!(transfer.between(&host, &host).received, 30_000);
    let (mut marked, mut buffer) = (0, vec![0; 70_000]);
    while let Ok(n) = nix::sys::socket::recv(capture.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
        let ip = &buffer[14..n];
        let Some(packet) = TcpPacket::at(ip).filter(|l| l.to_port == 5001 && l.payload > 0) else {
            continue;
        };
        assert_eq!(packet.ecn, 1);
        let words = ip[..20].chunks_exact(2);
        let sum: u32 = words
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        assert_eq!(
            (sum & 0xffff) + (sum >> 16),
            0xffff,
            "the header's checksum"
        );
        marked += 1;
    }
    assert!(marked > 0);
}
