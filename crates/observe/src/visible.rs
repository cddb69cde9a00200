//! Transports over UDP that show their packet numbers: modelled QUIC, and PLUS.

use narrows_wire::{Plus, QuicModel};

use crate::probes::after;
use crate::sample::Side;
use crate::serials::Serials;

/// The places of these flows' signals in the bits that
/// [`Signals`](crate::signals::Signals) reads; TCP's byte 12 has no room for all.
pub(crate) const SPIN: u8 = 0x01;
/// The valid edge counter, one above the spin bit.
pub(crate) const VEC: u8 = 0x06;
/// The square bit.
pub(crate) const SQUARE: u8 = 0x08;
/// The loss event bit.
pub(crate) const LOSS: u8 = 0x10;

/// What a packet of such a flow shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its signals.
    pub bits: u8,
    /// Whether it was sent after all before it.
    pub newer: bool,
    /// Serial number and echo, of PLUS.
    pub serials: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Quic,
    Plus,
}

/// What is kept of such a flow beside its signals.
#[derive(Debug)]
pub(crate) struct Visible {
    shape: Shape,
    newest: [Option<u32>; 2],
    pub serials: Serials,
}

/// If a UDP payload is of a handshake of modelled QUIC, whether it is the
/// answer.
pub(crate) fn opening(payload: &[u8]) -> Option<bool> {
    if !QuicModel::opens(payload) {
        return None;
    }
    match QuicModel::parse(payload) {
        Ok(QuicModel::Long { answer, .. }) => Some(answer),
        _ => None,
    }
}

impl Visible {
    /// A flow of which this is the first packet that passes the observer: of
    /// modelled QUIC one of its handshake, of PLUS any. Of a later packet a magic
    /// number says too little: of bytes like random ones, one in 2²⁵ has it.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let shape = if opening(payload).is_some() {
            Shape::Quic
        } else if Plus::opens(payload) {
            Shape::Plus
        } else {
            return None;
        };
        Some(Self {
            shape,
            newest: [None; 2],
            serials: Serials::default(),
        })
    }

    /// Whether its packets have bits for loss.
    pub fn shows_loss(&self) -> bool {
        self.shape == Shape::Quic
    }

    /// Reads a packet of `side`; `None` where it shows no signals.
    pub fn read(&mut self, side: Side, payload: &[u8]) -> Option<Seen> {
        let (number, bits, serials) = match self.shape {
            Shape::Quic => match QuicModel::parse(payload).ok()? {
                QuicModel::Short { number, shown, .. } => {
                    let bits = set(shown.spin, SPIN)
                        | shown.vec << 1 & VEC
                        | set(shown.square, SQUARE)
                        | set(shown.loss, LOSS);
                    (number, bits, None)
                }
                QuicModel::Long { .. } => return None,
            },
            Shape::Plus => {
                let plus = Plus::parse(payload).ok()?;
                let bits = set(plus.spin, SPIN) | plus.vec << 1 & VEC;
                (plus.serial, bits, Some((plus.serial, plus.echo)))
            }
        };
        let newest = &mut self.newest[side.index()];
        let newer = newest.is_none_or(|known| after(number, known));
        if newer {
            *newest = Some(number);
        }
        Some(Seen {
            bits,
            newer,
            serials,
        })
    }
}

const fn set(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::quic_model::Shown;

    fn bytes(header: QuicModel) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        bytes
    }

    fn short(number: u32, shown: Shown) -> Vec<u8> {
        bytes(QuicModel::Short {
            connection: 1,
            number,
            shown,
        })
    }

    #[test]
    fn modelled_quic_is_known_by_its_handshake_and_shows_four_signals() {
        let shown = Shown {
            spin: true,
            vec: 2,
            square: true,
            loss: true,
        };
        assert!(Visible::of(&short(0, shown)).is_none());
        let hello = bytes(QuicModel::Long {
            connection: 1,
            number: 0,
            answer: false,
        });
        assert_eq!(opening(&hello), Some(false));
        let mut flow = Visible::of(&hello).unwrap();
        assert_eq!(flow.read(Side::Initiator, &hello), None);
        let seen = flow.read(Side::Initiator, &short(2, shown)).unwrap();
        assert_eq!((seen.bits, seen.newer), (SPIN | 0x04 | SQUARE | LOSS, true));
        let late = flow.read(Side::Initiator, &short(1, shown)).unwrap();
        assert!(!late.newer);
        assert!(flow.read(Side::Responder, &short(0, shown)).unwrap().newer);
        assert!(flow.shows_loss());
    }

    #[test]
    fn plus_is_known_by_its_magic_number_and_numbers_wrap() {
        let packet = |serial| {
            let mut bytes = Vec::new();
            Plus {
                serial,
                echo: 9,
                vec: 3,
                ..Plus::default()
            }
            .write(&mut bytes);
            bytes
        };
        let mut flow = Visible::of(&packet(u32::MAX)).unwrap();
        for (serial, newer) in [(u32::MAX, true), (1, true), (0, false), (2, true)] {
            let seen = flow.read(Side::Responder, &packet(serial)).unwrap();
            assert_eq!((seen.newer, seen.bits), (newer, VEC));
            assert_eq!(seen.serials, Some((serial, 9)));
        }
    }

    #[test]
    fn any_bytes_at_all_are_read_or_passed_over() {
        let mut rng = narrows_units::Rng::for_name(1, "visible");
        let hello = bytes(QuicModel::Long {
            connection: 1,
            number: 0,
            answer: true,
        });
        let mut plus = Vec::new();
        Plus::default().write(&mut plus);
        for start in [hello, plus] {
            let mut flow = Visible::of(&start).unwrap();
            for _ in 0..2_000 {
                let len = rng.below(60) as usize;
                let noise: Vec<u8> = (0..len).map(|_| rng.draw_u64() as u8).collect();
                flow.read(Side::Initiator, &noise);
                let end = rng.below(start.len() as u32 + 1) as usize;
                flow.read(Side::Responder, &start[..end]);
            }
        }
    }
}
