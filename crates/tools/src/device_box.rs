//! A box by rules at a device of this machine, and how other processes ask it.
//!
//! The process that attached it listens at an abstract socket, whose name is that of the device
//! and means something in its network namespace only. Nothing of it outlives the process.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use narrows_bpf::{BoxConnection, BoxProgram, BoxTotals};
use narrows_linux::{LinuxError, device_name};
use narrows_mmb::{Program, RuleCounters};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

/// How long another process may take for its question, and this one for its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same of an answer that comes when other rules are loaded: a million of them.
const LOADING: Duration = Duration::from_secs(120);

/// Bytes of rules at most: a million of them have fewer.
const MOST_BYTES: u64 = 64 << 20;

/// Why there is no box, or no answer of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BoxError {
    /// The machine refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
    /// A box cannot be attached, or its counters cannot be read.
    #[error("{device}: {error}")]
    Bpf {
        /// The device.
        device: String,
        /// Why.
        error: narrows_bpf::BpfError,
    },
    /// One box at a device.
    #[error("{0} has a box already: `narrows mmb detach {0}` ends it")]
    Present(String),
    /// None is there.
    #[error("{0} has no box in this network namespace: `narrows mmb attach {0} …` puts one there")]
    Absent(String),
    /// Any user may have the name of a box's socket, and what one says of it would be believed.
    #[error(
        "{device}: a process of the user {uid}, who is neither root nor you, holds the place where its box \
         is asked (`ss -xlp src '@narrows-mmb/{device}'` names it): end it"
    )]
    Foreign {
        /// The device.
        device: String,
        /// The user.
        uid: u32,
    },
}

impl BoxError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::Linux(error) => error.is_of_rights(),
            Self::Bpf { error, .. } => matches!(error, narrows_bpf::BpfError::NoPermission { .. }),
            Self::Present(_) | Self::Absent(_) | Self::Foreign { .. } => false,
        }
    }
}

/// What another process asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxQuestion {
    /// What the rules have counted.
    List,
    /// The same, and that the box goes away.
    Detach,
    /// How rules are found.
    Tables,
    /// The connections that it tracks.
    Connections,
    /// What the rules have counted, after they were replaced.
    Reload,
    /// The same after some came or went.
    Change,
}

impl BoxQuestion {
    const ALL: [Self; 6] = [
        Self::List,
        Self::Detach,
        Self::Tables,
        Self::Connections,
        Self::Reload,
        Self::Change,
    ];

    /// The question as the socket has it.
    fn word(self) -> &'static [u8; 6] {
        match self {
            Self::List => b"list  ",
            Self::Detach => b"detach",
            Self::Tables => b"tables",
            Self::Connections => b"connec",
            Self::Reload => b"reload",
            Self::Change => b"change",
        }
    }
}

/// A box at a device of this process's network namespace. Dropping it, or the end of the
/// process by whatever cause, detaches it.
#[derive(Debug)]
pub struct DeviceBox {
    program: BoxProgram,
}

/// Where other processes ask a box.
#[derive(Debug)]
pub struct BoxSocket(UnixListener);

fn failed(device: &str, what: &str) -> impl Fn(io::Error) -> BoxError {
    let what = format!("{device}: {what}");
    move |e| LinuxError::refused(what.clone(), e).into()
}

/// The socket of the box at `device`, which may be called by an alternative name.
fn address(device: &str) -> io::Result<SocketAddr> {
    let index = if_nametoindex(device).ok();
    let name = index.and_then(device_name);
    let name = name.as_deref().unwrap_or(device);
    SocketAddr::from_abstract_name(format!("narrows-mmb/{name}"))
}

impl DeviceBox {
    /// Attaches `program` to both sides of `device`: what leaves by it comes from inside.
    ///
    /// # Errors
    /// If it has a box already, the kernel or this build has no BPF, or the caller is not root.
    pub fn attach(
        device: &str,
        index: u32,
        program: &Program,
    ) -> Result<(Self, BoxSocket), BoxError> {
        let bind = address(device).and_then(|at| UnixListener::bind_addr(&at));
        let socket = bind.map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => match connected(device) {
                Err(foreign @ BoxError::Foreign { .. }) => foreign,
                _ => BoxError::Present(device.to_owned()),
            },
            _ => failed(device, "no socket for questions can be made")(e),
        })?;
        let refused = |error| BoxError::Bpf {
            device: device.to_owned(),
            error,
        };
        let program = BoxProgram::attach(index, program).map_err(refused)?;
        Ok((Self { program }, BoxSocket(socket)))
    }

    /// Attaches it to `device` of that number in place of one that is gone, with its connections and
    /// what it has counted.
    ///
    /// # Errors
    /// If the device is of another type or gone again, or the kernel refuses.
    pub fn attach_again(&mut self, device: &str, index: u32) -> Result<(), BoxError> {
        self.program
            .attach_again(index)
            .map_err(|error| BoxError::Bpf {
                device: device.to_owned(),
                error,
            })
    }

    /// Gives it other rules without a gap, of which each had the number of `kept` before, from 0, if it
    /// was there.
    ///
    /// # Errors
    /// If the kernel refuses them; the old ones are then as they were.
    pub fn reload(
        &mut self,
        device: &str,
        program: &Program,
        kept: &[Option<u32>],
    ) -> Result<(), BoxError> {
        let reloaded = self.program.reload(program, kept);
        reloaded.map_err(|error| BoxError::Bpf {
            device: device.to_owned(),
            error,
        })
    }

    /// The name of the device where the kernel has it now; `None` where that device is gone.
    pub fn stands_at(&self) -> Option<String> {
        device_name(self.program.ifindex()?)
    }

    /// What each rule has counted, in their order.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn rules(&self) -> Result<Vec<RuleCounters>, BoxError> {
        self.program.rules().map_err(counters)
    }

    /// Forgets connections that were idle for too long, which take room until then.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn sweep(&self) -> Result<(), BoxError> {
        self.program.sweep().map_err(counters)
    }

    /// The connections that it tracks.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn connections(&self) -> Result<Vec<BoxConnection>, BoxError> {
        self.program.connections().map_err(counters)
    }

    /// What the box has counted.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn totals(&self) -> Result<BoxTotals, BoxError> {
        self.program.totals().map_err(counters)
    }
}

fn counters(error: narrows_bpf::BpfError) -> BoxError {
    BoxError::Bpf {
        device: "counters".to_owned(),
        error,
    }
}
impl BoxSocket {
    /// Waits for a question and answers it, with the rules that came behind it. Only the user who attached
    /// the box gets an answer, and root. The asker gets the end of the answer when the returned stream is
    /// dropped.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn answer(
        &self,
        answer: impl FnOnce(BoxQuestion, &str) -> String,
    ) -> io::Result<Option<(BoxQuestion, UnixStream)>> {
        let (mut stream, _) = self.0.accept()?;
        Ok(converse(&mut stream, answer)
            .ok()
            .flatten()
            .map(|q| (q, stream)))
    }
}

/// What one asker says must not end the box.
fn converse(
    stream: &mut UnixStream,
    answer: impl FnOnce(BoxQuestion, &str) -> String,
) -> io::Result<Option<BoxQuestion>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if foreign(stream)?.is_some() {
        return Ok(None);
    }
    let mut word = [0; 6];
    stream.read_exact(&mut word)?;
    let mut known = BoxQuestion::ALL.into_iter();
    let Some(question) = known.find(|question| *question.word() == word) else {
        return Ok(None);
    };
    let mut rules = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut rules)?;
    stream.write_all(answer(question, &rules).as_bytes())?;
    Ok(Some(question))
}

/// The user at the other end of `stream`, unless it is root or this process's.
fn foreign(stream: &UnixStream) -> io::Result<Option<u32>> {
    let uid = getsockopt(stream, PeerCredentials)?.uid();
    Ok((uid != 0 && uid != geteuid().as_raw()).then_some(uid))
}

/// A connection to the process that attached a box to `device`.
fn connected(device: &str) -> Result<UnixStream, BoxError> {
    let refused = |e: io::Error| match e.kind() {
        io::ErrorKind::ConnectionRefused => BoxError::Absent(device.to_owned()),
        _ => failed(device, "its box cannot be asked")(e),
    };
    let stream = address(device).and_then(|at| UnixStream::connect_addr(&at));
    let stream = stream.map_err(refused)?;
    match foreign(&stream).map_err(refused)? {
        None => Ok(stream),
        Some(uid) => Err(BoxError::Foreign {
            device: device.to_owned(),
            uid,
        }),
    }
}

/// Asks the process that attached a box to `device`, to which `rules` go with the question; to
/// [`BoxQuestion::Detach`] the answer comes when the box is gone.
///
/// # Errors
/// If there is no box at that device, another user has its place, or its process does not answer.
pub fn ask(device: &str, question: BoxQuestion, rules: &str) -> Result<String, BoxError> {
    let mut stream = connected(device)?;
    let mut answer = String::new();
    let mut talk = || {
        stream.set_read_timeout(Some(match question {
            BoxQuestion::Reload | BoxQuestion::Change => LOADING,
            _ => PATIENCE,
        }))?;
        stream.write_all(question.word())?;
        stream.write_all(rules.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_string(&mut answer)
    };
    let silent = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => e,
    };
    talk().map_err(|e| failed(device, "its box does not answer")(silent(e)))?;
    match answer.is_empty() {
        true => Err(BoxError::Absent(device.to_owned())),
        false => Ok(answer),
    }
}
