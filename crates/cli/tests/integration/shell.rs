//! `narrows shell` on this machine: what the command behind the path sees, how
//! it ends, and that nothing is left.
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Shells of one test at a time: what they leave on the machine is checked.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn narrows(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command
        .arg("shell")
        .args(arguments)
        .env_remove("SUDO_UID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    narrows(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The turn of `test`, if this machine can open a shell with a way out.
fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let tried = run(&["--link", "netem delay 1ms", "--", "true"]);
    let said = text(&tried.stderr);
    let first = said.lines().next().unwrap_or_default();
    if matches!(tried.status.code(), Some(77 | 125)) || said.contains("the outside is closed") {
        eprintln!("skipped: {test}: {first}");
        return None;
    }
    assert!(tried.status.success(), "{said}");
    Some(turn)
}

/// Whether there is the program `name`.
fn have(test: &str, name: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {test}: there is no {name}");
    }
    found
}

/// An address of this machine that is no loopback address: the one that it
/// would send from. Nothing is sent.
fn own_address(test: &str) -> Option<Ipv4Addr> {
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect("203.0.113.1:9")?;
        socket.local_addr()
    };
    match ask() {
        Ok(SocketAddr::V4(own)) => Some(*own.ip()),
        _ => {
            eprintln!("skipped: {test}: this machine has no way out of its own");
            None
        }
    }
}

/// Waits until a server listens at `port`, over either version of IP.
fn listens(port: &str) -> bool {
    let port: u16 = port.parse().expect("a port");
    // Columns 2 and 4: the local address, the state, of which 0A is LISTEN.
    let is = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.len() > 3 && words[1].ends_with(&format!(":{port:04X}")) && words[3] == "0A"
    };
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_secs(30) {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
        if tables.iter().flatten().any(|table| table.lines().any(is)) {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}

/// What a shell might leave on the machine: devices, switches of forwarding,
/// tables. Other tests' runs have state files of their own, so those are not
/// among it.
fn machine() -> Vec<String> {
    let names = |directory: &str| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let mut all = names("/sys/class/net");
    for family in ["ipv4", "ipv6"] {
        for device in names(&format!("/proc/sys/net/{family}/conf")) {
            for switch in ["forwarding", "force_forwarding"] {
                let file = format!("/proc/sys/net/{family}/conf/{device}/{switch}");
                if let Ok(value) = fs::read_to_string(&file) {
                    all.push(format!("{file} {value}"));
                }
            }
        }
    }
    if let Ok(tables) = Command::new("nft").args(["list", "tables"]).output() {
        all.push(text(&tables.stdout));
    }
    all
}

/// The times in milliseconds that ping printed.
fn pings(output: &str) -> Vec<f64> {
    let times = output.lines().filter_map(|line| {
        let (_, rest) = line.split_once("time=")?;
        rest.split_whitespace().next()?.parse().ok()
    });
    times.collect()
}

#[test]
fn both_directions_delay_what_goes_to_this_machine_and_back() {
    let test = "both_directions_delay_what_goes_to_this_machine_and_back";
    let Some(_turn) = turn(test) else { return };
    let before = machine();
    if !have(test, "ping") {
        return;
    }
    // 20 ms each way, and behind another shell 5 ms more each way.
    let path = [
        "--link",
        "netem delay 20ms",
        "--link",
        "rate 20Mbit queue dualpi2",
    ];
    let ping = ["--", "sh", "-c", "ping -n -c 5 -i 0.2 $NARROWS_OUTSIDE"];
    let one = run(&[&path[..], &ping[..]].concat());
    let binary = env!("CARGO_BIN_EXE_narrows");
    let inner = [
        "--",
        binary,
        "shell",
        "--link",
        "up netem delay 5ms",
        "--link",
        "down netem delay 7ms",
    ];
    let two = run(&[&path[..], &inner[..], &ping[..]].concat());
    let Some(own) = own_address(test) else { return };
    let far = format!("ping -n -c 5 -i 0.2 {own}");
    let far = run(&[&path[..], &inner[..], &["--", "sh", "-c", &far]].concat());
    // Nothing answers sooner than the path lets it. In the nested shell the
    // nearest outside is the outer shell's inside, 12 ms away.
    for (output, least) in [(&one, 40.0), (&two, 12.0), (&far, 52.0)] {
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        let times = pings(&said);
        assert_eq!(times.len(), 5, "{said}");
        assert!(times.iter().all(|ms| *ms >= least), "{said}");
        let summary = text(&output.stderr);
        assert!(summary.contains("up    5 packets"), "{summary}");
    }
    assert_eq!(machine(), before);
}

#[test]
fn a_server_on_this_machine_is_reached_and_the_rate_is_the_paths() {
    let test = "a_server_on_this_machine_is_reached_and_the_rate_is_the_paths";
    let Some(_turn) = turn(test) else { return };
    let Some(own) = own_address(test).filter(|_| have(test, "iperf3")) else {
        return;
    };
    let before = machine();
    // A port that is free now.
    let port = TcpListener::bind((own, 0)).and_then(|l| l.local_addr());
    let port = port.expect("a free port").port().to_string();
    let mut server = Command::new("iperf3")
        .args(["-s", "-1", "-p", &port])
        .stdout(Stdio::null())
        .spawn()
        .expect("iperf3 starts");
    assert!(listens(&port), "iperf3 does not listen at {port}");
    let client = [
        "iperf3",
        "-c",
        &own.to_string(),
        "-p",
        &port,
        "-t",
        "4",
        "-J",
    ];
    let path = [
        "--link",
        "netem delay 5ms",
        "--link",
        "rate 20Mbit queue dualpi2",
        "--",
    ];
    let output = run(&[&path[..], &client[..]].concat());
    let _ = server.kill();
    let _ = server.wait();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let received = json["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .expect("a rate");
    // 1448 bytes of payload in 1514 on the wire.
    let ideal = 20e6 * 1448.0 / 1514.0;
    assert!(received < ideal * 1.02, "{received}");
    // How much of it a busy machine reaches is not for a test.
    assert!(received > ideal * 0.1, "{received}");
    let summary = text(&output.stderr);
    assert!(
        summary.contains("link/access/up/bottleneck: used "),
        "{summary}"
    );
    assert_eq!(machine(), before);
}

/// Whether this process, and with it what it starts, ignores SIGHUP: bit 0 of
/// `SigIgn` (proc_pid_status(5)).
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
    mask.is_some_and(|m| m & 1 == 1)
}

#[test]
fn the_exit_status_is_the_commands() {
    let test = "the_exit_status_is_the_commands";
    let Some(_turn) = turn(test) else { return };
    let before = machine();
    let path = ["--link", "netem delay 1ms", "--"];
    for (command, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let ended = run(&[&path[..], &["sh", "-c", command]].concat());
        assert_eq!(ended.status.code(), Some(code), "{}", text(&ended.stderr));
    }
    // A signal to the program reaches the command, which says how that ended.
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        if signal == "HUP" && hangups_are_ignored() {
            eprintln!("skipped: {test}: SIGHUP, which nohup(1) has its programs ignore");
            continue;
        }
        let mut shell = narrows(&[&path[..], &["sh", "-c", "echo here; exec sleep 60"]].concat())
            .spawn()
            .expect("the program starts");
        let mut out = shell.stdout.take().expect("a pipe");
        let mut line = [0; 5];
        std::io::Read::read_exact(&mut out, &mut line).expect("the command runs");
        let pid = shell.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status();
        assert!(sent.expect("sh starts").success());
        let ended = shell.wait().expect("it ends");
        assert_eq!(ended.code(), Some(code), "{signal}");
    }
    assert_eq!(machine(), before);
}

#[test]
fn what_is_wrong_is_refused_before_anything_is_made() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = machine();
    for (arguments, code, word) in [
        (&["--link", "netem dely 1ms", "--", "true"][..], 2, "dely"),
        (&["--up", "rate 1Mbits", "--", "true"], 2, "--link:1:9"),
        (&["--", "true"], 2, "--link"),
        (
            &["--link", "netem delay 1ms", "--subnet", "10.0.0.1/8"],
            2,
            "--subnet",
        ),
        (
            &["--link", "netem delay 1ms", "--", "no-such-command"],
            127,
            "no-such-command",
        ),
        (
            &["--link", "netem delay 1ms", "--", "/etc/passwd"],
            126,
            "/etc/passwd",
        ),
    ] {
        let refused = run(arguments);
        let said = text(&refused.stderr);
        // Without a user namespace nothing else is checked.
        if refused.status.code() == Some(77) && said.contains("user namespace") {
            eprintln!("skipped: a refused command: {}", said.trim());
            continue;
        }
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(
            said.contains(word) && said.trim().lines().count() == 1,
            "{said}"
        );
    }
    assert_eq!(machine(), before);
}

#[test]
fn two_shells_at_once_do_not_meet_and_the_last_one_cleans_up() {
    let test = "two_shells_at_once_do_not_meet_and_the_last_one_cleans_up";
    let Some(_turn) = turn(test) else { return };
    let before = machine();
    let path = ["--link", "netem delay 1ms", "--", "sh", "-c"];
    let start = |seconds: &str| {
        let command = format!("cat /proc/net/fib_trie; sleep {seconds}");
        narrows(&[&path[..], &[&command]].concat())
            .spawn()
            .expect("the program starts")
    };
    let (first, second) = (start("0.5"), start("1"));
    let first = first.wait_with_output().expect("it ends");
    let second = second.wait_with_output().expect("it ends");
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(second.status.success(), "{}", text(&second.stderr));
    assert_ne!(first.stdout, second.stdout, "addresses of their own");
    assert_eq!(machine(), before);
}

#[test]
fn what_a_killed_shell_leaves_is_cleaned() {
    let test = "what_a_killed_shell_leaves_is_cleaned";
    let Some(_turn) = turn(test) else { return };
    let before = machine();
    let path = ["--link", "netem delay 1ms", "--"];
    let mut shell =
        narrows(&[&path[..], &["sh", "-c", "echo $NARROWS_RUN; exec sleep 60"]].concat())
            .spawn()
            .expect("the program starts");
    let mut out = shell.stdout.take().expect("a pipe");
    let mut line = [0; 8];
    std::io::Read::read_exact(&mut out, &mut line).expect("the command runs");
    assert_ne!(machine(), before, "the shell is seen");
    let state = format!("/run/narrows/{}", text(&line).trim());
    assert!(fs::exists(&state).is_ok_and(|there| there), "{state}");
    let _cleaning = crate::machine_rig::cleaning();
    shell.kill().expect("it can be killed");
    shell.wait().expect("it ends");
    // The command dies with it, and its namespace with the command.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut out, &mut rest).expect("the pipe ends");
    let cleaned = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["doctor", "--clean"])
        .output()
        .expect("the program starts");
    assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));
    // The kernel takes devices and tables away after the process, not with it.
    let started = Instant::now();
    while machine() != before && started.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(machine(), before);
    assert!(fs::exists(&state).is_ok_and(|there| !there), "{state}");
}
