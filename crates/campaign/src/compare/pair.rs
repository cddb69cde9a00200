//! Two cells that differ in one thing, held against each other on the live
//! engine.
//!
//! Their runs are made in turns, so that what the machine does in the meantime
//! meets both sides alike: known, judged; judged, known; known, judged, and so
//! on. The order turns round with each repetition, so that a machine that
//! becomes slower or faster all the time favours neither.

use narrows_results::Error;
use narrows_results::comparison::{CellComparison, Live};
use narrows_results::verdict;
use narrows_results::{Engine, Progress};
use narrows_scenario::{Between, Campaign, PairedCells};

use super::judge::{Sides, rows};
use super::run::{Made, Runner, summaries};

/// Refuses what cannot be run in pairs, before anything is made.
pub(super) fn accepts(
    campaign: &Campaign,
    pairs: &[PairedCells],
    live: &dyn Engine,
) -> Result<(), Error> {
    if pairs.is_empty() {
        return Err(Error::Refused(format!(
            "{}: no two of the cells that were asked for are a pair; `--only` has to fit both of \
             them",
            campaign.name
        )));
    }
    for cell in pairs.iter().flat_map(|pair| [pair.against, pair.judge]) {
        let cell = &campaign.cells[cell];
        let accepted = live.accepts(&cell.plan);
        accepted.map_err(|error| Error::from(error).in_cell(&cell.name))?;
    }
    Ok(())
}

impl Runner<'_> {
    /// The runs of pair number `index` of `of`, and what they came to; `None`
    /// if cancelled.
    pub fn pair(
        &self,
        index: usize,
        of: usize,
        pair: &PairedCells,
        live: &dyn Engine,
    ) -> Result<Option<CellComparison>, Error> {
        let mut attempts: Vec<Live> = Vec::new();
        let mut used: [Vec<Made>; 2] = [Vec::new(), Vec::new()];
        let sides = [pair.against, pair.judge];
        // There is no simulated run that would know: what the rig does not
        // cause, another try does not cure.
        let known = |check: &str| !verdict::is_the_rigs(check);
        for (n, seed) in self.seeds.iter().enumerate() {
            for turn in 0..2 {
                let side = (n + turn) % 2;
                let cell = sides[side];
                let called = self.side(cell);
                match self.repetition(cell, *seed, Some(called), live, &known, &mut attempts) {
                    Ok(Some(made)) => used[side].push(made),
                    Ok(None) => return Ok(None),
                    Err(Error::Engine(why)) => {
                        return Ok(Some(CellComparison {
                            name: pair.name.clone(),
                            live: attempts,
                            error: Some(format!("{called}: {why}")),
                            ..CellComparison::default()
                        }));
                    }
                    Err(error) => return Err(error),
                }
                let each = 2 * self.seeds.len();
                (self.watch.progress)(Progress::Compared {
                    runs: index * each + 2 * n + turn + 1,
                    of: of * each,
                });
            }
        }
        let sides = Sides {
            name: &pair.name,
            plan: &self.campaign.cells[pair.against].plan,
            between: Between::Pair,
            first: &summaries(&used[0]),
            second: &summaries(&used[1]),
        };
        let (rows, asked) = rows(self.campaign, &sides);
        Ok(Some(CellComparison {
            name: pair.name.clone(),
            sim: Vec::new(),
            sim_trust: Vec::new(),
            live: attempts,
            rows,
            asked,
            error: None,
        }))
    }

    /// Which side a cell is on: its value on the pair's axis.
    fn side(&self, cell: usize) -> &str {
        let axis = self.campaign.pair.as_ref().map(|pair| pair.axis);
        let value = axis.and_then(|axis| self.campaign.cells[cell].at.get(axis));
        value.map_or("", String::as_str)
    }
}
