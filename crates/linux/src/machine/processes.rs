//! Processes that runs have started, found by what they cannot shake off: the
//! network namespace that they are in, and the environment that they began
//! with.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{RUN_VARIABLE, RunId};

/// How long a killed process may take to be gone. One that waits for a disk
/// takes longer, and is then left to the next sweep.
const PATIENCE: Duration = Duration::from_secs(2);

/// The processes of this machine but our own.
pub(super) fn others() -> impl Iterator<Item = i32> {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(move |pid| *pid != own)
}

fn is_in(pid: i32, namespaces: &[u64]) -> bool {
    // Of a zombie, and of others' processes, this cannot be read.
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|m| namespaces.contains(&m.ino()))
}

fn bears(pid: i32, entry: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|all| all.split(|b| *b == 0).any(|one| one == entry))
}

/// The processes that hold a lock on the file with this inode (proc_locks(5)).
pub(super) fn lock_owners(inode: u64) -> Vec<i32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let file = format!(":{inode}");
    let owner = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (kind, pid, of) = (words.get(1)?, words.get(4)?, words.get(5)?);
        let ours = *kind == "FLOCK" && of.ends_with(&file);
        ours.then(|| pid.parse().ok()).flatten()
    };
    locks.lines().filter_map(owner).collect()
}

/// Whether the process `pid` was killed and has not ended yet.
pub(super) fn is_ending(pid: i32) -> bool {
    /// `PF_EXITING` of the flags, field 9 of `/proc/PID/stat` (include/linux/sched.h).
    const EXITING: u64 = 4;
    /// SIGKILL among signals that wait.
    const KILLED: u64 = 1 << (Signal::SIGKILL as u32 - 1);
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let stat = read("stat");
    let flags = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(9 - 3)?.parse::<u64>().ok());
    let status = read("status");
    let mut waiting = status.lines().filter_map(|line| {
        let (key, mask) = line.split_once(':')?;
        let is_mask = matches!(key, "SigPnd" | "ShdPnd");
        is_mask.then(|| u64::from_str_radix(mask.trim(), 16).ok())?
    });
    flags.is_some_and(|flags| flags & EXITING != 0) || waiting.any(|mask| mask & KILLED != 0)
}

/// Kills every process for which `ours` holds until there is none; their
/// numbers.
fn end(ours: impl Fn(i32) -> bool) -> Vec<i32> {
    let started = Instant::now();
    let mut ended = Vec::new();
    loop {
        let mut left = 0;
        for pid in others().filter(|pid| ours(*pid)) {
            left += 1;
            // One that has just gone needs no signal.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            if !ended.contains(&pid) {
                ended.push(pid);
            }
        }
        if left == 0 || started.elapsed() > PATIENCE {
            return ended;
        }
        sleep(Duration::from_millis(1));
    }
}

/// Ends every process in one of the network namespaces with these inodes.
pub fn end_all_in(namespaces: &[u64]) -> Vec<i32> {
    end(|pid| is_in(pid, namespaces))
}

/// The processes in one of the network namespaces with these inodes.
pub fn all_in(namespaces: &[u64]) -> Vec<i32> {
    others().filter(|pid| is_in(*pid, namespaces)).collect()
}

/// Asks every process in one of the network namespaces with these inodes to end (SIGTERM), and
/// waits at most for `patience` until none is left.
pub fn ask_all_in(namespaces: &[u64], patience: Duration) {
    let started = Instant::now();
    let mut asked = Vec::new();
    loop {
        let left = all_in(namespaces);
        for pid in left.iter().filter(|pid| !asked.contains(*pid)) {
            // One that was stopped would not see it. One that has just gone needs no signal.
            for signal in [Signal::SIGTERM, Signal::SIGCONT] {
                let _ = kill(Pid::from_raw(*pid), signal);
            }
        }
        if left.is_empty() || started.elapsed() > patience {
            return;
        }
        asked.extend(left);
        sleep(Duration::from_millis(10));
    }
}

/// Ends every process that began with the run's id in its environment.
pub fn end_all_of(run: &RunId) -> Vec<i32> {
    let entry = format!("{RUN_VARIABLE}={run}").into_bytes();
    end(|pid| bears(pid, &entry))
}
