//! One line of packets that wait, and their count.

use std::collections::VecDeque;

use narrows_core::{DropCause, EntityId, Outlet, Packet};
use narrows_units::Instant;

use crate::link_facts::LinkFacts;
use crate::meter::Meter;

/// Packets in the order in which they came.
#[derive(Debug)]
pub(crate) struct Waiting {
    packets: VecDeque<Box<Packet>>,
    pub meter: Meter,
}

impl Waiting {
    /// An empty line of the queue that is named `entity` in events.
    pub fn new(entity: EntityId, link: LinkFacts) -> Self {
        Self {
            packets: VecDeque::new(),
            meter: Meter::new(entity, link),
        }
    }

    /// Puts `packet` at the end.
    pub fn push(&mut self, now: Instant, mut packet: Box<Packet>) {
        self.meter.entered(now, &mut packet);
        self.packets.push_back(packet);
    }

    /// Takes the oldest packet and counts it out.
    pub fn pull(&mut self) -> Option<Box<Packet>> {
        let packet = self.packets.pop_front()?;
        self.meter.left(self.meter.length(&packet));
        Some(packet)
    }

    /// The oldest packet.
    pub fn head(&self) -> Option<&Packet> {
        self.packets.front().map(AsRef::as_ref)
    }

    /// Reports the drop of a packet that does not wait.
    pub fn drop(
        &mut self,
        now: Instant,
        packet: Box<Packet>,
        cause: DropCause,
        out: &mut Outlet<'_>,
    ) {
        self.meter.drop(now, packet, cause, out);
    }

    /// After a lower limit: drops from the head what exceeds it.
    pub fn trim(&mut self, now: Instant, limit: u32, out: &mut Outlet<'_>) {
        while self.packets() > limit {
            let Some(packet) = self.pull() else {
                return;
            };
            self.drop(now, packet, DropCause::Overflow, out);
        }
    }

    /// How many packets wait.
    pub fn packets(&self) -> u32 {
        self.meter.counts.backlog.packets
    }

    /// How many bytes they are, as the link counts them.
    pub fn bytes(&self) -> u64 {
        self.meter.counts.backlog.bytes
    }

    /// `now` if a packet waits.
    pub fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (!self.packets.is_empty()).then_some(now)
    }
}
