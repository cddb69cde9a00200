//! Serving sockets: events to their applications, packets into the network, timers.

use std::net::SocketAddr;

use narrows_core::{
    Endpoint, EndpointEvent, Event, FlowId, Profile, Role, SocketError, SocketEvent, SocketFacts,
    SocketId,
};
use narrows_path::wakes::Slot;
use narrows_units::Instant;
use narrows_wire::ip;

use crate::hosts::{Hosts, Net};
use crate::profile::{Ends, Known, Part, Transport};
use crate::socket::{Kind, Socket, Stream};

/// What a connection has to report.
enum News {
    /// Something happened.
    Event(EndpointEvent),
    /// This application may write.
    Room(usize),
}

impl Hosts {
    /// The time has come for which `slot` asked.
    #[inline]
    pub fn wake(&mut self, net: &mut Net<'_>, slot: Slot) {
        match self.slot_owner(slot) {
            Ok(app) => {
                net.paths.wakes.serve(slot, None);
                self.call(net, app, |app, host| app.on_timer(host));
            }
            Err(socket) => self.wake_socket(net, socket, slot),
        }
        self.settle(net);
    }

    #[inline]
    fn wake_socket(&mut self, net: &mut Net<'_>, s: u32, slot: Slot) {
        let due = self.endpoint(s).and_then(Endpoint::next_timeout);
        if due.is_none_or(|t| t > net.now) {
            // The deadline has moved away since it was noted.
            net.paths.wakes.serve(slot, due);
            return;
        }
        if let Some(endpoint) = self.endpoint(s) {
            endpoint.on_timeout(net.now);
        }
        let next = self.touch(net, s);
        net.paths.wakes.serve(slot, next);
    }

    /// Serves the sockets that applications have used.
    #[inline]
    pub(crate) fn settle(&mut self, net: &mut Net<'_>) {
        while let Some(s) = self.dirty.pop_front() {
            if let Some(socket) = &mut self.sockets[s as usize] {
                socket.dirty = false;
                self.touch(net, s);
            }
        }
    }

    pub(crate) fn endpoint(&mut self, s: u32) -> Option<&mut (dyn Endpoint + 'static)> {
        let stream = self.sockets.get_mut(s as usize)?.as_mut()?.stream()?;
        Some(&mut *stream.endpoint)
    }

    /// What a hook is given of socket `s`.
    pub(crate) fn facts(&mut self, s: u32) -> Option<SocketFacts> {
        self.endpoint(s)?.socket_facts()
    }

    /// Reports what happened to a connection, lets its application write, sends what it
    /// has to send, and sets its timer, which it returns: to be called after every call
    /// that may change it.
    pub(crate) fn touch(&mut self, net: &mut Net<'_>, s: u32) -> Option<Instant> {
        let outer = self.current.replace(s);
        let mut first = true;
        loop {
            self.changed = false;
            let mut news = false;
            loop {
                match self.next_news(s) {
                    Some(News::Event(event)) => self.dispatch(net, s, event),
                    // The application writes ahead before the connection sends, lest it
                    // seem to have nothing to send.
                    Some(News::Room(app)) => {
                        self.call(net, app, |app, host| {
                            app.on_event(SocketId(s), SocketEvent::Writable, host);
                        });
                        break;
                    }
                    None => break,
                }
                news = true;
            }
            if !first && !news && !self.changed {
                break;
            }
            // Sending may itself be worth an event (a retransmission).
            self.transmit(net, s);
            first = false;
        }
        self.current = outer;
        let next = self.endpoint(s).and_then(Endpoint::next_timeout);
        net.paths.wakes.at_latest(self.socket_slot(s), next);
        let reaped = self.reap(net, s);
        next.filter(|_| !reaped)
    }

    /// What a connection has to report next: first the events that came before it was
    /// accepted, and after all events room, if its application asked for that.
    fn next_news(&mut self, s: u32) -> Option<News> {
        let socket = self.sockets[s as usize].as_mut()?;
        let app = socket.app;
        let stream = socket.stream()?;
        let held = match stream.listener {
            None => stream.held.pop_front(),
            Some(_) => None,
        };
        if let Some(event) = held.or_else(|| stream.endpoint.poll_event()) {
            return Some(News::Event(event));
        }
        let has_room = stream.wants_room && stream.endpoint.room() > 0;
        app.filter(|_| has_room).map(News::Room)
    }

    fn dispatch(&mut self, net: &mut Net<'_>, s: u32, event: EndpointEvent) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let options = &self.profiles[socket.profile].options;
        let flow = options.flow.filter(|_| options.part == Part::Sends);
        let event = match (event, flow) {
            (EndpointEvent::Socket(event), _) => event,
            (_, None) => return,
            (EndpointEvent::Rtt(rtt), Some(flow)) => {
                return net.sink.record(net.now, Event::RttSample { flow, rtt });
            }
            (EndpointEvent::Recovery(event), Some(flow)) => {
                return net.sink.record(net.now, Event::Recovery { flow, event });
            }
            (EndpointEvent::Retransmitted { bytes }, Some(flow)) => {
                let event = Event::Retransmitted { flow, bytes };
                return net.sink.record(net.now, event);
            }
        };
        self.report(net, s, event);
    }

    /// Reports an event of socket `s` to its application.
    fn report(&mut self, net: &mut Net<'_>, s: u32, event: SocketEvent) {
        let Some(socket) = &mut self.sockets[s as usize] else {
            return;
        };
        let (node, remote) = (socket.node, socket.remote);
        if matches!(event, SocketEvent::Established { .. }) {
            let endpoint = self.endpoint(s);
            let cookie = endpoint.and_then(|e| e.fast_open_cookie().map(<[u8]>::to_vec));
            if let (Some(cookie), Some(remote)) = (cookie, remote) {
                self.nodes[node].cookies.insert(remote.ip(), cookie);
            }
        }
        self.announce(net, s, event);
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
            self.call(net, app, |app, host| {
                app.on_event(SocketId(s), event, host);
            });
        }
    }

    /// Notifies the listener of a connection that is open, or has data by Fast Open, that
    /// it may be accepted; takes back one that broke before it was.
    fn announce(&mut self, net: &mut Net<'_>, s: u32, event: SocketEvent) {
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
            stream_done(&mut self.sockets[s as usize]);
            return;
        }
        if pending.contains(&s) {
            return;
        }
        pending.push_back(s);
        if let Some(app) = parent.app {
            self.call(net, app, |app, host| {
                app.on_event(SocketId(listener), SocketEvent::Incoming, host);
            });
        }
    }

    /// Sends all that a connection has to send now.
    #[inline]
    fn transmit(&mut self, net: &mut Net<'_>, s: u32) {
        loop {
            let Some(socket) = &mut self.sockets[s as usize] else {
                return;
            };
            let (node, role) = (socket.node, socket.role);
            let Some(stream) = socket.stream() else {
                return;
            };
            let hop = stream.hop;
            let packet = stream.endpoint.poll_transmit(net.now, &mut net.paths.pool);
            let Some(packet) = packet else { return };
            self.send(net, node, hop, role, packet, Some(s));
        }
    }

    /// A connection that comes to `listener` from `remote`, to be answered with the initial
    /// sequence number `isn` of TCP if one is given; `None` where there is no way back.
    pub(crate) fn incoming(
        &mut self,
        net: &mut Net<'_>,
        listener: u32,
        remote: SocketAddr,
        isn: Option<u32>,
    ) -> Option<u32> {
        let parent = self.sockets[listener as usize].as_ref()?;
        let (node, profile) = (parent.node, parent.profile);
        let ends = Ends {
            role: Role::Responder,
            local: parent.local,
            remote,
            isn,
        };
        let child = self.stream(net, node, profile, ends).ok()?;
        self.wait_for_accept(child, listener);
        Some(child)
    }

    /// Whether `listener` may have one more connection that is not accepted.
    pub fn has_room(&self, listener: u32) -> bool {
        let listener = self.sockets.get(listener as usize).and_then(Option::as_ref);
        listener.is_some_and(|socket| match &socket.kind {
            Kind::Listener {
                waiting, backlog, ..
            } => waiting < backlog,
            _ => false,
        })
    }

    /// A connection from `remote` that the machine's own stack has given to `listener`:
    /// socket [`next_socket`](Self::next_socket).
    pub fn accepted(
        &mut self,
        net: &mut Net<'_>,
        listener: u32,
        remote: SocketAddr,
        endpoint: Box<dyn Endpoint>,
    ) {
        let Some(parent) = self.sockets[listener as usize].as_ref() else {
            return;
        };
        let (node, profile, local) = (parent.node, parent.profile, parent.local);
        let Some(hop) = self.hop(node, remote.ip()) else {
            return;
        };
        let stream = Stream::new(endpoint, hop);
        let socket = Socket::connected(stream, node, profile, Role::Responder, local, remote);
        if let Ok(child) = self.open_stream(net, socket) {
            self.wait_for_accept(child, listener);
            self.serve(net, child);
        }
    }

    /// Socket `s` may have something to report, or room.
    pub fn serve(&mut self, net: &mut Net<'_>, s: u32) {
        if self.sockets.get(s as usize).is_some_and(Option::is_some) {
            self.touch(net, s);
            self.settle(net);
        }
    }

    /// `child` waits until the application of `listener` accepts it.
    fn wait_for_accept(&mut self, child: u32, listener: u32) {
        let socket = self.sockets[child as usize].as_mut();
        if let Some(stream) = socket.and_then(Socket::stream) {
            stream.listener = Some(listener);
        }
        if let Some(Kind::Listener { waiting, .. }) = self.sockets[listener as usize]
            .as_mut()
            .map(|s| &mut s.kind)
        {
            *waiting += 1;
        }
    }

    /// Resets the connections of a closed listener that were not accepted, as Linux
    /// does when it is closed (`inet_csk_listen_stop`).
    pub(crate) fn reset_waiting(&mut self, now: Instant, listener: u32) {
        for (s, socket) in self.sockets.iter_mut().enumerate() {
            let waiting = socket.as_mut().and_then(Socket::stream);
            let waiting = waiting.filter(|stream| stream.listener == Some(listener));
            if let Some(stream) = waiting {
                stream.endpoint.abort(now);
                stream_done(socket);
                self.dirty.push_back(s as u32);
            }
        }
    }

    /// A new connection, not open yet.
    pub(crate) fn stream(
        &mut self,
        net: &mut Net<'_>,
        node: usize,
        profile: usize,
        ends: Ends,
    ) -> Result<u32, SocketError> {
        let Ends {
            role,
            local,
            remote,
            ..
        } = ends;
        let hop = self.way_to(node, remote.ip());
        let hop = hop.ok_or(SocketError::Unreachable(remote))?;
        let s = self.next_socket();
        // The links beyond the first are found out about: by TCP with ICMP (RFC 1191 §3), by QUIC
        // with its own probes (RFC 9000 §14.3).
        let mut mtu = self.links[hop.link].mtu;
        if self.profiles[profile].protocol() == ip::TCP {
            let known = self.nodes[node].path_mtu(net.now, remote.ip());
            mtu = known.unwrap_or(u32::MAX).min(mtu);
        }
        let cookie = self.nodes[node].cookies.get(&remote.ip());
        let made = &mut self.profiles[profile];
        let endpoint = match (&made.options.transport, &mut net.system) {
            (Transport::System, Some(system)) => {
                system.tcp(s, Profile(profile as u32), local, remote)?
            }
            _ => {
                let known = Known {
                    now: net.now,
                    mtu,
                    cookie: cookie.map(Vec::as_slice),
                };
                let endpoint = made.endpoint(self.seed, ends, known);
                endpoint.ok_or(SocketError::Unsupported)?
            }
        };
        let stream = Stream::new(endpoint, hop);
        let socket = Socket::connected(stream, node, profile, role, local, remote);
        self.open_stream(net, socket)
    }

    fn open_stream(&mut self, net: &mut Net<'_>, socket: Socket) -> Result<u32, SocketError> {
        let profile = socket.profile;
        let s = self.open(net, socket)?;
        let options = &self.profiles[profile].options;
        if let Some(FlowId(flow)) = options.flow {
            let sockets = &mut self.flows[flow as usize];
            match options.part {
                Part::Sends => sockets.sender = Some(s),
                Part::Receives => sockets.receiver = Some(s),
                Part::Relays => {}
            }
        }
        Ok(s)
    }

    /// The number of the socket that is opened next.
    pub fn next_socket(&self) -> u32 {
        let free = self.free.last().copied();
        free.unwrap_or(self.sockets.len() as u32)
    }

    /// Gives a socket a number and its address.
    pub(crate) fn open(&mut self, net: &mut Net<'_>, socket: Socket) -> Result<u32, SocketError> {
        let s = self.next_socket();
        let protocol = self.profiles[socket.profile].protocol();
        let table = &mut self.nodes[socket.node].table;
        let free = match socket.remote {
            Some(remote) => table.connect(protocol, socket.local, remote, s),
            None => table.bind(protocol, socket.local, s),
        };
        let bound = if free {
            self.bind(net, s, &socket)
        } else {
            Err(SocketError::AddressInUse(socket.local))
        };
        if let Err(error) = bound {
            if let Some(system) = &mut net.system {
                system.release(s);
            }
            if free {
                let table = &mut self.nodes[socket.node].table;
                table.remove(protocol, socket.local, socket.remote, s);
            }
            return Err(error);
        }
        if s as usize == self.sockets.len() {
            self.sockets.push(Some(socket));
        } else {
            self.free.pop();
            self.sockets[s as usize] = Some(socket);
        }
        net.paths.wakes.reserve(self.socket_slot(s) + 1);
        Ok(s)
    }

    /// Has the machine's own stack, where there is one, take what comes for a socket.
    fn bind(&self, net: &mut Net<'_>, s: u32, socket: &Socket) -> Result<(), SocketError> {
        let transport = &self.profiles[socket.profile].options.transport;
        let Some(system) = &mut net.system else {
            return Ok(());
        };
        let backlog = match &socket.kind {
            // Its connections have ports by themselves.
            Kind::Stream(_) if matches!(transport, Transport::System) => return Ok(()),
            Kind::Stream(_) | Kind::Datagrams { .. } => None,
            Kind::Listener { backlog, .. } => Some(*backlog),
        };
        system.bind(s, Profile(socket.profile as u32), socket.local, backlog)
    }

    /// Forgets socket `s` if its application is done with it and its connection is over;
    /// whether it was so.
    #[inline]
    fn reap(&mut self, net: &mut Net<'_>, s: u32) -> bool {
        let Some(socket) = &self.sockets[s as usize] else {
            return true;
        };
        let over = match &socket.kind {
            Kind::Stream(stream) => {
                socket.app.is_none() && stream.listener.is_none() && stream.endpoint.is_closed()
            }
            Kind::Listener { .. } | Kind::Datagrams { .. } => socket.app.is_none(),
        };
        if over {
            self.forget(net, s);
        }
        over
    }

    /// Takes socket `s` out of its host.
    pub(crate) fn forget(&mut self, net: &mut Net<'_>, s: u32) {
        let Some(socket) = self.sockets[s as usize].take() else {
            return;
        };
        let protocol = self.profiles[socket.profile].protocol();
        self.nodes[socket.node]
            .table
            .remove(protocol, socket.local, socket.remote, s);
        self.free.push(s);
        if let Some(system) = &mut net.system {
            system.release(s);
        }
        for flow in &mut self.flows {
            flow.sender = flow.sender.filter(|x| *x != s);
            flow.receiver = flow.receiver.filter(|x| *x != s);
        }
    }
}

/// A connection of a closed listener that was not accepted.
fn stream_done(socket: &mut Option<Socket>) {
    if let Some(stream) = socket.as_mut().and_then(Socket::stream) {
        stream.listener = None;
        stream.held.clear();
    }
}
