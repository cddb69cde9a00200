//! What a box reports of itself.

use narrows_units::Instant;
use narrows_wire::FlowKey;

use super::Middlebox;
use crate::connections::Direction;
use crate::ffi::is_established;
use crate::rule::Rule;

/// What a box counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoxCounters {
    /// Packets that came.
    pub packets: u64,
    /// Of these, dropped by a rule.
    pub dropped: u64,
    /// Packets without a readable IP header, which are dropped.
    pub malformed: u64,
    /// Packets dropped because no port was free for their connection, or because its packets
    /// would have looked like another one's.
    pub ports_used_up: u64,
    /// Packets dropped because the table of connections was full.
    pub table_full: u64,
    /// Packets whose TCP options were not all changed: the options could not be read, the
    /// header had no room, or the packet was a fragment.
    pub options_unchanged: u64,
    /// ICMP errors about a connection.
    pub related: u64,
    /// Packets dropped because a rule translates and nobody knows to which connection they belong: later
    /// fragments before whose packet's first one none went on, or whose connection was forgotten.
    pub stray_fragments: u64,
    /// First fragments dropped because a rule translates and there was no room to follow their packet.
    pub fragments_full: u64,
    /// Dropped fragments that hide what is above IP: first ones without the whole header, and TCP's that
    /// write over a part of it (RFC 1858 §3).
    pub tiny_fragments: u64,
    /// Frames that are not IP.
    pub frames: u64,
    /// Of these, dropped by a rule.
    pub frames_dropped: u64,
    /// Connections without an answer that made room for others when the table was full.
    pub evicted: u64,
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounters {
    /// Packets to which it applied.
    pub packets: u64,
    /// Their bytes of IP, as they came.
    pub bytes: u64,
}

/// What a rule did to packets of IP and other frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleHits {
    /// Packets to which it applied.
    pub packets: u64,
    /// Of these, dropped by it: not by a rule before it, and not what one before it accepted.
    pub dropped: u64,
}

/// What a box reports of a table of its classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableView {
    /// The mask over the window of a packet's headers.
    pub mask: [u8; 64],
    /// Distinct keys.
    pub keys: Vec<[u8; 64]>,
    /// Rules.
    pub rules: usize,
    /// Whether they are ordered by a range.
    pub ordered: bool,
}

/// What a box reports of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionView {
    /// Of the packets that go as the first one did, as they come.
    pub forward: FlowKey,
    /// Of those of the other direction, as they come.
    pub reverse: FlowKey,
    /// TCP flags seen, forward and reverse.
    pub flags: [u8; 2],
    /// Whether it is a TCP connection that was opened and not closed.
    pub established: bool,
    /// When it is forgotten without further packets.
    pub expires: Instant,
    /// Its rules, from 1.
    pub rules: Vec<usize>,
}

impl Middlebox {
    /// The rules and what they counted, in their order.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = (&Rule, RuleCounters)> {
        let counted = self.counted.iter().map(|[packets, bytes, _]| RuleCounters {
            packets: *packets,
            bytes: *bytes,
        });
        self.rules.iter().zip(counted)
    }

    /// What each rule did, in their order.
    pub fn hits(&self) -> impl ExactSizeIterator<Item = RuleHits> {
        self.counted.iter().map(|[packets, _, dropped]| RuleHits {
            packets: *packets,
            dropped: *dropped,
        })
    }

    /// What it counted.
    pub fn counters(&self) -> BoxCounters {
        BoxCounters {
            evicted: self.connections.evicted(),
            ..self.counters
        }
    }

    /// Whether a rule is stateful.
    pub fn is_stateful(&self) -> bool {
        self.stateful
    }

    /// The classifier's tables.
    pub fn tables(&self) -> impl Iterator<Item = TableView> {
        self.classifier.tables().iter().map(|table| TableView {
            mask: table.mask,
            keys: table.keys().collect(),
            rules: table.rules(),
            ordered: table.range.is_some(),
        })
    }

    /// The connections that are tracked.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        self.connections.iter().map(|connection| ConnectionView {
            forward: connection.forward.key(),
            reverse: connection.tracked.reverse.key(),
            flags: connection.tracked.flags,
            established: is_established(connection.tracked.flags),
            expires: connection.tracked.expiry(),
            rules: connection.rules.iter().map(|r| *r as usize + 1).collect(),
        })
    }

    /// How many connections are tracked.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// The rules, from 1, that the last packet matched by itself.
    pub fn last_matched(&self) -> impl Iterator<Item = usize> {
        self.matched.iter().map(|rule| *rule as usize + 1)
    }

    /// The rules, from 1, that applied to the last packet: those, and its connection's.
    pub fn last_applied(&self) -> impl Iterator<Item = usize> {
        self.applied.iter().map(|rule| *rule as usize + 1)
    }

    /// The direction of the last packet in the connection that it belonged to or began.
    pub fn last_direction(&self) -> Option<Direction> {
        self.belongs
    }
}
