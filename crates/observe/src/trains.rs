//! Trains of the T bit (RFC 9506 §3.1): marked packets between spin periods
//! without any. Trains are generated and reflected in turn; what a reflected
//! train lacks was lost on one round trip.
//!
//! Nothing in a train says which of the two it is. The first of a flow is a
//! generated one, and a reflected train is never longer than the one before.
//! But one that is shows little by itself: where the first packet of a
//! reflection is a retransmission, which begins no spin period at the other end,
//! its mark is back before the period is, and goes round once more. So it is the
//! order in which that happens less often that counts.

/// Trains after which what was seen of an order counts for 1/e.
const MEMORY: f32 = 16.0;
/// How many more contradictions than the other an order may have once pairs
/// were found by it.
const PATIENCE: f32 = 1.0;

/// The trains of one direction.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    /// Marked packets of the train that is passing.
    train: Train,
    /// The train before it.
    before: Option<Train>,
    /// Whether an odd number of trains has passed.
    odd: bool,
    /// Whether pairs end with odd trains: the observer joined between the two.
    shifted: bool,
    /// Of trains that were longer than the one before, how many were even and
    /// odd ones, the latest most.
    longer: [f32; 2],
    /// Packets with T set in the current spin period.
    in_period: u32,
    spin: Option<bool>,
    /// Trains that fit no pair.
    pub rejected: u32,
    pub pairs: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Train {
    marks: u32,
    first: u32,
    last: u32,
}

/// A generated train and its reflection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub generated: u32,
    pub reflected: u32,
    pub first: u32,
    pub last: u32,
}

impl Trains {
    /// A packet with its T bit. `newer` is whether it was sent after all
    /// before it: only such a packet may begin a spin period.
    pub fn packet(&mut self, spin: bool, mark: bool, newer: bool, id: u64) -> Option<Pair> {
        let mut pair = None;
        if newer && self.spin != Some(spin) {
            let whole = self.spin.replace(spin).is_some();
            if whole && self.in_period == 0 && self.train.marks > 0 {
                pair = self.end_of_train();
            }
            self.in_period = 0;
        }
        if mark {
            self.in_period += 1;
            if self.train.marks == 0 {
                self.train.first = id as u32;
            }
            self.train.marks += 1;
            self.train.last = id as u32;
        }
        pair
    }

    fn end_of_train(&mut self) -> Option<Pair> {
        let train = std::mem::take(&mut self.train);
        let second = self.before.is_some();
        let before = self.before.replace(train).unwrap_or_default();
        let (ends, own) = (self.odd != self.shifted, usize::from(self.odd));
        self.odd = !self.odd;
        if !second {
            return None;
        }
        let longer = train.marks > before.marks;
        self.longer[own] += f32::from(u8::from(longer)) - self.longer[own] / MEMORY;
        let patience = if self.pairs > 0 { PATIENCE } else { 0.0 };
        let counts = usize::from(!self.shifted);
        if self.longer[counts] > self.longer[1 - counts] + patience {
            self.shifted = !self.shifted;
        }
        if !ends {
            return None;
        }
        if longer {
            self.rejected += 1;
            return None;
        }
        self.pairs += 1;
        Some(Pair {
            generated: before.marks,
            reflected: train.marks,
            first: before.first,
            last: train.last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets as `(spin, mark)` in a string of pairs, spaces between.
    fn feed(trains: &mut Trains, packets: &str) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for (id, p) in packets.split_whitespace().enumerate() {
            let bits = p.as_bytes();
            let pair = trains.packet(bits[0] == b'1', bits[1] == b'1', true, id as u64);
            found.extend(pair.map(|p| (p.generated, p.reflected)));
        }
        found
    }

    #[test]
    fn the_example_of_rfc_9506_has_five_generated_and_four_reflected() {
        let mut trains = Trains::default();
        let found = feed(
            &mut trains,
            "01 01 00 01 11 10 11 00 00 10 10 10 01 00 01 01 10 11 10 00 00 10 00",
        );
        assert_eq!(found, [(5, 4)]);
    }

    #[test]
    fn a_join_between_generation_and_reflection_is_found_out() {
        let mut trains = Trains::default();
        let found = feed(
            &mut trains,
            // A reflection of two; then 3 and 3.
            "01 01 10 00 11 11 11 00 10 01 01 01 10 00 10",
        );
        assert_eq!(found, [(3, 3)]);
        assert_eq!(trains.rejected, 1);
    }

    #[test]
    fn one_reflection_that_is_too_long_does_not_turn_the_order_round() {
        let mut trains = Trains::default();
        let train = |n: &usize| "01 ".repeat(*n) + "10 ";
        let all: String = [4, 4, 3, 4, 2, 2, 5, 4].iter().map(train).collect();
        let found = feed(&mut trains, &(all + "00"));
        assert_eq!(found, [(4, 4), (2, 2), (5, 4)]);
        assert_eq!(trains.rejected, 1);
    }
}
