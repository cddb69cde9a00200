//! Samples of TCP sockets while a run goes on.
//!
//! A sampler asks for TCP sockets of a host's namespace through netlink, each by
//! its addresses: to list them all costs a hundred times as much, and the
//! path would be late for it. It reports the events that a simulated sender
//! would ([`SenderWatch`] says what is seen and what is not).

mod watch;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_linux::diag::Diag;
use narrows_linux::{Stop, Wait};
use narrows_units::{Duration, Instant};

use crate::{Clock, Reporter};

pub use watch::SenderWatch;

/// A sample costs about 10 µs for each socket; more often than this, it would
/// disturb what it measures.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Both addresses of a socket: its own first.
pub type SocketPair = (SocketAddr, SocketAddr);

/// What a sampler watches in one host.
#[derive(Debug)]
pub struct Sampler {
    /// Time between samples.
    pub interval: Duration,
    /// The run's clock.
    pub clock: Clock,
    /// Receives the samples of the plan's flows.
    pub reporter: Reporter,
    /// Sockets that send the plan's flows; the flow itself takes the last
    /// sample, so that nothing of its end is missed.
    pub senders: BTreeMap<SocketPair, Arc<Mutex<SenderWatch>>>,
}

impl Sampler {
    /// Samples the flows' sockets until it is stopped; to be called on a thread in
    /// the host's namespace.
    ///
    /// # Errors
    /// If the kernel cannot show sockets.
    pub fn run(self, stop: &Stop) -> io::Result<()> {
        let mut diag = Diag::open()?;
        let interval = self.interval.max(SHORTEST_INTERVAL);
        let mut due = Instant::ZERO + interval;
        while stop.wait_until(&self.clock, due) == Wait::Due {
            let now = self.clock.now();
            for (&(local, remote), watch) in &self.senders {
                let Some(info) = diag.tcp_info(local, remote)? else {
                    continue;
                };
                let at = self.clock.now();
                watch
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .sample(at, &info, &mut |r| self.reporter.report(at, r));
            }
            // A sample that was late does not make the next ones late, and is
            // not made up for.
            while due <= now {
                due += interval;
            }
        }
        Ok(())
    }
}
