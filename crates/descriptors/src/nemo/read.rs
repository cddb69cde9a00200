//! From intents to an outline.

use std::collections::BTreeMap;

use narrows_scenario::{Refusal, is_name, nearest};
use narrows_yaml::quoted;

use super::flatten::{Flat, FlatLink, Models, Vnfc};
use super::parse::{Properties, parse};
use crate::outline::{Link, Node, Outline, Rest, Text};
use crate::source::Source;

/// Properties of a node that mean something here.
const OF_NODES: [&str; 5] = ["narrows-name", "narrows-role", "narrows-is", "ipv4", "ipv6"];

/// Properties of a connection that mean something here.
const OF_LINKS: [&str; 5] = [
    "narrows-name",
    "narrows-up",
    "narrows-down",
    "narrows-datapath",
    "mtu",
];

/// The properties of the node that is created.
const OF_SERVICES: [&str; 2] = ["narrows-scenario", "narrows-name"];

/// The services that intents create, flat.
///
/// # Errors
/// What is wrong in them.
pub(crate) fn services(source: &Source<'_>) -> Result<Vec<Flat>, Refusal> {
    let intents = parse(source)?;
    let models = Models::check(source, &intents)?;
    let flat = intents
        .nodes
        .iter()
        .map(|node| models.flatten(source, node));
    let flat: Vec<_> = flat.collect::<Result<_, _>>()?;
    if flat.is_empty() {
        let allowed = "a statement `CREATE Node NAME Type MODEL;`, which creates the service";
        let end = source.text.len();
        return Err(source.refuse(end..end, "", "no node that is created", allowed));
    }
    Ok(flat)
}

/// Reads intents: an outline, what to know about it, and the services flat.
///
/// # Errors
/// What is wrong in them.
pub(crate) fn read(source: &Source<'_>) -> Result<(Outline, Vec<String>, Vec<Flat>), Refusal> {
    let services = services(source)?;
    let mut reader = Reader {
        source,
        outline: Outline::default(),
        notes: Vec::new(),
        others: BTreeMap::new(),
    };
    let names: Vec<_> = services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    reader.outline.name = names.join("-").chars().take(200).collect();
    let several = services.len() > 1;
    for service in &services {
        reader.service(service, several)?;
    }
    for (key, (count, line)) in reader.others {
        reader.notes.push(format!(
            "the property {} ({count} times, first in line {line}) has no counterpart and is left \
             out",
            quoted(&key)
        ));
    }
    Ok((reader.outline, reader.notes, services))
}

struct Reader<'s, 't> {
    source: &'s Source<'t>,
    outline: Outline,
    notes: Vec<String>,
    /// Properties that mean nothing here: how often, and in which line first.
    others: BTreeMap<String, (usize, usize)>,
}

impl Reader<'_, '_> {
    fn service(&mut self, service: &Flat, several: bool) -> Result<(), Refusal> {
        let source = self.source;
        let alone = matches!(&service.vnfcs[..], [leaf] if leaf.name == service.name);
        if !alone {
            self.known(&service.properties, &OF_SERVICES)?;
        }
        if let Some(text) = one(source, &service.properties, "narrows-scenario")? {
            if !self.outline.rest.text.is_empty() {
                let allowed = "one scenario in a file";
                return Err(source.refuse(text.at, "", "a second `narrows-scenario`", allowed));
            }
            // Behind the quotes the text begins; its lines are looked for where they stand.
            let quotes = source.text[text.at.clone()]
                .chars()
                .take_while(|c| *c == '"')
                .count();
            let quotes = if quotes >= 3 { 3 } else { 1 };
            let skipped = usize::from(source.text[text.at.start + quotes..].starts_with('\n'));
            let begin = (text.at.start + quotes + skipped).min(source.text.len());
            let lines = source.lines_of(&text.text, begin);
            self.outline.rest = Rest {
                text: text.text,
                lines,
            };
        }
        if let Some(name) = one(source, &service.properties, "narrows-name")?.filter(|_| !alone) {
            self.outline.name = name.text;
        }
        let of = |name: &str| match several {
            true => format!("{}.{name}", service.name),
            false => name.to_owned(),
        };
        let mut names = Vec::new();
        for vnfc in &service.vnfcs {
            let node = self.node(vnfc, &of(&vnfc.name))?;
            let taken = self
                .outline
                .nodes
                .iter()
                .find(|other| other.name == node.name);
            if let Some(taken) = taken {
                let name = Text {
                    text: node.name.clone(),
                    at: node.at,
                };
                return Err(super::parse::twice(source, &name, &taken.at));
            }
            names.push(node.name.clone());
            self.outline.nodes.push(node);
        }
        for link in &service.links {
            let link = self.link(link, &of(&link.name), &names)?;
            self.outline.links.push(link);
        }
        let ports = service.ports.iter().map(|port| {
            let vnfc = &service.vnfcs[port.end.0];
            format!(
                "`{}` ({}.{})",
                port.name, vnfc.name, vnfc.ports[port.end.1].0
            )
        });
        let ports: Vec<_> = ports.collect();
        if !ports.is_empty() {
            self.notes.push(format!(
                "ports of `{}` lead out of it, and to nothing in the scenario: {}",
                service.name,
                shortened(&ports)
            ));
        }
        if !service.open.is_empty() {
            let open: Vec<_> = service
                .open
                .iter()
                .map(|port| format!("`{port}`"))
                .collect();
            let notes = format!("ports that no connection ends at: {}", shortened(&open));
            self.notes.push(notes);
        }
        Ok(())
    }

    /// Notes properties that are none of `known`; refuses ours with a slip.
    fn known(&mut self, properties: &Properties, known: &[&str]) -> Result<(), Refusal> {
        for (key, (at, _)) in properties {
            if known.contains(&key.as_str()) {
                continue;
            }
            if key.starts_with("narrows") {
                let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
                let refusal = self
                    .source
                    .refuse(at.clone(), "", quoted(key), names.join(", "));
                return Err(match nearest(key, known.iter().copied()) {
                    Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                    None => refusal,
                });
            }
            let line = self.source.line_of(at.start);
            let (count, first) = self.others.entry(key.clone()).or_insert((0, line));
            *count += 1;
            *first = (*first).min(line);
        }
        Ok(())
    }

    fn node(&mut self, vnfc: &Vnfc, name: &str) -> Result<Node, Refusal> {
        let source = self.source;
        let properties = &vnfc.properties;
        self.known(properties, &OF_NODES)?;
        let name = one(source, properties, "narrows-name")?.unwrap_or_else(|| Text {
            text: name.to_owned(),
            at: vnfc.at.clone(),
        });
        if !is_name(&name.text) {
            let allowed = "a name of letters, digits, `_`, `-` and `.`, of up to 64 characters with \
                           the names of what it is in";
            return Err(source.refuse(name.at, "", quoted(&name.text), allowed));
        }
        let role = one(source, properties, "narrows-role")?;
        let router = match role.as_ref().map(|role| role.text.as_str()) {
            None => None,
            Some("router") => Some(true),
            Some("host") => Some(false),
            Some(other) => {
                let at = role.as_ref().map_or(0..0, |role| role.at.clone());
                return Err(source.refuse(at, "", quoted(other), "`host` or `router`"));
            }
        };
        let is = one(source, properties, "narrows-is")?;
        Ok(Node {
            name: name.text,
            router: router.or_else(|| is.as_ref().map(|_| true)),
            is,
            ipv4: one(source, properties, "ipv4")?,
            ipv6: one(source, properties, "ipv6")?,
            at: vnfc.at.clone(),
        })
    }

    fn link(&mut self, flat: &FlatLink, name: &str, names: &[String]) -> Result<Link, Refusal> {
        let source = self.source;
        let at = flat
            .made_of
            .first()
            .map_or(0..0, |(connection, _)| connection.name.at.clone());
        let mut link = Link {
            name: name.to_owned(),
            ends: flat.ends.map(|(vnfc, _)| names[vnfc].clone()),
            at: at.clone(),
            up_at: at.clone(),
            down_at: at,
            ..Link::default()
        };
        let mut down = Vec::new();
        for (connection, forward) in &flat.made_of {
            let properties = &connection.properties;
            self.known(properties, &OF_LINKS)?;
            if let Some(name) = one(source, properties, "narrows-name")? {
                link.name = name.text;
            }
            for key in ["narrows-up", "narrows-down"] {
                let Some((at, values)) = properties.get(key) else {
                    continue;
                };
                let is_empty = |value: &&Text| value.text.trim().is_empty();
                if let Some(empty) = values.iter().find(is_empty).filter(|_| values.len() > 1) {
                    let (at, allowed) = (empty.at.clone(), "elements, with a comma between two");
                    return Err(source.refuse(at, key, "an empty element", allowed));
                }
                let values = values.iter().map(|value| value.text.clone());
                let values: Vec<_> = values.filter(|words| !words.trim().is_empty()).collect();
                let span = at.start..properties_end(properties, key);
                // A connection that is passed from its second end has its ways exchanged.
                if (key == "narrows-up") == *forward {
                    link.up.extend(values);
                    link.up_at = span;
                } else {
                    down.push(values);
                    link.down_at = span;
                }
            }
            if let Some(mtu) = one(source, properties, "mtu")? {
                let Some(number) = crate::mtu(&mtu.text) else {
                    return Err(source.refuse(mtu.at, "mtu", quoted(&mtu.text), crate::MTU));
                };
                link.mtu = Some(link.mtu.map_or(number, |other| other.min(number)));
            }
            if let Some(datapath) = one(source, properties, "narrows-datapath")? {
                link.kernel = match datapath.text.as_str() {
                    "kernel" => true,
                    "narrows" => false,
                    other => {
                        let allowed = "`narrows` or `kernel`";
                        return Err(source.refuse(datapath.at, "", quoted(other), allowed));
                    }
                };
            }
        }
        link.down = down.into_iter().rev().flatten().collect();
        if !is_name(&link.name) {
            let allowed = "a name of letters, digits, `_`, `-` and `.`, of up to 64 characters";
            return Err(source.refuse(link.at, "", quoted(&link.name), allowed));
        }
        Ok(link)
    }
}

/// Where the values of a property end.
fn properties_end(properties: &Properties, key: &str) -> usize {
    let values = properties.get(key).map(|(_, values)| values);
    values
        .and_then(|values| values.last())
        .map_or(0, |value| value.at.end)
}

/// The only value of a property, which may be left out.
fn one(source: &Source<'_>, properties: &Properties, key: &str) -> Result<Option<Text>, Refusal> {
    match properties.get(key) {
        None => Ok(None),
        Some((_, values)) if values.len() == 1 => Ok(values.first().cloned()),
        Some((at, values)) => {
            let found = format!("{} values of {}", values.len(), quoted(key));
            Err(source.refuse(at.clone(), "", found, "one value"))
        }
    }
}

fn shortened(all: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = match all.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    all[..all.len().min(SHOWN)].join(", ") + &more
}
