//! QUIC: what its headers show of round trips (RFC 9000 §17, RFC 9506 §2.1).
//!
//! A flow is taken for QUIC once one of its datagrams begins with a long header
//! of a known version. From then on its short headers show the spin bit; the
//! fixed bit proves nothing, as ends may grease it (RFC 9287). Packet numbers
//! are encrypted, so nobody on the path knows which packet was sent first. Of
//! a datagram with several packets the first is read.

use narrows_units::Duration;
use narrows_wire::Quic as Header;
use narrows_wire::quic::{Long, LongType};

use crate::config::Config;
use crate::flow::Flow;
use crate::marks::Marks;
use crate::sample::{Now, Sample, Side};

/// Bytes of the least IP packet with a short header, beside its connection id:
/// IPv4 and UDP headers, the first byte, and what header protection needs
/// behind the id (RFC 9001 §5.4.2: 4 bytes and a sample of 16).
const LEAST_SHORT: u32 = 20 + 8 + 1 + 4 + 16;

/// What is kept of a flow over QUIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quic {
    /// Bytes of the connection id that each side chose: those of the other
    /// side's short headers bear one of that length.
    cid_len: [u8; 2],
    /// Whether the responder has answered.
    answered: bool,
    /// Whether the initiator has been heard again since.
    heard: bool,
}

/// What a packet shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// The initiator asks for a connection.
    Asked,
    /// The responder's first packet.
    Answered,
    /// A packet of the connection itself, and its spin bit.
    Spin(bool),
    /// Nothing that is of use.
    Nothing,
}

/// The long header that a datagram begins with, if it is likely to be QUIC.
fn long(payload: &[u8]) -> Option<Long<'_>> {
    match Header::parse(payload) {
        Ok(Header::Long(long)) if long.is_likely() => Some(long),
        _ => None,
    }
}

/// Whether a datagram shows that its flow is QUIC.
pub(crate) fn begins(payload: &[u8]) -> bool {
    long(payload).is_some()
}

/// Whether a datagram begins with the packet that opens a connection.
pub(crate) fn opens(payload: &[u8]) -> bool {
    long(payload).is_some_and(|long| long.kind == Some(LongType::Initial))
}

impl Quic {
    /// Reads the payload of a datagram of `side` in an IP packet of `length`
    /// bytes.
    fn read(&mut self, side: Side, payload: &[u8], length: u32) -> Shown {
        let Some(long) = long(payload) else {
            let cid = u32::from(self.cid_len[side.other().index()]);
            return match Header::parse(payload) {
                Ok(Header::Short { spin }) if length >= LEAST_SHORT + cid => Shown::Spin(spin),
                _ => Shown::Nothing,
            };
        };
        // At most 20, as it is likely.
        self.cid_len[side.index()] = long.source.len() as u8;
        match (side, self.answered) {
            (Side::Initiator, false) => Shown::Asked,
            (Side::Initiator, true) => Shown::Nothing,
            (Side::Responder, false) => {
                self.answered = true;
                Shown::Answered
            }
            (Side::Responder, true) => Shown::Nothing,
        }
    }
}

impl Flow {
    /// A datagram of the flow.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn datagram(
        &mut self,
        side: Side,
        payload: &[u8],
        length: u32,
        now: Now,
        config: &Config,
        out: &mut Vec<Sample>,
    ) {
        let quic = match &mut self.quic {
            Some(quic) => quic,
            None if begins(payload) => self.quic.insert(Quic::default()),
            None => return,
        };
        let shown = quic.read(side, payload, length);
        // Whatever the initiator sends next, it has the answer.
        if side == Side::Initiator && quic.answered && !quic.heard {
            quic.heard = true;
            self.estimators.handshake.ack(now, out);
        }
        match shown {
            Shown::Asked => self.estimators.handshake.syn(now),
            Shown::Answered => self.estimators.handshake.syn_ack(now, out),
            Shown::Spin(spin) => {
                let floor = self.estimators.floor();
                let parts = <[_; 2]>::from(self.estimators.handshake.parts());
                let parts = parts.map(|part| part.map_or(0, Duration::as_nanos));
                let marks = self
                    .estimators
                    .marks
                    .get_or_insert_with(|| Box::new(Marks::of_quic(config)));
                marks.spin_alone((side, spin), floor, parts, now, out);
            }
            Shown::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(cid: usize) -> Vec<u8> {
        let mut bytes = vec![0xc0, 0, 0, 0, 1, 0, cid as u8];
        bytes.resize(7 + cid, 9);
        bytes
    }

    #[test]
    fn long_headers_show_the_handshake_and_short_ones_the_bit() {
        use Side::{Initiator, Responder};
        let mut quic = Quic::default();
        let whole = 1_228;
        assert_eq!(quic.read(Initiator, &initial(8), whole), Shown::Asked);
        assert_eq!(quic.read(Responder, &initial(8), whole), Shown::Answered);
        assert_eq!(quic.read(Responder, &initial(8), whole), Shown::Nothing);
        assert_eq!(quic.read(Initiator, &initial(8), whole), Shown::Nothing);
        assert_eq!(quic.read(Initiator, &[0x60], whole), Shown::Spin(true));
        assert_eq!(quic.read(Responder, &[0x00], whole), Shown::Spin(false));
    }

    #[test]
    fn what_is_too_short_for_the_ids_that_were_chosen_shows_no_bit() {
        let mut quic = Quic::default();
        quic.read(Side::Responder, &initial(20), 1_228);
        // 20 bytes of the responder's id stand in packets to it.
        let least = LEAST_SHORT + 20;
        let short = [0x60];
        assert_eq!(quic.read(Side::Initiator, &short, least), Shown::Spin(true));
        assert_eq!(
            quic.read(Side::Initiator, &short, least - 1),
            Shown::Nothing
        );
        assert_eq!(
            quic.read(Side::Responder, &short, least - 1),
            Shown::Spin(true)
        );
    }

    #[test]
    fn other_datagrams_are_not_taken_for_quic() {
        for payload in [&b""[..], b"\x00\x01", b"\x80\x00\x12\x34\x56\x00\x00"] {
            assert!(!begins(payload), "{payload:x?}");
        }
        assert!(begins(&initial(0)) && opens(&initial(0)));
    }
}
