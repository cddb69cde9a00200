//! Congestion controls of the legs of `narrows pep serve`, the kernel's and Narrows' own.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::NARROWS;
use crate::rig::{Behind, Daemon, LOOPBACK, add, config, echo, echoes, free_port, serve, soon};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

/// What `ss` prints of the connections that `filter` takes; `None` without it.
fn listed(filter: &str) -> Option<String> {
    let output = Command::new("ss").args(["-Htni", filter]).output();
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}

#[test]
fn each_leg_has_a_congestion_control_of_its_own() {
    let test = "each_leg_has_a_congestion_control_of_its_own";
    // Those that every user may have.
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let allowed = allowed.expect("a list");
    let mut allowed = allowed.split_whitespace();
    let (Some(near), Some(far)) = (allowed.next(), allowed.next()) else {
        eprintln!("skipped: {test}: this kernel gives everybody one control alone");
        return;
    };
    let daemon = Daemon::start_by(LOOPBACK, "", |file| {
        add(
            file,
            &format!("near = {{ cc = \"{near}\" }}\nfar = {{ cc = \"{far}\" }}\n"),
        );
        serve(file)
    });
    let target = echo();
    let mut tunnel = daemon.tunnel(target);
    assert!(echoes(&mut tunnel, b"open"));
    let legs = [
        (format!("sport = :{}", daemon.at.port()), near),
        (format!("dport = :{}", target.port()), far),
    ];
    for (leg, control) in legs {
        let Some(said) = listed(&leg) else {
            eprintln!("skipped: {test}: there is no ss");
            return;
        };
        let mut words = said.split_whitespace();
        assert!(words.any(|word| word == control), "{leg}: {said}");
    }
}

/// What a daemon says, by `command`, that does not start with these keys of its listener.
fn refused(keys: &str, command: impl Fn(&Path) -> Command) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pep.toml");
    let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
    fs::write(&file, config(at, folder.path(), LOOPBACK, "")).expect("written");
    add(&file, keys);
    let output = command(&file).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(&at.to_string()), "{said}");
    said
}

#[test]
fn a_control_that_the_kernel_does_not_have_is_refused_at_the_start() {
    for leg in ["near", "far"] {
        let said = refused(&format!("{leg} = {{ cc = \"nosuch\" }}\n"), serve);
        let place = format!("{leg}: this kernel gives no congestion control `nosuch`");
        assert!(said.contains(&place), "{said}");
    }
}

#[test]
fn one_of_narrows_is_refused_with_what_it_needs() {
    let test = "one_of_narrows_is_refused_with_what_it_needs";
    let keys = "far = { cc = \"narrows:quickstart\", hint = \"70Mbit\" }\n";
    let without_rights = |file: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", NARROWS, "pep", "serve"]);
        command.arg(file);
        command
    };
    let said = if !geteuid().is_root() {
        refused(keys, serve)
    } else if Command::new("setpriv").arg("--version").output().is_ok() {
        refused(keys, without_rights)
    } else {
        eprintln!("skipped: {test}: there is no setpriv");
        return;
    };
    assert!(said.contains("far: the congestion control"), "{said}");
    assert!(said.contains("without `narrows:`"), "{said}");
    // A kernel that does not describe its types is refused before its rights are asked for;
    // so is a build without BPF.
    if said.contains("Permission denied") || said.contains("not permitted") {
        assert!(said.contains("CAP_BPF"), "{said}");
    }
}

/// The slow-start threshold of the connections to `target`, in segments, once it is set.
fn threshold(target: SocketAddr) -> Option<u64> {
    let said = listed(&format!("dport = :{}", target.port()))?;
    let mut words = said.split_whitespace();
    words.find_map(|word| word.strip_prefix("ssthresh:")?.parse().ok())
}

/// Reads all that comes, forever.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it comes");
        let mut waste = vec![0; 1 << 20];
        while stream.read(&mut waste).is_ok_and(|read| read > 0) {}
    });
    at
}

fn send_on(mut stream: TcpStream) {
    let sent = vec![0; 1 << 20];
    thread::spawn(move || while stream.write_all(&sent).is_ok() {});
}

#[test]
fn a_leg_is_given_the_rate_of_its_link_and_the_new_one_after_a_reload() {
    let test = "a_leg_is_given_the_rate_of_its_link_and_the_new_one_after_a_reload";
    let machine = narrows_bpf::survey();
    if !machine.struct_ops {
        eprintln!("skipped: {test}: {}", machine.lacks.join("; "));
        return;
    }
    let Some(path) = Behind::open(test, ["netem delay 20ms", "rate 200Mbit"]) else {
        return;
    };
    let target = sink();
    let at = SocketAddr::new(path.outside.parse().expect("an address"), target.port());
    let of = |hint: &str| format!("far = {{ cc = \"narrows:quickstart\", hint = \"{hint}\" }}\n");
    path.inside(|| {
        if listed("").is_none() {
            eprintln!("skipped: {test}: there is no ss");
            return;
        }
        // Connections are opened, given their rate and, after the reload, another one by a
        // process that has no rights any more.
        let destinations = format!("[\"{}\"]", at.ip());
        let daemon = Daemon::start_by(&destinations, "user = \"nobody\"", |file| {
            add(file, &of("2Mbit"));
            let readable = Permissions::from_mode(0o755);
            let folder = file.parent().expect("a folder");
            fs::set_permissions(folder, readable.clone()).expect("set");
            fs::set_permissions(file, readable).expect("set");
            serve(file)
        });
        send_on(daemon.tunnel(at));
        // They hold seven segments over 40 ms. Neither delay (RFC 9406: 16 at least) nor a
        // loss at 200 Mbit/s, which hold 670, brings the threshold so low.
        assert!(
            soon(|| threshold(at).is_some_and(|segments| segments < 12)),
            "{:?}",
            listed("")
        );
        let said = listed(&format!("dport = :{}", at.port())).unwrap_or_default();
        assert!(said.contains("_quickst "), "{said}");
        let file = daemon.folder.path().join("pep.toml");
        let text = fs::read_to_string(&file).expect("a configuration");
        fs::write(&file, text.replace("2Mbit", "100Mbit")).expect("written");
        daemon.signal(Signal::SIGHUP);
        assert!(
            soon(|| threshold(at).is_some_and(|segments| segments > 100)),
            "{:?}",
            listed("")
        );
    });
}
