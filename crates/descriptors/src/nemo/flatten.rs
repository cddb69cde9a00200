//! Models in models as one flat descriptor: the leaves, and the links between them.

use std::collections::BTreeMap;
use std::ops::Range;

use narrows_scenario::{Refusal, nearest};
use narrows_yaml::quoted;

use super::parse::{Connection, End, Intents, Model, Node, Properties};
use crate::outline::Text;
use crate::source::Source;

/// Nodes of a service, those that are made of others with them (our choice; people write a handful).
const MOST_NODES: u64 = 10_000;

/// Models in each other (our choice).
const DEEPEST: u64 = 64;

/// A service without recursion: what is left of it when every model is replaced by its parts.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    /// The node that was created.
    pub name: String,
    /// Its model.
    pub model: String,
    /// The leaves, named by the way to them: `dmz.firewall`.
    pub vnfcs: Vec<Vnfc>,
    /// Links between two of them.
    pub links: Vec<FlatLink>,
    /// Ports that lead out of the service.
    pub ports: Vec<FlatPort>,
    /// Ports of leaves that lead nowhere: `dmz.firewall.east`.
    pub open: Vec<String>,
    pub(crate) properties: Properties,
}

impl Flat {
    /// Its properties, and those of its leaves and of the connections between them: of what, and
    /// the key.
    pub(crate) fn properties(&self) -> Vec<(&str, &str)> {
        let own = (self.name.as_str(), &self.properties);
        let leaves = (self.vnfcs.iter())
            .filter(|leaf| leaf.name != self.name)
            .map(|leaf| (leaf.name.as_str(), &leaf.properties));
        let links = self.links.iter().flat_map(|link| {
            let made_of = link.made_of.iter();
            made_of.map(|(part, _)| (link.name.as_str(), &part.properties))
        });
        let all = std::iter::once(own).chain(leaves).chain(links);
        let mut all: Vec<_> = all
            .flat_map(|(of, keys)| keys.keys().map(move |key| (of, key.as_str())))
            .collect();
        all.dedup();
        all
    }
}

/// A leaf of a service.
#[derive(Clone, Debug)]
pub struct Vnfc {
    /// The names of the nodes that it is in, and its own, with points between them.
    pub name: String,
    /// Its model.
    pub model: String,
    /// The address of its descriptor, which is not opened.
    pub vnfd: String,
    /// Its ports, and the interface of the descriptor that each is.
    pub ports: Vec<(String, String)>,
    pub(crate) properties: Properties,
    pub(crate) at: Range<usize>,
}

/// A link between ports of two leaves.
#[derive(Clone, Debug)]
pub struct FlatLink {
    /// Its name, by the way to the outermost connection that it is made of.
    pub name: String,
    /// Leaf and port of both ends, as places in [`Flat::vnfcs`] and [`Vnfc::ports`].
    pub ends: [(usize, usize); 2],
    /// The connections that it is made of in order, and whether each is passed from its first end
    /// to its second.
    pub(crate) made_of: Vec<(Connection, bool)>,
    /// The outermost of them among all of the service.
    place: usize,
}

/// A port that leads out of a service.
#[derive(Clone, Debug)]
pub struct FlatPort {
    /// As the outermost model calls it.
    pub name: String,
    /// Leaf and port, as places in [`Flat::vnfcs`] and [`Vnfc::ports`].
    pub end: (usize, usize),
}

/// Models by name, checked.
pub(crate) struct Models<'i> {
    by_name: BTreeMap<&'i str, &'i Model>,
    /// Places of the ports of each model.
    ports: BTreeMap<&'i str, BTreeMap<&'i str, usize>>,
}

impl<'i> Models<'i> {
    /// Those of `intents`.
    ///
    /// # Errors
    /// Models, nodes and ports of which there are none, ports of two connections, models in
    /// themselves, and more of them in each other than can be meant.
    pub fn check(source: &Source<'_>, intents: &'i Intents) -> Result<Self, Refusal> {
        let by_name = intents
            .models
            .iter()
            .map(|model| (model.name.text.as_str(), model));
        let ports = intents.models.iter().map(|model| {
            let ports = model.ports.iter().enumerate();
            let ports = ports.map(|(place, port)| (port.name.text.as_str(), place));
            (model.name.text.as_str(), ports.collect())
        });
        let models = Self {
            by_name: by_name.collect(),
            ports: ports.collect(),
        };
        let mut sizes = Sizes::default();
        for model in &intents.models {
            models.measure(source, model, &mut sizes)?;
        }
        for model in &intents.models {
            models.connections(source, model)?;
        }
        for node in &intents.nodes {
            let model = models.named(source, &node.model)?;
            let (inside, depth) = sizes.0[model.name.text.as_str()];
            if inside > MOST_NODES || depth > DEEPEST {
                let found = format!("{inside} nodes in {depth} levels");
                let allowed = format!("at most {MOST_NODES} nodes and {DEEPEST} levels");
                return Err(source.refuse(node.model.at.clone(), "", found, allowed));
            }
        }
        Ok(models)
    }

    fn named(&self, source: &Source<'_>, name: &Text) -> Result<&'i Model, Refusal> {
        self.by_name
            .get(name.text.as_str())
            .copied()
            .ok_or_else(|| {
                let found = format!("the unknown model {}", quoted(&name.text));
                let refusal = source.refuse(name.at.clone(), "", found, "the name of a model");
                match nearest(&name.text, self.by_name.keys().copied()) {
                    Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                    None => refusal,
                }
            })
    }

    /// Nodes and levels of a model, and of all models in it. Without recursion, which a chain of
    /// thousands of models would exhaust.
    fn measure(
        &self,
        source: &Source<'_>,
        first: &'i Model,
        sizes: &mut Sizes<'i>,
    ) -> Result<(), Refusal> {
        // Models on the way, each with the next of its nodes.
        let mut way: Vec<(&Model, usize)> = vec![(first, 0)];
        let mut open: std::collections::BTreeSet<&str> = [first.name.text.as_str()].into();
        while let Some((model, next)) = way.pop() {
            let name = model.name.text.as_str();
            if sizes.0.contains_key(name) {
                open.remove(name);
                continue;
            }
            let Some(node) = model.nodes.get(next) else {
                open.remove(name);
                let inner = model
                    .nodes
                    .iter()
                    .filter_map(|n| sizes.0.get(n.model.text.as_str()));
                let (inside, depth) = inner.fold((0_u64, 0), |(inside, depth), (n, d)| {
                    (inside.saturating_add(*n), depth.max(*d))
                });
                sizes.0.insert(name, (inside.saturating_add(1), depth + 1));
                continue;
            };
            let inner = self.named(source, &node.model)?;
            way.push((model, next + 1));
            let inner_name = inner.name.text.as_str();
            if sizes.0.contains_key(inner_name) {
                continue;
            }
            if !open.insert(inner_name) {
                let found = format!("the model {} in itself", quoted(inner_name));
                let allowed = "models that are not in themselves, by no way round";
                return Err(source.refuse(node.model.at.clone(), "", found, allowed));
            }
            way.push((inner, 0));
        }
        Ok(())
    }

    /// That each connection of a model ends at two ports that there are, and no port at two.
    fn connections(&self, source: &Source<'_>, model: &Model) -> Result<(), Refusal> {
        let nodes = model
            .nodes
            .iter()
            .map(|node| (node.name.text.as_str(), node));
        let nodes: BTreeMap<&str, &Node> = nodes.collect();
        let own = &self.ports[model.name.text.as_str()];
        let mut taken: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for end in model
            .connections
            .iter()
            .flat_map(|connection| &connection.ends)
        {
            let unknown = |name: &Text, what: &str, known: Vec<&str>| {
                let found = format!("the unknown {what} {}", quoted(&name.text));
                let listed: Vec<_> = known
                    .iter()
                    .take(24)
                    .map(|name| format!("`{name}`"))
                    .collect();
                let allowed = match listed.is_empty() {
                    true => format!("nothing, as there is no {what}"),
                    false => listed.join(", "),
                };
                let refusal = source.refuse(name.at.clone(), "", found, allowed);
                match nearest(&name.text, known) {
                    Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                    None => refusal,
                }
            };
            let port = &end.port;
            let of = match &end.node {
                None if own.contains_key(port.text.as_str()) => "",
                None => {
                    return Err(unknown(port, "port", own.keys().copied().collect()));
                }
                Some(name) => {
                    let Some(node) = nodes.get(name.text.as_str()) else {
                        return Err(unknown(name, "node", nodes.keys().copied().collect()));
                    };
                    let inner = self.named(source, &node.model)?;
                    let ports = &self.ports[inner.name.text.as_str()];
                    if !ports.contains_key(port.text.as_str()) {
                        return Err(unknown(port, "port", ports.keys().copied().collect()));
                    }
                    name.text.as_str()
                }
            };
            if let Some(line) = taken.insert((of, &port.text), source.line_of(port.at.start)) {
                let whole = match &end.node {
                    Some(node) => format!("{}.{}", node.text, port.text),
                    None => port.text.clone(),
                };
                let found = format!("the port {} for the second time", quoted(&whole));
                let refusal =
                    source.refuse(port.at.clone(), "", found, "each port at one connection");
                return Err(refusal.with_help(format!("a connection in line {line} ends there")));
            }
        }
        Ok(())
    }

    /// The service that `node` is.
    ///
    /// # Errors
    /// A model that there is not.
    pub fn flatten(&self, source: &Source<'_>, node: &Node) -> Result<Flat, Refusal> {
        let model = self.named(source, &node.model)?;
        let mut wires = Wires::default();
        let mut flat = Flat {
            name: node.name.text.clone(),
            model: model.name.text.clone(),
            properties: node.properties.clone(),
            ..Flat::default()
        };
        let outer = self.unfold(source, node, "", 0, &mut wires, &mut flat)?;
        let mut outer_ports = BTreeMap::new();
        for (port, place) in model.ports.iter().zip(&outer) {
            outer_ports.insert(*place, port.name.text.as_str());
        }
        if model.vnfd.is_some() {
            // A leaf alone: all of its ports lead out.
            let ports = 0..model.ports.len();
            flat.ports = ports
                .map(|port| FlatPort {
                    name: model.ports[port].name.text.clone(),
                    end: (0, port),
                })
                .collect();
            return Ok(flat);
        }
        wires.follow(&mut flat, &outer_ports);
        Ok(flat)
    }

    /// Unfolds a node under the name `path`, and gives the places of its ports.
    fn unfold(
        &self,
        source: &Source<'_>,
        node: &Node,
        path: &str,
        level: usize,
        wires: &mut Wires,
        flat: &mut Flat,
    ) -> Result<Vec<usize>, Refusal> {
        let model = self.named(source, &node.model)?;
        let first = wires.ports.len();
        let leaf = model.vnfd.as_ref().map(|_| flat.vnfcs.len());
        wires
            .ports
            .extend((0..model.ports.len()).map(|port| WirePort {
                leaf: leaf.map(|leaf| (leaf, port)),
                wires: Vec::new(),
            }));
        let own: Vec<usize> = (first..wires.ports.len()).collect();
        if let Some(vnfd) = &model.vnfd {
            let interface = |port: &super::parse::Port| {
                let interface = port.interface.as_ref();
                interface.map_or(String::new(), |interface| interface.text.clone())
            };
            flat.vnfcs.push(Vnfc {
                name: if path.is_empty() {
                    node.name.text.clone()
                } else {
                    path.to_owned()
                },
                model: model.name.text.clone(),
                vnfd: vnfd.clone(),
                ports: (model.ports.iter())
                    .map(|p| (p.name.text.clone(), interface(p)))
                    .collect(),
                properties: node.properties.clone(),
                at: node.name.at.clone(),
            });
            return Ok(own);
        }
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let mut inner: BTreeMap<&str, (&Model, Vec<usize>)> = BTreeMap::new();
        for node in &model.nodes {
            let ports = self.unfold(
                source,
                node,
                &below(&node.name.text),
                level + 1,
                wires,
                flat,
            )?;
            inner.insert(&node.name.text, (self.named(source, &node.model)?, ports));
        }
        let place = |end: &End| {
            let (model, ports) = match &end.node {
                None => (model, &own),
                Some(node) => {
                    let (model, ports) = inner.get(node.text.as_str())?;
                    (*model, ports)
                }
            };
            let port = self
                .ports
                .get(model.name.text.as_str())?
                .get(end.port.text.as_str())?;
            ports.get(*port).copied()
        };
        for connection in &model.connections {
            let [Some(a), Some(b)] = [place(&connection.ends[0]), place(&connection.ends[1])]
            else {
                continue;
            };
            let number = wires.all.len();
            wires.ports[a].wires.push(number);
            wires.ports[b].wires.push(number);
            wires.all.push(Wire {
                name: below(&connection.name.text),
                level,
                ends: [a, b],
                connection: connection.clone(),
            });
        }
        Ok(own)
    }
}

/// Nodes and levels of models by their names.
#[derive(Default)]
struct Sizes<'i>(BTreeMap<&'i str, (u64, u64)>);

/// A port of some node, leaf or not.
struct WirePort {
    leaf: Option<(usize, usize)>,
    /// One, or two where a connection inside meets one outside.
    wires: Vec<usize>,
}

struct Wire {
    name: String,
    level: usize,
    ends: [usize; 2],
    connection: Connection,
}

/// All connections of an unfolded service.
#[derive(Default)]
struct Wires {
    ports: Vec<WirePort>,
    all: Vec<Wire>,
}

impl Wires {
    /// Follows connections from each port of a leaf to the other end.
    fn follow(&self, flat: &mut Flat, outer: &BTreeMap<usize, &str>) {
        let mut done = vec![false; self.ports.len()];
        let mut ports = BTreeMap::new();
        for start in 0..self.ports.len() {
            let Some(leaf) = self.ports[start].leaf.filter(|_| !done[start]) else {
                continue;
            };
            let (mut at, mut way) = (start, Vec::new());
            loop {
                let last = way.last().map(|(wire, _)| *wire);
                let next = self.ports[at]
                    .wires
                    .iter()
                    .find(|wire| Some(**wire) != last);
                let Some(&wire) = next else {
                    break;
                };
                let forward = self.all[wire].ends[0] == at;
                way.push((wire, forward));
                at = self.all[wire].ends[usize::from(forward)];
                if self.ports[at].leaf.is_some() {
                    break;
                }
            }
            done[start] = true;
            done[at] = true;
            match (self.ports[at].leaf, outer.get(&at)) {
                (Some(other), _) if at != start => flat.links.push(self.link(leaf, other, &way)),
                (_, Some(name)) => {
                    let name = (*name).to_owned();
                    ports.insert(at, FlatPort { name, end: leaf });
                }
                _ => {
                    let vnfc = &flat.vnfcs[leaf.0];
                    flat.open
                        .push(format!("{}.{}", vnfc.name, vnfc.ports[leaf.1].0));
                }
            }
        }
        // As the models have them.
        flat.links.sort_by_key(|link| link.place);
        flat.ports = ports.into_values().collect();
    }

    /// The link that these connections are. It runs as the outermost of them does.
    fn link(&self, from: (usize, usize), to: (usize, usize), way: &[(usize, bool)]) -> FlatLink {
        let outermost = way
            .iter()
            .min_by_key(|(wire, _)| (self.all[*wire].level, *wire));
        let name = outermost.map_or(String::new(), |(wire, _)| self.all[*wire].name.clone());
        let forward = outermost.is_none_or(|(_, forward)| *forward);
        let mut made_of: Vec<_> = (way.iter())
            .map(|(wire, passed)| (self.all[*wire].connection.clone(), *passed))
            .collect();
        let mut ends = [from, to];
        if !forward {
            ends.reverse();
            made_of.reverse();
            made_of
                .iter_mut()
                .for_each(|(_, passed)| *passed = !*passed);
        }
        FlatLink {
            name,
            ends,
            made_of,
            place: outermost.map_or(0, |(wire, _)| *wire),
        }
    }
}
