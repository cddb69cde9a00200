//! Serving a host's sockets: events to their applications, packets into ports, timers.

use std::collections::VecDeque;
use std::net::SocketAddr;

use narrows_host::Ends;
use narrows_packet::{
    Endpoint, EndpointEvent, Event, Packet, Role, SocketError, SocketEvent, SocketId,
};
use narrows_path::wakes::Slot;
use narrows_units::Instant;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::host::{Host, MadeBy, PORTS};
use super::socket::{Carrier, Kind, Socket, Stream};

/// Rounds of events and writes of a socket, before others have their turn.
const ROUNDS: usize = 4;

impl Host {
    /// Socket `s` is ready for what `flags` say.
    pub(super) fn ready(&mut self, s: u32, flags: EpollFlags) {
        let Some(socket) = self.sockets.get_mut(s as usize).and_then(Option::as_mut) else {
            return;
        };
        match (&mut socket.kind, socket.app) {
            (Kind::Stream(stream), _) => {
                if let Some(tcp) = stream.kernel() {
                    tcp.ready(flags);
                }
                self.touch(s);
            }
            (Kind::KernelListener(_), Some(app)) => self.call(app, |app, host| {
                app.on_event(SocketId(s), SocketEvent::Incoming, host);
            }),
            _ => self.offer_data(s),
        }
    }

    /// UDP port `p` is ready for what `flags` say.
    pub(super) fn port_ready(&mut self, p: usize, flags: EpollFlags) {
        let Some(port) = self.ports.get_mut(p).and_then(Option::as_mut) else {
            return;
        };
        if flags.contains(EpollFlags::EPOLLOUT) {
            port.flush(&mut self.pool);
            let waiting: Vec<u32> = port.connections.values().copied().collect();
            for s in waiting {
                self.touch(s);
            }
        }
        let Some(port) = &mut self.ports[p] else {
            return;
        };
        let received = port.receive(&self.clock, &mut self.pool, &mut self.buffer);
        for (remote, packet) in received {
            self.receive(p, remote, packet);
        }
        self.settle();
        self.watch_port(p);
    }

    /// A packet for a connection of port `p`, or for one that is yet to be.
    fn receive(&mut self, p: usize, remote: SocketAddr, packet: Box<Packet>) {
        let port = self.ports[p].as_ref();
        let known = port.and_then(|port| port.connections.get(&remote).copied());
        let s = known.or_else(|| self.incoming(p, remote));
        if let Some(endpoint) = s.and_then(|s| self.endpoint(s)) {
            // Made when it was received.
            endpoint.receive(packet.born, &packet);
        }
        self.pool.give(packet);
        if let Some(s) = s {
            self.mark_dirty(s);
        }
    }

    /// A connection that comes to port `p`; `None` where nobody waits for one.
    fn incoming(&mut self, p: usize, remote: SocketAddr) -> Option<u32> {
        let (local, listener) = self.ports[p].as_ref().map(|p| (p.local(), p.listener))?;
        let listener = listener?;
        let parent = self.sockets[listener as usize].as_mut()?;
        let profile = parent.profile;
        let Kind::Listener {
            waiting, backlog, ..
        } = &mut parent.kind
        else {
            return None;
        };
        // Dropped, as Linux does where its accept queue has no room.
        if *waiting >= *backlog {
            return None;
        }
        *waiting += 1;
        let endpoint = self.make(profile, Role::Responder, local, remote)?;
        let stream = Stream {
            listener: Some(listener),
            ..Stream::new(Carrier::Port(endpoint, p), remote)
        };
        let s = self.open(Kind::Stream(stream), None, profile);
        self.ports[p].as_mut()?.connections.insert(remote, s);
        Some(s)
    }

    /// A new end of a connection over UDP.
    pub(super) fn make(
        &mut self,
        profile: usize,
        role: Role,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<Box<dyn Endpoint>> {
        let profile = &mut self.profiles[profile];
        let MadeBy::Us(maker) = &mut profile.made_by else {
            return None;
        };
        let ends = Ends {
            role,
            local,
            remote,
            mtu: profile.mtu,
            cookie: None,
        };
        maker.endpoint(self.seed, &ends)
    }

    /// Gives a socket a number.
    pub(super) fn open(&mut self, kind: Kind, app: Option<usize>, profile: usize) -> u32 {
        let socket = Some(Socket {
            kind,
            app,
            profile,
            dirty: false,
        });
        let s = self.free.pop().unwrap_or(self.sockets.len() as u32);
        if s as usize == self.sockets.len() {
            self.sockets.push(socket);
        } else {
            self.sockets[s as usize] = socket;
        }
        self.wakes.reserve(self.socket_slot(s) + 1);
        s
    }

    /// Waits for socket `s` of the kernel's from now on: each change of its readiness is
    /// reported once.
    pub(super) fn watch_socket(&mut self, s: u32) -> Result<(), SocketError> {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return Ok(());
        };
        let fd = match &mut socket.kind {
            Kind::Stream(stream) => stream.kernel().and_then(|tcp| tcp.socket()),
            Kind::KernelListener(fd) => Some(&*fd),
            Kind::Datagrams(datagrams) => Some(&datagrams.socket),
            Kind::Listener { .. } => None,
        };
        let Some(fd) = fd else { return Ok(()) };
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        let event = EpollEvent::new(flags, u64::from(s));
        self.epoll
            .add(fd, event)
            .map_err(|e| SocketError::System(e as i32))
    }

    /// Waits for what port `p` is waited for now.
    fn watch_port(&mut self, p: usize) {
        let Some(port) = &self.ports[p] else { return };
        let mut flags = EpollFlags::EPOLLIN;
        if !port.has_room() {
            flags |= EpollFlags::EPOLLOUT;
        }
        let _ = self
            .epoll
            .modify(&port.io, &mut EpollEvent::new(flags, PORTS + p as u64));
    }

    pub(super) fn endpoint(&mut self, s: u32) -> Option<&mut dyn Endpoint> {
        let socket = self.sockets.get_mut(s as usize)?.as_mut()?;
        socket.stream().map(Stream::endpoint)
    }

    pub(super) fn mark_dirty(&mut self, s: u32) {
        if let Some(socket) = &mut self.sockets[s as usize] {
            if !std::mem::replace(&mut socket.dirty, true) {
                self.dirty.push_back(s);
            }
        }
    }

    /// Serves the sockets that wait to be served.
    pub(super) fn settle(&mut self) {
        for _ in 0..self.dirty.len() {
            let Some(s) = self.dirty.pop_front() else {
                return;
            };
            if let Some(socket) = &mut self.sockets[s as usize] {
                socket.dirty = false;
                self.touch(s);
            }
        }
    }

    /// The time for which connection `s` asked.
    pub(super) fn socket_timeout(&mut self, now: Instant, s: u32, slot: Slot) {
        let due = self.endpoint(s).and_then(Endpoint::next_timeout);
        if due.is_none_or(|t| t > now) {
            // The deadline has moved away since it was noted.
            self.wakes.serve(slot, due);
            return;
        }
        if let Some(endpoint) = self.endpoint(s) {
            endpoint.on_timeout(now);
        }
        self.touch(s);
        let next = self.endpoint(s).and_then(Endpoint::next_timeout);
        self.wakes.serve(slot, next);
    }

    /// Reports what happened to a connection, lets its application write, sends what it
    /// has to send, and sets its timer: to be called after every call that may change it.
    pub(super) fn touch(&mut self, s: u32) {
        let outer = self.current.replace(s);
        let mut busy = true;
        for round in 0..ROUNDS {
            self.changed = false;
            let mut news = false;
            // Those that come meanwhile have the next round.
            while let Some(event) = self.next_event(s) {
                self.dispatch(s, event);
                news = true;
                if self.changed {
                    break;
                }
            }
            self.offer_room(s);
            busy = news || self.changed;
            if round > 0 && !busy {
                break;
            }
            self.transmit(s);
        }
        self.current = outer;
        if busy {
            self.mark_dirty(s);
        }
        let next = self.endpoint(s).and_then(Endpoint::next_timeout);
        let slot = self.socket_slot(s);
        self.wakes.at_latest(slot, next);
        self.bury(s);
    }

    /// The next event of a connection, first those that came before it was accepted.
    fn next_event(&mut self, s: u32) -> Option<EndpointEvent> {
        let stream = self.sockets[s as usize].as_mut()?.stream()?;
        if stream.listener.is_none() {
            if let Some(held) = stream.held.pop_front() {
                return Some(held);
            }
        }
        stream.endpoint().poll_event()
    }

    fn dispatch(&mut self, s: u32, event: EndpointEvent) {
        let Some(socket) = &self.sockets[s as usize] else {
            return;
        };
        let options = &self.profiles[socket.profile];
        let flow = options.flow.filter(|_| options.sends);
        let report = match (event, flow) {
            (EndpointEvent::Socket(event), _) => return self.report(s, event),
            (_, None) => return,
            (EndpointEvent::Rtt(rtt), Some(flow)) => Event::RttSample { flow, rtt },
            (EndpointEvent::Recovery(event), Some(flow)) => Event::Recovery { flow, event },
            (EndpointEvent::Retransmitted { bytes }, Some(flow)) => {
                Event::Retransmitted { flow, bytes }
            }
        };
        self.reporter.report(self.clock.now(), report);
    }

    /// Reports an event of socket `s` to its application.
    fn report(&mut self, s: u32, event: SocketEvent) {
        self.announce(s, event);
        match event {
            SocketEvent::Established { .. } => self.look(s, false),
            SocketEvent::PeerClosed | SocketEvent::Broken(_) => self.look(s, true),
            _ => {}
        }
        if let SocketEvent::Broken(breakage) = event {
            self.note_breakage(s, &breakage.to_string());
        }
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let app = socket.app;
        if let Some(stream) = socket.stream().filter(|stream| stream.listener.is_some()) {
            // Nobody has accepted it yet.
            stream.held.push_back(EndpointEvent::Socket(event));
            return;
        }
        if let Some(app) = app {
            self.call(app, |app, host| app.on_event(SocketId(s), event, host));
        }
    }

    /// Keeps why the connection of a flow is gone.
    fn note_breakage(&mut self, s: u32, breakage: &str) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let profile = socket.profile;
        let tcp = socket.stream().and_then(|stream| stream.kernel());
        let failure = tcp.and_then(|tcp| tcp.failure());
        let sentence = failure.unwrap_or_else(|| format!("was broken off: {breakage}"));
        if let Some(end) = self.end_of(profile) {
            end.broken.get_or_insert(sentence);
        }
    }

    /// Tells the listener of a connection that is open that it may be accepted; takes back
    /// one that broke before it was.
    fn announce(&mut self, s: u32, event: SocketEvent) {
        let Some(stream) = self.sockets[s as usize].as_mut().and_then(Socket::stream) else {
            return;
        };
        let Some(listener) = stream.listener else {
            return;
        };
        let Some(parent) = &mut self.sockets[listener as usize] else {
            return;
        };
        let Kind::Listener {
            pending, waiting, ..
        } = &mut parent.kind
        else {
            return;
        };
        if matches!(event, SocketEvent::Broken(_)) {
            pending.retain(|p| *p != s);
            *waiting = waiting.saturating_sub(1);
            self.disown(s);
            return;
        }
        if pending.contains(&s) {
            return;
        }
        pending.push_back(s);
        if let Some(app) = parent.app {
            self.call(app, |app, host| {
                app.on_event(SocketId(listener), SocketEvent::Incoming, host);
            });
        }
    }

    /// Resets the connections of a listener that nobody will accept any more.
    pub(super) fn reset_waiting(&mut self, now: Instant, listener: u32) {
        for s in 0..self.sockets.len() as u32 {
            let stream = self.sockets[s as usize].as_mut().and_then(Socket::stream);
            if let Some(stream) = stream.filter(|s| s.listener == Some(listener)) {
                stream.endpoint().abort(now);
                self.disown(s);
                self.mark_dirty(s);
            }
        }
    }

    /// Nobody will accept connection `s` any more.
    pub(super) fn disown(&mut self, s: u32) {
        if let Some(stream) = self.sockets[s as usize].as_mut().and_then(Socket::stream) {
            (stream.listener, stream.held) = (None, VecDeque::new());
        }
    }

    /// Lets the application of `s` write, if it asked to and there is room.
    fn offer_room(&mut self, s: u32) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let app = socket.app;
        let stream = socket.stream();
        let writable = stream.is_some_and(|s| s.wants_room && s.endpoint().room() > 0);
        if let Some(app) = app.filter(|_| writable) {
            self.call(app, |app, host| {
                app.on_event(SocketId(s), SocketEvent::Writable, host);
            });
        }
    }

    /// Sends all that a connection over UDP has to send now.
    fn transmit(&mut self, s: u32) {
        let socket = self.sockets[s as usize].as_mut();
        let Some(stream) = socket.and_then(Socket::stream) else {
            return;
        };
        let Carrier::Port(endpoint, p) = &mut stream.carrier else {
            return;
        };
        let p = *p;
        let Some(port) = &mut self.ports[p] else {
            return;
        };
        while port.has_room() {
            let now = self.clock.now();
            let Some(packet) = endpoint.poll_transmit(now, &mut self.pool) else {
                return;
            };
            port.send(stream.remote, packet, &mut self.pool);
        }
        self.watch_port(p);
    }

    /// Forgets socket `s` if its application is done with it and its connection is over.
    pub(super) fn bury(&mut self, s: u32) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let mine = socket.app.is_some();
        let lives =
            |stream: &mut Stream| stream.listener.is_some() || !stream.endpoint().is_closed();
        if mine || socket.stream().is_some_and(lives) {
            return;
        }
        let Some(socket) = self.sockets[s as usize].take() else {
            return;
        };
        self.free.push(s);
        self.lazy.remove(&s);
        self.wakes.set(self.socket_slot(s), None);
        match socket.kind {
            Kind::Stream(Stream {
                carrier: Carrier::Port(_, p),
                remote,
                ..
            }) => self.leave_port(p, |port| {
                port.connections.remove(&remote);
            }),
            Kind::Listener { port, .. } => self.leave_port(port, |port| port.listener = None),
            _ => {}
        }
    }

    /// Takes something off port `p`, and the port away that nobody uses.
    fn leave_port(&mut self, p: usize, leave: impl FnOnce(&mut crate::flows::udp::Port)) {
        if let Some(port) = &mut self.ports[p] {
            leave(port);
            if port.is_idle() {
                self.ports[p] = None;
            }
        }
    }

    /// Reports samples of flows whose senders the kernel does not know.
    pub(super) fn sample(&mut self, now: Instant) {
        for socket in self.sockets.iter_mut().flatten() {
            let options = &self.profiles[socket.profile];
            let Some(flow) = options.flow.filter(|_| options.sends) else {
                continue;
            };
            let Some(stream) = socket.stream() else {
                continue;
            };
            if let Carrier::Port(endpoint, _) = &stream.carrier {
                let reporter = &self.reporter;
                let record = &mut |event| reporter.report(now, event);
                narrows_host::sample(&**endpoint, flow, None, &mut stream.limited, now, record);
            }
        }
    }
}
