//! A command whose connections go by a proxy, though it knows of none.
//!
//! Its TCP connections are led to a port of loopback, where a thread of this process asks the
//! proxy for what each had been opened to. Programs of BPF lead them ([`Lead`]), at a control
//! group that the command runs in: they die with this process; what stays behind one that is
//! killed is an empty control group, which is written down before it is made. Where the
//! kernel takes no such programs from the user, a library leads them from within the command
//! ([`Preload`]).

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use narrows_bpf::{BpfError, Lead};
use narrows_core::App;
use narrows_linux::LinuxError;
use narrows_linux::RunId;
use narrows_linux::machine::{Group, GroupError, State, sweep_groups};
use narrows_linux::system_calls::start_in_group;
use narrows_pep::{Counters, Intake, Limits, Listener, Parent, Policy, Proxy, Terms};
use narrows_units::Duration;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::unistd::{Uid, geteuid};

use super::error::PepError;
use super::leg::plain;
use super::preload::Preload;
use super::server::Server;
use super::sockets::OsSockets;
use crate::rights;
use narrows_linux::foreground::{CommandError, Program, Signals, exit_code};

/// The token of what ends the thread.
const STOP: u64 = u64::MAX;

/// How old the counters are that are shown.
const FRESH: Duration = Duration::from_millis(200);

/// What is to run, and by which proxy.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The proxy, and what is done without it.
    pub parent: Parent,
    /// What leads connections to it; `None` for the kernel where it can, or else a library.
    pub way: Option<Way>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

/// What leads a command's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Programs in the kernel: all of them, also those of its children. Root.
    Kernel,
    /// A library that is loaded into it by LD_PRELOAD: those of programs that are linked
    /// dynamically, are not set-user-ID, and connect by the C library.
    Preload,
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
    Linux(#[from] LinuxError),
    /// BPF may be loaded by root of the machine alone.
    #[error(
        "a program in the kernel that leads connections takes root of the machine: run it with \
         sudo, the command then runs as you"
    )]
    NotRoot,
    /// There is no control group for it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The kernel did not take the programs.
    #[error(transparent)]
    Kernel(#[from] BpfError),
    /// The library cannot be loaded.
    #[error("connections cannot be led from within the command: {0}")]
    Preload(std::io::Error),
    /// The connections cannot be taken.
    #[error(transparent)]
    Pep(#[from] PepError),
}

impl RunError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::NotRoot | Self::Kernel(BpfError::NoPermission { .. }) => true,
            Self::Linux(error) | Self::Command(CommandError::Linux(error)) => error.is_of_rights(),
            _ => false,
        }
    }
}

/// What leads connections, at work.
#[derive(Debug)]
enum Leader {
    Kernel {
        // In the order in which they have to go.
        _lead: Lead,
        group: Group,
        _state: State,
    },
    Preload(Preload),
}

/// Finds out where to the connection from a client had been opened.
type Origins = Box<dyn Fn(SocketAddr) -> Option<SocketAddr> + Send>;

impl Leader {
    fn kernel(port: u16, spared: SocketAddr) -> Result<(Self, Origins), RunError> {
        if !geteuid().is_root() {
            return Err(RunError::NotRoot);
        }
        // What a command of before has left that was killed.
        sweep_groups();
        let run = RunId::random();
        let state = State::open(&run)?;
        let group = Group::below("self", &run, &state)?;
        let open = group.open().map_err(CommandError::Waiting)?;
        let lead = Lead::attach(open.as_fd(), port, spared)?;
        let origins = lead.origins()?;
        let leader = Self::Kernel {
            _lead: lead,
            group,
            _state: state,
        };
        Ok((leader, Box::new(move |client| origins.take(client))))
    }

    fn preload(
        port: u16,
        spared: SocketAddr,
        user: Option<Uid>,
    ) -> Result<(Self, Origins), RunError> {
        let preload = Preload::open(port, spared, user).map_err(RunError::Preload)?;
        let origins = preload.origins().map_err(RunError::Preload)?;
        Ok((Self::Preload(preload), Box::new(origins)))
    }
}

/// A command that is ready to run.
#[derive(Debug)]
pub struct Run {
    program: Program,
    // In the order in which they have to go.
    leader: Leader,
    forwarder: Forwarder,
    signals: Signals,
    without_kernel: Option<String>,
}

impl Run {
    /// Finds the command, opens a port of loopback, and makes what leads connections there. SIGINT, SIGQUIT, SIGTERM and SIGHUP are held back from now
    /// on until this is dropped. To be called in the process's first thread.
    ///
    /// # Errors
    /// When there is no such command, the kernel is asked for and the user is not root, or the
    /// machine refuses a step; then what was made is gone.
    pub fn open(request: &RunRequest) -> Result<Self, RunError> {
        let program = Program::find(&request.command)?;
        let signals = Signals::hold().map_err(CommandError::Waiting)?;
        let (port, listeners) = loopback().map_err(PepError::setup("listen on loopback"))?;
        let spared = request.parent.proxy;
        let mut without_kernel = None;
        let by_kernel = match request.way {
            Some(Way::Preload) => None,
            Some(Way::Kernel) => Some(Leader::kernel(port, spared)?),
            None => match Leader::kernel(port, spared) {
                Ok(leader) => Some(leader),
                Err(why) => {
                    without_kernel = Some(why.to_string());
                    None
                }
            },
        };
        let (leader, origins) = match by_kernel {
            Some(leader) => leader,
            None => Leader::preload(port, spared, program.user())?,
        };
        let forwarder = Forwarder::start(listeners, origins, request.parent)?;
        Ok(Self {
            program,
            leader,
            forwarder,
            signals,
            without_kernel,
        })
    }

    /// Why a library leads its connections, if nothing was asked for and the kernel does not.
    pub fn without_kernel(&self) -> Option<&str> {
        self.without_kernel.as_deref()
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
        match &self.leader {
            Leader::Kernel { group, .. } => {
                let entrance = group.entrance().map_err(not_started)?;
                start_in_group(&mut command, entrance);
            }
            Leader::Preload(preload) => {
                command.envs(preload.environment());
            }
        }
        let mut command = self.program.complete(command);
        let mut child = command.spawn().map_err(not_started)?;
        let status = self.signals.wait(&mut child, false, &mut || {
            tick(&self.forwarder.counters());
            true
        });
        let code = exit_code(status.map_err(CommandError::Waiting)?);
        // Whoever it has left behind connects as ever from now on.
        drop(self.leader);
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
        rights::all_descriptors();
        let addresses = listeners.iter().map(TcpListener::local_addr);
        let addresses = addresses.collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(PepError::setup("listen on loopback"))?;
        let serve = move || -> Result<(), PepError> {
            let origin = move |_: &OwnedFd, client| origins(client);
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
            let epoll = epoll.map_err(PepError::setup("wait for sockets"))?;
            let machine = OsSockets::new(epoll, listeners, Box::new(origin));
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
fn listener(machine: &mut OsSockets, local: SocketAddr, parent: Parent) -> Listener {
    Listener {
        near: machine.add_profile(plain(false, false)),
        local,
        // The request goes with the SYN: it may come twice, as nothing follows it before
        // the answer. What is connected to directly has no data then.
        far: machine.add_profile(plain(true, false)),
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
        near_rate: None,
        far_rate: None,
    }
}
