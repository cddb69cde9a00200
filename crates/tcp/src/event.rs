//! What a connection reports to its host.

use narrows_core::RecoveryEvent;
use narrows_units::Duration;

/// States of RFC 9293 §3.3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TcpState {
    /// Waits for a SYN.
    Listen,
    /// Sent a SYN.
    SynSent,
    /// Got a SYN and answered it.
    SynReceived,
    /// Open both ways.
    Established,
    /// Closed by us, FIN not acknowledged.
    FinWait1,
    /// Closed by us, FIN acknowledged.
    FinWait2,
    /// Closed by both at once.
    Closing,
    /// Closed by both; late packets are still answered.
    TimeWait,
    /// Closed by the peer.
    CloseWait,
    /// Closed by the peer, then by us.
    LastAck,
    /// No connection.
    #[default]
    Closed,
}

impl TcpState {
    /// Linux's number of the state (`include/net/tcp_states.h`).
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
        }
    }
}

/// Something that the host may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TcpEvent {
    /// The handshake is complete.
    Established {
        /// Classic ECN is in use.
        ecn: bool,
        /// Accurate ECN is in use.
        accecn: bool,
    },
    /// An RTT sample of the congestion control's kind: of the segment that was
    /// delivered last.
    RttSample(Duration),
    /// The congestion state changed.
    Recovery(RecoveryEvent),
    /// A segment was sent again.
    Retransmitted {
        /// Its payload bytes.
        bytes: u32,
    },
    /// New data may be read.
    Readable,
    /// The send buffer, once full, has room again.
    Writable,
    /// All data and the FIN of the peer have arrived.
    PeerClosed,
    /// Both directions are closed and acknowledged, or TIME-WAIT began.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// Gave up after too many retransmissions.
    TimedOut,
}
