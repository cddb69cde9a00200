//! QUIC as a transport behind a socket: one stream in each direction.

use std::collections::VecDeque;

use narrows_core::{
    ConnectionError, Data, Endpoint, EndpointEvent, FlowSample, Limited, Packet, PacketPool,
    SocketEvent,
};
use narrows_units::Instant;

use crate::connection::{Connection, QuicEvent};
use crate::watch::lost_sizes;

/// One end of a QUIC connection that an application uses as a stream.
pub struct Socket {
    connection: Connection,
    /// Events that are yet to be reported.
    events: VecDeque<EndpointEvent>,
    /// The application has ended its stream, which was not possible yet.
    ending: bool,
    /// The application has closed the connection, or the end of the other's stream was reported.
    end_reported: bool,
    over: bool,
}

impl Socket {
    /// A socket over `connection`, which has not begun.
    pub fn new(connection: Connection) -> Self {
        Self {
            connection,
            events: VecDeque::new(),
            ending: false,
            end_reported: false,
            over: false,
        }
    }

    fn collect(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            let socket = match event {
                QuicEvent::Established => SocketEvent::Established {
                    ecn: self.connection.config().ecn,
                    accecn: false,
                },
                QuicEvent::Readable => SocketEvent::Readable,
                QuicEvent::Acknowledged => SocketEvent::Acknowledged,
                QuicEvent::Broken(_) => {
                    self.over = true;
                    SocketEvent::Broken(ConnectionError::Reset)
                }
                QuicEvent::Closed => {
                    self.over = true;
                    // Nothing more comes, the end of the stream neither.
                    if std::mem::replace(&mut self.end_reported, true) {
                        continue;
                    }
                    SocketEvent::PeerClosed
                }
                QuicEvent::RttSample(rtt) => {
                    self.events.push_back(EndpointEvent::Rtt(rtt));
                    continue;
                }
                QuicEvent::Recovery(event) => {
                    self.events.push_back(EndpointEvent::Recovery(event));
                    continue;
                }
                QuicEvent::Lost { packets, bytes } => {
                    let sizes = lost_sizes(packets, bytes);
                    let again = sizes.map(|bytes| EndpointEvent::Retransmitted { bytes });
                    self.events.extend(again);
                    continue;
                }
            };
            self.events.push_back(EndpointEvent::Socket(socket));
        }
    }
}

impl Endpoint for Socket {
    fn open(&mut self, now: Instant) {
        self.connection.open(now);
    }

    fn receive(&mut self, now: Instant, packet: &Packet) {
        self.connection.receive(now, packet);
    }

    fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if self.ending {
            self.ending = !self.connection.finish();
        }
        self.connection.poll_transmit(now, pool)
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        self.connection.next_timeout()
    }

    fn on_timeout(&mut self, now: Instant) {
        self.connection.on_timeout(now);
    }

    fn poll_event(&mut self) -> Option<EndpointEvent> {
        if self.events.is_empty() {
            self.collect();
        }
        self.events.pop_front()
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn write(&mut self, data: Data<'_>) -> u64 {
        let taken = match data {
            Data::Bytes(bytes) => self.connection.write(bytes),
            Data::Zeros(bytes) => self.connection.write_zeros(bytes),
        };
        self.connection.has_more(taken < data.len());
        taken
    }

    fn read(&mut self, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        let (bytes, ended) = self.connection.read(most, into);
        if ended && !std::mem::replace(&mut self.end_reported, true) {
            let closed = EndpointEvent::Socket(SocketEvent::PeerClosed);
            self.events.push_back(closed);
        }
        bytes
    }

    fn shut_down(&mut self, _: Instant) {
        self.connection.has_more(false);
        self.ending = !self.connection.finish();
    }

    fn close(&mut self, now: Instant) {
        self.end_reported = true;
        self.connection.close(now);
    }

    fn abort(&mut self, now: Instant) {
        self.close(now);
    }

    fn is_closed(&self) -> bool {
        self.over && self.connection.is_drained()
    }

    fn sample(&self, _: Instant) -> FlowSample {
        self.connection.sample()
    }

    fn limited(&self) -> Option<Limited> {
        Some(self.connection.limited())
    }

    fn received_ce(&self) -> Option<u64> {
        Some(self.connection.came_with_ce)
    }
}
