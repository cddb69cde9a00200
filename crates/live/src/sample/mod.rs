//! Looks at TCP sockets while a run goes on.
//!
//! A sampler asks for TCP sockets of a host's namespace through netlink, each by
//! its addresses: to list them all costs a hundred times as much, and the
//! path would be late for it. For the plan's own flows it reports the
//! events that a simulated sender would ([`Watch`] says what is
//! seen and what is not); the sockets of programs in the host are listed now
//! and then, and kept as series.

mod diag;
mod tcp_info;
mod watch;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_packet::FlowSample;
use narrows_scenario::HostIndex;
use narrows_units::{Duration, Instant};

use crate::flows::{Stop, Wait};
use crate::{Clock, Reporter};

pub use diag::{Diag, DiagSocket};
pub use tcp_info::{EcnLayout, TCP_INFO_LEN, parse_tcp_info};
pub use watch::Watch;

/// A look costs about 10 µs for each socket; more often than this, it would
/// disturb what it looks at.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Time between two lists of all sockets in a host that runs programs. To make
/// one takes about a millisecond.
const LIST_EVERY: Duration = Duration::from_millis(250);

/// Both addresses of a socket: its own first.
pub type Ends = (SocketAddr, SocketAddr);

/// What a sampler watches in one host.
#[derive(Debug)]
pub struct Sampler {
    /// The host whose namespace the thread is in.
    pub host: HostIndex,
    /// Time between looks.
    pub interval: Duration,
    /// The run's clock.
    pub clock: Clock,
    /// Who is told of the plan's flows.
    pub reporter: Reporter,
    /// Sockets that send the plan's flows; the flow itself takes the last
    /// look, so that nothing of its end is missed.
    pub senders: BTreeMap<Ends, Arc<Mutex<Watch>>>,
    /// Sockets that get the plan's flows: not looked at.
    pub receivers: Vec<Ends>,
    /// Whether programs run in the host, whose sockets are looked for.
    pub programs: bool,
}

/// A TCP socket that is not the plan's: a command's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSocket {
    /// The host that it is in.
    pub host: HostIndex,
    /// Its own address.
    pub local: SocketAddr,
    /// Its peer's.
    pub remote: SocketAddr,
    /// Its congestion control, by the kernel's name.
    pub congestion_control: String,
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Whether it was AccECN.
    pub accecn: bool,
    /// What was seen, and when.
    pub samples: Vec<(Instant, FlowSample)>,
}

impl Sampler {
    /// Looks at the host's sockets until it is stopped; to be called on a
    /// thread in the host's namespace. Gives back what it saw of sockets that
    /// are not the plan's.
    ///
    /// # Errors
    /// If the kernel cannot list sockets.
    pub fn run(self, stop: &Stop) -> io::Result<Vec<OtherSocket>> {
        let mut diag = Diag::open()?;
        let layout = EcnLayout::of_this_kernel();
        let interval = self.interval.max(SHORTEST_INTERVAL);
        let mut others: BTreeMap<Ends, OtherSocket> = BTreeMap::new();
        let mut due = Instant::ZERO + interval;
        let mut list = Instant::ZERO;
        while stop.wait_until(&self.clock, due) == Wait::Due {
            let now = self.clock.now();
            for (&(local, remote), watch) in &self.senders {
                let Some(socket) = diag.tcp_socket(local, remote)? else {
                    continue;
                };
                let at = self.clock.now();
                watch.lock().unwrap_or_else(PoisonError::into_inner).look(
                    at,
                    &socket.info,
                    &mut |r| self.reporter.report(at, r),
                );
            }
            if self.programs && now >= list {
                list = now + LIST_EVERY;
                for socket in diag.tcp_sockets()? {
                    let ends = (socket.local, socket.remote);
                    if !self.senders.contains_key(&ends) && !self.receivers.contains(&ends) {
                        let new = || OtherSocket::new(self.host, &socket);
                        others.entry(ends).or_insert_with(new);
                    }
                }
            }
            for (&(local, remote), other) in &mut others {
                if let Some(socket) = diag.tcp_socket(local, remote)? {
                    other.look(self.clock.now(), &socket, layout);
                }
            }
            // A look that was late does not make the next ones late, and is
            // not made up for.
            while due <= now {
                due += interval;
            }
        }
        let mut others: Vec<OtherSocket> = others.into_values().collect();
        others.sort_by_key(|o| (o.samples.first().map(|s| s.0), o.local, o.remote));
        Ok(others)
    }
}

impl OtherSocket {
    fn new(host: HostIndex, socket: &DiagSocket) -> Self {
        Self {
            host,
            local: socket.local,
            remote: socket.remote,
            congestion_control: String::new(),
            ecn: false,
            accecn: false,
            samples: Vec::new(),
        }
    }

    fn look(&mut self, at: Instant, socket: &DiagSocket, layout: EcnLayout) {
        if self.congestion_control != socket.congestion_control {
            self.congestion_control
                .clone_from(&socket.congestion_control);
        }
        self.ecn = socket.info.ecn();
        self.accecn = layout.accecn(&socket.info);
        self.samples.push((at, socket.info.sample()));
    }
}
