//! A transport behind a socket.

use narrows_units::{Duration, Instant};

use crate::app::{Data, SocketError, SocketEvent};
use crate::counted::CountedBytes;
use crate::event::{FlowSample, RecoveryEvent, TelemetryField};
use crate::hook::SocketFacts;
use crate::packet::{Packet, PacketPool};

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// The application is to know.
    Socket(SocketEvent),
    /// An RTT sample.
    Rtt(Duration),
    /// The congestion state changed.
    Recovery(RecoveryEvent),
    /// A segment, or what a lost packet carried, was sent again.
    Retransmitted {
        /// Its payload bytes.
        bytes: u32,
    },
}

/// How long a sender was limited since it was established, other than by
/// congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// By the receive window; of QUIC, by the receiver's flow control (RFC 9000 §4.1).
    pub receive_window: Duration,
    /// By its own buffer.
    pub send_buffer: Duration,
    /// By having nothing to send.
    pub application: Duration,
}

/// One end of a connection, without I/O.
///
/// After each call that takes `now` or touches a buffer its host calls
/// [`poll_transmit`](Self::poll_transmit) until that answers `None`, then
/// asks for [`next_timeout`](Self::next_timeout).
pub trait Endpoint {
    /// Begins the handshake; an end that waits does nothing.
    fn open(&mut self, now: Instant);

    /// Takes a packet of this connection.
    fn receive(&mut self, now: Instant, packet: &Packet);

    /// Whether `packet` opens this connection, which is over but for late packets (TCP's TIME-WAIT),
    /// again: then a listener may take it in the place of this one, with this initial sequence
    /// number.
    fn reopened_by(&mut self, now: Instant, packet: &Packet) -> Option<u32> {
        let _ = (now, packet);
        None
    }

    /// A link of the path takes packets of at most `mtu` bytes, as an ICMP error says
    /// that quotes `packet` of this connection, from its IP header on. Whether that is
    /// believed.
    fn packet_too_big(&mut self, now: Instant, mtu: u32, packet: &[u8]) -> bool {
        let _ = (now, mtu, packet);
        false
    }

    /// The next packet that is to be sent now.
    fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>>;

    /// When [`on_timeout`](Self::on_timeout) is due.
    fn next_timeout(&mut self) -> Option<Instant>;

    /// The time has come.
    fn on_timeout(&mut self, now: Instant);

    /// What happened since, in order.
    fn poll_event(&mut self) -> Option<EndpointEvent>;

    /// Bytes that the application may write now; `u64::MAX` where only the
    /// connection itself knows.
    fn room(&self) -> u64;

    /// Writes; how many bytes were taken.
    fn write(&mut self, data: Data<'_>) -> u64;

    /// Reads up to `most` bytes, into `into` if they are wanted.
    fn read(&mut self, most: u64, into: Option<&mut Vec<u8>>) -> u64;

    /// Reads up to `most` bytes to the end of `into`, zeros that are only counted as
    /// such.
    fn read_counted(&mut self, most: u64, into: &mut CountedBytes) -> u64 {
        let mut bytes = Vec::new();
        let read = self.read(most, Some(&mut bytes));
        into.append(&bytes);
        read
    }

    /// Ends the stream after what was written.
    fn shut_down(&mut self, now: Instant);

    /// The application is done: a transport whose connection would stay open
    /// after both streams have ended closes it.
    fn close(&mut self, now: Instant);

    /// Gives the connection up at once.
    fn abort(&mut self, now: Instant);

    /// Whether nothing more will happen.
    fn is_closed(&self) -> bool;

    /// A snapshot of the sender.
    fn sample(&self, now: Instant) -> FlowSample;

    /// Sets an option of its congestion control, see
    /// [`Sockets::set_option`](crate::Sockets::set_option).
    ///
    /// # Errors
    /// [`SocketError::Option`], [`SocketError::Unsupported`] if it has none.
    fn set_option(&mut self, name: &str, value: u64) -> Result<(), SocketError> {
        let _ = (name, value);
        Err(SocketError::Unsupported)
    }

    /// The value of such an option, if there is one of that name.
    fn option(&self, name: &str) -> Option<u64> {
        let _ = name;
        None
    }

    /// Calls `report` with each value that it reports of itself beside that.
    fn telemetry(&self, report: &mut dyn FnMut(TelemetryField, i64)) {
        let _ = report;
    }

    /// How long it was limited; `None` if the transport does not keep account.
    fn limited(&self) -> Option<Limited> {
        None
    }

    /// Packets that were received with CE, where the other end does not know it.
    fn received_ce(&self) -> Option<u64> {
        None
    }

    /// What the server gave for the next connection to it (RFC 7413 §4.1.3).
    fn fast_open_cookie(&self) -> Option<&[u8]> {
        None
    }

    /// What a host hook may know.
    fn socket_facts(&self) -> Option<SocketFacts> {
        None
    }
}
