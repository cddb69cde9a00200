//! Exchanges over connections: a client asks, and says in its first bytes for how many it
//! asks; a server answers with as many when the whole of a request is there.
//!
//! What asks for requests, flows, objects or segments differs in when it asks and over which
//! connection; what a connection does is here.

use std::collections::{BTreeMap, VecDeque};

use narrows_core::{App, CountedBytes, Data, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::Instant;

use crate::kind::SiteEnd;

/// Connections that may wait to be accepted: Linux's default `net.core.somaxconn`.
const BACKLOG: u32 = 4_096;

/// Bytes of a request that are written with what it begins with: more than the initial window of
/// ten segments (RFC 6928). In a write of its own that would be a small segment, behind which
/// a machine's own TCP holds the next one back until it is acknowledged (RFC 9293 §3.7.4).
const WRITTEN: u64 = 16 << 10;

/// What a request begins with, so that a server needs to know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Bytes of the request, [`Ask::LEN`] at least.
    pub(crate) request: u64,
    /// Bytes that are asked for.
    pub(crate) response: u64,
    /// When it was issued, in the run's time, which both ends have.
    pub(crate) issued: Instant,
    /// Whether the server ends the connection when it has answered, as HTTP's `Connection:
    /// close`: the client then keeps no port in TIME-WAIT.
    pub(crate) last: bool,
}

impl Ask {
    /// Bytes that it takes at the head of a request.
    pub(crate) const LEN: u64 = 24;

    /// Set in the number of bytes asked for if the server is to end the connection.
    const LAST: u64 = 1 << 63;

    fn to_bytes(self) -> [u8; Self::LEN as usize] {
        let mut bytes = [0; Self::LEN as usize];
        let response = self.response & !Self::LAST | if self.last { Self::LAST } else { 0 };
        let words = [self.request, response, self.issued.as_nanos()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Reads what a request begins with; `None` if it is no such request.
    fn parse(bytes: &[u8; Self::LEN as usize]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        let ask = Self {
            request: word(0),
            response: word(8) & !Self::LAST,
            issued: Instant::from_nanos(word(16)),
            last: word(8) & Self::LAST != 0,
        };
        (ask.request >= Self::LEN).then_some(ask)
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over<T> {
    /// All of the response is there.
    Answered(T),
    /// The connection was lost before.
    Lost(T),
}

/// A connection at the client.
#[derive(Debug)]
struct Asking<T> {
    /// What is not answered, in the order in which it was asked for, and its bytes.
    asked: VecDeque<(T, u64)>,
    /// What is still to be written.
    outgoing: CountedBytes,
    /// Whether the socket reports room. A socket that has room before it takes anything, as
    /// QUIC's before its handshake, would report it for each time that it is asked to.
    waits: bool,
    /// Bytes of the response to the first of `asked` that have arrived.
    arrived: u64,
}

/// The connections of a client and what it awaits over them.
#[derive(Debug)]
pub(crate) struct Exchanges<T> {
    connections: BTreeMap<SocketId, Asking<T>>,
    /// Bytes of responses that arrived, and were not taken note of yet.
    arrived: u64,
}

impl<T> Exchanges<T> {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self {
            connections: BTreeMap::new(),
            arrived: 0,
        }
    }

    /// Bytes of responses that arrived since it was asked last.
    pub(crate) fn take_arrived(&mut self) -> u64 {
        std::mem::take(&mut self.arrived)
    }

    /// Opens a connection from `from` to `to`.
    ///
    /// # Errors
    /// As [`Sockets::connect`].
    pub(crate) fn open(
        &mut self,
        host: &mut dyn Sockets,
        from: Profile,
        to: &SiteEnd,
    ) -> Result<SocketId, SocketError> {
        let socket = host.connect(from, None, to.local)?;
        let new = Asking {
            asked: VecDeque::new(),
            outgoing: CountedBytes::default(),
            waits: false,
            arrived: 0,
        };
        self.connections.insert(socket, new);
        Ok(socket)
    }

    /// Asks over a connection; `what` is handed back when it is over.
    pub(crate) fn ask(&mut self, host: &mut dyn Sockets, socket: SocketId, ask: Ask, what: T) {
        if let Some(asking) = self.connections.get_mut(&socket) {
            asking.asked.push_back((what, ask.response));
            let mut first = ask.to_bytes().to_vec();
            first.resize(ask.request.clamp(Ask::LEN, WRITTEN) as usize, 0);
            asking.outgoing.append(&first);
            let rest = ask.request.saturating_sub(first.len() as u64);
            asking.outgoing.append_zeros(rest);
            asking.write(host, socket);
        }
    }

    /// What an event of one of the sockets brings to an end.
    pub(crate) fn on_event(
        &mut self,
        host: &mut dyn Sockets,
        socket: SocketId,
        event: SocketEvent,
    ) -> Vec<Over<T>> {
        match event {
            SocketEvent::Established { .. } | SocketEvent::Writable => {
                if let Some(asking) = self.connections.get_mut(&socket) {
                    asking.write(host, socket);
                }
                Vec::new()
            }
            SocketEvent::Readable => {
                let read = host.read(socket, u64::MAX, None);
                self.arrived += read;
                let asking = self.connections.get_mut(&socket);
                asking.map(|asking| asking.read(read)).unwrap_or_default()
            }
            SocketEvent::PeerClosed => {
                let left = self.forget(host, socket).into_iter();
                // The server ends a stream that it answers with nothing else.
                let over = left.map(|(what, response)| match response {
                    0 => Over::Answered(what),
                    _ => Over::Lost(what),
                });
                over.collect()
            }
            SocketEvent::Broken(_) => {
                let left = self.forget(host, socket).into_iter();
                left.map(|(what, _)| Over::Lost(what)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Ends a connection; what was awaited over it, with its bytes.
    pub(crate) fn forget(
        &mut self,
        host: &mut dyn Sockets,
        socket: SocketId,
    ) -> VecDeque<(T, u64)> {
        // The number of a socket that was closed may be another's by now.
        let Some(gone) = self.connections.remove(&socket) else {
            return VecDeque::new();
        };
        host.shut_down(socket);
        host.close(socket);
        gone.asked
    }

    /// A connection that is open, the first opened of those that are.
    pub(crate) fn first(&self) -> Option<SocketId> {
        self.connections.keys().next().copied()
    }

    /// Whether nothing is awaited over this connection.
    pub(crate) fn is_idle(&self, socket: SocketId) -> bool {
        let asking = self.connections.get(&socket);
        asking.is_none_or(|asking| asking.asked.is_empty())
    }

    /// A connection over which nothing is awaited, the first opened of those.
    pub(crate) fn idle(&self) -> Option<SocketId> {
        let mut connections = self.connections.iter();
        let idle = connections.find(|(_, asking)| asking.asked.is_empty());
        idle.map(|(socket, _)| *socket)
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// How many exchanges are not over.
    pub(crate) fn awaited(&self) -> usize {
        self.connections.values().map(|c| c.asked.len()).sum()
    }
}

impl<T> Asking<T> {
    fn write(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        self.outgoing.write_with(|data| host.write(socket, data));
        let waits = !self.outgoing.is_empty();
        if waits != self.waits {
            self.waits = waits;
            host.want_room(socket, waits);
        }
    }

    fn read(&mut self, read: u64) -> Vec<Over<T>> {
        self.arrived += read;
        let mut over = Vec::new();
        while let Some((what, response)) = self.asked.pop_front() {
            if response == 0 || self.arrived < response {
                self.asked.push_front((what, response));
                break;
            }
            self.arrived -= response;
            over.push(Over::Answered(what));
        }
        over
    }
}

/// A connection at the server.
#[derive(Debug, Default)]
struct Answering {
    /// The beginning of a request.
    head: Vec<u8>,
    /// The request whose beginning is here, and its bytes that are not.
    request: Option<(Ask, u64)>,
    /// Bytes still to be written.
    outgoing: u64,
    waits: bool,
    /// The stream ends after what is to be written.
    last: bool,
    ended: bool,
    peer_closed: bool,
}

/// Answers requests; calls `complete` with each when all of it has arrived.
pub(crate) struct Server<F> {
    end: SiteEnd,
    complete: F,
    connections: BTreeMap<SocketId, Answering>,
}

impl<F: FnMut(&mut dyn Sockets, Ask) + Send> Server<F> {
    pub(crate) fn new(end: SiteEnd, complete: F) -> Self {
        Self {
            end,
            complete,
            connections: BTreeMap::new(),
        }
    }

    fn serve(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        let Some(answering) = self.connections.get_mut(&socket) else {
            return;
        };
        if !answering.read(host, socket, &mut self.complete) {
            // What is no request of ours gets no answer.
            host.reset(socket);
            return self.forget(host, socket);
        }
        if answering.write(host, socket) {
            self.forget(host, socket);
        }
    }

    fn forget(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        host.close(socket);
        self.connections.remove(&socket);
    }
}

impl Answering {
    /// Reads all that is there; whether these are requests.
    fn read(
        &mut self,
        host: &mut dyn Sockets,
        socket: SocketId,
        complete: &mut impl FnMut(&mut dyn Sockets, Ask),
    ) -> bool {
        loop {
            match self.request.take() {
                None => {
                    let missing = Ask::LEN - self.head.len() as u64;
                    host.read(socket, missing, Some(&mut self.head));
                    let Some(head) = self.head.first_chunk() else {
                        return true;
                    };
                    let Some(ask) = Ask::parse(head) else {
                        return false;
                    };
                    self.head.clear();
                    self.request = Some((ask, ask.request - Ask::LEN));
                }
                Some((ask, 0)) => {
                    self.outgoing += ask.response;
                    self.last |= ask.last;
                    complete(host, ask);
                }
                Some((ask, left)) => {
                    let read = host.read(socket, left, None);
                    self.request = Some((ask, left - read));
                    if read == 0 {
                        return true;
                    }
                }
            }
        }
    }

    /// Writes as much as the socket takes; whether the connection is over.
    fn write(&mut self, host: &mut dyn Sockets, socket: SocketId) -> bool {
        if self.outgoing > 0 {
            self.outgoing -= host.write(socket, Data::Zeros(self.outgoing));
        }
        let waits = self.outgoing > 0;
        if waits != self.waits {
            self.waits = waits;
            host.want_room(socket, waits);
        }
        let over = !waits && (self.last || self.peer_closed);
        if over && !std::mem::replace(&mut self.ended, true) {
            host.shut_down(socket);
        }
        over && self.peer_closed
    }
}

impl<F: FnMut(&mut dyn Sockets, Ask) + Send> App for Server<F> {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let end = self.end;
        host.listen(end.profile, end.local, BACKLOG).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                while let Some((accepted, _)) = host.accept(socket) {
                    self.connections.insert(accepted, Answering::default());
                }
            }
            SocketEvent::Readable | SocketEvent::Writable => self.serve(host, socket),
            SocketEvent::PeerClosed => {
                if let Some(answering) = self.connections.get_mut(&socket) {
                    answering.peer_closed = true;
                }
                self.serve(host, socket);
            }
            SocketEvent::Broken(_) => self.forget(host, socket),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use narrows_core::{ConnectionError, Datagram, Event, Relayed};

    use super::*;

    const HERE: SiteEnd = SiteEnd {
        profile: Profile(0),
        local: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80),
    };

    /// A host of connections over which requests came.
    #[derive(Default)]
    struct Host {
        accepted: Option<SocketId>,
        arrived: VecDeque<u8>,
        opened: u32,
        closed: Vec<SocketId>,
    }

    impl Sockets for Host {
        fn now(&self) -> Instant {
            Instant::ZERO
        }
        fn record(&mut self, _: Event<'static>) {}
        fn wake_at(&mut self, _: Option<Instant>) {}
        fn connect(
            &mut self,
            _: Profile,
            _: Option<SocketAddr>,
            _: SocketAddr,
        ) -> Result<SocketId, SocketError> {
            self.opened += 1;
            Ok(SocketId(self.opened))
        }
        fn listen(&mut self, _: Profile, _: SocketAddr, _: u32) -> Result<SocketId, SocketError> {
            Ok(SocketId(0))
        }
        fn accept(&mut self, _: SocketId) -> Option<(SocketId, SocketAddr)> {
            self.accepted.take().map(|socket| (socket, HERE.local))
        }
        fn bind(&mut self, _: Profile, _: SocketAddr) -> Result<SocketId, SocketError> {
            unreachable!("connections only")
        }
        fn is_own(&self, _: IpAddr) -> bool {
            false
        }
        fn read(&mut self, _: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
            let read = self.arrived.len().min(most as usize);
            let bytes = self.arrived.drain(..read);
            match into {
                Some(into) => into.extend(bytes),
                None => drop(bytes),
            }
            read as u64
        }
        fn relay(&mut self, _: SocketId, _: SocketId, _: u64, _: &mut CountedBytes) -> Relayed {
            unreachable!("nothing is relayed")
        }
        fn write(&mut self, _: SocketId, data: Data<'_>) -> u64 {
            data.len()
        }
        fn want_room(&mut self, _: SocketId, _: bool) {}
        fn shut_down(&mut self, _: SocketId) {}
        fn reset(&mut self, _: SocketId) {}
        fn close(&mut self, socket: SocketId) {
            self.closed.push(socket);
        }
        fn send_to(
            &mut self,
            _: SocketId,
            _: SocketAddr,
            _: &[u8],
            _: u32,
        ) -> Result<(), SocketError> {
            unreachable!("connections only")
        }
        fn receive_from(&mut self, _: SocketId, _: &mut Vec<u8>) -> Option<Datagram> {
            None
        }
    }

    const ASK: Ask = Ask {
        request: 100,
        response: 1000,
        issued: Instant::ZERO,
        last: false,
    };

    #[test]
    fn a_server_keeps_nothing_of_connections_that_ended() {
        let mut host = Host::default();
        let mut complete = 0;
        let mut server = Server::new(HERE, |_: &mut dyn Sockets, _| complete += 1);
        for (n, end) in [
            SocketEvent::PeerClosed,
            SocketEvent::Broken(ConnectionError::Reset),
            SocketEvent::Broken(ConnectionError::TimedOut),
        ]
        .into_iter()
        .enumerate()
        {
            let socket = SocketId(1 + n as u32);
            host.accepted = Some(socket);
            server.on_event(SocketId(0), SocketEvent::Incoming, &mut host);
            host.arrived.extend(ASK.to_bytes());
            host.arrived.extend([0; 100 - Ask::LEN as usize]);
            server.on_event(socket, SocketEvent::Readable, &mut host);
            assert_eq!((server.connections.len(), host.closed.len()), (1, n));
            server.on_event(socket, end, &mut host);
            assert_eq!(server.connections.len(), 0, "{end:?}");
            assert_eq!(host.closed.last(), Some(&socket), "{end:?}");
        }
        drop(server);
        assert_eq!(complete, 3);
    }

    #[test]
    fn a_client_keeps_nothing_of_connections_that_ended_and_says_what_was_lost() {
        let mut host = Host::default();
        let mut exchanges = Exchanges::new();
        for end in [
            SocketEvent::PeerClosed,
            SocketEvent::Broken(ConnectionError::Reset),
        ] {
            let socket = exchanges.open(&mut host, Profile(0), &HERE).expect("opens");
            exchanges.ask(&mut host, socket, ASK, "first");
            exchanges.ask(&mut host, socket, ASK, "second");
            host.arrived.extend([0; 1_500]);
            let over = exchanges.on_event(&mut host, socket, SocketEvent::Readable);
            assert_eq!(over, [Over::Answered("first")], "{end:?}");
            let over = exchanges.on_event(&mut host, socket, end);
            assert_eq!(over, [Over::Lost("second")], "{end:?}");
            assert_eq!((exchanges.connections(), exchanges.awaited()), (0, 0));
            assert_eq!(host.closed.last(), Some(&socket));
        }
    }

    #[test]
    fn what_a_request_begins_with_reads_back() {
        for last in [false, true] {
            let ask = Ask {
                request: Ask::LEN,
                response: u64::MAX >> 1,
                issued: Instant::from_nanos(1 << 62),
                last,
            };
            assert_eq!(Ask::parse(&ask.to_bytes()), Some(ask));
        }
        let short = Ask::parse(&[0; Ask::LEN as usize]);
        assert_eq!(short, None, "shorter than what it begins with");
    }
}
