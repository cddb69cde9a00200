//! A scenario as a topology file.

use std::collections::BTreeMap;
use std::fmt::Write;

use narrows_scenario::Plan;

use super::PREFIX;
use crate::outline::{Link, Node, Outline};
use crate::quote::{command, comment, plain_name, string};
use crate::wiring::Wiring;
use crate::{Lost, Written, lost};

/// An image with ip, tc and iperf3 in it, for nodes that say nothing else.
const IMAGE: &str = "nicolaka/netshoot:v0.13";

/// Writes a topology that containerlab deploys and from which import reads the same scenario.
pub(crate) fn write(plan: &Plan) -> Written {
    let outline = Outline::of(plan);
    let wiring = Wiring::of(plan, false);
    let names = names(&outline);
    let mut rest = outline.rest.text.clone();
    let name = plain_name(&outline.name, "-_.", |_| false);
    if name != outline.name {
        rest = format!(
            "name = {}\n{rest}",
            toml::Value::String(outline.name.clone())
        );
    }
    let lost = of_containerlab(&wiring);
    let mut file = comment(
        "#",
        &format!(
            "The scenario \"{}\" as a topology of containerlab.",
            outline.name
        ),
    );
    file += &comment(
        "#",
        "`containerlab deploy` makes nodes and links of it, with addresses and routes; labels that \
         begin with\n`narrows/` are what `narrows import` reads.",
    );
    file += &crate::named("#", "What containerlab itself does not do:", &lost);
    writeln!(
        file,
        "name: {}\ntopology:\n  defaults:\n    labels:",
        string(&name)
    )
    .ok();
    writeln!(file, "      {PREFIX}scenario: {}", block(&rest, 8)).ok();
    writeln!(
        file,
        "  kinds:\n    linux:\n      image: {}\n  nodes:",
        string(IMAGE)
    )
    .ok();
    for (number, node) in outline.nodes.iter().enumerate() {
        write_node(&mut file, node, &names[&node.name], &wiring, number);
    }
    file.push_str("  links:\n");
    for (number, link) in outline.links.iter().enumerate() {
        write_link(&mut file, link, number, &names, &wiring);
    }
    Written { text: file, lost }
}

/// The names of nodes in the topology.
fn names(outline: &Outline) -> BTreeMap<String, String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for node in &outline.nodes {
        let taken = |name: &str| names.values().any(|other| other == name);
        let plain = plain_name(&node.name, "-_.", taken);
        names.insert(node.name.clone(), plain);
    }
    names
}

/// What is in labels, and is not done by containerlab.
fn of_containerlab(wiring: &Wiring) -> Vec<Lost> {
    let all = wiring.lost.iter().map(|one| {
        let why = format!("{}; it is kept in a label", one.why);
        lost(one.what.clone(), why)
    });
    all.collect()
}

fn write_node(file: &mut String, node: &Node, name: &str, wiring: &Wiring, number: usize) {
    writeln!(file, "    {}:\n      kind: linux", string(name)).ok();
    let mut labels = Vec::new();
    if name != node.name {
        labels.push(("name", node.name.as_str()));
    }
    if let Some(router) = node.router {
        labels.push(("role", if router { "router" } else { "host" }));
    }
    for (key, value) in [("is", &node.is), ("ipv4", &node.ipv4), ("ipv6", &node.ipv6)] {
        labels.extend(value.iter().map(|value| (key, value.text.as_str())));
    }
    if !labels.is_empty() {
        file.push_str("      labels:\n");
        for (key, value) in labels {
            writeln!(file, "        {PREFIX}{key}: {}", string(value)).ok();
        }
    }
    // Nodes of the wiring come in the order of the plan's hosts.
    if wiring.nodes[number].forwards {
        file.push_str("      sysctls:\n        net.ipv4.ip_forward: \"1\"\n");
    }
    file.push_str("      exec:\n");
    let (ip, tc) = wiring.set_up(number);
    let lines = ip
        .iter()
        .map(|words| ("ip", words))
        .chain(tc.iter().map(|words| ("tc", words)));
    for (program, words) in lines {
        // Links have their own MTU here, and are up; the default route is the management's until
        // it is replaced.
        let words = match &words[..] {
            [link, set, ..] if link == "link" && set == "set" => continue,
            [route, _, rest @ ..] if route == "route" => {
                [&["route".to_owned(), "replace".to_owned()], rest].concat()
            }
            words => words.to_vec(),
        };
        let line = format!("{program} {}", command(&words));
        writeln!(file, "        - {}", string(&line)).ok();
    }
}

fn write_link(
    file: &mut String,
    link: &Link,
    number: usize,
    names: &BTreeMap<String, String>,
    wiring: &Wiring,
) {
    file.push_str("    - type: veth\n      endpoints:\n");
    for (end, name) in wiring.wires[number].ends.iter().zip(&link.ends) {
        let (node, interface) = (string(&names[name]), string(&end.interface));
        writeln!(
            file,
            "        - node: {node}\n          interface: {interface}"
        )
        .ok();
    }
    if let Some(mtu) = link.mtu {
        writeln!(file, "      mtu: {mtu}").ok();
    }
    writeln!(
        file,
        "      labels:\n        {PREFIX}name: {}",
        string(&link.name)
    )
    .ok();
    if link.kernel {
        writeln!(file, "        {PREFIX}datapath: kernel").ok();
    }
    for (way, elements) in [("up", &link.up), ("down", &link.down)] {
        if !elements.is_empty() {
            writeln!(file, "        {PREFIX}{way}: {}", joined(elements)).ok();
        }
    }
}

/// Elements as a label: with `;` between two, or each in a line of its own.
fn joined(elements: &[String]) -> String {
    let elements: Vec<_> = elements
        .iter()
        .map(|words| words.replace(['\n', '\r'], " "))
        .collect();
    match elements.iter().any(|words| words.contains(';')) {
        true => string(&(elements.join("\n") + "\n")),
        false => string(&elements.join("; ")),
    }
}

/// Lines as a block that is indented so far, or as a string where a block would not be read back
/// as it is.
fn block(text: &str, indent: usize) -> String {
    let plain = |c: char| c == '\n' || c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let begins = text.starts_with(|c: char| c.is_ascii_graphic());
    if !text.chars().all(plain) || !begins || !text.ends_with('\n') || text.ends_with("\n\n") {
        return string(text);
    }
    let mut block = "|\n".to_owned();
    for line in text.lines() {
        match line.is_empty() {
            true => block.push('\n'),
            false => writeln!(block, "{:indent$}{line}", "").unwrap_or_default(),
        }
    }
    block.pop();
    block
}
