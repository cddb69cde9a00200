//! `narrows pep serve` and peers that have gone without a word: what they held is given back.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use crate::rig::{
    Behind, Daemon, LOOPBACK, PATIENCE, add, answer, echo_at, echoes, in_own_network, payload,
    serve, soon,
};
use narrows_pep::{Layout, request};
use nix::sys::socket::{setsockopt, sockopt};

/// A daemon of a client behind `path`, whose tunnel leads to the listener and is open.
fn client_behind(
    path: &Behind,
    limits: &str,
    near: &str,
    target: SocketAddr,
) -> (Daemon, TcpStream) {
    let daemon = Daemon::start_by(LOOPBACK, limits, |file| {
        let text = fs::read_to_string(file).expect("a configuration");
        let text = text.replace("127.0.0.1:", "0.0.0.0:");
        let text = text.replace("127.0.0.0/8\"]\ndest", "0.0.0.0/0\"]\ndest");
        fs::write(file, text).expect("written");
        add(file, near);
        serve(file)
    });
    let at = SocketAddr::new(path.outside.parse().expect("an address"), daemon.at.port());
    let client = path.inside(|| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let asks = request(Layout::Convert, target, None).expect("a request");
        stream.write_all(&asks).expect("sent");
        assert_eq!(answer(&mut stream), None);
        stream
    });
    (daemon, client)
}

const PATH: [&str; 2] = ["netem delay 1ms", "netem delay 1ms"];

/// Whether the other end says that the connection was reset, in time.
fn is_reset_in_time(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let read = stream.read(&mut [0]).map_err(|e| e.kind());
    read == Err(ErrorKind::ConnectionReset)
}

#[test]
fn a_client_in_a_black_hole_is_given_up_when_what_was_sent_stays_unacknowledged() {
    let test = "a_client_in_a_black_hole_is_given_up_when_what_was_sent_stays_unacknowledged";
    let Some(path) = Behind::open(test, PATH) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("bound");
    let near = "near = { user_timeout = \"2s\" }\n";
    let (daemon, _client) = client_behind(&path, "", near, target);
    let (mut far, _) = listener.accept().expect("it connects");
    path.black_hole();
    far.write_all(b"is anybody there?").expect("sent");
    assert!(is_reset_in_time(&mut far));
    assert_eq!(daemon.count("broken"), 1);
}

#[test]
fn a_destination_in_a_black_hole_is_given_up_when_what_was_sent_stays_unacknowledged() {
    let test = "a_destination_in_a_black_hole_is_given_up_when_what_was_sent_stays_unacknowledged";
    let Some(path) = Behind::open(test, PATH) else {
        return;
    };
    let target = SocketAddr::new(
        path.outside.parse().expect("an address"),
        echo_at("0.0.0.0:0").port(),
    );
    let (daemon, mut client) = path.inside(|| {
        let destinations = format!("[\"{}\"]", target.ip());
        let daemon = Daemon::start_by(&destinations, "", |file| {
            add(file, "far = { user_timeout = \"2s\" }\n");
            serve(file)
        });
        let client = daemon.tunnel(target);
        (daemon, client)
    });
    assert!(echoes(&mut client, b"there"));
    path.black_hole();
    client.write_all(b"is anybody there?").expect("sent");
    assert!(is_reset_in_time(&mut client));
    assert_eq!(daemon.count("broken"), 1);
}

/// Bytes for a destination that does not read, with little room before the proxy's own memory.
const STALLED: usize = 1 << 20;

/// A destination that takes connections, and little of what they bring.
fn never_reads() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // What is accepted has it as well.
    setsockopt(&listener, sockopt::RcvBuf, &4_096).expect("set");
    let at = listener.local_addr().expect("bound");
    (listener, at)
}

const LITTLE: &str = "[limits]\nbudget = \"8MiB\"\nread_ahead = \"0s\"\nprobe = \"2s\"";
const SMALL_BUFFER: &str = "far = { send_buffer = \"64KiB\" }\n";

#[test]
fn a_client_that_fills_its_share_and_leaves_gives_its_memory_back() {
    let test = "a_client_that_fills_its_share_and_leaves_gives_its_memory_back";
    in_own_network(test, || {
        // As long as the kernel answers for a client that has closed its connection.
        fs::write("/proc/sys/net/ipv4/tcp_fin_timeout", "1").expect("written");
        let daemon = Daemon::start_by(LOOPBACK, LITTLE, |file| {
            add(file, SMALL_BUFFER);
            serve(file)
        });
        let (_listener, stalls) = never_reads();
        // One that has ended its stream as well, and waits for the answer.
        let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut waits = daemon.tunnel(slow.local_addr().expect("bound"));
        waits.write_all(b"question").expect("sent");
        waits.shutdown(Shutdown::Write).expect("sent");
        let (mut far, _) = slow.accept().expect("it connects");

        let mut client = daemon.tunnel(stalls);
        client.write_all(&payload(STALLED)).expect("sent");
        client.shutdown(Shutdown::Write).expect("sent");
        assert!(soon(|| daemon.count("backlog_bytes") > STALLED as u64 / 2));
        drop(client);
        assert!(soon(|| daemon.count("backlog_bytes") == 0));
        assert_eq!((daemon.count("broken"), daemon.count("tunnels")), (1, 1));
        // It was probed as well, and is there.
        far.write_all(b"answer").expect("sent");
        let mut answer = [0; 6];
        waits.read_exact(&mut answer).expect("it is served");
        assert_eq!(&answer, b"answer");
    });
}

#[test]
fn a_client_that_fills_its_share_and_vanishes_gives_its_memory_back() {
    let test = "a_client_that_fills_its_share_and_vanishes_gives_its_memory_back";
    let Some(path) = Behind::open(test, PATH) else {
        return;
    };
    let (_listener, stalls) = never_reads();
    // Probes that are not answered end at this time as well (tcp(7)).
    let keys = format!("near = {{ user_timeout = \"2s\" }}\n{SMALL_BUFFER}");
    let (daemon, mut client) = client_behind(&path, LITTLE, &keys, stalls);
    client.write_all(&payload(STALLED)).expect("sent");
    assert!(soon(|| daemon.count("backlog_bytes") > STALLED as u64 / 2));
    path.black_hole();
    assert!(soon(|| daemon.count("backlog_bytes") == 0));
    assert_eq!(daemon.count("broken"), 1);
}
