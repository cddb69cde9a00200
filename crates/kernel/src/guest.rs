//! The guest: the first process of a booted kernel.
//!
//! It is this program, started by the kernel from the machine's file system. It mounts
//! what a Linux has (`/proc`, `/sys`, `/dev`, `/run`, `/tmp`, control groups), runs its
//! job, and writes what happens to the serial line, which is a pipe to the process that
//! booted the kernel. A write to it returns once that process has the bytes; no time
//! passes meanwhile.

use std::cell::Cell;
use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_core::{Event, EventSink};
use narrows_engine::{Ended, RunHandle};
use narrows_scenario::Plan;
use narrows_units::{Duration, Instant};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::boot;
use crate::ended::EndDocument;
use crate::events::EventWriter;
use crate::frames::{self, FrameKind};
use crate::job::Job;

/// Bytes of events that are sent at once.
const FRAME: usize = 256 << 10;

/// Time of the run after which events are sent, however few.
const FLUSH: Duration = Duration::from_millis(200);

/// Where files of the run are kept until they are sent.
const KEEP: &str = "/run/kept";

/// What is mounted: type, place, options. All of it is in memory; what programs may fill is
/// ramfs, as tmpfs draws a random number for each file and folder, and how many of those
/// there are depends on the current folder's path.
const MOUNTS: [(&str, &str, &str); 8] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "ptmxmode=666"),
    ("ramfs", "/dev/shm", "mode=1777"),
    ("ramfs", "/run", "mode=755"),
    ("ramfs", "/tmp", "mode=1777"),
    ("cgroup2", "/sys/fs/cgroup", ""),
];

/// What the clock shows when a run is set up, in seconds since boot: later than all that comes
/// before, whose calls, some of which fail and so take time, depend on the current folder.
const BEGIN_S: i64 = 5;

/// Why there was no run.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Somebody typed the command.
    #[error(
        "this runs as the first process of a kernel in virtual time, which `--engine kernel` boots"
    )]
    NotFirst,
    /// A step on the way to the run.
    #[error("{what}: {why}")]
    Step {
        /// Which.
        what: String,
        /// What the kernel said.
        why: io::Error,
    },
    /// The job cannot be read.
    #[error("the job: {0}")]
    Job(String),
}

fn step<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> GuestError {
    let what = what.into();
    move |why| GuestError::Step {
        what,
        why: why.into(),
    }
}

/// What runs in the guest: the plan with its seed, to the end.
pub type Runner<'r> =
    &'r dyn Fn(&Plan, u64, &mut dyn EventSink, &RunHandle<'_>) -> Result<Ended, String>;

/// Runs the guest's job by `run`, reports events and the end of it to the machine, and
/// halts the kernel.
///
/// # Errors
/// When this is no guest, or the kernel lacks something that every guest needs.
pub fn serve(run: Runner<'_>) -> Result<Infallible, GuestError> {
    if std::process::id() != 1 {
        return Err(GuestError::NotFirst);
    }
    // Before anything is mounted: what the machine calls `/proc/self` is the kernel.
    let mut job = Vec::new();
    File::open(boot::JOB)
        .and_then(|mut file| file.read_to_end(&mut job))
        .map_err(step(boot::JOB))?;
    // Entered before something may be mounted over it.
    let job = job_of(&job).map_err(GuestError::Job)?;
    let entered = std::env::set_current_dir(&job.folder);
    for (kind, place, options) in MOUNTS {
        if !Path::new(place).exists() {
            fs::create_dir(place).map_err(step(place))?;
        }
        let none = MsFlags::empty();
        mount(Some(kind), place, Some(kind), none, Some(options)).map_err(step(place))?;
    }
    let channel = Mutex::new(channel().map_err(step(CHANNEL))?);
    frames::write(&mut *locked(&channel), FrameKind::Up, &[]).map_err(step(CHANNEL))?;
    let said = entered
        .and_then(|()| uncover(&job.folder))
        .map_err(|why| format!("the folder {} in the guest: {why}", job.folder.display()))
        .and_then(|()| wait_for_begin())
        .and_then(|()| work(run, &job, &job.plan()?, &channel));
    let mut channel = locked(&channel);
    let last = match said {
        Ok(document) => frames::write(&mut *channel, FrameKind::Ended, &document),
        Err(why) => frames::write(&mut *channel, FrameKind::Failed, why.as_bytes()),
    };
    last.map_err(step(CHANNEL))?;
    reboot(RebootMode::RB_POWER_OFF).map_err(step("halt"))
}

/// The serial line to the machine.
const CHANNEL: &str = "/dev/ttyS0";

fn channel() -> io::Result<File> {
    let line = OpenOptions::new().write(true).open(CHANNEL)?;
    let mut settings = tcgetattr(&line)?;
    cfmakeraw(&mut settings);
    tcsetattr(&line, SetArg::TCSANOW, &settings)?;
    Ok(line)
}

fn job_of(bytes: &[u8]) -> Result<Job, String> {
    serde_json::from_slice(bytes).map_err(|e| e.to_string())
}

/// Has the current folder, whose path `folder` is, at that path again where something has
/// been mounted over it: where people try things out, which is below `/tmp`.
fn uncover(folder: &Path) -> io::Result<()> {
    let covered = MOUNTS.iter().any(|(_, place, _)| folder.starts_with(place));
    if !covered {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let none: Option<&str> = None;
    mount(Some("."), folder, none, MsFlags::MS_BIND, none)?;
    std::env::set_current_dir(folder)
}

fn wait_for_begin() -> Result<(), String> {
    let begin = TimeSpec::new(BEGIN_S, 0);
    let at = ClockNanosleepFlags::TIMER_ABSTIME;
    let waited = clock_nanosleep(ClockId::CLOCK_MONOTONIC, at, &begin);
    waited.map(drop).map_err(|e| format!("the clock: {e}"))
}

fn locked(channel: &Mutex<File>) -> MutexGuard<'_, File> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the job; how it ended as a document.
fn work(run: Runner<'_>, job: &Job, plan: &Plan, channel: &Mutex<File>) -> Result<Vec<u8>, String> {
    let keep = job.keep.then(|| PathBuf::from(KEEP));
    if let Some(folder) = &keep {
        fs::create_dir_all(folder).map_err(|e| format!("{KEEP}: {e}"))?;
    }
    let reached = |at: Instant| {
        // The machine has gone, and so will this kernel.
        let _ = frames::write(
            &mut *locked(channel),
            FrameKind::Reached,
            &at.as_nanos().to_le_bytes(),
        );
    };
    let handle = RunHandle {
        progress: Some(&reached),
        keep: keep.as_deref(),
        ..RunHandle::default()
    };
    let mut sink = FrameSink {
        events: EventWriter::default(),
        channel,
        sent: Instant::ZERO,
        failed: Cell::new(None),
    };
    let ended = run(plan, job.seed, &mut sink, &handle)?;
    sink.send(Instant::MAX);
    if let Some(why) = sink.failed.take() {
        return Err(format!("{CHANNEL}: {why}"));
    }
    if let Some(folder) = &keep {
        send_files(channel, folder, folder).map_err(|e| format!("{KEEP}: {e}"))?;
    }
    let document = EndDocument::from(ended);
    serde_json::to_vec(&document).map_err(|e| format!("the end of the run: {e}"))
}

/// Sends events to the machine.
struct FrameSink<'c> {
    events: EventWriter,
    channel: &'c Mutex<File>,
    /// Time of the run at which they were last sent.
    sent: Instant,
    /// The first failure.
    failed: Cell<Option<io::Error>>,
}

impl FrameSink<'_> {
    fn send(&mut self, now: Instant) {
        let bytes = self.events.bytes();
        if let Err(why) = frames::write(&mut *locked(self.channel), FrameKind::Events, bytes) {
            self.failed.set(Some(why));
        }
        self.events.clear();
        self.sent = now;
    }
}

impl EventSink for FrameSink<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        self.events.record(now, event);
        if self.events.bytes().len() >= FRAME || now.since(self.sent) >= FLUSH {
            self.send(now);
        }
    }
}

/// Sends all files below `folder`, named from `top` on.
fn send_files(channel: &Mutex<File>, top: &Path, folder: &Path) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            send_files(channel, top, &path)?;
            continue;
        }
        let name = path.strip_prefix(top).unwrap_or(&path);
        let mut file = File::open(&path)?;
        let mut piece = vec![0; FRAME];
        let mut content = Vec::new();
        // At least once, so that an empty file is one.
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 && !content.is_empty() {
                break;
            }
            content.clear();
            content.extend_from_slice(name.as_os_str().as_encoded_bytes());
            content.push(0);
            content.extend_from_slice(&piece[..read]);
            frames::write(&mut *locked(channel), FrameKind::File, &content)?;
        }
    }
    locked(channel).flush()
}
