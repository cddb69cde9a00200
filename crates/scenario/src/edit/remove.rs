//! Taking out a table or an element, and with it what is about nothing else.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, Item, Table, Value};

use super::{EditError, is_end, missing, position, scenario, tables};
use crate::check::{Labels, ONLY_LINK};
use crate::parts::ElementSpec;
use crate::tree::split_label;

/// Keys that name a host, without which their table is about nothing.
const HOSTS: [&str; 5] = ["ends", "from", "to", "opens", "host"];

/// Takes out the table called `name`; what else went with it, in words.
pub(super) fn table(
    document: &mut DocumentMut,
    kind: &str,
    name: &str,
) -> Result<Vec<String>, EditError> {
    let root = scenario(document);
    let is_host = ["host", "router"].contains(&kind);
    let mut gone = Gone::of(root);
    match tables(root, kind).and_then(|tables| position(tables, kind, name)) {
        Some(at) => {
            if let Some(Item::ArrayOfTables(tables)) = root.get_mut(kind) {
                if let Some(table) = tables.get(at) {
                    gone.add(kind, table, name);
                }
                tables.remove(at);
            }
        }
        None if is_host && is_end(root, name) => {
            gone.names.insert(("host".to_owned(), name.to_owned()));
        }
        None => return Err(missing(kind, name)),
    }
    Ok(gone.sweep(document))
}

/// What was about the elements of a link that are `before` and no longer `after`: goes, too, or
/// follows where an element without a name is now called otherwise.
pub(super) fn elements(
    document: &mut DocumentMut,
    before: &[Vec<String>; 2],
    after: &[Vec<String>; 2],
    index: usize,
) -> Vec<String> {
    let mut gone = Gone::of(scenario(document));
    let alone = gone.alone;
    let mut renamed = BTreeMap::new();
    for (before, now) in before.iter().zip(after) {
        let mut others = before.clone();
        if others.len() > now.len() && index < others.len() {
            gone.elements.insert(others.remove(index));
        }
        renamed.extend(others.into_iter().zip(now.iter().cloned()));
    }
    // A box that acts in both directions may still be in the list of the other one.
    gone.elements.retain(|name| {
        !after.iter().flatten().any(|now| now == name) || renamed.get(name) != Some(name)
    });
    let along = gone.sweep(document);
    let root = scenario(document);
    if let Some(Item::ArrayOfTables(changes)) = root.get_mut("change") {
        for change in changes.iter_mut() {
            let target = change.get_mut("target").and_then(Item::as_value_mut);
            let Some(target) = target else { continue };
            let full = target
                .as_str()
                .map(|name| full_name(name, alone.then_some(before)));
            if let Some(new) = full.and_then(|full| renamed.get(&full).filter(|new| **new != full))
            {
                let decor = target.decor().clone();
                *target = Value::from(new.as_str());
                *target.decor_mut() = decor;
            }
        }
    }
    along
}

/// The full name of an element, that may leave out the only link's, which has the elements `of`.
fn full_name(name: &str, of: Option<&[Vec<String>; 2]>) -> String {
    let mut names = of.into_iter().flatten().flatten();
    let full = names.find(|full| is_short(full, name));
    full.map_or_else(|| name.to_owned(), String::clone)
}

/// Whether `name` is the full name of an element without that of its link.
fn is_short(full: &str, name: &str) -> bool {
    let mut parts = full.split('/').skip(2);
    match (parts.next(), parts.next()) {
        (Some(direction), Some(element)) => name == format!("link/{direction}/{element}"),
        _ => false,
    }
}

/// The full names of a link's elements, up and down, as a check gives them.
pub(super) fn names(link: &Table) -> [Vec<String>; 2] {
    let own = link.get("name").and_then(Item::as_str);
    let own = own.unwrap_or(ONLY_LINK);
    ["up", "down"].map(|direction| {
        let mut labels = Labels::default();
        let given = link.get(direction);
        let list = given.and_then(Item::as_array).into_iter().flatten();
        let single = given.and_then(Item::as_str);
        let words = list.map(|value| value.as_str().unwrap_or_default());
        let named = words.chain(single).map(|text| {
            let (label, at) = split_label(text);
            let words = text[at..].trim();
            let spec = ElementSpec::parse(words).ok();
            let facts = spec.as_ref().map(ElementSpec::facts);
            if let Some(tap) = facts.as_ref().and_then(|facts| facts.tap) {
                return format!("tap/{tap}");
            }
            let kind = words.split_whitespace().next().unwrap_or("element");
            let label = labels.next(label, kind).unwrap_or_else(|taken| taken);
            match facts.is_some_and(|facts| facts.two_way) {
                true => format!("link/{own}/{label}"),
                false => format!("link/{own}/{direction}/{label}"),
            }
        });
        named.collect()
    })
}

/// What is no longer there.
#[derive(Default)]
struct Gone {
    /// Kinds and names of tables; hosts and routers are of the kind `host`.
    names: BTreeSet<(String, String)>,
    /// Full names of elements.
    elements: BTreeSet<String>,
    /// Whether there was one link alone, whose elements may be called without its name.
    alone: bool,
}

impl Gone {
    /// Nothing yet, of a scenario.
    fn of(root: &Table) -> Self {
        Self {
            alone: tables(root, "link").is_some_and(|links| links.len() == 1),
            ..Self::default()
        }
    }

    /// Adds a table that is taken out.
    fn add(&mut self, kind: &str, table: &Table, name: &str) {
        let kind = match kind {
            "router" => "host",
            kind => kind,
        };
        self.names.insert((kind.to_owned(), name.to_owned()));
        if kind == "link" {
            self.elements.extend(names(table).into_iter().flatten());
        }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        self.names.contains(&(kind.to_owned(), name.to_owned()))
    }

    /// Takes out what is about nothing else, until nothing is; what that was, in words.
    fn sweep(mut self, document: &mut DocumentMut) -> Vec<String> {
        let mut along = Vec::new();
        let root = scenario(document);
        loop {
            let before = along.len();
            let kinds: Vec<String> = root.iter().map(|(kind, _)| kind.to_owned()).collect();
            for kind in kinds {
                let Some(Item::ArrayOfTables(tables)) = root.get_mut(&kind) else {
                    continue;
                };
                let alone = tables.len() == 1;
                tables.retain(|table| {
                    let goes = self.concerns(&kind, table);
                    if goes {
                        let own = table.get("name").and_then(Item::as_str);
                        let usual = if kind == "link" && alone {
                            ONLY_LINK
                        } else {
                            ""
                        };
                        let own = own.unwrap_or(usual).to_owned();
                        along.push(in_words(&kind, &own, table));
                        self.add(&kind, table, &own);
                    }
                    !goes
                });
                if tables.is_empty() {
                    root.remove(&kind);
                }
            }
            if along.len() == before {
                break;
            }
        }
        for (kind, item) in root.iter_mut() {
            if let Item::ArrayOfTables(tables) = item {
                for table in tables.iter_mut() {
                    self.trim(kind.get(), table, &mut along);
                }
            }
        }
        // Of a campaign, what its axes set.
        if let Some(Item::Table(set)) = document.get_mut("set") {
            let names: Vec<String> = set.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names.iter().filter(|name| self.is_of(name)) {
                set.remove(name);
                along.push(format!("`{name}` of [set]"));
            }
        }
        along
    }

    /// Whether a full name is that of something that is gone, or of a key of it.
    fn is_of(&self, name: &str) -> bool {
        let mut parts = name.splitn(3, '/');
        let (Some(kind), Some(own)) = (parts.next(), parts.next()) else {
            return false;
        };
        let elements = || self.elements.iter();
        self.has(kind, own)
            || self.elements.contains(name)
            || self.alone && elements().any(|full| is_short(full, name))
    }

    /// Whether a table is about something that is gone, and nothing else.
    fn concerns(&self, kind: &str, table: &Table) -> bool {
        let text = |key: &str| table.get(key).and_then(Item::as_str);
        let host = |name: &str| self.has("host", name);
        match kind {
            "host" | "router" => false,
            "change" => text("target").is_some_and(|target| self.is_of(target)),
            "observe" => text("tap").is_some_and(|tap| self.elements.contains(tap)),
            "capture" => text("at").is_some_and(|at| self.is_of(at)),
            "mark" => ["flow", "host"].into_iter().any(|of| {
                let list = table.get(if of == "flow" { "flows" } else { "hosts" });
                let names = list.into_iter().flat_map(strings);
                let names: Vec<&str> = names.collect();
                !names.is_empty() && names.iter().all(|name| self.has(of, name))
            }),
            _ => HOSTS.iter().any(|key| {
                let named = table.get(key).into_iter().flat_map(strings);
                named.into_iter().any(host)
            }),
        }
    }

    /// Takes names of what is gone out of a table that is about others, too.
    fn trim(&self, kind: &str, table: &mut Table, along: &mut Vec<String>) {
        let own = table.get("name").and_then(Item::as_str);
        let own = own.unwrap_or_default().to_owned();
        let text = |table: &Table, key| table.get(key).and_then(Item::as_str).map(str::to_owned);
        if kind == "mark" {
            for (key, of) in [("flows", "flow"), ("hosts", "host")] {
                if let Some(list) = table.get_mut(key).and_then(Item::as_array_mut) {
                    list.retain(|name| !name.as_str().is_some_and(|name| self.has(of, name)));
                }
            }
        }
        let mut keys = Vec::new();
        if text(table, "via").is_some_and(|via| self.has("proxy", &via)) {
            keys.extend(["via", "first_data"]);
        }
        for hint in ["near_hint", "far_hint"] {
            if text(table, hint).is_some_and(|name| self.is_of(&name)) {
                keys.push(hint);
            }
        }
        for key in keys {
            if table.remove(key).is_some() {
                along.push(format!("`{key}` of {kind} {own}"));
            }
        }
    }
}

/// The text that an item is, or those of the list that it is.
fn strings(item: &Item) -> Vec<&str> {
    let list = item.as_array().into_iter().flatten();
    let list = list.filter_map(Value::as_str);
    item.as_str().into_iter().chain(list).collect()
}

/// A table in words: `flow prague`, `change of link/access/up/bottleneck at 1s`.
fn in_words(kind: &str, name: &str, table: &Table) -> String {
    let text = |key: &str| table.get(key).and_then(Item::as_str);
    match (kind, text("target"), text("at")) {
        ("change", Some(target), Some(at)) => format!("change of {target} at {at}"),
        _ => format!("{kind} {name}").trim_end().to_owned(),
    }
}
