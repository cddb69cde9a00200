//! Names behind the path of `narrows shell` on a machine whose name server
//! listens on a loopback address. Root only: the test is that name server.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::machine_rig::{Stage, has, text};
use narrows_linux::machine::Need;

/// An address as systemd-resolved's, but not the same, which may be in use.
const SERVER: &str = "127.0.0.77:53";

/// Answers every question for an IPv4 address with 192.0.2.7, and others with
/// nothing (RFC 1035, section 4.1).
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    // A name is labels with their lengths, and ends with none; type and class
    // follow.
    let mut at = 12;
    while *question.get(at)? > 0 {
        at += usize::from(question[at]) + 1;
    }
    let (kind, end) = (question.get(at + 2)?, at + 5);
    let is_a = *kind == 1;
    let mut bytes = question[..2].to_vec();
    // A response to a recursive question, without an error; one question.
    bytes.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    bytes.extend(question.get(12..end)?);
    if is_a {
        // The question's name, A, IN, a minute, four bytes.
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    }
    Some(bytes)
}

/// What `narrows shell` prints of a name, called by `user`.
fn resolved(test: &str, user: &str) {
    if !has(test, &[Need::Live, Need::Bpf, Need::Shell]) {
        return;
    }
    let server = match UdpSocket::bind(SERVER) {
        Ok(server) => server,
        Err(e) => return eprintln!("skipped: {test}: {SERVER}: {e}"),
    };
    let patience = server.set_read_timeout(Some(Duration::from_millis(100)));
    patience.expect("a socket obeys");
    let done = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&done);
    let serving = thread::spawn(move || {
        let mut buffer = [0; 512];
        while !stopped.load(Ordering::Relaxed) {
            let Ok((n, asker)) = server.recv_from(&mut buffer) else {
                continue;
            };
            if let Some(bytes) = answer(&buffer[..n]) {
                let _ = server.send_to(&bytes, asker);
            }
        }
    });
    let stage = Stage::set();
    stage.write("resolv.conf", "nameserver 127.0.0.77\noptions timeout:10\n");
    stage.write("nsswitch.conf", "hosts: dns\n");
    let script = format!(
        "mount --bind resolv.conf /etc/resolv.conf; mount --bind nsswitch.conf /etc/nsswitch.conf; \
         mknod tun c 10 200; chmod 666 tun; mount --bind tun /dev/net/tun; \
         {user} ./narrows shell --link 'netem delay 5ms' -- \
         sh -c 'cat /etc/resolv.conf; getent ahostsv4 there.test'; \
         cat /etc/resolv.conf"
    );
    let output = stage.run(&script);
    done.store(true, Ordering::Relaxed);
    serving.join().expect("the server ends");
    let output = match output {
        Ok(output) => output,
        Err(e) => return eprintln!("skipped: {test}: unshare: {e}"),
    };
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    if errors.contains("the outside is closed") || errors.contains("lets no user make") {
        return eprintln!("skipped: {test}: {}", errors.trim_end());
    }
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    assert!(
        first.starts_with("nameserver ") && first != "nameserver 127.0.0.77",
        "{said}{errors}"
    );
    assert_eq!(lines.next(), Some("options timeout:10"), "{said}");
    let answer = lines.next().unwrap_or_default();
    assert!(answer.starts_with("192.0.2.7 "), "{said}{errors}");
    // Outside nothing has changed.
    assert!(
        said.ends_with("nameserver 127.0.0.77\noptions timeout:10\n"),
        "{said}"
    );
    let known = ["nsswitch.conf", "resolv.conf", "tun"];
    assert_eq!(stage.left(&known), Vec::<String>::new());
}

#[test]
fn names_are_resolved_by_a_server_at_a_loopback_address() {
    resolved("names behind a shell of root's", "");
    resolved("names behind a user's shell", "$NOBODY");
}
