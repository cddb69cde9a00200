//! The round trip of the three-way handshake.

use narrows_units::Duration;

use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// What was seen of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handshake {
    syn: Option<(u64, u32)>,
    syn_ack: Option<(u64, u32)>,
    /// Whether a SYN or SYN-ACK came twice, so that answers are ambiguous.
    pub again: bool,
    done: bool,
    left: Option<Duration>,
    right: Option<Duration>,
}

impl Handshake {
    /// Keeps a round trip that it gave.
    pub fn keep(&mut self, quantity: Quantity, rtt: Duration) {
        match quantity {
            Quantity::LeftRtt => self.left = Some(rtt),
            Quantity::RightRtt => self.right = Some(rtt),
            _ => {}
        }
    }

    /// The two parts of the round trip; the whole is their sum.
    pub fn parts(&self) -> (Option<Duration>, Option<Duration>) {
        (self.left, self.right)
    }

    /// A SYN without ACK.
    pub fn syn(&mut self, now: Now) {
        self.again |= self.syn.is_some();
        self.syn = Some((now.at, now.id as u32));
    }

    /// A SYN with ACK.
    pub fn syn_ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        self.again |= self.syn_ack.is_some();
        if let (Some((at, packet)), false) = (self.syn, self.again) {
            out.push(now.rtt(Technique::Handshake, Quantity::RightRtt, at, packet));
        }
        self.syn_ack = Some((now.at, now.id as u32));
    }

    /// Any packet of the initiator with ACK and without SYN.
    pub fn ack(&mut self, now: Now, out: &mut Vec<Sample>) {
        if self.done {
            return;
        }
        self.done = true;
        if self.again {
            return;
        }
        if let Some((at, packet)) = self.syn_ack {
            out.push(now.rtt(Technique::Handshake, Quantity::LeftRtt, at, packet));
            if let Some((at, packet)) = self.syn {
                let full = Quantity::FullRtt(Side::Initiator);
                out.push(now.rtt(Technique::Handshake, full, at, packet));
            }
        }
    }
}
