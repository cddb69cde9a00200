//! The result of a campaign, from those of its cells.

use narrows_results::Error;
use narrows_results::campaign::{
    AxisResult, CampaignResult, CellResult, FigureResult, MetricTitle, cells_csv,
};
use narrows_results::folder::Folder;
use narrows_scenario::Campaign;

use super::batch::CellDone;
use super::judge::{checks, key_findings};

/// What the campaign came to by the cells that were run.
pub(super) fn collect(
    campaign: &Campaign,
    seeds: &[u64],
    cells: &[Option<CellDone>],
) -> CampaignResult {
    let done: Vec<CellResult> = cells.iter().flatten().map(|c| c.result.clone()).collect();
    let axes = campaign
        .axes
        .iter()
        .map(|axis| AxisResult {
            name: axis.name.clone(),
            values: axis.values.clone(),
        })
        .collect();
    CampaignResult {
        name: campaign.name.clone(),
        title: campaign.title.clone(),
        source: campaign.source.clone(),
        seeds: seeds.to_vec(),
        axes,
        metrics: campaign.metrics.iter().map(|m| m.name.clone()).collect(),
        titles: campaign.metrics.iter().map(MetricTitle::of).collect(),
        figures: campaign
            .figures
            .iter()
            .map(|f| figure(campaign, f))
            .collect(),
        key_findings: key_findings(campaign, &done),
        checks: checks(campaign, &done),
        planned: campaign.cells.len(),
        complete: done.len() == campaign.cells.len(),
        cells: done,
    }
}

/// A figure with the names of what it draws.
fn figure(campaign: &Campaign, figure: &narrows_scenario::Figure) -> FigureResult {
    let axis = |place: &usize| campaign.axes[*place].name.clone();
    let metric = |place: &usize| campaign.metrics[*place].name.clone();
    FigureResult {
        title: figure.title.clone(),
        metrics: figure.metrics.iter().map(metric).collect(),
        x: axis(&figure.x),
        by: figure.by.iter().map(axis).collect(),
        panels: figure.panels.iter().map(axis).collect(),
        cells: figure.cells.clone(),
    }
}

/// Writes it into its folder.
pub(super) fn write_tables(folder: &Folder, result: &CampaignResult) -> Result<(), Error> {
    folder.write_file("cells.csv", cells_csv(result).as_bytes())?;
    folder.write_json("campaign.json", result)
}
