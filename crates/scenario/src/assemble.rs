//! From the links of a plan to running elements.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_core::{DOWN, Port, UP};
use narrows_path::paths::{Link, Next, Planned, Stage};
use narrows_path::routes::{self, Routes};
use narrows_path::{OtherEnd, PortSite, Site};
use narrows_units::Instant;

use crate::names::{FAR, NEAR, NameTable};
use crate::plan::{FlowPlan, HostIndex, LinkPlan, NamedElement, Plan, TimedChange};

/// The stages of each element, by its full name, with its port at a node.
pub type Placed = BTreeMap<String, Vec<(u32, Port)>>;

/// What becomes of the links of a plan.
#[derive(Default)]
pub struct Assembled {
    /// The elements of all links, each direction in order of travel.
    pub stages: Vec<Stage>,
    /// The links, in the plan's order.
    pub links: Vec<Link>,
    /// The timed changes, in the plan's order.
    pub changes: Vec<Planned>,
    /// Where each element is.
    pub placed: Placed,
}

/// A change names an element that is not there, or has words that it does not
/// understand. A plan that was checked has none such.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change of {target} at {at}: {reason}")]
pub struct BadChange {
    /// The element.
    pub target: String,
    /// When.
    pub at: Instant,
    /// What is wrong.
    pub reason: String,
}

impl Plan {
    /// Which way packets go between its hosts, by their indices.
    pub fn routes(&self) -> Routes {
        let forwards: Vec<bool> = self.hosts.iter().map(|h| h.router).collect();
        routes::shortest(&forwards, &self.link_ends(), &[])
    }

    /// The two ends of each link, by their indices.
    pub(crate) fn link_ends(&self) -> Vec<(usize, usize)> {
        let ends = self.links.iter().map(|l| l.ends);
        ends.map(|(a, b)| (a.0, b.0)).collect()
    }

    /// The elements that packets from one host to another meet along `routes`,
    /// in order of travel, each with its link; none if no way leads there.
    pub fn elements_between(
        &self,
        routes: &Routes,
        from: HostIndex,
        to: HostIndex,
    ) -> impl Iterator<Item = (&LinkPlan, &NamedElement)> {
        let hops = routes.path(from.0, to.0).unwrap_or_default();
        hops.into_iter().flat_map(|hop| {
            let link = &self.links[hop.link];
            let elements = if hop.up { &link.up } else { &link.down };
            elements.iter().map(move |element| (link, element))
        })
    }
}

impl Plan {
    /// Between which hosts `flow`'s data go, in order: from its sender to its receiver, or
    /// to the proxy between them and from there.
    pub fn legs(&self, flow: &FlowPlan) -> Vec<(HostIndex, HostIndex)> {
        match flow.via {
            None => vec![(flow.from, flow.to)],
            Some(via) => {
                let proxy = self.proxies[via.proxy].host;
                vec![(flow.from, proxy), (proxy, flow.to)]
            }
        }
    }

    /// The elements that `flow`'s packets meet along `routes`, leg by leg, there and back.
    pub fn elements_of(&self, routes: &Routes, flow: &FlowPlan) -> Vec<&NamedElement> {
        let both_ways = |(a, b)| [(a, b), (b, a)];
        let ways = self.legs(flow).into_iter().flat_map(both_ways);
        ways.flat_map(|(a, b)| self.elements_between(routes, a, b))
            .map(|(_, element)| element)
            .collect()
    }
}

/// A two-way box: the element of one name in both directions of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBox {
    /// Its full name.
    pub name: String,
    /// The first end of its link, to which ways to its addresses lead.
    pub inside: HostIndex,
    /// Its addresses, IPv4 and IPv6.
    pub addresses: [IpAddr; 2],
}

impl Plan {
    /// The boxes' addresses, each with the index of the host or router to which ways to it
    /// lead.
    pub fn routed(&self) -> Vec<(IpAddr, usize)> {
        let of = |b: PlannedBox| b.addresses.map(|address| (address, b.inside.0));
        self.boxes().into_iter().flat_map(of).collect()
    }

    /// The two-way boxes, in order of their names' first mention.
    pub fn boxes(&self) -> Vec<PlannedBox> {
        let mut boxes: Vec<PlannedBox> = Vec::new();
        for link in &self.links {
            let elements = link.up.iter().chain(&link.down);
            for element in elements.filter(|e| e.spec.facts().two_way) {
                if boxes.iter().any(|b| b.name == element.name) {
                    continue;
                }
                // A file of 1 MiB names fewer than 2^16.
                let number = boxes.len() as u16 + 1;
                let [high, low] = number.to_be_bytes();
                boxes.push(PlannedBox {
                    name: element.name.clone(),
                    inside: link.ends.0,
                    addresses: [
                        Ipv4Addr::new(10, 1, high, low).into(),
                        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, number).into(),
                    ],
                });
            }
        }
        boxes
    }
}

/// Builds every element of `plan`; randomness comes from `seed` and the
/// elements' names. `end` says where a packet goes that leaves a link, by its index, at
/// its second end (`true`) or its first.
///
/// # Errors
/// When a timed change cannot be made.
pub fn assemble(
    plan: &Plan,
    names: &NameTable,
    seed: u64,
    end: impl Fn(usize, bool) -> Next,
) -> Result<Assembled, BadChange> {
    let mut builder = Builder {
        names,
        seed,
        boxes: plan.boxes(),
        nodes: plan.node_ports(),
        placed: BTreeMap::new(),
        stages: Vec::new(),
    };
    let mut links = Vec::new();
    for (l, link) in plan.links.iter().enumerate() {
        let ends = [end(l, true), end(l, false)];
        let up = builder.chain(link, true, ends);
        let down = builder.chain(link, false, ends);
        links.push(Link {
            entity: names.id(&format!("link/{}", link.name)).unwrap_or_default(),
            mtu: link.mtu,
            up,
            down,
        });
    }
    let Builder { stages, placed, .. } = builder;
    let placed = placed.into_iter().map(|(name, at)| (name.to_owned(), at));
    let placed = placed.collect();
    Ok(Assembled {
        changes: plan.planned_changes(&placed)?,
        stages,
        links,
        placed,
    })
}

impl Plan {
    /// The timed changes, of elements that have these stages.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn planned_changes(&self, placed: &Placed) -> Result<Vec<Planned>, BadChange> {
        let planned = |change: &TimedChange| {
            let refuse = |reason: String| BadChange {
                target: change.target.clone(),
                at: change.at,
                reason,
            };
            let of_target = self.elements().find(|e| e.name == change.target);
            let (element, stages) = of_target
                .zip(placed.get(&change.target))
                .ok_or_else(|| refuse("there is no such element".to_owned()))?;
            let spec = &element.spec;
            spec.check_change(&change.words)
                .map_err(|e| refuse(e.to_string()))?;
            Ok(Planned {
                at: change.at,
                stages: stages.clone(),
                words: change.words.clone(),
            })
        };
        self.changes.iter().map(planned).collect()
    }
}

/// Elements under construction.
struct Builder<'p> {
    names: &'p NameTable,
    seed: u64,
    boxes: Vec<PlannedBox>,
    /// The ports of each node, by its name.
    nodes: BTreeMap<&'p str, Vec<PortPlan<'p>>>,
    /// The stages of each element, by its full name, with its port at a node.
    placed: BTreeMap<&'p str, Vec<(u32, Port)>>,
    stages: Vec<Stage>,
}

/// Where a port of a node is.
struct PortPlan<'p> {
    link: &'p LinkPlan,
    element: &'p NamedElement,
    forward: bool,
}

impl Plan {
    /// The ports of each node, by its name, in the order of the links that begin there.
    fn node_ports(&self) -> BTreeMap<&str, Vec<PortPlan<'_>>> {
        let mut nodes: BTreeMap<&str, Vec<PortPlan<'_>>> = BTreeMap::new();
        for link in &self.links {
            for (elements, forward) in [(&link.up, true), (&link.down, false)] {
                if let Some(element) = elements.first().filter(|e| e.spec.facts().node) {
                    nodes
                        .entry(element.short_name())
                        .or_default()
                        .push(PortPlan {
                            link,
                            element,
                            forward,
                        });
                }
            }
        }
        nodes
    }
}

impl<'p> Builder<'p> {
    /// Builds one direction of a link from its end to its beginning, `ends` being where
    /// packets leave it upwards and downwards; where a packet enters it.
    fn chain(&mut self, link: &'p LinkPlan, forward: bool, ends: [Next; 2]) -> Next {
        let (elements, port) = match forward {
            true => (&link.up, UP),
            false => (&link.down, DOWN),
        };
        let places: Vec<(u32, Port)> = elements
            .iter()
            .map(|e| self.place(link, e, forward, ends))
            .collect();
        let mut next = ends[usize::from(port)];
        for (element, (at, own)) in elements.iter().zip(places).rev() {
            let port = if element.spec.facts().two_way {
                port
            } else {
                own
            };
            self.stages[at as usize].next[usize::from(port)] = next;
            next = Next::Stage(at, port);
        }
        next
    }

    /// The other end of the tunnel that `element` is an end of.
    fn other_end(&self, element: &NamedElement) -> Option<OtherEnd> {
        if !element.spec.facts().wraps {
            return None;
        }
        let (name, way) = match element.name.strip_suffix(NEAR) {
            Some(tunnel) => (format!("{tunnel}{FAR}"), UP),
            None => (format!("{}{NEAR}", element.name.strip_suffix(FAR)?), DOWN),
        };
        let other = self.boxes.iter().find(|b| b.name == name)?;
        let addresses = other.addresses;
        Some(OtherEnd { addresses, way })
    }

    /// The stage of `element`, and its port there if it is a node; a two-way box that is in
    /// the other direction has one, and so has a node of which another port was met.
    fn place(
        &mut self,
        link: &'p LinkPlan,
        element: &'p NamedElement,
        forward: bool,
        ends: [Next; 2],
    ) -> (u32, Port) {
        let facts = element.spec.facts();
        if facts.node {
            return self.port(element, ends);
        }
        if facts.two_way {
            if let Some(at) = self.placed.get(element.name.as_str()) {
                return at[0];
            }
        }
        let site = self.site(link, element, forward);
        let built = element.spec.build(&site);
        self.stages.push(Stage {
            element: built,
            entity: site.entity,
            next: ends.into(),
            ports: Vec::new(),
        });
        let at = (self.stages.len() as u32 - 1, 0);
        self.placed.entry(&element.name).or_default().push(at);
        at
    }

    /// The stage of the node that `element` is a port of, and which of its ports that is.
    fn port(&mut self, element: &'p NamedElement, ends: [Next; 2]) -> (u32, Port) {
        if let Some(at) = self.placed.get(element.name.as_str()) {
            return at[0];
        }
        let ports = self.nodes.remove(element.short_name()).unwrap_or_default();
        let sites: Vec<PortSite<'_>> = ports
            .iter()
            .map(|p| PortSite {
                site: self.site(p.link, p.element, p.forward),
                spec: &p.element.spec,
            })
            .collect();
        let site = Site {
            ports: &sites,
            ..sites[0].site
        };
        let stage = self.stages.len() as u32;
        self.stages.push(Stage {
            element: element.spec.build(&site),
            entity: site.entity,
            next: sites.iter().map(|_| ends[0]).collect(),
            ports: sites.iter().map(|p| p.site.entity).collect(),
        });
        // The check allows no more ports than there are numbers.
        for (port, number) in ports.iter().zip(0..=Port::MAX) {
            self.placed
                .insert(&port.element.name, vec![(stage, number)]);
        }
        self.placed[element.name.as_str()][0]
    }

    /// Where `element` stands.
    fn site(&self, link: &LinkPlan, element: &'p NamedElement, forward: bool) -> Site<'p> {
        let own = self.boxes.iter().find(|b| b.name == element.name);
        Site {
            entity: self.names.id(&element.name).unwrap_or_default(),
            name: &element.name,
            seed: self.seed,
            mtu: link.mtu,
            forward,
            addresses: own.map_or([[0; 4].into(), [0; 16].into()], |own| own.addresses),
            other_end: self.other_end(element),
            ports: &[],
        }
    }
}
