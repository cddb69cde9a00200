//! `narrows pep serve` for clients that ask by SOCKS, on this machine's loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use crate::rig::{Daemon, LOOPBACK, PATIENCE, echo, payload};

/// RFC 1928 §6.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;

fn daemon(destinations: &str) -> Daemon {
    Daemon::start(&format!("{destinations}\nintake = \"socks5\""), "")
}

/// A client that asks for a name's port, and the reply to it.
fn ask(daemon: &Daemon, name: &str, port: u16) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(daemon.at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&[5, 1, 0]).expect("sent");
    let mut greeted = [0; 2];
    stream.read_exact(&mut greeted).expect("an answer");
    assert_eq!(greeted, [5, 0]);
    let mut request = vec![5, 1, 0, 3, name.len() as u8];
    request.extend_from_slice(name.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).expect("sent");
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).expect("an answer");
    (stream, answer[1])
}

#[test]
fn a_name_leads_to_what_is_allowed_of_its_addresses() {
    let daemon = daemon(LOOPBACK);
    let (mut stream, reply) = ask(&daemon, "localhost", echo().port());
    assert_eq!(reply, SUCCEEDED);
    let sent = payload(300_000);
    let (mut writer, copy) = (stream.try_clone().expect("a descriptor"), sent.clone());
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).expect("sent");
        writer.shutdown(Shutdown::Write).expect("ended");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("its end");
    writing.join().expect("written");
    assert!(received == sent);
    let (_, reply) = ask(&daemon, "localhost", crate::rig::free_port());
    assert_eq!(reply, REFUSED);
    let (_, reply) = ask(&daemon, "no-such-host.invalid", 80);
    assert_eq!(reply, HOST_UNREACHABLE);
}

#[test]
fn no_name_leads_to_the_machine_behind_the_proxy() {
    let daemon = daemon("[\"0.0.0.0/0\", \"::/0\"]");
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    listener.set_nonblocking(true).expect("set");
    for name in ["localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(ask(&daemon, name, port).1, NOT_ALLOWED, "{name}");
    }
    // These are names to one resolver and addresses to another.
    for name in ["127.1", "0x7f000001", "2130706433", "0", "localhost."] {
        let reply = ask(&daemon, name, port).1;
        assert!([NOT_ALLOWED, HOST_UNREACHABLE].contains(&reply), "{name}");
    }
    let came = listener.accept().map_err(|e| e.kind());
    assert_eq!(came.err(), Some(ErrorKind::WouldBlock));
    assert_eq!(daemon.status()["opened"], 0);
}
