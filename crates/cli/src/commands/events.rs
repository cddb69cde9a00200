//! `narrows list events`: what a run reports.

use narrows::{EVENTS, EventField, EventKind};
use serde_json::{Value, json};

use crate::args::ListFormat;
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

pub fn list(format: ListFormat) -> Outcome {
    match format {
        ListFormat::Text => {
            let texts: Vec<_> = EVENTS.iter().map(text).collect();
            print(&texts.join("\n"));
        }
        ListFormat::Markdown => print(&page()),
        ListFormat::Json => print_json(&EVENTS.iter().map(as_json).collect()),
    }
    Ok(Status::Done)
}

fn text(event: &EventKind) -> String {
    let mut text = format!("{}, by {}: {}\n", event.name, event.by, event.about);
    for field in event.fields {
        let figures = figures(field).map_or_else(String::new, |f| format!(", {f}"));
        text.push_str(&format!("  {}: {}{figures}\n", field.name, field.shape));
        text.push_str(&format!("      {}\n", field.about));
    }
    text
}

fn as_json(event: &EventKind) -> Value {
    let field = |f: &EventField| {
        json!({
            "name": f.name,
            "type": f.shape,
            "unit": f.reduced.map(|(unit, _)| unit),
            "reduced": f.reduced.map(|(_, reduce)| reduce.word()),
            "about": f.about,
        })
    };
    json!({
        "name": event.name,
        "by": event.by,
        "about": event.about,
        "of_packet": event.of_packet,
        "counted": event.counted,
        "fields": event.fields.iter().map(field).collect::<Vec<_>>(),
    })
}

/// Unit and reduction of a field that comes to figures.
fn figures(field: &EventField) -> Option<String> {
    let (unit, reduce) = field.reduced?;
    Some(match unit {
        "" => reduce.word().to_owned(),
        unit => format!("{} in {unit}", reduce.word()),
    })
}

/// The page of the guide.
fn page() -> String {
    let mut page = "\
# Events

What elements, hosts, flows and applications report while a run goes on, and how that comes to
[metrics](metrics.md) and series: all of it is declared once, in `crates/core/src/event.rs`. Of
a *counter* there are a total and a rate, of a *gauge* least, mean and greatest value, of a
*sample* also percentiles. What is neither is a label. `narrows list events` prints this list.
[Extending Narrows](extending.md#an-event) says how one is added.

| Event | By | What | Fields |
|---|---|---|---|
"
    .to_owned();
    for event in EVENTS {
        let mut fields = Vec::new();
        if event.of_packet {
            fields.push("the packet".to_owned());
        }
        if event.counted {
            fields.push("counter of itself".to_owned());
        }
        for field in event.fields {
            let is = figures(field).unwrap_or_else(|| field.shape.to_owned());
            fields.push(format!("`{}` ({is})", field.name));
        }
        let EventKind {
            name, by, about, ..
        } = event;
        let fields = fields.join(", ");
        page.push_str(&format!("| `{name}` | {by} | {about} | {fields} |\n"));
    }
    page
}
