//! The proxy: an application that accepts, reads a request, connects onward and relays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use narrows_core::{App, Data, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::{Duration, Instant};
use tracing::info;

use crate::config::{Intake, Limits, Listener};
use crate::convert::Fault;
use crate::counters::{Book, Counters};
use crate::hints::RatesToGive;
use crate::link_rate::Parts;
use crate::log_rate::{Line, LogRate};
use crate::names::NameAsked;
use crate::proxy_header::HeaderReader;
use crate::request::{Asked, Layout, Refused, RequestReader};
use crate::shared::{Account, Client, Full, Shared};
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
    pub(crate) draining: bool,
    pub(crate) tunnels: BTreeMap<u64, Tunnel>,
    pub(crate) legs: BTreeMap<SocketId, (u64, Leg)>,
    pub(crate) deadlines: BTreeSet<(Instant, u64)>,
    /// What it has in common with others.
    pub(crate) shared: Shared,
    pub(crate) budget: Account,
    /// Names whose addresses nobody was asked for yet.
    names: Vec<NameAsked>,
    /// Names that were asked for, and whose client has gone.
    pub(crate) unwanted: Vec<u64>,
    /// What becomes of the rates of the links beside it.
    pub(crate) rates_to_give: RatesToGive,
    /// Of the rates of links that its listeners have.
    pub(crate) parts: Parts,
    /// What was done at each address that it listens or has listened at.
    pub(crate) books: Vec<(SocketAddr, Book)>,
    /// Tunnels that there were.
    last: u64,
    log: LogRate,
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
            shared: shared.clone(),
            budget: Account::new(shared),
            names: Vec::new(),
            unwanted: Vec::new(),
            rates_to_give: RatesToGive::default(),
            parts: Parts::default(),
            books: Vec::new(),
            last: 0,
            log: LogRate::default(),
        }
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.books.iter().map(|(_, book)| book.counters).sum()
    }

    /// What it has done at each address that it listens or has listened at.
    pub fn books(&self) -> impl Iterator<Item = (SocketAddr, &Book)> {
        self.books.iter().map(|(local, book)| (*local, book))
    }

    /// Where what happens at `local` is counted.
    fn book_of(&mut self, local: SocketAddr) -> usize {
        let known = self.books.iter().position(|(at, _)| *at == local);
        known.unwrap_or_else(|| {
            self.books.push((local, Book::default()));
            self.books.len() - 1
        })
    }

    /// What is counted there.
    pub(crate) fn count(&mut self, book: usize) -> &mut Counters {
        &mut self.books[book].1.counters
    }

    /// Whether a line is to be logged of what clients can cause as often as they like.
    pub(crate) fn logs(&mut self, now: Instant, book: usize) -> bool {
        match self.log.line(now) {
            Line::Written(0) => true,
            Line::Written(lines) => {
                info!(
                    lines,
                    "rate limit: lines were not logged; metrics count what they were about"
                );
                true
            }
            Line::HeldBack => {
                self.count(book).lines_held_back += 1;
                false
            }
        }
    }

    /// Tunnels that there are.
    pub fn tunnels(&self) -> usize {
        self.tunnels.len()
    }

    /// Bytes that wait in all of them.
    pub fn backlog(&self) -> u64 {
        self.budget.waiting()
    }

    /// The names whose addresses are to be found. Each is said once.
    pub fn take_names(&mut self) -> Vec<NameAsked> {
        std::mem::take(&mut self.names)
    }

    /// The names whose addresses nobody wants any more, by the number of each. Each is said once.
    pub fn take_unwanted_names(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.unwanted)
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
        self.settle(host);
        Ok(())
    }

    /// Resets whoever is still there.
    pub fn abandon(&mut self, host: &mut dyn Sockets) {
        let all: Vec<u64> = self.tunnels.keys().copied().collect();
        for id in all {
            self.reset(host, id, "given up at the end");
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
        let book = self.book_of(listener_of.local);
        while let Some((near, client)) = host.accept(listener) {
            self.count(book).accepted += 1;
            let address = client.ip();
            let balancers = &listener_of.terms.balancers;
            let balances = balancers.iter().any(|network| network.contains(address));
            let account = if balances {
                self.enter(host, &listener_of, book, address)
            } else {
                self.admit(host, &listener_of, book, address)
            };
            let Some(account) = account else {
                // Whoever is not admitted receives nothing, and holds nothing.
                host.reset(near);
                host.close(near);
                continue;
            };
            // No number is used twice.
            self.last += 1;
            let id = self.last;
            let of = (Arc::clone(&listener_of), book);
            let tunnel = Tunnel::new(of, near, (client, account), host.now());
            self.tunnels.insert(id, tunnel);
            self.legs.insert(near, (id, Leg::Near));
            self.set_deadline(id, host.now() + self.limits.request);
            if balances {
                if let Some(tunnel) = self.tunnels.get_mut(&id) {
                    tunnel.stage = Stage::Header(HeaderReader::default());
                }
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

    /// Counts a tunnel of the client at `address`, if it may come and there is room for it.
    fn admit(
        &mut self,
        host: &dyn Sockets,
        listener: &Listener,
        book: usize,
        address: IpAddr,
    ) -> Option<Arc<Client>> {
        let client = address.to_canonical();
        let (now, listener_at) = (host.now(), listener.local);
        if !listener.terms.policy.admits(client) {
            self.count(book).denied += 1;
            if self.logs(now, book) {
                info!(%client, listener = %listener_at, "not admitted");
            }
            return None;
        }
        self.enter(host, listener, book, client)
    }

    /// Counts a tunnel of the client at `address`, if there is room for it.
    fn enter(
        &mut self,
        host: &dyn Sockets,
        listener: &Listener,
        book: usize,
        address: IpAddr,
    ) -> Option<Arc<Client>> {
        let client = address.to_canonical();
        let (now, listener_at) = (host.now(), listener.local);
        let full = match self.shared.enter(client, &self.limits) {
            Ok(account) => return Some(account),
            Err(full) => full,
        };
        let (over, why) = match full {
            Full::Tunnels => (&mut self.count(book).over_tunnels, "are allowed"),
            Full::Client => (&mut self.count(book).over_client, "it may have"),
        };
        *over += 1;
        if self.logs(now, book) {
            info!(%client, listener = %listener_at, "reset: there are as many tunnels as {why}");
        }
        None
    }

    /// Reads what the client asks for.
    fn read_request(&mut self, host: &mut dyn Sockets, id: u64) {
        // Read, and behind a header or a greeting not looked at yet.
        let mut piece = Vec::new();
        loop {
            let Some(tunnel) = self.tunnels.get_mut(&id) else {
                return;
            };
            if !matches!(tunnel.stage, Stage::Header(_) | Stage::Request(_)) {
                return;
            }
            if piece.is_empty() && host.read(tunnel.near, PIECE, Some(&mut piece)) == 0 {
                // Who ends its stream before it has asked wants nothing.
                if tunnel.up.peer_closed {
                    self.forget(host, id, "ended without a request");
                }
                return;
            }
            let reader = match &mut tunnel.stage {
                Stage::Request(reader) => reader,
                Stage::Header(reader) => {
                    match reader.take(&piece) {
                        Ok(None) => piece.clear(),
                        Ok(Some((client, used))) => {
                            piece.drain(..used);
                            self.is_of(host, id, client);
                        }
                        Err(why) => {
                            let (client, book) = (tunnel.client, tunnel.book);
                            self.count(book).refused += 1;
                            if self.logs(host.now(), book) {
                                info!(%client, %why, "refused");
                            }
                            return self.reset(host, id, "no header");
                        }
                    }
                    continue;
                }
                _ => return,
            };
            let (client, listener) = (tunnel.client.ip().to_canonical(), &tunnel.listener);
            match reader.take(&piece, &listener.terms, client) {
                Ok(None) => piece.clear(),
                Ok(Some((Asked::Greeting(true), used))) => {
                    piece.drain(..used);
                    let greeted = socks::GREETED;
                    if host.write(tunnel.near, Data::Bytes(&greeted)) < greeted.len() as u64 {
                        return self.reset(host, id, "takes no answer");
                    }
                }
                Ok(Some((asked, used))) => {
                    let (rest, book) = (&piece[used..], tunnel.book);
                    let bytes = rest.len() as u64;
                    tunnel.up.bytes += bytes;
                    tunnel.up.queue.append(rest);
                    self.budget.take(&tunnel.account, bytes);
                    self.count(book).bytes_up += bytes;
                    return self.grant(host, id, asked);
                }
                Err(Refused { answer, why }) => {
                    let (client, book) = (tunnel.client, tunnel.book);
                    if self.logs(host.now(), book) {
                        info!(%client, why, "refused");
                    }
                    return self.refuse(host, id, answer);
                }
            }
        }
    }

    /// The connection of a load balancer is of `client`, or of its own: it counts as that one's
    /// from now on, if that may come.
    fn is_of(&mut self, host: &mut dyn Sockets, id: u64, client: Option<SocketAddr>) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let (listener, book) = (Arc::clone(&tunnel.listener), tunnel.book);
        let client = client.unwrap_or(tunnel.client);
        match self.admit(host, &listener, book, client.ip()) {
            Some(account) => {
                if let Some(tunnel) = self.tunnels.get_mut(&id) {
                    tunnel.client = client;
                    tunnel.stage = Stage::Request(RequestReader::default());
                    let before = std::mem::replace(&mut tunnel.account, account);
                    self.shared.leave(&before);
                }
            }
            None => self.reset(host, id, "not admitted"),
        }
    }

    /// Refuses the client of a tunnel that is not open; with an answer where there is one
    /// and the layout has answers.
    pub(crate) fn refuse(&mut self, host: &mut dyn Sockets, id: u64, fault: Option<Fault>) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let (client, book) = (tunnel.client, tunnel.book);
        let about = tunnel.destination.zip(fault.as_ref());
        self.count(book).refused += 1;
        if let Some((destination, fault)) = about {
            if self.logs(host.now(), book) {
                info!(%client, %destination, why = %fault, "refused");
            }
        }
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let layout = tunnel.layout();
        match fault.and_then(|fault| layout.answer(Some(fault))) {
            Some(answer) => self.answer_last(host, id, &answer),
            None => {
                host.reset(tunnel.near);
                self.forget(host, id, "refused");
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
        tunnel.parent_request = None;
        self.close_far(host, id);
        self.release(id);
        if host.write(near, Data::Bytes(answer)) < answer.len() as u64 {
            host.reset(near);
            return self.forget(host, id, "takes no answer");
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
                self.forget(host, id, "answered");
            }
        }
    }

    /// Reads the first of what the client sends while the addresses of its name are being found.
    /// Whoever ends its stream before it is answered wants none.
    fn read_early(&mut self, host: &mut dyn Sockets, id: u64) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let most = PIECE.saturating_sub(tunnel.up.queue.len());
        let read = host.read_counted(tunnel.near, most, &mut tunnel.up.queue);
        tunnel.up.bytes += read;
        self.budget.take(&tunnel.account, read);
        let (book, gone) = (tunnel.book, tunnel.up.peer_closed);
        self.count(book).bytes_up += read;
        if gone {
            self.forget(host, id, "left before the addresses of its name were found");
        }
    }

    /// Has the addresses of a name found.
    pub(crate) fn ask_for_name(&mut self, host: &mut dyn Sockets, id: u64, name: String) {
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        let (book, client) = (tunnel.book, tunnel.account.of);
        self.count(book).names += 1;
        self.names.push(NameAsked { id, client, name });
        self.set_deadline(id, host.now() + self.limits.resolve);
    }

    /// There is no room for that name.
    pub fn name_refused(&mut self, host: &mut dyn Sockets, id: u64) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.stage = Stage::Connecting(Layout::Socks);
            let book = tunnel.book;
            self.count(book).names_refused += 1;
            self.refuse(host, id, Some(Fault::ResourceExceeded { retry_s: 0 }));
        }
        self.settle(host);
    }
}

impl App for Proxy {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let places: Vec<_> = self.listeners.iter().map(|l| (l.near, l.local)).collect();
        for (near, local) in places {
            self.listening.push(host.listen(near, local, BACKLOG)?);
            self.book_of(local);
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
            (event, Stage::Connecting(_)) if leg == Leg::Far && tunnel.parent_request.is_some() => {
                self.on_parent_event(host, id, socket, event);
            }
            // Only the far leg is opened from here.
            (SocketEvent::Established { .. }, Stage::Connecting(_)) => self.open(host, id),
            (
                SocketEvent::Readable | SocketEvent::PeerClosed,
                Stage::Header(_) | Stage::Request(_),
            ) => {
                self.read_request(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Refused) => {
                self.read_to_the_end(host, id);
            }
            (SocketEvent::Readable | SocketEvent::PeerClosed, Stage::Naming(_)) => {
                self.read_early(host, id);
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
