//! `narrows pep serve` under a service manager: the units of `packaging/`, the socket that is
//! handed over, and what the manager receives.

use std::cell::OnceCell;
use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::NARROWS;
use crate::rig::{
    Daemon, LOOPBACK, PATIENCE, answer, comes_back, echo, echoes, listen_address, payload, serve,
    soon,
};
use narrows_services::pep::Config;
use nix::sys::signal::Signal;

/// A file of `packaging/`.
fn packaged(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    folder.join(name)
}

/// The value of `key`, which a unit has once.
fn setting(unit: &str, key: &str) -> String {
    let text = fs::read_to_string(packaged(unit)).expect("a unit");
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("{unit}: no {key}"));
    assert_eq!(values.next(), None, "{unit}: {key}");
    value.to_owned()
}

#[test]
fn the_units_are_what_systemd_takes() {
    let test = "the_units_are_what_systemd_takes";
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: {test}: there is no systemd-analyze");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The program must be there.
    let installed = "/usr/local/bin/narrows";
    for unit in ["narrows-pep.service", "narrows-pep.socket"] {
        let text = fs::read_to_string(packaged(unit)).expect("a unit");
        let is_service = unit.ends_with(".service");
        assert_eq!(text.contains(installed), is_service, "{unit}");
        let text = text.replace(installed, NARROWS);
        fs::write(folder.path().join(unit), text).expect("written");
    }
    let verify = |unit: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]);
        let said = command.arg(folder.path().join(unit)).output();
        let said = said.expect("it starts");
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        (said.status.success(), words)
    };
    // Other units of this machine may be wrong.
    let about = |words: &str| {
        let lines = words.lines().filter(|line| line.contains("narrows-pep"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for unit in ["narrows-pep.service", "narrows-pep.socket"] {
        let (taken, words) = verify(unit);
        assert!(taken, "{unit}: {words}");
        assert_eq!(about(&words), Vec::<String>::new(), "{unit}");
    }
    // That it can find something.
    let file = folder.path().join("narrows-pep.service");
    let text = fs::read_to_string(&file).expect("a unit");
    fs::write(&file, text.replace("Type=notify", "Type=notifies")).expect("written");
    let (_, words) = verify("narrows-pep.service");
    assert_eq!(about(&words).len(), 1, "{words}");
}

#[test]
fn the_units_agree_with_the_configuration_beside_them() {
    let config = Config::load(&packaged("pep.toml")).expect("a configuration");
    let port = setting("narrows-pep.socket", "ListenStream");
    let listeners: Vec<_> = config.listeners.iter().map(|l| l.listen).collect();
    assert_eq!(listeners, [port.parse().expect("an address")]);
    // The manager gives it its user.
    assert_eq!(config.user, None);
    let longest = setting("narrows-pep.service", "TimeoutStopSec");
    let longest: u64 = longest.parse().expect("seconds");
    assert!(config.drain < narrows_units::Duration::from_secs(longest));
    // Two descriptors for each tunnel, and those that are kept (64 and 128).
    let descriptors: usize = setting("narrows-pep.service", "LimitNOFILE")
        .parse()
        .expect("a number");
    assert!(descriptors >= 2 * config.limits.tunnels + 64 + 128);
    assert_eq!(setting("narrows-pep.service", "MemoryMax"), "50%");
}

/// The daemon of the configuration in `file`, handed `listener` as a service manager does
/// (sd_listen_fds(3)).
fn handed_over(listener: &TcpListener, file: &Path) -> Command {
    /// The socket is the standard input of this shell, whose process becomes the daemon.
    const MANAGER: &str = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; \
        exec \"$0\" pep serve \"$1\"";
    let socket = OwnedFd::from(listener.try_clone().expect("a descriptor"));
    let mut command = Command::new("sh");
    command.args(["-c", MANAGER, NARROWS]).arg(file);
    command.stdin(Stdio::from(socket));
    command
}

#[test]
fn a_socket_that_is_handed_over_is_served_and_outlasts_the_daemon() {
    let port = OnceCell::new();
    let by = |file: &Path| {
        let open = || TcpListener::bind(listen_address(file)).expect("a port");
        handed_over(port.get_or_init(open), file)
    };
    let mut daemon = Daemon::start_by(LOOPBACK, "drain = \"60s\"", by);
    let (target, sent) = (echo(), payload(8 << 20));
    assert!(comes_back(&daemon.tunnel(target), &sent));
    let last = daemon.tunnel(target);
    daemon.signal(Signal::SIGTERM);
    assert!(soon(|| daemon.status()["draining"] == true));
    // Whoever comes now is not refused, and has to wait.
    let mut early = daemon.ask(target);
    assert!(comes_back(&last, &sent), "it is served to its end");
    let status = daemon.ended();
    assert_eq!(status.code(), Some(0), "{status}");
    let again = by(&daemon.folder.path().join("pep.toml"))
        .stderr(Stdio::piped())
        .spawn();
    daemon.child = again.expect("it starts");
    daemon.wait_for("listening");
    assert_eq!(answer(&mut early), None);
    assert!(echoes(&mut early, b"served by the next"));
}

#[test]
fn a_socket_that_no_listener_has_is_refused_with_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pep.toml");
    let at = ([127, 0, 0, 1], crate::rig::free_port()).into();
    fs::write(&file, crate::rig::config(at, folder.path(), LOOPBACK, "")).expect("written");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let output = handed_over(&other, &file).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let address = other.local_addr().expect("bound").to_string();
    assert!(
        said.contains(&address) && said.contains("LISTEN_FDS"),
        "{said}"
    );
}

#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = folder.path().join("notify.sock");
    let manager = UnixDatagram::bind(&address).expect("an address");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let state = || {
        let mut words = [0; 64];
        let len = manager.recv(&mut words).expect("it says something");
        String::from_utf8_lossy(&words[..len]).into_owned()
    };
    let mut daemon = Daemon::start_by(LOOPBACK, "", |file| {
        let mut command = serve(file);
        command.env("NOTIFY_SOCKET", &address);
        command
    });
    assert_eq!(state(), "READY=1");
    assert!(echoes(&mut daemon.tunnel(echo()), b"ready"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(state(), "STOPPING=1");
    assert_eq!(daemon.ended().code(), Some(0));
}
