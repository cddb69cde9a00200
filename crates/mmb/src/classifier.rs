//! Which rules a packet matches.
//!
//! Rules with the same mask are one table, whose key is found by a hash, so that the cost is
//! one look-up for each distinct mask however many rules there are (MAMI D2.2 §2.1.2). A
//! rule with a range is found among those of its mask and field in logarithmic time. Which
//! tables can hold a match at all is read from bitmaps by a few bytes of the packet, so that
//! few of many masks are looked up.

use hashbrown::HashTable;
use narrows_units::stable_hash;

use crate::constraint::{FieldRange, Residual, Tests};
use crate::layout::{Layout, Window, read_bits};
use crate::ordered::Ordered;
use crate::places::Places;
use crate::pruning::Pruning;

/// Ends a chain of rules.
const LAST: u32 = u32::MAX;

/// What a packet's masked window is in a table.
#[derive(Debug)]
struct Entry {
    key: Window,
    found: Rules,
}

#[derive(Debug)]
enum Rules {
    /// The first and the last of a chain.
    Chain(u32, u32),
    /// Ranges that are still being collected.
    Ranges(Vec<(u64, u64, u32)>),
    Ordered(Ordered),
}

/// The rules of one mask and, if they have ranges, of one field for these.
#[derive(Debug)]
pub(crate) struct Table {
    pub mask: Window,
    pub range: Option<(usize, u8)>,
    /// The lanes of the window in which the mask has bits, with these: few of eight.
    lanes: Box<[(usize, u64)]>,
    entries: Vec<Entry>,
    places: Places,
    rules: usize,
}

/// A rule, and the range in which it wants its table's field.
pub(crate) type RangedRule = (u32, Option<(u64, u64)>);

fn ranged(ranges: &[(u64, u64, u32)]) -> impl Iterator<Item = RangedRule> {
    let rule = |(least, most, rule): &(u64, u64, u32)| (*rule, Some((*least, *most)));
    ranges.iter().map(rule)
}

/// The eight bytes of the window from `8 * lane` on, as one number.
fn lane(window: &Window, lane: usize) -> u64 {
    let bytes = &window[8 * lane..8 * lane + 8];
    <[u8; 8]>::try_from(bytes).map_or(0, u64::from_le_bytes)
}

/// Keys of a table that are compared one after the other, which is quicker than a hash.
const COMPARED: usize = 4;

impl Table {
    fn new(mask: Window, range: Option<(usize, u8)>) -> Self {
        let lanes = (0..mask.len() / 8).map(|at| (at, lane(&mask, at)));
        Self {
            mask,
            range,
            lanes: lanes.filter(|(_, bits)| *bits != 0).collect(),
            entries: Vec::new(),
            places: Places::default(),
            rules: 0,
        }
    }

    /// A hash of what the mask shows of the window; a table's order depends on it nowhere.
    fn hash(lanes: &[(usize, u64)], window: &Window) -> u64 {
        // The golden ratio of 64 bits; each step mixes all bits of both factors' product.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        lanes.iter().fold(STEP, |hash, (at, mask)| {
            let product = u128::from(hash ^ lane(window, *at) & mask) * u128::from(STEP);
            (product >> 64) as u64 ^ product as u64
        })
    }

    /// The entry whose key is what the mask shows of the window.
    fn find(&self, window: &Window) -> Option<usize> {
        let shows = |entry: &Entry| {
            let mut lanes = self.lanes.iter();
            lanes.all(|(at, mask)| lane(window, *at) & mask == lane(&entry.key, *at))
        };
        if self.entries.len() <= COMPARED {
            return self.entries.iter().position(shows);
        }
        self.look_up(Self::hash(&self.lanes, window), shows)
    }

    /// The entry with that hash for which `is` holds.
    fn look_up(&self, hash: u64, is: impl Fn(&Entry) -> bool) -> Option<usize> {
        let at = self
            .places
            .find(hash, |at| is(&self.entries[at as usize]))?;
        Some(at as usize)
    }

    /// The entry for `key`, which is made if there is none.
    fn entry(&mut self, key: &Window) -> &mut Entry {
        let hash = Self::hash(&self.lanes, key);
        let at = match self.look_up(hash, |entry| entry.key == *key) {
            Some(at) => at,
            None => {
                let at = self.entries.len();
                let found = match self.range {
                    Some(_) => Rules::Ranges(Vec::new()),
                    None => Rules::Chain(LAST, LAST),
                };
                self.entries.push(Entry { key: *key, found });
                self.places.insert(hash, at as u32);
                at
            }
        };
        &mut self.entries[at]
    }

    /// The keys that have rules.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Window> {
        self.entries.iter().map(|entry| &entry.key)
    }

    /// How many rules it has.
    pub(crate) fn rules(&self) -> usize {
        self.rules
    }
}

/// All tables.
#[derive(Debug)]
pub(crate) struct Classifier {
    tables: Vec<Table>,
    /// The next rule of the same key, by rule.
    next: Vec<u32>,
    /// What is left to test, by rule.
    residuals: Vec<Box<[Residual]>>,
    pruning: Pruning,
}

impl Classifier {
    /// The tables of no rule.
    pub(crate) fn empty() -> Self {
        Self {
            tables: Vec::new(),
            next: Vec::new(),
            residuals: Vec::new(),
            pruning: Pruning::of(&[]),
        }
    }

    /// The tables of rules with these tests, or the first reason why a rule has none.
    pub(crate) fn of<E>(rules: impl ExactSizeIterator<Item = Result<Tests, E>>) -> Result<Self, E> {
        let mut by_mask: HashTable<u32> = HashTable::new();
        let mut tables: Vec<Table> = Vec::new();
        let mut next = vec![LAST; rules.len()];
        let mut residuals = Vec::with_capacity(rules.len());
        let hash = |mask: &Window| stable_hash(0, mask);
        for (rule, tests) in rules.enumerate() {
            let tests = tests?;
            residuals.push(tests.residuals.into_boxed_slice());
            if tests.never {
                continue;
            }
            let range = tests.range.map(|range| range.field);
            let is = |at: &u32| {
                let table = &tables[*at as usize];
                table.mask == tests.mask && table.range == range
            };
            let at = match by_mask.find(hash(&tests.mask), is) {
                Some(at) => *at as usize,
                None => {
                    tables.push(Table::new(tests.mask, range));
                    let at = tables.len() - 1;
                    let again = |at: &u32| hash(&tables[*at as usize].mask);
                    by_mask.insert_unique(hash(&tests.mask), at as u32, again);
                    at
                }
            };
            tables[at].rules += 1;
            let rule = rule as u32;
            match &mut tables[at].entry(&tests.key).found {
                Rules::Chain(first, last) => {
                    match *last {
                        LAST => *first = rule,
                        last => next[last as usize] = rule,
                    }
                    *last = rule;
                }
                Rules::Ranges(ranges) => {
                    if let Some(FieldRange { least, most, .. }) = tests.range {
                        ranges.push((least, most, rule));
                    }
                }
                Rules::Ordered(_) => {}
            }
        }
        for entry in tables.iter_mut().flat_map(|table| &mut table.entries) {
            if let Rules::Ranges(ranges) = &mut entry.found {
                entry.found = Rules::Ordered(Ordered::of(std::mem::take(ranges)));
            }
        }
        let pruning = Pruning::of(&tables);
        Ok(Self {
            tables,
            next,
            residuals,
            pruning,
        })
    }

    /// Puts the rules that the packet matches into `matched`, in their order.
    pub(crate) fn find(
        &self,
        window: &Window,
        bytes: &[u8],
        layout: &Layout,
        matched: &mut Vec<u32>,
    ) {
        matched.clear();
        let mut take = |rule: u32| {
            let rest = &self.residuals[rule as usize];
            if rest.iter().all(|test| test.holds(window, bytes, layout)) {
                matched.push(rule);
            }
        };
        self.pruning.candidates(window, |at| {
            let table = &self.tables[at];
            let Some(entry) = table.find(window) else {
                return;
            };
            match (&table.entries[entry].found, table.range) {
                (Rules::Chain(first, _), _) => {
                    let mut rule = *first;
                    while rule != LAST {
                        take(rule);
                        rule = self.next[rule as usize];
                    }
                }
                (Rules::Ordered(ordered), Some((at, width))) => {
                    ordered.find(read_bits(window, at, width) as u64, &mut take);
                }
                _ => {}
            }
        });
        matched.sort_unstable();
    }

    /// The tables.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The keys of a table, each with its rules in their order and the range, ends included,
    /// in which each of them wants the table's field.
    pub(crate) fn keyed<'a>(
        &'a self,
        table: &'a Table,
    ) -> impl Iterator<Item = (&'a Window, Vec<RangedRule>)> {
        table.entries.iter().map(|entry| {
            let mut rules: Vec<RangedRule> = match &entry.found {
                Rules::Chain(first, _) => {
                    let next = |rule: &u32| Some(self.next[*rule as usize]).filter(|r| *r != LAST);
                    std::iter::successors(Some(*first), next)
                        .map(|rule| (rule, None))
                        .collect()
                }
                Rules::Ranges(ranges) => ranged(ranges).collect(),
                Rules::Ordered(ordered) => ranged(ordered.ranges()).collect(),
            };
            rules.sort_unstable();
            (&entry.key, rules)
        })
    }

    /// What is left to test of a rule.
    pub(crate) fn residuals(&self, rule: u32) -> &[Residual] {
        &self.residuals[rule as usize]
    }

    /// The bytes of the window that say which tables can match, each with 256 rows of bits.
    pub(crate) fn looks(&self) -> impl Iterator<Item = (usize, &[u64])> {
        self.pruning.looks()
    }
}
