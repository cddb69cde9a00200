//! Booting a kernel as a process of this machine.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::cores::Core;

/// The guest's program and its job, as the kernel finds them before anything is mounted:
/// in the current folder of the process that it is. So no path of the machine is in the
/// kernel's command line, which would make runs differ, as it feeds the kernel's
/// randomness.
const PROGRAM: &str = "/proc/self/cwd/init";
/// See [`PROGRAM`].
pub(crate) const JOB: &str = "/proc/self/cwd/job";

/// Its name in the folder of a kernel that is being booted.
const JOB_FILE: &str = "job";

/// Longer than a folder is there before its job is in it, on the busiest machine.
const MAKING_A_JOB: std::time::Duration = std::time::Duration::from_secs(60);

/// How the names of these folders begin.
const FOLDER_PREFIX: &str = "narrows-kernel-";

/// The word by which the program knows that it is a guest.
pub const GUEST: &str = "kernel-guest";

/// The word by which the program knows that it is to become a kernel, see
/// [`become_kernel`].
pub const KEEPER: &str = "kernel-start";

/// Memory of a guest. It is a file without content on the machine, and takes as much as
/// the guest touches. Fixed, because the kernel derives limits from it.
const MEMORY: &str = "mem=1024M";

/// The clock's reading at boot, in nanoseconds since 1970: 2026-01-01 00:00 UTC.
const START: &str = "time-travel-start=1767225600000000000";

/// What every kernel is started with.
const COMMAND_LINE: [&str; 14] = [
    MEMORY,
    "root=none",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    "time-travel=inf-cpu",
    START,
    "norandmaps",
    "seccomp=auto",
    "loglevel=4",
    "console=tty0",
    // Messages to the log, the serial line to the pipe; nothing comes in.
    "con=null con0=null,fd:2",
    "ssl=null ssl0=null,fd:1",
    "umid=narrows",
];

/// How often, and how many times, a kernel whose output has ended is asked for its status
/// before it is killed: a second.
const ASKED: std::time::Duration = std::time::Duration::from_millis(10);
const ENDS_WITHIN: u32 = 100;

/// A kernel that was booted. It and all its processes are gone once this is.
pub(crate) struct Instance {
    child: Child,
    /// Its folder until the guest is up, and the file in it by whose lock others see that
    /// somebody needs it.
    folder: Option<(TempDir, Flock<File>)>,
    log: File,
    _core: Core,
}

impl Instance {
    /// Boots `kernel` with `program` as its first process, for which `job` lies ready,
    /// and whatever it draws from `seed`.
    ///
    /// # Errors
    /// When there is no folder for it, or the kernel does not start.
    pub(crate) fn boot(
        kernel: &Path,
        program: &Path,
        job: &[u8],
        seed: u64,
    ) -> Result<(Self, ChildStdout), io::Error> {
        let temporary = std::env::temp_dir();
        remove_left(&temporary);
        let folder = tempfile::Builder::new()
            .prefix(FOLDER_PREFIX)
            .tempdir_in(temporary)?;
        symlink(program, folder.path().join("init"))?;
        let mut held = hold(File::create(folder.path().join(JOB_FILE))?)?;
        held.write_all(job)?;
        let log = tempfile::tempfile()?;
        let core = Core::take();
        let mut child = Command::new(program)
            .arg(KEEPER)
            .arg(std::process::id().to_string())
            .arg(core.number().map_or("any".to_owned(), |n| n.to_string()))
            .arg(kernel)
            .args(words(seed))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .spawn()?;
        let channel = child.stdout.take();
        let instance = Self {
            child,
            folder: Some((folder, held)),
            log,
            _core: core,
        };
        let channel = channel.ok_or_else(|| io::Error::other("the kernel has no output"))?;
        Ok((instance, channel))
    }

    /// The guest is up: nobody looks into its folder any more, which goes here rather
    /// than at the end, so that a process that is killed leaves none.
    pub(crate) fn is_up(&mut self) {
        self.folder = None;
    }

    /// Ends it, if it has not ended; how it did.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        // Its own processes die with it: each has asked for that.
        let _ = self.child.kill();
        self.child.wait()
    }

    /// Why it ended, whose output has; it is not left running.
    pub(crate) fn why_it_ended(&mut self) -> String {
        // Its output goes a moment before itself: what it ends by is asked for first.
        for _ in 0..ENDS_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(ASKED);
        }
        let status = self.end();
        cause(&self.console(), status)
    }

    /// What the kernel or the guest wrote to their console.
    fn console(&mut self) -> String {
        let mut text = Vec::new();
        let read = self
            .log
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.log.read_to_end(&mut text));
        if read.is_err() {
            return String::new();
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Locks `job`, if nobody else has.
fn hold(job: File) -> Result<Flock<File>, Errno> {
    Flock::lock(job, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error)
}

/// Removes the folders in `temporary` that killed processes have left: of this user, with a
/// job that nobody holds.
fn remove_left(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(FOLDER_PREFIX) {
            continue;
        }
        let free = own_job(&entry.path()).is_ok_and(|job| job.is_some_and(|job| hold(job).is_ok()));
        if free || never_got_its_job(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether `folder` is this user's, has no job file, and is older than [`MAKING_A_JOB`]: the
/// process that made it was killed before it wrote the file.
fn never_got_its_job(folder: &Path) -> bool {
    let Ok(facts) = fs::symlink_metadata(folder) else {
        return false;
    };
    let old = |at: std::time::SystemTime| at.elapsed().is_ok_and(|age| age > MAKING_A_JOB);
    let no_job = fs::symlink_metadata(folder.join(JOB_FILE))
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    facts.is_dir() && facts.uid() == geteuid().as_raw() && no_job && facts.modified().is_ok_and(old)
}

/// The job in `folder`, if both are this user's and it is a plain file. Anybody may put
/// anything below a temporary folder: a FIFO would keep who opens it waiting, and a link leads
/// elsewhere.
fn own_job(folder: &Path) -> io::Result<Option<File>> {
    let is_own = |facts: &Metadata| facts.uid() == geteuid().as_raw();
    let facts = fs::symlink_metadata(folder)?;
    if !facts.is_dir() || !is_own(&facts) {
        return Ok(None);
    }
    let job = File::options()
        .write(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits())
        .open(folder.join(JOB_FILE))?;
    let facts = job.metadata()?;
    Ok((facts.is_file() && is_own(&facts)).then_some(job))
}

/// The kernel's arguments.
fn words(seed: u64) -> impl Iterator<Item = String> {
    let fixed = COMMAND_LINE.iter().flat_map(|words| words.split(' '));
    fixed.map(str::to_owned).chain([
        // Of one length, whatever the seed.
        format!("narrows_seed={seed:#018x}"),
        "uml_dir=./".to_owned(),
        format!("init={PROGRAM}"),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "--".to_owned(),
        GUEST.to_owned(),
    ])
}

/// Why a kernel ended with `status`, of whose console `text` is.
fn cause(text: &str, status: io::Result<ExitStatus>) -> String {
    let said = said(text);
    match status {
        // What it said last is then how it booted.
        Ok(status) if status.signal().is_some() && !text.contains(PANIC) => {
            format!("it was killed ({status})")
        }
        _ if !said.is_empty() => said,
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// How the kernel's own last line begins.
const PANIC: &str = "Kernel panic";

/// The cause of a failure in the text of a console: the line of a panic with the one before
/// it, else the last lines.
fn said(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let panic = lines.iter().position(|line| line.contains(PANIC));
    let (from, to) = match panic {
        Some(at) => (at.saturating_sub(1), at + 1),
        None => (lines.len().saturating_sub(3), lines.len()),
    };
    lines[from..to].join("; ")
}

/// Becomes the kernel that `arguments` name: the parent's process id, the processor to
/// stay on, the kernel's file, its words. Between the process that wants a kernel and the
/// kernel, because only a process itself can ask to be killed with its parent.
///
/// # Errors
/// It does not return but for one.
pub fn become_kernel(mut arguments: impl Iterator<Item = OsString>) -> io::Error {
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::sys::prctl::set_pdeathsig;
    use nix::sys::resource::{Resource, setrlimit};
    use nix::sys::signal::Signal;
    use nix::unistd::{Pid, getppid};
    use std::os::unix::process::CommandExt;

    let mut number = || Some(arguments.next()?.to_str()?.to_owned());
    let (Some(parent), Some(core)) = (number(), number()) else {
        return io::Error::other("only `--engine kernel` starts a kernel");
    };
    let Some(kernel) = arguments.next().map(PathBuf::from) else {
        return io::Error::other("no kernel is named");
    };
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        return error.into();
    }
    // Who died before that sends no signal any more.
    if parent.parse() != Ok(getppid().as_raw()) {
        return io::Error::other("the process that wanted a kernel has ended");
    }
    if let Ok(core) = core.parse() {
        let mut one = CpuSet::new();
        // Where this fails the kernel runs on any, only slower.
        let _ = one
            .set(core)
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &one));
    }
    close_inherited();
    // A kernel that panics aborts; its memory is nothing to keep.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    Command::new(kernel)
        .arg0("linux")
        .args(arguments)
        .env_clear()
        // With no environment at all, or one of nothing but PATH, the kernel finds the top
        // of its stack a page too low (`get_top_address` in arch/um/kernel/um_arch.c), and
        // no process starts.
        .env("LC_ALL", "C")
        .exec()
}

/// Closes every descriptor but the first three: root in the guest can reach those of the process
/// that the kernel is, and what a shell left open for `narrows` is nobody's business there.
fn close_inherited() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // All of them first: one is that of the folder which is read.
    let open: Vec<i32> = names.filter_map(|name| name.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        let _ = nix::unistd::close(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_have_equal_command_lines_and_other_seeds_lines_of_equal_length() {
        let line = |seed| words(seed).collect::<Vec<_>>().join(" ");
        assert_eq!(line(1), line(1));
        assert_ne!(line(1), line(2));
        assert_eq!(line(1).len(), line(u64::MAX).len());
        assert!(!line(1).contains(std::env::temp_dir().to_str().unwrap_or("?")));
        // A kernel takes 2048 bytes of it, some of them for what it adds.
        assert!(line(1).len() < 1500);
    }

    #[test]
    fn folders_that_nobody_holds_are_removed_and_no_others() {
        let temporary = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let folder = temporary.path().join(name);
            fs::create_dir(&folder).unwrap();
            File::create(folder.join(JOB_FILE)).unwrap()
        };
        put("narrows-kernel-left");
        put("someone-else");
        let _held = hold(put("narrows-kernel-held")).unwrap();
        fs::create_dir(temporary.path().join("narrows-kernel-new")).unwrap();
        fs::create_dir(temporary.path().join("narrows-kernel-old")).unwrap();
        let hour_ago = std::time::SystemTime::now() - 60 * MAKING_A_JOB;
        for old in ["narrows-kernel-old", "narrows-kernel-held"] {
            let folder = File::open(temporary.path().join(old)).unwrap();
            folder.set_modified(hour_ago).unwrap();
        }
        remove_left(temporary.path());
        let mut names: Vec<_> = fs::read_dir(temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let kept = ["narrows-kernel-held", "narrows-kernel-new", "someone-else"];
        assert_eq!(names, kept);
    }

    #[test]
    fn what_others_put_below_the_temporary_folder_is_neither_waited_for_nor_followed() {
        use nix::sys::stat::Mode;
        use nix::unistd::mkfifo;

        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        let elsewhere = at("elsewhere");
        File::create(&elsewhere).unwrap();
        fs::create_dir(at("narrows-kernel-fifo")).unwrap();
        mkfifo(&at("narrows-kernel-fifo/job"), Mode::S_IRWXU).unwrap();
        fs::create_dir(at("narrows-kernel-link")).unwrap();
        symlink(&elsewhere, at("narrows-kernel-link/job")).unwrap();
        let real = at("real");
        fs::create_dir(&real).unwrap();
        File::create(real.join(JOB_FILE)).unwrap();
        symlink(&real, at("narrows-kernel-to")).unwrap();
        // Also where the FIFO has a reader, so that opening it does not fail.
        let _reader = File::options()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(at("narrows-kernel-fifo/job"))
            .unwrap();
        remove_left(temporary.path());
        for name in [
            "narrows-kernel-fifo",
            "narrows-kernel-link",
            "narrows-kernel-to",
            "real",
        ] {
            assert!(at(name).exists(), "{name}");
        }
    }

    #[test]
    fn of_a_kernel_that_was_killed_the_signal_is_said_and_not_how_it_booted() {
        let booting = "Checking that ptrace can change system call numbers...OK\n\
                       Checking PROT_EXEC mmap in /dev/shm...OK\n";
        let killed = || Ok(ExitStatus::from_raw(9));
        assert_eq!(
            cause(booting, killed()),
            "it was killed (signal: 9 (SIGKILL))"
        );
        let panic = format!("{booting}Kernel panic - not syncing: x\n");
        assert!(cause(&panic, Ok(ExitStatus::from_raw(6))).ends_with("not syncing: x"));
        let left = Ok(ExitStatus::from_raw(256));
        assert_eq!(cause("no such file\n", left), "no such file");
        assert_eq!(cause("", Ok(ExitStatus::from_raw(256))), "exit status: 1");
    }

    #[test]
    fn of_a_console_the_panic_is_told_or_the_end() {
        let text = "one\ntwo\n\nOut of memory: Killed process 1\nKernel panic - not syncing: x\nCPU: 0\nmore\n";
        assert_eq!(
            said(text),
            "Out of memory: Killed process 1; Kernel panic - not syncing: x"
        );
        assert_eq!(said("a\nb\nc\nd\n"), "b; c; d");
        assert_eq!(said(""), "");
    }
}
