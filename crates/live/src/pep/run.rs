//! A command whose connections go by a proxy, though it knows of none.
//!
//! The command runs in a control group of its own. Programs of BPF lead its TCP connections
//! to a port of loopback ([`Lead`]), where a thread of this process asks the proxy for what
//! each had been opened to. The programs die with this process; what stays behind one that
//! is killed is an empty control group, which is written down before it is made.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use narrows_bpf::{BpfError, Lead, Origins};
use narrows_packet::App;
use narrows_pep::{Counters, Intake, Limits, Listener, Parent, Policy, Proxy, Terms};
use narrows_units::Duration;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::unistd::geteuid;

use super::error::PepError;
use super::leg::LegOptions;
use super::server::Server;
use super::service;
use super::sockets::Machine;
use crate::LiveError;
use crate::RunId;
use crate::foreground::{CommandError, Group, GroupError, Program, Signals, exit_code};
use crate::machine::State;
use crate::world::start_in_group;

/// The token of what ends the thread.
const STOP: u64 = u64::MAX;

/// How old the counters are that are shown.
const FRESH: Duration = Duration::from_millis(200);

/// What is to run, and by which proxy.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The proxy, and what is done without it.
    pub parent: Parent,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub struct RunEnded {
    /// Its exit status, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// What became of its connections.
    pub counters: Counters,
}

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It is not there, or could not be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The machine refused a step.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// BPF may be loaded by root of the machine alone.
    #[error(
        "leading a command's connections to a proxy takes a program in the kernel, and that \
         root of the machine: run it with sudo, the command then runs as you"
    )]
    NotRoot,
    /// There is no control group for it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The kernel did not take the programs.
    #[error(transparent)]
    Kernel(#[from] BpfError),
    /// The connections cannot be taken.
    #[error(transparent)]
    Pep(#[from] PepError),
}

/// A command that is ready to run.
#[derive(Debug)]
pub struct Run {
    program: Program,
    // In the order in which they have to go.
    lead: Lead,
    forwarder: Forwarder,
    group: Group,
    _state: State,
    signals: Signals,
}

impl Run {
    /// Finds the command, opens a port of loopback, and makes a control group whose
    /// connections are led there. SIGINT, SIGQUIT, SIGTERM and SIGHUP are held back from now
    /// on until this is dropped. To be called in the process's first thread.
    ///
    /// # Errors
    /// When there is no such command, the user is not root, or the machine refuses a step;
    /// then what was made is gone.
    pub fn open(request: &RunRequest) -> Result<Self, RunError> {
        let program = Program::find(&request.command)?;
        if !geteuid().is_root() {
            return Err(RunError::NotRoot);
        }
        let signals = Signals::hold().map_err(CommandError::Waiting)?;
        let (port, listeners) = loopback().map_err(PepError::setup("listen on loopback"))?;
        let run = RunId::random();
        let state = State::open(&run)?;
        let group = Group::below("self", &run, &state)?;
        let open = group.open().map_err(CommandError::Waiting)?;
        let lead = Lead::attach(open.as_fd(), port, request.parent.proxy)?;
        let forwarder = Forwarder::start(listeners, lead.origins()?, request.parent)?;
        Ok(Self {
            program,
            lead,
            forwarder,
            group,
            _state: state,
            signals,
        })
    }

    /// Runs the command to its end; `tick` is called four times a second.
    ///
    /// # Errors
    /// When it cannot be started, or waiting for it fails.
    pub fn run(self, tick: &mut dyn FnMut(&Counters)) -> Result<RunEnded, RunError> {
        let not_started = |source| CommandError::NotStarted {
            command: self.program.name(),
            source,
        };
        let mut command = Command::new(self.program.path());
        let entrance = self.group.entrance().map_err(not_started)?;
        start_in_group(&mut command, entrance);
        let mut command = self.program.complete(command);
        let mut child = command.spawn().map_err(not_started)?;
        let status = self.signals.wait(&mut child, false, &mut || {
            tick(&self.forwarder.counters());
            true
        });
        let code = exit_code(status.map_err(CommandError::Waiting)?);
        // Whoever it has left behind connects as ever from now on.
        drop(self.lead);
        let counters = self.forwarder.end();
        Ok(RunEnded { code, counters })
    }
}

/// A port that is free on loopback of both versions of IP, as far as there are.
fn loopback() -> std::io::Result<(u16, Vec<TcpListener>)> {
    let mut last = None;
    // The port of the one may be taken of the other.
    for _ in 0..16 {
        let ipv4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = ipv4.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(ipv6) => return Ok((port, vec![ipv4, ipv6])),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => last = Some(e),
            // A machine without IPv6.
            Err(_) => return Ok((port, vec![ipv4])),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}

/// The thread that takes connections and asks the proxy for them.
#[derive(Debug)]
struct Forwarder {
    stop: UnixStream,
    counters: Arc<Mutex<Counters>>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    fn start(
        listeners: Vec<TcpListener>,
        origins: Origins,
        parent: Parent,
    ) -> Result<Self, PepError> {
        let (stop, stopped) = UnixStream::pair().map_err(PepError::setup("make a pipe"))?;
        let counters = Arc::<Mutex<Counters>>::default();
        let shown = Arc::clone(&counters);
        service::all_descriptors();
        let addresses = listeners.iter().map(TcpListener::local_addr);
        let addresses = addresses.collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(PepError::setup("listen on loopback"))?;
        let serve = move || -> Result<(), PepError> {
            let origin = move |_: &OwnedFd, client| origins.take(client);
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
            let epoll = epoll.map_err(PepError::setup("wait for sockets"))?;
            let machine = Machine::new(epoll, listeners, Box::new(origin));
            let mut machine = machine.map_err(PepError::setup("listen on loopback"))?;
            let listeners = addresses
                .iter()
                .map(|at| listener(&mut machine, *at, parent));
            let mut proxy = Proxy::new(listeners.collect(), Limits::default());
            let started = proxy.start(&mut machine);
            started.map_err(|reason| PepError::Listen {
                address: addresses[0],
                reason,
            })?;
            let mut server = Server::new(machine, proxy);
            let wait = PepError::setup("wait for sockets");
            server.watch(&stopped, STOP).map_err(&wait)?;
            loop {
                let others = server.turn(Some(FRESH)).map_err(&wait)?;
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = server.proxy.counters();
                if !others.is_empty() {
                    // Its command has gone, and with it who would read.
                    let _ = (&stopped).read(&mut [0]);
                    return Ok(());
                }
            }
        };
        let thread = thread::Builder::new().name("forwarder".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = serve() {
                tracing::error!("{error}");
            }
        });
        Ok(Self {
            stop,
            counters,
            thread: Some(thread.map_err(PepError::setup("start a thread"))?),
        })
    }

    fn counters(&self) -> Counters {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it; what it has done.
    fn end(mut self) -> Counters {
        self.stop();
        self.counters()
    }

    fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // One that has ended does not hear it.
            let _ = self.stop.write_all(&[0]);
            let _ = thread.join();
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes what was led to `local`. Where to, the command could go by itself as well.
fn listener(machine: &mut Machine, local: SocketAddr, parent: Parent) -> Listener {
    let leg = |fast_open| LegOptions {
        control: None,
        fast_open,
        unsent: LegOptions::UNSENT,
        send_buffer: None,
        receive_buffer: None,
        transparent: false,
    };
    Listener {
        near: machine.add_profile(leg(false)),
        local,
        // The request goes with the SYN: it may come twice, as nothing follows it before
        // the answer. What is connected to directly has no data then.
        far: machine.add_profile(leg(true)),
        onward_from: None,
        terms: Terms {
            intake: Intake::Transparent,
            policy: Policy {
                anywhere: true,
                ..Policy::default()
            },
            ..Terms::default()
        },
        parent: Some(parent),
        flow: None,
    }
}
