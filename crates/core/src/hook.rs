//! The one place where a host's packets are marked or read.

use narrows_units::{Duration, Instant};

use crate::packet::Packet;

/// Which end of a connection a host is; independent of the data's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sent the first SYN.
    Initiator,
    /// Answered it.
    Responder,
}

/// What the host's socket knows that the packet does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketFacts {
    /// Segments sent again so far: those that were declared lost and not
    /// acknowledged before that.
    pub lost: u64,
    /// Of these, those that the peer says it had got before.
    pub spurious: u64,
    /// CE-marked segments that the peer has echoed so far.
    pub delivered_ce: u64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
}

/// What becomes of a packet after the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookVerdict {
    /// It goes on.
    Pass,
    /// It is dropped.
    Drop,
}

/// A marker or reader at a host. Egress runs after pacing and segmentation,
/// before the first element; ingress after the last element, before the
/// transport. It sees every packet of the host.
pub trait HostHook: Send {
    /// A packet leaves.
    fn egress(
        &mut self,
        now: Instant,
        role: Role,
        packet: &mut Packet,
        socket: Option<&SocketFacts>,
    ) -> HookVerdict;

    /// A packet arrives.
    fn ingress(
        &mut self,
        now: Instant,
        role: Role,
        packet: &mut Packet,
        socket: Option<&SocketFacts>,
    ) -> HookVerdict;
}
