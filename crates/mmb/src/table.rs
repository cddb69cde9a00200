//! The rules of one mask, by what a packet's masked window has to be.

use crate::layout::{WINDOW, Window, read_bits};
use crate::ordered::Ordered;
use crate::places::Places;

/// Ends a chain of rules.
const LAST: u32 = 0;

/// Words of a window.
const LANES: usize = WINDOW / 8;

/// The next rule of the same key, by rule: its number from 1, or [`LAST`]. Most rules have a key
/// of their own, and memory that stays zero takes none.
#[derive(Clone, Debug)]
pub(crate) struct Chains(Vec<u32>);

impl Chains {
    /// Of so many rules, none of which has another behind it.
    pub(crate) fn new(rules: usize) -> Self {
        Self(vec![LAST; rules])
    }

    /// The chain that begins with a rule.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        let next = |rule: &u32| self.0[*rule as usize].checked_sub(1);
        std::iter::successors(Some(first), next)
    }

    /// Puts `rule` before the chain that begins with `first`.
    fn put_before(&mut self, rule: u32, first: u32) {
        self.0[rule as usize] = first + 1;
    }
}

/// The rules of each key.
#[derive(Clone, Debug)]
enum Found {
    /// The first one of a chain.
    Chains(Vec<u32>),
    Ordered(Vec<Ordered>),
}

/// The rules of one mask and, if they have ranges, of one field for these.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub mask: Window,
    pub range: Option<(usize, u8)>,
    /// The lanes of the window in which the mask has bits, with these: few of eight.
    lanes: Box<[(usize, u64)]>,
    /// These lanes of each key, one key behind the other.
    keys: Vec<u64>,
    found: Found,
    /// Of more keys than are compared one after the other.
    places: Option<Places>,
    rules: usize,
}

/// A rule, and the range in which it wants its table's field.
pub(crate) type RangedRule = (u32, Option<(u64, u64)>);

/// The eight bytes of the window from `8 * lane` on, as one number.
fn lane(window: &Window, lane: usize) -> u64 {
    let bytes = &window[8 * lane..8 * lane + 8];
    <[u8; 8]>::try_from(bytes).map_or(0, u64::from_le_bytes)
}

/// Keys of a table that are compared one after the other, which is quicker than a hash.
const COMPARED: usize = 4;

/// A hash of a key's lanes; a table's order depends on it nowhere.
pub(crate) fn hash(lanes: impl Iterator<Item = u64>) -> u64 {
    // The golden ratio of 64 bits; each step mixes all bits of both factors' product.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    lanes.fold(STEP, |hash, lane| {
        let product = u128::from(hash ^ lane) * u128::from(STEP);
        (product >> 64) as u64 ^ product as u64
    })
}

impl Table {
    /// The entry whose key is what the mask shows of the window.
    fn find(&self, window: &Window) -> Option<usize> {
        let shown = || self.lanes.iter().map(|(at, mask)| lane(window, *at) & mask);
        let width = self.lanes.len();
        let is = |entry: usize| {
            let key = &self.keys[entry * width..(entry + 1) * width];
            key.iter().copied().eq(shown())
        };
        let Some(places) = &self.places else {
            return (0..self.len()).find(|entry| is(*entry));
        };
        let found = places.find(hash(shown()), |entry| is(entry as usize));
        found.map(|entry| entry as usize)
    }

    /// Calls `take` with the rules whose mask, key and range the packet of the window has.
    pub(crate) fn rules_of(&self, window: &Window, chains: &Chains, take: &mut impl FnMut(u32)) {
        let Some(entry) = self.find(window) else {
            return;
        };
        match (&self.found, self.range) {
            (Found::Chains(first), _) => chains.from(first[entry]).for_each(take),
            (Found::Ordered(ordered), Some((at, width))) => {
                ordered[entry].find(read_bits(window, at, width) as u64, take);
            }
            (Found::Ordered(_), None) => {}
        }
    }

    /// How many distinct keys it has.
    fn len(&self) -> usize {
        match &self.found {
            Found::Chains(first) => first.len(),
            Found::Ordered(ordered) => ordered.len(),
        }
    }

    /// The keys that have rules.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Window> {
        let width = self.lanes.len();
        (0..self.len()).map(move |entry| {
            let mut key = [0; WINDOW];
            for ((at, _), lane) in self.lanes.iter().zip(&self.keys[entry * width..]) {
                key[8 * at..8 * at + 8].copy_from_slice(&lane.to_le_bytes());
            }
            key
        })
    }

    /// The byte at that place of the window of all keys; of none if the mask has no bit in it.
    pub(crate) fn bytes_at(&self, at: usize) -> impl Iterator<Item = u8> {
        let place = self.lanes.iter().position(|(lane, _)| *lane == at / 8);
        let from = place.unwrap_or(self.keys.len());
        let lanes = self.keys[from..].iter().step_by(self.lanes.len().max(1));
        lanes.map(move |lane| lane.to_le_bytes()[at % 8])
    }

    /// The keys, each with its rules in their order and the range, ends included, in which each
    /// of them wants the table's field.
    pub(crate) fn keyed(&self, chains: &Chains) -> impl Iterator<Item = (Window, Vec<RangedRule>)> {
        self.keys().enumerate().map(|(entry, key)| {
            let mut rules: Vec<RangedRule> = match &self.found {
                Found::Chains(first) => {
                    let chain = chains.from(first[entry]);
                    chain.map(|rule| (rule, None)).collect()
                }
                Found::Ordered(ordered) => {
                    let ranges = ordered[entry].ranges().iter();
                    let ranged = |(least, most, rule): &_| (*rule, Some((*least, *most)));
                    ranges.map(ranged).collect()
                }
            };
            rules.sort_unstable();
            (key, rules)
        })
    }

    /// How many rules it has.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }
}

/// A table to which rules are still added.
#[derive(Debug)]
pub(crate) struct Growing {
    pub mask: Window,
    pub range: Option<(usize, u8)>,
    lanes: Box<[(usize, u64)]>,
    keys: Vec<u64>,
    /// By their keys.
    rules: Vec<u32>,
    /// Of each of them, where the table has them.
    ranges: Vec<(u64, u64)>,
}

impl Growing {
    pub(crate) fn new(mask: Window, range: Option<(usize, u8)>) -> Self {
        let lanes = (0..LANES).map(|at| (at, lane(&mask, at)));
        Self {
            mask,
            range,
            lanes: lanes.filter(|(_, bits)| *bits != 0).collect(),
            keys: Vec::new(),
            rules: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Adds a rule with its key and, where the table has ranges, that.
    pub(crate) fn push(&mut self, rule: u32, key: &Window, range: Option<(u64, u64)>) {
        self.keys
            .extend(self.lanes.iter().map(|(at, _)| lane(key, *at)));
        self.rules.push(rule);
        self.ranges.extend(range);
    }

    /// The table. Rules of the same key are one entry, in the place of the first.
    pub(crate) fn finish(self, chains: &mut Chains) -> Table {
        let (mut keys, mut firsts) = (self.keys, self.rules);
        let (count, width) = (firsts.len(), self.lanes.len());
        let mut places = (count > COMPARED).then(|| Places::with_room(count));
        let mut ranges: Vec<Vec<(u64, u64, u32)>> = Vec::new();
        let mut entries = 0;
        for at in 0..count {
            let mut key = [0; LANES];
            let key = &mut key[..width];
            key.copy_from_slice(&keys[at * width..(at + 1) * width]);
            let rule = firsts[at];
            let is = |entry: usize| keys[entry * width..(entry + 1) * width] == *key;
            let hash = hash(key.iter().copied());
            let known = match &places {
                None => (0..entries).find(|entry| is(*entry)),
                Some(places) => places
                    .find(hash, |entry| is(entry as usize))
                    .map(|entry| entry as usize),
            };
            let entry = known.unwrap_or(entries);
            if known.is_none() {
                keys.copy_within(at * width..(at + 1) * width, entry * width);
                firsts[entry] = rule;
                entries += 1;
                if let Some(places) = &mut places {
                    places.insert(hash, entry as u32);
                }
            } else if self.range.is_none() {
                chains.put_before(rule, firsts[entry]);
                firsts[entry] = rule;
            }
            if let Some((least, most)) = self.ranges.get(at) {
                ranges.resize_with(entries, Vec::new);
                ranges[entry].push((*least, *most, rule));
            }
        }
        keys.truncate(entries * width);
        keys.shrink_to_fit();
        firsts.truncate(entries);
        firsts.shrink_to_fit();
        let mut places = places.filter(|_| entries > COMPARED);
        if let Some(places) = &mut places {
            places.shrink();
        }
        Table {
            mask: self.mask,
            range: self.range,
            lanes: self.lanes,
            keys,
            found: match self.range {
                None => Found::Chains(firsts),
                Some(_) => Found::Ordered(ranges.into_iter().map(Ordered::of).collect()),
            },
            places,
            rules: count,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The window with that TTL and that destination port.
    fn window(ttl: u8, port: u16) -> Window {
        let mut window = [0; WINDOW];
        window[8] = ttl;
        window[42..44].copy_from_slice(&port.to_be_bytes());
        window
    }

    /// The table of rules that ask for these.
    fn table(keys: &[(u8, u16)]) -> (Table, Chains) {
        let mut chains = Chains::new(keys.len());
        let mut growing = Growing::new(window(0xff, 0xffff), None);
        for (rule, (ttl, port)) in (0..).zip(keys) {
            growing.push(rule, &window(*ttl, *port), None);
        }
        (growing.finish(&mut chains), chains)
    }

    #[test]
    fn a_table_has_its_keys_in_the_order_of_their_first_rules() {
        let keys = [(1, 80), (1, 81), (2, 80), (1, 80), (3, 0), (2, 80), (0, 9)];
        for count in 1..=keys.len() {
            let (table, chains) = table(&keys[..count]);
            let mut distinct = Vec::new();
            for key in &keys[..count] {
                if !distinct.contains(key) {
                    distinct.push(*key);
                }
            }
            let windows: Vec<Window> = distinct.iter().map(|(t, p)| window(*t, *p)).collect();
            assert_eq!(table.keys().collect::<Vec<_>>(), windows);
            assert_eq!(table.rules(), count);
            for (ttl, port) in distinct {
                let mut found = Vec::new();
                let mut take = |rule: u32| found.push(keys[rule as usize]);
                table.rules_of(&window(ttl, port), &chains, &mut take);
                let same = keys[..count].iter().filter(|key| **key == (ttl, port));
                assert_eq!(found, vec![(ttl, port); same.count()]);
            }
            table.rules_of(&window(9, 9), &chains, &mut |rule| panic!("{rule}"));
        }
    }

    #[test]
    fn more_than_four_keys_are_found_by_a_hash() {
        let hashed = |keys: &[(u8, u16)]| table(keys).0.places.is_some();
        assert!(!hashed(&[(1, 1), (1, 2), (1, 3), (1, 4)]));
        assert!(hashed(&[(1, 1), (1, 2), (1, 3), (1, 4), (1, 5)]));
        // Five rules, and four keys.
        assert!(!hashed(&[(1, 1), (1, 2), (1, 3), (1, 4), (1, 1)]));
    }

    #[test]
    fn every_part_of_a_key_reaches_both_ends_of_its_hash() {
        for shift in 0..=54 {
            let hash_of = |n: u64| hash(std::iter::once(n << shift));
            let hashes: Vec<u64> = (0..1_024).map(hash_of).collect();
            let distinct = |part: fn(u64) -> u64| {
                let parts: BTreeSet<u64> = hashes.iter().map(|hash| part(*hash)).collect();
                parts.len()
            };
            assert_eq!(distinct(|hash| hash), 1_024);
            // Of 4096 values, of which as many draws hit 906 on average.
            assert!(distinct(|hash| hash & 0xfff) > 600, "low end, {shift}");
            assert!(distinct(|hash| hash >> 52) > 600, "high end, {shift}");
            let ones: u32 = hashes.iter().map(|hash| hash.count_ones()).sum();
            assert!((30 * 1_024..34 * 1_024).contains(&ones), "{ones}, {shift}");
        }
    }
}
