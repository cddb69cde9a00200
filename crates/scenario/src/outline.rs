//! What a file is about, for drawing: also of files that a check refuses.

use std::collections::{BTreeMap, BTreeSet};

use narrows_app::APP_KINDS;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::check::ONLY_LINK;
use crate::parts::ElementSpec;
use crate::refusal::Refusal;
use crate::tree::{self, Node, Value};

/// The nodes, links and flows of a scenario, or of the scenario in a campaign, as they are
/// written. What cannot be made sense of is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outline {
    /// The keys above all tables, with their values: `name`, `duration`, `seed`, …
    pub values: Map<String, Json>,
    /// Hosts and routers, those first that have a table, then the ends of links.
    pub nodes: Vec<OutlineNode>,
    /// Links.
    pub links: Vec<OutlineLink>,
    /// What sends from one node to another: flows, applications, probes.
    pub flows: Vec<OutlineFlow>,
    /// All other tables.
    pub others: Vec<OutlineTable>,
}

/// A host or router.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlineNode {
    /// Its name.
    pub name: String,
    /// `host` or `router`.
    pub kind: &'static str,
    /// Where it is first named, from 1.
    pub line: usize,
    /// Applications, proxies and programs on it.
    pub apps: Vec<String>,
    /// What it is in words, of a router that is a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The table that it is in: `host` or `router`; empty of the end of a link that has none.
    pub table: &'static str,
    /// Its keys with their values.
    pub values: Map<String, Json>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlineLink {
    /// Its name.
    pub name: String,
    /// The nodes at its ends, as far as they are said.
    pub ends: Vec<String>,
    /// Where its table begins, from 1.
    pub line: usize,
    /// Elements from the first end to the second.
    pub up: Vec<OutlineElement>,
    /// Elements from the second end to the first.
    pub down: Vec<OutlineElement>,
    /// Its keys with their values.
    pub values: Map<String, Json>,
}

/// An element of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlineElement {
    /// The name that is written before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its words, without the name.
    pub text: String,
    /// The first of its words.
    pub kind: String,
    /// Where it is written, from 1.
    pub line: usize,
    /// Its rate in Mbit/s, if it has one that is the same at all times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbit: Option<f64>,
}

/// Something that sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlineFlow {
    /// Its name.
    pub name: String,
    /// `flow`, `probe`, or the kind of an application.
    pub kind: String,
    /// The table that it is in: `flow`, `app`, `probe`, or the kind of an application.
    pub table: String,
    /// The node that it is from.
    pub from: String,
    /// The node that it is to.
    pub to: String,
    /// Its congestion control, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// Where its table begins, from 1.
    pub line: usize,
    /// Its keys with their values.
    pub values: Map<String, Json>,
}

/// Another table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OutlineTable {
    /// Its name; empty where it has none.
    pub name: String,
    /// What the table is called: `change`, `mark`, …
    pub kind: String,
    /// Where it begins, from 1.
    pub line: usize,
    /// Its keys with their values.
    pub values: Map<String, Json>,
}

impl Outline {
    /// Of the bytes of the file `name`.
    ///
    /// # Errors
    /// If they are no TOML.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let root = tree::read(name, bytes)?;
        Ok(Self::of(root.at("scenario").unwrap_or(&root)))
    }

    pub(crate) fn of(root: &Node) -> Self {
        let mut outline = Self::default();
        for (kind, table) in ["host", "router"].iter().flat_map(|kind| {
            let tables = tables(root, kind);
            tables.map(move |table| (*kind, table))
        }) {
            let Some(name) = text(table, "name") else {
                continue;
            };
            outline.nodes.push(OutlineNode {
                name,
                kind,
                line: line(table),
                apps: Vec::new(),
                detail: text(table, "is"),
                table: kind,
                values: values(table),
            });
        }
        let names = outline.nodes.iter().enumerate();
        let mut known: Known = names.rev().map(|(i, n)| (n.name.clone(), i)).collect();
        let alone = tables(root, "link").count() == 1;
        for table in tables(root, "link") {
            let usual = if alone { ONLY_LINK } else { "" };
            let ends: Vec<_> = items(table, "ends")
                .filter_map(|end| Some((end.as_text()?.to_owned(), line(end))))
                .collect();
            for (name, line) in &ends {
                outline.end(&mut known, name, *line);
            }
            outline.links.push(OutlineLink {
                name: text(table, "name").unwrap_or_else(|| usual.to_owned()),
                ends: ends.into_iter().map(|(name, _)| name).collect(),
                line: line(table),
                up: elements(table, "up"),
                down: elements(table, "down"),
                values: values(table),
            });
        }
        outline.senders(root, &known);
        outline.rest(root, &known);
        outline.values = values(root);
        let is_value = |value: &Json| match value {
            Json::Array(items) => !items.iter().any(Json::is_object),
            value => !value.is_object(),
        };
        outline.values.retain(|_, value| is_value(value));
        outline
    }

    /// The end of a link is a host where it is nothing else.
    fn end(&mut self, known: &mut Known, name: &str, line: usize) {
        if !known.contains_key(name) {
            known.insert(name.to_owned(), self.nodes.len());
            self.nodes.push(OutlineNode {
                name: name.to_owned(),
                kind: "host",
                line,
                ..OutlineNode::default()
            });
        }
    }

    fn senders(&mut self, root: &Node, known: &Known) {
        let kinds = APP_KINDS.iter().map(|kind| kind.name);
        for table in ["flow", "app", "probe"].into_iter().chain(kinds) {
            for node in tables(root, table) {
                let kind = match table {
                    "app" => text(node, "kind").unwrap_or_default(),
                    _ => table.to_owned(),
                };
                let name = text(node, "name").unwrap_or_default();
                let from = text(node, "from").unwrap_or_default();
                if !["flow", "probe"].contains(&table) {
                    self.runs(known, &from, format!("{kind} {name}"));
                }
                self.flows.push(OutlineFlow {
                    name,
                    kind,
                    table: table.to_owned(),
                    from,
                    to: text(node, "to").unwrap_or_default(),
                    control: text(node, "cc"),
                    line: line(node),
                    values: values(node),
                });
            }
        }
    }

    fn rest(&mut self, root: &Node, known: &Known) {
        let kinds = APP_KINDS.iter().map(|kind| kind.name);
        let drawn = ["host", "router", "link", "flow", "app", "probe"];
        let drawn: BTreeSet<_> = drawn.into_iter().chain(kinds).collect();
        let Value::Table(entries) = &root.value else {
            return;
        };
        for (key, node) in &entries.0 {
            let kind = key.name.as_str();
            if drawn.contains(kind) {
                continue;
            }
            for table in items_of(node).iter().filter(|node| is_table(node)) {
                let name = text(table, "name").unwrap_or_default();
                if let (Some(host), "proxy" | "command") = (text(table, "host"), kind) {
                    self.runs(known, &host, format!("{kind} {name}"));
                }
                self.others.push(OutlineTable {
                    name,
                    kind: kind.to_owned(),
                    line: line(table),
                    values: values(table),
                });
            }
        }
    }

    fn runs(&mut self, known: &Known, host: &str, what: String) {
        if let Some(node) = known.get(host) {
            self.nodes[*node].apps.push(what);
        }
    }

    /// How many tables and elements there are.
    pub(crate) fn size(&self) -> usize {
        let elements = self
            .links
            .iter()
            .map(|link| link.up.len() + link.down.len());
        let declared = self.nodes.iter().filter(|node| !node.table.is_empty());
        let tables = self.links.len() + self.flows.len() + self.others.len();
        declared.count() + tables + elements.sum::<usize>()
    }
}

/// The places of nodes by their names.
type Known = BTreeMap<String, usize>;

/// The tables of a key, or the one that it is.
fn tables<'n>(root: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    items(root, key).filter(|node| is_table(node))
}

fn is_table(node: &Node) -> bool {
    matches!(node.value, Value::Table(_))
}

/// The values of a list, or the one that is there instead.
fn items<'n>(table: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    table.at(key).map(items_of).unwrap_or_default().iter()
}

fn items_of(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(list) => list,
        _ => std::slice::from_ref(node),
    }
}

fn text(table: &Node, key: &str) -> Option<String> {
    table.at(key)?.as_text().map(str::to_owned)
}

fn line(node: &Node) -> usize {
    node.spot.line()
}

/// The keys of a table with their values, as JSON has them.
fn values(table: &Node) -> Map<String, Json> {
    match json(table) {
        Json::Object(values) => values,
        _ => Map::new(),
    }
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Text(text) | Value::Raw(text) => text.as_str().into(),
        Value::Whole(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Date => Json::Null,
        Value::Element { layers, .. } => layers.last().cloned().into(),
        Value::List(list) => list.iter().map(json).collect(),
        Value::Table(table) => {
            let entries = table.0.iter();
            let entries = entries.map(|(key, node)| (key.name.clone(), json(node)));
            Json::Object(entries.collect())
        }
    }
}

/// The rate of an element in Mbit/s; none of a recording.
fn rate_mbit(words: &str) -> Option<f64> {
    let mut first = words.split_whitespace();
    if first.next() != Some("rate") || first.next() == Some("trace") {
        return None;
    }
    let rates = ElementSpec::parse(words).ok()?.rates()?;
    let (_, rate) = rates.steps().first()?;
    Some(rate.as_mbit_f64())
}

fn elements(link: &Node, direction: &str) -> Vec<OutlineElement> {
    let of = |node: &Node| {
        let (name, words) = node.as_element()?;
        let text = words.trim().to_owned();
        Some(OutlineElement {
            name: name.map(str::to_owned),
            kind: text
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            rate_mbit: rate_mbit(&text),
            text,
            line: line(node),
        })
    };
    items(link, direction).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    const REFUSED: &str = r#"version = 1
name = "x"

[[router]]
name = "r"

[[link]]
name = "a"
ends = ["client", "r"]
up = ["netem delay 10ms", "bottleneck: rate nonsense"]
down = "tap t"

[[link]]
name = "b"
ends = ["r", "server"]

[[flow]]
name = "f"
from = "client"
to = "nowhere"
cc = "cubik"

[[call]]
name = "c"
from = "server"
to = "client"

[[change]]
at = "1s"
"#;

    #[test]
    fn a_refused_file_has_an_outline_with_the_lines_of_its_tables() {
        let outline = Outline::read("x.toml", REFUSED.as_bytes()).expect("TOML");
        let nodes: Vec<_> = outline
            .nodes
            .iter()
            .map(|n| (n.name.as_str(), n.kind, n.line))
            .collect();
        assert_eq!(
            nodes,
            [
                ("r", "router", 4),
                ("client", "host", 9),
                ("server", "host", 15)
            ]
        );
        assert_eq!(outline.nodes[2].apps, ["call c"]);
        let link = &outline.links[0];
        assert_eq!((link.ends.len(), link.line, link.down.len()), (2, 7, 1));
        let bottleneck = &link.up[1];
        assert_eq!(bottleneck.name.as_deref(), Some("bottleneck"));
        assert_eq!(
            (
                bottleneck.kind.as_str(),
                bottleneck.text.as_str(),
                bottleneck.line
            ),
            ("rate", "rate nonsense", 10)
        );
        let flows: Vec<_> = outline
            .flows
            .iter()
            .map(|f| (f.kind.as_str(), f.line))
            .collect();
        assert_eq!(flows, [("flow", 17), ("call", 23)]);
        assert_eq!(outline.flows[0].control.as_deref(), Some("cubik"));
        assert_eq!(outline.others[0].kind, "change");
        assert_eq!(outline.nodes[0].table, "router");
        assert_eq!(outline.nodes[1].table, "");
        assert_eq!(outline.flows[0].values["to"], "nowhere");
        assert_eq!(link.values["ends"][1], "r");
        assert_eq!(link.values["down"], "tap t");
        assert_eq!(outline.others[0].values["at"], "1s");
        assert_eq!(outline.values["name"], "x");
        assert_eq!(outline.values.len(), 2, "the version, and no tables");
    }

    #[test]
    fn a_rate_is_known_of_elements_that_have_one_alone() {
        assert_eq!(rate_mbit("rate 50Mbit queue dualpi2"), Some(50.0));
        assert_eq!(rate_mbit("rate 1MBps"), Some(8.0));
        assert_eq!(rate_mbit("rate nonsense"), None);
        assert_eq!(rate_mbit("rate trace up.csv queue fq_codel"), None);
        assert_eq!(rate_mbit("netem delay 10ms"), None);
    }

    #[test]
    fn every_file_of_the_catalogue_that_has_links_shows_them() {
        for entry in catalog::entries() {
            let outline = Outline::read(entry.name, entry.text.as_bytes()).expect("TOML");
            let written = entry.text.matches("link]]\n").count();
            assert_eq!(outline.links.len(), written, "{}", entry.name);
            for link in &outline.links {
                assert_eq!(link.ends.len(), 2, "{}", entry.name);
            }
        }
    }
}
