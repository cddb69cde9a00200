//! `narrows pep run`: commands that know of no proxy, in a namespace that has no other way
//! out. Needs root, and a kernel that takes programs at control groups.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::NARROWS;
use crate::rig::{Daemon, soon};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

/// A client, and beside it a proxy with a server whose address only that knows.
struct Pair {
    names: [String; 2],
    server: Option<Child>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // It may have ended by itself.
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in &self.names {
            // One that was not made needs none.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// In the namespace `name`, as `ip netns exec` would hide control groups.
fn inside(name: &str, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{name}")).args(words);
    command.env_remove("SUDO_UID").stdin(Stdio::null());
    command
}

impl Pair {
    /// Answers each client once, at 10.0.2.2 and 10.0.1.1.
    fn make(test: &str) -> Option<Self> {
        const WORDS: &str = "
            for n in $0 $1; do ip netns add $n; ip -n $n link set lo up; done
            ip link add c0 netns $0 type veth peer name p0 netns $1
            ip -n $0 addr add 10.0.1.2/24 dev c0; ip -n $0 link set c0 up
            ip -n $1 addr add 10.0.1.1/24 dev p0; ip -n $1 link set p0 up
            ip -n $1 addr add 10.0.2.2/32 dev lo";
        const SERVER: &str = "use IO::Socket::INET; $| = 1; \
            my $l = IO::Socket::INET->new(Listen => 9, LocalAddr => '0.0.0.0', \
            LocalPort => 8080, ReuseAddr => 1) or die; print \"ready\\n\"; \
            while (my $c = $l->accept) { my $q = <$c>; \
            print $c 'to ' . $c->sockhost . ' from ' . $c->peerhost . \" $q\"; close $c; }";
        if !geteuid().is_root() {
            eprintln!("skipped: {test}: not root");
            return None;
        }
        let names = ["c", "p"].map(|n| format!("nwrun{n}{}{}", std::process::id(), test.len()));
        let mut pair = Self {
            names,
            server: None,
        };
        let [client, proxy] = &pair.names;
        let made = Command::new("sh")
            .args(["-ec", WORDS, client, proxy])
            .output()
            .ok()?;
        let tried = inside(
            client,
            &[NARROWS, "pep", "run", "--via", "10.0.1.1", "--", "true"],
        );
        let tried = { tried }.output();
        let able = tried.is_ok_and(|o| o.status.success());
        let mut server = inside(proxy, &["perl", "-e", SERVER]);
        let mut server = server.stdout(Stdio::piped()).spawn().ok()?;
        let mut said = BufReader::new(server.stdout.take()?);
        let ready = said.read_line(&mut String::new()).is_ok_and(|n| n > 0);
        pair.server = Some(server);
        if !made.status.success() || !able || !ready {
            eprintln!("skipped: {test}: no namespaces, no perl, or no BPF here");
            return None;
        }
        Some(pair)
    }

    fn proxy(&self) -> Daemon {
        Daemon::start_by("[\"10.0.2.2\", \"10.0.1.1\"]", "", |file| {
            let text = fs::read_to_string(file).expect("a configuration");
            let text = text.replace("127.0.0.1:", "10.0.1.1:");
            let text = text.replace("127.0.0.0/8", "10.0.1.0/24");
            fs::write(file, text).expect("written");
            let words = [NARROWS, "pep", "serve", file.to_str().expect("UTF-8")];
            inside(&self.names[1], &words)
        })
    }

    /// Runs perl in the client's namespace by the proxy at `via`.
    fn runs(&self, options: &[&str], via: &str, words: &str) -> Output {
        let mut all = vec![NARROWS, "pep", "run", "--via", via];
        all.extend(options);
        all.extend(["--", "perl", "-MIO::Socket::IP", "-e", words]);
        inside(&self.names[0], &all).output().expect("it starts")
    }
}

/// Asks the server at an address, and says where it thinks to be connected to.
fn asks(address: &str) -> String {
    format!(
        "my $s = IO::Socket::IP->new(PeerHost => '{address}', PeerPort => 8080) or die \"no: $@\"; \
         print 'at ' . $s->peerhost . ':' . $s->peerport . ' '; \
         print $s \"question\\n\"; print <$s>;"
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command's connections go by the proxy, whatever leads them.
fn goes_by_it(pair: &Pair, by: &str) {
    let proxy = pair.proxy();
    let via = format!("10.0.1.1:{}", proxy.at.port());
    // Without it there is no way there.
    let direct = inside(
        &pair.names[0],
        &["perl", "-MIO::Socket::IP", "-e", &asks("10.0.2.2")],
    )
    .output();
    assert!(!direct.expect("perl").status.success());
    let output = pair.runs(&["--only", "--by", by], &via, &asks("10.0.2.2"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        out, "at 10.0.2.2:8080 to 10.0.2.2 from 10.0.2.2 question\n",
        "{err}"
    );
    assert!(
        err.contains("1 connections were opened, 0 went without"),
        "{err}"
    );
    // A socket of IPv6 on its way to IPv4.
    let output = pair.runs(&["--only", "--by", by], &via, &asks("::ffff:10.0.2.2"));
    let out = text(&output.stdout);
    assert!(
        out.contains("to 10.0.2.2 from 10.0.2.2 question"),
        "{out} {}",
        text(&output.stderr)
    );
    let status = proxy.status();
    assert_eq!(
        (&status["opened"], &status["refused"]),
        (&2.into(), &0.into())
    );
}

#[test]
fn a_command_that_knows_of_no_proxy_goes_by_it() {
    if let Some(pair) = Pair::make("a_command_that_knows_of_no_proxy_goes_by_it") {
        goes_by_it(&pair, "kernel");
    }
}

#[test]
fn a_library_leads_connections_where_the_kernel_does_not() {
    let Some(pair) = Pair::make("a_library_leads_connections_where_the_kernel_does_not") else {
        return;
    };
    goes_by_it(&pair, "preload");
    let proxy = pair.proxy();
    let via = format!("10.0.1.1:{}", proxy.at.port());
    // A socket that does not wait, asked twice whether it is connected, with a port that it has
    // already, in a program that another one started.
    let words = "use IO::Select; my $s = IO::Socket::IP->new(Blocking => 0, LocalPort => 40404, \
         PeerHost => '10.0.2.2', PeerPort => 8080) or die; \
         IO::Select->new($s)->can_write(5); $s->connect; $s->blocking(1); \
         print 'at ' . $s->peerhost . ' from ' . $s->sockport . ' '; \
         print $s \"question\\n\"; print <$s>;";
    let started = format!("exec 'perl', '-MIO::Socket::IP', '-e', q({words})");
    let output = pair.runs(&["--only", "--by", "preload"], &via, &started);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        out.starts_with("at 10.0.2.2 from 40404 to 10.0.2.2"),
        "{out} {err}"
    );
}

#[test]
fn who_is_not_root_is_led_by_the_library_and_told_so() {
    let Some(pair) = Pair::make("who_is_not_root_is_led_by_the_library_and_told_so") else {
        return;
    };
    let proxy = pair.proxy();
    let via = format!("10.0.1.1:{}", proxy.at.port());
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let run = [NARROWS, "pep", "run", "--only", "--via", &via, "--"];
    let perl = ["perl", "-MIO::Socket::IP", "-e", &asks("10.0.2.2")];
    let words = [&["setpriv"][..], &nobody, &run, &perl].concat();
    // The binary may be in a folder that nobody else reads.
    let reads = [&["setpriv"][..], &nobody, &["test", "-x", NARROWS]].concat();
    if !inside(&pair.names[0], &reads)
        .status()
        .is_ok_and(|s| s.success())
    {
        eprintln!(
            "skipped: who_is_not_root_is_led_by_the_library_and_told_so: no setpriv, or others \
             may not read {NARROWS}"
        );
        return;
    }
    let output = inside(&pair.names[0], &words).output().expect("it starts");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.contains("to 10.0.2.2 from 10.0.2.2"), "{out} {err}");
    assert!(err.contains("led from within the command"), "{err}");
    let by_kernel = [
        &["setpriv"][..],
        &nobody,
        &run[..6],
        &["--by", "kernel"],
        &["--", "true"],
    ];
    let refused = inside(&pair.names[0], &by_kernel.concat()).output();
    assert_eq!(refused.expect("it starts").status.code(), Some(77));
}

#[test]
fn without_the_proxy_it_goes_directly_and_that_is_said() {
    let Some(pair) = Pair::make("without_the_proxy_it_goes_directly_and_that_is_said") else {
        return;
    };
    // Nothing listens there.
    let output = pair.runs(&[], "10.0.1.1:9", &asks("10.0.1.1"));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        out.contains("to 10.0.1.1 from 10.0.1.2 question"),
        "{out} {err}"
    );
    assert!(err.contains("1 went without 10.0.1.1:9"), "{err}");
    let output = pair.runs(&["--only"], "10.0.1.1:9", &asks("10.0.1.1"));
    assert!(!text(&output.stdout).contains("question"));
    // A proxy that refuses the destination.
    let proxy = pair.proxy();
    let via = format!("10.0.1.1:{}", proxy.at.port());
    let output = pair.runs(&[], &via, &asks("10.0.1.2"));
    assert!(
        text(&output.stderr).contains("1 went without"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(proxy.status()["refused"], 1);
}

#[test]
fn its_status_is_the_command_s_and_what_cannot_be_is_refused() {
    let run = |words: &[&str]| {
        let output = Command::new(NARROWS)
            .args(["pep", "run"])
            .args(words)
            .output();
        output.expect("it starts").status.code()
    };
    assert_eq!(run(&["--via", "nowhere", "--", "true"]), Some(2));
    assert_eq!(
        run(&["--via", "10.0.0.1", "--patience", "soon", "--", "true"]),
        Some(2)
    );
    assert_eq!(
        run(&["--via", "10.0.0.1", "--", "/no/such/command"]),
        Some(127)
    );
    let Some(pair) = Pair::make("its_status_is_the_command_s_and_what_cannot_be_is_refused") else {
        return;
    };
    assert_eq!(pair.runs(&[], "10.0.1.1", "exit 7").status.code(), Some(7));
}

#[test]
fn what_a_killed_run_leaves_is_cleaned_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |words: &[&str]| {
        let mut command = Command::new(NARROWS);
        let via = [
            "pep",
            "run",
            "--by",
            "preload",
            "--via",
            "127.0.0.1:9",
            "--",
        ];
        command.args(via).args(words).env("TMPDIR", folder.path());
        command
    };
    let left = || fs::read_dir(folder.path()).expect("a folder").count();
    let began = folder.path().join("began");
    let words = "touch \"$0\"; exec sleep 1000";
    let began_at = began.to_str().expect("UTF-8");
    let mut one = run(&["sh", "-c", words, began_at])
        .spawn()
        .expect("it starts");
    assert!(soon(|| began.exists()));
    let alive = left();
    // Beside one that lives nothing of it is taken.
    assert!(run(&["true"]).status().is_ok_and(|status| status.success()));
    assert_eq!(left(), alive);
    let children = format!("/proc/{0}/task/{0}/children", one.id());
    let child = fs::read_to_string(children).expect("a process");
    one.kill().expect("it is there");
    one.wait().expect("it ends");
    assert_eq!(left(), alive, "it could clean nothing");
    assert!(run(&["true"]).status().is_ok_and(|status| status.success()));
    assert_eq!(left(), 1, "the test's own file");
    // Its command goes on.
    let pid = Pid::from_raw(child.trim().parse().expect("a number"));
    kill(pid, Signal::SIGKILL).expect("it is there");
}

#[test]
fn a_control_group_that_a_killed_run_leaves_is_removed_by_the_next() {
    let test = "a_control_group_that_a_killed_run_leaves_is_removed_by_the_next";
    let Some(pair) = Pair::make(test) else {
        return;
    };
    let run = [
        NARROWS,
        "pep",
        "run",
        "--by",
        "kernel",
        "--via",
        "10.0.1.1:9",
    ];
    let command = |words: &[&str]| inside(&pair.names[0], &[&run[..], &["--"], words].concat());
    let group = |pid: &str| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a process");
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
        own.expect("a group").to_owned()
    };
    let words = "echo $$; exec sleep 1000";
    let mut one = command(&["sh", "-c", words]);
    let mut one = one.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut said = BufReader::new(one.stdout.take().expect("piped"));
    said.read_line(&mut line).expect("its number");
    let led = line.trim();
    let made = group(led);
    let run_id = made.rsplit('/').next().expect("a name").to_owned();
    assert!(run_id.starts_with("narrows-"), "{made}");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let root = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| place.to_owned())
    });
    let place = format!("{}{made}", root.expect("the second hierarchy"));
    let record = format!(
        "/run/narrows/{}",
        run_id.strip_prefix("narrows-").expect("its run")
    );
    let is_there = |path: &str| Path::new(path).exists();
    assert!(is_there(&place) && is_there(&record));
    one.kill().expect("it is there");
    one.wait().expect("it ends");
    // In another network: groups belong to none. The run of another test may also be the one
    // that removes it, and be about to.
    let elsewhere = [&run[..], &["--", "true"]].concat();
    let next = inside(&pair.names[1], &elsewhere).output();
    let next = next.expect("it starts");
    assert!(next.status.success(), "{}", text(&next.stderr));
    let gone = || !is_there(&place) && !is_there(&record);
    for _ in 0..100 {
        if gone() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(gone());
    // What it had started goes on.
    assert_ne!(group(led), made);
    let pid = Pid::from_raw(led.parse().expect("a number"));
    kill(pid, Signal::SIGKILL).expect("it is there");
}
