//! What runs may leave on this machine, and processes that may do less than
//! this one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows_linux::machine::{Need, survey};

/// The longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`; whether it ever did.
pub fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let asked = Instant::now();
    while !holds() {
        if asked.elapsed() > PATIENCE {
            return false;
        }
        sleep(Duration::from_millis(100));
    }
    true
}

/// Held by who runs `doctor --clean`, which removes what any test has left on this machine, and by who
/// leaves something there that no other test is to remove.
pub fn cleaning() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether this machine has what `needs` name; says why `test` is skipped if
/// not.
pub fn has(test: &str, needs: &[Need]) -> bool {
    let machine = survey();
    let lack = machine.lacks().find(|f| needs.contains(&f.need));
    if let Some(lack) = lack {
        eprintln!("skipped: {test}: {lack}");
    }
    lack.is_none()
}

/// A scenario of one flow with the kernel's own control, which lasts `duration`;
/// the tables `more` after it.
pub fn one_flow(duration: &str, more: &str) -> String {
    format!(
        r#"
version  = 1
name     = "one flow"
duration = "{duration}"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 5ms", "bottleneck: rate 20Mbit queue fq_codel"]
down = ["netem delay 5ms"]

[[flow]]
name = "first"
from = "client"
to   = "server"
cc   = "kernel:cubic"
{more}"#
    )
}

/// All that a run may leave on the machine, a line each: devices, namespaces
/// with names, routes, addresses, tables, switches, BPF, congestion controls,
/// control groups, files. What comes and goes with other programs is among it, but for BPF objects
/// that they hold.
pub fn things() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (kind, directory) in [
        ("device", "/sys/class/net"),
        ("namespace", "/run/netns"),
        ("state", "/run/narrows"),
        ("pinned", "/sys/fs/bpf"),
    ] {
        all.extend(names(Path::new(directory)).map(|n| format!("{kind} {n}")));
    }
    // Without the counters that each use moves.
    all.extend(rows("/proc/net/route", "route", &[4, 5]));
    all.extend(rows("/proc/net/ipv6_route", "route", &[6, 7]));
    all.extend(rows("/proc/net/if_inet6", "address", &[]));
    let tries = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let addresses = tries.lines().filter_map(|l| l.split_once("|--"));
    all.extend(addresses.map(|(_, a)| format!("address {}", a.trim())));
    if let Ok(tables) = Command::new("nft").args(["list", "tables"]).output() {
        all.extend(text(&tables.stdout).lines().map(str::to_owned));
    }
    let controls = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let controls = controls.unwrap_or_default();
    all.extend(controls.split_whitespace().map(|c| format!("control {c}")));
    let others = held_by_others();
    let of_others = |line: &String| {
        let id: Vec<_> = line.split(' ').take(2).collect();
        others.contains(&id.join(" "))
    };
    let objects = narrows_bpf::held_by_kernel();
    all.extend(objects.into_iter().filter(|line| !of_others(line)));
    below(Path::new("/proc/sys/net"), 8, &mut |path| {
        if let Ok(value) = fs::read_to_string(path) {
            all.insert(format!("switch {} = {}", path.display(), value.trim()));
        }
    });
    let mut groups = BTreeSet::new();
    below(Path::new("/sys/fs/cgroup"), 4, &mut |path| {
        groups.extend(path.parent().map(|p| format!("cgroup {}", p.display())));
    });
    all.extend(groups);
    // The kernel's own count, and a list that is asked for above.
    all.retain(|line| !line.contains("conntrack_count") && !line.contains("congestion_control ="));
    all
}

/// BPF objects, as `program 12`, to which a process has a descriptor that neither this one nor a
/// test has started: other programs of the machine load and unload their own at any time.
fn held_by_others() -> BTreeSet<String> {
    let pids = || names(Path::new("/proc")).filter_map(|name| name.parse::<u32>().ok());
    let file = |pid: u32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    // The fields behind the name in parentheses: state, parent.
    let parent = |pid: u32| -> Option<u32> {
        let stat = text(&file(pid, "stat"));
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let is_ours = |pid: u32| {
        let line = std::iter::successors(Some(pid), |pid| parent(*pid));
        let of_test = |entry: &[u8]| entry.starts_with(b"NARROWS_TEST=");
        line.take(64).any(|pid| pid == std::process::id())
            || file(pid, "environ").split(|b| *b == 0).any(of_test)
    };
    let mut held = BTreeSet::new();
    for pid in pids().filter(|pid| !is_ours(*pid)) {
        let folder = format!("/proc/{pid}/fdinfo");
        for descriptor in names(Path::new(&folder)) {
            let said = text(&file(pid, &format!("fdinfo/{descriptor}")));
            for (key, kind) in [
                ("prog_id:", "program"),
                ("map_id:", "map"),
                ("link_id:", "link"),
            ] {
                let ids = said.lines().filter_map(|line| line.strip_prefix(key));
                held.extend(ids.map(|id| format!("{kind} {}", id.trim())));
            }
        }
    }
    held
}

fn names(directory: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned())
}

/// The lines of a table of the kernel's, without some columns.
fn rows(file: &str, kind: &str, without: &[usize]) -> Vec<String> {
    let table = fs::read_to_string(file).unwrap_or_default();
    let row = |line: &str| {
        let words = line.split_whitespace().enumerate();
        let kept: Vec<_> = words.filter(|(i, _)| !without.contains(i)).collect();
        let kept: Vec<_> = kept.into_iter().map(|(_, word)| word).collect();
        format!("{kind} {}", kept.join(" "))
    };
    table.lines().map(row).collect()
}

/// Calls `each` for the files in `directory`, so many floors deep.
fn below(directory: &Path, floors: u32, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && floors > 1 => below(&path, floors - 1, each),
            Ok(kind) if kind.is_file() => each(&path),
            _ => {}
        }
    }
}

/// Processes that began with `entry`, `NAME=value`, in their environment.
pub fn bearers(entry: &str) -> Vec<String> {
    let bears = |folder: &PathBuf| {
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        let mut all = environment.split(|b| *b == 0);
        all.any(|one| one == entry.as_bytes())
    };
    let folders = names(Path::new("/proc")).filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let bearing = folders.map(|n| Path::new("/proc").join(n)).filter(bears);
    let words = |folder: PathBuf| {
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        format!("{} {}", folder.display(), text(&line).replace('\0', " "))
    };
    bearing.map(words).collect()
}

/// A user that owns nothing: `nobody`.
const USER: &str = "65534";

/// A folder that any user may write to, with a copy of the program in it:
/// where it was built, others may not read.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = Self { folder };
        // Another process writes it: what a test beside this one starts meanwhile would
        // inherit a descriptor that is open for writing, and the copy could not be
        // executed (ETXTBSY).
        let copied = Command::new("install")
            .args(["-m", "755", env!("CARGO_BIN_EXE_narrows")])
            .arg(stage.path("narrows"))
            .status();
        assert!(copied.expect("install(1) runs").success());
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(stage.path("."), all).expect("its owner may");
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file for the program to read.
    pub fn write(&self, name: &str, contents: &str) {
        fs::write(self.path(name), contents).expect("a file");
    }

    /// What is in it beside the program and `known`.
    pub fn left(&self, known: &[&str]) -> Vec<String> {
        let mut left: Vec<_> = names(self.folder.path()).collect();
        left.retain(|name| name != "narrows" && !known.contains(&&**name));
        left.sort();
        left
    }

    /// Runs `script` as root in a mount namespace of its own; what it mounts
    /// nobody else sees. `$NOBODY` in it is what to put before a command for a
    /// user without rights.
    ///
    /// # Errors
    /// Where the program that makes the namespace is missing.
    pub fn run(&self, script: &str) -> io::Result<Output> {
        let nobody = format!("setpriv --reuid {USER} --regid {USER} --clear-groups --");
        Command::new("unshare")
            .args(["--mount", "--", "sh", "-ec", script])
            .current_dir(self.folder.path())
            .env("NOBODY", nobody)
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("SUDO_UID")
            .output()
    }

    /// Runs `script` likewise. `None`, and why `test` is skipped, where one of the
    /// programs of which `tools` are names cannot do its part.
    pub fn run_or_skip(&self, test: &str, script: &str, tools: &[&str]) -> Option<Output> {
        let skipped = |why: &str| eprintln!("skipped: {test}: {why}");
        let output = self
            .run(script)
            .map_err(|e| skipped(&format!("unshare: {e}")))
            .ok()?;
        let said = text(&output.stderr);
        let failed = |line: &&str| {
            let speaker = line.split_once(':').map(|(name, _)| name);
            speaker.is_some_and(|name| tools.contains(&name))
        };
        match said.lines().find(failed) {
            Some(line) => {
                skipped(line);
                None
            }
            None => Some(output),
        }
    }
}

/// The words in which the program refused: one line, after what it says about
/// itself when it goes into a user namespace.
pub fn refusal(output: &Output) -> String {
    let said = text(&output.stderr);
    let lines: Vec<_> = said
        .lines()
        .filter(|line| !line.contains("the live run has a user namespace of its own"))
        .collect();
    assert!(!output.status.success(), "it was to be refused: {said}");
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}
