//! A modelled flow as a transport behind a socket.

use narrows_core::{
    Data, EndpointEvent, FlowSample, Packet, PacketPool, RecoveryEvent, SocketEvent, WRITE_AHEAD,
};
use narrows_units::Instant;
use narrows_wire::Ecn;

use super::endpoint::{Endpoint, ModelEvent};
use crate::datagram::{self, Sealer};

/// One end of a modelled flow that an application uses as a stream of zeros.
pub struct Socket {
    endpoint: Endpoint,
    sealer: Sealer,
    /// Bytes in order and not yet read.
    readable: u64,
    /// The payload of the packet that is being made.
    scratch: Vec<u8>,
}

impl Socket {
    /// A socket over `endpoint`, whose packets `sealer` addresses.
    pub fn new(endpoint: Endpoint, sealer: Sealer) -> Self {
        Self {
            endpoint,
            sealer,
            readable: 0,
            scratch: Vec::new(),
        }
    }
}

impl narrows_core::Endpoint for Socket {
    fn open(&mut self, _: Instant) {
        self.endpoint.open();
    }

    fn receive(&mut self, now: Instant, packet: &Packet) {
        if let Some(payload) = datagram::stored(packet) {
            self.endpoint.receive(now, payload);
        }
    }

    fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let len = self.endpoint.poll_transmit(now, &mut self.scratch)?;
        let zero_tail = len.saturating_sub(self.scratch.len() as u32);
        let packet = self
            .sealer
            .seal(now, pool, Ecn::NotEct, &self.scratch, zero_tail);
        Some(packet)
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        self.endpoint.next_timeout()
    }

    fn on_timeout(&mut self, now: Instant) {
        self.endpoint.on_timeout(now);
    }

    fn poll_event(&mut self) -> Option<EndpointEvent> {
        Some(match self.endpoint.poll_event()? {
            ModelEvent::Established => EndpointEvent::Socket(SocketEvent::Established {
                ecn: false,
                accecn: false,
            }),
            ModelEvent::Delivered(bytes) => {
                self.readable += bytes;
                EndpointEvent::Socket(SocketEvent::Readable)
            }
            ModelEvent::PeerFinished => EndpointEvent::Socket(SocketEvent::PeerClosed),
            ModelEvent::RttSample(rtt) => EndpointEvent::Rtt(rtt),
            ModelEvent::Retransmitted(bytes) => EndpointEvent::Retransmitted { bytes },
            ModelEvent::Lost(_) => EndpointEvent::Recovery(RecoveryEvent::FastRetransmit),
            ModelEvent::Timeout => EndpointEvent::Recovery(RecoveryEvent::RetransmissionTimeout),
        })
    }

    fn room(&self) -> u64 {
        let unsent = self.endpoint.unsent();
        // Twice as far, so that not every packet costs a write.
        if unsent < WRITE_AHEAD / 2 {
            WRITE_AHEAD - unsent
        } else {
            0
        }
    }

    fn write(&mut self, data: Data<'_>) -> u64 {
        self.endpoint.write(data.len());
        data.len()
    }

    fn read(&mut self, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        let bytes = self.readable.min(most);
        self.readable -= bytes;
        if let Some(into) = into {
            into.resize(into.len() + bytes as usize, 0);
        }
        bytes
    }

    fn shut_down(&mut self, _: Instant) {
        self.endpoint.close();
    }

    fn close(&mut self, now: Instant) {
        self.shut_down(now);
    }

    fn abort(&mut self, now: Instant) {
        self.shut_down(now);
    }

    /// The model has no end of a connection: late packets are still answered.
    fn is_closed(&self) -> bool {
        false
    }

    fn sample(&self, _: Instant) -> FlowSample {
        self.endpoint.sample()
    }
}
