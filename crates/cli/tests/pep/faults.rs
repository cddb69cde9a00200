//! `narrows pep serve` where things go wrong: what it relays is whole all the same, or is known
//! not to be.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use crate::rig::{
    Behind, Daemon, LOOPBACK, PATIENCE, add, answer, comes_back, echo, echo_at, echoes,
    in_own_network, payload, send_all, serve, soon,
};
use narrows_pep::{Layout, Parent, request};
use narrows_pep_client::Call;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, sendto, setsockopt,
    socket, sockopt,
};

/// A counter of this thread's network, by its name.
fn counter(name: &str) -> u64 {
    let table = fs::read_to_string("/proc/thread-self/net/netstat").expect("counters");
    let mut lines = table.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    let found = both.find(|(known, _)| *known == name).expect("a counter");
    found.1.parse().expect("a number")
}

/// One connection that sends its request and a word as soon as it can; how many SYNs with data
/// were accepted.
fn syns_with_data(daemon: &Daemon, target: SocketAddr) -> u64 {
    let before = counter("TCPFastOpenPassive");
    let mut first = request(Layout::Convert, target, None).expect("a request");
    first.extend(b"early");
    let fd = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    );
    let mut stream = TcpStream::from(fd.expect("a socket"));
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let to = SockaddrStorage::from(daemon.at);
    let flags = MsgFlags::from_bits_retain(nix::libc::MSG_FASTOPEN);
    match sendto(stream.as_raw_fd(), &first, &to, flags) {
        Err(Errno::EOPNOTSUPP) => {
            connect(stream.as_raw_fd(), &to).expect("it listens");
            stream.write_all(&first).expect("sent");
        }
        sent => assert_eq!(sent, Ok(first.len())),
    }
    assert_eq!(answer(&mut stream), None);
    let mut back = [0; 5];
    stream.read_exact(&mut back).expect("it is echoed");
    assert_eq!(&back, b"early");
    counter("TCPFastOpenPassive") - before
}

#[test]
fn data_goes_with_the_syn_of_each_leg_where_it_may() {
    let test = "data_goes_with_the_syn_of_each_leg_where_it_may";
    in_own_network(test, || {
        let switch = "/proc/sys/net/ipv4/tcp_fastopen";
        for (replay_safe, warm) in [(true, 2), (false, 1)] {
            // As client and server, listeners that do not ask for it too (ip-sysctl.rst).
            fs::write(switch, "1027").expect("set");
            // Another address for each, as cookies are known by address.
            let target = echo_at(if replay_safe {
                "127.0.0.2:0"
            } else {
                "127.0.0.3:0"
            });
            let daemon = Daemon::start_by(LOOPBACK, "", |file| {
                add(file, &format!("replay_safe = {replay_safe}\n"));
                serve(file)
            });
            if replay_safe {
                assert_eq!(syns_with_data(&daemon, target), 0, "without cookies");
            }
            assert_eq!(syns_with_data(&daemon, target), warm, "{replay_safe}");
            // Whoever may not any more is served by the plain handshake.
            fs::write(switch, "0").expect("set");
            assert_eq!(syns_with_data(&daemon, target), 0);
            let parent = Parent {
                proxy: daemon.at,
                patience: narrows_units::Duration::from_secs(20),
                or_directly: false,
            };
            let mut connected =
                narrows_pep_client::connect(target, &Call::by(parent)).expect("granted");
            assert!(echoes(&mut connected.stream, b"plain"));
        }
    });
}

#[test]
fn pieces_of_any_size_keep_their_order_however_they_are_read() {
    // Read ahead, and left to the kernel until they can be written.
    for read_ahead in ["0s", "1s"] {
        relay_pieces(read_ahead);
    }
}

fn relay_pieces(read_ahead: &str) {
    let limits = format!("[limits]\nbacklog = \"1mb\"\nread_ahead = \"{read_ahead}\"");
    let daemon = Daemon::start(LOOPBACK, &limits);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut near = daemon.ask(listener.local_addr().expect("bound"));
    let (mut far, _) = listener.accept().expect("it connects");
    assert_eq!(answer(&mut near), None);
    let sent = payload(24 << 20);
    let copy = sent.clone();
    let writing = thread::spawn(move || {
        // Some are copied, others spliced.
        let mut rest = &copy[..];
        for size in [1, 700_000, 17, 40_000, 3, 1_000_000].into_iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(size));
            near.write_all(piece).expect("sent");
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        near.shutdown(Shutdown::Write).expect("ended");
    });
    let (mut received, mut buffer) = (Vec::new(), vec![0; 300_000]);
    for i in 0.. {
        let bytes = far.read(&mut buffer).expect("received");
        if bytes == 0 {
            break;
        }
        received.extend_from_slice(&buffer[..bytes]);
        if i % 16 == 0 {
            // Now and then its buffer is full.
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    writing.join().expect("written");
    assert!(received == sent, "{} of {}", received.len(), sent.len());
    assert!(soon(|| daemon.status()["backlog_bytes"] == 0));
    assert_eq!(daemon.status()["bytes_up"], sent.len());
}

/// What one who comes to `listener` sends to its end, unless it breaks off after `most`.
fn receive(listener: &TcpListener, most: u64) -> io::Result<Vec<u8>> {
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    Read::by_ref(&mut &stream)
        .take(most)
        .read_to_end(&mut received)?;
    Ok(received)
}

#[test]
fn after_a_restart_of_either_end_the_next_transfer_is_whole() {
    let daemon = Daemon::start(LOOPBACK, "");
    let sent = payload(8 << 20);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("bound");
    // The destination dies: what it has not read resets the connection.
    let first = thread::spawn(move || receive(&listener, 1 << 20).map(|part| part.len()));
    let mut near = daemon.tunnel(target);
    let end = send_all(&near, &sent).and_then(|()| near.read(&mut [0]));
    assert!(end.is_err(), "{end:?}");
    assert_eq!(first.join().expect("it ran").ok(), Some(1 << 20));
    // It comes back.
    let listener = TcpListener::bind(target).expect("its port");
    let again = thread::spawn(move || (receive(&listener, u64::MAX), listener));
    let near = daemon.tunnel(target);
    send_all(&near, &sent).expect("sent");
    let (received, listener) = again.join().expect("it ran");
    assert!(received.is_ok_and(|received| received == sent));
    // The client dies: nobody takes half for the whole.
    let half = thread::spawn(move || (receive(&listener, u64::MAX), listener));
    let mut near = daemon.tunnel(target);
    near.write_all(&sent[..sent.len() / 2]).expect("sent");
    let reset = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&near, sockopt::Linger, &reset).expect("set");
    drop(near);
    let (received, listener) = half.join().expect("it ran");
    let end = received.map_err(|e| e.kind());
    assert_eq!(end.err(), Some(ErrorKind::ConnectionReset));
    let again = thread::spawn(move || receive(&listener, u64::MAX));
    let near = daemon.tunnel(target);
    send_all(&near, &sent).expect("sent");
    let received = again.join().expect("it ran");
    assert!(received.is_ok_and(|received| received == sent));
}

#[test]
fn streams_are_whole_through_loss_and_reordering_of_either_leg() {
    let test = "streams_are_whole_through_loss_and_reordering_of_either_leg";
    let Some(path) = Behind::open(test, ["netem delay 3ms reorder 20%", "netem loss 1%"]) else {
        return;
    };
    let sent = payload(2 << 20);
    let anywhere = |file: &Path, from: &str, to: &str| {
        let text = fs::read_to_string(file).expect("a configuration");
        fs::write(file, text.replace(from, to)).expect("written");
    };
    // The client is behind the path, then the destination is.
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        anywhere(file, "127.0.0.1:", "0.0.0.0:");
        anywhere(file, "127.0.0.0/8\"]\ndest", "0.0.0.0/0\"]\ndest");
        serve(file)
    });
    let target = echo();
    let at = SocketAddr::new(path.outside.parse().expect("an address"), daemon.at.port());
    path.inside(|| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let asks = request(Layout::Convert, target, None).expect("a request");
        stream.write_all(&asks).expect("sent");
        assert_eq!(answer(&mut stream), None);
        assert!(comes_back(&stream, &sent), "near");
    });
    let target = SocketAddr::new(at.ip(), echo_at("0.0.0.0:0").port());
    path.inside(|| {
        let destinations = format!("[\"{}\"]", at.ip());
        let daemon = Daemon::start(&destinations, "");
        assert!(comes_back(&daemon.tunnel(target), &sent), "far");
    });
}
