//! `narrows web` as a process: its address, its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine_rig::soon;
use crate::program::{ended, narrows, program};

/// A server in `folder`, where it listens, and its token.
fn serve(folder: &Path, words: &[&str]) -> (Child, String, String) {
    let mut child = program(folder, &[&["web", "--no-open"], words].concat())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("its output");
    BufReader::new(out)
        .read_line(&mut line)
        .expect("an address");
    let rest = line.trim().strip_prefix("http://").expect("an address");
    let (host, token) = rest.split_once("/?token=").expect("a token");
    let token = token.split('&').next().expect("a token");
    (child, host.to_owned(), token.to_owned())
}

/// All that is answered to a request of who has the token.
fn ask(host: &str, token: &str, line: &str, body: &str) -> String {
    let mut connection = TcpStream::connect(host).expect("it listens");
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("an answer");
    answer
}

/// It ends by `signal` while a run goes on; what it printed.
fn ends(mut child: Child, signal: Signal) -> String {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it lives");
    let over = soon(|| child.try_wait().expect("a child").is_some());
    if !over {
        child.kill().expect("it lives");
    }
    let output = child.wait_with_output().expect("it ended");
    assert!(over, "it goes on");
    ended(&output, 0)
}

#[test]
fn a_signal_ends_the_server_and_a_run_whose_folder_says_that_it_is_incomplete() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let (child, host, token) = serve(folder.path(), &[]);
        assert!(host.starts_with("127.0.0.1:"), "{host}");
        let start = r#"{"kind": "run", "document": "catalog/prague-beside-cubic", "speed": 0.01}"#;
        let begun = ask(&host, &token, "POST /api/v1/jobs", start);
        assert!(begun.starts_with("HTTP/1.1 200"), "{begun}");
        let results = folder.path().join("results");
        assert!(
            soon(|| results.join("latest/run.json").is_file()),
            "no run begins"
        );
        ends(child, signal);
        let record = std::fs::read_to_string(results.join("latest/run.json")).expect("a record");
        assert!(record.contains("\"complete\": false"), "{record}");
    }
}

#[test]
fn a_file_is_served_with_its_folder_and_opened_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("in");
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::write(inner.join("a b.toml"), "version = 1\n").expect("a file");
    let (child, host, token) = serve(folder.path(), &["in/a b.toml", "--host", "lab.example"]);
    let listed = ask(&host, &token, "GET /api/v1/documents", "");
    assert!(listed.contains("\"file/a b.toml\""), "{listed}");
    let entered = ask(
        &host,
        &token,
        &format!("GET /?token={token}&open=a%20b.toml"),
        "",
    );
    assert!(
        entered
            .to_ascii_lowercase()
            .contains("refresh: 0; url=/#file/a%20b.toml"),
        "{entered}"
    );
    ends(child, Signal::SIGTERM);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.csv"), "").expect("a file");
    for what in ["a.csv", "missing", "missing.toml"] {
        let refused = ended(&narrows(folder.path(), &["web", what]), 2);
        assert!(
            refused.contains("a folder, or a scenario's or campaign's file"),
            "{refused}"
        );
    }
    let everywhere = narrows(folder.path(), &["web", "--listen", "0.0.0.0"]);
    let refused = ended(&everywhere, 2);
    assert!(refused.contains("--host"), "{refused}");
    let failed = ended(
        &narrows(folder.path(), &["web", "--listen", "192.0.2.1"]),
        1,
    );
    assert!(failed.contains("cannot listen at 192.0.2.1:0"), "{failed}");
}
