//! Setting a value of a scenario by its name.

use crate::check::{Labels, ONLY_LINK};
use crate::document::{Link, Scenario, keys};
use crate::refusal::{Refusal, one_of};
use crate::short_tables;
use crate::source::Spot;
use crate::tree::{Node, Value, read_value};

/// The table in a flow or an application, and at the top, whose keys are set one by one.
const NESTED: &str = "host_model";

/// The other table of which there is only one.
const TEST: &str = "test";

/// Puts `value` where `name` says; `at` is where the name was written.
pub(crate) fn set(root: &mut Node, name: &str, at: &Spot, value: Node) -> Result<(), Refusal> {
    short_tables::expand(root)?;
    let value = as_list(value);
    let links = names(root, "link");
    let nodes = nodes(root);
    let mut parts: Vec<&str> = name.split('/').collect();
    // The name of the only link may be left out.
    if let ([only], ["link", key, ..]) = (&links[..], &parts[..]) {
        if *only != *key && keys::<Link>().contains(key) {
            parts.insert(1, only);
        }
    }
    let one_more = || {
        Err(unknown(
            at,
            name,
            format!("{name}/KEY, as in flow/prague/cc"),
        ))
    };
    let known = keys::<Scenario>();
    match parts[..] {
        [NESTED | TEST] => one_more(),
        [table @ (NESTED | TEST), key] => {
            root.put_in(table, key, value);
            Ok(())
        }
        [key] if known.contains(&key) && names(root, key).is_empty() => {
            root.put(key, value);
            Ok(())
        }
        [kind, thing, ref rest @ ..] if known.contains(&kind) => {
            let table = find(root, kind, thing, at)?;
            match (kind, rest) {
                (_, []) | ("flow" | "app", [NESTED]) => return one_more(),
                ("link", [direction @ ("up" | "down"), element]) => {
                    port_at(table, direction, element, &nodes, at);
                    let path = format!("link/{thing}/{direction}");
                    return set_element(table, direction, element, &path, at, value);
                }
                ("flow" | "app", [NESTED, key]) => table.put_in(NESTED, key, value),
                (_, [key]) => table.put(key, value),
                _ => return Err(unknown(at, name, "a name such as flow/prague/cc")),
            }
            Ok(())
        }
        [kind, ..] => {
            let allowed = format!("a name that starts with {}", one_of(known.iter().copied()));
            let refusal = unknown(at, name, allowed);
            let first = kind.split('.').next().unwrap_or_default();
            Err(match kind.contains('.') && known.contains(&first) {
                true => refusal.with_help(format!(
                    "did you mean `{}`? Names have slashes",
                    name.replace('.', "/")
                )),
                false => refusal.did_you_mean(kind, known.iter().copied()),
            })
        }
        [] => one_more(),
    }
}

/// The routers that are nodes, whose ports are elements that no link has to name.
fn nodes(root: &Node) -> Vec<String> {
    let Some(Value::List(routers)) = root.at("router").map(|n| &n.value) else {
        return Vec::new();
    };
    let nodes = routers.iter().filter(|router| router.at("is").is_some());
    let named = nodes.filter_map(|node| node.at("name").and_then(Node::as_text));
    named.map(str::to_owned).collect()
}

/// Names the port of a node that begins a direction of `link`, if `name` is that and the link
/// says nothing of it, so that it can be set.
fn port_at(link: &mut Node, direction: &str, name: &str, nodes: &[String], at: &Spot) {
    let ends = match link.at("ends").map(|n| &n.value) {
        Some(Value::List(ends)) => ends.iter().filter_map(Node::as_text).collect(),
        _ => Vec::new(),
    };
    let start = if direction == "up" { 0 } else { 1 };
    if ends.get(start) != Some(&name) || !nodes.iter().any(|node| node == name) {
        return;
    }
    let mut elements = match link.at_mut(direction) {
        None => Vec::new(),
        Some(Node {
            value: Value::List(list),
            ..
        }) => std::mem::take(list),
        Some(one) => vec![one.clone()],
    };
    let says = |node: &Node| {
        node.as_element()
            .is_some_and(|(label, _)| label == Some(name))
    };
    if !elements.iter().any(says) {
        let value = Value::Element {
            label: name.to_owned(),
            layers: vec![String::new()],
        };
        let spot = at.clone();
        elements.insert(0, Node { value, spot });
    }
    link.put(direction, Node::list(elements, at));
}

/// A line of text may give a list in TOML's manner.
fn as_list(value: Node) -> Node {
    match &value.value {
        Value::Raw(text) if text.trim_start().starts_with('[') => {
            read_value(text, &value.spot).unwrap_or(value)
        }
        _ => value,
    }
}

/// Lays words over the element `name` of a direction; it keeps its name.
fn set_element(
    link: &mut Node,
    direction: &str,
    name: &str,
    path: &str,
    at: &Spot,
    value: Node,
) -> Result<(), Refusal> {
    let elements = match link.at_mut(direction) {
        None => &mut [][..],
        Some(Node {
            value: Value::List(list),
            ..
        }) => list,
        Some(one) => std::slice::from_mut(one),
    };
    let mut labels = Labels::default();
    let names: Vec<String> = elements
        .iter()
        .map(|node| {
            // What is no element is refused later, at its place.
            let (label, words) = node.as_element().unwrap_or((None, ""));
            let kind = words.split_whitespace().next().unwrap_or("element");
            labels.next(label, kind).unwrap_or_default()
        })
        .collect();
    let Some(index) = names.iter().position(|n| n == name) else {
        let known = || names.iter().map(String::as_str).filter(|n| *n != "tap");
        let found = format!("the unknown element `{path}/{name}`");
        return Err(Refusal::at(at, "", found, one_of(known())).did_you_mean(name, known()));
    };
    let Some((None, words)) = value.as_element() else {
        return Err(
            Refusal::at(at, path, value.describe(), "an element in words")
                .with_help("the element keeps its name; give its words alone"),
        );
    };
    let mut layers = match &elements[index].value {
        Value::Element { layers, .. } => layers.clone(),
        _ => {
            let before = elements[index].as_element();
            before
                .map(|(_, words)| words.to_owned())
                .into_iter()
                .collect()
        }
    };
    layers.push(words.to_owned());
    elements[index] = Node {
        value: Value::Element {
            label: name.to_owned(),
            layers,
        },
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
    root: &'t mut Node,
    kind: &str,
    name: &str,
    at: &Spot,
) -> Result<&'t mut Node, Refusal> {
    let mut known = names(root, kind);
    if ["host", "router"].contains(&kind) && !known.iter().any(|n| n == name) {
        known = link_ends(root);
        if known.iter().any(|end| end == name) {
            let host = Node::table([("name", Node::text(name, at))], at);
            match root.at_mut(kind).map(|n| &mut n.value) {
                Some(Value::List(list)) => list.push(host),
                _ => root.put(kind, Node::list(vec![host], at)),
            }
            known = names(root, kind);
        }
    }
    let index = known.iter().position(|n| n == name);
    let list = root.at_mut(kind).map(|n| &mut n.value);
    if let (Some(index), Some(Value::List(list))) = (index, list) {
        return Ok(&mut list[index]);
    }
    let known = || known.iter().map(String::as_str);
    let found = format!("the unknown {kind} `{name}`");
    Err(Refusal::at(at, "", found, one_of(known())).did_you_mean(name, known()))
}

/// The names of all `[[kind]]`, in order; empty for one without.
fn names(root: &Node, kind: &str) -> Vec<String> {
    let Some(Value::List(list)) = root.at(kind).map(|n| &n.value) else {
        return Vec::new();
    };
    let named = |node: &Node| {
        let name = node.at("name").and_then(Node::as_text);
        let usual = if kind == "link" && list.len() == 1 {
            ONLY_LINK
        } else {
            ""
        };
        name.unwrap_or(usual).to_owned()
    };
    list.iter()
        .filter(|n| matches!(n.value, Value::Table(_)))
        .map(named)
        .collect()
}

fn link_ends(root: &Node) -> Vec<String> {
    let Some(Value::List(links)) = root.at("link").map(|n| &n.value) else {
        return Vec::new();
    };
    let mut ends: Vec<String> = links
        .iter()
        .filter_map(|link| match &link.at("ends")?.value {
            Value::List(ends) => Some(ends),
            _ => None,
        })
        .flatten()
        .filter_map(Node::as_text)
        .map(str::to_owned)
        .collect();
    ends.sort();
    ends.dedup();
    ends
}
