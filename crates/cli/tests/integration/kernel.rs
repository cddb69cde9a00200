//! The command line over a kernel in virtual time. Where none was built these tests are
//! skipped, with a line on standard error; `narrows kernel build` builds one. With
//! NARROWS_KERNEL_TEST set they fail instead (`make kernel-test`).

mod controls;
mod queues;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::machine_rig::{one_flow, soon, text};
use narrows_kernel::Store;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Whether there is a kernel; says why `test` is skipped if not.
fn has_kernel(test: &str) -> bool {
    let lacks = match Store::of_user().and_then(|store| store.newest()) {
        Err(error) => error.to_string(),
        Ok(kernel) if !kernel.has_present_controls() => {
            format!("{} has other congestion controls", kernel.made.id)
        }
        Ok(_) => return true,
    };
    let needed = std::env::var_os("NARROWS_KERNEL_TEST").is_some();
    assert!(!needed, "{test}: {lacks}");
    eprintln!("skipped: {test}: {lacks}");
    false
}

fn program(dir: &Path, words: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_narrows"));
    program.current_dir(dir).args(words);
    program.env("NARROWS_STORE", "");
    program
}

fn narrows(dir: &Path, words: &[&str]) -> Output {
    program(dir, words).output().expect("narrows runs")
}

/// The cells of a campaign in the kernel, below the folder. Whether its runs are long enough to
/// trust is for the verdict.
fn cells_of(campaign: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let words = ["campaign", campaign, "--engine", "kernel", "--out", "out"];
    let ran = narrows(dir.path(), &words);
    let printed = text(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{printed}");
    let cells = dir.path().join("out/cells");
    (dir, cells)
}

const RUN: [&str; 6] = ["run", "two.toml", "--engine", "kernel", "--out", "out"];

fn folder(duration: &str, more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("two.toml"), one_flow(duration, more)).expect("a file");
    dir
}

fn record(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("run.json")).expect("run.json");
    serde_json::from_str(&text).expect("JSON")
}

/// The digest of a run of two seconds with this seed, in a folder of its own and `below` it,
/// where `wrapper` starts it.
fn digest_of(wrapper: &[&str], below: &str, seed: &str) -> String {
    let top = tempfile::tempdir().expect("a folder");
    let at = top.path().join(below);
    fs::create_dir_all(&at).expect("a folder");
    fs::write(at.join("two.toml"), one_flow("2s", "")).expect("a file");
    let words = [
        wrapper,
        &[env!("CARGO_BIN_EXE_narrows")],
        &RUN,
        &["--seed", seed],
    ]
    .concat();
    let ran = Command::new(words[0])
        .args(&words[1..])
        .current_dir(&at)
        .output();
    let ran = ran.expect("narrows runs");
    let printed = text(&ran.stderr);
    // Whether two seconds are enough to trust is for the verdict, not for the test.
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{printed}");
    let record = record(&at.join("out"));
    assert_eq!(record["engine"], "kernel");
    assert_eq!(record["complete"], true);
    assert!(record["packets"].as_u64() > Some(1000));
    record["digest"].as_str().expect("a digest").to_owned()
}

fn digest(seed: &str) -> String {
    digest_of(&[], "", seed)
}

/// Keeps every processor busy while it lives.
struct Load(Vec<Begun>);

impl Load {
    fn begin() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = || {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .spawn()
        };
        Self(
            (0..count)
                .map(|_| Begun(busy().expect("a shell")))
                .collect(),
        )
    }
}

#[test]
fn ten_equal_runs_have_one_digest_wherever_and_beside_whatever_they_run() {
    if !has_kernel("digests of runs in virtual time") {
        return;
    }
    let first = digest("1");
    assert_ne!(digest("2"), first);
    assert_eq!(digest("1"), first);
    for below in ["deeper", "deeper/and/deeper"] {
        assert_eq!(digest_of(&[], below, "1"), first, "in {below}");
    }
    if Command::new("taskset").arg("--version").output().is_ok() {
        let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        for core in ["0", &last.to_string()] {
            let pinned = digest_of(&["taskset", "-c", core], "", "1");
            assert_eq!(pinned, first, "on processor {core}");
        }
    } else {
        eprintln!("skipped: runs on one processor: there is no taskset");
    }
    let load = Load::begin();
    for _ in 0..4 {
        assert_eq!(digest("1"), first, "beside {} busy processes", load.0.len());
    }
}

/// A run on the kernel that was built last, into `out`; what the terminal showed.
fn run_here(at: &Path, name: &str, sets: &[&str]) -> String {
    let sets = sets.iter().flat_map(|set| ["--set", *set]);
    let words = ["run", name, "--engine", "kernel", "--out", "out"];
    let ran = narrows(at, &words.into_iter().chain(sets).collect::<Vec<_>>());
    let status = ran.status.code();
    // Whether so short a run can be trusted is for the verdict.
    assert!(matches!(status, Some(0 | 3)), "{}", text(&ran.stderr));
    text(&ran.stdout)
}

#[test]
fn every_control_of_ours_carries_data_in_the_kernel_that_was_built_and_results_say_which_it_was() {
    if !has_kernel("every control in a kernel in virtual time") {
        return;
    }
    let kernel = Store::of_user().and_then(|s| s.newest()).expect("a kernel");
    let controls: Vec<_> = narrows_kernel::registered_names();
    let flow = |name: &str| {
        let cc = name.trim_start_matches("nw_");
        format!("[[flow]]\nname = \"{cc}\"\nfrom = \"client\"\nto = \"server\"\ncc = \"{cc}\"\n")
    };
    let flows: String = controls.iter().map(|name| flow(name)).collect();
    let at = folder("4s", &flows);
    let printed = run_here(at.path(), "two.toml", &[]);
    let out = at.path().join("out");
    let record = record(&out);
    let summary = fs::read_to_string(out.join("summary.json")).expect("summary.json");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    for name in &controls {
        let cc = name.trim_start_matches("nw_");
        let of = |all: &Value| {
            let mut flows = all.as_array().expect("flows").iter();
            let found = flows.find(|flow| flow["name"] == format!("flow/{cc}"));
            found.unwrap_or_else(|| panic!("{cc}")).clone()
        };
        let got = of(&record["rig"]["flows"])["congestion_control"].to_string();
        // A name that is too long for the kernel is cut; numbers tell several of one control apart.
        let (run, own) = got.trim_matches('"').split_once('_').expect("a run's name");
        let own = own.trim_end_matches(|c: char| c.is_ascii_digit());
        assert!(run.starts_with("nw") && cc.starts_with(own), "{cc}: {got}");
        let bytes = of(&summary["flows"])["bytes_total"].as_u64();
        assert!(bytes > Some(100_000), "{cc}: {bytes:?}");
    }
    let built = &record["virtual_kernel"];
    assert_eq!(built["id"], kernel.made.id);
    for key in [
        "source_sha256",
        "config_sha256",
        "compiler",
        "pahole",
        "controls_digest",
    ] {
        assert!(
            built[key].as_str().is_some_and(|said| !said.is_empty()),
            "{key}"
        );
    }
    assert_eq!(
        built["changes"].as_array().map(Vec::len),
        Some(kernel.made.changes.len())
    );
    let line = format!("rig: Linux {} (", kernel.made.id);
    assert!(printed.contains(&line), "{printed}");
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    for said in [
        &kernel.made.id,
        &kernel.made.source_sha256,
        &kernel.made.compiler,
    ] {
        assert!(page.contains(said.as_str()), "{said}");
    }
}

#[test]
fn bursts_towards_our_elements_are_said_and_compare_simulates_them() {
    if !has_kernel("bursts in virtual time") {
        return;
    }
    let prague =
        "[[flow]]\nname = \"prague\"\nfrom = \"client\"\nto = \"server\"\ncc = \"prague\"\n";
    let at = folder("4s", prague);
    let printed = run_here(at.path(), "two.toml", &[]);
    let record = record(&at.path().join("out"));
    let facts = &record["rig"]["flows"];
    let longest = |flow: usize| facts[flow]["gso_max_segs"].as_u64();
    if longest(0) == Some(0) {
        eprintln!("skipped: bursts in virtual time: nothing counts them here");
        return;
    }
    assert!(longest(0) > Some(1), "{facts}");
    // As its own tree has it; mainline asks no control for its longest burst.
    assert_eq!(longest(1), Some(1), "{facts}");
    assert!(
        printed.contains("its packets left in bursts of up to"),
        "{printed}"
    );
    let words = [
        "compare", "two.toml", "--engine", "kernel", "--seeds", "1", "--out", "both",
    ];
    let compared = text(&narrows(at.path(), &words).stdout);
    assert!(
        compared.contains("simulated with segmentation \"tso"),
        "{compared}"
    );
}

#[test]
fn a_scenario_of_the_catalogue_runs_with_its_recording() {
    if !has_kernel("a recording of rates in virtual time") {
        return;
    }
    let at = tempfile::tempdir().expect("a folder");
    run_here(
        at.path(),
        "pep/base-station",
        &["duration=2s", "measure=1s..2s"],
    );
    assert!(record(&at.path().join("out"))["packets"].as_u64() > Some(1000));
}

#[test]
fn without_a_kernel_the_refusal_says_how_to_have_one() {
    let at = folder("1s", "");
    let ran = program(at.path(), &RUN)
        .env("XDG_CACHE_HOME", at.path().join("empty"))
        .output()
        .expect("narrows runs");
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("narrows kernel build"),
        "{}",
        text(&ran.stderr)
    );
    assert!(!at.path().join("out").exists());
}

#[test]
fn the_parts_of_a_kernel_are_nobodys_to_call() {
    let at = tempfile::tempdir().expect("a folder");
    for word in [narrows_kernel::GUEST, narrows_kernel::KEEPER] {
        let ran = narrows(at.path(), &[word]);
        assert_eq!(ran.status.code(), Some(1));
        assert!(
            text(&ran.stderr).contains("--engine kernel"),
            "{}",
            text(&ran.stderr)
        );
    }
}

#[test]
fn what_a_shell_left_open_for_narrows_does_not_reach_the_kernel() {
    let script = "test -e /proc/self/fd/7 && echo open || echo closed";
    // The shell becomes what it starts, so that this process is the parent that is named.
    let said = |starts: &str| {
        let opened = format!("exec 7</dev/null; exec {starts} /bin/sh -c '{script}'");
        let ran = Command::new("sh").args(["-c", &opened]).output();
        text(&ran.expect("a shell").stdout)
    };
    assert_eq!(said(""), "open\n", "the test sees one that is open");
    let (keeper, parent) = (narrows_kernel::KEEPER, std::process::id());
    let program = env!("CARGO_BIN_EXE_narrows");
    assert_eq!(
        said(&format!("'{program}' {keeper} {parent} any")),
        "closed\n"
    );
}

/// Reads `file` of the machine's temporary folder, as root of the guest: first as the guest
/// sees that folder, then without what is mounted over it.
fn reads(file: &Path) -> String {
    let file = file.display();
    format!(
        "[[command]]\nname = \"reads\"\nhost = \"server\"\nrun = [\"sh\", \"-c\", \"\"\"\n\
         cat {file} || echo hidden\numount -l /tmp\ncat {file}\"\"\"]\n"
    )
}

#[test]
fn root_in_the_guest_reads_of_the_machine_what_its_user_may_read_as_the_guide_says() {
    if !has_kernel("reading the machine's files from a guest") {
        return;
    }
    let other = tempfile::tempdir_in("/tmp").expect("a folder");
    let kept = other.path().join("kept");
    fs::write(&kept, "as it is").expect("a file");
    let at = folder("2s", &reads(&kept));
    let ran = narrows(at.path(), &RUN);
    let printed = text(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{printed}");
    let said = fs::read_to_string(at.path().join("out/commands/reads.out")).expect("its output");
    assert_eq!(said, "hidden\nas it is");
}

/// Tries, as root of the guest, all that changes a file system.
const WRITES: &str = r#"
[[command]]
name = "writes"
host = "server"
run  = ["sh", "-c", '''
id -u
mount -o remount,rw /
echo changed > kept; echo changed >> kept; true > kept
chmod 777 kept; chown 1 kept; touch kept; truncate -s 0 kept
ln -s kept link; ln kept hard; mv kept moved; rm -f kept; mkdir folder; mknod pipe p
mkdir /tmp/again && mount -t hostfs none /tmp/again && echo changed > /tmp/again/$PWD/kept
echo tried''']
"#;

#[test]
fn root_in_the_guest_changes_no_file_of_the_machine() {
    if !has_kernel("writing to the machine from a guest") {
        return;
    }
    let at = folder("2s", WRITES);
    let kept = at.path().join("kept");
    fs::write(&kept, "as it was").expect("a file");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o640)).expect("its mode");
    let before = fs::metadata(&kept).expect("a file");
    let ran = narrows(at.path(), &RUN);
    assert!(
        matches!(ran.status.code(), Some(0 | 3)),
        "{}",
        text(&ran.stderr)
    );
    let said = fs::read_to_string(at.path().join("out/commands/writes.out")).expect("its output");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, ["0", "tried"]);
    assert_eq!(fs::read_to_string(&kept).expect("a file"), "as it was");
    let after = fs::metadata(&kept).expect("a file");
    assert_eq!(after.permissions(), before.permissions());
    assert_eq!(after.modified().ok(), before.modified().ok());
    let names: BTreeSet<_> = fs::read_dir(at.path())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

/// All processes below `parent`, by their numbers.
fn below(parent: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut asked = vec![parent];
    while let Some(one) = asked.pop() {
        let tasks = fs::read_dir(format!("/proc/{one}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children"));
            for child in children.unwrap_or_default().split_whitespace() {
                let child = child.parse().expect("a number");
                if all.insert(child) {
                    asked.push(child);
                }
            }
        }
    }
    all
}

/// Whether the process is there and no zombie.
fn lives(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// A run that is ended with its test, however that ends.
struct Begun(Child);

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A long run that has begun, and the processes of its kernel.
fn begun(at: &Path) -> (Begun, BTreeSet<u32>) {
    let child = program(at, &RUN)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("narrows starts");
    let child = Begun(child);
    let mut kernel = BTreeSet::new();
    // The kernel, and at least the first process in it.
    assert!(soon(|| {
        kernel = below(child.0.id());
        kernel.len() >= 2
    }));
    (child, kernel)
}

#[test]
fn a_killed_run_leaves_a_readable_folder_and_no_process() {
    if !has_kernel("killing a run in virtual time") {
        return;
    }
    let at = folder("10000s", "");
    let (mut child, kernel) = begun(at.path());
    child.0.kill().expect("a signal");
    child.0.wait().expect("its end");
    assert!(soon(|| !kernel.iter().any(|process| lives(*process))));
    assert_eq!(record(&at.path().join("out"))["complete"], false);
}

#[test]
fn what_a_run_leaves_that_is_killed_while_its_kernel_boots_goes_with_the_next() {
    if !has_kernel("killing a run while its kernel boots") {
        return;
    }
    let at = folder("1s", "");
    let temporary = at.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let run = |out: &str| {
        let mut run = program(
            at.path(),
            &["run", "two.toml", "--engine", "kernel", "--out", out],
        );
        run.env("TMPDIR", &temporary);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        run
    };
    let folders = || fs::read_dir(&temporary).expect("the folder").flatten();
    let left = || folders().count();
    let mut child = Begun(run("killed").spawn().expect("narrows starts"));
    // Whether it is caught before it is up is up to the machine; mostly it is. Before its job
    // is there the next run cannot know yet that it was killed.
    let begun = || folders().any(|folder| folder.path().join("job").exists());
    while !begun() && child.0.try_wait().expect("its state").is_none() {
        std::thread::yield_now();
    }
    child.0.kill().expect("a signal");
    child.0.wait().expect("its end");
    let ended = run("whole").status().expect("narrows runs");
    assert!(matches!(ended.code(), Some(0 | 3)));
    assert_eq!(left(), 0);
}

#[test]
fn ctrl_c_ends_a_run_with_what_there_is_and_no_process() {
    if !has_kernel("interrupting a run in virtual time") {
        return;
    }
    let at = folder("10000s", "");
    let (mut child, kernel) = begun(at.path());
    kill(Pid::from_raw(child.0.id() as i32), Signal::SIGINT).expect("it lives");
    assert_eq!(child.0.wait().expect("its end").code(), Some(130));
    assert!(soon(|| !kernel.iter().any(|process| lives(*process))));
    let out = at.path().join("out");
    assert_eq!(record(&out)["complete"], false);
    assert!(out.join("summary.json").exists());
}

/// Takes all memory, which here ends the kernel.
const OUT_OF_MEMORY: &str = r#"
[[command]]
name = "hog"
host = "server"
run  = ["sh", "-c", """
echo 2 > /proc/sys/vm/panic_on_oom
dd if=/dev/zero of=/tmp/zeros bs=1M"""]
"#;

#[test]
fn a_kernel_that_panics_is_told_of_and_leaves_a_readable_folder() {
    if !has_kernel("a kernel's panic") {
        return;
    }
    let at = folder("2s", OUT_OF_MEMORY);
    let ran = narrows(at.path(), &RUN);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Kernel panic") && said.contains("emory"),
        "{said}"
    );
    assert_eq!(record(&at.path().join("out"))["complete"], false);
}

#[test]
fn an_ordinary_user_has_the_digest_that_root_has() {
    const NOBODY: &str = "65534";
    if !has_kernel("a run in virtual time by an ordinary user") {
        return;
    }
    if fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) != 0) {
        eprintln!("skipped: a run by another user: this one is no root and cannot become one");
        return;
    }
    let at = folder("2s", "");
    // Where nobody may look: the program, the kernel and the folder.
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(at.path(), open.clone()).expect("its mode");
    let copy = at.path().join("narrows");
    fs::copy(env!("CARGO_BIN_EXE_narrows"), &copy).expect("a copy");
    let kernel = Store::of_user().and_then(|s| s.newest()).expect("a kernel");
    let cache = at
        .path()
        .join("cache/narrows/kernels")
        .join(&kernel.made.id);
    fs::create_dir_all(&cache).expect("a folder");
    let from = kernel.binary();
    for name in ["linux", "kernel.json"] {
        fs::copy(from.with_file_name(name), cache.join(name)).expect("a copy");
    }
    let ran = Command::new("setpriv")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .arg(&copy)
        .args(RUN)
        .env("XDG_CACHE_HOME", at.path().join("cache"))
        .env("HOME", at.path())
        .current_dir(at.path())
        .output();
    let Ok(ran) = ran else {
        eprintln!("skipped: a run by another user: there is no setpriv");
        return;
    };
    assert!(
        matches!(ran.status.code(), Some(0 | 3)),
        "{}",
        text(&ran.stderr)
    );
    assert_eq!(record(&at.path().join("out"))["digest"], digest("1"));
}
