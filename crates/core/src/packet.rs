//! A packet and the pool that recycles it.

use narrows_units::Instant;

use crate::event::FlowId;

/// A packet's identity within a run. Provenance, never on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// One IP packet: real bytes from the IP header on, then `zero_tail` bytes of
/// zeros that are counted and not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Unique within the run.
    pub id: PacketId,
    /// The packet that this one was made from (a duplicate, an ICMP error), if any.
    pub parent: Option<PacketId>,
    /// When it was made.
    pub born: Instant,
    /// The flow that it belongs to, as the engine knows it; provenance.
    pub flow: Option<FlowId>,
    /// When it entered the queue or element that holds it: that holder's
    /// scratch, as `skb->cb` is.
    pub held_since: Instant,
    /// A second word of scratch for the current holder.
    pub scratch: u64,
    /// Headers and the stored prefix of the payload.
    pub bytes: Vec<u8>,
    /// Zeros that follow `bytes` on the wire.
    pub zero_tail: u32,
}

impl Packet {
    /// A packet of nothing.
    pub(crate) const EMPTY: Self = Self {
        id: PacketId(0),
        parent: None,
        born: Instant::ZERO,
        flow: None,
        held_since: Instant::ZERO,
        scratch: 0,
        bytes: Vec::new(),
        zero_tail: 0,
    };

    /// Length in bytes of the IP packet on the wire.
    pub fn len(&self) -> u32 {
        // A stored prefix never exceeds an IP packet's 64 KiB.
        self.bytes.len() as u32 + self.zero_tail
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Hands out packets and takes them back, so that a run in steady state
/// allocates nothing; numbers them in the order of their making.
#[derive(Debug, Default)]
pub struct PacketPool {
    // Packets travel as boxes; unboxing them here would copy and allocate.
    #[allow(clippy::vec_box)]
    free: Vec<Box<Packet>>,
    next_id: u64,
    outstanding: u64,
}

/// Room for IPv6, TCP with all options and a little payload without growing.
const HEADER_CAPACITY: usize = 160;

impl PacketPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty packet with a fresh id, born at `now`.
    pub fn take(&mut self, now: Instant, flow: Option<FlowId>) -> Box<Packet> {
        let mut packet = self.free.pop().unwrap_or_else(|| {
            Box::new(Packet {
                bytes: Vec::with_capacity(HEADER_CAPACITY),
                ..Packet::default()
            })
        });
        packet.id = PacketId(self.next_id);
        packet.parent = None;
        packet.born = now;
        packet.flow = flow;
        packet.held_since = now;
        packet.scratch = 0;
        packet.bytes.clear();
        packet.zero_tail = 0;
        self.next_id += 1;
        self.outstanding += 1;
        packet
    }

    /// A copy of `packet` with an id of its own and `packet` as its parent.
    pub fn duplicate(&mut self, now: Instant, packet: &Packet) -> Box<Packet> {
        let mut copy = self.take(now, packet.flow);
        copy.parent = Some(packet.id);
        copy.bytes.extend_from_slice(&packet.bytes);
        copy.zero_tail = packet.zero_tail;
        copy
    }

    /// Takes a packet back.
    pub fn give(&mut self, packet: Box<Packet>) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.free.push(packet);
    }

    /// Packets handed out and not yet given back.
    pub fn outstanding(&self) -> u64 {
        self.outstanding
    }

    /// Packets made so far.
    pub fn made(&self) -> u64 {
        self.next_id
    }
}
