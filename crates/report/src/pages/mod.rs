//! The pages: `report.html` of a run, that of a campaign or of a collection of them, and
//! `compare.html` of a comparison.
//!
//! The page of a single run is one file that needs no network. A campaign's
//! folder has a page, a page per cell, and one copy of the charts' script
//! ([`script::SHARED`]) that all of them name. Without script every page still
//! has its figures, drawn once and for all; with it they can be zoomed and
//! read off. The same data give the same page, byte for byte.

mod campaign;
mod collection;
mod command;
mod comparison;
mod crowd;
mod findings;
mod heatmap;
mod interactive;
mod network;
mod page;
mod pairs;
mod rig;
mod run;
#[cfg(test)]
pub(crate) mod samples;
pub mod script;
mod split;
#[cfg(test)]
mod tests;
mod topology;

use std::path::{Path, PathBuf};

use narrows_files::write_whole;
use narrows_results::Error;
use narrows_results::collection::CollectionFolder;
use narrows_results::folder::{
    CampaignFolder, ComparisonFolder, Results, RunRecord, RunResult, open, open_run,
};

pub use page::Library;
pub use run::RunPage;

/// The page's name in every results folder.
pub const FILE: &str = "report.html";

/// The name of a comparison's page in its folder.
pub const COMPARISON_FILE: &str = "compare.html";

/// The page of a run as text.
pub fn run_html(run: &RunResult, about: &RunPage) -> String {
    run::html(run, about)
}

/// The page of a campaign as text.
pub fn campaign_html(folder: &CampaignFolder, library: &Library) -> String {
    campaign::html(folder, library)
}

/// Writes `report.html` of a run into `dir`.
pub fn write_run(dir: &Path, run: &RunResult, about: &RunPage) -> Result<PathBuf, Error> {
    write(&dir.join(FILE), &run::html(run, about))
}

/// What the page of a campaign's cell needs, whose folder is `folder` below
/// the campaign's: the shared script, the way back, and how to repeat it, as
/// `made` made the campaign.
pub fn cell_page(campaign: &str, made: &[String], cell: &str, folder: &str) -> RunPage {
    let depth = folder.split('/').filter(|part| !part.is_empty()).count();
    let up = "../".repeat(depth);
    RunPage {
        library: Library::Shared(format!("{up}{}", script::SHARED)),
        command: Some(command::line(&command::of_cell(made, campaign, cell))),
        within: Some((campaign.to_owned(), format!("{up}{FILE}"))),
    }
}

/// Writes `report.html` of a campaign and the script that its pages share.
/// The pages of cells are written with their runs, see [`cell_page`].
pub fn write_campaign(dir: &Path, folder: &CampaignFolder) -> Result<PathBuf, Error> {
    write(&dir.join(script::SHARED), &script::library())?;
    let library = Library::Shared(script::SHARED.to_owned());
    write(&dir.join(FILE), &campaign::html(folder, &library))
}

/// Writes `report.html` of a collection; its campaigns have their own.
pub fn write_collection(folder: &CollectionFolder) -> Result<PathBuf, Error> {
    write(&folder.dir.join(FILE), &collection::html(folder))
}

/// Writes `compare.html` of a comparison, the pages of its runs, and the script
/// that all of them share. Runs whose folders are gone are left out.
pub fn write_comparison(folder: &ComparisonFolder) -> Result<PathBuf, Error> {
    let dir = &folder.dir;
    write(&dir.join(script::SHARED), &script::library())?;
    let cells = comparison::read(folder, |cell, at, run| {
        let page = cell_page(&folder.result.name, &folder.record.command, cell, at);
        let depth = at.split('/').filter(|part| !part.is_empty()).count();
        let back = format!("{}{COMPARISON_FILE}", "../".repeat(depth));
        let page = RunPage {
            within: page.within.map(|(name, _)| (name, back)),
            // Half of a pair cannot be run by itself.
            command: match folder.result.is_paired() {
                true => Some(comparison::made_by(folder)),
                false => page.command,
            },
            ..page
        };
        write_run(&dir.join(at), run, &page).map(drop)
    })?;
    let library = Library::Shared(script::SHARED.to_owned());
    let page = comparison::html(folder, &cells, &library);
    write(&dir.join(COMPARISON_FILE), &page)
}

/// Writes the page of a results folder again: of a run, of a campaign or a comparison and each
/// of its runs, or of a collection and each of its campaigns. Returns the page to start from, and what ran.
///
/// # Errors
/// When `dir` is no results folder, or a page cannot be written.
pub fn again(dir: &Path) -> Result<(PathBuf, RunRecord), Error> {
    let results = open(dir)?;
    let page = match &results {
        Results::Run(run) => write_run(dir, run, &RunPage::default()),
        Results::Campaign(folder) => write_cells(dir, folder),
        Results::Comparison(folder) => write_comparison(folder),
        Results::Collection(folder) => {
            for (at, campaign) in &folder.campaigns {
                write_cells(&dir.join(at), campaign)?;
            }
            write_collection(folder)
        }
    };
    Ok((page?, results.record().clone()))
}

/// Writes the pages of a campaign's cells and then its own.
fn write_cells(dir: &Path, folder: &CampaignFolder) -> Result<PathBuf, Error> {
    for cell in &folder.result.cells {
        let at = dir.join(&cell.folder);
        if !cell.folder.is_empty() && at.is_dir() {
            let made = &folder.record.command;
            let page = cell_page(&folder.result.name, made, &cell.name, &cell.folder);
            write_run(&at, &open_run(&at)?, &page)?;
        }
    }
    write_campaign(dir, folder)
}

fn write(path: &Path, text: &str) -> Result<PathBuf, Error> {
    if let Some(folder) = path.parent() {
        narrows_files::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    write_whole(path, text.as_bytes())?;
    Ok(path.to_owned())
}
