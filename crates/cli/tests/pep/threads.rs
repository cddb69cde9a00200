//! `narrows pep serve` with several threads: what it does with one as well, and what they share.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use crate::rig::{
    Daemon, LOOPBACK, answer, config, echo, echoes, free_port, is_reset, payload, soon,
};
use crate::{NARROWS, THREADS};
use narrows_pep::{Layout, request};
use nix::sys::signal::Signal;

/// How many tunnels each thread serves.
fn spread(daemon: &Daemon) -> Vec<u64> {
    let status = daemon.status();
    let threads = status["threads"].as_array().expect("a list");
    threads.iter().filter_map(|count| count.as_u64()).collect()
}

/// Tunnels of which each thread has two.
fn two_of_each(daemon: &Daemon, target: SocketAddr) -> Vec<TcpStream> {
    let tunnels: Vec<_> = (0..2 * THREADS).map(|_| daemon.tunnel(target)).collect();
    assert_eq!(spread(daemon), [2; THREADS]);
    tunnels
}

/// Whether a daemon grants connections there.
fn serves(at: SocketAddr, target: SocketAddr) -> bool {
    TcpStream::connect(at).is_ok_and(|mut stream| {
        let asks = request(Layout::Convert, target, None).expect("a request");
        stream.write_all(&asks).is_ok() && answer(&mut stream).is_none()
    })
}

/// Whether what each sends to an echo comes back to its end, all of them at once.
fn all_come_back(tunnels: Vec<TcpStream>) -> bool {
    let comes_back = |(at, mut stream): (usize, TcpStream)| {
        // Each has other bytes than the others.
        let sent = payload((1 << 20) + at).split_off(at);
        let (mut writer, copy) = (stream.try_clone().expect("a descriptor"), sent.clone());
        let writing = thread::spawn(move || {
            writer.write_all(&copy).expect("sent");
            writer.shutdown(Shutdown::Write).expect("ended");
        });
        let mut received = Vec::new();
        let whole = stream.read_to_end(&mut received).is_ok() && received == sent;
        whole & writing.join().is_ok()
    };
    let all = tunnels.into_iter().enumerate();
    let all: Vec<_> = all
        .map(|one| thread::spawn(move || comes_back(one)))
        .collect();
    all.into_iter()
        .all(|one| one.join().is_ok_and(|whole| whole))
}

#[test]
fn tunnels_are_spread_over_all_threads_and_all_streams_are_whole() {
    let daemon = Daemon::start(LOOPBACK, "");
    let target = echo();
    let tunnels: Vec<_> = (0..8 * THREADS).map(|_| daemon.tunnel(target)).collect();
    // They came one by one, each to the thread that had fewest.
    assert_eq!(spread(&daemon), [8; THREADS]);
    assert!(all_come_back(tunnels));
    assert!(soon(|| daemon.status()["closed"] == 8 * THREADS));
    let status = daemon.status();
    let bytes = (8 * THREADS) << 20;
    assert_eq!(
        (
            &status["bytes_up"],
            &status["bytes_down"],
            &status["backlog_bytes"]
        ),
        (&bytes.into(), &bytes.into(), &0.into())
    );
    assert_eq!(status["accepted"], 8 * THREADS);
}

#[test]
fn tunnels_that_have_ended_count_no_more_where_the_next_is_placed() {
    let daemon = Daemon::start(LOOPBACK, "");
    let target = echo();
    let mut of: [Vec<TcpStream>; THREADS] = Default::default();
    for _ in 0..2 * THREADS {
        let before = spread(&daemon);
        let tunnel = daemon.tunnel(target);
        let after = spread(&daemon);
        let at = (0..THREADS).find(|at| after[*at] > before[*at]);
        of[at.expect("a thread has it")].push(tunnel);
    }
    for (at, tunnels) in of.iter_mut().enumerate() {
        tunnels.clear();
        assert!(soon(|| spread(&daemon)[at] == 0));
        // Both are that thread's, as all others have two.
        *tunnels = (0..2).map(|_| daemon.tunnel(target)).collect();
        assert_eq!(spread(&daemon), [2; THREADS]);
    }
}

#[test]
fn a_limit_of_tunnels_is_that_of_all_threads_together() {
    for limit in ["tunnels", "tunnels_per_client"] {
        let daemon = Daemon::start(LOOPBACK, &format!("[limits]\n{limit} = 4"));
        let target = echo();
        let mut tunnels: Vec<_> = (0..4).map(|_| daemon.tunnel(target)).collect();
        for _ in 0..2 * THREADS {
            let mut refused = daemon.connect_from(1);
            assert!(is_reset(&mut refused), "{limit}");
        }
        for tunnel in &mut tunnels {
            assert!(echoes(tunnel, b"goes on"));
        }
        tunnels.pop();
        assert!(soon(|| daemon.tunnel_from(1, target).is_some()), "{limit}");
    }
}

#[test]
fn the_budget_is_that_of_all_threads_together_and_comes_back_to_all() {
    let limits = "[limits]\nbudget = \"1mb\"\nbacklog = \"1mb\"\nread_ahead = \"0s\"";
    let daemon = Daemon::start(LOOPBACK, limits);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("bound");
    // Nobody reads what these send, for the time being.
    let stalled = two_of_each(&daemon, target);
    let data = Arc::new(payload(24 << 20));
    let sending: Vec<_> = stalled
        .into_iter()
        .map(|mut stream| {
            let data = Arc::clone(&data);
            thread::spawn(move || {
                stream.write_all(&data).expect("sent");
                stream.shutdown(Shutdown::Write).expect("ended");
                stream
            })
        })
        .collect();
    let waiting = || daemon.status()["backlog_bytes"].as_u64().expect("a number");
    // Half of it, as they are all of one client.
    assert!(soon(|| waiting() > 400_000));
    for _ in 0..20 {
        assert!(waiting() <= 1 << 19);
    }
    let mut reader = daemon.tunnel(echo());
    assert!(echoes(&mut reader, &data[..10_000]), "others are served");
    // One after the other.
    for _ in 0..2 * THREADS {
        let (mut far, _) = listener.accept().expect("it is there");
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("its end");
        assert!(received == *data);
    }
    sending
        .into_iter()
        .for_each(|one| drop(one.join().expect("sent")));
    assert!(soon(|| waiting() == 0));
}

#[test]
fn at_its_end_all_threads_serve_who_is_there() {
    let mut daemon = Daemon::start(LOOPBACK, "drain = \"60s\"");
    let mut tunnels = two_of_each(&daemon, echo());
    daemon.signal(Signal::SIGTERM);
    assert!(soon(|| TcpStream::connect(daemon.at).is_err()));
    for tunnel in &mut tunnels {
        assert!(echoes(tunnel, b"goes on"));
    }
    assert_eq!(daemon.status()["draining"], true);
    assert!(all_come_back(tunnels));
    assert!(daemon.ended().success());
    assert!(!daemon.folder.path().join("status.sock").exists());
}

#[test]
fn a_second_signal_resets_the_tunnels_of_all_threads() {
    let mut daemon = Daemon::start(LOOPBACK, "drain = \"60s\"");
    let mut tunnels = two_of_each(&daemon, echo());
    daemon.signal(Signal::SIGTERM);
    assert!(soon(|| daemon.status()["draining"] == true));
    daemon.signal(Signal::SIGTERM);
    for tunnel in &mut tunnels {
        let read = tunnel.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset));
    }
    assert!(daemon.ended().success());
}

#[test]
fn a_reload_opens_and_closes_listeners_of_all_threads_and_loses_no_byte() {
    let mut daemon = Daemon::start(LOOPBACK, "");
    let (file, target) = (daemon.folder.path().join("pep.toml"), echo());
    let kept = two_of_each(&daemon, target);
    let coming_back = thread::spawn(|| all_come_back(kept));
    let before = daemon.at;
    daemon.at.set_port(free_port());
    // The number of threads is no matter of a reload.
    let other = config(daemon.at, daemon.folder.path(), LOOPBACK, "");
    let other = other.replace(&format!("threads = {THREADS}"), "threads = 1");
    fs::write(&file, other).expect("written");
    daemon.signal(Signal::SIGHUP);
    assert!(soon(|| serves(daemon.at, target)));
    assert!(soon(|| TcpStream::connect(before).is_err()), "it is closed");
    assert!(coming_back.join().expect("done"));
    assert!(soon(|| daemon.status()["tunnels"] == 0));
    assert!(all_come_back(two_of_each(&daemon, target)));
    // And back: the port is free.
    let first = config(before, daemon.folder.path(), LOOPBACK, "");
    fs::write(&file, first).expect("written");
    daemon.signal(Signal::SIGHUP);
    assert!(soon(|| serves(before, target)));
    daemon.at = before;
    assert!(soon(|| daemon.status()["tunnels"] == 0));
    assert!(all_come_back(two_of_each(&daemon, target)));
}

#[test]
fn what_cannot_be_listened_at_leaves_all_threads_as_they_are() {
    let daemon = Daemon::start(LOOPBACK, "");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let text = config(daemon.at, daemon.folder.path(), LOOPBACK, "");
    let (head, listener) = text.split_once("[[listener]]").expect("one");
    let at = |at: SocketAddr| listener.replace(&daemon.at.to_string(), &at.to_string());
    let taken = at(taken.local_addr().expect("bound"));
    let both = format!("{head}[[listener]]{}[[listener]]{taken}", at(free));
    let file = daemon.folder.path().join("pep.toml");
    fs::write(&file, both).expect("written");
    let target = echo();
    for _ in 0..5 {
        daemon.signal(Signal::SIGHUP);
        let tunnels = two_of_each(&daemon, target);
        assert!(soon(|| TcpStream::connect(free).is_err()));
        assert!(all_come_back(tunnels));
        assert!(soon(|| daemon.status()["tunnels"] == 0));
    }
}

#[test]
fn a_kill_ends_no_stream_of_any_thread() {
    let mut daemon = Daemon::start(LOOPBACK, "");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = two_of_each(&daemon, listener.local_addr().expect("bound"));
    let far = (0..near.len()).map(|_| listener.accept().expect("it connects").0);
    let far: Vec<_> = far.collect();
    daemon.child.kill().expect("it is there");
    daemon.ended();
    for mut stream in near.into_iter().chain(far) {
        let read = stream.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset));
    }
    let mut command = Command::new(NARROWS);
    command
        .args(["pep", "serve"])
        .arg(daemon.folder.path().join("pep.toml"));
    daemon.child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    daemon.wait_for("listening");
    assert_eq!(spread(&daemon), [0; THREADS]);
}
