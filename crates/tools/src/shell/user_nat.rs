//! A way out for users who may not change the machine's network: a program
//! that reads packets from a device and makes the connections anew, as any
//! program of the user's.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use narrows_linux::LinuxError;
use narrows_linux::machine::{USER_NAT_PROGRAMS, find_program};
use narrows_linux::system_calls::end_with_this_process;
use narrows_linux::{Namespace, Route};

use super::Subnet;

/// Its device in the namespace at the far end of the path.
const DEVICE: &str = "tap0";

/// The largest IP packet on that device, in bytes, the path's.
const MTU: u32 = super::outside::MTU;

/// Host numbers in the program's network: the router, which stands for this
/// machine's loopback address too, and the one host that it knows. They are
/// slirp4netns's (slirp4netns(1)); pasta gets it as an option.
pub(super) const ROUTER: u32 = 2;

pub(super) const INSIDE: u32 = 100;

/// The number of the namespace between the path and the program.
pub(super) const BETWEEN: u32 = 1;

/// The longest that a program may take to make its device.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time between two checks whether it is there.
const POLL_EVERY: Duration = Duration::from_millis(5);

/// Programs that do it, the first that is there is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// <https://github.com/rootless-containers/slirp4netns>
    Slirp4netns,
    /// <https://passt.top>
    Pasta,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Slirp4netns => USER_NAT_PROGRAMS[0],
            Self::Pasta => USER_NAT_PROGRAMS[1],
        }
    }

    /// The program with its arguments, for the namespace that its standard
    /// input is.
    fn command(self, program: &Path, subnet: Subnet) -> Command {
        let mut command = Command::new(program);
        match self {
            Self::Slirp4netns => {
                command
                    .args(["--netns-type=path", "--exit-fd=2", "--ready-fd=1"])
                    .arg(format!("--mtu={MTU}"))
                    .arg(format!("--cidr={subnet}"))
                    .args(["/proc/self/fd/0", DEVICE]);
            }
            Self::Pasta => {
                // In the foreground, in the user namespace that it is in, for
                // IPv4, with nothing that goes inwards by itself.
                command
                    .args(["-f", "-q", "-4", "--netns-only", "--no-dhcp", "-D", "none"])
                    .args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"])
                    .args(["-I", DEVICE, "-m", &MTU.to_string()])
                    .args(["-a", &subnet.host(INSIDE).to_string()])
                    .args(["-n", &subnet.bits().to_string()])
                    .args(["-g", &subnet.host(ROUTER).to_string()])
                    .args(["--netns", "/proc/self/fd/0"]);
                // It has no descriptor whose end is its end.
                end_with_this_process(&mut command);
            }
        }
        command
    }
}

/// The program at work.
#[derive(Debug)]
pub(super) struct UserNat {
    kind: Kind,
    child: Child,
    /// The other end of its standard error: for slirp4netns the end of this is
    /// its end.
    words: Option<UnixStream>,
}

impl UserNat {
    /// Starts one at `outside`, for the host number [`INSIDE`] of `subnet`.
    ///
    /// # Errors
    /// `NotFound` where there is no such program.
    pub(super) fn start(outside: &Namespace, subnet: Subnet) -> io::Result<Self> {
        match Self::start_one(Kind::Slirp4netns, outside, subnet) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Self::start_one(Kind::Pasta, outside, subnet)
            }
            other => other,
        }
    }

    fn start_one(kind: Kind, outside: &Namespace, subnet: Subnet) -> io::Result<Self> {
        // What is searched for by execvp(3) is not found in a PATH with a folder that may not be
        // read, but denied.
        let program = find_program(kind.name())
            .map_err(|e| io::Error::new(io::ErrorKind::NotFound, e.to_string()))?;
        // A namespace without a name is handed over as an open file: the
        // program, with fewer rights, may not look for it among this process's.
        let namespace = outside.descriptor().try_clone_to_owned()?;
        let (ours, its) = UnixStream::pair()?;
        let child = kind
            .command(&program, subnet)
            .stdin(namespace)
            .stdout(Stdio::piped())
            .stderr(OwnedFd::from(its))
            .spawn()?;
        let mut program = Self {
            kind,
            child,
            words: Some(ours),
        };
        if !program.is_ready(outside) {
            return Err(program.last_words());
        }
        configure(outside, subnet).map_err(|e| io::Error::other(e.to_string()))?;
        Ok(program)
    }

    /// Waits until its device is there; whether it ever is.
    fn is_ready(&mut self, outside: &Namespace) -> bool {
        if self.kind == Kind::Slirp4netns {
            // It writes `1` when its device is there, or its usage, or nothing.
            return self.child.stdout.as_mut().is_some_and(|pipe| {
                let mut byte = [0];
                pipe.read_exact(&mut byte).is_ok() && byte == *b"1"
            });
        }
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if outside.device(DEVICE).is_ok() {
                return true;
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return false;
            }
            sleep(POLL_EVERY);
        }
        false
    }

    fn last_words(mut self) -> io::Error {
        // One that still runs has nothing more to say.
        let _ = self.child.kill();
        let mut said = String::new();
        if let Some(mut pipe) = self.words.take() {
            // Only its words are wanted; without them there is less to say.
            let _ = pipe.read_to_string(&mut said);
        }
        let line = said.lines().last().unwrap_or("it ended without a word");
        io::Error::other(format!("{}: {line}", self.kind.name()))
    }
}

impl Drop for UserNat {
    fn drop(&mut self) {
        drop(self.words.take());
        if self.kind == Kind::Pasta {
            // It fails only for one that has ended.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The program asks by ARP for the one host that it knows; the namespace
/// between answers in its place, since its routes lead there.
fn configure(outside: &Namespace, subnet: Subnet) -> Result<(), LinuxError> {
    outside.set_sysctls(&[
        ("net/ipv4/conf/tap0/proxy_arp", "1"),
        // Otherwise the answer waits up to 0.8 s (arp(7)).
        ("net/ipv4/neigh/tap0/proxy_delay", "0"),
    ])?;
    let device = outside.device(DEVICE)?.index;
    outside.set_mtu(device, MTU)?;
    outside.set_up(device)?;
    outside.add_address(device, subnet.host(BETWEEN).into(), subnet.bits())?;
    outside.add_route(&Route {
        to: [0; 4].into(),
        prefix_len: 0,
        device,
        via: Some(subnet.host(ROUTER).into()),
        source: None,
        mtu: None,
    })
}
