//! `narrows list metrics`: what campaigns can measure.

use narrows::scenario::metrics::{KINDS, MetricEntry, words};
use serde_json::json;

use crate::args::ListFormat;
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

pub fn list(format: ListFormat) -> Outcome {
    match format {
        ListFormat::Text => print(&text()),
        ListFormat::Markdown => print(&page()),
        ListFormat::Json => {
            let entry =
                |m: &MetricEntry| json!({ "name": m.name, "unit": m.unit, "about": m.about });
            let kinds = KINDS.iter().map(|kind| {
                let metrics: Vec<_> = kind.metrics.iter().map(entry).collect();
                json!({ "entity": kind.entity, "about": kind.about, "metrics": metrics })
            });
            let words = words()
                .into_iter()
                .map(|w| (w.word.to_owned(), w.choices.into()));
            print_json(&json!({
                "kinds": kinds.collect::<Vec<_>>(),
                "words": words.collect::<serde_json::Map<String, _>>(),
            }));
        }
    }
    Ok(Status::Done)
}

/// A paragraph for each kind of entity.
fn text() -> String {
    let mut text = String::new();
    for kind in &KINDS {
        text.push_str(&format!("{}: {}\n", kind.entity, kind.about));
        for m in kind.metrics {
            let unit = match m.unit {
                "" => String::new(),
                unit => format!("  [{unit}]"),
            };
            text.push_str(&format!("  {}{unit}\n      {}\n", m.name, m.about));
        }
        text.push('\n');
    }
    text.push_str("{n} is the number of a flow, from 1; {a,b} is a or b; and\n");
    for w in words() {
        text.push_str(&format!("  {{{}}}: {}\n", w.word, w.choices.join(", ")));
    }
    text
}

/// The page of the guide.
fn page() -> String {
    let mut page = "\
# Metrics

What a [campaign](campaigns.md#writing-one) can measure in each cell, what `narrows
diff` compares, and what `summary.csv` holds. `narrows list metrics` prints this list,
and a name that is not in it is refused. In a campaign:

```toml
[metric]
prague_mbit = \"goodput_mbit of flow/prague\"
cubic_mbit  = \"goodput_mbit of flow/cubic\"
share_pct   = \"100 * prague_mbit / (prague_mbit + cubic_mbit)\"
wait_ms     = \"sojourn_ms.p99 of link/access/up/bottleneck\"
```

`summary.csv` has the same names, and tables print `METRIC of ENTITY`. `{a,b}` stands for `a` or `b`. Without
`[metric]` a campaign measures each flow's goodput and median round trip, its completion
time if it has an end, the 99th percentile of each application's samples, each probe's median
round trip, the time that 99 of 100 packets waited at most in each queue on the way of data, and Jain's index.
"
    .to_owned();
    for kind in &KINDS {
        let names: Vec<String> = kind.entity.split(", ").map(|e| format!("`{e}`")).collect();
        page.push_str(&format!("\n## {}\n\n", heading(kind.about)));
        page.push_str(&format!("{}: {}.\n\n", names.join(" or "), kind.about));
        page.push_str("| Metric | Unit | Says |\n|---|---|---|\n");
        for m in kind.metrics {
            page.push_str(&format!("| `{}` | {} | {} |\n", m.name, m.unit, m.about));
        }
    }
    page.push_str(
        "\nIn the names of a flow's, a queue's, an application's and an observer's metrics\n\n",
    );
    for w in words() {
        let choices: Vec<String> = w.choices.iter().map(|c| format!("`{c}`")).collect();
        page.push_str(&format!(
            "- `{{{}}}` is one of {}.\n",
            w.word,
            choices.join(", ")
        ));
    }
    page.push_str(
        "\nWhich technique gives which quantity, and what they mean: \
         [Observing](observe.md#what-is-observed).\n",
    );
    page
}

/// The text before the first comma or semicolon, with a capital letter.
fn heading(about: &str) -> String {
    let first = about
        .split([',', ';', ':', '('])
        .next()
        .unwrap_or_default()
        .trim_end();
    let mut letters = first.chars();
    match letters.next() {
        Some(letter) => letter.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
