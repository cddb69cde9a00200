//! Programs that run in hosts beside the plan's flows.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use narrows_linux::machine::{find_program, processes};
use narrows_linux::{Stop, Wait};
use narrows_scenario::{CommandPlan, Plan};
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::HostOf;
use super::error::FlowError;
use crate::{Clock, CommandFacts};

/// How often running processes are polled.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// How long a process that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Commands that wait for their start or run.
#[derive(Debug)]
pub struct Commands {
    stop: Stop,
    thread: Option<JoinHandle<Vec<CommandFacts>>>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// It has not been started yet.
    Waits,
    /// It runs.
    Runs,
    /// It ended by itself with this status.
    Exited(i32),
    /// It died of this signal, which was not ours.
    Signalled(i32),
    /// It was ended at its stop time or at the end of the run.
    Stopped,
    /// The system did not start it.
    Refused(String),
}

/// One command and its process.
struct Running {
    start: Instant,
    stop: Option<Instant>,
    process: Command,
    child: Option<Child>,
    /// When it was asked to end.
    asked: Option<Instant>,
    end: End,
    name: String,
    line: String,
}

impl Commands {
    /// Refuses a plan that has a program which does not exist or may not be
    /// executed, before anything of a run is made.
    ///
    /// # Errors
    /// One line for the first command that is wrong.
    pub fn check(plan: &Plan) -> Result<(), FlowError> {
        for command in &plan.commands {
            find_program(&program(command, plan)).map_err(|e| FlowError::Command {
                name: command.name.clone(),
                reason: e.to_string(),
            })?;
        }
        Ok(())
    }

    /// Starts a thread that runs the plan's commands in time. What they write
    /// goes to `commands/NAME.out` and `commands/NAME.err` in `keep`, and
    /// nowhere without it. A command is asked to end (SIGTERM, to all
    /// processes of its group) at its stop time, and killed half a second
    /// later.
    ///
    /// # Errors
    /// As [`Commands::check`]; if an output file cannot be made.
    pub fn start(
        plan: &Plan,
        host: &HostOf<'_>,
        clock: Clock,
        keep: Option<&Path>,
    ) -> Result<Self, FlowError> {
        let mut running = Vec::new();
        let mut namespaces = Vec::new();
        for command in &plan.commands {
            let name = command.name.clone();
            namespaces.push(host(command.host).inode());
            running.push(
                Running::prepare(command, plan, host, keep)
                    .map_err(|reason| FlowError::Command { name, reason })?,
            );
        }
        let system = |reason: io::Error| FlowError::Command {
            name: "*".to_owned(),
            reason: format!("no thread could be started for commands: {reason}"),
        };
        let stop = Stop::new().map_err(system)?;
        let mut thread = None;
        if !running.is_empty() {
            let stopped = stop.clone();
            // Processes die with the thread that started them, so one thread
            // starts all and stays.
            let body = move || supervise(running, &namespaces, &stopped, &clock);
            let builder = std::thread::Builder::new().name("commands".to_owned());
            thread = Some(builder.spawn(body).map_err(system)?);
        }
        Ok(Self { stop, thread })
    }

    /// Ends what still runs, with all processes of its group and all others
    /// that it left in its host, and says what became of each command, in the
    /// plan's order.
    pub fn stop(mut self) -> Vec<CommandFacts> {
        self.end()
    }

    fn end(&mut self) -> Vec<CommandFacts> {
        self.stop.request();
        // A panic there was printed there, and took its processes along.
        let ended = self.thread.take().map(JoinHandle::join);
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        self.end();
    }
}

/// The word that names the program.
fn program(command: &CommandPlan, plan: &Plan) -> String {
    // The check of the scenario refuses a command without words.
    command
        .arguments(plan)
        .into_iter()
        .next()
        .unwrap_or_default()
}

impl Running {
    fn prepare(
        command: &CommandPlan,
        plan: &Plan,
        host: &HostOf<'_>,
        keep: Option<&Path>,
    ) -> Result<Self, String> {
        let words = command.arguments(plan);
        let program = find_program(&words[0]).map_err(|e| e.to_string())?;
        let mut process = host(command.host).command(&program);
        process
            .arg0(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(output(command, keep, "out")?)
            .stderr(output(command, keep, "err")?)
            .process_group(0);
        Ok(Self {
            start: command.start,
            stop: command.stop,
            process,
            child: None,
            asked: None,
            end: End::Waits,
            name: command.name.clone(),
            line: command.line(plan),
        })
    }

    /// Starts it if its time has come, asks it to end if that has come.
    fn attend(&mut self, now: Instant) {
        if self.end == End::Waits && self.start <= now {
            match self.process.spawn() {
                Ok(child) => (self.child, self.end) = (Some(child), End::Runs),
                Err(e) => self.end = End::Refused(e.to_string()),
            }
            return;
        }
        self.notice();
        if self.end != End::Runs {
            return;
        }
        if self.asked.is_none() && self.stop.is_some_and(|at| at <= now) {
            self.signal(Signal::SIGTERM);
            self.asked = Some(now);
        } else if self.asked.is_some_and(|at| at + GRACE <= now) {
            self.signal(Signal::SIGKILL);
        }
    }

    /// Sees whether its first process has ended, and leaves it as a zombie:
    /// so its number stays that of its group, and no other process can get a
    /// signal that is meant for what it left behind.
    fn notice(&mut self) {
        let Some(child) = self.child.as_ref().filter(|_| self.end == End::Runs) else {
            return;
        };
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.end = match waitid(Id::Pid(pid(child)), flags) {
            Ok(WaitStatus::Exited(_, status)) => End::Exited(status),
            Ok(WaitStatus::Signaled(..)) if self.asked.is_some() => End::Stopped,
            Ok(WaitStatus::Signaled(_, signal, _)) => End::Signalled(signal as i32),
            Ok(_) | Err(Errno::EINTR) => return,
            Err(e) => End::Refused(e.to_string()),
        };
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // Nobody left in the group is as good as reached.
            let _ = killpg(pid(child), signal);
        }
    }

    fn facts(self) -> CommandFacts {
        let (status, ended) = match self.end {
            End::Exited(status) => (Some(status), format!("exited with {status}")),
            End::Signalled(signal) => (None, format!("ended by signal {signal}")),
            End::Stopped | End::Runs => match self.stop.and(self.asked) {
                Some(_) => (None, "stopped at its time".to_owned()),
                None => (None, "stopped with the run".to_owned()),
            },
            End::Waits => (None, "not started before the run ended".to_owned()),
            End::Refused(reason) => (None, format!("could not be started: {reason}")),
        };
        CommandFacts {
            name: format!("command/{}", self.name),
            line: self.line,
            status,
            ended,
        }
    }
}

/// Where what the command writes goes.
fn output(command: &CommandPlan, keep: Option<&Path>, end: &str) -> Result<Stdio, String> {
    let Some(keep) = keep else {
        return Ok(Stdio::null());
    };
    let path = keep
        .join("commands")
        .join(format!("{}.{end}", command.name));
    let file = narrows_files::create_dir_all(keep.join("commands"))
        .and_then(|()| narrows_files::create(&path));
    file.map(Stdio::from)
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn pid(child: &Child) -> Pid {
    // Process numbers are below 2²² (linux/threads.h, PID_MAX_LIMIT).
    Pid::from_raw(child.id() as i32)
}

/// Runs the commands until they are to stop, and then ends all.
fn supervise(
    mut running: Vec<Running>,
    namespaces: &[u64],
    stop: &Stop,
    clock: &Clock,
) -> Vec<CommandFacts> {
    // If the stop comes before the run begins, no command is started at all.
    let mut goes_on = stop.wait_until(clock, Instant::ZERO) == Wait::Due;
    while goes_on {
        let now = clock.now();
        for command in &mut running {
            command.attend(now);
        }
        let waits = running.iter().filter(|c| c.end == End::Waits);
        let any_runs = running.iter().any(|c| c.end == End::Runs);
        let due = waits
            .map(|c| c.start)
            .chain(any_runs.then_some(now + POLL_EVERY));
        // With nothing to do there is still the end to wait for.
        let due = due.min().unwrap_or(now + Duration::from_secs(3_600));
        goes_on = stop.wait_until(clock, due) == Wait::Due;
    }
    end_all(&mut running, clock);
    // Processes that left their command's group, as daemons do, still are in the run's
    // namespaces, which are nobody else's.
    processes::end_all_in(namespaces);
    running.into_iter().map(Running::facts).collect()
}

/// Asks every group to end, waits a little, kills what is left, and reaps.
fn end_all(running: &mut [Running], clock: &Clock) {
    let asked = clock.now();
    for command in running.iter_mut() {
        command.notice();
        command.signal(Signal::SIGTERM);
        if command.end == End::Runs && command.asked.is_none() {
            (command.asked, command.stop) = (Some(asked), None);
        }
    }
    while running.iter().any(|c| c.end == End::Runs) && clock.now() < asked + GRACE {
        std::thread::sleep(std::time::Duration::from_millis(5));
        running.iter_mut().for_each(Running::notice);
    }
    for command in running {
        command.signal(Signal::SIGKILL);
        let status = command.child.take().and_then(|mut c| c.wait().ok());
        if command.end == End::Runs {
            command.end = match status.and_then(|s| s.code().filter(|_| s.signal().is_none())) {
                Some(code) => End::Exited(code),
                None => End::Stopped,
            };
        }
    }
}
