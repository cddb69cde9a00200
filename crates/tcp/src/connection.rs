//! The connection as its host sees it.

use narrows_packet::{FlowSample, Packet, PacketPool, SocketFacts};
use narrows_units::{Duration, Instant, Rng};

use crate::config::Config;
use crate::event::{State, TcpEvent};

/// One end of a TCP connection.
pub struct Connection {
    config: Config,
    rng: Rng,
    state: State,
}

impl Connection {
    /// An end that will open the connection.
    pub fn client(config: Config, rng: Rng) -> Self {
        Self {
            config,
            rng,
            state: State::Closed,
        }
    }

    /// An end that listens and adopts the first SYN's sender.
    pub fn server(config: Config, rng: Rng) -> Self {
        Self {
            config,
            rng,
            state: State::Listen,
        }
    }

    /// Active open. Data written before the first
    /// [`poll_transmit`](Self::poll_transmit) may travel in the SYN.
    pub fn open(&mut self, _now: Instant) {
        self.state = State::SynSent;
    }

    /// Takes a packet of this connection that starts at its IP header.
    pub fn receive(&mut self, _now: Instant, _packet: &Packet) {}

    /// The next packet to send now; to be called until it answers `None`
    /// after every other call.
    pub fn poll_transmit(&mut self, _now: Instant, _pool: &mut PacketPool) -> Option<Box<Packet>> {
        let _ = self.rng.draw_u64();
        None
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }

    /// Runs whatever timers have expired.
    pub fn on_timeout(&mut self, _now: Instant) {}

    /// What happened since, in order.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        None
    }

    /// Writes `data`; returns how many bytes the send buffer took.
    pub fn write(&mut self, _data: &[u8]) -> usize {
        0
    }

    /// Writes zeros that are only counted; returns how many were taken.
    pub fn write_zeros(&mut self, _bytes: u64) -> u64 {
        0
    }

    /// Bytes in order and not yet read.
    pub fn readable(&self) -> u64 {
        0
    }

    /// Reads and forgets up to `max` bytes; returns how many.
    pub fn read(&mut self, _max: u64) -> u64 {
        0
    }

    /// Reads up to `max` bytes into `out`; returns how many.
    pub fn read_into(&mut self, _max: u64, _out: &mut Vec<u8>) -> u64 {
        0
    }

    /// No more data will be written (half-close).
    pub fn close(&mut self, _now: Instant) {}

    /// Resets the connection.
    pub fn abort(&mut self, _now: Instant) {
        self.state = State::Closed;
    }

    /// A snapshot as `tcp_info` would give it.
    pub fn sample(&self, _now: Instant) -> FlowSample {
        FlowSample::default()
    }

    /// How long the sender was limited by the receive window, by its own
    /// buffer, and by having nothing to send.
    pub fn limited(&self) -> (Duration, Duration, Duration) {
        (Duration::ZERO, Duration::ZERO, Duration::ZERO)
    }

    /// What a host hook may know of the socket.
    pub fn socket_facts(&self) -> SocketFacts {
        SocketFacts::default()
    }

    /// Whether nothing more will happen.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// How it was set up.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// The RST that answers `packet`, which no socket wants; `None` for packets
/// that must not be answered.
pub fn reset_for(_now: Instant, _pool: &mut PacketPool, _packet: &Packet) -> Option<Box<Packet>> {
    None
}
