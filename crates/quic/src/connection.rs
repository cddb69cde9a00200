//! One end of a QUIC connection: quinn-proto without I/O, in a run's time.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use narrows_core::{FlowSample, Limited, Packet, PacketPool, RecoveryEvent};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::Ecn;
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, ConnectionId, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, StreamEvent, StreamId, VarInt,
};

use crate::datagram::{self, Sealer};
use crate::epoch::Epoch;
use crate::null::Null;
use crate::settings::{self, QuicConfig, SERVER_NAME};
use crate::watch::{ControllerEvent, ControllerWatch};

/// What an application may have written ahead of what is acknowledged, beside
/// two windows: four of the largest bursts that segmentation makes (64 KiB),
/// as for TCP.
const WRITE_AHEAD: u64 = 256 << 10;

/// Zeros to send, shared by all writes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Bytes that an application may have written that are not acknowledged:
/// enough that the connection never waits for the application, and little
/// enough that a flow that is stopped ends soon.
fn send_window(watch: &ControllerWatch) -> u64 {
    2 * watch.window() + WRITE_AHEAD
}

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuicEvent {
    /// The handshake is over.
    Established,
    /// Stream data, or the end of it, waits to be read.
    Readable,
    /// The newest packet of an acknowledgement was sent and acknowledged in
    /// that time, the other end's delay included.
    RttSample(Duration),
    /// The congestion control reduced its window.
    Recovery(RecoveryEvent),
    /// Packets were declared lost; what they carried is sent again.
    Lost {
        /// How many.
        packets: u64,
        /// Bytes in them.
        bytes: u64,
    },
    /// All that was written, and the end of it, was acknowledged.
    Acknowledged,
    /// One of the ends closed the connection as agreed.
    Closed,
    /// The connection ended otherwise, and why.
    Broken(String),
}

/// One end of a connection.
pub struct Connection {
    config: QuicConfig,
    epoch: Epoch,
    endpoint: Endpoint,
    /// Of the end that connects, until it does.
    client: Option<ClientConfig>,
    inner: Option<(ConnectionHandle, quinn_proto::Connection)>,
    watch: ControllerWatch,
    sealer: Sealer,
    /// What the endpoint itself has to say, connection or not.
    responses: VecDeque<Vec<u8>>,
    /// Bytes of the datagram that is being made.
    scratch: Vec<u8>,
    events: VecDeque<QuicEvent>,
    outgoing: Option<StreamId>,
    incoming: Option<StreamId>,
    over: bool,
    /// Datagrams that came with CE.
    pub came_with_ce: u64,
}

impl Connection {
    /// The end that will [`open`](Self::open) the connection.
    ///
    /// # Panics
    /// If its TLS is not that of a client.
    pub fn client(config: QuicConfig, epoch: Epoch, mut rng: Rng) -> Self {
        let crypto = Arc::new(Null(settings::draw_key(&mut rng)));
        let watch = ControllerWatch::default();
        let transport = config.transport(&watch);
        let endpoint = Arc::new(config.endpoint(crypto.clone(), &mut rng));
        let client = config.client(crypto, transport, &mut rng);
        let endpoint = Endpoint::new(endpoint, None, true, None);
        Self::new(config, epoch, endpoint, Some(client), watch)
    }

    /// The end that waits.
    ///
    /// # Panics
    /// If its TLS is not that of a server.
    pub fn server(config: QuicConfig, epoch: Epoch, mut rng: Rng) -> Self {
        let crypto = Arc::new(Null(settings::draw_key(&mut rng)));
        let watch = ControllerWatch::default();
        let transport = config.transport(&watch);
        let endpoint = Arc::new(config.endpoint(crypto.clone(), &mut rng));
        let server = Arc::new(config.server(crypto, transport));
        let endpoint = Endpoint::new(endpoint, Some(server), true, None);
        Self::new(config, epoch, endpoint, None, watch)
    }

    fn new(
        config: QuicConfig,
        epoch: Epoch,
        endpoint: Endpoint,
        client: Option<ClientConfig>,
        watch: ControllerWatch,
    ) -> Self {
        let sealer = Sealer {
            source: config.local,
            destination: config.remote,
            dscp: config.dscp,
            flow: config.flow,
            ident: 0,
        };
        Self {
            config,
            epoch,
            endpoint,
            client,
            inner: None,
            watch,
            sealer,
            responses: VecDeque::new(),
            scratch: Vec::new(),
            events: VecDeque::new(),
            outgoing: None,
            incoming: None,
            over: false,
            came_with_ce: 0,
        }
    }

    /// Its settings.
    pub fn config(&self) -> &QuicConfig {
        &self.config
    }

    /// Has the first packets of the end that connects be addressed to `id` in place of a drawn one; it
    /// is not to be guessed (RFC 9000 §7.2).
    pub fn address_first(&mut self, id: &[u8; 20]) {
        if let Some(client) = &mut self.client {
            let id = ConnectionId::new(id);
            client.initial_dst_cid_provider(Arc::new(move || id));
        }
    }

    /// Begins the handshake; the end that waits does nothing.
    pub fn open(&mut self, now: Instant) {
        let Some(client) = self.client.take() else {
            return;
        };
        let (at, remote) = (self.epoch.std(now), self.config.remote);
        match self.endpoint.connect(at, client, remote, SERVER_NAME) {
            Ok(inner) => self.inner = Some(inner),
            Err(error) => self.end(QuicEvent::Broken(error.to_string())),
        }
    }

    /// A datagram came, in a packet.
    pub fn receive(&mut self, now: Instant, packet: &Packet) {
        if let Some((ecn, payload)) = datagram::open(packet) {
            self.receive_payload(now, ecn, payload);
        }
    }

    /// A datagram with this payload came.
    pub fn receive_payload(&mut self, now: Instant, ecn: Ecn, payload: &[u8]) {
        self.came_with_ce += u64::from(ecn == Ecn::Ce);
        let (at, remote) = (self.epoch.std(now), self.config.remote);
        let codepoint = EcnCodepoint::from_bits(ecn as u8);
        let data = BytesMut::from(payload);
        let mut answer = std::mem::take(&mut self.scratch);
        answer.clear();
        let event = self
            .endpoint
            .handle(at, remote, None, codepoint, data, &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.inner {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.inner.is_none() => {
                match self.endpoint.accept(incoming, at, &mut answer, None) {
                    Ok(inner) => self.inner = Some(inner),
                    Err(refused) => {
                        let size = refused.response.map_or(0, |r| r.size);
                        self.respond(&answer[..size]);
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(response)) => self.respond(&answer[..response.size]),
            None => {}
        }
        self.scratch = answer;
        self.settle();
    }

    fn respond(&mut self, datagram: &[u8]) {
        if !datagram.is_empty() {
            self.responses.push_back(datagram.to_vec());
        }
    }

    /// Passes the pending events between endpoint and connection.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.inner else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(back) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(back);
            }
        }
    }

    /// The next datagram that is to be sent now, in a packet.
    pub fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let ecn = self.make_datagram(now)?;
        Some(self.sealer.seal(now, pool, ecn, &self.scratch, 0))
    }

    /// The payload of the next datagram that is to be sent now.
    pub fn poll_payload(&mut self, now: Instant) -> Option<(Ecn, &[u8])> {
        let ecn = self.make_datagram(now)?;
        Some((ecn, &self.scratch))
    }

    /// Makes the next datagram in `scratch`.
    fn make_datagram(&mut self, now: Instant) -> Option<Ecn> {
        if let Some(response) = self.responses.pop_front() {
            self.scratch = response;
            return Some(Ecn::NotEct);
        }
        let (_, connection) = self.inner.as_mut()?;
        self.scratch.clear();
        let transmit = connection.poll_transmit(self.epoch.std(now), 1, &mut self.scratch)?;
        let ecn = match transmit.ecn {
            Some(codepoint) if self.config.ecn => Ecn::from_bits(codepoint as u8),
            _ => Ecn::NotEct,
        };
        self.scratch.truncate(transmit.size);
        self.settle();
        Some(ecn)
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        let (_, connection) = self.inner.as_mut()?;
        connection.poll_timeout().map(|at| self.epoch.run(at))
    }

    /// The time has come.
    pub fn on_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.inner {
            connection.handle_timeout(self.epoch.std(now));
        }
        self.settle();
    }

    /// What happened, in order, one at a time.
    pub fn poll_event(&mut self) -> Option<QuicEvent> {
        self.collect_events();
        self.events.pop_front()
    }

    fn collect_events(&mut self) {
        let Some((_, connection)) = &mut self.inner else {
            return;
        };
        for (_, noted) in self.watch.take() {
            self.events.push_back(match noted {
                ControllerEvent::Rtt(rtt) => QuicEvent::RttSample(rtt),
                ControllerEvent::Recovery(event) => QuicEvent::Recovery(event),
            });
        }
        if let Some((packets, bytes)) = self.watch.take_lost(|| connection.stats()) {
            self.events.push_back(QuicEvent::Lost { packets, bytes });
        }
        let mut end = None;
        while let Some(event) = connection.poll() {
            match event {
                quinn_proto::Event::Connected => self.events.push_back(QuicEvent::Established),
                quinn_proto::Event::ConnectionLost { reason } => end = Some(reason),
                quinn_proto::Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    if let Some(id) = connection.streams().accept(Dir::Uni) {
                        self.incoming = Some(id);
                        self.events.push_back(QuicEvent::Readable);
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { .. }) => {
                    self.events.push_back(QuicEvent::Readable);
                }
                quinn_proto::Event::Stream(StreamEvent::Finished { .. }) => {
                    self.events.push_back(QuicEvent::Acknowledged);
                }
                _ => {}
            }
        }
        match end {
            None => {}
            Some(ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed) => {
                self.end(QuicEvent::Closed);
            }
            Some(reason) => self.end(QuicEvent::Broken(reason.to_string())),
        }
    }

    fn end(&mut self, how: QuicEvent) {
        if !std::mem::replace(&mut self.over, true) {
            self.events.push_back(how);
        }
    }

    /// The one stream that this end sends, once the handshake is over.
    fn sending(&mut self) -> Option<(&mut quinn_proto::Connection, StreamId)> {
        let (_, connection) = self.inner.as_mut()?;
        if connection.is_handshaking() {
            return None;
        }
        if self.outgoing.is_none() {
            self.outgoing = connection.streams().open(Dir::Uni);
        }
        connection.set_send_window(send_window(&self.watch));
        Some((connection, self.outgoing?))
    }

    /// Writes `data` to the one stream that this end sends, as far as it may
    /// write ahead; how many bytes were taken.
    pub fn write(&mut self, data: &[u8]) -> u64 {
        let Some((connection, id)) = self.sending() else {
            return 0;
        };
        let taken = connection.send_stream(id).write(data);
        taken.map_or(0, |bytes| bytes as u64)
    }

    /// Writes up to `most` zeros likewise.
    pub fn write_zeros(&mut self, most: u64) -> u64 {
        let Some((connection, id)) = self.sending() else {
            return 0;
        };
        let mut taken = 0;
        while taken < most {
            let part = (most - taken).min(ZEROS.len() as u64) as usize;
            let zeros = &mut [Bytes::from_static(&ZEROS[..part])];
            match connection.send_stream(id).write_chunks(zeros) {
                Ok(written) if written.bytes > 0 => taken += written.bytes as u64,
                _ => break,
            }
        }
        taken
    }

    /// Ends the stream after what was written. Whether that could be said:
    /// not before the handshake is over.
    pub fn finish(&mut self) -> bool {
        // An empty stream is one, too.
        match self.sending() {
            Some((connection, id)) => connection.send_stream(id).finish().is_ok(),
            None => false,
        }
    }

    /// Takes up to `most` bytes of stream data that has come in order, into
    /// `into` if they are wanted: how many, and whether the stream ended with
    /// them.
    pub fn read(&mut self, most: u64, mut into: Option<&mut Vec<u8>>) -> (u64, bool) {
        let (Some((_, connection)), Some(id)) = (&mut self.inner, self.incoming) else {
            return (0, false);
        };
        let (mut bytes, mut ended) = (0, false);
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(true) {
            while bytes < most {
                let part = usize::try_from(most - bytes).unwrap_or(usize::MAX);
                match chunks.next(part) {
                    Ok(Some(chunk)) => {
                        bytes += chunk.bytes.len() as u64;
                        if let Some(into) = &mut into {
                            into.extend_from_slice(&chunk.bytes);
                        }
                    }
                    Ok(None) => {
                        ended = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            // Whether there is something to send is asked after every event.
            let _ = chunks.finalize();
        }
        if ended {
            self.incoming = None;
        }
        (bytes, ended)
    }

    /// Closes the connection at once.
    pub fn close(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.inner {
            connection.close(self.epoch.std(now), VarInt::from_u32(0), Bytes::new());
        }
        self.end(QuicEvent::Closed);
    }

    /// Whether nothing that is still on its way is for it: not while it closes or drains, three
    /// probe timeouts long (RFC 9000 §10.2), in which late packets are answered with the close
    /// or passed over.
    pub fn is_drained(&self) -> bool {
        let drained = |(_, c): &(_, quinn_proto::Connection)| c.is_drained();
        self.inner.as_ref().is_none_or(drained)
    }

    /// A sample of the sender, as [`ControllerWatch::sample`] gives it.
    pub fn sample(&self) -> FlowSample {
        let Some((_, connection)) = &self.inner else {
            return FlowSample::default();
        };
        self.watch.sample(&connection.stats())
    }

    /// Bytes that the congestion control lets be in flight.
    pub fn window(&self) -> u64 {
        self.watch.window()
    }

    /// Bytes of the largest payload that the path is known to carry.
    pub fn payload(&self) -> u16 {
        let stats = self
            .inner
            .as_ref()
            .map(|(_, connection)| connection.stats());
        stats.map_or(0, |stats| stats.path.current_mtu)
    }

    /// For how long something else than congestion held the sender back, as
    /// [`ControllerWatch::limited`] gives it.
    pub fn limited(&self) -> Limited {
        self.watch.limited()
    }

    /// See [`ControllerWatch::has_more`].
    pub fn has_more(&self, has_more: bool) {
        self.watch.has_more(has_more);
    }

    /// Sends a packet that asks for an acknowledgement.
    pub fn ping(&mut self) {
        if let Some((_, connection)) = &mut self.inner {
            connection.ping();
        }
    }
}
