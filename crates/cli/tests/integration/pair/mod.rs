//! Two network namespaces that are joined, and processes in them. Needs root.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a step may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A process that is killed when the test is over.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let signal: Signal = format!("SIG{name}").parse().expect("a signal's name");
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it lives");
    }

    /// Waits for its end; its status and what it wrote to standard output.
    pub fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.0.try_wait().expect("a child").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
        let status = self.0.wait().expect("a child");
        let mut text = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut text).expect("text");
        }
        (status.code(), text)
    }

    /// Waits for a line with `words` on standard error.
    pub fn says(&mut self, words: &str) {
        let mut lines = BufReader::new(self.0.stderr.take().expect("a pipe"));
        let (mut line, mut all) = (String::new(), String::new());
        while lines.read_line(&mut line).expect("text") > 0 {
            if line.contains(words) {
                // What it says later is not to block it.
                thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return;
            }
            all.push_str(&std::mem::take(&mut line));
        }
        panic!("it ended without saying `{words}`: {all}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two network namespaces, 10.N.0.1 and .2 (fdN::1 and ::2), joined by the devices v0 and v1,
/// and a folder.
pub struct Pair {
    near: Running,
    far: Running,
    net: u8,
    work: tempfile::TempDir,
}

impl Pair {
    /// The pair with `net` as N. `None`, with the reason, where this machine has not got `tools`,
    /// or what else `lacks` names.
    pub fn new(test: &str, net: u8, tools: &[&str], lacks: Option<&str>) -> Option<Self> {
        let root = fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
        let all = ["unshare", "nsenter", "ip", "perl"].iter().chain(tools);
        let lack = all.into_iter().find(|tool| {
            let mut there = Command::new("sh");
            there.args(["-c", &format!("command -v {tool}")]);
            !there.output().is_ok_and(|o| o.status.success())
        });
        let why = match (root, lack, lacks) {
            (false, ..) => Some("it needs root".to_owned()),
            (_, Some(tool), _) => Some(format!("there is no {tool} here")),
            (.., why) => why.map(str::to_owned),
        };
        if let Some(why) = why {
            eprintln!("skipped: {test}: {why}");
            return None;
        }
        let holder = || Running::start(Command::new("unshare").args(["--net", "sleep", "1000"]));
        let pair = Self {
            near: holder(),
            far: holder(),
            net,
            work: tempfile::tempdir().expect("a folder"),
        };
        // The holder may not be in its own namespace yet.
        thread::sleep(Duration::from_millis(200));
        pair.join();
        Some(pair)
    }

    /// Makes the two devices, also anew after they were deleted.
    pub fn join(&self) {
        let (net, far) = (self.net, self.far.0.id());
        self.ip(
            true,
            &format!("link add v0 type veth peer name v1 netns {far}"),
        );
        for (near, device, host) in [(true, "v0", 1), (false, "v1", 2)] {
            self.ip(near, &format!("addr add 10.{net}.0.{host}/24 dev {device}"));
            self.ip(
                near,
                &format!("addr add fd{net}::{host}/64 dev {device} nodad"),
            );
            self.ip(near, "link set lo up");
            self.ip(near, &format!("link set {device} up"));
        }
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    /// A command inside.
    pub fn inside(&self, near: bool, program: &str) -> Command {
        let holder = if near { &self.near } else { &self.far };
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", holder.0.id()))
            .arg(program)
            .current_dir(self.work.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, near: bool, line: &str) -> Output {
        let mut words = line.split(' ');
        let mut command = self.inside(near, words.next().expect("a program"));
        command.args(words).output().expect("it starts")
    }

    pub fn ip(&self, near: bool, words: &str) -> String {
        let ran = self.run(near, &format!("ip {words}"));
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "ip {words}: {said}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

/// A third namespace, which forwards between the two of a pair: 10.N.1.1 near, with .2 at its
/// device r0, and 10.N.2.2 far, with .1 at its device r1.
pub struct Router(Running);

impl Router {
    pub fn between(pair: &Pair, net: u8) -> Self {
        let router = Running::start(Command::new("unshare").args(["--net", "sleep", "1000"]));
        // As with the pair.
        thread::sleep(Duration::from_millis(200));
        let router = Self(router);
        let pid = router.0.0.id();
        for (near, device, peer, own, other, there) in [
            (true, "w0", "r0", "1.1", "1.2", "2.0"),
            (false, "w1", "r1", "2.2", "2.1", "1.0"),
        ] {
            pair.ip(
                near,
                &format!("link add {device} type veth peer name {peer} netns {pid}"),
            );
            pair.ip(near, &format!("addr add 10.{net}.{own}/24 dev {device}"));
            pair.ip(near, &format!("link set {device} up"));
            let line =
                format!("ip addr add 10.{net}.{other}/24 dev {peer} && ip link set {peer} up");
            let ran = router.inside("sh").args(["-c", &line]).status();
            assert!(ran.expect("it starts").success(), "{line}");
            let route = format!("route add 10.{net}.{there}/24 via 10.{net}.{other}");
            pair.ip(near, &route);
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let ran = router.inside("sh").args(["-c", forward]).status();
        assert!(ran.expect("it starts").success());
        router
    }

    /// A command inside.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.0.0.id()))
            .arg(program)
            .stdin(Stdio::null());
        command
    }
}
