//! `narrows pep serve` for who operates it: a configuration that is checked, whose connections are
//! whose, what is kept alive, and what the service manager hears.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::rig::{
    Daemon, LOOPBACK, PATIENCE, add, answer, config, echo, echoes, free_port, is_reset, serve, soon,
};
use crate::{NARROWS, THREADS};
use narrows_pep::{HeaderVersion, Layout, header, request};
use nix::unistd::geteuid;

/// What `--check` says of a configuration with these keys before its listener and in it.
fn checked(more: &str, listener: &str, mode: u32) -> (Output, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = folder.path().join("pep.toml");
    let text = config(at, folder.path(), LOOPBACK, more) + listener;
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
    let output = serve(&file).arg("--check").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !folder.path().join("status.sock").exists(),
        "nothing is opened"
    );
    (output, said)
}

#[test]
fn a_configuration_is_checked_and_nothing_is_served() {
    let (output, said) = checked("", "", 0o644);
    assert!(output.status.success(), "{said}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("nothing is wrong"), "{said}");
    for (more, listener, what) in [
        ("drain = \"soon\"", "", "drain"),
        ("[limits]\nbudget = \"70Mbit\"", "", "64MiB"),
        ("[limits]\nipv6_prefix = 0", "", "1 to 128"),
        ("", "send_proxy = \"v3\"\n", "`v1` or `v2`"),
        ("", "keep_source = true\n", "transparent"),
        ("user = \"no-such-user\"", "", "no-such-user"),
        ("", "near = { keepalive = \"0s\" }\n", "keepalive"),
    ] {
        let (output, said) = checked(more, listener, 0o644);
        assert_eq!(output.status.code(), Some(2), "{more}{listener}: {said}");
        assert!(said.contains(what), "{more}{listener}: {said}");
    }
}

#[test]
fn a_configuration_that_anybody_may_change_is_refused() {
    let (output, said) = checked("", "", 0o666);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("0666") && said.contains("chmod o-w"),
        "{said}"
    );
}

#[test]
fn a_configuration_that_a_reload_could_not_read_is_named_before() {
    let test = "a_configuration_that_a_reload_could_not_read_is_named_before";
    if !geteuid().is_root() {
        eprintln!("skipped: {test}: not root");
        return;
    }
    let (output, said) = checked("user = \"nobody\"", "", 0o600);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("SIGHUP"), "{said}");
    assert!(checked("user = \"nobody\"", "", 0o644).0.status.success());
    // Served all the same, it is said.
    let folder = tempfile::tempdir().expect("a folder");
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = folder.path().join("pep.toml");
    fs::write(
        &file,
        config(at, folder.path(), LOOPBACK, "user = \"nobody\""),
    )
    .expect("written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("set");
    let child = serve(&file).stderr(Stdio::piped()).spawn();
    let child = child.expect("it starts");
    let mut daemon = Daemon { child, at, folder };
    daemon.wait_for("SIGHUP will be refused");
}

#[test]
fn the_default_budget_follows_the_machine_s_memory_and_the_kernel_s_buffers_count() {
    let daemon = Daemon::start(LOOPBACK, "");
    let meminfo = fs::read_to_string("/proc/meminfo").expect("memory");
    let words = meminfo.split_whitespace().nth(1);
    let total: u64 = words.expect("a number").parse().expect("a number");
    let budget = daemon.count("budget_bytes");
    assert!(budget > 0 && budget <= (total << 10) / 4, "{budget}");
    assert!(daemon.count("memory_bytes") >= budget);
    // No more memory than the kernel's buffers hold: nothing is read ahead, and all is served.
    let little = Daemon::start(LOOPBACK, "[limits]\nmemory = \"1MiB\"\nread_ahead = \"0s\"");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stalls = listener.local_addr().expect("bound");
    let mut stalled = little.tunnel(stalls);
    stalled.set_nonblocking(true).expect("set");
    let data = vec![7; 1 << 20];
    assert!(soon(|| {
        let _ = stalled.write(&data);
        little.count("kernel_bytes") > 1 << 20
    }));
    assert_eq!(little.count("budget_bytes"), 0);
    assert!(echoes(&mut little.tunnel(echo()), b"served all the same"));
}

/// A control group whose memory is limited, below this process's own.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// Of the second hierarchy where it has memory, or of the first one's.
    fn make(test: &str, limit: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").expect("groups");
        let own = |controller: &str| {
            let path = groups.lines().find_map(|line| {
                let (_, line) = line.split_once(':')?;
                let (controllers, path) = line.split_once(':')?;
                (controllers == controller).then_some(path)
            });
            path.unwrap_or("/").trim_start_matches('/').to_owned()
        };
        let name = format!("narrows-test-{}", std::process::id());
        let places = [
            (Path::new("/sys/fs/cgroup").join(own("")), "memory.max"),
            (
                Path::new("/sys/fs/cgroup/memory").join(own("memory")),
                "memory.limit_in_bytes",
            ),
        ];
        for (above, file) in places {
            let made = Self(above.join(&name));
            if fs::create_dir(&made.0).is_ok()
                && made.0.join(file).exists()
                && fs::write(made.0.join(file), limit.to_string()).is_ok()
            {
                return Some(made);
            }
        }
        eprintln!("skipped: {test}: no control group with a limit of memory can be made here");
        None
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        // Once the last process in it has ended.
        soon(|| fs::remove_dir(&self.0).is_ok() || !self.0.exists());
    }
}

#[test]
fn the_default_budget_follows_the_memory_of_the_control_group() {
    let test = "the_default_budget_follows_the_memory_of_the_control_group";
    let Some(group) = LimitedGroup::make(test, 256 << 20) else {
        return;
    };
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        let words = "echo $$ >\"$1/cgroup.procs\" && exec \"$0\" pep serve \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", words, NARROWS]);
        command.arg(&group.0).arg(file);
        command
    });
    assert_eq!(daemon.count("budget_bytes"), 64 << 20);
    assert_eq!(daemon.count("memory_bytes"), 128 << 20);
}

#[test]
fn a_destination_is_told_whose_connection_it_gets() {
    for (word, version) in [("v1", HeaderVersion::V1), ("v2", HeaderVersion::V2)] {
        let daemon = Daemon::start_by(LOOPBACK, "", |file| {
            add(file, &format!("send_proxy = \"{word}\"\n"));
            serve(file)
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let target = listener.local_addr().expect("bound");
        let mut near = daemon.ask(target);
        near.write_all(b"hello").expect("sent");
        let (mut far, _) = listener.accept().expect("it connects");
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        let client = near.local_addr().expect("bound");
        let expected = [header(version, client, target), b"hello".to_vec()].concat();
        let mut received = vec![0; expected.len()];
        far.read_exact(&mut received).expect("received");
        assert_eq!(received, expected, "{word}");
    }
}

#[test]
fn a_load_balancer_says_whose_connection_it_brings() {
    let daemon = Daemon::start_by(LOOPBACK, "[limits]\ntunnels_per_client = 1", |file| {
        add(file, "balancers = [\"127.0.0.9\"]\n");
        serve(file)
    });
    let target = echo();
    let bring = |client: &str| {
        let mut stream = daemon.connect_from(9);
        let client = client.parse().expect("an address");
        let mut bytes = header(HeaderVersion::V2, client, daemon.at);
        bytes.extend(request(Layout::Convert, target, None).expect("a request"));
        stream.write_all(&bytes).expect("sent");
        stream
    };
    let mut one = bring("127.0.5.1:700");
    assert_eq!(answer(&mut one), None);
    assert!(echoes(&mut one, b"for the client"));
    let clients = &daemon.status()["largest"][0]["client"];
    assert_eq!(clients, "127.0.5.1:700");
    assert!(is_reset(&mut bring("127.0.5.1:701")), "its limit");
    assert!(is_reset(&mut bring("192.0.2.1:701")), "it is not admitted");
    let mut other = bring("127.0.5.2:700");
    assert_eq!(answer(&mut other), None);
}

#[test]
fn connections_are_kept_alive_as_it_is_said() {
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        add(
            file,
            "near = { keepalive = \"25s\", user_timeout = \"20s\" }\nfar = { keepalive = \"50s\" }\n",
        );
        serve(file)
    });
    let to = echo();
    let mut tunnel = daemon.tunnel(to);
    assert!(echoes(&mut tunnel, b"and then silence"));
    let timers = || {
        let timers = Command::new("ss")
            .args(["-Htnoe", "state", "established"])
            .output();
        timers.map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    if timers().is_err() {
        eprintln!("skipped: connections_are_kept_alive_as_it_is_said: ss(8) does not run");
        return;
    }
    // The accepted connection by its own address, the one onward by its peer's.
    let left = |column: usize, address: SocketAddr| -> Option<f64> {
        let (timers, address) = (timers().ok()?, address.to_string());
        let line = timers
            .lines()
            .find(|l| l.split_whitespace().nth(column) == Some(&address))?;
        let rest = line.split("timer:(keepalive,").nth(1)?;
        let word = rest.split(',').next()?;
        word.strip_suffix("sec")?.parse().ok()
    };
    // Until the last segments are acknowledged, the timer is that of retransmissions.
    let is_kept = |column, address, from: f64, to: f64| {
        soon(|| left(column, address).is_some_and(|left| left > from && left <= to))
    };
    assert!(is_kept(2, daemon.at, 10.0, 25.0), "{:?}", timers());
    assert!(is_kept(3, to, 25.0, 50.0), "{:?}", timers());
}

#[test]
fn the_service_manager_hears_that_all_threads_are_at_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&address).expect("an address");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let daemon = Daemon::start_by(LOOPBACK, "", |file: &Path| {
        let mut command = serve(file);
        command.env("NOTIFY_SOCKET", &address);
        command.env("WATCHDOG_USEC", "200000");
        command
    });
    let mut words = [0; 64];
    let mut watched = 0;
    while watched < 5 {
        let len = manager.recv(&mut words).expect("it says something");
        watched += usize::from(&words[..len] == b"WATCHDOG=1");
    }
    drop(daemon);
}

/// The policy and the nice value of each thread of a daemon, by its name (proc_pid_stat(5)).
fn scheduling(daemon: &Daemon) -> Vec<(String, i32, i32)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.child.id())).expect("a process");
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).ok();
    let read = |stat: String| {
        let (head, tail) = stat.rsplit_once(')')?;
        let words: Vec<_> = tail.split_whitespace().collect();
        // Fields 41 and 19, of which the first here is the third.
        let (policy, nice) = (words[38].parse().ok()?, words[16].parse().ok()?);
        let (_, name) = head.split_once('(')?;
        Some((name.to_owned(), policy, nice))
    };
    tasks.flatten().filter_map(stat).filter_map(read).collect()
}

#[test]
fn threads_that_serve_no_tunnel_give_way_to_those_that_do() {
    let metrics = format!("metrics = \"127.0.0.1:{}\"", free_port());
    let daemon = Daemon::start(LOOPBACK, &metrics);
    assert!(echoes(&mut daemon.tunnel(echo()), b"all have begun"));
    assert_eq!(daemon.count("opened"), 1);
    const BATCH: i32 = 3;
    assert!(soon(|| {
        let all = scheduling(&daemon);
        let (way, others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, p, _)| *p == BATCH);
        let named = |name: &str| way.iter().any(|(n, ..)| n == name);
        let tunnels = others.iter().map(|(.., nice)| *nice).max().unwrap_or(0);
        // Those that answer with metrics have the program's name.
        way.len() == 3
            && named("log")
            && named("status")
            && others.len() == THREADS
            && way.iter().all(|(.., nice)| *nice == (tunnels + 10).min(19))
    }));
}
