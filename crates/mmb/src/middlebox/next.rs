//! The rules of a box after a change, and which of them were there before.

use std::collections::{BTreeMap, VecDeque};

use crate::rule::Rule;

/// A rule that stays, by its number so far, or one that is new.
pub(super) enum Next {
    Old(usize),
    New(Rule),
}

/// Has the rules of `next` that say the same as one of `rules` be that one; of equals the first ones.
pub(super) fn find_old(next: &mut [Next], rules: &[Rule]) {
    let same = |(next, rule): &(&Next, &Rule)| matches!(next, Next::New(new) if new == *rule);
    let alike = next.iter().zip(rules).take_while(same).count();
    for (at, next) in next[..alike].iter_mut().enumerate() {
        *next = Next::Old(at);
    }
    let mut known: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
    for (at, rule) in rules.iter().enumerate().skip(alike) {
        known.entry(rule.to_string()).or_default().push_back(at);
    }
    for next in &mut next[alike..] {
        let Next::New(rule) = &*next else { continue };
        if let Some(at) = known
            .get_mut(&rule.to_string())
            .and_then(VecDeque::pop_front)
        {
            *next = Next::Old(at);
        }
    }
}
