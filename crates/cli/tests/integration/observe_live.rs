//! `narrows observe -i` in a network namespace of its own: what it says of the
//! packets of a device, and that it counts every one of them. What the machine
//! cannot run is skipped, and says so.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Runs `test` in a thread that has a network of its own, with loopback up.
/// Programs that it starts have the same one.
fn in_a_namespace(name: &'static str, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if let Err(why) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: {name}: a network namespace cannot be made: {why}");
            return;
        }
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        if !up.as_ref().is_ok_and(|s| s.success()) {
            eprintln!("skipped: {name}: loopback cannot be brought up: {up:?}");
            return;
        }
        test();
    });
    thread.join().expect("the test passes");
}

/// An observer that has begun.
struct Observer {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Observer {
    fn start(words: &[&str]) -> Self {
        Self::of("lo", words)
    }

    fn of(device: &str, words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .args(["observe", "-i", device])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("narrows starts");
        let mut said = BufReader::new(child.stderr.take().expect("its standard error"));
        let mut line = String::new();
        said.read_line(&mut line)
            .expect("it says that it has begun");
        let begun = format!("narrows: observing {device}");
        assert!(line.starts_with(&begun), "{line}");
        Self { child, said }
    }

    /// Interrupts it as Ctrl-C does; what it wrote.
    fn stop(mut self) -> String {
        let pid = Pid::from_raw(self.child.id() as i32);
        // Its output may be longer than a pipe holds, so it is read while it ends.
        kill(pid, Signal::SIGINT).expect("it still runs");
        let mut out = String::new();
        let mut pipe = self.child.stdout.take().expect("its standard output");
        pipe.read_to_string(&mut out).expect("text");
        let mut said = String::new();
        self.said.read_to_string(&mut said).expect("text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {said}");
        out
    }
}

fn read_again(file: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["observe", "-r"])
        .arg(file)
        .args(words)
        .output()
        .expect("narrows runs")
}

/// A connection over loopback with some questions and answers.
fn talk(rounds: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its address");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut question = [0; 100];
        for _ in 0..rounds {
            stream.read_exact(&mut question).expect("a question");
            stream.write_all(&question).expect("an answer");
        }
    });
    let mut stream = TcpStream::connect(to).expect("a server");
    stream.set_nodelay(true).expect("an option of every socket");
    let mut answer = [0; 100];
    for _ in 0..rounds {
        stream.write_all(&[1; 100]).expect("a question");
        stream.read_exact(&mut answer).expect("an answer");
    }
    server.join().expect("the server has no complaints");
}

#[test]
fn a_device_and_the_capture_of_the_same_packets_give_the_same_samples() {
    let name = "a_device_and_the_capture_of_the_same_packets_give_the_same_samples";
    in_a_namespace(name, || {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("seen.pcapng");
        let path = file.to_str().expect("a plain name");
        let words = ["--format", "csv", "tcp"];
        let observer = Observer::start(&[&["-w", path], &words[..]].concat());
        talk(200);
        let live = observer.stop();
        let again = read_again(&file, &words);
        assert!(again.status.success());
        let again = String::from_utf8_lossy(&again.stdout);
        let samples = |text: &str, technique: &str| {
            let column = format!(",{technique},");
            text.lines().filter(|l| l.contains(&column)).count()
        };
        assert!(samples(&live, "seq-ack") > 200, "{live}");
        // Two of the handshake's three parts are estimates too.
        assert!(samples(&live, "handshake") >= 3, "{live}");
        // Flows end when the last packet was seen, which both have seen.
        assert_eq!(live, again);
    });
}

#[test]
fn what_is_seen_and_what_is_dropped_is_together_what_was_sent() {
    let name = "what_is_seen_and_what_is_dropped_is_together_what_was_sent";
    in_a_namespace(name, || {
        let observer = Observer::start(&["--format", "json", "--rows", "none"]);
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = receiver.local_addr().expect("its address");
        let sent = 100_000;
        for _ in 0..sent {
            sender.send_to(&[0; 10], to).expect("loopback takes it");
        }
        let out = observer.stop();
        let last = out.lines().last().expect("the counters");
        let counters: Value = serde_json::from_str(last).expect("JSON");
        let count = |key: &str| counters[key].as_u64().expect("a number");
        assert_eq!(counters["event"], "counters");
        assert_eq!(count("packets") + count("dropped"), sent, "{last}");
        assert_eq!(count("observed"), count("packets"), "{last}");
    });
}

#[test]
fn it_ends_by_itself_after_a_number_of_packets_or_a_time() {
    let name = "it_ends_by_itself_after_a_number_of_packets_or_a_time";
    in_a_namespace(name, || {
        let mut observer = Observer::start(&["--count", "7", "--format", "json"]);
        talk(20);
        let mut out = String::new();
        let mut pipe = observer.child.stdout.take().expect("its standard output");
        pipe.read_to_string(&mut out).expect("text");
        assert!(observer.child.wait().expect("it ends").success());
        let last: Value = serde_json::from_str(out.lines().last().unwrap()).expect("JSON");
        assert_eq!(last["observed"], 7);

        let timed = Observer::start(&["--duration", "100ms", "--interval", "10ms"]);
        let output = timed.child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim_end(), "lo: packets 0");
    });
}

#[test]
fn devices_that_cannot_be_watched_are_refused_in_one_line() {
    let run = |program: &mut Command| {
        let output = program.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) =
        run(Command::new(env!("CARGO_BIN_EXE_narrows")).args(["observe", "-i", "nothere0"]));
    let right = said.contains("CAP_NET_RAW");
    assert_eq!(status, Some(if right { 77 } else { 2 }), "{said}");
    assert!(
        right || said.contains("there is no device `nothere0`"),
        "{said}"
    );
    let (status, said) =
        run(Command::new(env!("CARGO_BIN_EXE_narrows")).args(["observe", "-i", "lo", "--top"]));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("standard output is no terminal"), "{said}");
    // As a user without rights, if there is a way to become one.
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", "--"]);
    setpriv
        .arg(env!("CARGO_BIN_EXE_narrows"))
        .args(["observe", "-i", "lo"]);
    setpriv.args(["--duration", "10ms"]);
    match setpriv.output() {
        Ok(output) if output.status.code() == Some(77) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("CAP_NET_RAW"), "{said}");
        }
        other => eprintln!("skipped: the right to see packets cannot be given up: {other:?}"),
    }
}

/// Whether a line of a shell without quotes could be run; says so if not.
fn runs(name: &str, line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let done = Command::new(words[0]).args(&words[1..]).output();
    let ok = done.as_ref().is_ok_and(|o| o.status.success());
    if !ok {
        eprintln!("skipped: {name}: `{line}`: {done:?}");
    }
    ok
}

#[test]
fn with_any_each_device_is_a_point_and_loopback_shows_each_packet_once() {
    let name = "with_any_each_device_is_a_point_and_loopback_shows_each_packet_once";
    in_a_namespace(name, move || {
        let lines = [
            "ip link add v0 type veth peer name v1",
            "ip link set v0 up",
            "ip link set v1 up",
            "ip addr add 10.9.0.1/24 dev v0",
            "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0",
        ];
        if !lines.iter().all(|line| runs(name, line)) {
            return;
        }
        let observer = Observer::of("any", &["--format", "json", "udp port 4001"]);
        let sender = UdpSocket::bind("0.0.0.0:0").expect("a port");
        for to in ["127.0.0.1:4001", "10.9.0.2:4001"] {
            for _ in 0..10 {
                // Nobody answers, which loopback says.
                let _ = sender.send_to(&[0; 10], to);
            }
        }
        let out = observer.stop();
        let counters = out
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
        let counters: Vec<_> = counters.filter(|v| v["event"] == "counters").collect();
        let observed = |tap: &str| {
            let point = counters.iter().find(|v| v["tap"] == tap);
            point.and_then(|v| v["observed"].as_u64())
        };
        assert_eq!(observed("lo"), Some(10), "{out}");
        assert_eq!(observed("v0"), Some(10), "{out}");
        assert_eq!(observed("v1"), Some(10), "{out}");
    });
    let both = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args([
            "observe",
            "-i",
            "any",
            "--promiscuous",
            "--duration",
            "10ms",
        ])
        .output()
        .expect("it runs");
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn segments_beyond_64_kib_are_observed_whole() {
    let name = "segments_beyond_64_kib_are_observed_whole";
    in_a_namespace(name, move || {
        // BIG TCP: ip-link(8). Loopback suffices for it. Before iproute2 6.3, only that of
        // IPv6 can be set.
        for (address, options) in [
            ("[::1]:0", "gso_max_size 200000 gro_max_size 200000"),
            (
                "127.0.0.1:0",
                "gso_ipv4_max_size 200000 gro_ipv4_max_size 200000",
            ),
        ] {
            let line = format!("ip link set lo {options}");
            if !runs(name, &line) {
                continue;
            }
            let dir = tempfile::tempdir().expect("a folder");
            let file = dir.path().join("seen.pcapng");
            let path = file.to_str().expect("a plain name");
            let observer = Observer::start(&["--format", "json", "-w", path, "tcp"]);
            let sent = 64 << 20;
            stream(address, sent);
            let out = observer.stop();
            let events = out
                .lines()
                .map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
            let events: Vec<Value> = events.collect();
            let counters = events.last().expect("counters");
            assert_eq!(counters["malformed"], 0, "{address}: {counters}");
            assert_eq!(counters["dropped"], 0, "{address}: {counters}");
            let end = events.iter().find(|v| v["event"] == "end").expect("a flow");
            let bytes = end["initiator"]["bytes"].as_u64().expect("a number");
            let packets = end["initiator"]["packets"].as_u64().expect("a number");
            assert!(
                bytes > sent as u64 && bytes < sent as u64 * 11 / 10,
                "{end}"
            );
            let whole = std::fs::read(path).expect("the capture");
            let mut reader = narrows_wire::capture::CaptureReader::new(&whole[..]).expect("pcapng");
            let mut longest = 0;
            while let Some(record) = reader.read().expect("whole") {
                longest = longest.max(record.original_len);
            }
            if longest <= 65_535 {
                let why = format!("{packets} packets, of which the longest has {longest} bytes");
                eprintln!("skipped: {name}: {address}: {why}");
            }
        }
    });
}

/// A connection over which `sent` bytes go in large writes.
fn stream(address: &str, sent: usize) {
    let listener = TcpListener::bind(address).expect("a port");
    let to = listener.local_addr().expect("its address");
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        std::io::copy(&mut stream, &mut std::io::sink()).expect("all of it")
    });
    let block = vec![1; 1 << 20];
    let mut stream = TcpStream::connect(to).expect("a server");
    for _ in 0..sent / block.len() {
        stream.write_all(&block).expect("the server reads");
    }
    drop(stream);
    assert_eq!(server.join().expect("no complaints"), sent as u64);
}
