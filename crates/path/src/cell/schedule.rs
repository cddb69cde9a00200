//! Who gets the resource blocks of a subframe.

use std::fmt;

use narrows_units::Value;

/// The rule by which blocks are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Proportional fair: the highest rate in terms of what the terminal had so far (Jalali,
    /// Padovani and Pankaj 2000).
    ProportionalFair,
    /// One block after the other, in turn.
    RoundRobin,
    /// The best channel.
    MaxRate,
}

impl Value for Scheduler {
    const ALLOWED: &'static str = "pf, rr or max-rate";

    fn parse(word: &str) -> Option<Self> {
        match word {
            "pf" => Some(Self::ProportionalFair),
            "rr" => Some(Self::RoundRobin),
            "max-rate" => Some(Self::MaxRate),
            _ => None,
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProportionalFair => "pf",
            Self::RoundRobin => "rr",
            Self::MaxRate => "max-rate",
        })
    }
}

/// What a terminal asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claim {
    /// Blocks that hold all that waits.
    pub blocks: u32,
    /// Bits of a block.
    pub bits: u64,
    /// Bits of a subframe, on average so far.
    pub average: f64,
}

/// Gives out blocks; equals get them in turn.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    rule: Scheduler,
    /// Who is asked first.
    first: usize,
}

impl Turn {
    pub(super) fn new(rule: Scheduler) -> Self {
        Self { rule, first: 0 }
    }

    /// How many of `free` blocks each terminal gets.
    pub(super) fn grants(&mut self, mut free: u32, claims: &[Claim], grants: &mut Vec<u32>) {
        grants.clear();
        grants.resize(claims.len(), 0);
        while free > 0 {
            let Some(best) = self.best(claims, grants) else {
                return;
            };
            let given = match self.rule {
                Scheduler::RoundRobin => 1,
                // All that it claims at once, and so never a second time.
                Scheduler::ProportionalFair | Scheduler::MaxRate => claims[best].blocks.min(free),
            };
            grants[best] += given;
            free -= given;
            self.first = best + 1;
        }
    }

    fn best(&self, claims: &[Claim], grants: &[u32]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for i in 0..claims.len() {
            let at = (self.first + i) % claims.len();
            let claim = &claims[at];
            if claim.blocks <= grants[at] || claim.bits == 0 {
                continue;
            }
            let worth = match self.rule {
                Scheduler::RoundRobin => return Some(at),
                Scheduler::MaxRate => claim.bits as f64,
                // Who had nothing yet goes first.
                Scheduler::ProportionalFair => claim.bits as f64 / claim.average.max(1e-9),
            };
            if best.is_none_or(|(_, other)| worth > other) {
                best = Some((at, worth));
            }
        }
        best.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(blocks: u32, bits: u64, average: f64) -> Claim {
        Claim {
            blocks,
            bits,
            average,
        }
    }

    fn grants(rule: Scheduler, free: u32, claims: &[Claim]) -> Vec<u32> {
        let mut all = Vec::new();
        Turn::new(rule).grants(free, claims, &mut all);
        all
    }

    #[test]
    fn each_rule_prefers_what_it_says() {
        let claims = [
            claim(9, 100, 50.0),
            claim(9, 700, 500.0),
            claim(0, 900, 0.0),
        ];
        // 100/50 is more than 700/500; nothing is given to whom nothing waits for.
        assert_eq!(grants(Scheduler::ProportionalFair, 6, &claims), [6, 0, 0]);
        assert_eq!(grants(Scheduler::MaxRate, 6, &claims), [0, 6, 0]);
        assert_eq!(grants(Scheduler::RoundRobin, 6, &claims), [3, 3, 0]);
    }

    #[test]
    fn what_one_does_not_need_goes_to_the_next_and_no_block_is_made_up() {
        let claims = [claim(2, 100, 1.0), claim(1, 100, 2.0), claim(9, 0, 0.0)];
        for rule in [Scheduler::ProportionalFair, Scheduler::MaxRate] {
            assert_eq!(grants(rule, 6, &claims), [2, 1, 0]);
        }
        assert_eq!(grants(Scheduler::RoundRobin, 6, &claims), [2, 1, 0]);
        assert_eq!(grants(Scheduler::RoundRobin, 6, &[]), []);
    }

    #[test]
    fn equals_get_blocks_in_turn() {
        let claims = [claim(9, 100, 5.0); 3];
        for (rule, wanted) in [
            (Scheduler::MaxRate, [4, 4, 4]),
            (Scheduler::ProportionalFair, [4, 4, 4]),
            (Scheduler::RoundRobin, [4, 4, 4]),
        ] {
            let mut turn = Turn::new(rule);
            let (mut sum, mut all) = ([0; 3], Vec::new());
            for _ in 0..3 {
                turn.grants(4, &claims, &mut all);
                (0..3).for_each(|i| sum[i] += all[i]);
            }
            assert_eq!(sum, wanted, "{rule}");
        }
    }
}
