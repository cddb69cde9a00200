//! The proxy: an application that accepts, reads a request, connects onward and relays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use narrows_packet::{App, Breakage, Data, Relayed, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::{Duration, Instant};
use tracing::{debug, info};

use crate::config::{Intake, Limits, Listener};
use crate::convert::Fault;
use crate::counters::Counters;
use crate::hints::RatesToGive;
use crate::link_rate::Parts;
use crate::request::{Asked, Layout, Refused};
use crate::shared::{Account, Shared};
use crate::socks;
use crate::telemetry;
use crate::tunnel::{Leg, Stage, Tunnel, TunnelFacts};

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
    pub(crate) listeners: Vec<Arc<Listener>>,
    pub(crate) limits: Limits,
    /// Listening sockets, by their listener.
    listening: Vec<SocketId>,
    draining: bool,
    pub(crate) tunnels: BTreeMap<u64, Tunnel>,
    pub(crate) legs: BTreeMap<SocketId, (u64, Leg)>,
    deadlines: BTreeSet<(Instant, u64)>,
    /// Directions that would read more, had the budget allowed it.
    starved: BTreeSet<(u64, Leg)>,
    /// What it has in common with others.
    pub(crate) shared: Shared,
    budget: Account,
    /// Whether some of the budget was given back since these were last served.
    freed: bool,
    /// Names whose addresses nobody was asked for yet.
    pub(crate) names: Vec<(u64, String)>,
    /// What becomes of the rates of the links beside it.
    pub(crate) rates_to_give: RatesToGive,
    /// Of the rates of links that its listeners have.
    pub(crate) parts: Parts,
    pub(crate) counters: Counters,
}

impl Proxy {
    /// One that listens at `listeners`.
    pub fn new(listeners: Vec<Listener>, limits: Limits) -> Self {
        Self::sharing(listeners, limits, &Shared::new(1, limits.budget))
    }

    /// One of several that listen at the same `listeners`, each in a thread of its own. What
    /// [`Limits`] allow in all, and to one client, holds for all of them together.
    pub fn sharing(listeners: Vec<Listener>, limits: Limits, shared: &Shared) -> Self {
        Self {
            listeners: listeners.into_iter().map(Arc::new).collect(),
            limits,
            listening: Vec::new(),
            draining: false,
            tunnels: BTreeMap::new(),
            legs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            starved: BTreeSet::new(),
            shared: shared.clone(),
            budget: Account::new(shared),
            freed: false,
            names: Vec::new(),
            rates_to_give: RatesToGive::default(),
            parts: Parts::default(),
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
        self.budget.waiting()
    }

    /// Whether some of the budget was given back that proxies which share it wait for: each of
    /// them is to call [`freed_elsewhere`](Self::freed_elsewhere). True once.
    pub fn take_spare(&mut self) -> bool {
        self.budget.take_spare()
    }

    /// Another proxy has given back some of the budget.
    pub fn freed_elsewhere(&mut self, host: &mut dyn Sockets) {
        self.freed = true;
        self.settle(host);
    }

    /// What is known of each tunnel.
    pub fn facts(&self) -> impl Iterator<Item = TunnelFacts> {
        self.tunnels.values().map(Tunnel::facts)
    }

    /// Goes on with other listeners and limits. Who has come is served by the terms that
    /// held then; a listener whose address is kept is not closed, so that no client is
    /// lost, and has the socket options that it had.
    ///
    /// # Errors
    /// If it cannot listen at a new address: all is as it was then.
    pub fn reconfigure(
        &mut self,
        host: &mut dyn Sockets,
        listeners: Vec<Listener>,
        limits: Limits,
    ) -> Result<(), SocketError> {
        let place = |local| self.listeners.iter().position(|l| l.local == local);
        let (mut listening, mut opened) = (Vec::new(), Vec::new());
        for listener in &listeners {
            let socket = match place(listener.local).map(|at| self.listening[at]) {
                Some(kept) => kept,
                None => match host.listen(listener.near, listener.local, BACKLOG) {
                    Ok(socket) => {
                        opened.push(socket);
                        socket
                    }
                    Err(error) => {
                        opened.into_iter().for_each(|socket| host.close(socket));
                        return Err(error);
                    }
                },
            };
            listening.push(socket);
        }
        for old in std::mem::replace(&mut self.listening, listening) {
            if !self.listening.contains(&old) {
                host.close(old);
            }
        }
        self.listeners = listeners.into_iter().map(Arc::new).collect();
        self.limits = limits;
        self.budget.resize(limits.budget);
        self.freed = true;
        self.settle(host);
        Ok(())
    }

    /// Resets whoever is still there.
    pub fn abandon(&mut self, host: &mut dyn Sockets) {
        let all: Vec<u64> = self.tunnels.keys().copied().collect();
        for id in all {
            self.reset(host, id);
        }
        self.settle(host);
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
        let listener_of = Arc::clone(&self.listeners[index]);
        while let Some((near, client)) = host.accept(listener) {
            self.counters.accepted += 1;
            let address = client.ip().to_canonical();
            if !listener_of.terms.policy.admits(address) {
                // A client that is not admitted receives nothing.
                self.counters.denied += 1;
                info!(%client, listener = %listener_of.local, "not admitted");
                host.reset(near);
                host.close(near);
                continue;
            }
            // No number is used twice.
            let id = self.counters.accepted;
            let tunnel = Tunnel::new(Arc::clone(&listener_of), near, client, host.now());
            let full = self.shared.enter(address, &self.limits);
            self.tunnels.insert(id, tunnel);
            self.legs.insert(near, (id, Leg::Near));
            self.set_deadline(id, host.now() + self.limits.request);
            if full {
                info!(%client, "refused: as many tunnels as are allowed");
                let busy = Fault::ResourceExceeded { retry_s: 0 };
                self.refuse(host, id, Some(busy));
            } else if listener_of.terms.intake == Intake::Transparent {
                match host.destination_of(near) {
                    Some(destination) => {
                        let layout = Layout::Silent;
                        self.grant(
                            host,
                            id,
                            Asked::Connect {
                                destination,
                                layout,
                            },
                        );
                    }
                    None => self.refuse(host, id, None),
                }
            }
        }
        self.settle(host);
    }

    /// Reads what the client asks for.
    fn read_request(&mut self, host: &mut dyn Sockets, id: u64) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let (client, listener) = (tunnel.client(), Arc::clone(&tunnel.listener));
        // Read, and behind a greeting not looked at yet.
        let mut piece = Vec::new();
        while let Stage::Request(reader) = &mut tunnel.stage {
            if piece.is_empty() && host.read(tunnel.near, PIECE, Some(&mut piece)) == 0 {
                // Who ends its stream before it has asked wants nothing.
                if tunnel.up.peer_closed {
                    self.forget(host, id);
                }
                return;
            }
            match reader.take(&piece, &listener.terms, client) {
                Ok(None) => piece.clear(),
                Ok(Some((Asked::Greeting(true), used))) => {
                    piece.drain(..used);
                    let greeted = socks::GREETED;
                    if host.write(tunnel.near, Data::Bytes(&greeted)) < greeted.len() as u64 {
                        return self.reset(host, id);
                    }
                }
                Ok(Some((asked, used))) => {
                    let rest = &piece[used..];
                    tunnel.up.bytes += rest.len() as u64;
                    tunnel.up.queue.append(rest);
                    self.budget.take(rest.len() as u64);
                    self.counters.bytes_up += rest.len() as u64;
                    return self.grant(host, id, asked);
                }
                Err(Refused { answer, why }) => {
                    info!(client = %tunnel.client, why, "refused");
                    return self.refuse(host, id, answer);
                }
            }
        }
    }

    /// Refuses the client of a tunnel that is not open; with an answer where there is one
    /// and the layout has answers.
    pub(crate) fn refuse(&mut self, host: &mut dyn Sockets, id: u64, fault: Option<Fault>) {
        self.counters.refused += 1;
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        if let (Some(destination), Some(fault)) = (tunnel.destination, &fault) {
            info!(client = %tunnel.client, %destination, why = %fault, "refused");
        }
        let layout = tunnel.layout();
        match fault.and_then(|fault| layout.answer(Some(fault))) {
            Some(answer) => self.answer_last(host, id, &answer),
            None => {
                host.reset(tunnel.near);
                self.forget(host, id);
            }
        }
    }

    /// Sends `answer` and nothing after it, and waits for the client to close.
    pub(crate) fn answer_last(&mut self, host: &mut dyn Sockets, id: u64, answer: &[u8]) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let near = tunnel.near;
        tunnel.stage = Stage::Refused;
        tunnel.awaits = None;
        self.close_far(host, id);
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
    pub(crate) fn open(&mut self, host: &mut dyn Sockets, id: u64) {
        let idle = self.limits.idle;
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if let Stage::Connecting(layout) = tunnel.stage {
            tunnel.stage = Stage::Open;
            tunnel.active = host.now();
            self.counters.opened += 1;
            if let Some(destination) = tunnel.destination {
                debug!(client = %tunnel.client, %destination, "opened");
            }
            if let Some(granted) = layout.answer(None) {
                tunnel.down.queue.append(&granted);
                self.budget.take(granted.len() as u64);
            }
            self.set_deadline(id, host.now() + idle);
        }
        self.relay(host, id, Leg::Far);
        self.relay(host, id, Leg::Near);
    }

    /// Relays what comes from `leg` to the other, as far as there is room and that takes
    /// it; then passes on its end.
    pub(crate) fn relay(&mut self, host: &mut dyn Sockets, id: u64, leg: Leg) {
        let limit = self.limits.backlog;
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if tunnel.awaits.is_some() {
            // Nothing is for the destination before another proxy has answered.
            return;
        }
        let (Some(source), Some(sink)) = (tunnel.socket(leg), tunnel.socket(leg.other())) else {
            return;
        };
        tunnel.active = host.now();
        let direction = tunnel.from(leg);
        let (mut all_read, mut left);
        loop {
            let held = direction.queue.len();
            let own = limit.saturating_sub(held);
            let room = self.budget.reserve(held, own);
            let relayed = match room {
                0 => Relayed::default(),
                _ => host.relay(source, sink, room, &mut direction.queue),
            };
            let read = relayed.read;
            self.budget.read(room, read);
            direction.bytes += read;
            let written =
                relayed.written + direction.queue.write_with(|data| host.write(sink, data));
            self.budget.give(written);
            self.freed |= written > 0;
            match leg {
                Leg::Near => self.counters.bytes_up += read,
                Leg::Far => self.counters.bytes_down += read,
            }
            left = relayed.left;
            all_read = room > 0 && read == 0 && !left;
            if read == 0 && written == 0 {
                if room == 0 && own > 0 {
                    self.starved.insert((id, leg));
                }
                break;
            }
        }
        host.want_room(sink, left || !direction.queue.is_empty());
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
    pub(crate) fn settle(&mut self, host: &mut dyn Sockets) {
        loop {
            while std::mem::take(&mut self.freed) {
                for (id, leg) in std::mem::take(&mut self.starved) {
                    self.relay(host, id, leg);
                }
            }
            if !self.budget.starves(!self.starved.is_empty()) {
                break;
            }
            self.freed = true;
        }
        self.budget.note_spare();
        let due = self.deadlines.first().map(|(at, _)| *at);
        let parts = self.next_parts(host.now());
        let times = [due, self.rates_to_give.next(), parts];
        host.wake_at(times.into_iter().flatten().min());
    }

    /// One end of a tunnel is gone.
    fn break_off(&mut self, host: &mut dyn Sockets, id: u64, leg: Leg, why: Breakage) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        match (&tunnel.stage, leg) {
            (Stage::Connecting(_), Leg::Far) if tunnel.awaits.is_some() => {
                self.without_parent(host, id, why);
            }
            (Stage::Connecting(_), Leg::Far) => {
                let fault = match why {
                    Breakage::Reset => Fault::ConnectionReset,
                    Breakage::TimedOut => Fault::NetworkFailure { retry_s: 0 },
                };
                self.not_opened(host, id, fault);
            }
            (Stage::Request(_) | Stage::Naming(_) | Stage::Refused, _) => self.forget(host, id),
            (Stage::Connecting(_) | Stage::Open, _) => {
                self.counters.broken += 1;
                debug!(client = %tunnel.client, by = ?leg, %why, "broken");
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
            self.shared.leave(tunnel.client());
            debug!(client = %tunnel.client, up = tunnel.up.bytes, down = tunnel.down.bytes, "over");
            self.deadlines.remove(&(tunnel.deadline, id));
            for socket in [Some(tunnel.near), tunnel.far].into_iter().flatten() {
                self.legs.remove(&socket);
                host.close(socket);
            }
        }
    }

    pub(crate) fn set_deadline(&mut self, id: u64, at: Instant) {
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
            Stage::Connecting(_) if tunnel.awaits.is_some() => {
                self.without_parent(host, id, Breakage::TimedOut);
            }
            Stage::Connecting(_) | Stage::Naming(_) => {
                self.counters.connect_timeouts += 1;
                self.not_opened(host, id, Fault::NetworkFailure { retry_s: 0 });
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

impl App for Proxy {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        for listener in &self.listeners {
            let socket = host.listen(listener.near, listener.local, BACKLOG)?;
            self.listening.push(socket);
        }
        self.settle(host);
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
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Connecting(_))
                if leg == Leg::Far && tunnel.awaits.is_some() =>
            {
                self.read_answer(host, id);
            }
            (SocketEvent::Writable, Stage::Connecting(_))
                if leg == Leg::Far && tunnel.awaits.is_some() =>
            {
                self.ask(host, id, socket);
            }
            (SocketEvent::Established { .. }, Stage::Connecting(_))
                if leg == Leg::Far && tunnel.awaits.is_none() =>
            {
                self.open(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Request(_)) => {
                self.read_request(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Refused) => {
                self.read_to_the_end(host, id);
            }
            // What the client sends meanwhile waits in its socket.
            (_, Stage::Naming(_)) => {}
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
        self.give_rates(host);
        self.give_parts(host);
        self.settle(host);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        for tunnel in self.tunnels.values() {
            if let Some(flow) = tunnel.listener.flow {
                telemetry::report(host, flow, tunnel);
            }
        }
    }
}
