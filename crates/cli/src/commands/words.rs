//! `narrows list queues`, `narrows list elements`, `narrows list apps`, `narrows list tests`, and
//! `narrows show` of a queue, an element, an application or a test by its name: what may be written, as each kind declares
//! it.

use narrows::scenario::{APP_KINDS, ELEMENT_KINDS, FLENT_TESTS, QUEUE_KINDS, Refusal};
use narrows::units::{Declared, Parameter, alternatives};
use serde_json::{Value, json};

use crate::args::{Format, ListFormat};
use crate::output::{print, print_json};
use crate::status::{Outcome, Status};

/// What `narrows list` calls them all, what `narrows show` calls one, and all of them.
const LISTS: [(&str, &str, &[Declared]); 4] = [
    ("apps", "app", APP_KINDS),
    ("elements", "element", ELEMENT_KINDS),
    ("queues", "queue", QUEUE_KINDS),
    ("tests", "test", FLENT_TESTS),
];

/// All that `what` means, `queues`, `elements`, `apps` or `tests`.
pub fn listed(what: &str) -> Option<&'static [Declared]> {
    let list = LISTS.iter().find(|(all, ..)| *all == what);
    list.map(|(.., kinds)| *kinds)
}

/// The names after `narrows show KIND`; none of what is no kind.
pub fn names(kind: &str) -> impl Iterator<Item = &'static str> {
    let list = LISTS.iter().filter(move |(_, one, _)| *one == kind);
    list.flat_map(|(.., kinds)| kinds.iter().map(|d| d.name))
}

pub fn list(kinds: &[Declared], format: ListFormat) -> Outcome {
    match format {
        ListFormat::Text => {
            let texts: Vec<_> = kinds.iter().map(text).collect();
            print(&texts.join("\n"));
        }
        ListFormat::Markdown => print(&markdown(kinds)),
        ListFormat::Json => print_json(&kinds.iter().map(as_json).collect()),
    }
    Ok(Status::Done)
}

pub fn show(kind: &str, name: &str, format: Format) -> Outcome {
    let list = LISTS.iter().find(|(_, one, _)| *one == kind);
    let Some((.., kinds)) = list else {
        let allowed = alternatives(&LISTS.map(|(_, one, _)| one));
        return Err(Refusal::new("", format!("`{kind}` before `{name}`"), allowed).into());
    };
    let Some(declared) = kinds.iter().find(|d| d.name == name) else {
        let names: Vec<_> = names(kind).collect();
        let refusal = Refusal::new("", format!("the {kind} `{name}`"), alternatives(&names));
        return Err(refusal.into());
    };
    match format {
        Format::Text => print(&text(declared)),
        Format::Json => print_json(&as_json(declared)),
    }
    Ok(Status::Done)
}

fn text(declared: &Declared) -> String {
    let mut text = format!("{}: {}\n", declared.name, declared.about);
    for p in declared.parameters {
        text.push_str(&format!("  {}\n      {}\n", p.usage, p.about));
        let said = [("takes", p.allowed), ("default", p.default)];
        for (what, value) in said.iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("      {what}: {value}\n"));
        }
    }
    text
}

fn as_json(declared: &Declared) -> Value {
    let parameter = |p: &Parameter| {
        json!({
            "words": p.usage,
            "kind": p.kind.to_string(),
            "unit": p.kind.unit(),
            "range": p.allowed,
            "default": p.default,
            "about": p.about,
        })
    };
    let parameters: Vec<_> = declared.parameters.iter().map(parameter).collect();
    json!({ "name": declared.name, "about": declared.about, "parameters": parameters })
}

/// The tables of the guide.
fn markdown(kinds: &[Declared]) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut page = String::new();
    for declared in kinds {
        page.push_str(&format!(
            "### `{}`\n\n{}\n\n",
            declared.name, declared.about
        ));
        if declared.parameters.is_empty() {
            page.push_str("It has no parameters.\n\n");
            continue;
        }
        page.push_str("| Words | Meaning | Takes | Default |\n|---|---|---|---|\n");
        for p in declared.parameters {
            let (words, about) = (cell(p.usage), cell(p.about));
            let default = match p.default {
                "" => "must be given",
                default => default,
            };
            page.push_str(&format!(
                "| `{words}` | {about} | {} | {} |\n",
                cell(p.allowed),
                cell(default)
            ));
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}
