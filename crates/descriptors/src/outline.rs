//! What descriptors and scenarios have in common: nodes, links between them, and the tables of a
//! scenario that say all else.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;

use narrows_scenario::{Draft, Plan, Refusal};
use toml::{Table, Value};

use crate::source::Source;

/// How long an imported scenario lasts that does not say (our choice, as runs without a file).
const DURATION: &str = "60s";

/// Tables that a descriptor says in its own words.
pub(crate) const OWN_TABLES: [&str; 5] = ["version", "kind", "host", "router", "link"];

/// A value, and the bytes that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub text: String,
    pub at: Range<usize>,
}

/// A host or a router.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    /// Whether it forwards; `None` for what its place among the links makes of it.
    pub router: Option<bool>,
    /// What it is, if its ports are elements.
    pub is: Option<Text>,
    pub ipv4: Option<Text>,
    pub ipv6: Option<Text>,
    pub at: Range<usize>,
}

/// A link between two nodes, by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub name: String,
    pub ends: [String; 2],
    pub mtu: Option<u32>,
    /// Whether the kernel's disciplines carry its packets in a live run.
    pub kernel: bool,
    pub up: Vec<String>,
    pub down: Vec<String>,
    pub at: Range<usize>,
    pub up_at: Range<usize>,
    pub down_at: Range<usize>,
}

/// Further tables of the scenario, as TOML.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest {
    pub text: String,
    /// Where each of its lines was read.
    pub lines: Vec<usize>,
}

/// A topology, from a descriptor or a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    pub name: String,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub rest: Rest,
}

impl Outline {
    /// That of a scenario. Nodes come in the order in which links name them.
    pub fn of(plan: &Plan) -> Self {
        // What the scenario's own writer wrote is TOML.
        let mut file: Table = plan.to_toml().parse().unwrap_or_default();
        let tables = |file: &mut Table, key: &str| match file.remove(key) {
            Some(Value::Array(list)) => list,
            _ => Vec::new(),
        };
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut said = BTreeMap::new();
        for (key, router) in [("host", false), ("router", true)] {
            for table in tables(&mut file, key) {
                let given = |key| {
                    let text = text(&table, key)?;
                    Some(Text { text, at: 0..0 })
                };
                let node = Node {
                    name: text(&table, "name").unwrap_or_default(),
                    router: Some(router),
                    is: given("is"),
                    ipv4: given("ipv4"),
                    ipv6: given("ipv6"),
                    at: 0..0,
                };
                said.insert(node.name.clone(), node);
            }
        }
        let nodes = plan.hosts.iter().map(|host| {
            let plain = || Node {
                name: host.name.clone(),
                ..Node::default()
            };
            said.remove(&host.name).unwrap_or_else(plain)
        });
        let nodes = nodes.collect();
        let elements = |of: &Value, key: &str| {
            let list = of.get(key).and_then(Value::as_array);
            let words = list.into_iter().flatten().filter_map(Value::as_str);
            words.map(str::to_owned).collect()
        };
        let links = tables(&mut file, "link");
        let links = links.iter().zip(&plan.links).map(|(table, link)| Link {
            name: link.name.clone(),
            ends: [link.ends.0, link.ends.1].map(|end| plan.host(end).name.clone()),
            mtu: table.get("mtu").map(|_| link.mtu),
            kernel: table.get("datapath").is_some(),
            up: elements(table, "up"),
            down: elements(table, "down"),
            ..Link::default()
        });
        let links = links.collect();
        file.remove("version");
        file.remove("name");
        Self {
            name: plan.name.clone(),
            nodes,
            links,
            rest: Rest {
                text: file.to_string(),
                lines: Vec::new(),
            },
        }
    }

    /// The checked scenario that it is, and what to know about it. Files that it names are read
    /// below `folder` alone.
    ///
    /// # Errors
    /// What the scenario's check refuses, where the descriptor says it.
    pub fn plan(
        mut self,
        source: &Source<'_>,
        folder: &Path,
    ) -> Result<(Plan, Vec<String>), Refusal> {
        let mut notes = Vec::new();
        self.leave_out_unlinked(&mut notes);
        let given = self.given(source)?;
        let (text, first) = self.to_toml(&given, "");
        let check = |text: &str| {
            Draft::read(source.name, text.as_bytes()).and_then(|draft| draft.check_within(folder))
        };
        let checked = check(&text).or_else(|refusal| {
            let idle = refusal.key() == "flow" && refusal.found() == "nothing";
            let Some((from, to)) = self.far_apart().filter(|_| idle) else {
                return Err(refusal);
            };
            notes.push(format!(
                "it has no traffic: a probe from `{from}` to `{to}` was added; write [[flow]] or \
                 [[app]] tables for more"
            ));
            let (from, to) = (string(from), string(to));
            let probe = format!("[[probe]]\nname = \"ping\"\nfrom = {from}\nto = {to}\n");
            check(&self.to_toml(&given, &probe).0)
        });
        let plan = checked.map_err(|refusal| self.placed(&refusal, source, first))?;
        for command in &plan.commands {
            notes.push(format!(
                "live runs of it start a program: {} (command/{})",
                command.run.join(" "),
                command.name
            ));
        }
        Ok((plan, notes))
    }

    /// Takes out nodes that no link ends at.
    fn leave_out_unlinked(&mut self, notes: &mut Vec<String>) {
        let links = &self.links;
        let ends: std::collections::BTreeSet<&str> = (links.iter())
            .flat_map(|link| link.ends.iter().map(String::as_str))
            .collect();
        let alone = |node: &Node| !ends.contains(node.name.as_str());
        let names: Vec<_> = (self.nodes.iter().filter(|node| alone(node)))
            .map(|node| format!("`{}`", node.name))
            .collect();
        if !names.is_empty() {
            let shown = names.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
            let more = match names.len().saturating_sub(8) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            notes.push(format!("left out, as no link ends there: {shown}{more}"));
            self.nodes.retain(|node| ends.contains(node.name.as_str()));
        }
    }

    /// The root keys of the rest.
    fn given(&self, source: &Source<'_>) -> Result<Vec<String>, Refusal> {
        let rest = &self.rest;
        let table = toml::de::DeTable::parse(&rest.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let found = format!("what is no TOML: {}", error.message());
            source.refuse(
                rest.at(at, source),
                "scenario",
                found,
                "tables of a scenario",
            )
        })?;
        let mut given = Vec::new();
        for key in table.get_ref().keys() {
            let name = key.get_ref().to_string();
            if OWN_TABLES.contains(&name.as_str()) {
                let span = rest.at(key.span().start, source);
                let allowed = "keys of a scenario other than version, kind, host, router and link, \
                               which the descriptor says itself";
                return Err(source.refuse(span, "scenario", format!("`{name}`"), allowed));
            }
            given.push(name);
        }
        Ok(given)
    }

    /// The scenario's file with `more` tables, and the number of the line before the rest.
    fn to_toml(&self, given: &[String], more: &str) -> (String, usize) {
        let mut file = "version = 1\n".to_owned();
        let lacks = |key: &str| !given.iter().any(|given| given == key);
        if lacks("name") {
            writeln!(file, "name = {}", string(&self.name)).ok();
        }
        if lacks("duration") {
            writeln!(file, "duration = \"{DURATION}\"").ok();
        }
        let before = file.lines().count();
        file.push_str(&self.rest.text);
        file.push('\n');
        let between = self.between_others();
        for node in &self.nodes {
            let values = [("is", &node.is), ("ipv4", &node.ipv4), ("ipv6", &node.ipv6)];
            if node.router.is_none() && values.iter().all(|(_, value)| value.is_none()) {
                continue;
            }
            let forwards = || between.get(node.name.as_str()) == Some(&true);
            let table = match node.router.unwrap_or_else(forwards) {
                true => "router",
                false => "host",
            };
            writeln!(file, "[[{table}]]\nname = {}", string(&node.name)).ok();
            for (key, value) in values {
                if let Some(value) = value {
                    writeln!(file, "{key} = {}", string(&value.text)).ok();
                }
            }
        }
        for link in &self.links {
            let list = |words: &[String]| {
                let words: Vec<_> = words.iter().map(|words| string(words)).collect();
                format!("[{}]", words.join(", "))
            };
            let name = string(&link.name);
            writeln!(file, "[[link]]\nname = {name}\nends = {}", list(&link.ends)).ok();
            if let Some(mtu) = link.mtu {
                writeln!(file, "mtu = {mtu}").ok();
            }
            if link.kernel {
                file.push_str("datapath = \"kernel\"\n");
            }
            writeln!(file, "up = {}\ndown = {}", list(&link.up), list(&link.down)).ok();
        }
        file.push_str(more);
        (file, before)
    }

    /// The refusal of the scenario, where the descriptor has what is refused. Its rest begins
    /// behind the `first`th line.
    fn placed(&self, refusal: &Refusal, source: &Source<'_>, first: usize) -> Refusal {
        let rest = refusal.line_and_column().and_then(|(line, column)| {
            let line = line.checked_sub(first + 1)?;
            let start = *self.rest.lines.get(line)?;
            let here = source.text[start..].lines().next().unwrap_or("");
            let at = here.char_indices().nth(column - 1).map_or(0, |(at, _)| at);
            let end = here[at..].find([' ', ',', ']']).unwrap_or(here.len() - at);
            Some(start + at..start + at + end)
        });
        let span = rest.unwrap_or_else(|| self.place_of(refusal, source));
        let again = source.refuse(span, refusal.key(), refusal.found(), refusal.allowed());
        match refusal.advice() {
            Some(advice) => again.with_help(advice),
            None => again,
        }
    }

    /// Where the table of a refusal's key is.
    fn place_of(&self, refusal: &Refusal, source: &Source<'_>) -> Range<usize> {
        let mut parts = refusal.key().split('/');
        let (kind, name) = (parts.next(), parts.next().unwrap_or(""));
        let span = match kind {
            Some("link") => {
                let link = self.links.iter().find(|link| link.name == name);
                link.map(|link| match parts.next() {
                    Some("up") => link.up_at.clone(),
                    Some("down") => link.down_at.clone(),
                    _ => link.at.clone(),
                })
            }
            Some("host" | "router") => {
                let node = self.nodes.iter().find(|node| node.name == name);
                node.map(|node| {
                    let value = match parts.next() {
                        Some("is") => &node.is,
                        Some("ipv4") => &node.ipv4,
                        Some("ipv6") => &node.ipv6,
                        _ => &None,
                    };
                    value
                        .as_ref()
                        .map_or(node.at.clone(), |value| value.at.clone())
                })
            }
            _ => None,
        };
        let span = span.unwrap_or(0..source.text.len());
        let quoted = refusal.found().split('`').nth(1).unwrap_or("");
        source.find(quoted, span)
    }

    /// Of each node whether links join it with two others or more.
    fn between_others(&self) -> BTreeMap<&str, bool> {
        let mut first: BTreeMap<&str, &str> = BTreeMap::new();
        let mut between = BTreeMap::new();
        for Link { ends: [a, b], .. } in &self.links {
            for (here, there) in [(a, b), (b, a)] {
                let other = *first.entry(here).or_insert(there);
                *between.entry(here.as_str()).or_insert(false) |= other != there;
            }
        }
        between
    }

    /// Two hosts with a way between them, as long a one as there is from the first host.
    fn far_apart(&self) -> Option<(&str, &str)> {
        let mut forwards = self.between_others();
        for node in &self.nodes {
            if let (Some(router), Some(said)) = (node.router, forwards.get_mut(node.name.as_str()))
            {
                *said = router;
            }
        }
        let mut towards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Link { ends: [a, b], .. } in &self.links {
            towards.entry(a).or_default().push(b);
            towards.entry(b).or_default().push(a);
        }
        let ends = || self.links.iter().flat_map(|link| &link.ends);
        let host = ends().find(|end| forwards.get(end.as_str()) == Some(&false));
        let from = host.or_else(|| ends().next())?.as_str();
        let (mut open, mut far) = (VecDeque::from([from]), None);
        let mut seen = std::collections::BTreeSet::from([from]);
        while let Some(here) = open.pop_front() {
            let through = here == from || forwards.get(here) == Some(&true);
            if here != from && (far.is_none() || !through) {
                far = Some(here);
            }
            for there in towards.get(here).into_iter().flatten().filter(|_| through) {
                if seen.insert(there) {
                    open.push_back(there);
                }
            }
        }
        Some((from, far?))
    }
}

impl Rest {
    /// The bytes of the source that have the byte at `offset` of the rest.
    fn at(&self, offset: usize, source: &Source<'_>) -> Range<usize> {
        let before = &self.text[..offset.min(self.text.len())];
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count();
        let Some(line) = self.lines.get(line).or(self.lines.last()) else {
            return 0..0;
        };
        let at = line + before.len() - start;
        at.min(source.text.len())..at.min(source.text.len())
    }
}

/// A string of TOML.
fn string(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
