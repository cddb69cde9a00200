//! Hosts, routers and links, and which way leads from one host to another.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use narrows_core::Port;
use narrows_path::NamesFile;

use super::tunnels::Tunnels;
use super::{Check, Names};
use crate::campaign::Shelf;
use crate::document::{At, Element, Host, Link, NAME};
use crate::named_files::NamedFiles;
use crate::names::is_name;
use crate::parts::ElementSpec;
use crate::plan::{HostIndex, HostPlan, LinkIndex, LinkPlan, NamedElement, Plan, TapPlan};
use crate::refusal::Refusal;
use crate::tree::clipped;

/// Ethernet's.
pub(crate) const DEFAULT_MTU: u32 = 1500;

/// What a link is called that is alone and has no name.
pub(crate) const ONLY_LINK: &str = "access";

/// More elements in a row than any path has.
const MOST_ELEMENTS: usize = 256;

/// Ports are numbered by a byte.
const MOST_PORTS: usize = 1 + Port::MAX as usize;

/// What was said about a host.
struct Declared<'a> {
    table: &'a At<Host>,
    router: bool,
    node: Option<ElementSpec>,
    linked: bool,
}

/// Hosts by name: what was said about them, and which number they have.
type Hosts<'a> = (BTreeMap<String, Declared<'a>>, BTreeMap<String, HostIndex>);

impl<'a> Check<'a> {
    /// Reads hosts, routers and links, which name further hosts.
    pub(super) fn links(&mut self, shelf: &dyn Shelf) -> Result<(), Refusal> {
        let (scenario, places) = (self.scenario, self.places);
        let mut hosts: Hosts<'a> = Default::default();
        let mut names = Names::default();
        for (tables, router) in [(&scenario.host, false), (&scenario.router, true)] {
            for table in tables {
                let name = names.required(places, table, &table.name)?;
                if let (Some(is), false) = (&table.is, router) {
                    let refusal = places.refuse(is, "nothing, as a host has no ports");
                    return Err(refusal.with_help("call it [[router]]"));
                }
                let mut node = places.parsed(&table.is)?.map(|node| node.0.clone());
                let file = node.as_mut().and_then(ElementSpec::file);
                if let (Some(file), Some(is)) = (file, &table.is) {
                    let files = Arc::make_mut(&mut self.plan.files);
                    read_file(file, files, shelf)
                        .map_err(|found| places.found(is, found, file.allowed()))?;
                }
                let linked = false;
                hosts.0.insert(
                    name,
                    Declared {
                        table,
                        router,
                        node,
                        linked,
                    },
                );
            }
        }
        let mut names = Names::default();
        for link in &scenario.link {
            let name = match &link.name {
                None if scenario.link.len() == 1 => ONLY_LINK.to_owned(),
                name => names.required(places, link, name)?,
            };
            let ends = self.link_ends(link, &mut hosts)?;
            let index = LinkIndex(self.plan.links.len());
            let mtu = link.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.0 as u32);
            let tunnels = |up| Tunnels::new(up, mtu);
            let nodes = [ends.0, ends.1].map(|end| self.plan.host(end).clone());
            let mut up = self.chain(link, &name, tunnels(true), &nodes[0], index, shelf)?;
            let mut down = self.chain(link, &name, tunnels(false), &nodes[1], index, shelf)?;
            self.boxes_agree(link, &name, &up, &down)?;
            self.boxes_stand_in_line(link, &name, &up, &down)?;
            let [near, far] = &nodes;
            for (key, given, elements, node, other) in [
                ("up", &link.up, &mut up, near, ("down", far)),
                ("down", &link.down, &mut down, far, ("up", near)),
            ] {
                let path = format!("link/{name}/{key}");
                self.no_port_of_the_other_end(given, &path, elements, other)?;
                self.with_port(given, &path, elements, node)?;
            }
            self.plan.links.push(LinkPlan {
                name,
                ends,
                mtu,
                datapath: link.datapath.as_deref().copied().unwrap_or_default(),
                up,
                down,
            });
        }
        if self.plan.links.is_empty() {
            let allowed = "at least one [[link]] between two hosts";
            return Err(places.missing(scenario, "link", allowed));
        }
        if let Some((name, host)) = hosts.0.iter().find(|(_, host)| !host.linked) {
            let spot = match &*host.table.name {
                Some(name) => places.spot(name),
                None => places.spot(host.table),
            };
            let found = format!("`{name}`, which no link ends at");
            let allowed = "a host that is one of the ends of a link";
            return Err(Refusal::at(spot, places.key(host.table), found, allowed)
                .did_you_mean(name, self.plan.hosts.iter().map(|h| h.name.as_str())));
        }
        self.ports_are_few(&hosts)?;
        self.settle_routers(&hosts);
        self.addresses_differ(&hosts)
    }

    /// The two hosts that a link joins; a host that nothing was said about comes
    /// to be here.
    fn link_ends(
        &mut self,
        link: &At<Link>,
        (declared, known): &mut Hosts<'a>,
    ) -> Result<(HostIndex, HostIndex), Refusal> {
        const ALLOWED: &str = "the names of two hosts, such as [\"client\", \"server\"]";
        let places = self.places;
        let ends = places.required(link, "ends", &link.ends, ALLOWED)?;
        let [first, second] = &ends[..] else {
            let found = match ends.len() {
                0 => "nothing".to_owned(),
                1 => "one host".to_owned(),
                n => format!("{n} hosts"),
            };
            return Err(places.found(ends, found, ALLOWED));
        };
        let mut index = |name: &At<String>| {
            if !is_name(name) {
                return Err(places.refuse(name, ALLOWED));
            }
            Ok(*known.entry(name.to_string()).or_insert_with(|| {
                let number = self.plan.hosts.len();
                let mut host = implied_host(name, number);
                if let Some(given) = declared.get_mut(name.as_str()) {
                    given.linked = true;
                    host.router = given.router;
                    host.ipv4 = given.table.ipv4.as_ref().map_or(host.ipv4, |at| at.0.0);
                    host.ipv6 = given.table.ipv6.as_ref().map_or(host.ipv6, |at| at.0.0);
                    host.node = given.node.clone();
                }
                self.plan.hosts.push(host);
                HostIndex(number)
            }))
        };
        let ends = (index(first)?, index(second)?);
        if ends.0 == ends.1 {
            let found = format!("`{}` at both ends", **first);
            return Err(places.found(second, found, "two different hosts"));
        }
        Ok(ends)
    }

    fn addresses_differ(&self, (declared, _): &Hosts<'a>) -> Result<(), Refusal> {
        let mut taken: BTreeMap<IpAddr, &str> = BTreeMap::new();
        for host in &self.plan.hosts {
            for (key, address) in [
                ("ipv4", IpAddr::from(host.ipv4)),
                ("ipv6", host.ipv6.into()),
            ] {
                let Some(other) = taken.insert(address, &host.name) else {
                    continue;
                };
                let allowed = "an address of its own";
                let refusal = |name: &str| {
                    let table = declared.get(name)?.table;
                    match key {
                        "ipv4" => table
                            .ipv4
                            .as_ref()
                            .map(|at| self.places.refuse(at, allowed)),
                        _ => table
                            .ipv6
                            .as_ref()
                            .map(|at| self.places.refuse(at, allowed)),
                    }
                };
                // At least one of the two was given in the file.
                return Err(refusal(&host.name)
                    .or_else(|| refusal(other))
                    .unwrap_or_else(|| self.places.missing(self.scenario, key, allowed))
                    .with_help(format!(
                        "`{}` and `{other}` would both have {address}",
                        host.name
                    )));
            }
        }
        for own in self.plan.boxes() {
            for address in own.addresses {
                let Some(table) = taken.get(&address).and_then(|host| declared.get(*host)) else {
                    continue;
                };
                let found = format!("{address}, which {} has", own.name);
                return Err(self
                    .places
                    .found(table.table, found, "an address of its own"));
            }
        }
        Ok(())
    }

    /// The elements of one direction.
    fn chain(
        &mut self,
        link: &At<Link>,
        link_name: &str,
        mut tunnels: Tunnels,
        start: &HostPlan,
        index: LinkIndex,
        shelf: &dyn Shelf,
    ) -> Result<Vec<NamedElement>, Refusal> {
        let places = self.places;
        let (direction, given) = if tunnels.up {
            ("up", &link.up)
        } else {
            ("down", &link.down)
        };
        let path = format!("link/{link_name}/{direction}");
        if let Some(over) = given.get(MOST_ELEMENTS) {
            let found = format!("{} elements", given.len());
            let allowed = format!("at most {MOST_ELEMENTS}");
            return Err(Refusal::at(places.spot(over), path, found, allowed));
        }
        let mut elements: Vec<NamedElement> = Vec::new();
        let mut labels = Labels::default();
        for at in given.iter() {
            let spot = places.spot(at);
            let label = at.label.as_deref();
            let key = match label {
                Some(label) => format!("{path}/{label}"),
                None => path.clone(),
            };
            // What the first element says by the name of the node is said of its port.
            let port = start
                .node
                .as_ref()
                .filter(|_| elements.is_empty() && label == Some(start.name.as_str()));
            // What is called as the node and is not its port was meant for it.
            let twin = start
                .node
                .as_ref()
                .filter(|node| port.is_none() && node.kind() == kind_of(at));
            let for_port = |refusal: Refusal| match twin {
                Some(node) => refusal.with_help(format!(
                    "the words for a port of the node come first on the link, under the name of \
                     the node: \"{}: {} …\"",
                    start.name,
                    node.kind()
                )),
                None => refusal,
            };
            let mut spec = spec(at, port).map_err(|e| {
                for_port(Refusal::words(spot, key.as_str(), e.shifted(at.words_at)))
            })?;
            if spec.facts().node != port.is_some() || twin.is_some() {
                let found = format!("`{spec}`");
                let allowed = match port {
                    Some(node) => {
                        format!("words of a `{}`, as `{}` is one", node.kind(), start.name)
                    }
                    None => "an element of a link".to_owned(),
                };
                let refusal = Refusal::at(spot, key, found, allowed);
                return Err(match twin {
                    Some(_) => for_port(refusal),
                    None => {
                        refusal.with_help("a node is what a router is: `[[router]] is = \"…\"`")
                    }
                });
            }
            if let Some(file) = spec.file() {
                let files = Arc::make_mut(&mut self.plan.files);
                read_file(file, files, shelf)
                    .map_err(|found| Refusal::at(spot, key.as_str(), found, file.allowed()))?;
            }
            let facts = spec.facts();
            if let Some(tap) = facts.tap {
                let refuse = |key: &str, found, allowed| Refusal::at(spot, key, found, allowed);
                if let Some(label) = label {
                    let found = format!("the name `{label}` of a tap");
                    return Err(
                        refuse(&key, found, "`tap NAME`").with_help("a tap already says its name")
                    );
                }
                let name = format!("tap/{tap}");
                match self.plan.taps.iter().find(|t| t.name == name) {
                    None => self.plan.taps.push(TapPlan {
                        name: name.clone(),
                        link: index,
                    }),
                    Some(before) if before.link == index => {}
                    Some(_) => {
                        let found = format!("the tap `{tap}`, which stands on another link too");
                        return Err(refuse(&path, found, "a name of its own"));
                    }
                }
                if elements.iter().any(|e| e.name == name) {
                    let found = format!("the tap `{tap}` for the second time");
                    let allowed = "each tap once in each direction of a link";
                    return Err(refuse(&path, found, allowed));
                }
                elements.push(NamedElement { name, spec });
                continue;
            }
            if let Some(label) = label.filter(|l| !is_name(l)) {
                let found = format!("the name `{label}`");
                return Err(Refusal::at(spot, path, found, NAME));
            }
            let (label, spec) = match spec {
                ElementSpec::Tunnel(tunnel) => {
                    let end = tunnels.next(elements.len(), label, &tunnel);
                    let (name, spec) = end.map_err(|wrong| wrong.at(spot, &key))?;
                    (Some(name), ElementSpec::Tunnel(spec))
                }
                spec => {
                    if matches!(spec, ElementSpec::Nat(_)) {
                        let stands = tunnels.translated();
                        stands.map_err(|wrong| wrong.at(spot, &key))?;
                    }
                    (label.map(str::to_owned), spec)
                }
            };
            let name = labels.next(label.as_deref(), kind_of(at)).map_err(|name| {
                let found = format!("the element `{name}` for the second time");
                Refusal::at(spot, path.as_str(), found, "a name of its own")
            })?;
            let name = if spec.facts().two_way {
                format!("link/{link_name}/{name}")
            } else {
                format!("{path}/{name}")
            };
            elements.push(NamedElement { name, spec });
        }
        match tunnels.endless() {
            Some((place, wrong)) => Err(wrong.at(places.spot(&given[place]), &path)),
            None => Ok(elements),
        }
    }

    /// Refuses two-way boxes that have one name and different words, and those that
    /// translate addresses and stand in one direction only.
    fn boxes_agree(
        &self,
        link: &At<Link>,
        name: &str,
        up: &[NamedElement],
        down: &[NamedElement],
    ) -> Result<(), Refusal> {
        for (key, given, here, other, there) in [
            ("up", &link.up, up, "down", down),
            ("down", &link.down, down, "up", up),
        ] {
            let boxes = given.iter().zip(here);
            for (at, element) in boxes.filter(|(_, e)| e.spec.facts().two_way) {
                let short = element.short_name();
                let same = there.iter().find(|e| e.name == element.name);
                let allowed = match same {
                    Some(same) if same.spec == element.spec => continue,
                    Some(same) => format!("`{}`, as `{short}` is in `{other}`", same.spec),
                    None if element.spec.facts().translates => {
                        format!("`{short}` in `{other}`, too")
                    }
                    None => continue,
                };
                let found = format!("`{}`", element.spec);
                let path = format!("link/{name}/{key}");
                return Err(
                    Refusal::at(self.places.spot(at), path, found, allowed).with_help(
                        "what has one name in both directions is one box, which sees both",
                    ),
                );
            }
        }
        Ok(())
    }

    /// Refuses two-way boxes of which two stand in the same order in both directions: what travels
    /// down meets first what travels up met last.
    fn boxes_stand_in_line(
        &self,
        link: &At<Link>,
        name: &str,
        up: &[NamedElement],
        down: &[NamedElement],
    ) -> Result<(), Refusal> {
        let met = up.iter().filter(|e| e.spec.facts().two_way);
        let met = met.filter(|e| down.iter().any(|other| other.name == e.name));
        let back = link.down.iter().zip(down);
        let back = back.filter(|(_, e)| up.iter().any(|o| o.name == e.name));
        let back = back.filter(|(_, e)| e.spec.facts().two_way);
        for (wanted, (at, element)) in met.rev().zip(back) {
            if wanted.name != element.name {
                let (wanted, found) = (wanted.short_name(), element.short_name());
                let refusal = Refusal::at(
                    self.places.spot(at),
                    format!("link/{name}/down"),
                    format!("`{found}` before `{wanted}`"),
                    format!("`{wanted}` before `{found}`"),
                );
                return Err(refusal.with_help(
                    "both lists are in the order of travel: of two boxes that see both \
                     directions, `down` meets first what `up` meets last",
                ));
            }
        }
        Ok(())
    }

    /// Refuses nodes at which more links begin than a node has ports.
    fn ports_are_few(&self, (declared, _): &Hosts<'a>) -> Result<(), Refusal> {
        let hosts = self.plan.hosts.iter().enumerate();
        for (i, host) in hosts.filter(|(_, h)| h.node.is_some()) {
            let ends = self.plan.links.iter().map(|l| [l.ends.0.0, l.ends.1.0]);
            let ports = ends.flatten().filter(|end| *end == i).count();
            let is = declared.get(&host.name).and_then(|d| d.table.is.as_ref());
            if let Some(is) = is.filter(|_| ports > MOST_PORTS) {
                let found = format!("a node at which {ports} links begin");
                return Err(self
                    .places
                    .found(is, found, format!("at most {MOST_PORTS}")));
            }
        }
        Ok(())
    }

    /// Has every host that no table mentions forward, if it stands between others.
    fn settle_routers(&mut self, (declared, _): &Hosts<'a>) {
        let between = self.plan.between_others();
        for (host, between) in self.plan.hosts.iter_mut().zip(between) {
            if !declared.contains_key(&host.name) {
                host.router = between;
            }
        }
    }
}

impl Plan {
    /// Of each host whether links join it with two others or more.
    pub(crate) fn between_others(&self) -> Vec<bool> {
        let mut first = vec![None; self.hosts.len()];
        let mut between = vec![false; self.hosts.len()];
        for LinkPlan { ends: (a, b), .. } in &self.links {
            for (here, there) in [(a, b), (b, a)] {
                between[here.0] |= first[here.0].get_or_insert(*there) != there;
            }
        }
        between
    }
}

/// The `number`th host, as it is when the file says nothing about it.
pub(crate) fn implied_host(name: &str, number: usize) -> HostPlan {
    // At most 2^16 hosts fit a file of 1 MiB, so the low half is enough.
    let [_, _, high, low] = (number as u32 + 1).to_be_bytes();
    HostPlan {
        name: name.to_owned(),
        router: false,
        ipv4: Ipv4Addr::new(10, 0, high, low),
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number as u16 + 1),
        node: None,
    }
}

/// What an element does: as with a change in mid-run, words that were set leave
/// what they do not name as it was, and take the place of words that are wrong. Of a port
/// the first words are laid over its node.
fn spec(
    element: &Element,
    node: Option<&ElementSpec>,
) -> Result<ElementSpec, narrows_units::WordError> {
    let mut layers = element.layers.iter();
    let first = layers.next().map_or("", String::as_str);
    let first = match node {
        // What was set is laid over a port of which the link says nothing.
        Some(node) if first.is_empty() => Ok(node.clone()),
        Some(node) => node.overlaid(first),
        None => ElementSpec::parse(first),
    };
    layers.fold(first, |before, words| match before {
        Ok(before) => before.overlaid(words),
        Err(_) => ElementSpec::parse(words),
    })
}

/// The word that an element begins with.
fn kind_of(element: &Element) -> &str {
    let words = element.layers.last().map_or("", String::as_str);
    words.split_whitespace().next().unwrap_or("element")
}

/// Reads the file that an element names; relative to where the scenario is.
fn read_file(
    element: &mut dyn NamesFile,
    files: &mut NamedFiles,
    shelf: &dyn Shelf,
) -> Result<(), String> {
    let file = format!("{} `{}`", element.what(), clipped(element.name()));
    let text = files
        .read(element.name(), shelf)
        .map_err(|why| format!("{file}, which cannot be read: {why}"))?;
    element.read(text).map_err(|e| format!("{file}, {e}"))
}

/// The names of a direction's elements: their labels, or what they are.
#[derive(Default)]
pub(crate) struct Labels {
    taken: Vec<String>,
}

impl Labels {
    /// The name of the next element, which begins with the word `kind`.
    ///
    /// # Errors
    /// The label, if an element before has it.
    pub(crate) fn next(&mut self, label: Option<&str>, kind: &str) -> Result<String, String> {
        let name = match label {
            Some(label) if self.taken.iter().any(|t| t == label) => return Err(label.to_owned()),
            Some(label) => label.to_owned(),
            None => {
                // A flow of `kernel:cubic` is called kernel-cubic.
                let kind = kind.replace(':', "-");
                let mut name = kind.clone();
                let mut number = 1;
                while self.taken.contains(&name) {
                    number += 1;
                    name = format!("{kind}-{number}");
                }
                name
            }
        };
        self.taken.push(name.clone());
        Ok(name)
    }
}
