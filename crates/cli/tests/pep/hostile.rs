//! `narrows pep serve` while one client uses up what it can reach: another within its limits is
//! served.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::rig::{
    Daemon, LOOPBACK, PATIENCE, comes_back, config, echo, echoes, free_port, in_own_network,
    is_reset, payload, soon,
};
use crate::{NARROWS, THREADS};

/// 127.0.0.2 is hostile, and this one is not.
const VICTIM: u8 = 3;

/// A destination that takes connections and never reads.
fn never_reads() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    (listener, at)
}

/// Fills a tunnel whose destination never reads, until it takes nothing for a while.
fn fill(stream: &TcpStream) {
    let data = payload(1 << 20);
    let pause = std::time::Duration::from_millis(300);
    stream.set_write_timeout(Some(pause)).expect("set");
    let mut stream = stream;
    while stream.write(&data).is_ok() {}
}

/// Whether the victim's tunnels are served, small pieces and large.
fn is_served(daemon: &Daemon, target: SocketAddr) -> bool {
    let sent = payload(3 << 20);
    (0..2 * THREADS).all(|_| {
        let tunnel = daemon.tunnel_from(VICTIM, target);
        tunnel.is_some_and(|mut tunnel| {
            (0..50).all(|_| echoes(&mut tunnel, b"are you there?")) && comes_back(&tunnel, &sent)
        })
    })
}

const SMALL: &str = "[limits]\nbudget = \"8mb\"\nread_ahead = \"0s\"";

#[test]
fn stalled_tunnels_filled_one_after_the_other_stop_nobody() {
    let daemon = Daemon::start(LOOPBACK, SMALL);
    let (listener, stalls) = never_reads();
    let target = echo();
    let mut early = daemon.tunnel_from(VICTIM, target).expect("granted");
    let mut hostile = Vec::new();
    // So many clients that all of the budget is theirs, to its last bytes.
    for i in 0..24 {
        let tunnel = daemon.tunnel_from(10 + i % 12, stalls).expect("granted");
        fill(&tunnel);
        hostile.push(tunnel);
    }
    let used = daemon.count("backlog_bytes");
    assert!(used > 7 << 20 && used <= 8 << 20, "{used}");
    assert!(is_served(&daemon, target));
    assert!(echoes(&mut early, b"and who was there before"));
    drop((hostile, listener));
    assert!(soon(|| daemon.count("backlog_bytes") == 0));
}

#[test]
fn stalled_tunnels_filled_at_once_stop_nobody_and_one_client_has_half() {
    let daemon = Daemon::start(LOOPBACK, SMALL);
    let (_listener, stalls) = never_reads();
    let target = echo();
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                let tunnel = daemon.tunnel_from(2, stalls).expect("granted");
                fill(&tunnel);
                // Held until all are served.
                assert!(is_served(&daemon, target));
            });
        }
    });
    let _hostile: Vec<_> = (0..10)
        .map(|_| {
            let tunnel = daemon.tunnel_from(2, stalls).expect("granted");
            fill(&tunnel);
            tunnel
        })
        .collect();
    let used = daemon.count("backlog_bytes");
    assert!(used > 3 << 20 && used <= 4 << 20, "{used}");
    assert!(is_served(&daemon, target));
}

#[test]
fn what_stalls_for_too_long_is_given_up_with_its_memory() {
    let limits = format!("{SMALL}\nidle = \"8s\"");
    let daemon = Daemon::start(LOOPBACK, &limits);
    let (_listener, stalls) = never_reads();
    let mut hostile = daemon.tunnel_from(2, stalls).expect("granted");
    fill(&hostile);
    assert!(daemon.count("backlog_bytes") > 0);
    // It tries to send on, which moves nothing.
    assert!(soon(|| {
        let _ = hostile.write(b"more");
        daemon.count("backlog_bytes") == 0
    }));
    assert_eq!(daemon.count("idle_timeouts"), 1);
}

#[test]
fn who_opens_more_than_it_may_takes_neither_descriptors_nor_places_nor_the_log() {
    let daemon = Daemon::start_by(
        LOOPBACK,
        "[limits]\ntunnels_per_client = 50\nrequest = \"60s\"",
        |file| {
            let mut command = Command::new("sh");
            let words = "ulimit -n 1000 && exec \"$0\" pep serve \"$1\"";
            command.args(["-c", words, NARROWS]).arg(file);
            command
        },
    );
    let target = echo();
    let _held: Vec<_> = (0..50).map(|_| daemon.connect_from(2)).collect();
    assert!(soon(|| daemon.count("tunnels") == 50));
    let descriptors = daemon.descriptors();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..700 {
                    assert!(is_reset(&mut daemon.connect_from(2)));
                }
            });
        }
        for _ in 0..8 {
            let tunnel = daemon.tunnel_from(VICTIM, target);
            assert!(tunnel.is_some_and(|mut tunnel| echoes(&mut tunnel, b"and I?")));
        }
    });
    assert_eq!(daemon.count("over_client"), 2_100);
    assert!(daemon.count("lines_held_back") > 0);
    assert!(soon(|| daemon.count("tunnels") == 50));
    assert!(soon(|| daemon.descriptors() <= descriptors));
}

/// A client of SOCKS that has asked for a port of a name.
fn asks_for_name(daemon: &Daemon, last: u8, name: &str, port: u16) -> TcpStream {
    let mut stream = daemon.connect_from(last);
    let mut request = vec![5, 1, 0, 5, 1, 0, 3, name.len() as u8];
    request.extend_from_slice(name.as_bytes());
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).expect("sent");
    stream
}

/// What is done with a daemon of SOCKS whose server of names receives questions and answers none;
/// how long it is waited for, resolv.conf(5) says in `options`.
fn with_silent_server(test: &str, options: &str, limits: &str, work: impl FnOnce(&Daemon) + Send) {
    in_own_network(test, || {
        let _silent = UdpSocket::bind("127.0.0.1:53").expect("a port");
        let folder = tempfile::tempdir().expect("a folder");
        let conf = folder.path().join("resolv.conf");
        fs::write(&conf, format!("nameserver 127.0.0.1\n{options}\n")).expect("written");
        let probe = Command::new("unshare").args(["-m", "true"]).status();
        if !probe.is_ok_and(|status| status.success()) {
            eprintln!("skipped: {test}: unshare(1) does not run");
            return;
        }
        let destinations = format!("{LOOPBACK}\nintake = \"socks5\"");
        let daemon = Daemon::start_by(&destinations, limits, |file| {
            let words = "mount --bind \"$1\" /etc/resolv.conf && exec \"$0\" pep serve \"$2\"";
            let mut command = Command::new("unshare");
            command.args(["-m", "sh", "-c", words, NARROWS]);
            command.arg(&conf).arg(file);
            command
        });
        work(&daemon);
    });
}

/// Whether a name that needs no server is granted and leads to `target`.
fn is_found(daemon: &Daemon, target: SocketAddr) -> bool {
    let mut good = asks_for_name(daemon, VICTIM, "localhost", target.port());
    let mut answer = [0; 12];
    let granted = good.read_exact(&mut answer).is_ok() && answer[3] == 0;
    granted && echoes(&mut good, b"a good name")
}

#[test]
fn names_of_a_silent_server_keep_no_good_name_waiting_and_go_with_their_client() {
    let test = "names_of_a_silent_server_keep_no_good_name_waiting_and_go_with_their_client";
    with_silent_server(test, "", "", |daemon| {
        let target = echo();
        let hostile: Vec<_> = (0..400)
            .map(|i| asks_for_name(daemon, 2, &format!("n{i}.silent.example"), 80))
            .collect();
        assert!(soon(|| daemon.count("names") == 400));
        assert!(daemon.count("names_refused") >= 300);
        assert!(daemon.count("names_waiting") + daemon.count("names_running") <= 100);
        for _ in 0..3 {
            assert!(is_found(daemon, target));
        }
        assert!(
            daemon.count("names_running") > 0,
            "the others are silent still"
        );
        drop(hostile);
        assert!(soon(|| daemon.count("names_waiting") == 0));
        assert!(soon(|| daemon.count("names_running") == 0));
    });
}

#[test]
fn names_that_take_too_long_give_their_places_to_others_though_nothing_else_happens() {
    let test = "names_that_take_too_long_give_their_places_to_others_though_nothing_else_happens";
    let (long, limits) = ("options timeout:30", "[limits]\nresolve = \"15s\"");
    with_silent_server(test, long, limits, |daemon| {
        let target = echo();
        // Four clients have all 64 places.
        let _hostile: Vec<_> = (0..64)
            .map(|i| asks_for_name(daemon, 10 + i % 4, &format!("n{i}.silent.example"), 80))
            .collect();
        assert!(soon(|| daemon.count("names_running") == 64));
        // Nobody else asks for anything until it is found.
        assert!(is_found(daemon, target));
        assert_eq!(daemon.count("names_running"), 64, "they are silent still");
    });
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = folder.path().join("pep.toml");
    fs::write(&file, config(at, folder.path(), LOOPBACK, "")).expect("written");
    let child = serve_with_details(&file).stderr(Stdio::piped()).spawn();
    // Its log is a pipe, which is never read.
    let child = child.expect("it starts");
    let mut daemon = Daemon { child, at, folder };
    assert!(soon(|| TcpStream::connect(at).is_ok()));
    let target = echo();
    // Each logs more than a hundred bytes: beyond the 64 KiB of a pipe.
    for _ in 0..2_000 {
        let tunnel = daemon.tunnel_from(VICTIM, target);
        assert!(tunnel.is_some_and(|mut tunnel| echoes(&mut tunnel, b"logged")));
    }
    assert!(daemon.count("opened") >= 2_000);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.ended().success());
}

fn serve_with_details(file: &Path) -> Command {
    let mut command = crate::rig::serve(file);
    command.arg("--details");
    command
}

#[test]
fn a_black_hole_behind_another_proxy_leaves_that_proxy_to_everybody_else() {
    let test = "a_black_hole_behind_another_proxy_leaves_that_proxy_to_everybody_else";
    in_own_network(test, || {
        // Nobody answers there: packets go to loopback and are of no address of it.
        let hole = Command::new("ip")
            .args(["route", "add", "192.0.2.0/24", "dev", "lo"])
            .status();
        assert!(hole.is_ok_and(|status| status.success()));
        let parent = Daemon::start("[\"127.0.0.0/8\", \"192.0.2.0/24\"]", "");
        let child = Daemon::start_by("[\"127.0.0.0/8\", \"192.0.2.0/24\"]", "", |file| {
            let keys = format!(
                "parent = {{ proxy = \"{}\", patience = \"500ms\", or_directly = true }}\n",
                parent.at
            );
            crate::rig::add(file, &keys);
            crate::rig::serve(file)
        });
        let target = echo();
        let hole: SocketAddr = "192.0.2.7:80".parse().expect("an address");
        let _held: Vec<_> = (0..5).map(|_| child.ask(hole)).collect();
        assert!(
            soon(|| child.count("direct") == 5),
            "they go directly in time"
        );
        for _ in 0..5 {
            let mut tunnel = child.tunnel_from(VICTIM, target).expect("granted");
            assert!(echoes(&mut tunnel, b"by the parent"));
        }
        assert_eq!(child.count("direct"), 5, "nobody else does");
        assert_eq!(parent.count("opened"), 5);
    });
}

#[test]
fn a_byte_of_urgent_data_stays_in_its_place() {
    let daemon = Daemon::start(LOOPBACK, "");
    let mut tunnel = daemon.tunnel(echo());
    tunnel.write_all(b"be").expect("sent");
    let urgent = nix::sys::socket::MsgFlags::MSG_OOB;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&tunnel);
    nix::sys::socket::send(fd, b"for", urgent).expect("sent");
    tunnel.write_all(b"e").expect("sent");
    let mut back = [0; 6];
    tunnel.set_read_timeout(Some(PATIENCE)).expect("set");
    tunnel.read_exact(&mut back).expect("it comes back");
    assert_eq!(&back, b"before");
}
