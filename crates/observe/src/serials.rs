//! Round trips by packet serial numbers and their echoes, PSN and PSE of PLUS
//! (draft-trammell-plus-spec): one number at a time in each direction, its echo,
//! and the echo of the echo.
//!
//! The plugin of the MAMI project takes an echo for one of a number that is less
//! than 100 before it. Here serial arithmetic decides (RFC 1982), so that a burst
//! of more than a hundred packets does not end the measurement for good.

use crate::mean::RttMeans;
use crate::probes::{EchoState, after};
use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// A number on its way, and the packet that echoed it.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    step: EchoState,
    at: u64,
    packet: u32,
    serial: u32,
    echo_at: u64,
    echo_packet: u32,
    echo_serial: u32,
}

/// Serial numbers of one flow.
#[derive(Debug, Default)]
pub(crate) struct Serials {
    probes: [Probe; 2],
    pub means: Option<Box<RttMeans>>,
}

/// The part of the path between the observer and `side`.
const fn part(side: Side) -> Quantity {
    match side {
        Side::Initiator => Quantity::LeftRtt,
        Side::Responder => Quantity::RightRtt,
    }
}

impl Serials {
    /// A packet of `side` with this serial number, which echoes `echo`; 0 says
    /// that nothing was seen yet.
    pub fn packet(
        &mut self,
        side: Side,
        (serial, echo): (u32, u32),
        now: Now,
        out: &mut Vec<Sample>,
    ) {
        let (own, other) = (side.index(), side.other().index());
        if echo != 0 {
            let probe = &mut self.probes[own];
            if probe.step == EchoState::Echoed && !after(probe.echo_serial, echo) {
                let full = Quantity::FullRtt(side);
                out.push(now.rtt(
                    Technique::PsnPse,
                    part(side),
                    probe.echo_at,
                    probe.echo_packet,
                ));
                out.push(now.rtt(Technique::PsnPse, full, probe.at, probe.packet));
                probe.step = EchoState::Idle;
            }
            let probe = &mut self.probes[other];
            if probe.step == EchoState::Sent && !after(probe.serial, echo) {
                out.push(now.rtt(Technique::PsnPse, part(side), probe.at, probe.packet));
                probe.step = EchoState::Echoed;
                probe.echo_at = now.at;
                probe.echo_packet = now.id as u32;
                probe.echo_serial = serial;
            }
        }
        let probe = &mut self.probes[own];
        if probe.step == EchoState::Idle {
            *probe = Probe {
                step: EchoState::Sent,
                at: now.at,
                packet: now.id as u32,
                serial,
                ..Probe::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;

    fn feed(packets: &[(u64, Side, (u32, u32))]) -> Vec<(Quantity, f64)> {
        let (mut serials, mut out) = (Serials::default(), Vec::new());
        for (id, (ms, side, numbers)) in packets.iter().enumerate() {
            let now = Now {
                at: ms * 1_000_000,
                id: id as u64,
            };
            serials.packet(*side, *numbers, now, &mut out);
        }
        let value = |s: &Sample| match s.value {
            Measured::Rtt(d) => d.as_millis_f64(),
            Measured::Block { .. } => f64::NAN,
        };
        out.iter().map(|s| (s.quantity, value(s))).collect()
    }

    use Side::{Initiator, Responder};

    #[test]
    fn a_number_its_echo_and_the_echo_of_that_give_both_parts_and_the_whole() {
        let start = u32::MAX - 1;
        let found = feed(&[
            (0, Initiator, (start, 0)),
            (10, Initiator, (u32::MAX, 0)),
            (40, Responder, (7, start)),
            (50, Responder, (8, u32::MAX)),
            (60, Initiator, (0, 7)),
            (100, Responder, (9, 0)),
            (101, Responder, (10, 1)),
        ]);
        let parts = [
            (Quantity::RightRtt, 40.0),
            (Quantity::LeftRtt, 20.0),
            (Quantity::FullRtt(Initiator), 60.0),
            (Quantity::LeftRtt, 20.0),
        ];
        assert_eq!(found[..4], parts);
        // The echo of 0 says nothing; the one of 1 closes what 7 began.
        assert!(found[4..].contains(&(Quantity::FullRtt(Responder), 61.0)));
        assert!(found[4..].contains(&(Quantity::RightRtt, 41.0)));
    }

    #[test]
    fn an_echo_that_skips_many_numbers_still_answers() {
        let found = feed(&[(0, Initiator, (5, 0)), (30, Responder, (1, 5_005))]);
        assert_eq!(found, [(Quantity::RightRtt, 30.0)]);
    }
}
