//! A plan as a machine's own network: nodes, wires between them, addresses, routes and
//! disciplines, as every target needs them that runs by itself.
//!
//! Between the two hosts of a link is a row of nodes that forward, one for each element of the
//! longer direction, as in a live run with `datapath = "kernel"`: on the sender's own device TCP
//! would hold its packets back (TCP small queues), and no queue could fill.
//!
//! A host's address is on its loopback device; each wire has a network of its own, a /29 of which
//! its first end has .2 and its second .3 (.1 is left to those who bridge it).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use narrows_path::routes::{Routes, shortest};
use narrows_scenario::{IpVersion, NamedElement, Plan};

use crate::left_out;
use crate::outline::Outline;
use crate::quote::plain_name;
use crate::tc;
use crate::{Lost, lost};

/// Longest name of a node: what Mininet, containers and /run/netns take without trouble (our
/// choice).
const LONGEST: usize = 40;

/// Hosts to which every node has a route (our choice): routes from all to all are as many as the
/// square of the hosts.
const MOST_ROUTED: usize = 256;

/// The most hops of a packet: its TTL is a byte (RFC 791, section 3.1), and the last that forwards
/// it needs a TTL of two.
const MOST_HOPS: usize = 255;

/// Switches of a node below `/proc/sys`, and their values. Each element is a hop here, which takes
/// one from the TTL that the node's own packets begin with.
pub(crate) fn switches(node: &Node) -> impl Iterator<Item = (&'static str, &'static str)> {
    let forwards = node.forwards.then_some(("net/ipv4/ip_forward", "1"));
    let ttl = ("net/ipv4/ip_default_ttl", "255");
    forwards.into_iter().chain([ttl])
}

/// Why the IPv6 settings of a scenario are lost.
const ONLY_IPV4: &str = "only IPv4 addresses and routes are set";

/// A node with its own network.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Of ASCII letters, digits, `-`, `_` and `.`; no other has it.
    pub name: String,
    /// The host that it is, as a place in the plan; none between two.
    pub host: Option<usize>,
    /// What it is there for, in words.
    pub about: String,
    pub address: Option<Ipv4Addr>,
    pub forwards: bool,
    pub routes: Vec<Route>,
}

/// Where a node sends packets for an address.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// None for all that no other route is for.
    pub to: Option<Ipv4Addr>,
    pub via: Ipv4Addr,
    pub interface: String,
    pub source: Option<Ipv4Addr>,
}

/// A pair of interfaces.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub ends: [End; 2],
    pub mtu: u32,
    /// The first address of its network, which has 29 bits.
    pub network: Ipv4Addr,
    /// Of a link of the plan, its place.
    pub link: usize,
}

/// An end of a wire.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub node: usize,
    pub interface: String,
    pub address: Ipv4Addr,
    /// The element whose disciplines are on the interface, in words.
    pub element: Option<String>,
    /// What follows `tc qdisc add dev INTERFACE`, line by line.
    pub disciplines: Vec<Vec<String>>,
}

/// The whole.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub nodes: Vec<Node>,
    pub wires: Vec<Wire>,
    /// What no target that runs by itself has.
    pub lost: Vec<Lost>,
    /// Kinds of queues that not every machine has, and what they need.
    pub needs: Vec<(&'static str, &'static str)>,
}

impl Wiring {
    /// That of a plan. Between the hosts of a link stand nodes for its elements if `row`;
    /// otherwise the only element of a direction is on the sender's own interface.
    pub fn of(plan: &Plan, row: bool) -> Self {
        let mut wiring = Self {
            nodes: Vec::new(),
            wires: Vec::new(),
            lost: Vec::new(),
            needs: Vec::new(),
        };
        wiring.hosts(plan);
        let pool = pool(plan);
        for number in 0..plan.links.len() {
            wiring.link(plan, number, row, pool);
        }
        wiring.name_interfaces();
        wiring.lead(plan);
        wiring.name_lost(plan);
        wiring.needs.sort_unstable();
        wiring.needs.dedup();
        wiring
    }

    fn add(&mut self, name: &str, node: Node) -> usize {
        let short: String = name.chars().take(LONGEST).collect();
        let taken = |name: &str| {
            self.nodes
                .iter()
                .any(|node| node.name.eq_ignore_ascii_case(name))
        };
        let name = plain_name(&short, "-_.", taken);
        self.nodes.push(Node { name, ..node });
        self.nodes.len() - 1
    }

    fn hosts(&mut self, plan: &Plan) {
        for (place, host) in plan.hosts.iter().enumerate() {
            let what = if host.router { "router" } else { "host" };
            self.add(
                &host.name,
                Node {
                    name: String::new(),
                    host: Some(place),
                    about: format!("the {what} {}", host.name),
                    address: Some(host.ipv4),
                    forwards: host.router,
                    routes: Vec::new(),
                },
            );
            if let Some(node) = &host.node {
                let what = format!("host/{}", host.name);
                self.lost.push(lost(
                    what,
                    format!("`{node}` shares what no discipline shares"),
                ));
            }
        }
    }

    fn link(&mut self, plan: &Plan, number: usize, row: bool, pool: u32) {
        let link = &plan.links[number];
        let up = self.elements(&link.up, link.mtu);
        let down = self.elements(&link.down, link.mtu);
        let between = if row { up.len().max(down.len()) } else { 0 };
        let mut places = vec![link.ends.0.0];
        for hop in 0..between {
            let name = match between {
                1 => format!("link-{}", link.name),
                _ => format!("link-{}-{}", link.name, hop + 1),
            };
            places.push(self.add(
                &name,
                Node {
                    name: String::new(),
                    host: None,
                    about: format!("place {} of {between} on the link {}", hop + 1, link.name),
                    address: None,
                    forwards: true,
                    routes: Vec::new(),
                },
            ));
        }
        places.push(link.ends.1.0);
        let first = self.wires.len();
        for pair in places.windows(2) {
            // A file of 1 MiB has no links for more.
            let network = pool + 8 * self.wires.len() as u32;
            let end = |side: usize| End {
                node: pair[side],
                interface: String::new(),
                address: Ipv4Addr::from(network + 2 + side as u32),
                element: None,
                disciplines: Vec::new(),
            };
            self.wires.push(Wire {
                ends: [end(0), end(1)],
                mtu: link.mtu,
                network: network.into(),
                link: number,
            });
        }
        let last = self.wires.len() - 1;
        for (elements, side, way) in [(up, 0, "up"), (down, 1, "down")] {
            if !row && elements.len() > 1 {
                let what = format!("link/{}/{way}", link.name);
                let why = "several elements in a row, of which an interface has one";
                self.lost.push(lost(what, why));
                continue;
            }
            for (place, (element, disciplines)) in elements.into_iter().enumerate() {
                // An element stands where packets leave its node: the one behind it in its
                // direction.
                let wire = match (row, side) {
                    (false, _) => first,
                    (true, 0) => first + 1 + place,
                    (true, _) => last - 1 - place,
                };
                let end = &mut self.wires[wire].ends[side];
                end.element = Some(element);
                end.disciplines = disciplines;
            }
        }
    }

    /// The elements of a direction that are disciplines; others are lost.
    fn elements(&mut self, all: &[NamedElement], mtu: u32) -> Vec<(String, Vec<Vec<String>>)> {
        let mut found = Vec::new();
        for element in all {
            let facts = element.spec.facts();
            if facts.tap.is_some() || facts.node {
                // Taps change nothing; nodes are named with their hosts.
                if facts.tap.is_some() {
                    let why = "nobody observes there";
                    let again = self.lost.iter().any(|lost| lost.what == element.name);
                    if !again {
                        self.lost.push(lost(element.name.clone(), why));
                    }
                }
                continue;
            }
            match tc::disciplines(&element.spec, mtu) {
                Ok(disciplines) => {
                    self.needs.extend(tc::needs(&element.spec));
                    found.push((element.spec.to_string(), disciplines));
                }
                Err(why) => self.lost.push(lost(element.name.clone(), why)),
            }
        }
        found
    }

    /// `eth1`, `eth2` and so on at each node.
    fn name_interfaces(&mut self) {
        let mut counts = vec![0; self.nodes.len()];
        for wire in &mut self.wires {
            for end in &mut wire.ends {
                counts[end.node] += 1;
                end.interface = format!("eth{}", counts[end.node]);
            }
        }
    }

    /// Gives each node its routes: those of the plan, whose links are counted as they are there and
    /// not by the wires that they have here.
    fn lead(&mut self, plan: &Plan) {
        let forwards: Vec<_> = plan.hosts.iter().map(|host| host.router).collect();
        let links: Vec<_> = (plan.links.iter())
            .map(|link| (link.ends.0.0, link.ends.1.0))
            .collect();
        let routes = shortest(&forwards, &links, &[]);
        let to = self.destinations(plan);
        for place in 0..self.nodes.len() {
            self.nodes[place].routes = self.routes_of(place, plan, &routes, &to);
        }
        self.name_far(plan, &routes, &to);
    }

    /// Names the two hosts that are farthest from each other, if no packet gets so far.
    fn name_far(&mut self, plan: &Plan, routes: &Routes, destinations: &[usize]) {
        if self.wires.len() <= MOST_HOPS {
            return;
        }
        let mut wires = vec![0; plan.links.len()];
        for wire in &self.wires {
            wires[wire.link] += 1;
        }
        let mut farthest = (MOST_HOPS, None);
        for &to in destinations {
            // Of each host on the way, so that no way is walked twice.
            let mut hops = vec![None; plan.hosts.len()];
            hops[to] = Some(0);
            for from in 0..plan.hosts.len() {
                let mut way = Vec::new();
                let mut at = from;
                while let (None, Some(hop)) = (hops[at], routes.next_hop(at, to)) {
                    way.push((at, hop.link));
                    let ends = plan.links[hop.link].ends;
                    at = if hop.up { ends.1.0 } else { ends.0.0 };
                }
                let Some(mut count) = hops[at] else {
                    continue;
                };
                for (host, link) in way.into_iter().rev() {
                    count += wires[link];
                    hops[host] = Some(count);
                }
                if count > farthest.0 {
                    farthest = (count, Some((from, to)));
                }
            }
        }
        if let (count, Some((from, to))) = farthest {
            let [from, to] = [from, to].map(|host| &plan.hosts[host].name);
            let why = format!(
                "from {from} to {to} there are {count} hops, each element being one, and a packet \
                 gets {MOST_HOPS} hops far"
            );
            self.lost.push(lost("far hosts", why));
        }
    }

    /// The hosts to which there are routes: all, or of a large network those that something is
    /// sent to or from.
    fn destinations(&mut self, plan: &Plan) -> Vec<usize> {
        if plan.hosts.len() <= MOST_ROUTED {
            return (0..plan.hosts.len()).collect();
        }
        let flows = plan.flows.iter().map(|flow| [flow.from, flow.to]);
        let apps = plan.apps.iter().map(|app| [app.from, app.to]);
        let probes = plan.probes.iter().map(|probe| [probe.from, probe.to]);
        let ends = flows.chain(apps).chain(probes).flatten().map(|end| end.0);
        let ends: BTreeSet<usize> = ends.collect();
        let ends: Vec<usize> = ends.into_iter().take(MOST_ROUTED).collect();
        let why = format!(
            "of {} hosts there are routes to {} alone, which something is sent to or from",
            plan.hosts.len(),
            ends.len()
        );
        self.lost.push(lost("routes", why));
        ends
    }

    /// The routes of a node: one for all that most addresses are led by, and others.
    fn routes_of(
        &self,
        place: usize,
        plan: &Plan,
        routes: &Routes,
        destinations: &[usize],
    ) -> Vec<Route> {
        // Wires at which packets leave the node, by the link and the direction.
        let mut leaves = BTreeMap::new();
        for (number, wire) in self.wires.iter().enumerate() {
            for (side, end) in wire.ends.iter().enumerate() {
                if end.node == place {
                    leaves.insert((wire.link, side == 0), number);
                }
            }
        }
        let mut ways: BTreeMap<(usize, bool), Vec<usize>> = BTreeMap::new();
        let own = self.nodes[place].host;
        for to in destinations.iter().copied().filter(|to| Some(*to) != own) {
            let way = match self.nodes[place].host {
                Some(host) => routes.next_hop(host, to).map(|hop| (hop.link, hop.up)),
                // Between the hosts of a link packets go on as they came in.
                None => leaves.keys().copied().find(|(link, up)| {
                    let ends = plan.links[*link].ends;
                    let from = if *up { ends.0.0 } else { ends.1.0 };
                    let hop = routes.next_hop(from, to);
                    hop.is_some_and(|hop| (hop.link, hop.up) == (*link, *up))
                }),
            };
            if let Some(way) = way {
                ways.entry(way).or_default().push(to);
            }
        }
        let most = ways
            .iter()
            .max_by_key(|(way, to)| (to.len(), std::cmp::Reverse(**way)));
        let most = most.map(|(way, _)| *way);
        let route = |way: (usize, bool), to: Option<usize>| {
            let [near, far] = match (&self.wires[*leaves.get(&way)?].ends, way.1) {
                ([near, far], true) | ([far, near], false) => [near, far],
            };
            Some(Route {
                to: to.map(|to| plan.hosts[to].ipv4),
                via: far.address,
                interface: near.interface.clone(),
                source: self.nodes[place].address,
            })
        };
        let others = ways.iter().filter(|(way, _)| Some(**way) != most);
        let others = others.flat_map(|(way, to)| to.iter().map(|to| (*way, Some(*to))));
        let all = most.map(|way| (way, None)).into_iter().chain(others);
        all.filter_map(|(way, to)| route(way, to)).collect()
    }

    /// What a network of interfaces and disciplines has no place for.
    fn name_lost(&mut self, plan: &Plan) {
        let mut add = |what: String, why: &str| self.lost.push(lost(what, why));
        let traffic = "traffic, which programs in the hosts have to make";
        let parts: [(&str, Vec<&String>, &str); 8] = [
            (
                "flow",
                plan.flows.iter().map(|f| &f.name).collect(),
                traffic,
            ),
            ("app", plan.apps.iter().map(|a| &a.name).collect(), traffic),
            (
                "probe",
                plan.probes.iter().map(|p| &p.name).collect(),
                traffic,
            ),
            (
                "command",
                plan.commands.iter().map(|c| &c.name).collect(),
                "a program of a live run",
            ),
            (
                "proxy",
                plan.proxies.iter().map(|p| &p.name).collect(),
                "a proxy; `narrows pep serve` is one",
            ),
            (
                "mark",
                plan.marks.iter().map(|m| &m.name).collect(),
                "signals in packets; `narrows mark` sets them",
            ),
            (
                "observe",
                plan.observers.iter().map(|o| &o.name).collect(),
                "an observer; `narrows observe` is one",
            ),
            (
                "capture",
                plan.captures.iter().map(|c| &c.name).collect(),
                "a capture",
            ),
        ];
        for (kind, names, why) in parts {
            for name in names {
                add(format!("{kind}/{name}"), why);
            }
        }
        for change in &plan.changes {
            add(
                format!("change of {}", change.target),
                "a change at a time of the run",
            );
        }
        let six = plan
            .flows
            .iter()
            .map(|flow| flow.ip)
            .chain(plan.apps.iter().map(|app| app.ip));
        if six.into_iter().any(|ip| ip == IpVersion::V6) {
            add("IPv6".to_owned(), ONLY_IPV4);
        }
        for node in Outline::of(plan).nodes {
            self.lost
                .extend(left_out::of_node(&node, &["ipv6"], ONLY_IPV4));
        }
        self.lost.extend(left_out::of_runs(plan));
    }

    /// The wires that end at a node, each with the side that does.
    pub fn of_node(&self, node: usize) -> impl Iterator<Item = (&Wire, &End, &End)> {
        self.wires.iter().flat_map(move |wire| {
            let [a, b] = &wire.ends;
            [(wire, a, b), (wire, b, a)]
                .into_iter()
                .filter(move |(_, near, _)| near.node == node)
        })
    }

    /// What sets up a node's own network once its interfaces are there: the arguments of `ip`, and
    /// those of `tc`.
    pub fn set_up(&self, place: usize) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let node = &self.nodes[place];
        let mut ip = vec![words("link set lo up".to_owned())];
        if let Some(address) = node.address {
            ip.push(words(format!("address add {address}/32 dev lo")));
        }
        let mut tc = Vec::new();
        for (wire, near, _) in self.of_node(place) {
            let (device, mtu) = (&near.interface, wire.mtu);
            ip.push(words(format!(
                "address add {}/29 dev {device}",
                near.address
            )));
            ip.push(words(format!("link set {device} mtu {mtu} up")));
            for discipline in &near.disciplines {
                let mut line = words(format!("qdisc add dev {device}"));
                line.extend(discipline.iter().cloned());
                tc.push(line);
            }
        }
        for route in &node.routes {
            let to = route
                .to
                .map_or("default".to_owned(), |to| format!("{to}/32"));
            let source = route
                .source
                .map_or(String::new(), |source| format!(" src {source}"));
            let (via, device) = (route.via, &route.interface);
            ip.push(words(format!(
                "route add {to} via {via} dev {device}{source}"
            )));
        }
        (ip, tc)
    }
}

/// The first address for wires: of a network in which no host is.
fn pool(plan: &Plan) -> u32 {
    let hosts: BTreeSet<u32> = plan.hosts.iter().map(|host| host.ipv4.into()).collect();
    // 10.128.0.0/9 and 172.16.0.0/12 of RFC 1918, 100.64.0.0/10 of RFC 6598.
    let pools = [(10, 128, 9), (172, 16, 12), (100, 64, 10)];
    let begins = pools.map(|(a, b, bits)| (u32::from(Ipv4Addr::new(a, b, 0, 0)), bits));
    let free = |(start, bits): &(u32, u32)| {
        let end = start + (1 << (32 - bits)) - 1;
        hosts.range(*start..=end).next().is_none()
    };
    begins.into_iter().find(free).unwrap_or(begins[0]).0
}
