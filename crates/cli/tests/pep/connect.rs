//! Programs that ask the split proxy for themselves: in Rust by `narrows_pep_client`, in C and
//! Python by its shared object.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::NARROWS;
use crate::rig::{Daemon, LOOPBACK, echo, echo_at, echoes, free_port, in_own_network};
use narrows_pep::Parent;
use narrows_pep::convert::Fault;
use narrows_pep_client::{Call, WithoutProxy, connect};
use narrows_units::Duration;
use tempfile::TempDir;

/// By `proxy`, or directly.
fn by(proxy: SocketAddr) -> Parent {
    Parent {
        proxy,
        patience: Duration::from_secs(10),
        or_directly: true,
    }
}

fn nobody() -> SocketAddr {
    ([127, 0, 0, 1], free_port()).into()
}

#[test]
fn a_program_that_asks_for_itself_is_connected_or_told_why_not() {
    let daemon = Daemon::start(LOOPBACK, "");
    let mut call = Call::by(by(daemon.at));
    let mut by_proxy = connect(echo(), &call).expect("it is there");
    assert!(by_proxy.directly.is_none() && echoes(&mut by_proxy.stream, b"by the proxy"));
    assert_eq!(daemon.status()["opened"], 1);
    assert!(connect(nobody(), &call).is_err());
    call.parent.proxy = nobody();
    let mut direct = connect(echo(), &call).expect("it goes without");
    let why = direct.directly.as_ref().expect("a reason").to_string();
    assert!(why.contains("does not answer"), "{why}");
    assert!(echoes(&mut direct.stream, b"directly"));
    call.parent.or_directly = false;
    assert!(connect(echo(), &call).is_err());
}

/// What is read of a stream that has had its first data.
fn back(mut stream: TcpStream, len: usize) -> Vec<u8> {
    let mut back = vec![0; len];
    stream.read_exact(&mut back).expect("it is echoed");
    back
}

#[test]
fn first_data_goes_with_the_request_and_with_the_direct_connection() {
    // More than a segment of loopback takes.
    let early = crate::rig::payload(100_000);
    for (first, more) in [(&early[..5], ""), (&early[..], "cookies = true\n")] {
        let daemon = Daemon::start_by(LOOPBACK, "", |file| {
            let text = fs::read_to_string(file).expect("a configuration") + more;
            fs::write(file, text).expect("written");
            let mut command = Command::new(NARROWS);
            command.args(["pep", "serve"]).arg(file);
            command
        });
        for proxy in [daemon.at, nobody()] {
            let mut call = Call::by(by(proxy));
            call.early = first;
            let connected = connect(echo(), &call).expect("one way or the other");
            assert_eq!(connected.directly.is_none(), proxy == daemon.at);
            assert!(back(connected.stream, first.len()) == first);
        }
    }
}

#[test]
fn a_proxy_that_says_nothing_is_waited_for_no_longer_than_patience_lasts() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut parent = by(silent.local_addr().expect("bound"));
    parent.patience = Duration::from_millis(100);
    let mut connected = connect(echo(), &Call::by(parent)).expect("directly");
    let why = connected.directly.take().expect("a reason");
    let out_of_time = |e: &std::io::Error| e.kind() == std::io::ErrorKind::TimedOut;
    assert!(
        matches!(&why, WithoutProxy::Missing(e) if out_of_time(e)),
        "{why:?}"
    );
    assert!(echoes(&mut connected.stream, b"and it blocks again"));
    parent.or_directly = false;
    let error = connect(echo(), &Call::by(parent)).expect_err("nobody answers");
    assert!(out_of_time(&error), "{error}");
}

#[test]
fn a_proxy_that_refuses_is_gone_around_and_its_reason_is_told() {
    let daemon = Daemon::start("[\"192.0.2.0/24\"]", "");
    let mut call = Call::by(by(daemon.at));
    let mut connected = connect(echo(), &call).expect("directly");
    let why = connected.directly.take().expect("a reason");
    assert!(
        matches!(&why, WithoutProxy::Refused(Fault::NotAuthorized)),
        "{why:?}"
    );
    assert!(echoes(&mut connected.stream, b"directly"));
    call.parent.or_directly = false;
    let error = connect(echo(), &call).expect_err("it may not");
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

/// `libnarrows_pep_client.so`, beside this test, and the examples that call it.
struct Examples {
    folder: TempDir,
    library: PathBuf,
    /// The commands that they are, without their arguments.
    commands: Vec<Vec<String>>,
}

/// A file of the crate `narrows-pep-client`.
fn source(name: &str) -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pep-client");
    ours.join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Examples {
    fn make(test: &str) -> Self {
        let own = std::env::current_exe().expect("a test has a path");
        let library = own.with_file_name("libnarrows_pep_client.so");
        assert!(library.exists(), "{} is built too", library.display());
        let mut examples = Self {
            folder: tempfile::tempdir().expect("a folder"),
            library,
            commands: Vec::new(),
        };
        match Command::new("cc").arg("--version").output() {
            Ok(_) => examples.compile(test),
            Err(e) => eprintln!("skipped: {test}: the example in C: cc: {e}"),
        }
        if Command::new("python3").arg("-V").output().is_ok() {
            let script = source("examples/ask.py").to_string_lossy().into_owned();
            examples.commands.push(vec!["python3".to_owned(), script]);
        } else {
            eprintln!("skipped: {test}: the example in Python: there is no python3 here");
        }
        examples
    }

    /// As it is, and under the address sanitizer where the compiler has one.
    fn compile(&mut self, test: &str) {
        let at = |name: &str| self.folder.path().join(name);
        let empty = at("empty.c");
        fs::write(&empty, "int main(void) { return 0; }\n").expect("written");
        let sanitizes = Command::new("cc")
            .args(["-fsanitize=address,undefined", "-o"])
            .args([&at("empty"), &empty])
            .output();
        let sanitizes = sanitizes.is_ok_and(|made| made.status.success());
        if !sanitizes {
            eprintln!("skipped: {test}: the example in C under a sanitizer: cc has none");
        }
        let ways = [
            ("ask", "-O2"),
            ("sanitized", "-fsanitize=address,undefined"),
        ];
        for (name, flag) in &ways[..1 + usize::from(sanitizes)] {
            let program = at(name);
            let made = Command::new("cc")
                .args(["-Wall", "-Wextra", "-Werror", flag, "-I"])
                .arg(source("include"))
                .arg("-o")
                .args([&program, &source("examples/ask.c"), &self.library])
                .output()
                .expect("cc");
            assert!(made.status.success(), "{}", text(&made.stderr));
            let program = program.to_string_lossy().into_owned();
            self.commands.push(vec![program]);
        }
    }

    /// What each says, asked for `line` at `to`.
    fn ask(&self, proxy: SocketAddr, to: SocketAddr, more: &[&str]) -> Vec<Output> {
        let ends = [proxy, to].map(|end| [end.ip().to_string(), end.port().to_string()]);
        let run = |words: &Vec<String>| {
            Command::new(&words[0])
                .args(&words[1..])
                .args(ends.as_flattened())
                .arg("a question")
                .args(more)
                .env("LIBRARY", &self.library)
                // A sanitizer's own library has to be the first.
                .env_remove("LD_PRELOAD")
                .env("LD_LIBRARY_PATH", self.library.with_file_name(""))
                .output()
                .expect("it starts")
        };
        self.commands.iter().map(run).collect()
    }
}

/// Each has its answer, and says `word` of the way.
#[track_caller]
fn all_say(outputs: &[Output], word: &str) {
    for output in outputs {
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains(word), "{said}");
        assert_eq!(text(&output.stdout), "a question", "{said}");
    }
}

/// None has an answer; each says `word`.
#[track_caller]
fn all_fail(outputs: &[Output], word: &str) {
    for output in outputs {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(word), "{said}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn the_examples_in_c_and_python_go_by_the_proxy_or_say_why_not() {
    let test = "the_examples_in_c_and_python_go_by_the_proxy_or_say_why_not";
    let examples = Examples::make(test);
    let echo = echo();
    let daemon = Daemon::start(LOOPBACK, "");
    all_say(&examples.ask(daemon.at, echo, &["only"]), "by the proxy");
    all_say(&examples.ask(daemon.at, echo, &["early"]), "by the proxy");
    let opened = 2 * examples.commands.len();
    assert_eq!(daemon.status()["opened"], opened);
    // Without a proxy; and one that refuses, of which 32 is RFC 8803's code.
    all_say(&examples.ask(nobody(), echo, &[]), "Connection refused");
    all_say(
        &examples.ask(nobody(), echo, &["early"]),
        "without the proxy",
    );
    let only = examples.ask(nobody(), echo, &["only"]);
    all_fail(&only, "Connection refused");
    let strict = Daemon::start("[\"192.0.2.0/24\"]", "");
    all_say(
        &examples.ask(strict.at, echo, &["early"]),
        "refuses, code 32",
    );
    let only = examples.ask(strict.at, echo, &["only"]);
    all_fail(&only, "Permission denied");
    all_fail(&only, "refuses, code 32");
    // The proxy is there, and the destination is not.
    all_fail(&examples.ask(daemon.at, nobody(), &[]), "refuses, code 96");
}

#[test]
fn the_examples_first_data_goes_with_the_syn_once_they_have_been_there() {
    let test = "the_examples_first_data_goes_with_the_syn_once_they_have_been_there";
    let examples = Examples::make(test);
    in_own_network(test, || {
        let switch = "/proc/sys/net/ipv4/tcp_fastopen";
        // As client and server, listeners that do not ask for it too (ip-sysctl.rst).
        fs::write(switch, "1027").expect("set");
        let echo = echo_at("127.0.0.2:0");
        let daemon = Daemon::start(LOOPBACK, "");
        let cold = examples.ask(daemon.at, echo, &["early"]);
        all_say(&cold[..1], "by the plain handshake");
        let in_c = |outputs: &[Output]| outputs.len().saturating_sub(1);
        let warm = examples.ask(daemon.at, echo, &["early"]);
        all_say(&warm[..in_c(&warm)], "with the SYN");
        all_say(&warm, "by the proxy");
        // Switched off.
        fs::write(switch, "0").expect("set");
        let plain = examples.ask(daemon.at, echo, &["early"]);
        all_say(&plain[..in_c(&plain)], "by the plain handshake");
        all_say(&plain, "by the proxy");
    });
}
