//! What a campaign is about: which of its metrics are drawn, and against which
//! axes.

use narrows_results::Error;
use narrows_results::campaign::{CampaignResult, CellResult, FigureResult, numbers};

/// Lines in one drawing of a figure that no file asks for.
const LINES: usize = 6;

/// Metrics that have figures where no file asks for any.
const METRICS: usize = 4;

/// The figures that the campaign's file asks for; without any, one of each metric
/// that is judged, or of the first few.
pub(crate) fn figures(campaign: &CampaignResult) -> Vec<FigureResult> {
    if !campaign.figures.is_empty() {
        return campaign.figures.clone();
    }
    let judged = |m: &&String| campaign.checks.iter().any(|c| c.metric == **m);
    let mut metrics: Vec<&String> = campaign.metrics.iter().filter(judged).collect();
    if metrics.is_empty() {
        metrics = campaign.metrics.iter().collect();
    }
    let of = |metric: &&String| over(campaign, vec![(*metric).clone()], None, &[]);
    metrics.iter().take(METRICS).filter_map(of).collect()
}

/// A figure of `metrics` against the axis `x`, whose lines are the values of the
/// axes `by`; what is not said is chosen: the axis with most values goes across,
/// the next one makes the lines. `None` if no axis has several values.
fn over(
    campaign: &CampaignResult,
    metrics: Vec<String>,
    x: Option<&str>,
    by: &[String],
) -> Option<FigureResult> {
    let cells: Vec<&CellResult> = campaign.cells.iter().collect();
    let mut axes: Vec<AxisInUse<'_>> = campaign
        .axes
        .iter()
        .enumerate()
        .map(|(place, axis)| {
            let values = values_of(campaign, place, &cells);
            AxisInUse {
                place,
                name: &axis.name,
                values: values.len(),
                numbers: values.len() > 2 && numbers(&values).is_some(),
            }
        })
        .filter(|axis| axis.values > 1)
        .collect();
    // Numbers make the better scale; of two alike the one that runs faster.
    axes.sort_by_key(|axis| std::cmp::Reverse((axis.numbers, axis.values, axis.place)));
    let taken = |axis: &AxisInUse<'_>| by.iter().any(|b| b == axis.name);
    let across = match x {
        Some(x) => x,
        None => axes.iter().find(|axis| !taken(axis))?.name,
    };
    axes.retain(|axis| axis.name != across && !taken(axis));
    let mut by = by.to_vec();
    if by.is_empty() {
        let fits = |axis: &AxisInUse<'_>| axis.values * metrics.len() <= LINES;
        if let Some(line) = axes.iter().position(fits) {
            by.push(axes.remove(line).name.to_owned());
        }
    }
    axes.sort_by_key(|axis| axis.place);
    Some(FigureResult {
        title: None,
        metrics,
        x: across.to_owned(),
        by,
        panels: axes.iter().map(|axis| axis.name.to_owned()).collect(),
        cells: None,
    })
}

/// An axis that has several values in the cells that were run.
struct AxisInUse<'a> {
    place: usize,
    name: &'a str,
    values: usize,
    /// Whether at least three of them are numbers of one kind.
    numbers: bool,
}

/// The metrics that the figures of a campaign are about, each once; the first one
/// of all where there is no figure.
pub(crate) fn shown_metrics(campaign: &CampaignResult) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for metric in figures(campaign).into_iter().flat_map(|f| f.metrics) {
        if !shown.contains(&metric) {
            shown.push(metric);
        }
    }
    if shown.is_empty() {
        shown.extend(campaign.metrics.first().cloned());
    }
    shown
}

/// A figure that was asked for by names.
///
/// # Errors
/// When the campaign has no such metric or axis, or its axes have one value each.
pub(crate) fn asked(
    campaign: &CampaignResult,
    metrics: &[String],
    x: Option<&str>,
    by: &[String],
) -> Result<FigureResult, Error> {
    let known = |what: &str, name: &str, names: &[&str]| match names.contains(&name) {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "{} has no {what} {name:?}; there are {}",
            campaign.name,
            names.join(", ")
        ))),
    };
    let of_metrics: Vec<&str> = campaign.metrics.iter().map(String::as_str).collect();
    let of_axes: Vec<&str> = campaign.axes.iter().map(|a| a.name.as_str()).collect();
    for metric in metrics {
        known("metric", metric, &of_metrics)?;
    }
    for axis in x.into_iter().chain(by.iter().map(String::as_str)) {
        known("axis", axis, &of_axes)?;
    }
    if let Some(x) = x.filter(|x| by.iter().any(|b| b == x)) {
        let why = format!("the axis {x} can go across or make lines, not both");
        return Err(Error::Refused(why));
    }
    over(campaign, metrics.to_vec(), x, by).ok_or_else(|| {
        let why = "there is nothing to draw against: no axis has several values in these cells";
        Error::Refused(why.to_owned())
    })
}

/// Values of the axis at that place which occur in `cells`, in the axis's order.
pub(crate) fn values_of(
    campaign: &CampaignResult,
    place: usize,
    cells: &[&CellResult],
) -> Vec<String> {
    let occurs = |value: &&String| cells.iter().any(|c| c.at.get(place) == Some(*value));
    let values = campaign.axes.get(place).map(|a| a.values.iter());
    values
        .into_iter()
        .flatten()
        .filter(occurs)
        .cloned()
        .collect()
}
