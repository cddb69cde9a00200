//! The round trip of the three-way handshake.

use narrows_units::Duration;

use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// A packet of the handshake, once one has passed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: u64,
    packet: u32,
    passed: bool,
}

impl Seen {
    fn pass(&mut self, now: Now) -> bool {
        let again = self.passed;
        *self = Self {
            at: now.at,
            packet: now.id as u32,
            passed: true,
        };
        again
    }
}

/// Stands for a round trip that is not known.
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// What was seen of a handshake, in a line of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    syn: Seen,
    syn_ack: Seen,
    left: Duration,
    right: Duration,
    /// Whether a SYN or SYN-ACK came twice, so that answers are ambiguous.
    pub again: bool,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            syn: Seen::default(),
            syn_ack: Seen::default(),
            left: UNKNOWN,
            right: UNKNOWN,
            again: false,
        }
    }
}

impl Handshake {
    /// Keeps a round trip that it gave.
    pub fn keep(&mut self, quantity: Quantity, rtt: Duration) {
        match quantity {
            Quantity::LeftRtt => self.left = rtt,
            Quantity::RightRtt => self.right = rtt,
            _ => {}
        }
    }

    /// The two parts of the round trip; the whole is their sum.
    pub fn parts(&self) -> (Option<Duration>, Option<Duration>) {
        let known = |rtt| (rtt != UNKNOWN).then_some(rtt);
        (known(self.left), known(self.right))
    }

    /// A SYN without ACK.
    pub fn syn(&mut self, now: Now) {
        self.again |= self.syn.pass(now);
    }

    /// A SYN with ACK.
    pub fn syn_ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        self.again |= self.syn_ack.passed;
        if self.syn.passed && !self.again {
            let Seen { at, packet, .. } = self.syn;
            out.push(now.rtt(Technique::Handshake, Quantity::RightRtt, at, packet));
        }
        self.syn_ack.pass(now);
    }

    /// The first packet of the initiator with ACK and without SYN.
    pub fn ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        if self.again || !self.syn_ack.passed {
            return;
        }
        let mut add = |quantity, Seen { at, packet, .. }| {
            out.push(now.rtt(Technique::Handshake, quantity, at, packet));
        };
        add(Quantity::LeftRtt, self.syn_ack);
        if self.syn.passed {
            add(Quantity::FullRtt(Side::Initiator), self.syn);
        }
    }
}
