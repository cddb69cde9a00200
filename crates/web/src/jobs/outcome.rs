//! What a job came to.

use std::path::Path;

use narrows::report::pages::{COMPARISON_FILE, FILE};
use narrows::report::table::{campaign_table, comparison_table, run_table};
use narrows::results::RunResult;
use narrows::results::comparison::Comparison;
use narrows::results::folder::CampaignFolder;
use narrows::results::verdict::{Verdict, Weight};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What a job came to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Outcome {
    /// The name of its folder among the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// The digest of its data, as `run.json` has it.
    digest: String,
    /// Whether the figures can be trusted.
    trust: bool,
    /// Why not, and what to know besides, a line each.
    verdict: Vec<String>,
    /// What was measured: of a run its flows and queues as `summary.json` has them, of a campaign
    /// its cells, of a comparison its cells.
    #[schemars(with = "Vec<Value>")]
    table: Vec<Value>,
    /// The same as text, as the command line prints it.
    text: String,
    /// The address of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

fn name(dir: Option<&Path>) -> Option<String> {
    Some(dir?.file_name()?.to_string_lossy().into_owned())
}

fn lines(verdict: &Verdict) -> Vec<String> {
    let notes = verdict.grouped(Weight::Note).into_iter();
    let notes = notes.map(|group| format!("note: {}", group.line));
    std::iter::once(verdict.line()).chain(notes).collect()
}

/// As JSON, without the distributions, which the page of results draws.
fn row(of: &impl Serialize) -> Value {
    let mut row = serde_json::to_value(of).unwrap_or_default();
    if let Value::Object(row) = &mut row {
        row.retain(|key, _| !key.ends_with("_cdf"));
    }
    row
}

impl Outcome {
    pub(super) fn of_run(run: &RunResult, pages: &str) -> Self {
        let dir = run.dir.as_deref();
        let summary = &run.summary;
        let flows = summary.flows.iter().map(row);
        let queues = summary.queues.iter().map(row);
        let probes = summary.probes.iter().map(row);
        let sources = summary.sources.iter().map(row);
        Self {
            folder: name(dir),
            digest: run.record.digest.clone(),
            trust: run.record.verdict.trusted(),
            verdict: lines(&run.record.verdict),
            table: flows.chain(queues).chain(probes).chain(sources).collect(),
            text: run_table(run),
            report: page(pages, dir, FILE),
        }
    }

    pub(super) fn of_campaign(folder: &CampaignFolder, pages: &str) -> Self {
        let result = &folder.result;
        Self {
            folder: name(Some(&folder.dir)),
            digest: folder.record.digest.clone(),
            trust: folder.record.verdict.trusted(),
            verdict: lines(&folder.record.verdict),
            table: result.cells.iter().map(row).collect(),
            text: campaign_table(result, None),
            report: page(pages, Some(&folder.dir), FILE),
        }
    }

    pub(super) fn of_comparison(found: &Comparison, dir: Option<&Path>, pages: &str) -> Self {
        let verdict = found.verdict();
        Self {
            folder: name(dir),
            digest: String::new(),
            trust: verdict.trusted(),
            verdict: lines(&verdict),
            table: found.cells.iter().map(row).collect(),
            text: comparison_table(found),
            report: page(pages, dir, COMPARISON_FILE),
        }
    }
}

/// The page's address below `pages`, if it is there.
fn page(pages: &str, dir: Option<&Path>, file: &str) -> Option<String> {
    let dir = dir?;
    let there = dir.join(file).is_file();
    there.then(|| {
        format!(
            "{pages}/{}/{file}",
            dir.file_name().unwrap_or_default().to_string_lossy()
        )
    })
}
