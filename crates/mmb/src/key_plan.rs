//! The key of a rule from its numbers, for rules of which nothing but these differs.

use crate::constraint::Tests;
use crate::field::most;
use crate::layout::{WINDOW, Window, in_window};
use crate::rule::Rule;
use crate::shape::Numbers;
use crate::value::prefix_mask;

/// Where a number stands: the word of eight bytes of the window, how far it is shifted there, and
/// which bits of it count.
#[derive(Clone, Copy, Debug)]
struct Place {
    word: usize,
    shift: usize,
    bits: u64,
}

/// How the keys of all rules of a shape come about.
#[derive(Debug)]
pub(crate) struct KeyPlan {
    /// What does not depend on the numbers.
    rest: Window,
    places: Vec<Place>,
}

impl KeyPlan {
    /// That of the shape of `rule`, which has these tests; `None` where it has others than
    /// equalities, or two of the same bits, which might contradict each other.
    pub(crate) fn of(rule: &Rule, tests: &Tests) -> Option<Self> {
        if tests.never || tests.range.is_some() || !tests.residuals.is_empty() {
            return None;
        }
        let mut plan = Self {
            rest: tests.key,
            places: Vec::new(),
        };
        let mut taken = [0u64; WINDOW / 8];
        for mut constraint in rule.constraints() {
            let (at, width) = in_window(constraint.named.field)?;
            if constraint.comparison().is_none() {
                continue;
            }
            let bits = match constraint.prefix() {
                Some(length) => prefix_mask(width, length),
                None => most(width),
            };
            let shift = 64usize.checked_sub(at % 64 + usize::from(width))?;
            let place = Place {
                word: at / 64,
                shift,
                bits: bits as u64,
            };
            let covered = place.bits << shift;
            if taken[place.word] & covered != 0 {
                return None;
            }
            taken[place.word] |= covered;
            if constraint.number_mut().is_some() {
                write(&mut plan.rest, place.word, |word| word & !covered);
                plan.places.push(place);
            }
        }
        debug_assert_eq!(plan.key(rule.numbers()), tests.key);
        Some(plan)
    }

    /// The key of the rule of that shape with these numbers.
    pub(crate) fn key(&self, numbers: &Numbers) -> Window {
        let mut key = self.rest;
        for (number, place) in self.places.iter().enumerate() {
            let number = (numbers.get(number) as u64 & place.bits) << place.shift;
            write(&mut key, place.word, |word| word | number);
        }
        key
    }
}

/// Gives eight bytes of the window, which are one number, another value.
fn write(window: &mut Window, word: usize, new: impl Fn(u64) -> u64) {
    let bytes = &mut window[8 * word..8 * word + 8];
    let old = <[u8; 8]>::try_from(&*bytes).map_or(0, u64::from_be_bytes);
    bytes.copy_from_slice(&new(old).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Names;

    fn plan(line: &str) -> Option<KeyPlan> {
        let rule = Rule::parse(line).unwrap();
        let names = Names {
            own: [0; 2],
            interfaces: ["inside", "outside"],
        };
        let tests = Tests::of(rule.constraints(), &names).unwrap();
        KeyPlan::of(&rule, &tests)
    }

    #[test]
    fn equalities_of_different_bits_have_a_plan_and_nothing_else_has() {
        for line in [
            "add ip-saddr 10.0.0.1 tcp-dport 9 in inside tcp-syn drop",
            "add ip-saddr 10.0.0.0/8 ip-ecn 1 ip-dscp 3 drop",
            "add all drop",
        ] {
            assert!(plan(line).is_some(), "{line}");
        }
        for line in [
            "add tcp-dport 9 tcp-dport 9 drop",
            "add ip-ecn 1 ip-ce drop",
            "add ip-saddr 10.0.0.1 ip-saddr 10.0.0.0/8 drop",
            "add tcp-dport > 9 drop",
            "add ! tcp-dport 9 drop",
            "add ip6-saddr ::1 drop",
            "add tcp-dport 9 tcp-opt-mss drop",
        ] {
            assert!(plan(line).is_none(), "{line}");
        }
    }
}
