//! What is kept of one direction of a flow, and the order of its packets.

use narrows_wire::TcpFlags;

use crate::classify::Segment;
use crate::probes::after;

/// One direction, in a line of the cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Way {
    pub packets: u64,
    pub bytes: u64,
    /// By ECN codepoint.
    pub ecn: [u32; 4],
    pub end: u32,
    pub ack: u32,
    pub value: u32,
    /// Segments with data, SYN or FIN that were sent again or came late.
    pub again: u32,
    pub started: bool,
    pub stamped: bool,
    pub fin: bool,
}

/// What a packet is beside those before it in its direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// Sent after all of them.
    pub newer: bool,
    /// Carries data that none of them did.
    pub new_data: bool,
}

impl Way {
    /// TCP's stand-in for a packet number: a packet is newer if it ends
    /// later, or ends as late and acknowledges more or carries a newer
    /// timestamp. A retransmission ends before the newest and is not.
    pub fn order(&mut self, segment: &Segment) -> Order {
        let (end, ack) = (segment.end(), segment.ack);
        let acks = segment.flags.has(TcpFlags::ACK);
        if !self.started {
            self.started = true;
            (self.end, self.ack) = (end, ack);
            self.stamp(segment);
            return Order {
                newer: true,
                new_data: true,
            };
        }
        let later = after(end, self.end);
        let stamped = self.stamp(segment);
        let newer = later || end == self.end && (acks && after(ack, self.ack) || stamped);
        if later {
            self.end = end;
        }
        if acks && after(ack, self.ack) {
            self.ack = ack;
        }
        if segment.end() != segment.seq && !later {
            self.again = self.again.saturating_add(1);
        }
        Order {
            newer,
            new_data: later,
        }
    }

    /// Whether the packet's timestamp is newer than all before.
    fn stamp(&mut self, segment: &Segment) -> bool {
        let Some((value, _)) = segment.timestamps else {
            return false;
        };
        let newer = !self.stamped || after(value, self.value);
        if newer {
            self.value = value;
            self.stamped = true;
        }
        newer
    }
}
