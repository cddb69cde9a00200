//! `narrows list` and `narrows show`.

use narrows::scenario::{Campaign, Cell, FileKind, Loaded, Plan, Refusal, catalog, load};
use narrows::{Engine, Error, SimEngine};
use serde_json::{Value, json};

use super::{events, metrics, words};
use crate::args::{Format, List, ListFormat, Show};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

/// An entry of the catalogue, as far as a list shows it.
struct Line {
    name: &'static str,
    kind: &'static str,
    title: String,
    source: String,
}

pub fn list(args: &List) -> Outcome {
    match args.what.as_deref() {
        Some("events") => return events::list(args.format),
        Some("metrics") => return metrics::list(args.format),
        _ => {}
    }
    if let Some(kinds) = args.what.as_deref().and_then(words::listed) {
        return words::list(kinds, args.format);
    }
    if args.format == ListFormat::Markdown {
        let allowed = "`text` or `json`; of `metrics`, `events`, `queues`, `elements`, `apps` and `tests` also `markdown`";
        return Err(Refusal::new("--format", "`markdown`", allowed).into());
    }
    let prefix = args.what.as_deref().unwrap_or_default();
    let mut lines = Vec::new();
    for entry in catalog::entries().filter(|e| e.name.starts_with(prefix)) {
        let heading = Loaded::from(entry).heading()?;
        let title = heading.title.unwrap_or_default();
        let parts = heading.parts;
        let (kind, title) = match heading.kind {
            FileKind::Campaign => ("campaign", format!("{title} ({parts} cells)")),
            FileKind::Collection => ("collection", format!("{title} ({parts} campaigns)")),
            FileKind::Scenario => ("scenario", title),
        };
        lines.push(Line {
            name: entry.name,
            kind,
            title,
            source: heading.source.unwrap_or_default(),
        });
    }
    if lines.is_empty() {
        let found = format!("`{prefix}`, with which no name begins");
        let allowed = "`metrics`, `events`, `queues`, `elements`, `apps`, or the beginning of a name in the catalogue";
        let refusal = Refusal::new("", found, allowed);
        return Err(refusal.with_help("`narrows list` shows all names").into());
    }
    match args.format {
        ListFormat::Json => {
            let all = lines.iter().map(
                |l| json!({ "name": l.name, "kind": l.kind, "title": l.title, "source": l.source }),
            );
            print_json(&all.collect());
        }
        ListFormat::Text | ListFormat::Markdown => {
            let widest = lines.iter().map(|l| l.name.len()).max().unwrap_or(0);
            let rows = lines
                .iter()
                .map(|l| format!("{:<widest$}  {:<10}  {}\n", l.name, l.kind, l.title));
            print(&rows.collect::<String>());
        }
    }
    Ok(Status::Done)
}

pub fn show(args: &Show) -> Outcome {
    if let Some(which) = &args.which {
        return words::show(&args.name, which, args.format);
    }
    let loaded = load(&args.name)?;
    let (mut text, as_json, refused) = match loaded.kind()? {
        FileKind::Campaign => {
            let campaign = loaded.campaign(&args.sets)?;
            let of = |cell: &Cell| Some(refused(&cell.plan)?.in_cell(&cell.name));
            let refused = campaign.cells.iter().find_map(of);
            (of_campaign(&campaign), json_of_campaign(&campaign), refused)
        }
        FileKind::Collection => {
            let collection = loaded.collection()?;
            let (title, source) = (collection.title.as_ref(), collection.source.as_ref());
            let text = head(&collection.name, title, source);
            let campaigns = collection.campaigns.iter();
            let lines: String = campaigns.map(|name| format!("campaign {name}\n")).collect();
            let as_json = json!({
                "kind": "collection",
                "name": collection.name,
                "title": collection.title,
                "source": collection.source,
                "campaigns": collection.campaigns,
            });
            (format!("{text}{lines}"), as_json, None)
        }
        FileKind::Scenario => {
            let mut draft = loaded.draft()?;
            for set in &args.sets {
                draft.set(set)?;
            }
            let plan = draft.check()?;
            let as_json = json!({ "kind": "scenario", "plan": plan });
            (of_plan(&plan), as_json, refused(&plan))
        }
    };
    match args.format {
        Format::Text => {
            text.push_str(&format!("\n---- {} ----\n{}", loaded.name, loaded.text()));
            print(&text);
        }
        Format::Json => print_json(&as_json),
    }
    // As `narrows run` and `narrows campaign` do without `--engine`.
    match refused {
        Some(why) => Err(why.into()),
        None => Ok(Status::Done),
    }
}

/// Why the simulator does not run `plan`.
fn refused(plan: &Plan) -> Option<Error> {
    SimEngine.accepts(plan).err().map(Error::from)
}

fn head(name: &str, title: Option<&String>, source: Option<&String>) -> String {
    let mut text = match title {
        Some(title) => format!("{name}: {title}\n"),
        None => format!("{name}\n"),
    };
    if let Some(source) = source {
        text.push_str(&format!("source: {source}\n"));
    }
    text
}

fn json_of_campaign(campaign: &Campaign) -> Value {
    let axes = campaign.axes.iter();
    let axes = axes.map(|axis| json!({ "name": axis.name, "values": axis.values }));
    let cells = campaign.cells.iter();
    let cells = cells.map(|cell| json!({ "name": cell.name, "plan": cell.plan }));
    json!({
        "kind": "campaign",
        "name": campaign.name,
        "title": campaign.title,
        "source": campaign.source,
        "seeds": campaign.seeds,
        "axes": axes.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
    })
}

fn of_plan(plan: &Plan) -> String {
    let head = head(&plan.name, plan.title.as_ref(), plan.source.as_ref());
    format!(
        "{head}runs {}, measured {}, seed {}\n\n{}",
        plan.duration,
        plan.measure,
        plan.seed,
        plan.drawing()
    )
}

fn of_campaign(campaign: &Campaign) -> String {
    let mut text = head(
        &campaign.name,
        campaign.title.as_ref(),
        campaign.source.as_ref(),
    );
    let published = campaign.cells.iter();
    let published = published.filter(|c| c.published.iter().any(Option::is_some));
    text.push_str(&format!(
        "{} cells, {} with published figures\n\n",
        campaign.cells.len(),
        published.count()
    ));
    for axis in &campaign.axes {
        text.push_str(&format!("axis {}: {}\n", axis.name, axis.values.join(", ")));
    }
    for tolerance in &campaign.tolerances {
        let (least, of) = tolerance.at_least;
        text.push_str(&format!(
            "asked: {}: {} within {} in at least {least} of {of}\n",
            tolerance.name,
            campaign.metrics[tolerance.metric].name,
            tolerance.bands_in_words()
        ));
    }
    if let Some(cell) = campaign.cells.first() {
        text.push_str(&format!(
            "\nthe cell {}: {}, measured {}\n\n{}",
            cell.name,
            cell.plan.duration,
            cell.plan.measure,
            cell.plan.drawing()
        ));
    }
    text
}
