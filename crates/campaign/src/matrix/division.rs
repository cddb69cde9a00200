//! How the runs of campaigns are divided into shards.
//!
//! Every machine that runs a shard has to come to the same division, whatever its store holds.
//! So it depends on what all were called with alone: the campaigns with their cells and seeds,
//! the number of shards, and the costs if a file of them was given. It is made with integers, so
//! that no machine rounds otherwise than another one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZero;

use narrows_results::folder::digest_of_bytes;
use narrows_scenario::Campaign;

use super::cost::weight;

/// One of several shards, in words `3/8`: the third of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 0.
    index: u32,
    of: NonZero<u32>,
}

impl Shard {
    /// The most shards that there can be (our choice): more than any cluster has processors.
    pub const MOST: u32 = 1_000_000;

    /// The one with that number, from 1, of so many.
    ///
    /// # Errors
    /// When there is no such one, in words.
    pub fn new(number: u64, of: u64) -> Result<Self, String> {
        let allowed = || {
            format!(
                "`{number}/{of}`; allowed: I/N with N from 1 to {} and I from 1 to N",
                Self::MOST
            )
        };
        let of = u32::try_from(of).ok().filter(|of| *of <= Self::MOST);
        let of = of.and_then(NonZero::new).ok_or_else(allowed)?;
        match u32::try_from(number) {
            Ok(number) if (1..=of.get()).contains(&number) => Ok(Self {
                index: number - 1,
                of,
            }),
            _ => Err(allowed()),
        }
    }

    /// Of how many it is one.
    pub fn of(&self) -> NonZero<u32> {
        self.of
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", u64::from(self.index) + 1, self.of)
    }
}

/// What runs of cells took, by the names of these: the median where there were several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Microseconds.
    by_cell: BTreeMap<String, u64>,
}

impl Costs {
    /// Of runs of cells of these names, which took so many seconds each.
    ///
    /// # Errors
    /// When a time is negative or is none, in words.
    pub fn of(runs: impl IntoIterator<Item = (String, f64)>) -> Result<Self, String> {
        /// Seconds in a hundred years.
        const LONGEST_S: f64 = 3.2e9;
        let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (name, seconds) in runs {
            if !(0.0..=LONGEST_S).contains(&seconds) {
                return Err(format!(
                    "{seconds} s of the cell {name}; allowed: 0 to {LONGEST_S} s"
                ));
            }
            let took = (seconds * 1e6).round() as u64;
            all.entry(name).or_default().push(took);
        }
        let median = |(name, mut took): (String, Vec<u64>)| {
            took.sort_unstable();
            (name, took[took.len() / 2])
        };
        Ok(Self {
            by_cell: all.into_iter().map(median).collect(),
        })
    }

    /// Of one run of each cell of `campaign`: what is known, and by that what is estimated from
    /// the plan; and for how many cells it is known.
    fn of_cells(&self, campaign: &Campaign) -> (Vec<u64>, usize) {
        /// Of an estimate in the unit of [`weight`], so that little is lost by rounding.
        const SCALE: f64 = 1000.0;
        let cells = campaign.cells.iter();
        let estimates: Vec<(Option<u64>, f64)> = cells
            .map(|cell| {
                let known = self.by_cell.get(&cell.name).copied();
                (known, weight(&cell.plan))
            })
            .collect();
        let mut ratios: Vec<f64> = estimates
            .iter()
            .filter_map(|(known, weight)| Some((*known)? as f64 / weight))
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let scale = ratios.get(ratios.len() / 2).copied().unwrap_or(SCALE);
        let cost =
            |(known, weight): &(Option<u64>, f64)| known.unwrap_or((weight * scale).round() as u64);
        let known = estimates
            .iter()
            .filter(|(known, _)| known.is_some())
            .count();
        (estimates.iter().map(cost).collect(), known)
    }
}

/// The runs of a campaign that are a shard's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Their numbers, in order: that of the cell times the number of seeds, and the place of the
    /// seed.
    pub(super) runs: Vec<usize>,
    /// All runs of the campaign.
    pub of: usize,
    /// What its runs are reckoned to cost, in thousandths of what all do.
    pub cost_permille: u32,
    /// Cells of the campaign whose cost was known.
    pub known: usize,
}

impl Part {
    /// How many runs it has.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Runs of one campaign after the other, divided among shards so that these cost about the same:
/// the costliest first, each to the shard that has least so far.
#[derive(Clone, Debug)]
pub struct Division {
    shard: Shard,
    costs: Costs,
    /// What each shard has so far.
    loads: Vec<u128>,
    /// All that has been divided so far, in a digest.
    name: String,
}

impl Division {
    /// Among as many shards as `shard` is one of, by `costs` where they are known.
    pub fn new(shard: Shard, costs: Costs) -> Self {
        Self {
            shard,
            costs,
            loads: vec![0; shard.of.get() as usize],
            name: String::new(),
        }
    }

    /// Divides the runs of `campaign` with `seeds`; those of the shard.
    pub fn part(&mut self, campaign: &Campaign, seeds: &[u64]) -> Part {
        let (costs, known) = self.costs.of_cells(campaign);
        // What costs nothing is divided, too.
        let of_run = |run: usize| costs[run / seeds.len()].max(1);
        let of = campaign.cells.len() * seeds.len();
        let mut order: Vec<usize> = (0..of).collect();
        order.sort_by_key(|run| (Reverse(of_run(*run)), *run));
        let loads = self.loads.iter().enumerate();
        let mut least: BTreeSet<(u128, usize)> =
            loads.map(|(shard, load)| (*load, shard)).collect();
        let (mut of_shards, mut cost) = (vec![0; of], 0_u128);
        for run in order {
            let Some((load, shard)) = least.pop_first() else {
                break;
            };
            let more = u128::from(of_run(run));
            self.loads[shard] = load + more;
            least.insert((load + more, shard));
            of_shards[run] = shard;
            cost += more;
        }
        let mine = self.shard.index as usize;
        let runs: Vec<usize> = (0..of).filter(|run| of_shards[*run] == mine).collect();
        let own: u128 = runs.iter().map(|run| u128::from(of_run(*run))).sum();
        self.name = self.named(campaign, seeds, &of_shards);
        Part {
            cost_permille: u32::try_from(own * 1000 / cost.max(1)).unwrap_or(u32::MAX),
            runs,
            of,
            known,
        }
    }

    /// A name of all that was divided so far and how: alike for all shards of one division.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn named(&self, campaign: &Campaign, seeds: &[u64], of_shards: &[usize]) -> String {
        let mut text = format!("{} {}\n", self.name, self.loads.len());
        for (run, shard) in of_shards.iter().enumerate() {
            let cell = &campaign.cells[run / seeds.len()].name;
            text.push_str(&format!("{cell} {} {shard}\n", seeds[run % seeds.len()]));
        }
        digest_of_bytes(text.as_bytes())[..12].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_scenario::catalog;

    /// Cells at these rates in Mbit/s, whose runs are estimated to cost in proportion.
    fn campaign(rates: &[u64]) -> Campaign {
        let text = include_str!("../../tests/rates.toml");
        let text = text.replace("[50, 60, 70, 80, 90, 100]", &format!("{rates:?}"));
        let shelf = catalog::entry("mmb/boxes").expect("an entry").shelf();
        Campaign::read("mine.toml", text.as_bytes(), &shelf, &[]).expect("a campaign")
    }

    fn parts(of: u64, costs: &Costs, campaigns: &[(&Campaign, &[u64])]) -> Vec<Vec<Part>> {
        (1..=of)
            .map(|number| {
                let shard = Shard::new(number, of).expect("a shard");
                let mut division = Division::new(shard, costs.clone());
                campaigns
                    .iter()
                    .map(|(campaign, seeds)| division.part(campaign, seeds))
                    .collect()
            })
            .collect()
    }

    fn costs(known: &[(&str, f64)]) -> Costs {
        Costs::of(known.iter().map(|(name, s)| ((*name).to_owned(), *s))).expect("costs")
    }

    #[test]
    fn every_run_is_in_one_shard_whatever_their_number() {
        let (one, two) = (campaign(&[1, 2, 4, 8, 9, 50, 70]), campaign(&[3, 5]));
        let known = costs(&[("50", 0.0), ("8", 3.5), ("elsewhere", 1.0)]);
        for costs in [Costs::default(), known] {
            for of in [1, 2, 3, 5, 8, 40] {
                let parts = parts(of, &costs, &[(&one, &[1, 2, 3]), (&two, &[7])]);
                for (place, all) in [(0, 21), (1, 2)] {
                    let mut runs: Vec<usize> =
                        parts.iter().flat_map(|p| p[place].runs.clone()).collect();
                    runs.sort_unstable();
                    assert_eq!(runs, (0..all).collect::<Vec<_>>(), "{of} shards");
                }
            }
        }
    }

    #[test]
    fn shards_cost_about_the_same_over_several_campaigns() {
        let (one, two) = (campaign(&[1, 2, 4, 8, 9, 50, 70]), campaign(&[3]));
        for of in [2_usize, 3, 4] {
            let parts = parts(
                of as u64,
                &Costs::default(),
                &[(&one, &[1, 2, 3]), (&two, &[7])],
            );
            // By the rates, the unit of an estimate.
            let rates = [1.0, 2.0, 4.0, 8.0, 9.0, 50.0, 70.0];
            let load = |p: &Vec<Part>| {
                let first: f64 = p[0].runs.iter().map(|run| 1.0 + rates[run / 3]).sum();
                first + 4.0 * p[1].len() as f64
            };
            let loads: Vec<f64> = parts.iter().map(load).collect();
            let total: f64 = loads.iter().sum();
            let most = loads.iter().copied().fold(0.0, f64::max);
            // No worse than the mean by more than a third of it and one run: Graham's bound.
            assert!(most <= total / of as f64 + 71.0, "{loads:?}");
            assert!(of > 3 || most < 1.35 * total / of as f64, "{loads:?}");
        }
        // What a single run of the second campaign costs goes where the first left room.
        let parts = parts(2, &Costs::default(), &[(&two, &[7]), (&two, &[7])]);
        let of_both: Vec<usize> = parts.iter().map(|p| p[0].len() + p[1].len()).collect();
        assert_eq!(of_both, [1, 1]);
    }

    #[test]
    fn known_costs_decide_and_scale_the_estimates_of_the_others() {
        let campaign = campaign(&[9, 19, 29]);
        // Known for one, whose estimate is half of that of another.
        let (of_cells, known) = costs(&[("9", 1.0), ("9", 5.0), ("9", 2.0)]).of_cells(&campaign);
        assert_eq!(
            (of_cells, known),
            (vec![2_000_000, 4_000_000, 6_000_000], 1)
        );
        // A cell that takes as long as both others has a shard of its own.
        let known = costs(&[("9", 9.0), ("19", 4.0), ("29", 5.0)]);
        let parts = parts(2, &known, &[(&campaign, &[1])]);
        assert_eq!(
            (&parts[0][0].runs[..], &parts[1][0].runs[..]),
            (&[0][..], &[1, 2][..])
        );
        assert_eq!((parts[0][0].cost_permille, parts[0][0].known), (500, 3));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(Costs::of([("x".to_owned(), wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn divisions_have_one_name_if_they_are_one() {
        let (one, two) = (campaign(&[9, 19, 29]), campaign(&[9, 19, 30]));
        let name = |shard: (u64, u64), costs: Costs, campaign: &Campaign, seeds: &[u64]| {
            let mut division = Division::new(Shard::new(shard.0, shard.1).expect("one"), costs);
            division.part(campaign, seeds);
            division.name().to_owned()
        };
        let none = Costs::default();
        let mine = name((1, 2), none.clone(), &one, &[1]);
        assert_eq!(name((2, 2), none.clone(), &one, &[1]), mine);
        for other in [
            name((1, 3), none.clone(), &one, &[1]),
            name(
                (1, 2),
                costs(&[("9", 9.0), ("19", 4.0), ("29", 5.0)]),
                &one,
                &[1],
            ),
            name((1, 2), none.clone(), &two, &[1]),
            name((1, 2), none, &one, &[1, 2]),
        ] {
            assert_ne!(other, mine);
        }
    }

    #[test]
    fn a_shard_is_one_of_those_that_there_are() {
        for (number, of) in [(0, 3), (4, 3), (1, 0), (1, 1 << 32), ((1 << 32) + 1, 3)] {
            assert!(Shard::new(number, of).is_err(), "{number}/{of}");
        }
        assert_eq!(Shard::new(3, 3).expect("a shard").to_string(), "3/3");
    }
}
