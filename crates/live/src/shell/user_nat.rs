//! A way out for users who may not change the machine's network: a program
//! that reads packets from a device and makes the connections anew, as any
//! program of the user's.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use super::Subnet;
use crate::LiveError;
use crate::world::{Namespace, Route};

/// The program.
const PROGRAM: &str = "slirp4netns";

/// Its device in the namespace at the far end of the path.
const DEVICE: &str = "tap0";

/// The largest IP packet on that device, in bytes, the path's.
const MTU: u32 = super::outside::MTU;

/// Host numbers in the program's network (slirp4netns(1)): the router, which
/// stands for this machine's loopback address too, and the
/// one host that it knows.
pub(super) const ROUTER: u32 = 2;

pub(super) const INSIDE: u32 = 100;

/// The number of the namespace between the path and the program.
const BETWEEN: u32 = 1;

/// The program at work. It ends when the other end of its standard error does.
#[derive(Debug)]
pub(super) struct UserNat {
    child: Child,
    words: Option<UnixStream>,
}

impl UserNat {
    /// Starts it at `outside`, for the host number [`INSIDE`] of `subnet`.
    ///
    /// # Errors
    /// `NotFound` where there is no such program.
    pub(super) fn start(outside: &Namespace, subnet: Subnet) -> io::Result<Self> {
        // A namespace without a name is handed over as an open file: the
        // program, with fewer rights, may not look for it among this process's.
        let namespace = outside.descriptor().try_clone_to_owned()?;
        let (ours, its) = UnixStream::pair()?;
        let mut child = Command::new(PROGRAM)
            .args(["--netns-type=path", "--exit-fd=2", "--ready-fd=1"])
            .arg(format!("--mtu={MTU}"))
            .arg(format!("--cidr={subnet}"))
            .args(["/proc/self/fd/0", DEVICE])
            .stdin(namespace)
            .stdout(Stdio::piped())
            .stderr(OwnedFd::from(its))
            .spawn()?;
        // It writes `1` when its device is there, or its usage, or nothing.
        let ready = child.stdout.as_mut().is_some_and(|pipe| {
            let mut byte = [0];
            pipe.read_exact(&mut byte).is_ok() && byte == *b"1"
        });
        let program = Self {
            child,
            words: Some(ours),
        };
        if !ready {
            return Err(program.last_words());
        }
        configure(outside, subnet).map_err(|e| io::Error::other(e.to_string()))?;
        Ok(program)
    }

    fn last_words(mut self) -> io::Error {
        let mut said = String::new();
        if let Some(mut pipe) = self.words.take() {
            // Only its words are wanted; without them there is less to say.
            let _ = pipe.read_to_string(&mut said);
        }
        let line = said.lines().last().unwrap_or("it ended without a word");
        io::Error::other(format!("{PROGRAM}: {line}"))
    }
}

impl Drop for UserNat {
    fn drop(&mut self) {
        drop(self.words.take());
        let _ = self.child.wait();
    }
}

/// The program asks by ARP for the one host that it knows; the namespace
/// between answers in its place, since its routes lead there.
fn configure(outside: &Namespace, subnet: Subnet) -> Result<(), LiveError> {
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
