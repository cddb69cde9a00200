//! The hosts and links of a run on this machine: network namespaces, TUN
//! devices, addresses and routes.
//!
//! Everything belongs to the process by an open file and has no name outside
//! of it, so it goes away with the process, however that ends.

mod kernel_link;
mod ports;
mod segments;
mod timed_port;

use std::net::IpAddr;

use narrows_linux::machine::{self, State, processes};
use narrows_linux::{Namespace, Route, RunId, Tun, Veth, is_virtual_time, sysctl};
use narrows_path::routes::{Hop, Routes};
use narrows_scenario::{Datapath, HostIndex, HostPlan, IpVersion, LinkIndex, Plan};

use crate::LiveError;
use crate::disciplines::{Counted, KernelQueue};
pub(crate) use kernel_link::HOST_ADDRESS;
use kernel_link::KernelLink;
pub(crate) use segments::{LINUX_GSO_MAX_BYTES, most_segments};
pub(crate) use timed_port::{TimedPort, TimedPorts};

/// The smallest MTU over which Linux runs IPv6, in bytes (RFC 8200,
/// section 5).
const IPV6_MIN_MTU: u32 = 1280;

/// What a link is made of.
#[derive(Debug)]
enum Wire {
    /// The devices at its two ends, which the datapath reads and writes.
    Own(Tun, Tun),
    /// The same where time is virtual.
    Timed(TimedPort, TimedPort),
    /// The kernel's own way from end to end.
    Kernel(KernelLink),
}

impl Wire {
    /// The device at its first or its second end: name and index.
    fn end(&self, first: bool) -> (&str, u32) {
        match self {
            Self::Own(a, b) => {
                let tun = if first { a } else { b };
                (tun.name(), tun.index())
            }
            Self::Timed(a, b) => {
                let port = if first { a } else { b };
                (port.name(), port.index())
            }
            Self::Kernel(link) => {
                let (name, index) = &link.ends[usize::from(!first)];
                (name, *index)
            }
        }
    }
}

/// The hosts and links of a plan, built. Dropping it takes all of it down.
#[derive(Debug)]
pub struct World {
    // The links go first, then their namespaces, and the run's entry last.
    links: Vec<Wire>,
    timed: Option<TimedPorts>,
    hosts: Vec<Namespace>,
    state: State,
    run: RunId,
}

impl World {
    /// Builds what `plan` names under the run's id: a namespace for each host
    /// and router, a TUN device for each end of each link, addresses, and the
    /// routes that the simulator takes.
    ///
    /// # Errors
    /// Where the machine or the kernel refuses a step; what was built before
    /// is gone then.
    pub fn build(plan: &Plan, run: &RunId) -> Result<Self, LiveError> {
        machine::check_kernel()?;
        check(plan)?;
        Self::build_in(plan, State::open(run)?)
    }

    /// The same for a run that has entered already, of a plan that was
    /// [checked](crate::check_network).
    ///
    /// # Errors
    /// Where the machine or the kernel refuses a step; what was built before
    /// is gone then, and `state` with it.
    pub fn build_in(plan: &Plan, state: State) -> Result<Self, LiveError> {
        let run = &state.run_id().clone();
        let ipv6 = sysctl::has_ipv6();
        let routes = plan.routes();
        let ports = ports::reserved(plan);
        let switches = switches(ipv6, &ports);
        let mut world = Self {
            links: Vec::new(),
            timed: None,
            hosts: Vec::new(),
            state,
            run: run.clone(),
        };
        for host in &plan.hosts {
            let namespace = Namespace::new(run, &format!("host/{}", host.name))?;
            namespace.set_sysctls(&switches)?;
            world.hosts.push(namespace);
        }
        if is_virtual_time() {
            world.timed = Some(TimedPorts::open(run)?);
        }
        for (i, link) in plan.links.iter().enumerate() {
            if link.datapath == Datapath::Kernel {
                let built = KernelLink::build(plan, i, run, &world.hosts, &routes, &switches)?;
                world.links.push(Wire::Kernel(built));
                continue;
            }
            let name = |letter: char| run.device(format_args!("{i}{letter}"));
            if let Some(timed) = &world.timed {
                let end = |host: HostIndex, letter| {
                    let port = timed.port(&world.hosts[host.0], name(letter), link.mtu)?;
                    if let Some(segments) = most_segments(plan, host, link.mtu) {
                        port.limit_bursts(segments)?;
                    }
                    Ok::<_, LiveError>(port)
                };
                let wire = Wire::Timed(end(link.ends.0, 'a')?, end(link.ends.1, 'b')?);
                world.links.push(wire);
                continue;
            }
            let end = |host: HostIndex, letter| {
                let name = name(letter);
                let tun = Tun::new(&world.hosts[host.0], &name, link.mtu)?;
                if let Some(segments) = most_segments(plan, host, link.mtu) {
                    tun.limit_bursts(segments)?;
                }
                Ok::<_, LiveError>(tun)
            };
            let wire = Wire::Own(end(link.ends.0, 'a')?, end(link.ends.1, 'b')?);
            world.links.push(wire);
        }
        // After the devices, which are born with multicast: in that moment a
        // forwarding host would make them members of a group, and send reports.
        for (host, namespace) in plan.hosts.iter().zip(&world.hosts) {
            if host.router {
                namespace.set_sysctls(sysctl::OF_A_ROUTER)?;
                if ipv6 {
                    namespace.set_sysctls(sysctl::OF_AN_IPV6_ROUTER)?;
                }
            }
        }
        for (i, host) in plan.hosts.iter().enumerate() {
            world.address(plan, HostIndex(i), host, ipv6)?;
            world.route(plan, &routes, i, ipv6)?;
        }
        Ok(world)
    }

    /// The namespace of a host.
    ///
    /// # Panics
    /// If the index is of another plan.
    pub fn namespace(&self, host: HostIndex) -> &Namespace {
        &self.hosts[host.0]
    }

    /// The devices at the first and the second end of a link.
    ///
    /// # Panics
    /// If the index is of another plan, or of a link that is the kernel's.
    pub fn tun(&self, link: LinkIndex) -> (&Tun, &Tun) {
        self.own(link).expect("the link is driven by us")
    }

    /// The same; `None` for a link whose datapath is the kernel's.
    ///
    /// # Panics
    /// If the index is of another plan.
    pub fn own(&self, link: LinkIndex) -> Option<(&Tun, &Tun)> {
        match &self.links[link.0] {
            Wire::Own(a, b) => Some((a, b)),
            Wire::Timed(..) | Wire::Kernel(_) => None,
        }
    }

    /// Where time is virtual, the ports of links that the path has: of each the first and the
    /// second end, `None` for a link whose datapath is the kernel's.
    pub(crate) fn timed(&self) -> Option<(&TimedPorts, Vec<Option<[&TimedPort; 2]>>)> {
        let ports = self.links.iter().map(|wire| match wire {
            Wire::Timed(a, b) => Some([a, b]),
            Wire::Own(..) | Wire::Kernel(_) => None,
        });
        Some((self.timed.as_ref()?, ports.collect()))
    }

    /// The devices at the ends of link `link` whose elements are ours, as
    /// [`ends`](Self::ends) has them; `None` for a link whose datapath is the kernel's.
    pub(crate) fn own_ends(&self, link: LinkIndex) -> Option<[(&str, u32); 2]> {
        let own = !matches!(self.links[link.0], Wire::Kernel(_));
        own.then(|| self.ends(link))
    }

    /// The devices at the first and the second end of a link: their names and
    /// their indices in the namespaces of its hosts.
    ///
    /// # Panics
    /// If the index is of another plan.
    pub fn ends(&self, link: LinkIndex) -> [(&str, u32); 2] {
        let wire = &self.links[link.0];
        [wire.end(true), wire.end(false)]
    }

    /// Where the kernel's queueing disciplines take the place of elements.
    pub(crate) fn disciplines(&self) -> Vec<KernelQueue> {
        let places = |wire: &Wire| match wire {
            Wire::Own(..) | Wire::Timed(..) => Vec::new(),
            Wire::Kernel(link) => link.places.clone(),
        };
        self.links.iter().flat_map(places).collect()
    }

    /// What the kernel's queueing disciplines have counted by now, by the names of the elements
    /// in whose place they are; nothing of those about which the kernel does not answer.
    pub fn counted(&self) -> Vec<(String, Counted)> {
        let places = self.disciplines().into_iter();
        places
            .filter_map(|place| Some((place.read().ok()?, place.element)))
            .map(|(counted, element)| (element, counted))
            .collect()
    }

    /// The run that it belongs to.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Where changes of the machine outside of the run's namespaces are
    /// written down before they are made.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A host's addresses are on each of its devices, as they do where links
    /// have no numbers of their own: packets bear them whichever way they
    /// leave.
    fn address(
        &self,
        plan: &Plan,
        index: HostIndex,
        host: &HostPlan,
        ipv6: bool,
    ) -> Result<(), LiveError> {
        let namespace = self.namespace(index);
        for (link, wire) in plan.links.iter().zip(&self.links) {
            for (end, first) in [(link.ends.0, true), (link.ends.1, false)] {
                if end != index {
                    continue;
                }
                let (_, device) = wire.end(first);
                namespace.add_address(device, host.ipv4.into(), 32)?;
                if ipv6 && link.mtu >= IPV6_MIN_MTU {
                    namespace.add_address(device, host.ipv6.into(), 128)?;
                }
            }
        }
        Ok(())
    }

    /// A route from host `at` to every other one, and to the boxes whose inside that is.
    fn route(&self, plan: &Plan, routes: &Routes, at: usize, ipv6: bool) -> Result<(), LiveError> {
        let (namespace, here) = (&self.hosts[at], &plan.hosts[at]);
        let boxes = plan.boxes();
        for (to, there) in plan.hosts.iter().enumerate() {
            // Equal hosts are not on the way to each other.
            let Ok(path) = routes.path(at, to) else {
                continue;
            };
            let Some(hop) = path.first() else {
                continue;
            };
            let (_, device) = self.links[hop.link].end(hop.up);
            let smallest = smallest_mtu(plan, routes, at, to);
            let own = plan.links[hop.link].mtu;
            let is_known = smallest < own && !has_hidden_mtu(plan, routes, at, to);
            let add = |to: IpAddr, source: IpAddr| {
                namespace.add_route(&Route {
                    to,
                    prefix_len: if to.is_ipv4() { 32 } else { 128 },
                    device,
                    via: None,
                    source: Some(source),
                    mtu: is_known.then_some(smallest),
                })
            };
            let behind = boxes.iter().filter(|b| b.inside.0 == to);
            let addresses = behind.flat_map(|b| b.addresses);
            for to in [there.ipv4.into(), there.ipv6.into()]
                .into_iter()
                .chain(addresses)
            {
                if to.is_ipv4() {
                    add(to, here.ipv4.into())?;
                } else if ipv6 && smallest >= IPV6_MIN_MTU {
                    add(to, here.ipv6.into())?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever the run's programs have started in their turn would keep
        // the namespaces, and go on sending in them.
        let inodes: Vec<_> = self.hosts.iter().map(Namespace::inode).collect();
        for pid in processes::end_all_in(&inodes) {
            tracing::debug!("ended process {pid}, which run {} had left", self.run);
        }
        close_together(std::mem::take(&mut self.links));
    }
}

/// Most threads that close devices at once.
const CLOSERS: usize = 16;

/// Closes devices side by side. Removing one takes 20 ms and more, for most of
/// which the kernel waits until no processor can be looking at it
/// (`rcu_barrier` in `netdev_run_todo`); it waits for several at once.
fn close_together(links: Vec<Wire>) {
    let own = |wire| match wire {
        Wire::Own(a, b) => vec![a, b],
        // Its devices are removed in their order.
        wire @ (Wire::Timed(..) | Wire::Kernel(_)) => {
            drop(wire);
            Vec::new()
        }
    };
    let mut tuns: Vec<_> = links.into_iter().flat_map(own).collect();
    let share = tuns.len().div_ceil(CLOSERS).max(1);
    std::thread::scope(|scope| {
        while !tuns.is_empty() {
            let mine = tuns.split_off(tuns.len().saturating_sub(share));
            // Where no thread can be had, they are closed here.
            let thread = std::thread::Builder::new().name("close".to_owned());
            let _ = thread.spawn_scoped(scope, move || drop(mine));
        }
    });
}

/// The smallest MTU on the way there and back, which both ends know as in the
/// simulator: it need not be discovered by losing packets.
fn smallest_mtu(plan: &Plan, routes: &Routes, a: usize, b: usize) -> u32 {
    let there = routes.path(a, b).unwrap_or_default();
    let back = routes.path(b, a).unwrap_or_default();
    let mtu = |hop: &Hop| plan.links[hop.link].mtu;
    let all = there.iter().chain(&back).map(mtu);
    all.min().unwrap_or(IPV6_MIN_MTU)
}

/// Whether an element on the way there or back takes smaller packets than its link: hosts then
/// find out what the path carries, and their routes name no MTU.
fn has_hidden_mtu(plan: &Plan, routes: &Routes, a: usize, b: usize) -> bool {
    let there = routes.path(a, b).unwrap_or_default();
    let back = routes.path(b, a).unwrap_or_default();
    let mut elements = there.iter().chain(&back).flat_map(|hop| {
        let link = &plan.links[hop.link];
        link.up.iter().chain(&link.down)
    });
    elements.any(|element| element.spec.facts().mtu.is_some())
}

fn switches(ipv6: bool, ports: &str) -> Vec<(&'static str, &str)> {
    let mut all = sysctl::OF_EVERY_HOST.to_vec();
    all.push(("net/ipv4/ip_local_reserved_ports", ports));
    if ipv6 {
        all.extend(sysctl::OF_EVERY_IPV6_HOST);
    }
    all
}

/// Refuses what the simulator can run and Linux cannot.
///
/// # Errors
/// The first of it, in a line.
pub(crate) fn check(plan: &Plan) -> Result<(), LiveError> {
    check_addresses(plan)?;
    check_ipv6(plan, &plan.routes(), sysctl::has_ipv6())
}

/// Refuses addresses that Linux gives no host.
///
/// # Errors
/// The first of them.
pub(crate) fn check_addresses(plan: &Plan) -> Result<(), LiveError> {
    for host in &plan.hosts {
        let four = host.ipv4;
        let six = host.ipv6;
        let kinds = [
            (IpAddr::V4(four), four.is_loopback(), "a loopback address"),
            (
                IpAddr::V4(four),
                four.is_broadcast(),
                "the broadcast address",
            ),
            // 0.0.0.0/8, "this network" (RFC 1122, section 3.2.1.3).
            (IpAddr::V4(four), four.octets()[0] == 0, "of no network"),
            (
                IpAddr::V4(four),
                four.octets()[0] >= 240,
                "reserved (240.0.0.0/4)",
            ),
            (IpAddr::V6(six), six.is_loopback(), "the loopback address"),
            (
                IpAddr::V6(six),
                six.is_unicast_link_local(),
                "of one link only (fe80::/10)",
            ),
            (
                IpAddr::V6(six),
                six.to_ipv4_mapped().is_some(),
                "an IPv4 address in IPv6's clothes",
            ),
        ];
        if let Some((address, _, kind)) = kinds.into_iter().find(|(_, is, _)| *is) {
            return Err(LiveError::UnusableAddress {
                host: host.name.clone(),
                address,
                kind,
            });
        }
    }
    Ok(())
}

fn check_ipv6(plan: &Plan, routes: &Routes, ipv6: bool) -> Result<(), LiveError> {
    let flows = plan.flows.iter();
    let flows = flows.map(|f| (format!("flow/{}", f.name), f.ip, (f.from, f.to)));
    let apps = plan.apps.iter();
    let apps = apps.map(|a| (format!("app/{}", a.name), a.ip, (a.from, a.to)));
    for (what, _, (from, to)) in flows.chain(apps).filter(|(_, ip, _)| *ip == IpVersion::V6) {
        let refuse = |reason: String| LiveError::NoIpv6 { what, reason };
        let mtu = smallest_mtu(plan, routes, from.0, to.0);
        if !ipv6 {
            return Err(refuse(
                "and this kernel has none (CONFIG_IPV6, or ipv6.disable=1 on its command line)"
                    .to_owned(),
            ));
        }
        if mtu < IPV6_MIN_MTU {
            return Err(refuse(format!(
                "which Linux does not speak below {IPV6_MIN_MTU} bytes: a link on its path has mtu = {mtu}"
            )));
        }
    }
    Ok(())
}
