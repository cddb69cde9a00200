//! A proxy at work over the machine's sockets.

use std::os::fd::AsFd;

use narrows_core::{App, Sockets};
use narrows_pep::Proxy;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};

use super::sockets::OsSockets;

/// Events that are taken from the kernel at a time.
const EVENTS: usize = 512;

/// The proxy and its sockets.
pub(super) struct Server {
    pub machine: OsSockets,
    pub proxy: Proxy,
    ready: Vec<EpollEvent>,
}

impl Server {
    pub fn new(machine: OsSockets, proxy: Proxy) -> Self {
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
        self.serve_events();
        self.machine.go_on_later();
        self.serve_events();
    }

    fn serve_events(&mut self) {
        while let Some((socket, event)) = self.machine.next_event() {
            self.proxy.on_event(socket, event, &mut self.machine);
            self.machine.end_turn();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use narrows_core::SocketId;
    use narrows_pep::{Intake, Limits, Listener, Policy, Terms};
    use nix::sys::socket::{getsockopt, sockopt};

    use super::*;
    use crate::pep::leg::plain;
    use crate::pep::turns::{ACCEPTED, TURN};
    use crate::pep::worker::epoll;

    /// One whose clients are led to `target`, and at most so many.
    fn leads_to(target: SocketAddr, tunnels: usize) -> (Server, SocketAddr) {
        serves(target, tunnels, Intake::Transparent)
    }

    /// The same, by requests where they are taken.
    fn serves(target: SocketAddr, tunnels: usize, intake: Intake) -> (Server, SocketAddr) {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let local = free.local_addr().expect("bound");
        let origin = move |_: &_, _| Some(target);
        let machine = OsSockets::new(epoll().expect("an epoll"), vec![free], Box::new(origin));
        let mut machine = machine.expect("a socket");
        let profile = machine.add_profile(plain(false, false));
        let listener = Listener {
            near: profile,
            local,
            far: profile,
            onward_from: None,
            terms: Terms {
                intake,
                policy: Policy {
                    anywhere: true,
                    ..Policy::default()
                },
                ..Terms::default()
            },
            parent: None,
            flow: None,
            near_rate: None,
            far_rate: None,
        };
        let limits = Limits {
            tunnels,
            ..Limits::default()
        };
        let mut proxy = Proxy::new(vec![listener], limits);
        proxy.start(&mut machine).expect("it listens");
        (Server::new(machine, proxy), local)
    }

    /// Takes turns until `holds`.
    fn turns(server: &mut Server, mut holds: impl FnMut(&Server) -> bool) -> bool {
        let step = Some(Duration::from_millis(10));
        (0..2_000).any(|_| {
            server.turn(step).expect("a turn");
            holds(server)
        })
    }

    /// A tunnel's ends, of which none blocks.
    fn tunnel(server: &mut Server, at: SocketAddr, target: &TcpListener) -> (TcpStream, TcpStream) {
        let before = server.proxy.counters().opened;
        let client = TcpStream::connect(at).expect("it listens");
        assert!(turns(server, |s| s.proxy.counters().opened > before));
        let (far, _) = target.accept().expect("it connects");
        for end in [&client, &far] {
            end.set_nonblocking(true).expect("set");
        }
        (client, far)
    }

    #[test]
    fn tunnels_that_move_much_leave_others_their_turn_and_none_is_forgotten() {
        const FULL: usize = 6;
        let target = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut server, at) = leads_to(target.local_addr().expect("bound"), FULL + 1);
        let (mut small, mut word_at) = tunnel(&mut server, at, &target);
        let full: Vec<_> = (0..FULL)
            .map(|_| tunnel(&mut server, at, &target))
            .collect();
        let data = vec![1; 1 << 20];
        let mut sink = vec![0; 1 << 20];
        let (mut sent, mut received) = ([0; FULL], [0; FULL]);
        let mut exchange = |sent: &mut [usize; FULL], more: bool| {
            let mut drained = true;
            for (i, (client, far)) in full.iter().enumerate() {
                let (mut client, mut far) = (client, far);
                while let Ok(bytes) = far.read(&mut sink) {
                    received[i] += bytes;
                }
                if let Some(bytes) = more.then(|| client.write(&data)).and_then(Result::ok) {
                    sent[i] += bytes;
                }
                drained &= received[i] == sent[i];
            }
            drained
        };
        // Until they are known to move much.
        for _ in 0..50 {
            exchange(&mut sent, true);
            server.turn(Some(Duration::ZERO)).expect("a turn");
        }
        for _ in 0..50 {
            exchange(&mut sent, true);
            small.write_all(b"word").expect("sent");
            let before = server.proxy.counters().bytes_up;
            server.turn(Some(Duration::ZERO)).expect("a turn");
            let mut word = [0; 4];
            word_at
                .read_exact(&mut word)
                .expect("passed on in that turn");
            let moved = server.proxy.counters().bytes_up - before;
            // Of the six; one more may have been known to move little.
            assert!(moved <= 2 * TURN as u64 + 4, "{moved}");
        }
        assert!(turns(&mut server, |_| exchange(&mut sent, false)));
    }

    #[test]
    fn clients_without_end_leave_tunnels_their_turn_and_none_is_forgotten() {
        const STORM: u64 = 100;
        let target = TcpListener::bind("127.0.0.1:0").expect("a port");
        // The first is within the limit, all others are beyond.
        let (mut server, at) = leads_to(target.local_addr().expect("bound"), 1);
        let (mut client, mut far) = tunnel(&mut server, at, &target);
        // All of them wait to be accepted.
        let _storm: Vec<_> = (0..STORM)
            .map(|_| TcpStream::connect(at).expect("it listens"))
            .collect();
        let before = server.proxy.counters().accepted;
        for turn in 1..=5 {
            client.write_all(b"word").expect("sent");
            server.turn(Some(Duration::ZERO)).expect("a turn");
            let mut word = [0; 4];
            far.read_exact(&mut word).expect("passed on in that turn");
            assert_eq!(&word, b"word");
            let accepted = server.proxy.counters().accepted - before;
            assert!(accepted <= turn * ACCEPTED as u64, "{accepted} in {turn}");
        }
        // The kernel reports those that wait no second time.
        assert!(turns(&mut server, |s| {
            s.proxy.counters().over_tunnels == STORM
        }));
    }

    #[test]
    fn a_connection_that_is_probed_is_asked_for_life_after_that_silence() {
        let target = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (mut server, at) = leads_to(target.local_addr().expect("bound"), 1);
        let _ends = tunnel(&mut server, at, &target);
        let silences = |server: &mut Server| -> Vec<u32> {
            let sockets = (0..8).map(SocketId);
            let all = sockets.filter_map(|socket| {
                let token = server.machine.token(socket);
                let fd = &server.machine.stream(token)?.fd;
                getsockopt(fd, sockopt::TcpKeepIdle).ok()
            });
            all.collect()
        };
        let before = silences(&mut server);
        assert!(before.len() == 2 && before.iter().all(|s| *s != 33));
        for socket in (0..8).map(SocketId) {
            server.machine.probe(socket, Duration::from_secs(33));
        }
        assert_eq!(silences(&mut server), [33, 33]);
    }
}
