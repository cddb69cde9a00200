//! `narrows pep serve` on this machine's loopback: what it relays, whom it refuses, and what
//! it leaves.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use narrows_pep::convert::Fault;
use narrows_pep::{Layout, request};
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::geteuid;

use super::rig::{
    self, Daemon, LOOPBACK, PATIENCE, answer, config, echo, echoes, free_port, is_reset,
    listen_address, payload, soon,
};
use super::{NARROWS, THREADS};

#[test]
fn both_streams_arrive_whole_and_each_ends_by_itself() {
    let daemon = Daemon::start(LOOPBACK, "");
    let mut stream = daemon.tunnel(echo());
    let sent = payload(8 << 20);
    let (mut writer, copy) = (stream.try_clone().expect("a descriptor"), sent.clone());
    let writing = thread::spawn(move || {
        writer.write_all(&copy).expect("sent");
        writer.shutdown(Shutdown::Write).expect("ended");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("its end");
    writing.join().expect("written");
    assert!(
        received == sent,
        "{} of {} bytes",
        received.len(),
        sent.len()
    );
    assert!(soon(|| daemon.status()["closed"] == 1));
    let status = daemon.status();
    let bytes = sent.len();
    assert_eq!(
        (&status["bytes_up"], &status["bytes_down"]),
        (&bytes.into(), &bytes.into())
    );
    assert_eq!(
        (&status["tunnels"], &status["backlog_bytes"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn a_slow_reader_is_waited_for_and_its_backlog_has_its_limit() {
    let daemon = Daemon::start(
        LOOPBACK,
        "[limits]\nbacklog = \"256kb\"\nread_ahead = \"0s\"",
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut near = daemon.ask(listener.local_addr().expect("bound"));
    let (mut far, _) = listener.accept().expect("it connects");
    assert_eq!(answer(&mut near), None);
    let sent = payload(24 << 20);
    let copy = sent.clone();
    let writing = thread::spawn(move || {
        near.write_all(&copy).expect("sent");
        near.shutdown(Shutdown::Write).expect("ended");
    });
    assert!(soon(|| daemon.status()["backlog_bytes"] == 256 << 10));
    let status = daemon.status();
    assert_eq!(
        status["largest"][0]["backlog_up_bytes"],
        256 << 10,
        "{status}"
    );
    let mut received = Vec::new();
    far.read_to_end(&mut received).expect("its end");
    assert!(received == sent);
    writing.join().expect("written");
}

#[test]
fn a_reset_of_either_end_is_one_of_the_other() {
    let daemon = Daemon::start(LOOPBACK, "");
    for near_resets in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = daemon.ask(listener.local_addr().expect("bound"));
        let (far, _) = listener.accept().expect("it connects");
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        assert_eq!(answer(&mut near), None);
        let (one, mut other) = if near_resets {
            (near, far)
        } else {
            (far, near)
        };
        let reset = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&one, sockopt::Linger, &reset).expect("set");
        drop(one);
        let read = other.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset), "{near_resets}");
    }
}

#[test]
fn a_destination_that_refuses_is_said_to() {
    let daemon = Daemon::start(LOOPBACK, "");
    let mut stream = daemon.ask(([127, 0, 0, 1], free_port()).into());
    assert_eq!(answer(&mut stream), Some(Fault::ConnectionReset));
}

/// An address of this machine that is not loopback's, if it has one.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent by that.
    socket.connect("192.0.2.1:9").ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback()).then_some(own)
}

#[test]
fn the_machine_behind_the_proxy_is_out_of_reach_by_any_of_its_names() {
    let daemon = Daemon::start("[\"0.0.0.0/0\", \"::/0\"]", "");
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    listener.set_nonblocking(true).expect("set");
    let mut tried: Vec<IpAddr> = [
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "255.255.255.255",
        "224.0.0.1",
    ]
    .map(|address| address.parse().expect("an address"))
    .to_vec();
    if let Some(own) = own_address() {
        tried.push(own);
        if let IpAddr::V4(own) = own {
            tried.push(own.to_ipv6_mapped().into());
        }
    }
    for address in tried {
        let mut stream = daemon.ask((address, port).into());
        assert_eq!(answer(&mut stream), Some(Fault::NotAuthorized), "{address}");
    }
    let came = listener.accept().map_err(|e| e.kind());
    assert_eq!(came.err(), Some(ErrorKind::WouldBlock));
    assert_eq!(daemon.status()["opened"], 0);
}

#[test]
fn a_client_that_asks_for_nothing_is_cut_off_and_delays_nobody() {
    let daemon = Daemon::start(LOOPBACK, "[limits]\nrequest = \"500ms\"");
    let mut silent = TcpStream::connect(daemon.at).expect("it listens");
    silent.write_all(&[1]).expect("sent");
    silent.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut stream = daemon.tunnel(echo());
    assert!(echoes(&mut stream, b"not delayed"));
    let read = silent.read(&mut [0]).map_err(|e| e.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset));
    assert_eq!(daemon.status()["request_timeouts"], 1);
    assert!(echoes(&mut stream, b"still there"));
}

#[test]
fn out_of_descriptors_it_says_so_and_recovers() {
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        let mut command = Command::new("sh");
        let words = "ulimit -n 96 && exec \"$0\" pep serve \"$1\"";
        command.args(["-c", words, NARROWS]).arg(file);
        command
    });
    let target = echo();
    // Half of what there are is kept, and each tunnel has two.
    let most = 96 / 2 / 2;
    let mut tunnels: Vec<_> = (0..most).map(|_| daemon.tunnel(target)).collect();
    let mut refused = daemon.connect_from(1);
    assert!(is_reset(&mut refused));
    // More clients than descriptors, of which none goes.
    let _crowd: Vec<_> = (0..120).map(|_| TcpStream::connect(daemon.at)).collect();
    for tunnel in &mut tunnels {
        assert!(echoes(tunnel, b"goes on"));
    }
    drop((tunnels, refused, _crowd));
    let again = || {
        let stream = daemon.tunnel_from(1, target);
        stream.is_some_and(|mut stream| echoes(&mut stream, b"again"))
    };
    assert!(soon(again));
}

#[test]
fn who_waits_for_a_descriptor_is_accepted_when_one_is_free_though_nobody_else_comes() {
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        // Descriptors that it inherits are more than those that it keeps for itself.
        let words = "ulimit -n 32; exec 3</dev/null 4<&3 5<&3 6<&3 7<&3 8<&3 9<&3; \
                     exec \"$0\" pep serve \"$1\"";
        let mut command = Command::new("sh");
        command.args(["-c", words, NARROWS]).arg(file);
        command
    });
    let target = echo();
    let mut held = Vec::new();
    // Those that are refused for want of a descriptor hold one until they close.
    let waiting = (0..32).find_map(|_| {
        let mut stream = daemon.ask(target);
        let moment = Duration::from_millis(500);
        stream.set_read_timeout(Some(moment)).expect("set");
        match stream.read(&mut [0]).map_err(|e| e.kind()) {
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Some(stream),
            _ => {
                held.push(stream);
                None
            }
        }
    });
    let mut waiting = waiting.expect("one is left to wait");
    drop(held);
    waiting.set_read_timeout(Some(PATIENCE)).expect("set");
    // It may come before there is a second one for its destination.
    let said = answer(&mut waiting);
    let answered = matches!(said, None | Some(Fault::ResourceExceeded { .. }));
    assert!(answered, "{said:?}");
}

#[test]
fn who_shows_no_cookie_is_refused_where_cookies_are_configured() {
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        rig::add(file, "cookies = true\n");
        rig::serve(file)
    });
    let target = echo();
    let Some(Fault::MissingCookie(cookie)) = answer(&mut daemon.ask(target)) else {
        panic!("a cookie is asked for");
    };
    let mut stream = TcpStream::connect(daemon.at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let shown = request(Layout::Convert, target, Some(&cookie)).expect("a request");
    stream.write_all(&shown).expect("sent");
    assert_eq!(answer(&mut stream), None);
    assert!(echoes(&mut stream, b"with a cookie"));
}

#[test]
fn at_its_end_it_takes_no_more_clients_and_serves_who_is_there() {
    let mut daemon = Daemon::start(LOOPBACK, "drain = \"60s\"");
    let mut stream = daemon.tunnel(echo());
    daemon.signal(Signal::SIGTERM);
    assert!(soon(|| TcpStream::connect(daemon.at).is_err()));
    assert_eq!(daemon.status()["draining"], true);
    let sent = payload(1 << 20);
    let (mut writer, copy) = (stream.try_clone().expect("a descriptor"), sent.clone());
    let writing = thread::spawn(move || {
        writer.write_all(&copy).expect("sent");
        writer.shutdown(Shutdown::Write).expect("ended");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("its end");
    writing.join().expect("written");
    assert!(received == sent);
    assert!(daemon.ended().success());
    assert!(!daemon.folder.path().join("status.sock").exists());
}

#[test]
fn whoever_stays_beyond_the_time_to_drain_is_reset() {
    let mut daemon = Daemon::start(LOOPBACK, "drain = \"200ms\"");
    let mut stream = daemon.tunnel(echo());
    daemon.signal(Signal::SIGTERM);
    let read = stream.read(&mut [0]).map_err(|e| e.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset));
    assert!(daemon.ended().success());
}

#[test]
fn a_reload_changes_who_comes_next_and_loses_no_byte() {
    let daemon = Daemon::start(LOOPBACK, "");
    let (file, target) = (daemon.folder.path().join("pep.toml"), echo());
    let mut stream = daemon.tunnel(target);
    let sent = payload(8 << 20);
    let (mut writer, copy) = (stream.try_clone().expect("a descriptor"), sent.clone());
    let writing = thread::spawn(move || {
        writer.write_all(&copy).expect("sent");
        writer.shutdown(Shutdown::Write).expect("ended");
    });
    // What cannot be meant changes nothing.
    fs::write(&file, "version = 1\nlistner = 2\n").expect("written");
    daemon.signal(Signal::SIGHUP);
    let mut other = daemon.tunnel(target);
    assert!(echoes(&mut other, b"as before"));
    let strict = config(daemon.at, daemon.folder.path(), "[\"192.0.2.0/24\"]", "");
    fs::write(&file, strict).expect("written");
    daemon.signal(Signal::SIGHUP);
    let refused = || answer(&mut daemon.ask(target)) == Some(Fault::NotAuthorized);
    assert!(soon(refused));
    assert!(echoes(&mut other, b"goes on"));
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("its end");
    writing.join().expect("written");
    assert!(received == sent);
}

#[test]
fn a_killed_daemon_ends_no_stream_and_its_place_is_free() {
    let mut daemon = Daemon::start(LOOPBACK, "");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut near = daemon.ask(listener.local_addr().expect("bound"));
    let (mut far, _) = listener.accept().expect("it connects");
    assert_eq!(answer(&mut near), None);
    near.write_all(b"half of it").expect("sent");
    far.read_exact(&mut [0; 10]).expect("received");
    daemon.child.kill().expect("it is there");
    daemon.ended();
    // An end would look like that of the whole.
    for stream in [&mut near, &mut far] {
        let read = stream.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(read, Err(ErrorKind::ConnectionReset));
    }
    let mut command = Command::new(NARROWS);
    command
        .args(["pep", "serve"])
        .arg(daemon.folder.path().join("pep.toml"));
    daemon.child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    daemon.wait_for("listening");
    assert_eq!(daemon.status()["tunnels"], 0);
}

#[test]
fn thousands_of_connections_leave_no_descriptor() {
    let daemon = Daemon::start(LOOPBACK, "");
    let target = echo();
    assert!(echoes(&mut daemon.tunnel(target), b"the first"));
    assert!(soon(|| daemon.status()["tunnels"] == 0));
    let before = daemon.descriptors();
    for i in 0..3_000u32 {
        match i % 3 {
            0 => drop(daemon.ask(target)),
            1 => drop(TcpStream::connect(daemon.at)),
            _ => {
                let mut stream = daemon.tunnel(target);
                assert!(echoes(&mut stream, &i.to_be_bytes()));
            }
        }
    }
    assert!(soon(|| daemon.status()["tunnels"] == 0));
    assert_eq!(daemon.descriptors(), before);
}

#[test]
fn it_gives_up_the_rights_that_it_needs_no_more() {
    if !geteuid().is_root() {
        eprintln!("skipped: it_gives_up_the_rights_that_it_needs_no_more: not root");
        return;
    }
    let daemon = Daemon::start(LOOPBACK, "user = \"nobody\"");
    let nobody = nix::unistd::User::from_name("nobody")
        .expect("users")
        .expect("nobody");
    let uid = nobody.uid.to_string();
    assert!(echoes(&mut daemon.tunnel(echo()), b"and serves"));
    // The first thread answers once the others are started.
    assert_eq!(daemon.status()["opened"], 1);
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.child.id())).expect("a process");
    let tasks: Vec<_> = tasks.flatten().collect();
    assert!(tasks.len() >= THREADS);
    for task in tasks {
        let said = fs::read_to_string(task.path().join("status")).expect("a thread");
        let word = |name: &str, at: usize| {
            let line = said.lines().find(|l| l.starts_with(name));
            line.unwrap_or_default().split_whitespace().nth(at)
        };
        assert_eq!(word("Uid:", 3), Some(uid.as_str()), "{said}");
        assert_eq!(word("CapEff:", 1), Some("0000000000000000"), "{said}");
        assert_eq!(word("NoNewPrivs:", 1), Some("1"), "{said}");
    }
}

#[test]
fn metrics_are_answered_on_loopback() {
    let port = free_port();
    let daemon = Daemon::start(LOOPBACK, &format!("metrics = \"127.0.0.1:{port}\""));
    assert!(echoes(&mut daemon.tunnel(echo()), b"counted"));
    let page = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it answers");
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        page
    };
    let line = format!(
        "narrows_pep_up_bytes_total{{listener=\"{}\"}} 7\n",
        daemon.at
    );
    assert!(soon(|| page().contains(&line)));
    // Others that never end their requests keep nobody out.
    let half = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it answers");
        stream.write_all(b"GET /met").expect("sent");
        stream
    };
    let _halves: Vec<_> = (0..130).map(|_| half()).collect();
    assert!(page().contains(&line));
}

/// Removes namespaces again, whatever became of the test.
struct Namespaces([String; 3]);

impl Namespaces {
    fn make(words: &str) -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let made = MADE.fetch_add(1, SeqCst);
        let names = ["c", "p", "s"].map(|n| format!("nwpep{n}{}-{made}", std::process::id()));
        let made = Self(names);
        let [c, p, s] = &made.0;
        let done = Command::new("sh")
            .args(["-ec", words, c, p, s])
            .output()
            .ok()?;
        if !done.status.success() {
            eprintln!(
                "skipped: no namespaces with TPROXY: {}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
        done.status.success().then_some(made)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // One that was not made needs none.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn clients_that_know_nothing_of_it_are_led_to_it() {
    led_through("", "you are 10.0.2.1");
}

#[test]
fn a_transparent_proxy_keeps_the_client_s_address_where_it_is_told_to() {
    led_through("keep_source = true\n", "you are 10.0.1.2");
}

/// What the destination of a client says that is led through the proxy.
fn led_through(keys: &str, expected: &str) {
    /// Client, proxy and server in a row; connections to port 80 are led to port 8804.
    const ROW: &str = "
        for n in $0 $1 $2; do ip netns add $n; ip -n $n link set lo up; done
        ip link add c0 netns $0 type veth peer name p0 netns $1
        ip link add s0 netns $2 type veth peer name p1 netns $1
        ip -n $0 addr add 10.0.1.2/24 dev c0; ip -n $0 link set c0 up
        ip -n $1 addr add 10.0.1.1/24 dev p0; ip -n $1 link set p0 up
        ip -n $1 addr add 10.0.2.1/24 dev p1; ip -n $1 link set p1 up
        ip -n $2 addr add 10.0.2.2/24 dev s0; ip -n $2 link set s0 up
        ip -n $0 route add default via 10.0.1.1
        ip -n $2 route add default via 10.0.2.1
        ip netns exec $1 ip rule add fwmark 8804 lookup 8804
        ip netns exec $1 ip route add local 0.0.0.0/0 dev lo table 8804
        ip netns exec $1 nft 'add table ip pep
            add chain ip pep lead { type filter hook prerouting priority mangle; }
            add rule ip pep lead iifname p0 tcp dport 80 tproxy to :8804 meta mark set 8804
            add rule ip pep lead iifname p1 tcp sport 80 meta mark set 8804'";
    let test = "led_through";
    if !geteuid().is_root() {
        eprintln!("skipped: {test}: not root");
        return;
    }
    let Some(namespaces) = Namespaces::make(ROW) else {
        return;
    };
    let [client, proxy, server] = &namespaces.0;
    let perl = |namespace: &str, words: &str| {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            namespace,
            "perl",
            "-MIO::Socket::INET",
            "-e",
            words,
        ]);
        command
    };
    // Says who came to it.
    let mut serving = perl(
        server,
        "$| = 1; my $l = IO::Socket::INET->new(Listen => 9, LocalAddr => '10.0.2.2', \
         LocalPort => 80) or die; print \"ready\\n\"; my $c = $l->accept; \
         print $c 'you are ' . $c->peerhost;",
    );
    let serving = serving.stdout(Stdio::piped()).spawn();
    let Ok(mut serving) = serving else {
        eprintln!("skipped: {test}: there is no perl");
        return;
    };
    let mut line = String::new();
    let mut said = BufReader::new(serving.stdout.take().expect("piped"));
    said.read_line(&mut line).expect("it is ready");
    let daemon = Daemon::start_by("[\"10.0.2.2 port 80\"]", "", |file| {
        let text = fs::read_to_string(file).expect("a configuration");
        let text = text
            .replace(&listen_address(file).to_string(), "0.0.0.0:8804")
            .replace("127.0.0.0/8", "10.0.1.0/24")
            + "intake = \"transparent\"\n"
            + keys;
        fs::write(file, text).expect("written");
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", proxy, NARROWS, "pep", "serve"])
            .arg(file);
        command
    });
    let asks = "my $s = IO::Socket::INET->new('10.0.2.2:80') or die; print <$s>;";
    let output = perl(client, asks).output().expect("perl");
    // By default the destination sees the proxy's address.
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(soon(|| daemon.status()["closed"] == 1));
    // It may have ended by itself.
    let _ = serving.kill();
    let _ = serving.wait();
    drop(namespaces);
}
