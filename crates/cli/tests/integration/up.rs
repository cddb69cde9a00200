//! `narrows up`, `enter`, `status` and `down` on this machine: what programs in the hosts see,
//! and that nothing is left, however a topology ends.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use narrows_linux::machine::{Need, Undo};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::machine_rig::{bearers, cleaning, has, soon, text};

/// Where root's topologies have their folders.
pub const FOLDER: &str = "/run/narrows";

fn narrows(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command
        .args(words)
        .env_remove("SUDO_UID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn run(words: &[&str]) -> Output {
    narrows(words).output().expect("the program starts")
}

/// What a command that succeeds prints.
pub fn printed(words: &[&str]) -> String {
    let output = run(words);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// A scenario of two hosts, 30 ms apart in each direction, behind a queue.
pub const PAIR: &str = r#"
version  = 1
name     = "pair"
duration = "1s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 30ms", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["netem delay 30ms"]

[[flow]]
name = "unused"
from = "client"
to   = "server"
cc   = "prague"
"#;

/// A scenario of so many hosts around a router.
fn star(hosts: usize) -> String {
    let mut text =
        "version = 1\nname = \"star\"\nduration = \"1s\"\n\n[[router]]\nname = \"hub\"\n"
            .to_owned();
    for i in 0..hosts {
        text.push_str(&format!(
            "\n[[link]]\nname = \"l{i}\"\nends = [\"h{i}\", \"hub\"]\nup = [\"netem delay 1ms\"]\ndown = [\"netem delay 1ms\"]\n"
        ));
    }
    text.push_str("\n[[flow]]\nname = \"f\"\nfrom = \"h0\"\nto = \"h1\"\ncc = \"cubic\"\n");
    text
}

/// A topology's name that no other test and no user has, and its scenario's file. What is left
/// of it goes when it is dropped.
pub struct Lab {
    pub name: String,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Lab {
    /// `None`, and why, where `test` cannot run.
    pub fn of(test: &str, short: &str, scenario: &str) -> Option<Self> {
        // As another user its topologies would be elsewhere.
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: {test}: it looks for what root's topologies leave");
            return None;
        }
        if !has(test, &[Need::Live]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lab.toml");
        fs::write(&file, scenario).expect("a file");
        Some(Self {
            name: format!("t{}{short}", std::process::id()),
            file,
            _folder: folder,
        })
    }

    pub fn up(&self) -> Output {
        self.up_command().output().expect("the program starts")
    }

    fn up_command(&self) -> Command {
        narrows(&[
            "up",
            "--name",
            &self.name,
            self.file.to_str().expect("UTF-8"),
        ])
    }

    pub fn host(&self, host: &str) -> String {
        format!("{}-{host}", self.name)
    }

    pub fn status(&self) -> Value {
        let said = printed(&["status", &self.name, "--format", "json"]);
        let all: Value = serde_json::from_str(&said).expect("JSON");
        all[0].clone()
    }

    pub fn holder(&self) -> Pid {
        let pid = self.status()["holder"]["pid"].as_i64().expect("a number");
        Pid::from_raw(i32::try_from(pid).expect("a process"))
    }

    pub fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.topology", self.name))
    }

    /// What of it is on the machine: its folder and the names of its hosts.
    pub fn left(&self) -> Vec<String> {
        let mut all = Vec::new();
        for place in [FOLDER, "/run/netns"] {
            let names = fs::read_dir(place).into_iter().flatten().flatten();
            let names = names.map(|e| e.file_name().to_string_lossy().into_owned());
            all.extend(names.filter(|n| n.starts_with(&self.name)));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = |line: &&str| line.contains(&format!("/{}-", self.name));
        all.extend(mounts.lines().filter(ours).map(str::to_owned));
        all
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.folder().exists() {
            run(&["down", &self.name]);
        }
    }
}

/// How a connection to `to` ends, and how long that takes: a round trip, though it be refused.
fn connection(to: &str) -> (Option<ErrorKind>, Duration) {
    let mut addresses = to.to_socket_addrs().expect("the name is known");
    let to = addresses.find(|a| a.is_ipv4()).expect("an address");
    let began = Instant::now();
    let reached = TcpStream::connect_timeout(&to, Duration::from_secs(30));
    (reached.err().map(|e| e.kind()), began.elapsed())
}

/// Here; in a host, where another test runs it, to where `NARROWS_TEST_TO` says.
#[test]
fn a_port_that_nobody_listens_at_refuses() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("it has one").to_string()
    };
    let (how, time) = connection(&std::env::var("NARROWS_TEST_TO").unwrap_or(closed));
    println!("{how:?} after {} µs", time.as_micros());
    assert_eq!(how, Some(ErrorKind::ConnectionRefused));
}

/// What [`a_port_that_nobody_listens_at_refuses`] prints in a host: how it ended, and
/// microseconds.
pub fn connected(host: &str, to: &str) -> (String, u64) {
    let own = std::env::current_exe().expect("this program");
    let mut command = narrows(&["enter", host, "--"]);
    command.arg(own).args([
        "--exact",
        "up::a_port_that_nobody_listens_at_refuses",
        "--nocapture",
    ]);
    let output = command
        .env("NARROWS_TEST_TO", to)
        .output()
        .expect("it starts");
    let said = text(&output.stdout);
    let line = said.lines().find_map(|line| line.split_once(" after "));
    let (how, time) = line.unwrap_or_else(|| panic!("{said}{}", text(&output.stderr)));
    let how = how.rsplit(' ').next().unwrap_or(how).to_owned();
    let time = time.trim_end_matches(" µs").parse();
    (how, time.expect("a number"))
}

#[test]
fn hosts_reach_each_other_by_name_through_the_delay_of_the_file() {
    let test = "hosts_reach_each_other_by_name_through_the_delay_of_the_file";
    let Some(lab) = Lab::of(test, "delay", PAIR) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(&lab.host("client")));
    let printed_of_up = format!("{}{}", text(&output.stdout), text(&output.stderr));
    if let Some(why) = printed_of_up.lines().find(|l| l.contains("as in a chroot")) {
        println!("skipped: {test}: {why}");
        return;
    }
    // Both by the name in the file and by the full one. Nobody listens there.
    for to in ["server:9".to_owned(), format!("{}:9", lab.host("server"))] {
        let (how, us) = connected(&lab.host("client"), &to);
        assert_eq!(how, "Some(ConnectionRefused)");
        assert!(us >= 60_000, "30 ms each way, and it took {us} µs");
    }
    let status = lab.status();
    assert_eq!(status["condition"], "up");
    let link = &status["figures"]["links"][0];
    for way in ["up", "down"] {
        for at in ["sent", "arrived"] {
            let packets = link[way][at]["packets"].as_u64().expect("a number");
            assert!(packets >= 2, "{way} {at}: {link}");
        }
    }
    let bottleneck = &link["up"]["elements"][1];
    assert_eq!(bottleneck["name"], "link/access/up/bottleneck");
    assert!(bottleneck["packets"].as_u64() >= Some(2), "{link}");
    let said = printed(&["status", &lab.name]);
    assert!(
        said.contains("bottleneck: rate 20Mbit queue fq_codel  ["),
        "{said}"
    );
    assert_eq!(
        printed(&["down", &lab.name]),
        format!("{} is down\n", lab.name)
    );
    assert_eq!(lab.left(), Vec::<String>::new());
}

#[test]
fn a_command_in_a_host_keeps_its_folder_its_status_and_its_words() {
    let test = "a_command_in_a_host_keeps_its_folder_its_status_and_its_words";
    let Some(lab) = Lab::of(test, "words", PAIR) else {
        return;
    };
    assert!(lab.up().status.success());
    let client = lab.host("client");
    let at = tempfile::tempdir().expect("a folder");
    let shell = |script: &str| {
        let mut command = narrows(&["enter", &client, "--", "sh", "-c", script, "x", "a b"]);
        command.current_dir(at.path()).output().expect("it starts")
    };
    let output = shell("pwd; echo \"$1 $NARROWS_HOST\"; exit 7");
    assert_eq!(output.status.code(), Some(7));
    let expected = format!("{}\na b {client}\n", at.path().display());
    assert_eq!(text(&output.stdout), expected);
    assert_eq!(shell("kill -9 $$").status.code(), Some(128 + 9));
    for (words, code) in [
        (&["enter", &client, "--", "/no/such"][..], 127),
        (&["enter", &client, "--", "/etc/passwd"], 126),
        (&["enter", "nohost"], 2),
        (&["down", "nothing-of-that-name"], 2),
        (&["status", "../../etc"], 2),
    ] {
        let output = run(words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?} {}",
            text(&output.stderr)
        );
    }
    // The name in the file does for one topology alone.
    let Some(other) = Lab::of(test, "words2", PAIR) else {
        return;
    };
    assert!(other.up().status.success());
    let output = run(&["enter", "server", "--", "true"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&other.host("server")), "{said}");
}

#[test]
fn down_ends_programs_that_ignore_being_asked() {
    let test = "down_ends_programs_that_ignore_being_asked";
    let Some(lab) = Lab::of(test, "deaf", PAIR) else {
        return;
    };
    assert!(lab.up().status.success());
    let mark = format!("NARROWS_TEST_MARK={}", lab.name);
    let script = "trap '' TERM HUP; (while :; do sleep 1; done) & while :; do sleep 1; done";
    let mut deaf = narrows(&["enter", &lab.host("server"), "--", "sh", "-c", script]);
    let (name, value) = mark.split_once('=').expect("a pair");
    let mut deaf = deaf.env(name, value).spawn().expect("it starts");
    assert!(soon(|| bearers(&mark).len() >= 3), "it runs");
    let pids = lab.status()["figures"]["hosts"][1]["pids"].clone();
    assert!(pids.as_array().is_some_and(|p| p.len() >= 2), "{pids}");
    printed(&["down", &lab.name]);
    assert!(!deaf.wait().expect("it ended").success());
    assert!(soon(|| bearers(&mark).is_empty()), "{:?}", bearers(&mark));
    assert_eq!(lab.left(), Vec::<String>::new());
}

#[test]
fn nothing_is_left_of_a_killed_topology_after_a_cleaning() {
    let test = "nothing_is_left_of_a_killed_topology_after_a_cleaning";
    let Some(lab) = Lab::of(test, "killed", PAIR) else {
        return;
    };
    let rounds = std::env::var("NARROWS_UP_ROUNDS").ok();
    let rounds = rounds.map_or(3, |n| n.parse().expect("a number"));
    for round in 0..rounds {
        let output = lab.up();
        assert!(
            output.status.success(),
            "round {round}: {}",
            text(&output.stderr)
        );
        let run_id = lab.status()["topology"]["run"].clone();
        let entry = format!("NARROWS_RUN={}", run_id.as_str().expect("an id"));
        let background = "sleep 1000 </dev/null >/dev/null 2>&1 &";
        printed(&["enter", &lab.host("client"), "--", "sh", "-c", background]);
        let mut inside = narrows(&["enter", &lab.host("server"), "--", "sleep", "1000"]);
        let mut inside = inside.spawn().expect("it starts");
        assert!(soon(|| bearers(&entry).len() >= 2), "{:?}", bearers(&entry));
        let _cleaning = cleaning();
        kill(lab.holder(), Signal::SIGKILL).expect("it is ours");
        // Every other time it is cleaned up after while it is still ending.
        if round % 2 == 0 {
            assert!(soon(|| lab.status()["condition"] == "killed"));
            let refused = run(&["enter", &lab.host("client"), "--", "true"]);
            assert_eq!(
                refused.status.code(),
                Some(125),
                "{}",
                text(&refused.stderr)
            );
            let said = text(&refused.stderr);
            assert!(
                said.contains(&format!("narrows down {}", lab.name)),
                "{said}"
            );
        }
        let cleaned = run(&["doctor", "--clean"]);
        assert!(cleaned.status.success(), "{}", text(&cleaned.stderr));
        // Who was in a host is let go.
        assert!(!inside.wait().expect("it ended").success());
        assert_eq!(lab.left(), Vec::<String>::new(), "round {round}");
        assert!(soon(|| bearers(&entry).is_empty()), "{:?}", bearers(&entry));
    }
}

#[test]
fn a_killed_topology_is_made_way_by_down_and_by_the_next_up() {
    let test = "a_killed_topology_is_made_way_by_down_and_by_the_next_up";
    let Some(lab) = Lab::of(test, "again", PAIR) else {
        return;
    };
    for _ in 0..2 {
        assert!(lab.up().status.success());
        kill(lab.holder(), Signal::SIGKILL).expect("it is ours");
        assert!(soon(|| lab.status()["condition"] == "killed"));
        let output = lab.up();
        assert!(output.status.success(), "{}", text(&output.stderr));
        kill(lab.holder(), Signal::SIGKILL).expect("it is ours");
        assert!(soon(|| lab.status()["condition"] == "killed"));
        printed(&["down", &lab.name]);
        assert_eq!(lab.left(), Vec::<String>::new());
    }
}

#[test]
fn of_topologies_of_one_name_one_is_up_and_the_others_are_refused() {
    let test = "of_topologies_of_one_name_one_is_up_and_the_others_are_refused";
    let Some(lab) = Lab::of(test, "twice", PAIR) else {
        return;
    };
    let start = |_| lab.up_command().spawn().expect("the program starts");
    let all: Vec<Child> = (0..4).map(start).collect();
    let ended = |child: Child| child.wait_with_output().expect("it ends");
    let outputs: Vec<Output> = all.into_iter().map(ended).collect();
    let up = outputs.iter().filter(|o| o.status.success()).count();
    let refused: Vec<_> = outputs
        .iter()
        .filter(|o| o.status.code() == Some(2))
        .collect();
    assert_eq!((up, refused.len()), (1, 3), "{outputs:?}");
    for output in refused {
        let said = text(&output.stderr);
        let words = ["is up already", "narrows down", "--name"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    // Those that were refused took nothing of it away.
    printed(&["enter", &lab.host("client"), "--", "true"]);
    assert_eq!(lab.status()["condition"], "up");
}

#[test]
fn a_topology_that_is_being_built_is_taken_down() {
    let test = "a_topology_that_is_being_built_is_taken_down";
    let Some(lab) = Lab::of(test, "early", &star(24)) else {
        return;
    };
    let mut up = lab.up_command().spawn().expect("the program starts");
    let begun = soon(|| lab.folder().exists() || up.try_wait().expect("it is ours").is_some());
    assert!(begun, "it begins");
    printed(&["down", &lab.name]);
    let code = up.wait().expect("it ended").code();
    // Up for a moment, or ended on its way there.
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    assert_eq!(lab.left(), Vec::<String>::new());
}

#[test]
fn a_signal_while_it_is_built_ends_it_with_the_status_of_an_interruption() {
    let test = "a_signal_while_it_is_built_ends_it_with_the_status_of_an_interruption";
    let Some(lab) = Lab::of(test, "signal", &star(24)) else {
        return;
    };
    let mut up = lab.up_command().spawn().expect("the program starts");
    let begun = soon(|| lab.folder().exists() || up.try_wait().expect("it is ours").is_some());
    assert!(begun, "it begins");
    let pid = Pid::from_raw(i32::try_from(up.id()).expect("a process"));
    // One that is up already has gone.
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    let code = up.wait().expect("it ended").code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
    if code == Some(130) {
        assert_eq!(lab.left(), Vec::<String>::new());
    }
}

#[test]
fn what_holds_a_topology_has_neither_files_nor_the_folder_of_who_started_it() {
    let test = "what_holds_a_topology_has_neither_files_nor_the_folder_of_who_started_it";
    let Some(lab) = Lab::of(test, "files", PAIR) else {
        return;
    };
    let folder = lab.file.parent().expect("a folder");
    let up = lab.up_command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 7<lab.toml && exec \"$@\"", "sh"]);
    shell.arg(up.get_program()).args(up.get_args());
    let output = shell.current_dir(folder).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let of_holder = Path::new("/proc").join(lab.holder().to_string());
    let folder_of = fs::read_link(of_holder.join("cwd")).expect("it runs");
    assert_eq!(folder_of, Path::new("/"));
    let open = fs::read_dir(of_holder.join("fd"))
        .expect("it runs")
        .flatten();
    let open = open.filter_map(|file| fs::read_link(file.path()).ok());
    let kept: Vec<_> = open.filter(|file| file.starts_with(folder)).collect();
    assert_eq!(kept, Vec::<PathBuf>::new());
}

#[test]
fn hosts_of_two_topologies_do_not_have_one_name() {
    let test = "hosts_of_two_topologies_do_not_have_one_name";
    let scenario = PAIR.replace("client", "x-client");
    let Some(lab) = Lab::of(test, "same", &scenario) else {
        return;
    };
    assert!(lab.up().status.success());
    let other = lab.file.with_file_name("other.toml");
    fs::write(&other, PAIR).expect("a file");
    let name = format!("{}-x", lab.name);
    let refused = run(&["up", "--name", &name, other.to_str().expect("UTF-8")]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{name}-client")), "{said}");
}

#[test]
fn a_process_with_the_number_of_one_that_has_gone_is_not_joined() {
    let test = "a_process_with_the_number_of_one_that_has_gone_is_not_joined";
    let Some(lab) = Lab::of(test, "number", PAIR) else {
        return;
    };
    assert!(lab.up().status.success());
    let file = lab.folder().join("holder.json");
    let true_one = fs::read_to_string(&file).expect("it is there");
    let mut other: Value = serde_json::from_str(&true_one).expect("JSON");
    // This process runs, and did not start then.
    other["pid"] = std::process::id().into();
    fs::write(&file, other.to_string()).expect("root may");
    let output = run(&["enter", &lab.host("client"), "--", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    fs::write(&file, true_one).expect("root may");
    printed(&["enter", &lab.host("client"), "--", "true"]);
}

#[test]
fn names_that_lead_elsewhere_are_refused_and_files_are_checked_first() {
    let test = "names_that_lead_elsewhere_are_refused_and_files_are_checked_first";
    let Some(lab) = Lab::of(test, "refused", PAIR) else {
        return;
    };
    let file = lab.file.to_str().expect("UTF-8");
    for name in ["../x", "a/b", "", ".", "..", "a b", "-x", "/tmp/x"] {
        let output = run(&["up", file, &format!("--name={name}")]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{name}: {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains("--name"),
            "{}",
            text(&output.stderr)
        );
    }
    let output = run(&["up", file, "--set", "link/access/up/bottleneck=rate 0Mbit"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let output = run(&["up", "no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn the_names_of_topologies_and_hosts_are_completed() {
    let test = "the_names_of_topologies_and_hosts_are_completed";
    let Some(lab) = Lab::of(test, "completed", PAIR) else {
        return;
    };
    assert!(lab.up().status.success());
    let offered = |words: &[&str]| {
        let mut command = narrows(&["--", "narrows"]);
        command.args(words);
        command
            .env("NARROWS_COMPLETE", "bash")
            .env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        text(&command.output().expect("it starts").stdout)
    };
    let typed = &lab.name[..lab.name.len() - 1];
    for command in ["down", "status"] {
        let said = offered(&[command, typed]);
        assert!(
            said.lines().any(|l| l.trim() == lab.name),
            "{command}: {said}"
        );
    }
    let said = offered(&["enter", typed]);
    assert!(
        said.lines().any(|l| l.trim() == lab.host("client")),
        "{said}"
    );
}

#[test]
fn root_finds_the_hosts_of_a_topology_by_ip_netns() {
    let test = "root_finds_the_hosts_of_a_topology_by_ip_netns";
    let Some(lab) = Lab::of(test, "netns", PAIR) else {
        return;
    };
    let output = lab.up();
    assert!(output.status.success());
    let said = text(&output.stderr);
    if said.contains("`ip netns` does not show") {
        eprintln!("skipped: {test}: {said}");
        return;
    }
    let named = fs::metadata(Path::new("/run/netns").join(lab.host("client")));
    let inode = std::os::unix::fs::MetadataExt::ino(&named.expect("a name"));
    assert_eq!(lab.status()["topology"]["hosts"][0]["inode"], inode);
}

#[test]
fn the_folder_of_a_topology_goes_with_its_files_and_what_links_lead_to_stays() {
    let at = tempfile::tempdir().expect("a folder");
    let (folder, other) = (at.path().join("x.topology"), at.path().join("other"));
    for folder in [&folder, &other] {
        fs::create_dir(folder).expect("a folder");
    }
    for file in [folder.join("run"), other.join("kept")] {
        fs::write(file, "").expect("a file");
    }
    std::os::unix::fs::symlink(&other, folder.join("link")).expect("a link");
    let undo = Undo::Folder(folder.clone());
    assert!(undo.apply().expect("it can").is_some());
    assert_eq!(undo.apply(), Ok(None));
    assert!(!folder.exists() && other.join("kept").exists());
}
