//! Which packets of the other end have arrived.

use narrows_units::{Duration, Instant};

use super::frame::{Ack, RANGE_WORDS};

/// Packets behind the largest that are remembered.
const BEHIND: u32 = 64 * RANGE_WORDS as u32;

/// What a packet is beside those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The next after the largest.
    Next,
    /// Not the next, and not here before.
    OutOfOrder,
    /// Here before, or too old to say.
    Repeated,
}

/// Numbers that arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    largest: Option<(u32, Instant)>,
    ranges: [u64; RANGE_WORDS],
    latest: u32,
}

impl Received {
    /// A packet arrives.
    pub fn take(&mut self, number: u32, now: Instant) -> Arrival {
        let Some((largest, _)) = self.largest else {
            self.largest = Some((number, now));
            self.latest = number;
            return Arrival::Next;
        };
        let ahead = number.wrapping_sub(largest);
        if ahead == 0 {
            return Arrival::Repeated;
        }
        if ahead < 1 << 31 {
            self.shift(ahead);
            self.largest = Some((number, now));
            self.latest = number;
            return if ahead == 1 {
                Arrival::Next
            } else {
                Arrival::OutOfOrder
            };
        }
        let bit = largest.wrapping_sub(number) - 1;
        if bit >= BEHIND {
            return Arrival::Repeated;
        }
        let (word, mask) = (&mut self.ranges[bit as usize / 64], 1 << (bit % 64));
        if *word & mask != 0 {
            return Arrival::Repeated;
        }
        *word |= mask;
        self.latest = number;
        Arrival::OutOfOrder
    }

    /// Moves all that is known `by` packets behind, the old largest included.
    fn shift(&mut self, by: u32) {
        for _ in 0..by / 64 {
            self.ranges.rotate_right(1);
            self.ranges[0] = 0;
            if by >= BEHIND + 64 {
                self.ranges = [0; RANGE_WORDS];
                break;
            }
        }
        let bits = by % 64;
        if bits > 0 {
            let mut carry = 0;
            for word in &mut self.ranges {
                let next = *word >> (64 - bits);
                *word = *word << bits | carry;
                carry = next;
            }
        }
        if by <= BEHIND {
            let bit = by - 1;
            self.ranges[bit as usize / 64] |= 1 << (bit % 64);
        }
    }

    /// The number that arrived last; 0 before the first (PLUS's echo).
    pub fn latest(&self) -> u32 {
        self.latest
    }

    /// The acknowledgement of all of it.
    pub fn ack(&self, now: Instant) -> Option<Ack> {
        let (largest, at) = self.largest?;
        Some(Ack {
            largest,
            held: Duration::from_nanos(now.as_nanos().saturating_sub(at.as_nanos())),
            ranges: self.ranges,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_whatever_the_order_and_across_the_wrap() {
        for seed in 0..40 {
            let mut rng = Rng::for_name(seed, "received");
            let (mut received, mut all) = (Received::default(), BTreeSet::new());
            let start = 0u32.wrapping_sub(300);
            let (mut at, mut largest) = (1_000u64, None::<u64>);
            for _ in 0..600 {
                let step = if rng.unit() < 0.02 { 400 } else { 4 };
                at += u64::from(rng.below(step));
                let place = at - u64::from(rng.below(200));
                let number = start.wrapping_add(place as u32);
                let arrival = received.take(number, Instant::ZERO);
                let known = largest.is_some_and(|l| place + u64::from(BEHIND) < l);
                let repeated = known || !all.insert(place);
                assert_eq!(
                    arrival == Arrival::Repeated,
                    repeated,
                    "{place} {largest:?}"
                );
                largest = Some(largest.map_or(place, |l| l.max(place)));
                let newest = largest.unwrap();
                let ack = received.ack(Instant::ZERO).unwrap();
                for behind in 0..=u64::from(BEHIND).min(newest) {
                    let place = newest - behind;
                    let number = start.wrapping_add(place as u32);
                    assert_eq!(ack.has(number), all.contains(&place), "{behind}");
                }
            }
        }
    }
}
