//! Which of many ranges a number is in.

/// Ranges, ordered by their starts: an implicit binary tree over that order, each of whose
/// nodes knows the largest end below it, answers in logarithmic time and that of what it
/// finds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ordered {
    /// Start, end (which is in it), and whose it is.
    ranges: Vec<(u64, u64, u32)>,
    /// The largest end in the half-open part of `ranges` of which the index is the middle.
    largest: Vec<u64>,
}

impl Ordered {
    /// The ranges in any order.
    pub(crate) fn of(mut ranges: Vec<(u64, u64, u32)>) -> Self {
        ranges.sort_unstable();
        let mut largest = vec![0; ranges.len()];
        let len = ranges.len();
        fill(&ranges, &mut largest, 0, len);
        Self { ranges, largest }
    }

    /// All: start, end (which is in it), and whose it is.
    pub(crate) fn ranges(&self) -> &[(u64, u64, u32)] {
        &self.ranges
    }

    /// Calls `found` with each whose range has `number` in it.
    pub(crate) fn find(&self, number: u64, found: &mut impl FnMut(u32)) {
        self.find_in(0, self.ranges.len(), number, found);
    }

    fn find_in(&self, from: usize, to: usize, number: u64, found: &mut impl FnMut(u32)) {
        if from == to {
            return;
        }
        let middle = from.midpoint(to);
        if self.largest[middle] < number {
            return;
        }
        self.find_in(from, middle, number, found);
        let (start, end, owner) = self.ranges[middle];
        if start <= number {
            if number <= end {
                found(owner);
            }
            self.find_in(middle + 1, to, number, found);
        }
    }
}

fn fill(ranges: &[(u64, u64, u32)], largest: &mut [u64], from: usize, to: usize) -> u64 {
    if from == to {
        return 0;
    }
    let middle = from.midpoint(to);
    let below = fill(ranges, largest, from, middle).max(fill(ranges, largest, middle + 1, to));
    largest[middle] = ranges[middle].1.max(below);
    largest[middle]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_ranges_found_are_those_that_a_walk_over_all_finds(
            ranges in prop::collection::vec((0u64..64, 0u64..64), 0..40),
            number in 0u64..70,
        ) {
            let ranges: Vec<_> = (0..).zip(ranges).map(|(i, (a, b))| (a, b, i)).collect();
            let walked: Vec<u32> = ranges
                .iter()
                .filter(|(a, b, _)| (*a..=*b).contains(&number))
                .map(|(_, _, i)| *i)
                .collect();
            let mut found = Vec::new();
            Ordered::of(ranges).find(number, &mut |i| found.push(i));
            found.sort_unstable();
            prop_assert_eq!(found, walked);
        }
    }
}
