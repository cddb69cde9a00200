//! TCP as a transport behind a socket.

use narrows_core::{
    ConnectionError, CountedBytes, Data, Endpoint, EndpointEvent, FlowSample, Limited, Packet,
    PacketPool, SocketError, SocketEvent, SocketFacts, TelemetryField, WRITE_AHEAD,
};
use narrows_units::Instant;
use narrows_wire::tcp::FastOpenCookie;

use crate::config::SendBuffer;
use crate::connection::Connection;
use crate::event::TcpEvent;

impl Endpoint for Connection {
    fn open(&mut self, now: Instant) {
        Connection::open(self, now);
    }

    fn receive(&mut self, now: Instant, packet: &Packet) {
        Connection::receive(self, now, packet);
    }

    fn reopened_by(&mut self, now: Instant, packet: &Packet) -> Option<u32> {
        Connection::reopened_by(self, now, packet)
    }

    fn packet_too_big(&mut self, now: Instant, mtu: u32, packet: &[u8]) -> bool {
        Connection::packet_too_big(self, now, mtu, packet)
    }

    fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>> {
        Connection::poll_transmit(self, now, pool)
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        Connection::next_timeout(self)
    }

    fn on_timeout(&mut self, now: Instant) {
        Connection::on_timeout(self, now);
    }

    fn poll_event(&mut self) -> Option<EndpointEvent> {
        loop {
            let socket = match Connection::poll_event(self)? {
                TcpEvent::Established { ecn, accecn } => SocketEvent::Established { ecn, accecn },
                TcpEvent::Readable => SocketEvent::Readable,
                TcpEvent::PeerClosed => SocketEvent::PeerClosed,
                TcpEvent::Reset => SocketEvent::Broken(ConnectionError::Reset),
                TcpEvent::TimedOut => SocketEvent::Broken(ConnectionError::TimedOut),
                TcpEvent::RttSample(rtt) => return Some(EndpointEvent::Rtt(rtt)),
                TcpEvent::Recovery(event) => return Some(EndpointEvent::Recovery(event)),
                TcpEvent::Retransmitted { bytes } => {
                    return Some(EndpointEvent::Retransmitted { bytes });
                }
                // Room is asked for by `room`; of the end, `is_closed` knows.
                TcpEvent::Writable | TcpEvent::Closed => continue,
            };
            return Some(EndpointEvent::Socket(socket));
        }
    }

    /// As much as is in flight, as Linux's send buffer of twice the window lets
    /// an application write ahead, and at least [`WRITE_AHEAD`]. So what is left
    /// when the application stops is what a real socket would still send. Where
    /// the send buffer is modelled, it decides, and a writer that it has refused
    /// sleeps until there is room; and a low-water mark before all.
    fn room(&self) -> u64 {
        let unsent = self.unsent();
        if let Some(mark) = self.config().unsent_low_water {
            return match unsent {
                waits if waits > 0 && 2 * waits >= mark => 0,
                waits => mark.saturating_sub(waits),
            };
        }
        let in_flight = self.unacknowledged() - unsent;
        let ahead = in_flight.max(WRITE_AHEAD);
        match self.config().host.send_buffer {
            SendBuffer::Auto { .. } if self.write_refused => 0,
            SendBuffer::Auto { .. } => u64::MAX,
            SendBuffer::Unlimited if unsent >= ahead => 0,
            // Twice as far, so that not every ACK costs a write.
            SendBuffer::Unlimited => 2 * ahead - unsent,
        }
    }

    fn write(&mut self, data: Data<'_>) -> u64 {
        match data {
            Data::Bytes(bytes) => Connection::write(self, bytes) as u64,
            Data::Zeros(bytes) => self.write_zeros(bytes),
        }
    }

    fn read(&mut self, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        match into {
            Some(into) => self.read_into(most, into),
            None => Connection::read(self, most),
        }
    }

    fn read_counted(&mut self, most: u64, into: &mut CountedBytes) -> u64 {
        Connection::read_counted(self, most, into)
    }

    fn shut_down(&mut self, now: Instant) {
        Connection::close(self, now);
    }

    /// With data that the application did not read it is a reset, as in Linux
    /// (`__tcp_close`; RFC 2525 §2.17): the peer is to know that it was lost.
    fn close(&mut self, now: Instant) {
        if self.readable() > 0 {
            Connection::abort(self, now);
        } else {
            Connection::release(self, now);
        }
    }

    fn abort(&mut self, now: Instant) {
        Connection::abort(self, now);
    }

    fn is_closed(&self) -> bool {
        Connection::is_closed(self)
    }

    fn sample(&self, now: Instant) -> FlowSample {
        Connection::sample(self, now)
    }

    fn set_option(&mut self, name: &str, value: u64) -> Result<(), SocketError> {
        let set = Connection::set_option(self, name, value);
        set.map_err(|e| SocketError::Option(e.to_string()))
    }

    fn option(&self, name: &str) -> Option<u64> {
        Connection::option(self, name)
    }

    fn telemetry(&self, report: &mut dyn FnMut(TelemetryField, i64)) {
        self.cc
            .telemetry()
            .for_each(|(field, value)| report(field, value));
    }

    fn limited(&self) -> Option<Limited> {
        let (receive_window, send_buffer, application) = Connection::limited(self);
        Some(Limited {
            receive_window,
            send_buffer,
            application,
        })
    }

    fn fast_open_cookie(&self) -> Option<&[u8]> {
        self.handshake.cookie.as_ref().map(FastOpenCookie::as_slice)
    }

    fn socket_facts(&self) -> Option<SocketFacts> {
        Some(Connection::socket_facts(self))
    }
}
