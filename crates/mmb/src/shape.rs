//! What rules that differ only in numbers have in common, and those numbers.

use crate::rule::{Constraint, Target};

/// A rule without the numbers and addresses that its constraints compare with, which are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub stateful: bool,
    pub constraints: Vec<Constraint>,
    pub targets: Vec<Target>,
}

/// Numbers of a rule that are kept in place: those of a five-tuple of IPv4.
const IN_PLACE: usize = 5;

/// The numbers of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Few and short ones, with zeros behind them.
    Short([u32; IN_PLACE]),
    /// Others.
    Long(Box<[u128]>),
}

impl Numbers {
    /// These, which are always kept in the same way.
    pub(crate) fn of(numbers: &[u128]) -> Self {
        let mut short = [0; IN_PLACE];
        if numbers.len() > IN_PLACE || numbers.iter().any(|n| *n > u32::MAX.into()) {
            return Self::Long(numbers.into());
        }
        for (place, number) in short.iter_mut().zip(numbers) {
            *place = *number as u32;
        }
        Self::Short(short)
    }

    /// The one of that place, from 0.
    pub(crate) fn get(&self, place: usize) -> u128 {
        match self {
            Self::Short(numbers) => numbers.get(place).copied().unwrap_or(0).into(),
            Self::Long(numbers) => numbers.get(place).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_five_numbers_of_32_bits_are_kept_in_place() {
        const LONGEST: u128 = u32::MAX as u128;
        for (numbers, short) in [
            (&[][..], true),
            (&[7], true),
            (&[1, 2, 3, 4, LONGEST], true),
            (&[1, 2, 3, 4, 5, 6], false),
            (&[1, LONGEST + 1], false),
            (&[u128::MAX], false),
        ] {
            let kept = Numbers::of(numbers);
            assert_eq!(matches!(kept, Numbers::Short(_)), short, "{numbers:?}");
            for place in 0..8 {
                let number = numbers.get(place).copied().unwrap_or(0);
                assert_eq!(kept.get(place), number, "{numbers:?}");
            }
        }
    }
}
