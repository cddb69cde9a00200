//! A proxy at work over the machine's sockets.

use std::os::fd::AsFd;

use narrows_packet::{App, Sockets};
use narrows_pep::Proxy;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};

use super::sockets::Machine;

/// Events that are taken from the kernel at a time.
const EVENTS: usize = 512;

/// The proxy and its sockets.
pub(super) struct Server {
    pub machine: Machine,
    pub proxy: Proxy,
    ready: Vec<EpollEvent>,
}

impl Server {
    pub fn new(machine: Machine, proxy: Proxy) -> Self {
        Self {
            machine,
            proxy,
            ready: vec![EpollEvent::empty(); EVENTS],
        }
    }

    /// Waits for `fd` as well; it has `token`, whose upper half is all ones.
    pub fn watch(&self, fd: impl AsFd, token: u64) -> nix::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        self.machine.epoll().add(fd, event)
    }

    pub fn now(&self) -> Instant {
        self.machine.now()
    }

    /// Waits for what happens, at most for `longest`, and serves it; the tokens of what
    /// else is ready.
    pub fn turn(&mut self, longest: Option<Duration>) -> nix::Result<Vec<u64>> {
        let others = self.wait(longest)?;
        self.serve();
        Ok(others)
    }

    /// Waits for what happens, at most for `longest`; the tokens of what is no socket of the
    /// proxy's.
    pub fn wait(&mut self, longest: Option<Duration>) -> nix::Result<Vec<u64>> {
        self.machine.tick();
        let times = [self.machine.patience(), longest];
        let timeout = match times.into_iter().flatten().min() {
            None => EpollTimeout::NONE,
            Some(Duration::ZERO) => EpollTimeout::ZERO,
            // Not before: a millisecond more.
            Some(time) => {
                let ms = u16::try_from(time.as_millis() + 1).unwrap_or(u16::MAX);
                EpollTimeout::from(ms)
            }
        };
        let count = match self.machine.epoll().wait(&mut self.ready, timeout) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(why) => return Err(why),
        };
        self.machine.tick();
        let mut others = Vec::new();
        for event in &self.ready[..count] {
            match event.data() {
                token if token >> 32 == u64::from(u32::MAX) => others.push(token),
                token => self.machine.ready(token, event.events()),
            }
        }
        Ok(others)
    }

    /// Serves what has happened.
    pub fn serve(&mut self) {
        self.machine.go_on();
        if self.machine.expired() {
            self.proxy.on_timer(&mut self.machine);
            self.machine.end_turn();
        }
        while let Some((socket, event)) = self.machine.next_event() {
            self.proxy.on_event(socket, event, &mut self.machine);
            self.machine.end_turn();
        }
    }
}
