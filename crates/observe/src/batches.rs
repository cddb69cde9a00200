//! Counts of sent and lost packets over time, from which rates and their
//! intervals are computed.
//!
//! A rate of loss is a ratio of sums. Losses come in bursts, blocks share
//! edges, and Q and R see the same losses twice, so no formula for independent
//! packets gives its error. The ledger keeps the sums in 10 to 20 consecutive
//! batches of the flow and leaves out one at a time (delete-a-group jackknife:
//! Shao and Tu 1995, §2.3); what the rate then moves by is its variance, all
//! dependence within a batch included: that Q and L see the same losses makes
//! their difference surer than two signals would be. From the variance follows
//! the number of independent packets that would be as uncertain, and from that
//! and Student's t a Wilson interval, which stays sound where losses are few.

use crate::interval::{Interval, student_95, wilson};

/// Batches are joined in pairs when there are this many.
const BATCHES: usize = 20;
/// Packets of both directions in a batch at first: two square blocks of each.
const FIRST_LENGTH: u32 = 256;
/// Batches below which their variance says nothing.
const ENOUGH: usize = 6;
/// Packets of the rarer kind below which that variance says nothing either: the
/// least expected count for a normal approximation (Cochran 1954, "Some methods
/// for strengthening the common chi-squared tests", Biometrics 10).
const ENOUGH_HITS: f64 = 5.0;

/// A pair of counts: how many of how many. Those of which each packet may be
/// one come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Packets with CE of all that are ECN-capable.
    Ce = 0,
    /// Packets with L of all packets.
    Loss = 1,
    /// Received of sent, by Q blocks.
    Square = 2,
    /// Packets with E of all packets.
    EcnEcho = 3,
    /// Received of sent, by R blocks.
    Reflection = 4,
    /// Reflected of generated, by T trains.
    Train = 5,
}

const COUNTS: usize = 6;

/// Each count of both directions.
pub(crate) type Row = [[(u32, u32); 2]; COUNTS];

/// Where the counts of a packet go.
#[derive(Debug)]
pub(crate) enum Account<'a> {
    /// To the batches of a flow.
    BatchCounts(&'a mut BatchCounts),
    /// To what there is before it has any.
    Early(&'a mut Row),
    /// Nowhere, as nothing of the flow is counted.
    Nothing,
}

impl Account<'_> {
    /// Adds `part` of `all` to a count. `part` may exceed `all`.
    pub fn add(&mut self, side: usize, count: Count, part: u32, all: u32) {
        match self {
            Self::BatchCounts(batches) => batches.add(side, count, part, all),
            Self::Early(row) => add(row, side, count, (part, all)),
            Self::Nothing => {}
        }
    }

    /// Forgets a count of one side.
    pub fn clear(&mut self, side: usize, count: Count) {
        match self {
            Self::BatchCounts(batches) => batches.clear(side, count),
            Self::Early(row) => row[count as usize][side] = (0, 0),
            Self::Nothing => {}
        }
    }
}

fn add(row: &mut Row, side: usize, count: Count, (part, all): (u32, u32)) {
    let pair = &mut row[count as usize][side];
    pair.0 = pair.0.saturating_add(part);
    pair.1 = pair.1.saturating_add(all);
}

/// The sums that a rate is computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums([[(f64, f64); 2]; COUNTS]);

impl Sums {
    fn add(&mut self, row: &Row, times: f64) {
        for (sum, sides) in self.0.iter_mut().zip(row) {
            for (sum, pair) in sum.iter_mut().zip(sides) {
                sum.0 += times * f64::from(pair.0);
                sum.1 += times * f64::from(pair.1);
            }
        }
    }

    /// Of how many, for side `side`.
    pub fn of(&self, side: usize, count: Count) -> f64 {
        self.0[count as usize][side].1
    }

    /// The share of a count; `None` of nothing.
    pub fn share(&self, side: usize, count: Count) -> Option<f64> {
        let (part, all) = self.0[count as usize][side];
        (all > 0.0).then(|| part / all)
    }

    /// One minus the share: the loss that a count of arrivals shows.
    pub fn missing(&self, side: usize, count: Count) -> Option<f64> {
        self.share(side, count).map(|s| 1.0 - s)
    }
}

/// Batches of counts.
///
/// What each packet touches is together, in few lines of the cache.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BatchCounts {
    in_last: u32,
    length: u32,
    used: usize,
    /// The batch that is filling, the last of `used`.
    current: Row,
    rows: [Row; BATCHES],
}

impl Default for BatchCounts {
    fn default() -> Self {
        Self {
            rows: [Row::default(); BATCHES],
            current: Row::default(),
            used: 1,
            length: FIRST_LENGTH,
            in_last: 0,
        }
    }
}

impl BatchCounts {
    /// A packet passed, in either direction.
    pub fn packet(&mut self) {
        self.in_last += 1;
        if self.in_last < self.length {
            return;
        }
        self.in_last = 0;
        self.rows[self.used - 1] = std::mem::take(&mut self.current);
        if self.used < BATCHES {
            self.used += 1;
            return;
        }
        for i in 0..BATCHES / 2 {
            self.rows[i] = joined(&self.rows[2 * i], &self.rows[2 * i + 1]);
        }
        self.rows[BATCHES / 2..].fill(Row::default());
        self.used = BATCHES / 2 + 1;
        self.length = self.length.saturating_mul(2);
    }

    /// Adds `part` of `all` to a count. `part` may exceed `all`.
    pub fn add(&mut self, side: usize, count: Count, part: u32, all: u32) {
        add(&mut self.current, side, count, (part, all));
    }

    /// Adds what was counted before there were batches.
    pub fn add_early(&mut self, row: &Row) {
        self.current = joined(&self.current, row);
    }

    /// Forgets a count of one side.
    pub fn clear(&mut self, side: usize, count: Count) {
        for row in self.rows.iter_mut().chain([&mut self.current]) {
            row[count as usize][side] = (0, 0);
        }
    }

    /// All counts of the flow.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums([[(0.0, 0.0); 2]; COUNTS]);
        for row in self.batches() {
            sums.add(row, 1.0);
        }
        sums
    }

    /// The batches that are full, and the one that is filling.
    fn batches(&self) -> impl Iterator<Item = &Row> {
        self.rows[..self.used - 1].iter().chain([&self.current])
    }

    /// The sums, and what they are without each of the batches.
    pub fn groups(&self) -> Groups {
        let sums = self.sums();
        // Counts are whole numbers far below 2⁵³, so this is exact.
        let without = self.batches().map(|row| {
            let mut rest = sums;
            rest.add(row, -1.0);
            rest
        });
        Groups {
            without: without.collect(),
            sums,
        }
    }
}

/// The sums of a ledger for rates and their intervals.
#[derive(Debug)]
pub(crate) struct Groups {
    pub sums: Sums,
    without: Vec<Sums>,
}

impl Groups {
    /// A rate computed by `rate` from the sums, and its interval. `trials` is
    /// how many packets it rests on. What comes out below zero is zero, as no rate
    /// is less: blocks that have late packets of a neighbour, or more missing at the
    /// observer than the sender found lost (u > e), as where the observer itself lost
    /// packets.
    pub fn rate(
        &self,
        trials: f64,
        rate: impl Fn(&Sums) -> Option<f64>,
    ) -> Option<(f64, Interval)> {
        let all = rate(&self.sums)?;
        // The last batch, still filling, is left out like the others, however
        // short it is.
        let mut without = [0.0; BATCHES];
        let mut groups = 0;
        for rate in self.without.iter().filter_map(rate) {
            without[groups] = rate;
            groups += 1;
        }
        let without = &without[..groups];
        let share = all.clamp(0.0, 1.0);
        let binomial = share * (1.0 - share) / trials;
        let hits = trials * share.min(1.0 - share);
        let variance = if groups >= ENOUGH && hits >= ENOUGH_HITS {
            let n = groups as f64;
            let mean = without.iter().sum::<f64>() / n;
            let squares: f64 = without.iter().map(|w| (w - mean) * (w - mean)).sum();
            (n - 1.0) / n * squares
        } else {
            0.0
        };
        // By chance the batches differ less than independent packets would as
        // often as they differ more. To believe them only when they differ more
        // would make intervals that hold too much.
        let (effective, t) = if variance > 0.0 && binomial > 0.0 {
            (trials * binomial / variance, student_95(groups as u32 - 1))
        } else {
            (trials, student_95(u32::MAX))
        };
        Some((share, wilson(share, effective, t)))
    }
}

fn joined(a: &Row, b: &Row) -> Row {
    let mut row = *a;
    for (sides, others) in row.iter_mut().zip(b) {
        for (pair, other) in sides.iter_mut().zip(others) {
            pair.0 = pair.0.saturating_add(other.0);
            pair.1 = pair.1.saturating_add(other.1);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;

    /// Of 200 seeds, how many intervals hold the truth; losses by a simple
    /// Gilbert process with this mean burst.
    fn covered(packets: u32, loss: f64, burst: f64) -> usize {
        (0..200)
            .filter(|seed| {
                let mut rng = Rng::for_name(*seed, "coverage");
                let mut batches = BatchCounts::default();
                let leave = 1.0 / burst;
                let enter = leave * loss / (1.0 - loss);
                let mut bad = rng.unit() < loss;
                for _ in 0..packets {
                    batches.packet();
                    batches.add(0, Count::Square, u32::from(!bad), 1);
                    let change = if bad { leave } else { enter };
                    if rng.unit() < change {
                        bad = !bad;
                    }
                }
                let groups = batches.groups();
                let trials = groups.sums.of(0, Count::Square);
                let (_, i) = groups
                    .rate(trials, |s| s.missing(0, Count::Square))
                    .unwrap();
                i.low <= loss && loss <= i.high
            })
            .count()
    }

    #[test]
    fn intervals_hold_the_true_rate_under_random_and_burst_loss() {
        for (packets, loss, burst) in [
            (20_000, 0.01, 1.01),
            (100_000, 0.001, 1.001),
            (50_000, 0.01, 5.0),
            (100_000, 0.02, 20.0),
        ] {
            let n = covered(packets, loss, burst);
            assert!((180..=197).contains(&n), "{packets} {loss} {burst}: {n}");
        }
    }

    #[test]
    fn joining_batches_keeps_every_count() {
        let mut batches = BatchCounts::default();
        for i in 0..200_000u32 {
            batches.packet();
            batches.add(1, Count::Loss, u32::from(i % 10 == 0), 1);
        }
        let sums = batches.sums();
        assert_eq!(sums.of(1, Count::Loss), 200_000.0);
        assert_eq!(sums.share(1, Count::Loss), Some(0.1));
        assert_eq!(sums.share(0, Count::Loss), None);
    }

    #[test]
    fn a_rate_is_within_its_interval_where_more_is_missing_than_was_lost() {
        let mut batches = BatchCounts::default();
        for i in 0..10_000u32 {
            batches.packet();
            batches.add(0, Count::Loss, u32::from(i % 100 == 0), 1);
            batches.add(0, Count::Square, u32::from(i % 10 != 0), 1);
        }
        let groups = batches.groups();
        let (rate, interval) = groups
            .rate(10_000.0, |s| {
                let (e, u) = (s.share(0, Count::Loss)?, s.missing(0, Count::Square)?);
                Some((e - u) / (1.0 - u))
            })
            .unwrap();
        assert_eq!((rate, interval.low), (0.0, 0.0));
        assert!(interval.high < 0.01);
    }
}
