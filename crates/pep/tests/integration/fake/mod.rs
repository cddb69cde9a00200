//! A host whose network is the test: it says what arrives and how much is taken.

pub mod open;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use narrows_core::{
    App, ConnectionError, CountedBytes, Data, Datagram, DatagramError, Event, FlowSample, Profile,
    Relayed, SocketError, SocketEvent, SocketId, Sockets,
};
use narrows_units::{Duration, Instant};

/// Segments in the window of every connection.
pub const WINDOW: u32 = 10;

/// A stream socket, from the application's side.
#[derive(Debug, Default)]
pub struct Stream {
    /// Arrived, and not read.
    pub incoming: VecDeque<u8>,
    /// Written.
    pub outgoing: Vec<u8>,
    /// How much more may be written.
    pub room: usize,
    pub wants_room: bool,
    pub ended: bool,
    pub reset: bool,
    pub closed: bool,
    /// Segments of the congestion window, [`WINDOW`] at first.
    pub window: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Bytes that were acknowledged.
    pub acked: u64,
    /// Options of its congestion control that were set.
    pub options: Vec<(String, u64)>,
    /// Where it was opened from, if that was said.
    pub from: Option<SocketAddr>,
    /// Whom it was opened to; none of an accepted one.
    pub to: Option<SocketAddr>,
}

/// The host.
#[derive(Debug, Default)]
pub struct Host {
    pub now: Instant,
    pub wake: Option<Instant>,
    pub streams: BTreeMap<SocketId, Stream>,
    pending: VecDeque<(SocketId, SocketAddr)>,
    next: u32,
    /// How often it was to listen.
    listeners: u32,
    /// Listening sockets that are open, each with its address.
    pub listening: Vec<(SocketId, SocketAddr)>,
    /// The address that cannot be listened at.
    pub taken: Option<SocketAddr>,
    /// What the next connection meets at once.
    pub unreachable: Option<SocketError>,
    /// Room of new sockets.
    pub room: usize,
    /// Its own addresses.
    pub own: Vec<IpAddr>,
    /// Where the connections that come were led from.
    pub led_from: Option<SocketAddr>,
    /// How often something was relayed, or was to be.
    pub relays: u64,
    /// A datagram that is here, and one that was not delivered.
    pub datagram: Option<Datagram>,
    pub undelivered: Option<DatagramError>,
    /// What was reported of flows.
    pub reported: Vec<(&'static str, i64)>,
    /// Whom it was to probe, and how often from then on.
    pub probed: Vec<(SocketId, Duration)>,
}

pub const CLIENT: &str = "10.0.0.1:4000";
const LISTENER: SocketId = SocketId(0);

impl Host {
    pub fn new() -> Self {
        Self {
            room: 1 << 20,
            ..Self::default()
        }
    }

    fn stream(&mut self, to: Option<SocketAddr>) -> SocketId {
        self.next += 1;
        let id = SocketId(self.next);
        let stream = Stream {
            room: self.room,
            to,
            window: WINDOW,
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        id
    }

    /// A client connects.
    pub fn connects(&mut self, app: &mut dyn App) -> SocketId {
        self.connects_from(app, CLIENT)
    }

    /// A client connects from this address.
    pub fn connects_from(&mut self, app: &mut dyn App, client: &str) -> SocketId {
        self.connects_to(app, LISTENER, client)
    }

    /// A client connects from this address, to that listening socket.
    pub fn connects_to(&mut self, app: &mut dyn App, listener: SocketId, client: &str) -> SocketId {
        let near = self.stream(None);
        let client = client.parse().expect("an address");
        self.pending.push_back((near, client));
        app.on_event(listener, SocketEvent::Incoming, self);
        near
    }

    /// The connection that was opened last, to a destination.
    pub fn onward(&self) -> Option<(SocketId, SocketAddr)> {
        let last = self.streams.iter().rev();
        last.filter_map(|(id, s)| Some((*id, s.to?))).next()
    }

    pub fn established(&mut self, app: &mut dyn App, socket: SocketId) {
        let event = SocketEvent::Established {
            ecn: false,
            accecn: false,
        };
        app.on_event(socket, event, self);
    }

    pub fn arrives(&mut self, app: &mut dyn App, socket: SocketId, bytes: &[u8]) {
        self[socket].incoming.extend(bytes);
        app.on_event(socket, SocketEvent::Readable, self);
    }

    pub fn peer_closes(&mut self, app: &mut dyn App, socket: SocketId) {
        app.on_event(socket, SocketEvent::PeerClosed, self);
    }

    pub fn breaks(&mut self, app: &mut dyn App, socket: SocketId, why: ConnectionError) {
        app.on_event(socket, SocketEvent::Broken(why), self);
    }

    /// So many bytes more may be written.
    pub fn drains(&mut self, app: &mut dyn App, socket: SocketId, bytes: usize) {
        self[socket].room += bytes;
        if self[socket].wants_room && self[socket].room > 0 && !self[socket].closed {
            app.on_event(socket, SocketEvent::Writable, self);
        }
    }

    /// Time goes on, timer by timer.
    pub fn passes(&mut self, app: &mut dyn App, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.wake.filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.wake = None;
            app.on_timer(self);
        }
        self.now = until;
    }

    /// Takes what was written since the last call.
    pub fn sent(&mut self, socket: SocketId) -> Vec<u8> {
        std::mem::take(&mut self[socket].outgoing)
    }
}

impl std::ops::Index<SocketId> for Host {
    type Output = Stream;

    fn index(&self, id: SocketId) -> &Stream {
        &self.streams[&id]
    }
}

impl std::ops::IndexMut<SocketId> for Host {
    fn index_mut(&mut self, id: SocketId) -> &mut Stream {
        self.streams.get_mut(&id).expect("a socket of the host")
    }
}

impl Sockets for Host {
    fn now(&self) -> Instant {
        self.now
    }

    fn record(&mut self, event: Event<'static>) {
        if let Event::Telemetry { field, value, .. } = event {
            self.reported.push((field.name, value));
        }
    }

    fn probe(&mut self, socket: SocketId, every: Duration) {
        self.probed.push((socket, every));
    }

    fn wake_at(&mut self, at: Option<Instant>) {
        self.wake = at;
    }

    fn connect(
        &mut self,
        _: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        match self.unreachable.take() {
            Some(error) => Err(error),
            None => {
                let socket = self.stream(Some(remote));
                self[socket].from = local;
                Ok(socket)
            }
        }
    }

    fn listen(&mut self, _: Profile, at: SocketAddr, _: u32) -> Result<SocketId, SocketError> {
        if self.taken == Some(at) {
            return Err(SocketError::AddressInUse(at));
        }
        // The first one is that of LISTENER, which clients come to.
        let listener = match self.listeners {
            0 => LISTENER,
            _ => {
                self.next += 1;
                SocketId(self.next)
            }
        };
        self.listeners += 1;
        self.listening.push((listener, at));
        Ok(listener)
    }

    fn accept(&mut self, _: SocketId) -> Option<(SocketId, SocketAddr)> {
        self.pending.pop_front()
    }

    fn bind(&mut self, _: Profile, _: SocketAddr) -> Result<SocketId, SocketError> {
        Err(SocketError::Unsupported)
    }

    fn destination_of(&mut self, _: SocketId) -> Option<SocketAddr> {
        self.led_from
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        assert!(!self[socket].closed, "reads from a socket that it closed");
        let incoming = &mut self[socket].incoming;
        let bytes = incoming
            .len()
            .min(usize::try_from(most).unwrap_or(usize::MAX));
        let read = incoming.drain(..bytes);
        match into {
            Some(into) => into.extend(read),
            None => drop(read),
        }
        bytes as u64
    }

    fn relay(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed {
        self.relays += 1;
        let mut most = ahead;
        if ahead == 0 && queue.is_empty() {
            most = self[to].room as u64;
        }
        let left = most == 0 && !self[from].incoming.is_empty();
        let read = self.read_counted(from, most, queue);
        let written = 0;
        Relayed {
            read,
            written,
            left,
        }
    }

    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64 {
        let stream = &mut self[socket];
        assert!(!stream.ended && !stream.closed, "writes after the end");
        let taken = stream.room.min(data.len() as usize);
        match data {
            Data::Bytes(bytes) => stream.outgoing.extend_from_slice(&bytes[..taken]),
            Data::Zeros(_) => stream.outgoing.resize(stream.outgoing.len() + taken, 0),
        }
        stream.room -= taken;
        taken as u64
    }

    fn want_room(&mut self, socket: SocketId, want: bool) {
        self[socket].wants_room = want;
    }

    fn set_option(&mut self, socket: SocketId, name: &str, value: u64) -> Result<(), SocketError> {
        self[socket].options.push((name.to_owned(), value));
        Ok(())
    }

    fn sample(&mut self, socket: SocketId) -> Option<FlowSample> {
        Some(FlowSample {
            cwnd: self[socket].window,
            in_flight: self[socket].in_flight,
            bytes_acked: self[socket].acked,
            srtt: Duration::from_millis(20),
            delivery_rate: 1_000,
            ..FlowSample::default()
        })
    }

    fn shut_down(&mut self, socket: SocketId) {
        self[socket].ended = true;
    }

    fn reset(&mut self, socket: SocketId) {
        self[socket].reset = true;
    }

    fn close(&mut self, socket: SocketId) {
        match self.listening.iter().position(|(at, _)| *at == socket) {
            Some(at) => drop(self.listening.remove(at)),
            None => self[socket].closed = true,
        }
    }

    fn option(&mut self, socket: SocketId, name: &str) -> Option<u64> {
        let mut options = self[socket].options.iter().rev();
        options.find_map(|(known, value)| (known == name).then_some(*value))
    }

    fn send_to(&mut self, _: SocketId, _: SocketAddr, _: &[u8], _: u32) -> Result<(), SocketError> {
        Err(SocketError::Unsupported)
    }

    fn receive_from(&mut self, _: SocketId, _: &mut Vec<u8>) -> Option<Datagram> {
        self.datagram.take()
    }

    fn receive_error(&mut self, _: SocketId, _: &mut Vec<u8>) -> Option<DatagramError> {
        self.undelivered.take()
    }
}
