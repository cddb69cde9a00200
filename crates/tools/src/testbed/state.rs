//! A run of a machine: the programs of its role, and what they write.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::orders::Orders;

/// Bytes that are kept of what a program writes (our choice).
const MOST_BYTES: usize = 32 << 20;

/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long a program has to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its program runs.
    Running,
    /// All was run, and ended with status 0.
    Done,
    /// A program could not be started, failed, or took too long.
    Failed,
}

/// What a program wrote, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its name and arguments.
    pub command: Vec<String>,
    /// How it ended; none while it runs, or when a signal ended it.
    pub status: Option<i32>,
    /// What it wrote to standard output.
    pub output: String,
    /// What it wrote to standard error.
    pub errors: String,
}

/// A run as the webhook shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Its number, from 1.
    pub id: u64,
    /// Whether it goes on.
    pub state: Phase,
    /// What its program wrote, and the program at its end.
    pub programs: Vec<Written>,
}

/// A run that others ask about and end.
pub(super) struct Run {
    id: u64,
    state: Mutex<RunState>,
    stop: Mutex<bool>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// Starts a run in a thread of its own.
    pub(super) fn begin(id: u64, orders: &Orders) -> io::Result<Arc<Self>> {
        let run = Arc::new(Self {
            id,
            state: Mutex::new(RunState {
                id,
                state: Phase::Running,
                programs: Vec::new(),
            }),
            stop: Mutex::new(false),
        });
        let (own, orders) = (Arc::clone(&run), orders.clone());
        let work = move || {
            let done = own.work(&orders);
            locked(&own.state).state = if done { Phase::Done } else { Phase::Failed };
        };
        thread::Builder::new().name("run".to_owned()).spawn(work)?;
        Ok(run)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn shown(&self) -> RunState {
        locked(&self.state).clone()
    }

    pub(super) fn is_running(&self) -> bool {
        locked(&self.state).state == Phase::Running
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        *locked(&self.stop) = true;
    }

    fn work(&self, orders: &Orders) -> bool {
        let longest = Duration::from_secs(orders.longest_s);
        let begun = Instant::now();
        let mut well = true;
        match &orders.during {
            Some(command) => well &= self.program(command, longest),
            None => {
                while !*locked(&self.stop) && begun.elapsed() < longest {
                    thread::sleep(LOOK);
                }
            }
        }
        if let Some(command) = &orders.after {
            // It has not been asked to end.
            *locked(&self.stop) = false;
            well &= self.program(command, PATIENCE);
        }
        well
    }

    /// Runs a program, and whether it ended well in time.
    fn program(&self, command: &[String], longest: Duration) -> bool {
        let at = {
            let mut state = locked(&self.state);
            state.programs.push(Written {
                command: command.to_vec(),
                ..Written::default()
            });
            state.programs.len() - 1
        };
        let failed = |why: String| {
            locked(&self.state).programs[at].errors.push_str(&why);
            false
        };
        let mut child = match start(command) {
            Ok(child) => child,
            Err(error) => return failed(format!("cannot be run: {error}")),
        };
        thread::scope(|scope| {
            let (output, errors) = (child.stdout.take(), child.stderr.take());
            scope.spawn(move || {
                self.keep(output, |text| {
                    locked(&self.state).programs[at].output.push_str(text);
                })
            });
            scope.spawn(move || {
                self.keep(errors, |text| {
                    locked(&self.state).programs[at].errors.push_str(text);
                })
            });
            match self.wait(&mut child, longest) {
                Ok(status) => {
                    locked(&self.state).programs[at].status = status.code();
                    status.success()
                }
                Err(error) => failed(format!("{error}\n")),
            }
        })
    }

    /// Reads what a program writes, up to the most that is kept; the rest is read and dropped.
    fn keep(&self, from: Option<impl Read>, mut put: impl FnMut(&str)) {
        let Some(mut from) = from else { return };
        let mut room = MOST_BYTES;
        // What is no whole character yet.
        let mut held = Vec::new();
        let mut buffer = [0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let n = n.min(room);
            room -= n;
            held.extend_from_slice(&buffer[..n]);
            let whole = match std::str::from_utf8(&held) {
                Ok(_) => held.len(),
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                Err(_) => held.len(),
            };
            put(&String::from_utf8_lossy(&held[..whole]));
            held.drain(..whole);
        }
    }

    /// Waits until it has ended: by itself, asked to after `longest` or a stop, or killed when it
    /// does not.
    fn wait(&self, child: &mut Child, longest: Duration) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            match asked {
                None if *locked(&self.stop) || begun.elapsed() > longest => {
                    asked = Some(Instant::now());
                    interrupt(child);
                }
                Some(at) if at.elapsed() > PATIENCE => {
                    child.kill()?;
                    child.wait()?;
                    return Err(io::Error::other("did not end when it was asked to"));
                }
                _ => {}
            }
            thread::sleep(LOOK);
        }
    }
}

/// Sends SIGINT. The child was not waited for yet, so that its number is its own.
fn interrupt(child: &Child) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGINT);
    }
}

/// Starts a program by its name and arguments.
pub(super) fn start(command: &[String]) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("no program is named"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}
