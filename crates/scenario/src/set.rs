//! Setting a value of a scenario by its name.

use crate::check::{Labels, TABLES, TOP};
use crate::parts::ElementSpec;
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::{Node, Table, Value, read_value};

/// Puts `value` where `name` says; `at` is where the name was written.
pub(crate) fn set(root: &mut Node, name: &str, at: &Spot, value: Node) -> Result<(), Refusal> {
    const NESTED: &str = "host_model";
    let value = as_list(name, value);
    let parts: Vec<&str> = name.split('/').collect();
    let Value::Table(top) = &mut root.value else {
        return Ok(());
    };
    let one_more = || {
        let allowed = format!("{name}/KEY, as in flow/prague/cc");
        Err(unknown(at, name, allowed))
    };
    match parts.as_slice() {
        [NESTED] => one_more(),
        [NESTED, key] => {
            put_nested(top, NESTED, key, value);
            Ok(())
        }
        [key] if TOP.contains(key) && !TABLES.contains(key) => {
            top.put(key, value);
            Ok(())
        }
        [kind, thing, rest @ ..] if TABLES.contains(kind) => {
            let table = find(top, kind, thing, at)?;
            match (*kind, rest) {
                (_, []) | ("flow", [NESTED]) => return one_more(),
                ("link", [direction @ ("up" | "down"), element]) => {
                    let path = format!("link/{thing}/{direction}");
                    return set_element(table, direction, element, &path, at, value);
                }
                ("flow", [NESTED, key]) => put_nested(table, NESTED, key, value),
                (_, [key]) => table.put(key, value),
                _ => return Err(unknown(at, name, "a name such as flow/prague/cc")),
            }
            Ok(())
        }
        [kind, ..] => {
            let known = || TOP.iter().copied();
            let allowed = format!("a name that starts with {}", one_of(known()));
            let refusal = unknown(at, name, allowed);
            let first = kind.split('.').next().unwrap_or_default();
            Err(match kind.contains('.') && TABLES.contains(&first) {
                true => refusal.with_help(format!(
                    "did you mean `{}`? Names have slashes",
                    name.replace('.', "/")
                )),
                false => refusal.did_you_mean(kind, known()),
            })
        }
        [] => one_more(),
    }
}

/// Keys whose values are lists, which a line of text gives in TOML's manner.
const LISTS: &[&str] = &["expected", "ends", "up", "down", "flows", "hosts", "run"];

fn as_list(name: &str, value: Node) -> Node {
    let last = name.rsplit('/').next().unwrap_or(name);
    match &value.value {
        Value::Raw(text) if LISTS.contains(&last) && text.trim_start().starts_with('[') => {
            read_value(&value.spot).unwrap_or(value)
        }
        _ => value,
    }
}

fn put_nested(table: &mut Table, nested: &str, key: &str, value: Node) {
    if !matches!(table.get(nested).map(|n| &n.value), Some(Value::Table(_))) {
        let empty = Node {
            value: Value::Table(Table::default()),
            spot: value.spot.clone(),
        };
        table.put(nested, empty);
    }
    if let Some(Value::Table(inner)) = table.get_mut(nested).map(|n| &mut n.value) {
        inner.put(key, value);
    }
}

/// Lays words over the element `name` of a direction; it keeps its name.
fn set_element(
    link: &mut Table,
    direction: &str,
    name: &str,
    path: &str,
    at: &Spot,
    value: Node,
) -> Result<(), Refusal> {
    let mut labels = Labels::default();
    let mut names = Vec::new();
    let mut nodes: Vec<&mut Node> = match link.get_mut(direction) {
        None => Vec::new(),
        Some(node) if matches!(node.value, Value::List(_)) => match &mut node.value {
            Value::List(list) => list.iter_mut().collect(),
            _ => Vec::new(),
        },
        Some(node) => vec![node],
    };
    for node in &nodes {
        // What is no element is refused later, where it stands.
        let (label, words) = node.as_element().unwrap_or((None, ""));
        names.push(labels.next(label, words).unwrap_or_default());
    }
    let Some(index) = names.iter().position(|n| n == name) else {
        let known = || names.iter().map(String::as_str).filter(|n| *n != "tap");
        let found = format!("the unknown element `{path}/{name}`");
        return Err(Refusal::at(at, "", found, one_of(known())).did_you_mean(name, known()));
    };
    let (label, words) = match value.as_element() {
        Some((None, words)) => (name.to_owned(), words.to_owned()),
        _ => {
            return Err(
                Refusal::at(at, path, value.describe(), "an element in words")
                    .with_help("the element keeps its name; give its words alone"),
            );
        }
    };
    // As with a change in mid-run, what the words do not name stays. Words that are wrong
    // are refused later, where they stand.
    let before = nodes[index].as_element();
    let before = before.and_then(|(_, words)| ElementSpec::parse(words).ok());
    let words = match before.map(|before| before.overlaid(&words)) {
        Some(Ok(laid)) => laid.to_string(),
        _ => words,
    };
    *nodes[index] = Node {
        value: Value::Element { label, words },
        spot: value.spot,
    };
    Ok(())
}

fn unknown(at: &Spot, name: &str, allowed: impl Into<String>) -> Refusal {
    Refusal::at(at, "", format!("the unknown name `{name}`"), allowed)
}

/// The table `[[kind]]` called `name`; a host that so far is only an end of a
/// link gets one.
fn find<'t>(
    top: &'t mut Table,
    kind: &str,
    name: &str,
    at: &Spot,
) -> Result<&'t mut Table, Refusal> {
    if HOST_KINDS.contains(&kind) && !names(top, kind).iter().any(|n| n == name) {
        let ends = link_ends(top);
        if !ends.iter().any(|end| end == name) {
            return Err(Refusal::at(
                at,
                "",
                format!("the unknown {kind} `{name}`"),
                one_of(ends.iter().map(String::as_str)),
            )
            .did_you_mean(name, ends.iter().map(String::as_str)));
        }
        add_host(top, kind, name, at);
    }
    let names = names(top, kind);
    let Some(index) = names.iter().position(|n| n == name) else {
        return Err(Refusal::at(
            at,
            "",
            format!("the unknown {kind} `{name}`"),
            one_of(names.iter().map(String::as_str)),
        )
        .did_you_mean(name, names.iter().map(String::as_str)));
    };
    match top.get_mut(kind).map(|n| &mut n.value) {
        Some(Value::List(list)) => match list.get_mut(index).map(|n| &mut n.value) {
            Some(Value::Table(table)) => Ok(table),
            _ => Err(unknown(at, name, "a table")),
        },
        _ => Err(unknown(at, name, "a list of tables")),
    }
}

const HOST_KINDS: &[&str] = &["host", "router"];

/// The names of all `[[kind]]`, in order; empty for one without.
fn names(top: &Table, kind: &str) -> Vec<String> {
    let Some(Value::List(list)) = top.get(kind).map(|n| &n.value) else {
        return Vec::new();
    };
    list.iter()
        .map(|node| match &node.value {
            Value::Table(table) => table.get("name").and_then(Node::as_text).unwrap_or(""),
            _ => "",
        })
        .map(str::to_owned)
        .collect()
}

fn link_ends(top: &Table) -> Vec<String> {
    let Some(Value::List(links)) = top.get("link").map(|n| &n.value) else {
        return Vec::new();
    };
    let mut ends = Vec::new();
    for link in links {
        let Value::Table(link) = &link.value else {
            continue;
        };
        if let Some(Value::List(list)) = link.get("ends").map(|n| &n.value) {
            ends.extend(list.iter().filter_map(Node::as_text).map(str::to_owned));
        }
    }
    ends.sort();
    ends.dedup();
    ends
}

fn add_host(top: &mut Table, kind: &str, name: &str, at: &Spot) {
    let mut host = Table::default();
    host.put("name", Node::text(name, at));
    let host = Node {
        value: Value::Table(host),
        spot: at.clone(),
    };
    match top.get_mut(kind).map(|n| &mut n.value) {
        Some(Value::List(list)) => list.push(host),
        _ => top.put(
            kind,
            Node {
                value: Value::List(vec![host]),
                spot: at.clone(),
            },
        ),
    }
}
