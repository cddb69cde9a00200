//! What a box at a device has counted, as text and for JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a box at a device has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxCounts {
    /// The device.
    pub device: String,
    /// The name of the device where the kernel has the box now: another one where it was renamed, none
    /// where it is gone.
    pub stands_at: Option<String>,
    /// Packets of IP that came by either side; of a bundle (GSO, GRO), its segments.
    pub packets: u64,
    /// Of these, dropped by a rule.
    pub dropped: u64,
    /// Dropped for want of a readable IP header.
    pub malformed: u64,
    /// Whose TCP options were not all changed: they could not be read, there was no room for longer
    /// ones, or the packet was a fragment.
    pub options_unchanged: u64,
    /// Dropped because they match more rules than the program has room for.
    pub overmatched: u64,
    /// Dropped because the kernel did not let them be changed.
    pub unwritten: u64,
    /// Bundles of several segments.
    pub bundles: u64,
    /// Dropped because no port was free for their connection, or because its packets would have
    /// looked like another one's.
    pub ports_used_up: u64,
    /// Dropped because there was no room for their connection.
    pub table_full: u64,
    /// ICMP errors about a connection.
    pub related: u64,
    /// Dropped because a rule translates and nobody knows to which connection they belong: later
    /// fragments before whose packet's first one none went on, or whose connection was forgotten.
    pub stray_fragments: u64,
    /// First fragments dropped because a rule translates and there was no room to follow their packet.
    pub fragments_full: u64,
    /// Dropped fragments that hide what is above IP (RFC 1858 §3).
    pub tiny_fragments: u64,
    /// Connections without an answer that made room for others when the table was full.
    pub evicted: u64,
    /// Connections that are tracked; `None` without rules that have state.
    pub connections: Option<u64>,
    /// Frames that are not IP.
    pub other: u64,
    /// Of these, dropped by a rule that names their type; the others pass.
    pub other_dropped: u64,
    /// The rules.
    pub rules: Vec<RuleCounts>,
}

/// What a rule at a device has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// From 1.
    pub number: usize,
    /// As it is written.
    pub rule: String,
    /// Packets to which it applied.
    pub packets: u64,
    /// Their bytes of IP.
    pub bytes: u64,
}

impl fmt::Display for BoxCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} packets, {} dropped",
            self.device, self.packets, self.dropped
        )?;
        match &self.stands_at {
            None => writeln!(f, "  {} is gone: nothing is filtered", self.device)?,
            Some(name) if *name != self.device => writeln!(f, "  now called {name}")?,
            Some(_) => {}
        }
        if let Some(connections) = self.connections {
            writeln!(f, "  {connections} connections")?;
        }
        for (count, what) in [
            (self.malformed, "without a readable IP header, dropped"),
            (self.overmatched, "that match more than 64 rules, dropped"),
            (
                self.unwritten,
                "that the kernel did not let be changed, dropped",
            ),
            (
                self.options_unchanged,
                "whose TCP options could not be changed",
            ),
            (self.ports_used_up, "without a free port, dropped"),
            (
                self.table_full,
                "without room for their connection, dropped",
            ),
            (
                self.stray_fragments,
                "fragments of no known connection, dropped",
            ),
            (
                self.fragments_full,
                "first fragments that could not be followed, dropped",
            ),
            (
                self.tiny_fragments,
                "fragments that hide what is above IP, dropped",
            ),
            (
                self.evicted,
                "connections without an answer that made room for others",
            ),
            (self.related, "ICMP errors about a connection"),
            (self.bundles, "bundles of several segments"),
            (self.other, "frames that are not IP"),
            (self.other_dropped, "of these dropped by a rule"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        self.rules.iter().try_for_each(|rule| {
            let RuleCounts {
                number,
                rule,
                packets,
                bytes,
            } = rule;
            writeln!(f, "{number:>4} {rule}  [{packets} packets, {bytes} bytes]")
        })
    }
}
