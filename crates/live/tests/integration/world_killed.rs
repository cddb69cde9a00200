//! Runs that are killed at any moment leave nothing, once swept up after.
//!
//! All of it happens in a user namespace of the test's own, which may have no
//! more network namespaces than one run needs once the runs are over: a single
//! one left by any of them is one too many.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::world_rig::{THROUGH_A_ROUTER, plan, skipped};
use narrows_linux::Veth;
use narrows_linux::machine::{State, Undo, sweep};
use narrows_linux::{Namespace, RunId};
use narrows_live::World;
use narrows_scenario::HostIndex;
use narrows_units::Rng;

/// Says which part a process of this test plays.
const PART: &str = "NARROWS_TEST_PART";
/// Where runs keep files of their own.
const FOLDER: &str = "NARROWS_TEST_FOLDER";
/// The number of runs, where it is not [`RUNS`].
const COUNT: &str = "NARROWS_TEST_RUNS";
/// Runs without being asked for more; every fifth of them is killed.
const RUNS: u32 = 20;
/// Hosts of [`THROUGH_A_ROUTER`].
const HOSTS: u32 = 3;
/// How many namespaces of a kind a user namespace may have.
const LIMIT: &str = "/proc/sys/user/max_net_namespaces";

fn part(name: &str) -> bool {
    env::var_os(PART).is_some_and(|part| part == name)
}

fn this_test(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a test has a file"));
    command.args(["--exact", name, "--nocapture"]);
    command
}

#[test]
fn nothing_is_left_of_runs_of_which_some_are_killed() {
    if env::var_os(PART).is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut inside = Command::new("unshare");
    inside
        .args(["--user", "--map-root-user", "--net", "--kill-child"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "supervisor", "--nocapture"])
        .env(PART, "supervisor")
        .env(FOLDER, folder.path());
    let output = match inside.output() {
        Ok(output) => output,
        Err(e) => return skipped("nothing_is_left_of_runs", &format!("unshare: {e}")),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    if !output.status.success() && said.starts_with("unshare:") {
        return skipped("nothing_is_left_of_runs", &said.trim_end());
    }
    assert!(output.status.success(), "the supervisor: {}", output.status);
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().path()).collect()
}

/// The state of the supervisor's own namespace.
fn surroundings() -> impl PartialEq + std::fmt::Debug {
    let here = Namespace::current(&RunId::random(), "here").unwrap();
    let names: Vec<_> = here
        .devices()
        .unwrap()
        .into_iter()
        .map(|d| d.name)
        .collect();
    let forwards = here.sysctl("net/ipv4/ip_forward").unwrap();
    (
        names,
        here.addresses().unwrap(),
        here.routes().unwrap(),
        forwards,
    )
}

/// No test by itself: the process that the test above starts.
#[test]
fn supervisor() {
    if !part("supervisor") {
        return;
    }
    let world = World::build(&plan(THROUGH_A_ROUTER), &RunId::random());
    if let Err(e) = world {
        return skipped("nothing_is_left_of_runs", &e);
    }
    drop(world);
    let before = surroundings();
    let runs = env::var(COUNT).map_or(RUNS, |n| n.parse().expect("a number of runs"));
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut rng = Rng::for_name(seed, "moments");
    let mut ids = BTreeSet::new();
    let mut killed = 0;
    for i in 0..runs {
        let kill = i % 5 == 0;
        let mut child = this_test("a_run")
            .env(PART, if kill { "runs" } else { "run" })
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = listen(&mut child);
        if kill {
            // A child needs some 10 ms to begin and some 60 for a run.
            sleep(Duration::from_micros(u64::from(rng.below(200_000))));
            child.kill().unwrap();
            killed += 1;
        }
        let status = child.wait().unwrap();
        assert!(kill || status.success(), "run {i}: {status}");
        ids.extend(said.join().unwrap());
    }
    let swept = sweep();
    eprintln!(
        "{runs} processes, {killed} killed, {} runs, seed {seed}: {swept:?}",
        ids.len()
    );
    assert_eq!(swept.failed, Vec::<String>::new());
    assert!(sweep().runs.is_empty(), "what was swept is swept");

    assert_eq!(surroundings(), before);
    for id in &ids {
        let bearing = bearers(id);
        assert_eq!(bearing, Vec::<PathBuf>::new(), "processes of run {id}");
        let state = Path::new("/run/narrows").join(id);
        assert!(!state.exists(), "{}", state.display());
    }
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    assert_eq!(entries(&folder), Vec::<PathBuf>::new());
    only_as_many_namespaces_as_one_run_needs();
}

/// The kernel takes namespaces apart behind the process's back, so this waits
/// as long as they are being taken apart, but not for ever.
fn only_as_many_namespaces_as_one_run_needs() {
    // One is the supervisor's own, made in the user namespace as well.
    fs::write(LIMIT, (HOSTS + 1).to_string()).unwrap();
    let asked = Instant::now();
    loop {
        match World::build(&plan(THROUGH_A_ROUTER), &RunId::random()) {
            Ok(_) => break,
            Err(e) if asked.elapsed() > Duration::from_secs(20) => panic!("{e}"),
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
    // One fewer is too few: the limit counts what it should.
    fs::write(LIMIT, HOSTS.to_string()).unwrap();
    let refused = World::build(&plan(THROUGH_A_ROUTER), &RunId::random());
    let refusal = refused.expect_err("the limit binds").to_string();
    assert!(refusal.contains("namespace"), "{refusal}");
}

/// The ids that a child says.
fn listen(child: &mut Child) -> std::thread::JoinHandle<Vec<String>> {
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        lines
            .filter_map(|line| Some(line.split_once("run-id ")?.1.to_owned()))
            .collect()
    })
}

/// Processes that have the run's id in their environment.
fn bearers(id: &str) -> Vec<PathBuf> {
    let entry = format!("{}={id}", narrows_linux::RUN_VARIABLE).into_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let bears = |folder: &PathBuf| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|one| one == entry)
    };
    entries.map(|e| e.path()).filter(bears).collect()
}

/// No test by itself: the processes that the supervisor starts.
#[test]
fn a_run() {
    if part("run") {
        run();
    } else if part("runs") {
        loop {
            run();
        }
    }
}

/// A run with everything that one may leave behind.
fn run() {
    let plan = plan(THROUGH_A_ROUTER);
    let id = RunId::random();
    println!("run-id {id}");
    let world = World::build(&plan, &id).unwrap();
    let state: &State = world.state();

    let file = PathBuf::from(env::var_os(FOLDER).unwrap()).join(id.to_string());
    state.record(&Undo::File(file.clone())).unwrap();
    fs::write(&file, "a run was here").unwrap();

    let here = Namespace::current(&id, "here").unwrap();
    let (inside, outside) = (id.device("in"), id.device("out"));
    state.record(&Undo::Device(outside.clone())).unwrap();
    let host = world.namespace(HostIndex(0));
    let _veth = match Veth::between(&here, &outside, host, &inside) {
        Err(e) if e.is_of_the_machine() => {
            eprintln!("without a pair of devices: {e}");
            None
        }
        made => Some(made.unwrap()),
    };
    let switch = "net/ipv4/ip_forward";
    let value = here.sysctl(switch).unwrap();
    let undo = Undo::Sysctl {
        name: switch.to_owned(),
        value,
    };
    state.record(&undo).unwrap();
    here.set_sysctl(switch, "1").unwrap();

    // The shell is killed with its starter; its own child is not.
    let mut shell = host.command("sh");
    shell.args(["-c", "sleep 1000 & sleep 1000"]);
    shell.stdout(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    if part("runs") {
        // So that about half of the killed are killed in mid-run.
        sleep(Duration::from_millis(100));
    }
    drop(world);
    shell.wait().unwrap();
}
