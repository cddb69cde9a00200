//! One of a daemon's threads at work: its sockets, its tunnels, and names that it waits for.

use narrows_units::Duration;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use tracing::error;

use super::error::PepError;
use super::names::Names;
use super::peers::{Message, Peers};
use super::server::Server;

/// Tokens of what is no socket of the proxy's.
const NAMES: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;

/// The greatest token that is free for others.
pub(super) const FREE: u64 = u64::MAX - 2;

/// How often it is seen, while names wait, whether a place is free by time.
const PLACES: Duration = Duration::from_millis(500);

/// What a thread works with.
pub(super) struct Worker {
    pub server: Server,
    names: Names,
    peers: Peers,
    drained: bool,
    ended: bool,
}

impl Worker {
    pub fn new(server: Server, peers: Peers, names: Names) -> Result<Self, PepError> {
        for (fd, token) in [(names.signal(), NAMES), (peers.signal(), MAILBOX)] {
            let watched = server.watch(fd, token);
            watched.map_err(PepError::setup("wait for signals"))?;
        }
        Ok(Self {
            server,
            names,
            peers,
            drained: false,
            ended: false,
        })
    }

    /// Waits for what happens, at most for `longest`, and serves it; the tokens of what else is
    /// ready.
    pub fn turn(&mut self, longest: Option<Duration>) -> nix::Result<Vec<u64>> {
        let waits = self.names.wait();
        let next = waits.then_some(PLACES);
        let mut others = self
            .server
            .wait([longest, next].into_iter().flatten().min())?;
        if take(&mut others, MAILBOX) {
            self.read_mailbox();
        }
        self.server.serve();
        if take(&mut others, NAMES) {
            let Server { machine, proxy, .. } = &mut self.server;
            for (id, addresses) in self.names.found() {
                match addresses {
                    Some(addresses) => proxy.resolved(machine, id, &addresses),
                    None => proxy.name_refused(machine, id),
                }
                machine.end_turn();
            }
        }
        let proxy = &mut self.server.proxy;
        let (names, unwanted) = (proxy.take_names(), proxy.take_unwanted_names());
        self.names.ask(names, &unwanted);
        if waits {
            self.names.go_on();
        }
        if self.server.proxy.is_drained() && !std::mem::replace(&mut self.drained, true) {
            self.peers.drained();
        }
        Ok(others)
    }

    fn read_mailbox(&mut self) {
        for message in self.peers.messages() {
            match message {
                Message::Client(client) => self.server.machine.take_over(client),
                Message::Work(work) => {
                    work(&mut self.server);
                    self.server.machine.end_turn();
                }
                Message::End => self.ended = true,
            }
        }
    }

    /// Serves until it receives [`Message::End`].
    pub fn run(mut self) {
        let _end = End(self.peers.clone());
        while !self.ended {
            if let Err(why) = self.turn(None) {
                error!("cannot wait for sockets: {why}");
                return;
            }
        }
    }
}

/// Notes that a thread has ended, whatever ended it.
struct End(Peers);

impl Drop for End {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Takes `token` out of `tokens`; whether it was there.
fn take(tokens: &mut Vec<u64>, token: u64) -> bool {
    let before = tokens.len();
    tokens.retain(|other| *other != token);
    tokens.len() < before
}

/// What a thread waits with.
pub(super) fn epoll() -> Result<Epoll, PepError> {
    Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(PepError::setup("wait for sockets"))
}
