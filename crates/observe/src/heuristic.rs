//! Edges of the spin bit that recent round trips make plausible (Kunze et al.
//! and the VPP latency plugin of the MAMI project).

/// Round trips that are remembered.
const REMEMBERED: usize = 10;
/// An edge that comes sooner than this share of the least of them is rejected.
const SOONEST: u64 = 10;
/// Rejections in a row after which an edge is taken all the same.
const PATIENCE: u8 = 5;

/// The rule for one direction.
#[derive(Debug, Default)]
pub(crate) struct Plausible {
    recent_ns: [u64; REMEMBERED],
    filled: u8,
    at: u8,
    in_a_row: u8,
}

impl Plausible {
    /// Whether an edge after `gap` nanoseconds is taken.
    pub fn takes(&mut self, gap: u64) -> bool {
        let known = &self.recent_ns[..usize::from(self.filled)];
        let least = known.iter().copied().min().unwrap_or(0);
        if gap <= least / SOONEST && self.in_a_row < PATIENCE {
            self.in_a_row += 1;
            return false;
        }
        self.in_a_row = 0;
        self.recent_ns[usize::from(self.at)] = gap;
        self.at = (self.at + 1) % REMEMBERED as u8;
        self.filled = (self.filled + 1).min(REMEMBERED as u8);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_least_recent_round_trip_is_too_soon_five_times() {
        let mut rule = Plausible::default();
        assert!(rule.takes(40_000) && rule.takes(60_000));
        for _ in 0..5 {
            assert!(!rule.takes(4_000));
        }
        assert!(rule.takes(4_000), "the path has become shorter");
        assert!(rule.takes(401));
    }
}
