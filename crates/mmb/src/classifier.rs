//! Which rules a packet matches.
//!
//! Rules with the same mask are one table, whose key is found by a hash, so that the cost is
//! one look-up for each distinct mask however many rules there are (MAMI D2.2 §2.1.2). A
//! rule with a range is found among those of its mask and field in logarithmic time. Which
//! tables can hold a match at all is read from bitmaps by a few bytes of the packet, so that
//! few of many masks are looked up.

use std::sync::Arc;

use hashbrown::HashTable;
use narrows_units::stable_hash;

use crate::constraint::{Names, Residual, Tests, UnknownInterface};
use crate::key_plan::KeyPlan;
use crate::layout::Window;
use crate::pruning::Pruning;
use crate::recent::Recent;
use crate::rule::Rule;
use crate::shape::Shape;
use crate::structs::Reading;
use crate::table::{Chains, Growing, RangedRule, Table};

/// What is left to test of rules.
#[derive(Clone, Debug, Default)]
struct Residuals {
    /// Which of the lists a rule has, from 1; 0 where nothing is left.
    of: Vec<u32>,
    lists: Vec<Box<[Residual]>>,
}

impl Residuals {
    fn new(rules: usize) -> Self {
        Self {
            of: vec![0; rules],
            lists: Vec::new(),
        }
    }

    fn set(&mut self, rule: usize, list: Vec<Residual>) {
        if !list.is_empty() {
            self.lists.push(list.into());
            self.of[rule] = self.lists.len() as u32;
        }
    }

    fn get(&self, rule: u32) -> &[Residual] {
        match self.of[rule as usize].checked_sub(1) {
            Some(list) => &self.lists[list as usize],
            None => &[],
        }
    }
}

/// The tables of the masks that were met so far.
#[derive(Debug, Default)]
struct ByMask {
    at: HashTable<u32>,
    tables: Vec<Growing>,
}

impl ByMask {
    /// The table of this mask and range, which is made if there is none.
    fn table(&mut self, mask: &Window, range: Option<(usize, u8)>) -> usize {
        let Self { at, tables } = self;
        let hash = |mask: &Window| stable_hash(0, mask);
        let is = |at: &u32| {
            let table = &tables[*at as usize];
            table.mask == *mask && table.range == range
        };
        if let Some(at) = at.find(hash(mask), is) {
            return *at as usize;
        }
        tables.push(Growing::new(*mask, range));
        let new = tables.len() - 1;
        at.insert_unique(hash(mask), new as u32, |at| {
            hash(&tables[*at as usize].mask)
        });
        new
    }
}

/// All tables.
#[derive(Clone, Debug)]
pub(crate) struct Classifier {
    tables: Vec<Table>,
    chains: Chains,
    residuals: Residuals,
    pruning: Pruning,
}

impl Classifier {
    /// The tables of no rule.
    pub(crate) fn empty() -> Self {
        Self {
            tables: Vec::new(),
            chains: Chains::new(0),
            residuals: Residuals::default(),
            pruning: Pruning::of(&[]),
        }
    }

    /// The tables of `rules` at a box with these names.
    ///
    /// # Errors
    /// The first name that the box does not know.
    pub(crate) fn of<'a>(
        rules: impl ExactSizeIterator<Item = &'a Rule>,
        names: &Names<'_>,
    ) -> Result<Self, UnknownInterface> {
        let count = rules.len();
        let mut by_mask = ByMask::default();
        let mut residuals = Residuals::new(count);
        // How the keys of rules of the last shapes come about, and in which table they are.
        let mut plans: Recent<(&Arc<Shape>, usize, KeyPlan)> = Recent::default();
        for (number, rule) in rules.enumerate() {
            let same = |(shape, ..): &&(&Arc<Shape>, _, _)| Arc::ptr_eq(shape, rule.shape());
            if let Some((_, table, plan)) = plans.iter().find(same) {
                let key = plan.key(rule.numbers());
                by_mask.tables[*table].push(number as u32, &key, None);
                continue;
            }
            let tests = Tests::of(rule.constraints(), names)?;
            if tests.never {
                continue;
            }
            let range = tests.range.map(|range| range.field);
            let table = by_mask.table(&tests.mask, range);
            let bounds = tests.range.map(|range| (range.least, range.most));
            by_mask.tables[table].push(number as u32, &tests.key, bounds);
            if let Some(plan) = KeyPlan::of(rule, &tests) {
                plans.push((rule.shape(), table, plan));
            }
            residuals.set(number, tests.residuals);
        }
        let mut chains = Chains::new(count);
        let finish = |table: Growing| table.finish(&mut chains);
        let tables: Vec<_> = by_mask.tables.into_iter().map(finish).collect();
        Ok(Self {
            pruning: Pruning::of(&tables),
            tables,
            chains,
            residuals,
        })
    }

    /// Puts the rules that the packet matches into `matched`, in their order.
    pub(crate) fn find(&self, packet: &Reading, bytes: &[u8], matched: &mut Vec<u32>) {
        matched.clear();
        let window = packet.window();
        let mut take = |rule: u32| {
            let mut rest = self.residuals.get(rule).iter();
            if rest.all(|test| test.holds(packet, bytes)) {
                matched.push(rule);
            }
        };
        self.pruning.candidates(window, |at| {
            self.tables[at].rules_of(window, &self.chains, &mut take);
        });
        matched.sort_unstable();
    }

    /// Whether a rule looks at TCP options.
    pub(crate) fn reads_options(&self) -> bool {
        let mut tests = self.residuals.lists.iter().flatten();
        tests.any(Residual::is_of_option)
    }

    /// The tables.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The keys of a table, each with its rules in their order and the range, ends included,
    /// in which each of them wants the table's field.
    pub(crate) fn keyed(&self, table: &Table) -> impl Iterator<Item = (Window, Vec<RangedRule>)> {
        table.keyed(&self.chains)
    }

    /// What is left to test of a rule.
    pub(crate) fn residuals(&self, rule: u32) -> &[Residual] {
        self.residuals.get(rule)
    }

    /// The bytes of the window that say which tables can match, each with 256 rows of bits.
    pub(crate) fn probe_bytes(&self) -> impl Iterator<Item = (usize, &[u64])> {
        self.pruning.probe_bytes()
    }
}
