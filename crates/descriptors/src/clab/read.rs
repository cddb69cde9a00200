//! From a topology file to an outline.

use std::collections::{BTreeMap, BTreeSet};

use narrows_scenario::{Refusal, is_name, nearest};
use narrows_yaml::{Bounds, Node as Yaml, Value, quoted};

use super::KINDS;
use super::fields::{Fields, Kept, elements, literal, text, variable, without_variables, wrong};
use crate::outline::{Link, Node, Outline, Rest, Text};
use crate::source::Source;

/// Words of an endpoint that are no node (containerlab, manual/topo-def-file, "links").
const SPECIAL: [&str; 6] = [
    "host",
    "mgmt-net",
    "macvlan",
    "vxlan",
    "vxlan-stitch",
    "dummy",
];

/// Our labels of a node.
const OF_NODES: [&str; 5] = ["name", "role", "is", "ipv4", "ipv6"];

/// Our labels and variables of a link.
const OF_LINKS: [&str; 4] = ["name", "up", "down", "datapath"];

/// What reading goes on with.
struct Reader<'s, 't> {
    source: &'s Source<'t>,
    kept: Kept,
    /// Of environment variables in the scenario, a sentence each.
    variables: Vec<String>,
    outline: Outline,
    /// Nodes by the names of the topology, as places in the outline.
    nodes: BTreeMap<String, usize>,
    /// Interfaces that a link ends at.
    taken: BTreeSet<(usize, String)>,
    /// Interfaces of each node so far.
    interfaces: BTreeMap<usize, usize>,
}

/// Reads a topology, and what to know about it.
///
/// # Errors
/// What is no topology, and what of it has no counterpart that could be left out.
pub(crate) fn read(source: &Source<'_>) -> Result<(Outline, Vec<String>), Refusal> {
    let root = narrows_yaml::parse(source.text, Bounds::default())
        .map_err(|fault| source.refuse(source.word(fault.at), "", fault.found, fault.allowed))?;
    let root = Fields::of(source, "", &root)?;
    let mut reader = Reader {
        source,
        kept: Kept::default(),
        variables: Vec::new(),
        outline: Outline::default(),
        nodes: BTreeMap::new(),
        taken: BTreeSet::new(),
        interfaces: BTreeMap::new(),
    };
    root.note_others(&mut reader.kept, &["name", "topology"], "the file");
    let name = root.text(source, "name")?.map(|name| name.text);
    reader.outline.name = name.unwrap_or_else(|| "topology".to_owned());
    let Some(topology) = root.map(source, "topology")? else {
        let allowed = "the key `topology` with nodes and links";
        return Err(source.refuse(0..0, "topology", "nothing", allowed));
    };
    let known = ["nodes", "links", "kinds", "groups", "defaults"];
    topology.note_others(&mut reader.kept, &known, "the topology");
    reader.rest(&topology)?;
    reader.nodes(&topology)?;
    reader.links(&topology)?;
    let mut notes = reader.kept.into_notes();
    notes.append(&mut reader.variables);
    Ok((reader.outline, notes))
}

/// What a node says itself or takes from its group, its kind or the defaults.
struct Layers<'n>(Vec<Fields<'n>>);

impl<'n> Layers<'n> {
    fn get(&self, key: &str) -> Option<&'n Yaml> {
        self.0.iter().find_map(|fields| fields.get(key))
    }
}

impl Reader<'_, '_> {
    /// The tables of the scenario that the topology has in a label.
    fn rest(&mut self, topology: &Fields<'_>) -> Result<(), Refusal> {
        let source = self.source;
        let Some(defaults) = topology.map(source, "defaults")? else {
            return Ok(());
        };
        let Some(labels) = defaults.map(source, "labels")? else {
            return Ok(());
        };
        let known: Vec<_> = ["scenario"].into_iter().chain(OF_NODES).collect();
        let own = labels.own(source, &mut self.kept, &known, "defaults/labels")?;
        if let Some(node) = own.get("scenario") {
            let text = literal(source, "topology/defaults/labels/narrows/scenario", node)?;
            let lines = source.lines_of(&text.text, text.at.start);
            // A command of the scenario may have one of its own shell.
            for (line, at) in text.text.lines().zip(&lines) {
                if let Some(variable) = variable(line) {
                    self.variables.push(format!(
                        "{} in the label narrows/scenario (line {}) stays as it is, where containerlab \
                         would put the value of an environment variable",
                        quoted(variable),
                        source.line_of(*at)
                    ));
                }
            }
            self.outline.rest = Rest {
                text: text.text,
                lines,
            };
        }
        Ok(())
    }

    fn nodes(&mut self, topology: &Fields<'_>) -> Result<(), Refusal> {
        let source = self.source;
        let defaults = topology.map(source, "defaults")?;
        let kinds = topology.map(source, "kinds")?;
        let groups = topology.map(source, "groups")?;
        let of = ["kind", "labels", "group"];
        for (layer, of_what) in [(&kinds, "kinds"), (&groups, "groups")] {
            for (key, node) in layer.iter().flat_map(Fields::entries) {
                let fields = Fields::of(source, &format!("topology/{of_what}/{}", key.name), node)?;
                fields.note_others(&mut self.kept, &of, of_what);
            }
        }
        if let Some(defaults) = &defaults {
            defaults.note_others(&mut self.kept, &of, "defaults");
        }
        let Some(nodes) = topology.map(source, "nodes")? else {
            let at = source.word(topology.node.at);
            return Err(source.refuse(at, "topology/nodes", "nothing", "nodes and links"));
        };
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for (key, node) in nodes.entries() {
            let path = format!("topology/nodes/{}", key.name);
            let name = Text {
                text: key.name.to_string(),
                at: source.word(key.at),
            };
            without_variables(source, &path, &name)?;
            let own = Fields::of(source, &path, node)?;
            own.note_others(&mut self.kept, &of, "nodes");
            let part = |of: &Option<Fields<'_>>, name: Option<&str>| match (of, name) {
                (Some(of), Some(name)) => of.get(name).map(|node| (of.full(name), node.clone())),
                _ => None,
            };
            // A node is of its own group, or else of its kind's or the defaults'.
            let of_kind = part(&kinds, own.get("kind").and_then(Yaml::text));
            let of_kind = of_kind.and_then(|(_, kind)| kind.get("group").cloned());
            let of_defaults = || defaults.as_ref()?.get("group").cloned();
            let group = own.get("group").cloned().or(of_kind).or_else(of_defaults);
            let group = part(&groups, group.as_ref().and_then(Yaml::text));
            let mut layers = Layers(vec![own]);
            if let Some((path, node)) = &group {
                layers.0.push(Fields::of(source, path, node)?);
            }
            let of_defaults = defaults.as_ref().and_then(|fields| fields.get("kind"));
            let Some(kind) = layers.get("kind").or(of_defaults) else {
                let at = source.word(key.at);
                let allowed = "`kind: linux` or `kind: bridge`, here, in its group or in defaults";
                return Err(source.refuse(at, format!("{path}/kind"), "nothing", allowed));
            };
            let word = text(source, &format!("{path}/kind"), kind)?;
            if !KINDS.contains(&word.text.as_str()) {
                let allowed = "`linux` or `bridge`; a scenario has no counterpart of other kinds";
                let refusal = wrong(source, &format!("{path}/kind"), kind, allowed);
                return Err(match nearest(&word.text, KINDS) {
                    Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                    None => refusal,
                });
            }
            let of_kind = part(&kinds, Some(&word.text));
            if let Some((path, node)) = &of_kind {
                layers.0.push(Fields::of(source, path, node)?);
            }
            layers.0.extend(defaults.clone());
            let node = self.node(&key.name, source.word(key.at), &word.text, &layers)?;
            if let Some(before) = names.insert(node.name.clone(), source.line_of(node.at.start)) {
                let found = format!("the name `{}` for the second time", node.name);
                let refusal = source.refuse(node.at.clone(), path, found, "a name of its own");
                return Err(refusal.with_help(format!("line {before} has the same name")));
            }
            let place = self.outline.nodes.len();
            self.nodes.insert(key.name.to_string(), place);
            self.outline.nodes.push(node);
        }
        Ok(())
    }

    fn node(
        &mut self,
        key: &str,
        at: std::ops::Range<usize>,
        kind: &str,
        layers: &Layers<'_>,
    ) -> Result<Node, Refusal> {
        let source = self.source;
        let path = format!("topology/nodes/{key}");
        let mut own: BTreeMap<&str, Text> = BTreeMap::new();
        for fields in &layers.0 {
            let Some(labels) = fields.map(source, "labels")? else {
                continue;
            };
            let known: Vec<_> = ["scenario"].into_iter().chain(OF_NODES).collect();
            // Those of the defaults are noted where the scenario is read.
            let mut noted = Kept::default();
            let kept = match fields.path == "topology/defaults" {
                true => &mut noted,
                false => &mut self.kept,
            };
            for (name, node) in labels.own(source, kept, &known, "labels")? {
                // That is read with the other tables of the scenario.
                if name != "scenario" {
                    let value = text(source, &labels.full(name), node)?;
                    own.entry(name).or_insert(value);
                }
            }
        }
        let name = own.remove("name").unwrap_or_else(|| Text {
            text: key.to_owned(),
            at: at.clone(),
        });
        if !is_name(&name.text) {
            let allowed = "a name of letters, digits, `_`, `-` and `.`, of up to 64 characters, that \
                           begins with none of `-` and `.`";
            return Err(source.refuse(name.at, path, quoted(&name.text), allowed));
        }
        let said = own.remove("role");
        let router = match said.as_ref().map(|role| role.text.as_str()) {
            None if kind == "bridge" => Some(true),
            None => None,
            Some("router") => Some(true),
            Some("host") => Some(false),
            Some(other) => {
                let at = said.as_ref().map_or(at, |role| role.at.clone());
                return Err(source.refuse(at, path, quoted(other), "`host` or `router`"));
            }
        };
        Ok(Node {
            name: name.text,
            router: router.or_else(|| own.contains_key("is").then_some(true)),
            is: own.remove("is"),
            ipv4: own.remove("ipv4"),
            ipv6: own.remove("ipv6"),
            at,
        })
    }

    fn links(&mut self, topology: &Fields<'_>) -> Result<(), Refusal> {
        let source = self.source;
        let links = topology.list(source, "links")?;
        if links.is_empty() {
            let node = topology.get("links").unwrap_or(topology.node);
            let allowed = "a link between two nodes and more";
            let at = source.word(node.at);
            return Err(source.refuse(at, "topology/links", "no links", allowed));
        }
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for (number, node) in links.iter().enumerate() {
            let path = format!("topology/links/{}", number + 1);
            let fields = Fields::of(source, &path, node)?;
            let (mut link, said) = self.link(&fields, node)?;
            let mut count = 1;
            let base = link.name.clone();
            while let Some(before) = names.get(&link.name) {
                if said {
                    let found = format!("the name `{base}` for the second time");
                    let refusal = source.refuse(link.at, path, found, "a name of its own");
                    return Err(refusal.with_help(format!("line {before} has the same name")));
                }
                count += 1;
                link.name = format!("{base}-{count}");
            }
            names.insert(link.name.clone(), source.line_of(link.at.start));
            self.outline.links.push(link);
        }
        Ok(())
    }

    /// A link, and whether it has a name of its own.
    fn link(&mut self, fields: &Fields<'_>, node: &Yaml) -> Result<(Link, bool), Refusal> {
        let source = self.source;
        let kind = fields.text(source, "type")?;
        if let Some(kind) = kind.filter(|kind| !matches!(&*kind.text, "veth" | "veth-stitch")) {
            let allowed = "`veth`: links of other types lead out of the topology";
            let key = fields.full("type");
            return Err(source.refuse(kind.at, key, quoted(&kind.text), allowed));
        }
        let known = ["type", "endpoints", "mtu", "ipv4", "ipv6", "vars", "labels"];
        fields.note_others(&mut self.kept, &known, "links");
        let ends = fields.list(source, "endpoints")?;
        let [first, second] = ends else {
            let given = fields.get("endpoints").unwrap_or(node);
            let found = format!("{} endpoints", ends.len());
            let allowed = "two endpoints, such as [\"a:eth1\", \"b:eth1\"]";
            let at = source.word(given.at);
            return Err(source.refuse(at, fields.full("endpoints"), found, allowed));
        };
        let at = source.word(first.at);
        let places = [
            self.endpoint(fields, first)?,
            self.endpoint(fields, second)?,
        ];
        self.addresses(fields, places)?;
        let names = places.map(|place| self.outline.nodes[place].name.clone());
        let mut link = Link {
            name: short_name(&names),
            ends: names,
            mtu: None,
            at: at.clone(),
            up_at: at.clone(),
            down_at: at,
            ..Link::default()
        };
        if let Some(mtu) = fields.text(source, "mtu")? {
            link.mtu = crate::mtu(&mtu.text);
            if link.mtu.is_none() {
                let (key, found) = (fields.full("mtu"), quoted(&mtu.text));
                return Err(source.refuse(mtu.at, key, found, crate::MTU));
            }
        }
        let mut said = false;
        let mut before = std::collections::BTreeSet::new();
        for key in ["vars", "labels"] {
            let Some(given) = fields.map(source, key)? else {
                continue;
            };
            let of = format!("the {key} of links");
            for (name, node) in given.own(source, &mut self.kept, &OF_LINKS, &of)? {
                let full = given.full(&format!("{}{name}", super::PREFIX));
                if !before.insert(name) {
                    let allowed = "a key of ours once, in `vars` or in `labels`";
                    return Err(wrong(source, &full, node, allowed));
                }
                match name {
                    "up" => (link.up, link.up_at) = elements(source, &full, node)?,
                    "down" => (link.down, link.down_at) = elements(source, &full, node)?,
                    "name" => {
                        let name = text(source, &full, node)?;
                        if !is_name(&name.text) {
                            let allowed = "a name of letters, digits, `_`, `-` and `.`";
                            return Err(source.refuse(name.at, full, quoted(&name.text), allowed));
                        }
                        (link.name, said) = (name.text, true);
                    }
                    _ => match node.text() {
                        Some("kernel") => link.kernel = true,
                        Some("narrows") => link.kernel = false,
                        _ => return Err(wrong(source, &full, node, "`narrows` or `kernel`")),
                    },
                }
            }
        }
        Ok((link, said))
    }

    /// The node of an endpoint: `node:interface`, or a map with both.
    fn endpoint(&mut self, fields: &Fields<'_>, node: &Yaml) -> Result<usize, Refusal> {
        let source = self.source;
        let key = fields.full("endpoints");
        let (name, interface) = match &node.value {
            Value::Map(_) => {
                let map = Fields::of(source, &key, node)?;
                let known = ["node", "interface", "ipv4", "ipv6"];
                map.note_others(&mut self.kept, &known, "endpoints");
                let part = |part: &str| {
                    let given = map.text(source, part)?;
                    given.ok_or_else(|| {
                        let at = source.word(node.at);
                        source.refuse(at, map.full(part), "nothing", "a node and an interface")
                    })
                };
                (part("node")?, part("interface")?.text)
            }
            _ => {
                let given = text(source, &key, node)?;
                let parts = given
                    .text
                    .split_once(':')
                    .map(|(n, i)| (n.to_owned(), i.to_owned()));
                let whole = parts.filter(|(name, interface)| {
                    !name.is_empty()
                        && !interface.is_empty()
                        && !given.text.contains(char::is_whitespace)
                });
                let Some((name, interface)) = whole else {
                    return Err(wrong(
                        source,
                        &key,
                        node,
                        "`NODE:INTERFACE`, such as \"a:eth1\"",
                    ));
                };
                let at = source.find(&name, given.at.clone());
                (Text { text: name, at }, interface)
            }
        };
        let Some(place) = self.nodes.get(&name.text).copied() else {
            let special = SPECIAL.contains(&name.text.as_str());
            let allowed = match special {
                true => {
                    "a node of the topology: what leads to the machine itself has no counterpart"
                }
                false => "the name of a node of the topology",
            };
            let refusal = source.refuse(name.at, key, quoted(&name.text), allowed);
            let near = nearest(&name.text, self.nodes.keys().map(String::as_str));
            return Err(match near.filter(|_| !special) {
                Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                None => refusal,
            });
        };
        let count = self.interfaces.entry(place).or_default();
        *count += 1;
        if interface != format!("eth{count}") {
            let line = source.line_of(name.at.start);
            self.kept.note("the name of an interface".to_owned(), line);
        }
        if !self.taken.insert((place, interface.clone())) {
            let found = format!(
                "{} of {} a second time",
                quoted(&interface),
                quoted(&name.text)
            );
            return Err(source.refuse(name.at, key, found, "each interface at one link"));
        }
        Ok(place)
    }

    /// The addresses of the ends: of a node the first one counts.
    fn addresses(&mut self, fields: &Fields<'_>, places: [usize; 2]) -> Result<(), Refusal> {
        let source = self.source;
        for (key, six) in [("ipv4", false), ("ipv6", true)] {
            let of_link = fields.list(source, key)?;
            let ends = fields.list(source, "endpoints")?;
            for (side, (end, place)) in ends.iter().zip(places).enumerate() {
                let Some(given) = of_link.get(side).or_else(|| end.get(key)) else {
                    continue;
                };
                let given = text(source, &fields.full(key), given)?;
                if given.text.is_empty() {
                    continue;
                }
                let line = source.line_of(given.at.start);
                let address = given.text.split('/').next().unwrap_or("").to_owned();
                if address != given.text {
                    let what = "the length of an address's prefix".to_owned();
                    self.kept.note(what, line);
                }
                let node = &mut self.outline.nodes[place];
                let own = match six {
                    true => &mut node.ipv6,
                    false => &mut node.ipv4,
                };
                match own {
                    Some(own) if own.text == address => {}
                    Some(_) => {
                        let what = "an address of a node that has another one".to_owned();
                        self.kept.note(what, line);
                    }
                    None => {
                        *own = Some(Text {
                            text: address,
                            at: given.at,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// `a-b`, or what fits of it.
fn short_name(ends: &[String; 2]) -> String {
    // Names have up to 64 characters, of which a number takes some.
    let part = |name: &str| name.chars().take(28).collect::<String>();
    format!("{}-{}", part(&ends[0]), part(&ends[1]))
}
