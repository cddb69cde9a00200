//! Running a campaign, merging one from stores, and what both have in common.

use std::time::Instant as WallInstant;

use narrows_results::campaign::CampaignResult;
use narrows_results::folder::{self, CampaignFolder, Folder, Origin};
use narrows_results::store::Difference;
use narrows_results::{Engine, Error, Output, Watch};
use narrows_scenario::Campaign;
use narrows_units::Duration;

use super::batch::{Batch, FailedRun};
use super::doubts::campaign_verdict;
use super::gather::{collect, write_tables};
use super::stored::{Cells, Use};

/// How a campaign is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignOptions {
    /// Seeds of each cell, the campaign's own if empty; figures are medians
    /// over them.
    pub seeds: Vec<u64>,
    /// Cells at a time; 0 for as many as there are processors. An engine that
    /// measures its machine runs one at a time, whatever this says.
    pub jobs: usize,
    /// Where results go.
    pub output: Output,
    /// Whether series are kept at the scenario's own sampling interval.
    /// Otherwise a cell's series has at most [`THIN_INTERVALS`] points, which
    /// is what a page can show, and a full matrix stays small.
    pub full_series: bool,
    /// What makes it.
    pub origin: Origin,
    /// Where runs are taken from and kept, if anywhere; not those of an engine that measures
    /// its machine.
    pub cells: Option<Cells>,
}

impl Default for CampaignOptions {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            jobs: 0,
            output: Output::Nowhere,
            full_series: false,
            origin: Origin::default(),
            cells: None,
        }
    }
}

impl CampaignOptions {
    /// The seeds of each cell of `campaign`.
    pub fn seeds_of(&self, campaign: &Campaign) -> Vec<u64> {
        match self.seeds.as_slice() {
            [] => campaign.seeds.clone(),
            seeds => seeds.to_vec(),
        }
    }
}

/// Points of a thin series.
pub const THIN_INTERVALS: u64 = 600;

/// A campaign that was merged.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Its results, in which a cell failed that lacks a run.
    pub folder: CampaignFolder,
    /// The runs that are in no store as they were written, cell by cell.
    pub missing: Vec<FailedRun>,
    /// Cells of the same names and seeds that were not taken for them, why, and how many.
    pub near: Vec<(Difference, usize)>,
}

/// Runs all cells of `campaign` with all seeds.
///
/// The first seed's run of each cell is kept in `cells/<cell>/`, of the others
/// their summaries. The folder is readable at any time: `run.json` says
/// `complete: false` until the end. What is written does not depend on the
/// number of jobs. A cell that fails has its reason in
/// [`CellResult::error`](narrows_results::campaign::CellResult::error); the others go on. Being
/// cancelled is no error: the result has the cells that were done. What is in a store of
/// [`CampaignOptions::cells`] is not run again.
///
/// # Errors
/// When there is no cell or no seed, or results cannot be written.
pub fn run_campaign(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
    watch: &Watch<'_>,
) -> Result<CampaignFolder, Error> {
    Ok(complete(engine, campaign, options, watch)?.folder)
}

/// Makes of the stores in [`CampaignOptions::cells`] what [`run_campaign`] would have made; runs
/// nothing and writes to no store. Every file is held against its digest, and where several
/// stores have a run they have to agree.
///
/// # Errors
/// As [`run_campaign`], and for an engine whose runs are in no store. That runs are missing is
/// no error: they are named.
pub fn merge_campaign(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
    watch: &Watch<'_>,
) -> Result<Merged, Error> {
    let mut options = options.clone();
    let Some(cells) = &mut options.cells else {
        return Err(no_store());
    };
    cells.how = Use::Merge;
    complete(engine, campaign, &options, watch)
}

/// `options` with the campaign's own seeds where none are given, if all of it can be run.
pub(super) fn checked(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
) -> Result<CampaignOptions, Error> {
    let options = CampaignOptions {
        seeds: options.seeds_of(campaign),
        ..options.clone()
    };
    if campaign.cells.is_empty() || options.seeds.is_empty() {
        return Err(Error::Refused(
            "nothing to run: the campaign has no cell, or no seed was given".to_owned(),
        ));
    }
    for cell in &campaign.cells {
        let accepted = engine.accepts(&cell.plan);
        accepted.map_err(|error| Error::from(error).in_cell(&cell.name))?;
    }
    Ok(options)
}

/// Refuses a campaign a run of which is not kept in `cells`.
pub(super) fn all_are_kept(
    engine: &dyn Engine,
    campaign: &Campaign,
    cells: &Cells,
) -> Result<(), Error> {
    let has_none = |plan| cells.key(engine, plan, 0, Duration::ZERO).is_none();
    match campaign.cells.iter().find(|cell| has_none(&cell.plan)) {
        Some(cell) => Err(Error::Refused(format!(
            "runs of the engine {} are in no store of cells (the cell {}): they can be neither \
             divided into shards nor merged",
            engine.name(),
            cell.name
        ))),
        None => Ok(()),
    }
}

pub(super) fn no_store() -> Error {
    Error::Refused("no store of cells is named".to_owned())
}

/// Runs or takes everything, and writes the results.
fn complete(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
    watch: &Watch<'_>,
) -> Result<Merged, Error> {
    let options = &checked(engine, campaign, options)?;
    let merged = options.cells.as_ref().filter(|c| c.how == Use::Merge);
    if let Some(cells) = merged {
        all_are_kept(engine, campaign, cells)?;
    }
    let folder = Folder::create(&options.output, &campaign.name)?;
    let mut record = folder::begin_named("campaign", engine, &campaign.name, &options.seeds);
    record.made_by(&options.origin);
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    let started = WallInstant::now();
    let batch = Batch::new(engine, campaign, options, folder.as_ref(), None, watch);
    batch.work()?;
    batch.note_taken();

    let near = match merged {
        Some(cells) => cells.near(batch.keys_of_failed())?,
        None => Vec::new(),
    };
    let (state, missing) = batch.into_state();
    let result: CampaignResult = collect(campaign, &options.seeds, &state.cells);
    record.wall_s = started.elapsed().as_secs_f64();
    record.virtual_s = state.virtual_time.as_secs_f64();
    record.events = state.events;
    record.packets = state.packets;
    record.verdict = campaign_verdict(&result);
    record.complete = result.complete;
    if let Some(folder) = &folder {
        write_tables(folder, &result)?;
        let mut files =
            folder.digest_files(vec!["campaign.json".to_owned(), "cells.csv".to_owned()])?;
        files.extend(state.cells.iter().flatten().filter_map(|c| c.file.clone()));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        record.digest = folder::digest_of(&files);
        record.files = files;
        folder.write_record(&record)?;
    }
    Ok(Merged {
        folder: CampaignFolder {
            dir: folder.map(|f| f.dir().to_path_buf()).unwrap_or_default(),
            record,
            result,
        },
        missing,
        near,
    })
}
