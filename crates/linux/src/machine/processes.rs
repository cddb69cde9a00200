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
fn others() -> impl Iterator<Item = i32> {
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

/// Ends every process that began with the run's id in its environment.
pub fn end_all_of(run: &RunId) -> Vec<i32> {
    let entry = format!("{RUN_VARIABLE}={run}").into_bytes();
    end(|pid| bears(pid, &entry))
}
