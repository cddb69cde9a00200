//! Plausible wrong rules, kept to prove that traces of a real kernel tell them
//! from the right ones. Without the feature `replay` no connection has one.

use crate::connection::Connection;

/// A wrong rule.
#[cfg_attr(not(feature = "replay"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// What is SACKed is delivered only when it is acknowledged cumulatively,
    /// that is, never: it is passed over then.
    SackedNotCounted,
    /// A segment that was sent again counts as delivered twice.
    RetransmissionsTwice,
    /// The round trip is measured from segments that were sent again too,
    /// against Karn's rule.
    RttOfRetransmissions,
    /// A probe of the tail counts as in flight a second time.
    ProbesInFlight,
    /// Only new data that ends an idle time begins a transmission
    /// (`CA_EVENT_TX_START`), not a retransmission.
    SilentRetransmissions,
}

impl Connection {
    /// Whether this connection follows `mutant`.
    #[cfg(feature = "replay")]
    pub(crate) fn follows(&self, mutant: Mutant) -> bool {
        self.cc.mutant == Some(mutant)
    }

    /// No connection follows any.
    #[cfg(not(feature = "replay"))]
    #[allow(clippy::unused_self)]
    pub(crate) const fn follows(&self, _: Mutant) -> bool {
        false
    }
}
