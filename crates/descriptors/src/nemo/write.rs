//! A scenario as intents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use narrows_scenario::Plan;

use crate::Written;
use crate::outline::{Link, Node, Outline};
use crate::quote::{comment, plain_name, string};

/// Writes intents from which import reads the same scenario: a model for each number of ports, one
/// that has them as nodes, and a node of that.
pub(crate) fn write(plan: &Plan) -> Written {
    let outline = Outline::of(plan);
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for node in &outline.nodes {
        let taken = |name: &str| names.values().any(|other| other == name);
        names.insert(&node.name, name(&node.name, taken));
    }
    let mut ports: BTreeMap<&str, usize> = BTreeMap::new();
    let mut connections = Vec::new();
    let mut called = BTreeSet::new();
    for link in &outline.links {
        let ends = link.ends.each_ref().map(|end| {
            let count = ports.entry(end.as_str()).or_default();
            *count += 1;
            format!("{}.eth{count}", names[end.as_str()])
        });
        let name = name(&link.name, |name: &str| called.contains(name));
        called.insert(name.clone());
        connections.push((name, ends, link));
    }
    let service = name(&outline.name, |_| false);
    let mut file = comment(
        "//",
        &format!("The scenario \"{}\" as intents of NEMO.", outline.name),
    );
    file += &comment(
        "//",
        "Strings and these comments are what `narrows import` reads beyond the language itself.",
    );
    let counts: BTreeSet<usize> = ports.values().copied().collect();
    for count in &counts {
        write!(
            file,
            "\nCREATE NodeModel ports-{count} VNFD file:///vnfd/ports-{count}.yaml;"
        )
        .ok();
        for port in 1..=*count {
            write!(file, "\n  ConnectionPoint eth{port} at VNFD: eth{port};").ok();
        }
        file.push('\n');
    }
    write!(file, "\nCREATE NodeModel {service}-model;").ok();
    for node in &outline.nodes {
        let name = &names[node.name.as_str()];
        let count = ports.get(node.name.as_str()).copied().unwrap_or(0);
        let properties = of_node(node, name);
        write!(
            file,
            "\n  Node {name} Type ports-{count}{};",
            said(&properties)
        )
        .ok();
    }
    for (name, [first, second], link) in &connections {
        let properties = said(&of_link(link, name));
        write!(
            file,
            "\n  Connection {name} Type p2p Endnodes {first}, {second}{properties};"
        )
        .ok();
    }
    let mut properties = Vec::new();
    if service != outline.name {
        properties.push(("narrows-name", string(&outline.name)));
    }
    properties.push(("narrows-scenario", long(&outline.rest.text)));
    let properties = said(&properties);
    writeln!(
        file,
        "\n\nCREATE Node {service} Type {service}-model{properties};"
    )
    .ok();
    Written {
        text: file,
        lost: Vec::new(),
    }
}

/// A name of intents.
fn name(of: &str, taken: impl Fn(&str) -> bool) -> String {
    let short: String = of.to_lowercase().chars().take(48).collect();
    let begins = short.starts_with(|c: char| c.is_ascii_alphabetic());
    let named = if begins { short } else { format!("n{short}") };
    plain_name(&named, "-_", taken)
}

fn of_node(node: &Node, name: &str) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if name != node.name {
        all.push(("narrows-name", string(&node.name)));
    }
    if let Some(router) = node.router {
        all.push((
            "narrows-role",
            if router { "router" } else { "host" }.to_owned(),
        ));
    }
    for (key, value) in [
        ("narrows-is", &node.is),
        ("ipv4", &node.ipv4),
        ("ipv6", &node.ipv6),
    ] {
        all.extend(value.iter().map(|value| (key, string(&value.text))));
    }
    all
}

fn of_link(link: &Link, name: &str) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if name != link.name {
        all.push(("narrows-name", string(&link.name)));
    }
    if let Some(mtu) = link.mtu {
        all.push(("mtu", mtu.to_string()));
    }
    if link.kernel {
        all.push(("narrows-datapath", "kernel".to_owned()));
    }
    for (key, elements) in [("narrows-up", &link.up), ("narrows-down", &link.down)] {
        let elements: Vec<_> = elements.iter().map(|words| string(words)).collect();
        if !elements.is_empty() {
            all.push((key, elements.join(", ")));
        }
    }
    all
}

fn said(properties: &[(&'static str, String)]) -> String {
    let all: Vec<_> = properties
        .iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("\n    Property {}", all.join(",\n      ")),
    }
}

/// A text of several lines.
fn long(text: &str) -> String {
    match text.contains("\"\"\"") || text.ends_with('"') || text.contains('\r') {
        true => string(text),
        false => format!("\"\"\"\n{text}\"\"\""),
    }
}
