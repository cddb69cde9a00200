//! What a transfer by a deadline is to reach, and how far it is.

/// What the connections of a [`Transfer`](crate::Transfer) are to reach together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferGoal {
    /// When all is to be delivered, ns of `CLOCK_MONOTONIC`.
    pub deadline_ns: u64,
    /// Bytes of all connections together; `None` if that is not known: they yield until the
    /// deadline, and are best effort from then on.
    pub size: Option<u64>,
    /// 1000 times the weight with which a connection begins, 50 to 1000.
    pub first_weight: u32,
}

/// What the connections of a [`Transfer`](crate::Transfer) have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferTally {
    /// Bytes that peers acknowledged, of connections without a size of their own.
    pub acked: u64,
    /// Bytes that peers sent.
    pub received: u64,
    /// Connections that became part of it when they were established.
    pub opened: u64,
    /// Of these, how many are closed.
    pub closed: u64,
    /// Connections that the kernel did not let become part of it.
    pub refused: u64,
    /// Connections that are part of it, at the last pass.
    pub connections: u64,
    /// Of these, those with something to send.
    pub senders: u64,
    /// The mean of their weights, by what they sent of late; `None` without any.
    pub weight: Option<f64>,
    /// How many of them fall short of their share at w = 1 for three intervals.
    pub short_of: u64,
    /// How many of them the congestion window does not hold up: their program, or the
    /// other end, does.
    pub limited: u64,
    /// Connections without the ECN that their control needs: they are the kernel's Reno.
    pub plain: u64,
}
