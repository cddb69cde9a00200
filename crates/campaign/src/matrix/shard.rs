//! Running one shard of a campaign into a store.

use narrows_results::{Engine, Error, Watch};
use narrows_scenario::Campaign;

use super::batch::{Batch, FailedRun};
use super::division::Part;
use super::run::{CampaignOptions, all_are_kept, checked, no_store};

/// What became of the runs of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardDone {
    /// Runs that were run or taken, those that failed among them.
    pub done: usize,
    /// Runs that were in the store already.
    pub taken: usize,
    /// Runs that failed, and so are not in the store.
    pub failed: Vec<FailedRun>,
}

/// Runs `part` of the runs of `campaign` into the store of [`CampaignOptions::cells`]. It writes
/// no results and judges nothing: a cell's seeds may be in several shards. Being cancelled is no
/// error.
///
/// # Errors
/// When there is nothing to run, `part` is not of this campaign with these seeds, no store is
/// named or it cannot be written, and for an engine whose runs are in no store.
pub fn run_shard(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
    part: &Part,
    watch: &Watch<'_>,
) -> Result<ShardDone, Error> {
    let mut options = checked(engine, campaign, options)?;
    let cells = options.cells.as_mut().ok_or_else(no_store)?;
    // There is nothing else that it leaves.
    cells.must_keep = true;
    all_are_kept(engine, campaign, cells)?;
    if part.of != campaign.cells.len() * options.seeds.len() {
        return Err(Error::Refused(format!(
            "the part of {} runs is not of {}",
            part.of, campaign.name
        )));
    }
    let batch = Batch::new(engine, campaign, &options, None, Some(&part.runs), watch);
    batch.work()?;
    batch.note_taken();
    let (state, failed) = batch.into_state();
    Ok(ShardDone {
        done: state.done,
        taken: state.taken,
        failed,
    })
}
