//! Latency probes: a datagram each interval, sent back by the other end.

use narrows_packet::EntityId;
use narrows_traffic::probe::Asker;

use crate::flow::Envelope;

/// A running probe.
pub struct ProbeState {
    pub entity: EntityId,
    pub asker: Asker,
    /// Bytes of payload in questions and answers.
    pub payload_len: u32,
    pub question: Envelope,
    pub answer: Envelope,
}
