//! The addresses of names, found by the machine's own resolver: `/etc/hosts`, DNS or whatever
//! `nsswitch.conf` says. It blocks, so that it is asked by threads of their own.

use std::collections::VecDeque;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nix::sys::eventfd::{EfdFlags, EventFd};
use tracing::debug;

/// Names that a process asks for at a time; the others wait for these (our choice: a name
/// whose server is silent takes a thread for some ten seconds, resolv.conf(5)).
pub(super) const AT_ONCE: usize = 64;

/// A name's number, and its addresses.
type Found = (u64, Vec<IpAddr>);

/// Finds addresses.
pub(super) struct Names {
    /// How many are asked for at a time.
    most: usize,
    waiting: VecDeque<(u64, String)>,
    running: usize,
    sender: Sender<Found>,
    receiver: Receiver<Found>,
    /// Becomes readable when addresses are there.
    signal: Arc<EventFd>,
}

impl Names {
    /// Asks for the addresses of at most `most` names at a time.
    pub fn new(most: usize) -> nix::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let (sender, receiver) = channel();
        Ok(Self {
            most,
            waiting: VecDeque::new(),
            running: 0,
            sender,
            receiver,
            signal: Arc::new(EventFd::from_value_and_flags(0, flags)?),
        })
    }

    /// Becomes readable when [`found`](Self::found) has something.
    pub fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Asks for the addresses of these names.
    pub fn ask(&mut self, names: Vec<(u64, String)>) {
        self.waiting.extend(names);
        while self.running < self.most {
            let Some((id, name)) = self.waiting.pop_front() else {
                return;
            };
            self.running += 1;
            let (sender, signal) = (self.sender.clone(), Arc::clone(&self.signal));
            let answer = move |addresses| {
                // Nobody waits for it any more once the daemon has ended.
                let _ = sender.send((id, addresses));
                let _ = signal.write(1);
            };
            let give_up = answer.clone();
            let resolver = thread::Builder::new().name("resolver".to_owned());
            if resolver.spawn(move || answer(addresses_of(&name))).is_err() {
                give_up(Vec::new());
            }
        }
    }

    /// What was found since the last call; those that wait are asked for.
    pub fn found(&mut self) -> Vec<Found> {
        let _ = self.signal.read();
        let found: Vec<Found> = self.receiver.try_iter().collect();
        self.running -= found.len();
        self.ask(Vec::new());
        found
    }
}

fn addresses_of(name: &str) -> Vec<IpAddr> {
    match (name, 0).to_socket_addrs() {
        Ok(all) => all.map(|address| address.ip()).collect(),
        Err(why) => {
            debug!(name, %why, "no address");
            Vec::new()
        }
    }
}
