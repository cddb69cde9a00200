//! The R bit (RFC 9506 §3.4): which Q blocks an R block reports.
//!
//! An R block has the average length of the Q blocks that reached its sender
//! while it was sent, and counts for as many. Those are not the ones that pass
//! the observer meanwhile: a Q block still has to reach the sender, and the R
//! block to come back. Just after a burst the sender's packets are few and its
//! acknowledgements many, so that the two differ most where it matters most.
//! So a Q block waits for a round trip between the observer and R's sender
//! before it is taken for averaged.

use std::collections::VecDeque;

use crate::square::Square;

/// Q blocks that wait for an R block, at most: 65,536 packets on their way at the
/// least N. Beyond it the oldest are not counted.
const MOST_WAITING: usize = 1024;
/// Q blocks that one R block is taken to average, at most, so that sums stay
/// within 32 bits: at 64 packets to an acknowledgement.
const MOST_AVERAGED: u32 = 64;
/// The part of a new round trip in the smoothed one is 1 in 8 (RFC 6298, section
/// 2.3).
const SMOOTHING: u64 = 8;

/// The R wave of one side, and the other side's Q blocks that it has yet to
/// reflect.
#[derive(Debug)]
pub(crate) struct Reflection {
    /// Its blocks.
    pub wave: Square,
    /// When the end of each Q block that waits was seen, in nanoseconds.
    waiting: VecDeque<u64>,
    /// Smoothed round trip from the observer to R's sender and back, in
    /// nanoseconds; zero until there is one.
    reach: u64,
}

impl Reflection {
    /// A wave of which nothing has been seen.
    pub fn new(wave: Square) -> Self {
        Self {
            wave,
            waiting: VecDeque::new(),
            reach: 0,
        }
    }

    /// A round trip between the observer and R's sender, in nanoseconds.
    pub fn reached(&mut self, rtt: u64) {
        self.reach = if self.reach == 0 {
            rtt
        } else {
            self.reach - self.reach / SMOOTHING + rtt / SMOOTHING
        };
    }

    /// The end of `blocks` Q blocks was seen at `at`.
    pub fn passed(&mut self, blocks: u32, at: u64) {
        for _ in 0..blocks {
            if self.waiting.len() == MOST_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back(at);
        }
    }

    /// How many Q blocks an R block averages of which the next one began to pass
    /// at `until`. None, where it only repeats the last one: that was counted.
    pub fn averages(&mut self, until: u64) -> u32 {
        let mut blocks = 0;
        while self
            .waiting
            .front()
            .is_some_and(|at| at.saturating_add(self.reach) < until)
        {
            self.waiting.pop_front();
            blocks += 1;
        }
        blocks.min(MOST_AVERAGED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reflection() -> Reflection {
        Reflection::new(Square::new(None, None))
    }

    #[test]
    fn a_q_block_counts_when_it_can_have_come_back() {
        let mut r = reflection();
        r.reached(100);
        for at in [10, 20, 150] {
            r.passed(1, at);
        }
        // The third had not reached the sender when this R block ended.
        assert_eq!(r.averages(140), 2);
        assert_eq!(r.averages(249), 0);
        assert_eq!(r.averages(251), 1);
    }

    #[test]
    fn blocks_that_a_burst_joined_count_one_by_one() {
        let mut r = reflection();
        r.passed(3, 10);
        assert_eq!(r.averages(11), 3);
    }

    #[test]
    fn the_round_trip_follows_what_it_becomes() {
        let mut r = reflection();
        r.reached(1_000);
        for _ in 0..100 {
            r.reached(3_000);
        }
        assert!((2_900..=3_000).contains(&r.reach), "{}", r.reach);
    }

    #[test]
    fn what_never_comes_back_takes_bounded_room() {
        let mut r = reflection();
        for at in 0..10_000 {
            r.passed(1, at);
        }
        assert_eq!(r.waiting.len(), MOST_WAITING);
        assert_eq!(r.averages(u64::MAX), MOST_AVERAGED);
        assert_eq!(r.averages(u64::MAX), 0);
    }
}
