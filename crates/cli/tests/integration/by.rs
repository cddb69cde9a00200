//! `narrows by`: what it refuses, and what it does to the connections of programs behind a
//! bottleneck. Most of it needs root and a kernel that takes our congestion controls.

use crate::machine_rig;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::machine_rig::{bearers, cleaning, has, soon, text, things};
use narrows_linux::machine::Need;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");

fn narrows(arguments: &[&str]) -> Output {
    let mut command = Command::new(NARROWS);
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("SUDO_UID").output().expect("it starts")
}

/// Whether it can be tried; says why not.
fn able(test: &str, tools: &[&str]) -> bool {
    let lack = tools.iter().find(|tool| {
        let words = ["-c", &format!("command -v {tool}")];
        let found = Command::new("sh").args(words).output();
        !found.is_ok_and(|o| o.status.success())
    });
    if let Some(tool) = lack {
        eprintln!("skipped: {test}: there is no {tool} here");
        return false;
    }
    if !has(test, &[Need::Live, Need::Bpf]) {
        return false;
    }
    let tried = narrows(&["by", "+10s", "--", "true"]);
    if !tried.status.success() {
        eprintln!("skipped: {test}: {}", text(&tried.stderr));
    }
    tried.status.success()
}

/// Receives what is sent to it, and reports of each connection how many bytes that were.
struct Sink {
    port: u16,
    received: Receiver<u64>,
}

impl Sink {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (report, received) = channel();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let bytes = std::io::copy(&mut stream, &mut std::io::sink());
                if report.send(bytes.expect("its end")).is_err() {
                    return;
                }
            }
        });
        Self { port, received }
    }

    fn next(&self) -> u64 {
        let next = self.received.recv_timeout(Duration::from_secs(60));
        next.expect("a connection ended")
    }
}

/// Takes one upload by HTTP, and prints how many bytes that were.
const SERVER: &str = r#"
use IO::Socket::IP;
my $l = IO::Socket::IP->new(Listen => 1, LocalHost => '0.0.0.0', LocalPort => 8080, ReuseAddr => 1) or die "listen: $@";
my $c = $l->accept; my ($head, $b, $n) = ('', '', 0);
while ($head !~ /\r\n\r\n/) { sysread($c, $b, 1) or die "a request"; $head .= $b }
my ($size) = $head =~ /Content-Length: (\d+)/ or die "a length";
syswrite($c, "HTTP/1.1 100 Continue\r\n\r\n");
while ($n < $size) { my $r = sysread($c, $b, 65536) or die "the end"; $n += $r }
syswrite($c, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
print "$n\n";
"#;

/// An upload beside a CUBIC flow, behind 20 Mbit/s and 20 ms.
const SCENARIO: &str = r#"
version  = 1
name     = "an upload by a deadline"
duration = "30s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 20Mbit queue pfifo limit 80"]
down = ["netem delay 10ms"]

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "kernel:cubic"

[[command]]
name = "server"
host = "server"
run  = ["perl", "-e", SERVER]

[[command]]
name  = "upload"
host  = "client"
start = "2s"
run   = ["sh", "-c", UPLOAD]
"#;

fn beside_cubic(by: &str) -> String {
    let quoted = |text: String| serde_json::Value::from(text).to_string();
    // Braces of a command name hosts, and are doubled to be braces.
    let server = SERVER.replace('{', "{{").replace('}', "}}");
    SCENARIO
        .replace("SERVER", &quoted(server))
        .replace("UPLOAD", &quoted(by.to_owned()))
}

/// What `narrows by` said in the end: seconds before the deadline, and connections.
fn summary(said: &str) -> (f64, u64) {
    let line = said.lines().find(|l| l.contains("MB delivered in"));
    let line = line.unwrap_or_else(|| panic!("no summary: {said}"));
    let words: Vec<_> = line.split(' ').collect();
    let before = |word: &str| {
        let at = words.iter().position(|w| w.starts_with(word));
        at.and_then(|at| words[at - 1].parse().ok())
    };
    let connections: f64 = before("connection").expect("a count");
    let place = words.iter().position(|w| *w == "before" || *w == "after");
    let place = place.expect("a deadline");
    let seconds: f64 = words[place - 2].parse().expect("seconds");
    let sign = if words[place] == "before" { 1.0 } else { -1.0 };
    (sign * seconds, connections as u64)
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    for (arguments, part) in [
        (&["by", "soon", "--", "true"][..], "06:00"),
        (&["by", "2001-01-01T00:00", "--", "true"], "has passed"),
        (&["by", "+10s", "--size", "0", "--", "true"], "1 byte to"),
        (
            &["by", "+10s", "--size", "x", "--", "true"],
            "a size such as",
        ),
        (
            &["by", "+10s", "--size-of", "/nothere", "--", "true"],
            "cannot be read",
        ),
        (&["by", "+10s", "--policy", "pd", "--", "true"], "pid, mbc"),
        (&["by", "+10s", "--over", "prague", "--", "true"], "cubic"),
        (
            &["by", "+10s", "--set", "kp=200000", "--", "true"],
            "from 0 to 100000",
        ),
        (&["by", "+10s", "--set", "size=5b", "--", "true"], "--size"),
        (&["by", "+10s"], "--attach"),
    ] {
        let ran = narrows(arguments);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let ran = narrows(&["by", "+10s", "--", "no-such-command-here"]);
    assert_eq!(ran.status.code(), Some(127), "{}", text(&ran.stderr));
}

#[test]
fn who_is_not_root_is_told_so() {
    let test = "who_is_not_root_is_told_so";
    let stage = machine_rig::Stage::set();
    let script = "$NOBODY ./narrows by +10s -- true";
    let Some(ran) = stage.run_or_skip(test, script, &["setpriv", "unshare"]) else {
        return;
    };
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(77), "{said}");
    assert!(said.contains("sudo"), "{said}");
}

#[test]
fn the_program_s_status_is_passed_on_and_nothing_is_left() {
    let test = "the_program_s_status_is_passed_on_and_nothing_is_left";
    if !able(test, &["sh"]) {
        return;
    }
    let before = things();
    for (script, status) in [("exit 7", 7), ("kill -TERM $$", 143)] {
        let ran = narrows(&["by", "+10s", "--size", "1mb", "--", "sh", "-c", script]);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(status), "{said}");
        assert!(said.contains("no TCP connection was opened"), "{said}");
    }
    let left = || Vec::from_iter(things().difference(&before).cloned());
    assert!(soon(|| left().is_empty()), "{:?}", left());
}

#[test]
fn an_upload_beside_cubic_is_done_by_its_deadline() {
    let test = "an_upload_beside_cubic_is_done_by_its_deadline";
    if !able(test, &["curl", "perl"]) {
        return;
    }
    const BYTES: u64 = 10_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), vec![7; BYTES as usize]).expect("a file");
    // 4 of 20 Mbit/s for 20 s; CUBIC has the rest.
    let by = format!(
        "{NARROWS} by +20s --size-of file -- curl -s -S -T file http://{{server}}:8080/; \
         echo status $? >&2"
    );
    fs::write(folder.path().join("by.toml"), beside_cubic(&by)).expect("a file");
    let mut command = Command::new(NARROWS);
    command
        .args(["run", "by.toml", "--engine", "live", "--out", "results"])
        .current_dir(folder.path())
        .env_remove("SUDO_UID");
    let ran = command.output().expect("it starts");
    // Status 3: packets left the link some 0.1 ms late, which is nothing to a transfer of 20 s.
    assert!(
        matches!(ran.status.code(), Some(0 | 3)),
        "{}",
        text(&ran.stderr)
    );
    let out = |name: &str| {
        let file = folder.path().join("results/commands").join(name);
        fs::read_to_string(file).expect("what a command wrote")
    };
    let said = out("upload.err");
    assert!(said.ends_with("status 0\n"), "{said}");
    assert_eq!(out("server.out").trim(), BYTES.to_string(), "{said}");
    let (before, connections) = summary(&said);
    eprintln!("{test}: {before} s before the deadline");
    assert_eq!(connections, 1, "{said}");
    // An ordinary flow would take its half and be done 12 s before it; a scavenger would have
    // three quarters left, and be done 6 s after it at the earliest. How soon CUBIC regains its
    // share at full weight hangs on when packets were lost: it ended 0.1 s before to 2.1 s after.
    assert!((-5.0..=4.0).contains(&before), "{said}");
}

#[test]
fn a_download_is_not_controlled_and_that_is_said() {
    let test = "a_download_is_not_controlled_and_that_is_said";
    if !able(test, &["sh", "cat"]) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        for _ in 0..20 {
            stream.write_all(&[1; 200_000]).expect("it sends");
            thread::sleep(Duration::from_millis(50));
        }
    });
    let script = format!("exec 3<> /dev/tcp/127.0.0.1/{port}; cat <&3 > /dev/null");
    let ran = narrows(&["by", "+30s", "--size", "4mb", "--", "bash", "-c", &script]);
    server.join().expect("it ends well");
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("receives and hardly sends"), "{said}");
}

#[test]
fn a_killed_command_leaves_the_program_and_its_connection() {
    let test = "a_killed_command_leaves_the_program_and_its_connection";
    if !able(test, &["bash"]) {
        return;
    }
    let before = things();
    let sink = Sink::open();
    let script = format!(
        "exec 3> /dev/tcp/127.0.0.1/{}; echo begun; sleep 2; head -c 100000 /dev/zero >&3",
        sink.port
    );
    let mut command = Command::new(NARROWS);
    command
        .args(["by", "+30s", "--size", "1mb", "--", "bash", "-c", &script])
        .env("NARROWS_TEST", test)
        .env_remove("SUDO_UID")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut by = command.spawn().expect("it starts");
    let mut line = String::new();
    let out = by.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert_eq!(line, "begun\n");
    let _cleaning = cleaning();
    by.kill().expect("it runs");
    by.wait().expect("a child");
    assert_eq!(sink.next(), 100_000, "its connection goes on");
    assert!(soon(|| bearers(&format!("NARROWS_TEST={test}")).is_empty()));
    let cleaned = narrows(&["doctor", "--clean"]);
    let said = text(&cleaned.stdout);
    assert!(said.contains("removed the control group"), "{said}");
    let left = || Vec::from_iter(things().difference(&before).cloned());
    assert!(soon(|| left().is_empty()), "{:?}", left());
}

#[test]
fn an_interrupt_from_the_terminal_reaches_the_program_and_nothing_is_left() {
    let test = "an_interrupt_from_the_terminal_reaches_the_program_and_nothing_is_left";
    if !able(test, &["bash", "script"]) {
        return;
    }
    let before = things();
    let sink = Sink::open();
    let folder = tempfile::tempdir().expect("a folder");
    // It cleans up: what it does about the signal takes a moment.
    let program = format!(
        "trap 'echo caught; sleep 0.5; echo cleaned; exit 9' INT; \
         exec 3> /dev/tcp/127.0.0.1/{}; head -c 50000 /dev/zero >&3; echo begun; \
         while :; do sleep 0.1; done",
        sink.port
    );
    let file = folder.path().join("program");
    fs::write(&file, program).expect("a file");
    let by = format!(
        "exec {NARROWS} by +60s --size 1mb --no-gauge -- bash {}",
        file.display()
    );
    // A terminal, whose keys are what is written to script(1). Without `exec` a shell that
    // stays between them, as dash does, is ended by the interrupt too, with its own status.
    // Who starts the tests in the background of a script has them ignore the interrupt, which
    // all below would inherit. And nothing here waits for ever.
    let mut command = Command::new("env");
    command
        .args([
            "--default-signal=INT,QUIT",
            "timeout",
            "--foreground",
            "120",
        ])
        .args(["script", "-q", "-e", "-c", &by, "/dev/null"])
        .env_remove("SUDO_UID")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut terminal = command.spawn().expect("script(1)");
    let mut shown = BufReader::new(terminal.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("begun") {
        assert!(shown.read_line(&mut said).expect("a line") > 0, "{said}");
    }
    let mut keys = terminal.stdin.take().expect("a pipe");
    keys.write_all(&[3]).expect("Ctrl-C");
    keys.flush().expect("Ctrl-C");
    shown.read_to_string(&mut said).expect("what it says");
    let ended = terminal.wait().expect("it ends");
    assert_eq!(ended.code(), Some(9), "the program's own: {said}");
    assert_eq!(said.matches("caught").count(), 1, "{said}");
    assert!(said.contains("cleaned"), "it was waited for: {said}");
    assert_eq!(summary(&said).1, 1, "{said}");
    assert_eq!(sink.next(), 50_000);
    let left = || Vec::from_iter(things().difference(&before).cloned());
    assert!(soon(|| left().is_empty()), "{:?}", left());
}

#[test]
fn a_process_that_runs_is_attached_to_and_let_go() {
    let test = "a_process_that_runs_is_attached_to_and_let_go";
    if !able(test, &["bash", "ss"]) {
        return;
    }
    let sink = Sink::open();
    let port = sink.port;
    // A connection from before, on which it sends for as long as the test wants.
    let script = format!(
        "exec 3> /dev/tcp/127.0.0.1/{port}; while sleep 0.05; do head -c 20000 /dev/zero >&3; done"
    );
    let mut program = Command::new("bash")
        .args(["-c", &script])
        .spawn()
        .expect("bash");
    let control = || {
        let filter = format!("dport = :{port}");
        let shown = Command::new("ss")
            .args(["-tniH", &filter])
            .output()
            .expect("ss");
        text(&shown.stdout)
    };
    assert!(soon(|| control().contains("bytes_acked")));
    let group = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let former = group(program.id());
    let pid = program.id().to_string();
    let mut command = Command::new(NARROWS);
    command
        .args(["by", "+60s", "--size", "10mb", "--attach", &pid])
        .env_remove("SUDO_UID")
        .stderr(Stdio::piped());
    let by = command.spawn().expect("it starts");
    let switched = soon(|| control().contains("_dalbe"));
    assert!(switched, "{}", control());
    assert_ne!(group(program.id()), former);
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(by.id() as i32), Signal::SIGINT).expect("it lives");
    let ended = by.wait_with_output().expect("it ends");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert_eq!(summary(&said).1, 1, "{said}");
    assert!(
        !control().contains("_dalbe"),
        "it has its own again: {}",
        control()
    );
    assert_eq!(group(program.id()), former);
    assert!(program.try_wait().expect("a child").is_none(), "it runs on");
    program.kill().expect("it runs");
    program.wait().expect("a child");
    let none = narrows(&["by", "+10s", "--attach", &program.id().to_string()]);
    assert_eq!(none.status.code(), Some(125), "{}", text(&none.stderr));
    assert!(text(&none.stderr).contains("there is no process"));
}

#[test]
fn the_examples_set_a_size_and_a_deadline_of_their_own() {
    let test = "the_examples_set_a_size_and_a_deadline_of_their_own";
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../narrows");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, vec![7; 300_000]).expect("a file");
    let sink = Sink::open();
    let port = sink.port.to_string();
    let c = folder.path().join("by");
    let made = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(library.join("include"))
        .arg("-o")
        .args([&c, &library.join("examples/by.c")])
        .output();
    let mut examples = Vec::new();
    match made {
        Ok(made) => {
            assert!(made.status.success(), "{}", text(&made.stderr));
            examples.push(vec![c.to_string_lossy().into_owned()]);
        }
        Err(e) => eprintln!("skipped: {test}: the example in C: cc: {e}"),
    }
    if Command::new("python3").arg("-V").output().is_ok() {
        let script = library
            .join("examples/by.py")
            .to_string_lossy()
            .into_owned();
        examples.push(vec!["python3".to_owned(), script]);
    } else {
        eprintln!("skipped: {test}: the example in Python: there is no python3 here");
    }
    let under = able(test, &[]);
    let words = ["127.0.0.1", &port, &*file.to_string_lossy(), "50"];
    for example in examples {
        let alone = Command::new(&example[0])
            .args(&example[1..])
            .args(words)
            .output();
        let alone = alone.expect("it starts");
        assert!(alone.status.success(), "{}", text(&alone.stderr));
        assert!(text(&alone.stderr).contains("not under `narrows by`"));
        assert_eq!(sink.next(), 300_000);
        if !under {
            continue;
        }
        let mut arguments = vec!["by", "+60s", "--"];
        arguments.extend(example.iter().map(String::as_str));
        arguments.extend(words);
        let ran = narrows(&arguments);
        let (said, printed) = (text(&ran.stderr), text(&ran.stdout));
        assert!(ran.status.success(), "{said}");
        assert!(!said.contains("not under"), "{said}");
        // 50 s of its own, not the 60 of the command.
        let left = printed.split(", ").nth(1).expect("a status");
        let left: f64 = left
            .split(' ')
            .next()
            .expect("seconds")
            .parse()
            .expect("seconds");
        assert!((45.0..=50.0).contains(&left), "{printed}");
        assert_eq!(sink.next(), 300_000);
    }
}
