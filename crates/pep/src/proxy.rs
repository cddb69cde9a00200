//! The proxy: an application that accepts, reads a request, connects onward and relays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use narrows_packet::{App, Breakage, Data, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::{Duration, Instant};

use crate::buffers::Budget;
use crate::config::{Limits, Listener};
use crate::convert::{Fault, Message};
use crate::counters::Counters;
use crate::request::{Asked, Layout, Refused, supported};
use crate::telemetry;
use crate::tunnel::{Leg, Stage, Tunnel};

/// Connections that may wait to be accepted: Linux's default `net.core.somaxconn`.
const BACKLOG: u32 = 4_096;

/// How long a client that was refused may take to close (our choice: nginx's default
/// `lingering_timeout`).
const LINGER: Duration = Duration::from_secs(5);

/// Bytes of a request that are read at a time; what they hold beyond it is relayed.
const PIECE: u64 = 4_096;

/// The application.
#[derive(Debug)]
pub struct Proxy {
    listeners: Vec<Listener>,
    limits: Limits,
    /// Listening sockets, by their listener.
    listening: Vec<SocketId>,
    draining: bool,
    tunnels: BTreeMap<u64, Tunnel>,
    legs: BTreeMap<SocketId, (u64, Leg)>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Directions that would read more, had the budget allowed it.
    starved: BTreeSet<(u64, Leg)>,
    budget: Budget,
    /// Whether some of the budget was given back since these were last served.
    freed: bool,
    counters: Counters,
}

impl Proxy {
    /// One that listens at `listeners`.
    pub fn new(listeners: Vec<Listener>, limits: Limits) -> Self {
        Self {
            listeners,
            limits,
            listening: Vec::new(),
            draining: false,
            tunnels: BTreeMap::new(),
            legs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            starved: BTreeSet::new(),
            budget: Budget::new(limits.budget),
            freed: false,
            counters: Counters::default(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Tunnels that there are.
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Bytes that wait in all of them.
    pub fn backlog(&self) -> u64 {
        self.budget.used()
    }

    /// Takes no more clients; those that are there are served to their end.
    pub fn drain(&mut self, host: &mut dyn Sockets) {
        self.draining = true;
        for listener in self.listening.drain(..) {
            host.close(listener);
        }
    }

    /// Whether [`drain`](Self::drain) was called and no tunnel is left.
    pub fn is_drained(&self) -> bool {
        self.draining && self.tunnels.is_empty()
    }

    fn accept(&mut self, host: &mut dyn Sockets, listener: SocketId) {
        let Some(index) = self.listening.iter().position(|l| *l == listener) else {
            return;
        };
        while let Some((near, client)) = host.accept(listener) {
            self.counters.accepted += 1;
            // No number is used twice.
            let id = self.counters.accepted;
            let tunnel = Tunnel::new(index, near, client, host.now());
            let full = self.tunnels.len() >= self.limits.tunnels;
            self.tunnels.insert(id, tunnel);
            self.legs.insert(near, (id, Leg::Near));
            self.set_deadline(id, host.now() + self.limits.request);
            if full {
                let busy = Fault::ResourceExceeded { retry_s: 0 };
                self.refuse(host, id, Some(busy));
            }
        }
        self.settle(host);
    }

    /// Reads what the client asks for.
    fn read_request(&mut self, host: &mut dyn Sockets, id: u64) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let (client, listener) = (tunnel.client(), &self.listeners[tunnel.listener]);
        while let Stage::Request(reader) = &mut tunnel.stage {
            let mut piece = Vec::new();
            if host.read(tunnel.near, PIECE, Some(&mut piece)) == 0 {
                // Who ends its stream before it has asked wants nothing.
                if tunnel.up.peer_closed {
                    self.forget(host, id);
                }
                return;
            }
            match reader.take(&piece, &listener.terms, client) {
                Ok(None) => {}
                Ok(Some((asked, used))) => {
                    let rest = &piece[used..];
                    tunnel.up.bytes += rest.len() as u64;
                    tunnel.up.queue.append(rest);
                    self.budget.take(rest.len() as u64);
                    self.counters.bytes_up += rest.len() as u64;
                    return self.grant(host, id, asked);
                }
                Err(Refused { answer, .. }) => return self.refuse(host, id, answer),
            }
        }
    }

    /// Does what the client asked for.
    fn grant(&mut self, host: &mut dyn Sockets, id: u64, asked: Asked) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let listener = &self.listeners[tunnel.listener];
        let (destination, layout) = match asked {
            Asked::Connect {
                destination,
                layout,
            } => (destination, layout),
            Asked::Info => {
                let answer = supported(listener.terms.fast_open);
                return self.answer_last(host, id, &answer.encode().unwrap_or_default());
            }
        };
        tunnel.stage = Stage::Connecting(layout);
        if !is_elsewhere(destination) {
            return self.refuse(host, id, Some(Fault::NotAuthorized));
        }
        match host.connect(listener.far, listener.onward_from, destination) {
            Ok(far) => {
                tunnel.far = Some(far);
                self.legs.insert(far, (id, Leg::Far));
                self.set_deadline(id, host.now() + self.limits.connect);
                // What came with the request may go with the SYN.
                self.relay(host, id, Leg::Near);
            }
            Err(error) => {
                let fault = match error {
                    // ICMP's code for an unreachable network (RFC 792).
                    SocketError::Unreachable(_) => Fault::DestinationUnreachable { icmp_code: 0 },
                    SocketError::NoPort | SocketError::AddressInUse(_) => {
                        Fault::ResourceExceeded { retry_s: 0 }
                    }
                    _ => Fault::NetworkFailure { retry_s: 0 },
                };
                self.refuse(host, id, Some(fault));
            }
        }
    }

    /// Refuses the client of a tunnel that is not open; with an answer where there is one
    /// and the layout has answers.
    fn refuse(&mut self, host: &mut dyn Sockets, id: u64, fault: Option<Fault>) {
        self.counters.refused += 1;
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let silent = matches!(tunnel.stage, Stage::Connecting(Layout::Thesis));
        match fault.filter(|_| !silent) {
            Some(fault) => self.answer_last(host, id, &Message::refusal(fault)),
            None => {
                host.reset(tunnel.near);
                self.forget(host, id);
            }
        }
    }

    /// Sends `answer` and nothing after it, and waits for the client to close.
    fn answer_last(&mut self, host: &mut dyn Sockets, id: u64, answer: &[u8]) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let near = tunnel.near;
        tunnel.stage = Stage::Refused;
        if let Some(far) = tunnel.far.take() {
            self.legs.remove(&far);
            host.reset(far);
            host.close(far);
        }
        self.release(id);
        if host.write(near, Data::Bytes(answer)) < answer.len() as u64 {
            host.reset(near);
            return self.forget(host, id);
        }
        host.shut_down(near);
        self.set_deadline(id, host.now() + LINGER);
        self.read_to_the_end(host, id);
    }

    /// Reads and discards what a client that was refused still sends.
    fn read_to_the_end(&mut self, host: &mut dyn Sockets, id: u64) {
        if let Some(tunnel) = self.tunnels.get(&id) {
            let ended = tunnel.up.peer_closed;
            host.read(tunnel.near, u64::MAX, None);
            if ended {
                self.forget(host, id);
            }
        }
    }

    /// The connection to the destination is open.
    fn open(&mut self, host: &mut dyn Sockets, id: u64) {
        let idle = self.limits.idle;
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if let Stage::Connecting(layout) = tunnel.stage {
            tunnel.stage = Stage::Open;
            tunnel.active = host.now();
            self.counters.opened += 1;
            if layout == Layout::Convert {
                // The converter's own message comes first (RFC 8803 §4.1).
                let granted = Message::default().encode().unwrap_or_default();
                tunnel.down.queue.append(&granted);
                self.budget.take(granted.len() as u64);
            }
            self.set_deadline(id, host.now() + idle);
        }
        self.relay(host, id, Leg::Far);
        self.relay(host, id, Leg::Near);
    }

    /// Copies what comes from `leg` to the other, as far as there is room and that takes
    /// it; then passes on its end.
    fn relay(&mut self, host: &mut dyn Sockets, id: u64, leg: Leg) {
        let limit = self.limits.backlog;
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let (Some(source), Some(sink)) = (tunnel.socket(leg), tunnel.socket(leg.other())) else {
            return;
        };
        tunnel.active = host.now();
        let direction = tunnel.from(leg);
        let mut all_read;
        loop {
            let held = direction.queue.len();
            let own = limit.saturating_sub(held);
            let room = own.min(self.budget.allowance(held));
            let read = match room {
                0 => 0,
                _ => host.read_counted(source, room, &mut direction.queue),
            };
            self.budget.take(read);
            direction.bytes += read;
            let written = direction.write(host, sink);
            self.budget.give(written);
            self.freed |= written > 0;
            match leg {
                Leg::Near => self.counters.bytes_up += read,
                Leg::Far => self.counters.bytes_down += read,
            }
            all_read = room > 0 && read == 0;
            if read == 0 && written == 0 {
                if room == 0 && own > 0 {
                    self.starved.insert((id, leg));
                }
                break;
            }
        }
        host.want_room(sink, !direction.queue.is_empty());
        let over = direction.peer_closed && all_read && direction.queue.is_empty();
        if over && !std::mem::replace(&mut direction.ended, true) {
            host.shut_down(sink);
            if tunnel.up.ended && tunnel.down.ended {
                self.counters.closed += 1;
                self.forget(host, id);
            }
        }
    }

    /// After an event: serves who waits for the budget, if some of it is free again, and
    /// sets the timer to what is due first.
    fn settle(&mut self, host: &mut dyn Sockets) {
        while std::mem::take(&mut self.freed) {
            for (id, leg) in std::mem::take(&mut self.starved) {
                self.relay(host, id, leg);
            }
        }
        host.wake_at(self.deadlines.first().map(|(at, _)| *at));
    }

    /// One end of a tunnel is gone.
    fn break_off(&mut self, host: &mut dyn Sockets, id: u64, leg: Leg, why: Breakage) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        match (&tunnel.stage, leg) {
            (Stage::Connecting(_), Leg::Far) => {
                let fault = match why {
                    Breakage::Reset => Fault::ConnectionReset,
                    Breakage::TimedOut => Fault::NetworkFailure { retry_s: 0 },
                };
                self.refuse(host, id, Some(fault));
            }
            (Stage::Request(_) | Stage::Refused, _) => self.forget(host, id),
            (Stage::Connecting(_) | Stage::Open, _) => {
                self.counters.broken += 1;
                self.reset(host, id);
            }
        }
    }

    /// Gives both ends up at once.
    fn reset(&mut self, host: &mut dyn Sockets, id: u64) {
        if let Some(tunnel) = self.tunnels.get(&id) {
            for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
                host.reset(socket);
            }
        }
        self.forget(host, id);
    }

    /// What waits in a tunnel is thrown away.
    fn release(&mut self, id: u64) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            self.budget.give(tunnel.backlog());
            self.freed = true;
            tunnel.up.queue = Default::default();
            tunnel.down.queue = Default::default();
        }
    }

    /// The tunnel is over.
    fn forget(&mut self, host: &mut dyn Sockets, id: u64) {
        self.release(id);
        self.starved.retain(|(starved, _)| *starved != id);
        if let Some(tunnel) = self.tunnels.remove(&id) {
            self.deadlines.remove(&(tunnel.deadline, id));
            for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
                self.legs.remove(&socket);
                host.close(socket);
            }
        }
    }

    fn set_deadline(&mut self, id: u64, at: Instant) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            self.deadlines.remove(&(tunnel.deadline, id));
            tunnel.deadline = at;
            self.deadlines.insert((at, id));
        }
    }

    /// The time of tunnel `id` is over.
    fn expire(&mut self, host: &mut dyn Sockets, id: u64) {
        let now = host.now();
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let quiet_until = tunnel.active + self.limits.idle;
        match tunnel.stage {
            Stage::Request(_) => {
                self.counters.request_timeouts += 1;
                self.reset(host, id);
            }
            Stage::Connecting(_) => {
                self.counters.connect_timeouts += 1;
                self.refuse(host, id, Some(Fault::NetworkFailure { retry_s: 0 }));
            }
            Stage::Open if quiet_until > now => self.set_deadline(id, quiet_until),
            Stage::Open => {
                self.counters.idle_timeouts += 1;
                self.reset(host, id);
            }
            Stage::Refused => self.reset(host, id),
        }
    }
}

/// Whether an address is another host's, and of one host (RFC 8803 §4.2.5): a proxy that
/// connects to its own is a way around what guards that.
fn is_elsewhere(destination: SocketAddr) -> bool {
    let address = destination.ip().to_canonical();
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let none = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    destination.port() != 0 && !none && !broadcast
}

impl App for Proxy {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        for listener in &self.listeners {
            let socket = host.listen(listener.near, listener.local, BACKLOG)?;
            self.listening.push(socket);
        }
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event == SocketEvent::Incoming {
            return self.accept(host, socket);
        }
        let Some(&(id, leg)) = self.legs.get(&socket) else {
            return;
        };
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if event == SocketEvent::PeerClosed {
            tunnel.from(leg).peer_closed = true;
        }
        match (event, &tunnel.stage) {
            (SocketEvent::Broken(why), _) => self.break_off(host, id, leg, why),
            (SocketEvent::Established { .. }, Stage::Connecting(_)) if leg == Leg::Far => {
                self.open(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Request(_)) => {
                self.read_request(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Refused) => {
                self.read_to_the_end(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, _) => self.relay(host, id, leg),
            (SocketEvent::Writable, _) => self.relay(host, id, leg.other()),
            _ => {}
        }
        self.settle(host);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        while let Some(&(at, id)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            self.expire(host, id);
        }
        self.settle(host);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        for tunnel in self.tunnels.values() {
            if let Some(flow) = self.listeners[tunnel.listener].flow {
                telemetry::report(host, flow, tunnel);
            }
        }
    }
}
