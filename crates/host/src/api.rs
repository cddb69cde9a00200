//! The socket interface of simulated hosts.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{
    CountedBytes, Data, Datagram, DatagramError, Event, FlowId, FlowSample, Profile, Reduce,
    Relayed, Role, SocketError, SocketId, Sockets, TelemetryField,
};
use narrows_units::Instant;
use narrows_wire::Ecn;

use crate::address::Addressing;
use crate::hosts::{Hosts, Net};
use crate::ports;
use crate::profile::{Ends, Transport};
use crate::socket::{Kind, Socket};

/// Connections that could not be opened because the host had no local port left.
const NO_PORT: TelemetryField = TelemetryField::new(
    "no_port",
    "",
    "connections that were not opened, as the host had no local port left",
    Reduce::Counter,
);

/// What application `app` may do on its host.
pub(crate) struct Api<'h, 'n> {
    pub hosts: &'h mut Hosts,
    pub net: &'h mut Net<'n>,
    pub app: usize,
}

impl Api<'_, '_> {
    fn node(&self) -> usize {
        self.hosts.apps[self.app].node
    }

    /// The socket, if it is this application's.
    fn own(&mut self, socket: SocketId) -> Option<&mut Socket> {
        let app = self.app;
        let socket = self.hosts.sockets.get_mut(socket.0 as usize)?.as_mut()?;
        (socket.app == Some(app)).then_some(socket)
    }

    /// Notes that a connection has something to send, or an event to report.
    fn note(&mut self, socket: SocketId) {
        if self.hosts.current == Some(socket.0) {
            self.hosts.changed = true;
        } else if let Some(used) = self.own(socket).filter(|s| !s.dirty) {
            used.dirty = true;
            self.hosts.dirty.push_back(socket.0);
        }
    }

    /// A free port for a connection to `remote`, which no flow of the plan has: downwards, each
    /// after the one that was given out last, so that a port is not used again soon. One in
    /// TIME-WAIT to the same address is not free (`net.ipv4.tcp_tw_reuse` is 2: over loopback
    /// only, which no path here is).
    fn free_port(&mut self, protocol: u8, remote: SocketAddr) -> Option<SocketAddr> {
        let first = ports::FIRST.saturating_add(self.hosts.flow_ports);
        let index = self.node();
        let node = &mut self.hosts.nodes[index];
        let from = match node.next_port {
            port if (first..=ports::LAST).contains(&port) => port,
            _ => ports::LAST,
        };
        let port = node.table.free_port(protocol, remote, first, from)?;
        node.next_port = port - 1;
        Some(node.address(remote.ip(), port))
    }

    /// Counts a connection for which there was no port.
    fn no_port(&mut self) {
        let host = self.hosts.nodes[self.node()].entity;
        let event = Event::Telemetry {
            source: host.into(),
            field: NO_PORT,
            value: 1,
        };
        self.net.sink.record(self.net.now, event);
    }

    fn bound(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        kind: Kind,
    ) -> Result<SocketId, SocketError> {
        let socket = Socket {
            kind,
            node: self.node(),
            app: Some(self.app),
            profile: profile.0 as usize,
            local,
            remote: None,
            role: Role::Responder,
            dirty: false,
        };
        self.hosts.open(self.net, socket).map(SocketId)
    }

    fn sends_datagrams(&mut self, profile: Profile) -> bool {
        let options = &self.hosts.profile(profile).options;
        matches!(options.transport, Transport::Datagrams)
    }
}

impl Sockets for Api<'_, '_> {
    fn now(&self) -> Instant {
        self.net.now
    }

    fn record(&mut self, event: Event<'static>) {
        if let Event::Finished {
            flow: FlowId(flow), ..
        } = event
        {
            if let Some(sockets) = self.hosts.flows.get_mut(flow as usize) {
                sockets.finished = true;
            }
        }
        self.net.sink.record(self.net.now, event);
    }

    fn wake_at(&mut self, at: Option<Instant>) {
        let slot = self.hosts.app_slot(self.app);
        self.net.paths.wakes.set(slot, at);
    }

    fn connect(
        &mut self,
        profile: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        if self.sends_datagrams(profile) {
            return Err(SocketError::Unsupported);
        }
        let node = self.node();
        if self.hosts.way_to(node, remote.ip()).is_none() {
            return Err(SocketError::Unreachable(remote));
        }
        let protocol = self.hosts.profile(profile).protocol();
        let given = local.or_else(|| self.free_port(protocol, remote));
        let opened = given.ok_or(SocketError::NoPort).and_then(|local| {
            let ends = Ends {
                role: Role::Initiator,
                local,
                remote,
                isn: None,
            };
            let hosts = &mut *self.hosts;
            hosts.stream(self.net, node, profile.0 as usize, ends)
        });
        // A machine's own stack may still have a port that is free here.
        if let (None, Err(SocketError::NoPort | SocketError::AddressInUse(_))) = (local, &opened) {
            self.no_port();
        }
        let s = opened?;
        if let Some(socket) = &mut self.hosts.sockets[s as usize] {
            socket.app = Some(self.app);
            if let Some(stream) = socket.stream() {
                stream.endpoint.open(self.net.now);
            }
        }
        self.note(SocketId(s));
        Ok(SocketId(s))
    }

    fn listen(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        backlog: u32,
    ) -> Result<SocketId, SocketError> {
        if self.sends_datagrams(profile) {
            return Err(SocketError::Unsupported);
        }
        let kind = Kind::Listener {
            pending: VecDeque::new(),
            waiting: 0,
            backlog,
        };
        self.bound(profile, local, kind)
    }

    fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        let child = match &mut self.own(listener)?.kind {
            Kind::Listener {
                pending, waiting, ..
            } => {
                let child = pending.pop_front()?;
                *waiting = waiting.saturating_sub(1);
                child
            }
            _ => return None,
        };
        let app = self.app;
        let socket = self.hosts.sockets[child as usize].as_mut()?;
        socket.app = Some(app);
        let remote = socket.remote?;
        socket.stream()?.listener = None;
        self.note(SocketId(child));
        Some((SocketId(child), remote))
    }

    fn bind(&mut self, profile: Profile, local: SocketAddr) -> Result<SocketId, SocketError> {
        if !self.sends_datagrams(profile) {
            return Err(SocketError::Unsupported);
        }
        let kind = Kind::Datagrams {
            received: VecDeque::new(),
            bytes: 0,
            errors: VecDeque::new(),
            ident: 0,
            used: false,
        };
        self.bound(profile, local, kind)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.hosts.nodes[self.node()].address(address, 0).ip() == address
    }

    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        let Some(stream) = self.own(socket).and_then(Socket::stream) else {
            return 0;
        };
        let bytes = stream.endpoint.read(most, into);
        if bytes > 0 {
            // A window update may be due.
            self.note(socket);
        }
        bytes
    }

    fn read_counted(&mut self, socket: SocketId, most: u64, into: &mut CountedBytes) -> u64 {
        let Some(stream) = self.own(socket).and_then(Socket::stream) else {
            return 0;
        };
        let bytes = stream.endpoint.read_counted(most, into);
        if bytes > 0 {
            self.note(socket);
        }
        bytes
    }

    fn relay(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed {
        let mut done = Relayed::default();
        let mut most = ahead;
        if ahead == 0 && queue.is_empty() {
            let sink = self.own(to).and_then(Socket::stream);
            most = sink.map_or(0, |stream| stream.endpoint.room());
            done.left = most == 0;
        }
        if most > 0 {
            done.read = self.read_counted(from, most, queue);
        }
        done
    }

    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64 {
        let Some(stream) = self.own(socket).and_then(Socket::stream) else {
            return 0;
        };
        let room = stream.endpoint.room();
        if room == 0 || data.is_empty() {
            return 0;
        }
        let data = match data {
            Data::Zeros(bytes) => Data::Zeros(bytes.min(room)),
            Data::Bytes(bytes) => {
                let most = usize::try_from(room).unwrap_or(usize::MAX);
                Data::Bytes(&bytes[..bytes.len().min(most)])
            }
        };
        let taken = stream.endpoint.write(data);
        if taken > 0 {
            self.note(socket);
        }
        taken
    }

    fn want_room(&mut self, socket: SocketId, want: bool) {
        if let Some(stream) = self.own(socket).and_then(Socket::stream) {
            stream.wants_room = want;
            if want {
                self.note(socket);
            }
        }
    }

    fn shut_down(&mut self, socket: SocketId) {
        let now = self.net.now;
        let Some(used) = self.own(socket) else { return };
        match &mut used.kind {
            Kind::Stream(stream) => stream.endpoint.shut_down(now),
            Kind::Listener { .. } => self.close(socket),
            Kind::Datagrams { .. } => return,
        }
        self.note(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        let now = self.net.now;
        if let Some(stream) = self.own(socket).and_then(Socket::stream) {
            stream.endpoint.abort(now);
            self.note(socket);
        }
    }

    fn set_option(&mut self, socket: SocketId, name: &str, value: u64) -> Result<(), SocketError> {
        let stream = self.own(socket).and_then(Socket::stream);
        let stream = stream.ok_or(SocketError::Closed)?;
        stream.endpoint.set_option(name, value)?;
        self.note(socket);
        Ok(())
    }

    fn option(&mut self, socket: SocketId, name: &str) -> Option<u64> {
        let stream = self.own(socket).and_then(Socket::stream)?;
        stream.endpoint.option(name)
    }

    fn sample(&mut self, socket: SocketId) -> Option<FlowSample> {
        let now = self.net.now;
        let stream = self.own(socket).and_then(Socket::stream)?;
        Some(stream.endpoint.sample(now))
    }

    fn close(&mut self, socket: SocketId) {
        let now = self.net.now;
        let Some(used) = self.own(socket) else { return };
        if let Some(stream) = used.stream() {
            stream.endpoint.close(now);
            stream.wants_room = false;
        }
        self.note(socket);
        if let Some(used) = self.own(socket) {
            used.app = None;
            if matches!(used.kind, Kind::Listener { .. }) {
                self.hosts.reset_waiting(now, socket.0);
            }
        }
    }

    fn send_to(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        payload: &[u8],
        len: u32,
    ) -> Result<(), SocketError> {
        let node = self.node();
        let used = self.own(socket).ok_or(SocketError::Closed)?;
        let (profile, local) = (used.profile, used.local);
        let Kind::Datagrams {
            ident, used: begun, ..
        } = &mut used.kind
        else {
            return Err(SocketError::Unsupported);
        };
        let ident_now = *ident;
        if !std::mem::replace(begun, true) {
            used.role = Role::Initiator;
        }
        let role = used.role;
        let hop = self.hosts.hop(node, to.ip());
        let hop = hop.ok_or(SocketError::Unreachable(to))?;
        let headers = if to.is_ipv4() { 20 } else { 40 } + narrows_wire::udp::HEADER_LEN as u32;
        let most = self.hosts.links[hop.link].mtu.saturating_sub(headers);
        if len.max(payload.len() as u32) > most && self.net.system.is_none() {
            return Err(SocketError::TooLong { most });
        }
        let made = &self.hosts.profiles[profile];
        let mut sealer = made.sealer(local, to);
        sealer.ident = ident_now;
        let ecn = Ecn::from_bits(made.options.traffic_class & 3);
        let zero_tail = len.saturating_sub(payload.len() as u32);
        let pool = &mut self.net.paths.pool;
        let packet = sealer.seal(self.net.now, pool, ecn, payload, zero_tail);
        if let Some(Kind::Datagrams { ident, .. }) = self.own(socket).map(|s| &mut s.kind) {
            *ident = sealer.ident;
        }
        self.hosts.send(self.net, node, hop, role, packet, None);
        Ok(())
    }

    fn receive_from(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<Datagram> {
        let Kind::Datagrams {
            received, bytes, ..
        } = &mut self.own(socket)?.kind
        else {
            return None;
        };
        let (at, packet) = received.pop_front()?;
        *bytes -= u64::from(packet.len());
        into.clear();
        let addressing = Addressing::of(&packet.bytes)?;
        let start = addressing.above + narrows_wire::udp::HEADER_LEN;
        into.extend_from_slice(packet.bytes.get(start..).unwrap_or_default());
        let datagram = Datagram {
            from: addressing.source,
            len: packet.len().saturating_sub(start as u32),
            at,
        };
        self.hosts.consume(self.net, packet);
        Some(datagram)
    }

    fn receive_error(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<DatagramError> {
        let Kind::Datagrams { errors, .. } = &mut self.own(socket)?.kind else {
            return None;
        };
        let (error, payload) = errors.pop_front()?;
        *into = payload;
        Some(error)
    }
}
