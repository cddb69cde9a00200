//! A transfer by a deadline: a command, or a process, whose connections yield as far as the
//! deadline allows (DA-LBE).
//!
//! The command runs in a control group of its own, to which programs of BPF are attached
//! ([`Transfer`]). They die with this process, and so does the registration of the control:
//! connections that are open then keep both until they close. What stays behind a process
//! that is killed is an empty control group, which is written down before it is made.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::SystemTime;

use narrows_bpf::{ControlLoader, EcnFlags, Loaded, Trace, Transfer};
use narrows_linux::RunId;
use narrows_linux::machine::{Group, State};
use narrows_linux::system_calls::{open_process, start_in_group};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::geteuid;

use narrows_linux::foreground::{CommandError, Program, Signals, exit_code};

use super::attached::Sockets;
use super::error::ByError;
use super::options::{ByOptions, TransferOf};
use super::pace::{Note, Pace, Reading};

/// Connections that a process had before are looked for in every fourth pass: once a second.
const LOOK_EVERY: u32 = 4;

/// How a transfer ended.
#[derive(Debug)]
pub struct Ended {
    /// The command's exit status, or 128 and the number of the signal that ended it; 0 of
    /// a process that was attached to.
    pub code: u8,
    /// How far it was.
    pub reading: Reading,
    /// Connections that it had in all.
    pub connections: u64,
    /// Why its connections were not controlled to the end, if they were not.
    pub failed: Option<ByError>,
}

/// What a tick is for: it gets a reading and what is to be said of it.
pub type Tick<'a> = dyn FnMut(&Reading, &[Note]) + 'a;

/// Who is waited for.
#[derive(Debug)]
enum Worker {
    Command(Program),
    Process(u32, OwnedFd, Sockets),
}

/// A control that is loaded, and a group of which connections use it.
///
/// Dropping it takes all of it away.
#[derive(Debug)]
pub struct BackgroundTransfer {
    pace: Pace,
    deadline: SystemTime,
    worker: Worker,
    passes: u32,
    // In the order in which they have to go.
    transfer: Transfer,
    _control: Loaded,
    group: Group,
    _state: State,
    signals: Signals,
}

impl BackgroundTransfer {
    /// Finds the command or process, loads the control and makes the group. SIGINT,
    /// SIGQUIT, SIGTERM and SIGHUP are held back from now on until this is dropped. To be
    /// called in the process's first thread, before others are started.
    ///
    /// # Errors
    /// When there is no such command or process, the user is not root, or the machine
    /// refuses a step; then what was made is gone.
    pub(super) fn open(request: &ByOptions) -> Result<Self, ByError> {
        let worker = match &request.whose {
            TransferOf::Command(words) => Some(Program::find(words)?),
            TransferOf::Process(_) => None,
        };
        if !geteuid().is_root() {
            return Err(ByError::NotRoot);
        }
        let run = RunId::random();
        let mut name = format!("{run}_{}", request.control.name());
        name.truncate(narrows_bpf::NAME_MAX);
        let needs = request.control.needs();
        let ecn = match (needs.accecn, needs.ecn) {
            (true, _) => EcnFlags::AccEcn,
            (false, true) => EcnFlags::Classic,
            (false, false) => EcnFlags::None,
        };
        let worker = match (worker, &request.whose) {
            (Some(program), _) => Worker::Command(program),
            (None, TransferOf::Process(pid)) => {
                let gone = |source| ByError::NoProcess { pid: *pid, source };
                let handle = open_process(*pid).map_err(gone)?;
                Worker::Process(*pid, handle, Sockets::new(&name))
            }
            (None, TransferOf::Command(_)) => unreachable!("it was found above"),
        };
        let control = ControlLoader::load(&request.control, &name, ecn, Trace::Off)?;
        let signals = Signals::hold().map_err(CommandError::Waiting)?;
        let state = State::open(&run)?;
        let pace = Pace::new(&request.control, request.size);
        let beside = match &worker {
            Worker::Command(_) => "self".to_owned(),
            Worker::Process(pid, ..) => pid.to_string(),
        };
        let group = Group::below(&beside, &run, &state)?;
        let open = group.open().map_err(CommandError::Waiting)?;
        let (now_ns, left_ns) = now_and_left(request.deadline);
        let transfer = control.attach_transfer(open.as_fd(), &pace.goal(now_ns, left_ns))?;
        if let Worker::Process(pid, ..) = &worker {
            let gone = |source| ByError::NoProcess { pid: *pid, source };
            group.take(*pid).map_err(gone)?;
        }
        Ok(Self {
            pace,
            deadline: request.deadline,
            worker,
            passes: 0,
            transfer,
            _control: control,
            group,
            _state: state,
            signals,
        })
    }

    /// Runs the command to its end, or stays with the process until that ends or a signal
    /// comes; `tick` is called four times a second.
    ///
    /// # Errors
    /// When the command cannot be started, or waiting for it fails.
    pub fn run(mut self, tick: &mut Tick<'_>) -> Result<Ended, ByError> {
        let Self {
            pace,
            deadline,
            worker,
            passes,
            transfer,
            group,
            signals,
            ..
        } = &mut self;
        let mut pass = |sockets: Option<&mut Sockets>, tick: &mut Tick<'_>| {
            step(pace, *deadline, passes, transfer, group, sockets, tick)
        };
        let mut failed = None;
        let code = match worker {
            Worker::Command(program) => {
                let not_started = |source| CommandError::NotStarted {
                    command: program.name(),
                    source,
                };
                let mut command = Command::new(program.path());
                start_in_group(&mut command, group.entrance().map_err(not_started)?);
                let mut command = program.complete(command);
                let mut child = command.spawn().map_err(not_started)?;
                let status = signals.wait(&mut child, false, &mut || {
                    failed = pass(None, tick).err();
                    true
                });
                exit_code(status.map_err(CommandError::Waiting)?)
            }
            Worker::Process(pid, process, sockets) => {
                let gone = signals.until_gone(process.as_fd(), &mut || {
                    failed = pass(Some(sockets), tick).err();
                });
                if !gone.map_err(CommandError::Waiting)? {
                    let others = group.processes();
                    for pid in others.into_iter().chain([*pid]) {
                        sockets.set_back(pid);
                    }
                }
                0
            }
        };
        let switched = match worker {
            Worker::Process(_, _, sockets) => sockets.switched(),
            Worker::Command(_) => 0,
        };
        let (reading, opened) = match pass(None, tick) {
            Ok(last) => last,
            Err(error) => {
                failed = failed.or(Some(error));
                Default::default()
            }
        };
        Ok(Ended {
            code,
            reading,
            connections: opened + switched,
            failed,
        })
    }
}

/// A pass: shares anew, and hands on how far it is.
fn step(
    pace: &mut Pace,
    deadline: SystemTime,
    passes: &mut u32,
    transfer: &mut Transfer,
    group: &Group,
    sockets: Option<&mut Sockets>,
    tick: &mut Tick<'_>,
) -> Result<(Reading, u64), ByError> {
    let (now_ns, left_ns) = now_and_left(deadline);
    let goal = pace.goal(now_ns, left_ns);
    if let Some(sockets) = sockets.filter(|_| *passes % LOOK_EVERY == 0) {
        for pid in group.processes() {
            sockets.switch(pid, transfer, &goal)?;
        }
    }
    *passes += 1;
    let tally = transfer.pass(&goal)?;
    let mut notes = Vec::new();
    let reading = pace.take(now_ns, left_ns, &tally, &mut notes);
    tick(&reading, &notes);
    Ok((reading, tally.opened))
}

/// `CLOCK_MONOTONIC`, and the time to a deadline of the wall clock's; ns.
fn now_and_left(deadline: SystemTime) -> (u64, i64) {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    });
    let wall = SystemTime::now();
    let ns = |d: std::time::Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    let left = match deadline.duration_since(wall) {
        Ok(left) => ns(left),
        Err(past) => -ns(past.duration()),
    };
    (now, left)
}
