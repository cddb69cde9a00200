//! What marking has come to at one host or device.

use std::ops::AddAssign;

use narrows_wire::Signal;
use serde::{Deserialize, Serialize};

/// What marking has come to so far: packets that left, marked, or left unmarked
/// for which reason. A simulated host counts as a device of a real one does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalCounters {
    /// Connections that began and were parsed.
    pub flows: u64,
    /// Of these, forgotten because there were too many.
    pub evicted: u64,
    /// SYNs and SYN-ACKs that a code other than 000 was written into.
    pub announced: u64,
    /// Packets that signals were written into, all-zero bits included.
    pub marked: u64,
    /// Of these, with the bit of the signal at each place of `enum
    /// nw_efm_place` set (for the edge counter: not zero).
    pub set: [u64; 8],
    /// Left without marks, but for a spin value, as they were to be cut in
    /// several.
    pub segmented: u64,
    /// What became of those on the wire.
    pub segments: u64,
    /// SYNs and SYN-ACKs that no socket of this host sent, left alone by
    /// profiles with L or E.
    pub without_socket: u64,
    /// Packets that the kernel would not let change.
    pub refused: u64,
    /// TCP packets of connections that are not marked: they began before, a
    /// filter leaves them out, or they were forgotten.
    pub passed_over: u64,
    /// What is no whole TCP segment: other protocols, fragments, TCP behind
    /// extension headers of IPv6, headers that cannot be.
    pub other: u64,
}

impl SignalCounters {
    /// Packets with the bit of `signal` set.
    pub fn set(&self, signal: Signal) -> u64 {
        let found = self.signals().find(|(s, _)| *s == signal);
        found.map_or(0, |(_, count)| count)
    }

    /// Each signal that was set, and in how many packets.
    pub fn signals(&self) -> impl Iterator<Item = (Signal, u64)> {
        // The places are in the order of the bits.
        let all = Signal::ALL.into_iter().zip(self.set);
        all.filter(|(_, count)| *count > 0)
    }
}

impl AddAssign for SignalCounters {
    fn add_assign(&mut self, other: Self) {
        self.flows += other.flows;
        self.evicted += other.evicted;
        self.announced += other.announced;
        self.marked += other.marked;
        for (sum, more) in self.set.iter_mut().zip(other.set) {
            *sum += more;
        }
        self.segmented += other.segmented;
        self.segments += other.segments;
        self.without_socket += other.without_socket;
        self.refused += other.refused;
        self.passed_over += other.passed_over;
        self.other += other.other;
    }
}

/// What a `[[mark]]` of a scenario did at one of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSignals {
    /// The mark's name; that of the flow where the flow itself says it.
    pub mark: String,
    /// The host's name.
    pub host: String,
    /// Over all devices of the host.
    pub counters: SignalCounters,
}
