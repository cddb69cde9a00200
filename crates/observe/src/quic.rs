//! QUIC: what its headers show of round trips (RFC 9000 §17, RFC 9506 §2.1).
//!
//! A flow is taken for QUIC once one of its datagrams begins with an Initial of
//! version 1 or 2 that has the fixed bit and 1200 bytes. A version negotiation begins
//! none: it only answers. From then on short headers show the spin bit; their fixed
//! bit proves nothing, as ends may grease it (RFC 9287). Packet numbers
//! are encrypted, so an observer on the path cannot know which packet was sent first. Of
//! a datagram with several packets the first is read.

use narrows_units::Duration;
use narrows_wire::Quic as Header;
use narrows_wire::quic::{LEAST_INITIAL, Long, LongType};

use crate::classify::Packet;
use crate::config::ObserverConfig;
use crate::flow::Flow;
use crate::sample::{Now, Sample, Side};
use crate::signals::Signals;

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
    /// Of the connection id that the initiator made up for the responder.
    made_up: u16,
    /// Whether the responder has answered.
    answered: bool,
    /// Whether the initiator has shown since that it has the answer.
    acknowledged: bool,
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

/// The Initial that a datagram in an IP packet of `length` bytes begins with, if it
/// shows that its flow is QUIC.
fn initial<'a>(payload: &'a [u8], length: u32, v6: bool) -> Option<Long<'a>> {
    let headers = if v6 { 40 + 8 } else { 20 + 8 };
    let long = long(payload).filter(Long::is_first)?;
    (length as usize >= headers + LEAST_INITIAL).then_some(long)
}

/// Whether a packet shows that its flow is QUIC.
pub(crate) fn begins(packet: &Packet<'_>) -> bool {
    let v6 = packet.source().0.is_ipv6();
    packet
        .datagram()
        .is_some_and(|payload| initial(payload, packet.length, v6).is_some())
}

/// Whether a packet opens a connection.
pub(crate) fn opens(packet: &Packet<'_>) -> bool {
    let long = packet.datagram().and_then(long);
    begins(packet) && long.is_some_and(|long| long.is_of_client())
}

/// Enough of a connection id to notice that another one came in its place.
fn shortened(cid: &[u8]) -> u16 {
    let sum = cid.iter().fold(cid.len() as u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(*byte))
    });
    (sum ^ sum >> 16) as u16
}

impl Quic {
    /// Whether a datagram of the initiator shows that it has the answer: it uses keys
    /// that come with that, or the connection id that the responder chose (RFC 9000
    /// §7.2). An Initial that is sent again, and data before the handshake, do not.
    fn has_answer(&self, payload: &[u8]) -> bool {
        match Header::parse(payload) {
            Ok(Header::Short { .. }) => true,
            Ok(Header::Long(long)) => {
                long.kind == Some(LongType::Handshake)
                    || shortened(long.destination) != self.made_up
            }
            Err(_) => false,
        }
    }

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
            (Side::Initiator, false) if long.kind == Some(LongType::Initial) => {
                self.made_up = shortened(long.destination);
                Shown::Asked
            }
            (Side::Initiator, false) => Shown::Nothing,
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
    pub(crate) fn datagram(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        now: Now,
        config: &ObserverConfig,
        out: &mut Vec<Sample>,
    ) {
        let Some(payload) = packet.datagram() else {
            return;
        };
        let quic = match &mut self.quic {
            Some(quic) => quic,
            None if begins(packet) => self.quic.insert(Quic::default()),
            None => return,
        };
        let shown = quic.read(side, payload, packet.length);
        let waits = side == Side::Initiator && quic.answered && !quic.acknowledged;
        if waits && quic.has_answer(payload) {
            quic.acknowledged = true;
            self.estimators.handshake.ack(now, out);
        }
        match shown {
            Shown::Asked => self.estimators.handshake.syn(now),
            Shown::Answered => self.estimators.handshake.syn_ack(now, out),
            Shown::Spin(spin) => {
                let floor = self.estimators.floor();
                let parts = <[_; 2]>::from(self.estimators.handshake.parts());
                let parts = parts.map(|part| part.map_or(0, Duration::as_nanos));
                let signals = self
                    .estimators
                    .signals
                    .get_or_insert_with(|| Box::new(Signals::of_quic(config)));
                signals.spin_alone((side, spin), floor, parts, now, out);
            }
            Shown::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Initial to an id of `destination` bytes from one of `source` bytes.
    fn between(destination: u8, source: u8) -> Vec<u8> {
        let mut bytes = vec![0xc0, 0, 0, 0, 1, destination];
        bytes.resize(6 + usize::from(destination), 9);
        bytes.push(source);
        bytes.resize(bytes.len() + usize::from(source), 9);
        bytes
    }

    /// An Initial from an id of `source` bytes.
    fn first(source: u8) -> Vec<u8> {
        between(8, source)
    }

    #[test]
    fn long_headers_show_the_handshake_and_short_ones_the_bit() {
        use Side::{Initiator, Responder};
        let mut quic = Quic::default();
        let whole = 1_228;
        assert_eq!(quic.read(Initiator, &first(8), whole), Shown::Asked);
        assert_eq!(quic.read(Responder, &first(8), whole), Shown::Answered);
        assert_eq!(quic.read(Responder, &first(8), whole), Shown::Nothing);
        assert_eq!(quic.read(Initiator, &first(8), whole), Shown::Nothing);
        assert_eq!(quic.read(Initiator, &[0x60], whole), Shown::Spin(true));
        assert_eq!(quic.read(Responder, &[0x00], whole), Shown::Spin(false));
    }

    #[test]
    fn what_is_too_short_for_the_ids_that_were_chosen_shows_no_bit() {
        let mut quic = Quic::default();
        quic.read(Side::Responder, &first(20), 1_228);
        // 20 bytes of the responder's id are in packets to it.
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
        let begins = |payload: &[u8], length| initial(payload, length, false).is_some();
        let whole = 20 + 8 + 1_200;
        assert!(begins(&first(8), whole) && begins(&first(0), whole));
        assert!(!begins(&first(8), whole - 1), "too short");
        // DNS, and RTP and LLMNR whose next bytes are those of version 0 or 1; a
        // version negotiation that answers nothing.
        let rtp = b"\x80\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00";
        let llmnr = b"\xc3\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00";
        let negotiation = b"\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01";
        for payload in [&b""[..], b"\x00\x01", rtp, llmnr, negotiation] {
            assert!(!begins(payload, 1_500), "{payload:x?}");
        }
        let mut greased = first(8);
        greased[0] &= !0x40;
        assert!(!begins(&greased, whole));
    }

    #[test]
    fn an_initial_that_is_sent_again_does_not_show_that_its_sender_has_the_answer() {
        let mut quic = Quic::default();
        let whole = 1_228;
        quic.read(Side::Initiator, &first(8), whole);
        quic.read(Side::Responder, &first(0), whole);
        assert!(quic.answered && !quic.has_answer(&first(8)));
        let mut zero_rtt = first(8);
        zero_rtt[0] = 0xd0;
        assert!(!quic.has_answer(&zero_rtt));
        // With the id that the responder chose, with later keys, and after the handshake.
        assert!(quic.has_answer(&between(5, 8)));
        let mut handshake = first(8);
        handshake[0] = 0xe0;
        assert!(quic.has_answer(&handshake) && quic.has_answer(&[0x40]));
    }
}
