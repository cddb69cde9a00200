//! A command, or a shell, behind a path of its own, with the outside reachable
//! through it.
//!
//! The command's namespace has one device, the near end of the path. What the
//! command sends enters the elements, driven by a thread of this process, and
//! leaves them by a device in the namespace that the process started in, which
//! passes it on as its own. What comes back takes the same way.
//!
//! Of all this, only two things are not gone by themselves when the process
//! ends: switches that let devices forward, and, on systems where tables of
//! nftables have no owner, a table. Both are written down before they are made.

mod error;
mod names;
mod nft;
mod open;
mod outside;
mod subnet;
mod tally;
mod user_nat;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use narrows_engine::{Lateness, RunHandle};
use narrows_linux::Clock;
use narrows_linux::machine::State;
use narrows_linux::machine::processes;
use narrows_linux::system_calls::end_with_this_process;
use narrows_linux::{
    Namespace, Route, RunId, Tun, gain_rights_in_own_user_namespace, has_rights, sysctl,
};
use narrows_live::datapath::{Datapath, PathError};
use narrows_live::reports;
use narrows_scenario::Plan;
use narrows_units::Duration;

use narrows_linux::foreground::{CommandError, Program, Signals, exit_code};

pub use error::ShellError;
pub use narrows_linux::foreground::Hindrance;
pub use open::{OpenError, ShellOptions, hindrance, open};
pub use subnet::{NoSubnet, Subnet};
pub use tally::{ElementTally, Gauge, QueueTally, Reading, Tally, Way};

use names::{Names, RESOLVERS};
use outside::{MTU, Outside};

/// How long a path may last: until its command ends, however long that is.
/// A hundred years fit a clock of nanoseconds.
const WITHOUT_END: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The environment variable that holds, for the command, how the machine that it
/// runs on is called at the far end of the path.
pub const OUTSIDE_VARIABLE: &str = "NARROWS_OUTSIDE";

/// Gives the process the rights that a shell takes, if it has none: in a user
/// namespace of its own. To be called first, while there is one thread.
///
/// # Errors
/// Where the machine lets no user make one.
pub fn gain_rights() -> Result<(), ShellError> {
    if !has_rights() {
        gain_rights_in_own_user_namespace()?;
    }
    Ok(())
}

/// What a shell is to be.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// A plan of one link: its first end is the inside, its second the outside.
    pub plan: &'a Plan,
    /// The seed of the elements' randomness.
    pub seed: u64,
    /// Where the path's addresses are taken from.
    pub subnet: Option<Subnet>,
    /// The command and its arguments; none for the user's shell.
    pub command: &'a [OsString],
}

/// What the thread of a path hands back.
type Driven = Result<(Tally, Lateness), PathError>;

/// A path that stands, and a command that is about to run behind it.
///
/// Dropping it takes all of it down.
#[derive(Debug)]
pub struct Shell {
    program: Program,
    gateway: IpAddr,
    notes: Vec<String>,
    gauge: Arc<Gauge>,
    stop: Arc<AtomicBool>,
    path: Option<JoinHandle<Driven>>,
    // In the order in which they have to go.
    inside: Namespace,
    names: Option<Names>,
    _uplink: outside::Uplink,
    _state: State,
    signals: Signals,
}

/// How a shell ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// The command's exit status, or 128 and the number of the signal that
    /// ended it.
    pub code: u8,
    /// What passed the path.
    pub tally: Tally,
    /// How late packets left it.
    pub lateness: Lateness,
}

impl Shell {
    /// Finds the command and makes the path. SIGINT, SIGQUIT, SIGTERM and
    /// SIGHUP are held back from now on until the shell is dropped. To be
    /// called in the process's first thread, before others are started.
    ///
    /// # Errors
    /// When the command is not there; then nothing was made. When the machine
    /// refuses a step; then what was made is gone.
    pub fn open(request: &Request<'_>) -> Result<Self, ShellError> {
        let program = Program::find(request.command)?;
        let signals = Signals::hold().map_err(CommandError::Waiting)?;
        let run = RunId::random();
        let state = State::open(&run)?;
        let outside = Outside::open(&run, &state, request.subnet)?;
        let (inside, near) = inside(&run, &outside)?;
        let gauge = Arc::new(Gauge::default());
        let stop = Arc::new(AtomicBool::new(false));
        let path = drive(request, near, outside.tun, &gauge, &stop)?;
        Ok(Self {
            program,
            gateway: outside.gateway,
            notes: outside.notes,
            gauge,
            stop,
            path: Some(path),
            inside,
            names: outside.names,
            _uplink: outside.uplink,
            _state: state,
            signals,
        })
    }

    /// What is not as one might expect, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the command is the user's shell.
    pub fn interactive(&self) -> bool {
        self.program.interactive()
    }

    /// Runs the command to its end, with `tick` called four times a second.
    /// Programs that it has left behind in its namespace are ended too: there
    /// is no path for them any more.
    ///
    /// # Errors
    /// When the command cannot be started, or the path fails under it.
    pub fn run(mut self, tick: &mut dyn FnMut(Reading)) -> Result<Closed, ShellError> {
        let not_started = |source| CommandError::NotStarted {
            command: self.program.name(),
            source,
        };
        let program = self.program.path();
        let command = match self.names.as_ref().map(Names::file) {
            None => Ok(self.inside.command(program)),
            Some(file) => self
                .inside
                .command_seeing(program, file, Path::new(RESOLVERS)),
        };
        let mut command = self.program.complete(command.map_err(not_started)?);
        // A change of user took the signal back.
        end_with_this_process(&mut command);
        command.env(OUTSIDE_VARIABLE, self.gateway.to_string());
        let mut child = command.spawn().map_err(not_started)?;
        let mut on_tick = || {
            tick(self.gauge.read());
            self.path.as_ref().is_some_and(|p| !p.is_finished())
        };
        let status = self
            .signals
            .wait(&mut child, true, &mut on_tick)
            .map_err(CommandError::Waiting)?;
        processes::end_all_in(&[self.inside.inode()]);
        let (tally, lateness) = self.stop()?;
        Ok(Closed {
            code: exit_code(status),
            tally,
            lateness,
        })
    }

    /// Stops the path.
    fn stop(&mut self) -> Result<(Tally, Lateness), ShellError> {
        self.stop.store(true, Ordering::Relaxed);
        let path = self.path.take().ok_or(ShellError::PathGone)?;
        let driven = path.join().map_err(|_| ShellError::PathGone)?;
        Ok(driven?)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(path) = self.path.take() {
            // Who could use its result has left with an error already.
            let _ = path.join();
        }
    }
}

/// The command's namespace, and the near end of the path in it.
fn inside(run: &RunId, outside: &Outside) -> Result<(Namespace, Tun), ShellError> {
    let inside = Namespace::new(run, "inside")?;
    // A new one has that of the machine; what marks packets refuses to where others' may pass.
    inside.set_sysctls(&[("net/ipv4/ip_forward", "0")])?;
    let ipv6 = sysctl::has_ipv6();
    if ipv6 {
        inside.set_sysctls(sysctl::OF_EVERY_IPV6_HOST)?;
    }
    as_on_this_machine(&inside)?;
    let near = Tun::new(&inside, &run.device("in"), MTU)?;
    for (address, bits) in &outside.inside {
        inside.add_address(near.index(), *address, *bits)?;
    }
    for (to, bits) in &outside.reach {
        inside.add_route(&Route {
            to: *to,
            prefix_len: *bits,
            device: near.index(),
            via: None,
            source: None,
            mtu: None,
        })?;
    }
    Ok((inside, near))
}

/// Beginnings of names of switches that the inside has as the machine has
/// them, so that a program's transport is the one that it has outside.
const AS_OUTSIDE: [&str; 4] = ["tcp_", "udp_", "ip_local_port_range", "ping_group_range"];

/// Not among them: secrets, and what is the machine's as a whole.
const NOT_AS_OUTSIDE: [&str; 2] = ["tcp_fastopen_key", "tcp_mem"];

fn as_on_this_machine(inside: &Namespace) -> Result<(), ShellError> {
    let files = std::fs::read_dir("/proc/sys/net/ipv4");
    let switches: Vec<_> = files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            let wanted = AS_OUTSIDE.iter().any(|w| name.starts_with(w));
            let secret = NOT_AS_OUTSIDE.contains(&name.as_str());
            let value = std::fs::read_to_string(file.path()).ok()?;
            (wanted && !secret).then_some((file.path(), value))
        })
        .collect();
    inside.run(|| {
        for (path, value) in &switches {
            if std::fs::read_to_string(path).is_ok_and(|now| now != *value) {
                // Some are shown and cannot be set; they are the machine's.
                let _ = std::fs::write(path, value);
            }
        }
    })?;
    Ok(())
}

/// Starts the thread that drives the path between `near` and `far`.
fn drive(
    request: &Request<'_>,
    near: Tun,
    far: Tun,
    gauge: &Arc<Gauge>,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<Driven>, ShellError> {
    use std::os::fd::AsFd;
    let mut plan = request.plan.clone();
    plan.duration = WITHOUT_END;
    let seed = request.seed;
    let (gauge, stop) = (Arc::clone(gauge), Arc::clone(stop));
    let work = move || {
        let mut counter = tally::Counter::new(&plan, gauge);
        let mut path = Datapath::new(&plan, seed, &[(near.as_fd(), far.as_fd())])?;
        let handle = RunHandle {
            cancel: Some(&stop),
            ..RunHandle::default()
        };
        let (_, nobody) = reports(0);
        let driven = path.drive(&Clock::starting_now(), &nobody, &mut counter, &handle)?;
        Ok((counter.tally(), driven.lateness))
    };
    let thread = Builder::new().name("path".to_owned()).spawn(work);
    thread.map_err(|e| CommandError::Waiting(e).into())
}
