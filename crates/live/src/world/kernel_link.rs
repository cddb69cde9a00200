//! A link whose elements are the kernel's queueing disciplines.
//!
//! Between the two hosts is a row of namespaces that forward, one for each
//! element of the longer direction, joined by veth pairs; the discipline of an
//! element is on the device by which packets leave its namespace. It is not on
//! the sender's own device: there TCP would hold its packets back (TCP small
//! queues), and the queue could not fill as that of a router does.
//!
//! Nobody on the link asks for addresses: both ends of a pair have the same
//! hardware address and NOARP, so that each end accepts every packet.

use narrows_linux::TcKind;
use narrows_path::routes::Routes;
use narrows_scenario::{HostIndex, LinkPlan, NamedElement, Plan};
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use nix::libc;

use super::{IPV6_MIN_MTU, Namespace, Route, RunId, Veth, sysctl};
use crate::LiveError;
use crate::disciplines::{KernelQueue, Timers, translate};

/// The hardware address of all devices: locally administered (IEEE 802, the
/// second bit of the first byte).
pub(crate) const HOST_ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 1];

/// The row between two hosts. Dropping it takes it down.
#[derive(Debug)]
pub(crate) struct KernelLink {
    /// The devices of the two hosts: name and index.
    pub ends: [(String, u32); 2],
    /// Where the disciplines are, up and then down, in order of travel.
    pub places: Vec<KernelQueue>,
    // The wires go before the namespaces that they join.
    _wires: Vec<Veth>,
    _between: Vec<Namespace>,
}

impl KernelLink {
    /// Builds link number `number` of `plan` between the namespaces of its
    /// ends.
    ///
    /// # Errors
    /// Where an element is no discipline, or the kernel has not got it.
    pub fn build(
        plan: &Plan,
        number: usize,
        run: &RunId,
        hosts: &[Namespace],
        routes: &Routes,
        switches: &[(&str, &str)],
    ) -> Result<Self, LiveError> {
        let link = &plan.links[number];
        let (first, last) = (&hosts[link.ends.0.0], &hosts[link.ends.1.0]);
        let between = (0..link.up.len().max(link.down.len()).max(1))
            .map(|hop| {
                let name = format!("link/{}: hop {}", link.name, hop + 1);
                let hop = Namespace::new(run, &name)?;
                hop.set_sysctls(switches)?;
                Ok(hop)
            })
            .collect::<Result<Vec<_>, LiveError>>()?;
        let row: Vec<&Namespace> = [first].into_iter().chain(&between).chain([last]).collect();
        let mut wires = Vec::new();
        let mut ends = [(String::new(), 0), (String::new(), 0)];
        let hops = between.len();
        for (hop, pair) in row.windows(2).enumerate() {
            let left = match hop {
                0 => run.device(format_args!("{number}a")),
                _ => run.device("r"),
            };
            let right = match hop {
                _ if hop == hops => run.device(format_args!("{number}b")),
                _ => run.device("l"),
            };
            let wire = Veth::between(pair[0], &left, pair[1], &right)?;
            settle(pair[0], wire.near_index, link.mtu)?;
            settle(pair[1], wire.far_index, link.mtu)?;
            if hop == 0 {
                ends[0] = (left, wire.near_index);
            }
            if hop == hops {
                ends[1] = (right, wire.far_index);
            }
            wires.push(wire);
        }
        let mut places = Vec::new();
        for (hop, here) in between.iter().enumerate() {
            forward(here)?;
            let (to_first, to_last) = (wires[hop].far_index, wires[hop + 1].near_index);
            lead(plan, number, routes, here, to_first, to_last)?;
            if let Some(element) = link.up.get(hop) {
                places.push(put(here, to_last, element, link)?);
            }
        }
        for (element, hop) in link.down.iter().zip((0..hops).rev()) {
            places.push(put(&between[hop], wires[hop].far_index, element, link)?);
        }
        Ok(Self {
            ends,
            places,
            _wires: wires,
            _between: between,
        })
    }
}

/// Makes a new device one that carries packets one by one, as they are, and
/// says nothing of its own.
fn settle(namespace: &Namespace, device: u32, mtu: u32) -> Result<(), LiveError> {
    let attributes = vec![
        LinkAttribute::Address(HOST_ADDRESS.to_vec()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::GsoMaxSegs(1),
    ];
    let mask = LinkFlags::Noarp | LinkFlags::Multicast;
    namespace
        .set_device(device, LinkFlags::Noarp, mask, attributes)
        .map_err(|e| {
            let what = format!("{}: a veth with an MTU of {mtu} bytes", namespace.name());
            LiveError::refused(what, e)
        })
}

fn forward(namespace: &Namespace) -> Result<(), LiveError> {
    namespace.set_sysctls(sysctl::OF_A_ROUTER)?;
    if sysctl::has_ipv6() {
        namespace.set_sysctls(sysctl::OF_AN_IPV6_ROUTER)?;
    }
    Ok(())
}

/// Routes from within the link: to whom its first end reaches over it by the
/// one device, to whom its second end does by the other.
fn lead(
    plan: &Plan,
    number: usize,
    routes: &Routes,
    here: &Namespace,
    to_first: u32,
    to_last: u32,
) -> Result<(), LiveError> {
    let link = &plan.links[number];
    let ipv6 = sysctl::has_ipv6() && link.mtu >= IPV6_MIN_MTU;
    for (end, up, device) in [(link.ends.0, true, to_last), (link.ends.1, false, to_first)] {
        let HostIndex(at) = end;
        for (to, there) in plan.hosts.iter().enumerate() {
            let path = routes.path(at, to).unwrap_or_default();
            if !path
                .first()
                .is_some_and(|hop| hop.link == number && hop.up == up)
            {
                continue;
            }
            let add = |to: std::net::IpAddr| {
                here.add_route(&Route {
                    to,
                    prefix_len: if to.is_ipv4() { 32 } else { 128 },
                    device,
                    via: None,
                    source: None,
                    mtu: None,
                })
            };
            add(there.ipv4.into())?;
            if ipv6 {
                add(there.ipv6.into())?;
            }
        }
    }
    Ok(())
}

/// Puts the disciplines of `element` on a device.
fn put(
    namespace: &Namespace,
    device: u32,
    element: &NamedElement,
    link: &LinkPlan,
) -> Result<KernelQueue, LiveError> {
    let refuse = |reason: String| LiveError::NoDiscipline {
        element: element.name.clone(),
        reason,
    };
    let disciplines = translate(&element.spec, link.mtu, Timers::here()).map_err(refuse)?;
    for discipline in &disciplines {
        let kind = discipline.kind;
        namespace
            .put_queue(device, discipline.as_qdisc(), discipline.place)
            .map_err(|e| match e.raw_os_error() {
                Some(libc::ENOENT) => refuse(format!(
                    "this kernel has no queueing discipline `{kind}` (as root: modprobe \
                     sch_{kind}; CONFIG_NET_SCH_{}); `narrows doctor` lists those that it has",
                    kind.to_uppercase()
                )),
                _ => LiveError::refused(format!("{}: {kind}", element.name), e),
            })?;
    }
    let queues = (disciplines.iter()).filter(|part| part.place.kind == TcKind::Queue);
    Ok(KernelQueue {
        element: element.name.clone(),
        kinds: queues.map(|part| part.kind).collect(),
        namespace: namespace.clone(),
        device,
    })
}
