//! The facts of a flow.

use narrows_units::Instant;
use narrows_wire::efm::Profile;
use narrows_wire::{Ecn, ip};

use super::{Flow, FlowState};
use crate::sample::Side;

impl Flow {
    /// Whether a handshake showed who the initiator is.
    pub fn role_known(&self) -> bool {
        self.role_known
    }

    /// Protocol number.
    pub fn protocol(&self) -> u8 {
        self.ends.protocol()
    }

    /// `TCP`, `QUIC` or `UDP`.
    pub fn protocol_name(&self) -> &'static str {
        if self.protocol() == ip::TCP {
            "TCP"
        } else if self.quic.is_some() {
            "QUIC"
        } else {
            "UDP"
        }
    }

    /// Packets of one side.
    pub fn packets(&self, side: Side) -> u64 {
        self.ways[side.index()].packets
    }

    /// Bytes of one side's IP packets.
    pub fn bytes(&self, side: Side) -> u64 {
        self.ways[side.index()].bytes
    }

    /// Packets of one side with this codepoint.
    pub fn ecn(&self, side: Side, ecn: Ecn) -> u32 {
        self.ways[side.index()].ecn[ecn as usize]
    }

    /// Segments of one side with data, SYN or FIN that did not advance:
    /// retransmissions and what came late.
    pub fn again(&self, side: Side) -> u32 {
        self.ways[side.index()].again
    }

    /// How far it is.
    pub fn state(&self) -> FlowState {
        self.state
    }

    /// The signals that its packets carry, as announced or pinned.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// When its first packet passed.
    pub fn first_at(&self) -> Instant {
        Instant::from_nanos(self.first_at)
    }

    /// When its last packet so far passed.
    pub fn last_at(&self) -> Instant {
        Instant::from_nanos(self.last_at)
    }
}
