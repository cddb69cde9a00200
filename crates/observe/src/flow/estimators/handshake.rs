//! The round trip of the three-way handshake.

use narrows_units::Duration;

use crate::estimate::{Basis, Estimate, Unit};
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

/// A round trip that is not known.
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// What was seen of a handshake, in a line of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    syn: Seen,
    syn_ack: Seen,
    left: Duration,
    right: Duration,
    /// Whether the SYN came twice, so that it is unknown which one was answered.
    asked_again: bool,
    /// Whether the SYN-ACK did, or passed before its SYN.
    answered_again: bool,
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            syn: Seen::default(),
            syn_ack: Seen::default(),
            left: UNKNOWN,
            right: UNKNOWN,
            asked_again: false,
            answered_again: false,
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

    /// Adds the round trip and its parts.
    pub fn estimates(&self, all: &mut Vec<Estimate>) {
        let (left, right) = self.parts();
        let whole = left.zip(right).map(|(l, r)| l.as_nanos() + r.as_nanos());
        let whole = whole.map(Duration::from_nanos);
        for (value, quantity) in [
            (whole, Quantity::FullRtt(Side::Initiator)),
            (left, Quantity::LeftRtt),
            (right, Quantity::RightRtt),
        ] {
            let Some(value) = value.map(Duration::as_millis_f64) else {
                continue;
            };
            all.push(Estimate {
                technique: Technique::Handshake,
                quantity,
                value,
                unit: Unit::Ms,
                interval: None,
                n: 1,
                rejected: self.rejected(),
                sd: None,
                min: Some(value),
                median: Some(value),
                p95: Some(value),
                basis: Basis::Measured,
            });
        }
    }

    /// Round trips that are ambiguous, as something came twice or in the wrong order.
    pub fn rejected(&self) -> u64 {
        u64::from(self.asked_again || self.answered_again)
    }

    /// A SYN without ACK.
    pub fn syn(&mut self, now: Now) {
        self.asked_again |= self.syn.pass(now);
        self.answered_again |= self.syn_ack.passed;
    }

    /// A SYN with ACK.
    pub fn syn_ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        self.answered_again |= self.syn_ack.passed;
        if self.syn.passed && !self.asked_again && !self.answered_again {
            let Seen { at, packet, .. } = self.syn;
            out.push(now.rtt(Technique::Handshake, Quantity::RightRtt, at, packet));
        }
        self.syn_ack.pass(now);
    }

    /// The first packet of the initiator that shows that it has the answer.
    pub fn ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        if self.answered_again || !self.syn_ack.passed {
            return;
        }
        let mut add = |quantity, Seen { at, packet, .. }| {
            out.push(now.rtt(Technique::Handshake, quantity, at, packet));
        };
        add(Quantity::LeftRtt, self.syn_ack);
        if self.syn.passed && !self.asked_again {
            add(Quantity::FullRtt(Side::Initiator), self.syn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    enum Packet {
        Syn,
        SynAck,
        Ack,
    }
    use Packet::{Ack, Syn, SynAck};

    /// What these packets give, one each 10 ns.
    fn found(packets: &[Packet]) -> (Vec<Quantity>, u64) {
        let (mut handshake, mut out) = (Handshake::default(), Vec::new());
        for (id, packet) in packets.iter().enumerate() {
            let now = Now {
                at: id as u64 * 10,
                id: id as u64,
            };
            match packet {
                Syn => handshake.syn(now),
                SynAck => handshake.syn_ack(now, &mut out),
                Ack => handshake.ack(now, &mut out),
            }
        }
        let found = out.iter().map(|s| s.quantity).collect();
        (found, handshake.rejected())
    }

    const FULL: Quantity = Quantity::FullRtt(Side::Initiator);

    #[test]
    fn what_came_twice_silences_only_the_round_trips_that_it_makes_ambiguous() {
        use Quantity::{LeftRtt, RightRtt};
        assert_eq!(
            found(&[Syn, SynAck, Ack]),
            (vec![RightRtt, LeftRtt, FULL], 0)
        );
        assert_eq!(found(&[Syn, Syn, SynAck, Ack]), (vec![LeftRtt], 1));
        assert_eq!(found(&[Syn, SynAck, SynAck, Ack]), (vec![RightRtt], 1));
        assert_eq!(found(&[SynAck, Ack]), (vec![LeftRtt], 0));
    }

    #[test]
    fn a_syn_ack_that_precedes_its_syn_gives_no_round_trip() {
        assert_eq!(found(&[SynAck, Syn, Ack]), (vec![], 1));
    }
}
