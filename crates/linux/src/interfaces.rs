//! Devices, addresses and routes of a namespace.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::libc;

use super::Namespace;
use super::netlink::Netlink;
use crate::LinuxError;

/// The index of `lo`, the first device of every network namespace.
pub const LOOPBACK: u32 = 1;

/// A device as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The largest IP packet that it takes, in bytes.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Packets that it could not queue for its reader.
    pub dropped: u64,
}

/// A route to put into a namespace's main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub to: IpAddr,
    /// How many bits of that count: 32 or 128 for one host, 0 for all.
    pub prefix_len: u8,
    /// The device that packets leave by.
    pub device: u32,
    /// The router that they go to, if not straight to the destination.
    pub via: Option<IpAddr>,
    /// The address that packets of this host bear.
    pub source: Option<IpAddr>,
    /// The largest packet that gets through, in bytes, if it is known to be
    /// smaller than the device's.
    pub mtu: Option<u32>,
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn link(index: u32, attributes: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = attributes;
    message
}

fn described(message: &LinkMessage) -> Device {
    let mut device = Device {
        index: message.header.index,
        name: String::new(),
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        dropped: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => device.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => device.mtu = *mtu,
            LinkAttribute::Stats64(stats) => device.dropped = stats.tx_dropped,
            _ => {}
        }
    }
    device
}

impl Namespace {
    pub(crate) fn refused(&self, what: impl std::fmt::Display, error: io::Error) -> LinuxError {
        LinuxError::refused(format!("{}: {what}", self.name()), error)
    }

    pub(crate) fn order(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.netlink().order(message, flags)
    }

    /// The devices of the namespace, in order of their index.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn devices(&self) -> Result<Vec<Device>, LinuxError> {
        let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.netlink().dump(ask);
        let answers = answers.map_err(|e| self.refused("its devices cannot be listed", e))?;
        let mut devices: Vec<_> = answers
            .iter()
            .filter_map(|m| match m {
                RouteNetlinkMessage::NewLink(link) => Some(described(link)),
                _ => None,
            })
            .collect();
        devices.sort_by_key(|d| d.index);
        Ok(devices)
    }

    /// The device called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn device(&self, name: &str) -> Result<Device, LinuxError> {
        let ask = link(0, vec![LinkAttribute::IfName(name.to_owned())]);
        let answers = self.netlink().get(RouteNetlinkMessage::GetLink(ask));
        answers
            .and_then(|all| {
                all.iter()
                    .find_map(|m| match m {
                        RouteNetlinkMessage::NewLink(link) => Some(described(link)),
                        _ => None,
                    })
                    .ok_or_else(|| io::ErrorKind::NotFound.into())
            })
            .map_err(|e| self.refused(format!("there is no device {name}"), e))
    }

    /// Changes a device: `set_device(index, LinkFlags::Up, LinkFlags::Up, …)`.
    pub fn set_device(
        &self,
        index: u32,
        flags: LinkFlags,
        mask: LinkFlags,
        attributes: Vec<LinkAttribute>,
    ) -> io::Result<()> {
        let mut message = link(index, attributes);
        message.header.flags = flags;
        message.header.change_mask = mask;
        self.order(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Takes a device into use.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_up(&self, device: u32) -> Result<(), LinuxError> {
        self.set_device(device, LinkFlags::Up, LinkFlags::Up, Vec::new())
            .map_err(|e| self.refused(format!("device {device} cannot be set up"), e))
    }

    /// Sets the largest IP packet that a device takes, in bytes.
    ///
    /// # Errors
    /// When the device takes none of that size.
    pub fn set_mtu(&self, device: u32, mtu: u32) -> Result<(), LinuxError> {
        let attributes = vec![LinkAttribute::Mtu(mtu)];
        self.set_device(device, LinkFlags::empty(), LinkFlags::empty(), attributes)
            .map_err(|e| self.refused(format!("device {device} takes no MTU of {mtu}"), e))
    }

    /// Removes a device.
    ///
    /// # Errors
    /// When it is gone already, or is one that cannot be removed.
    pub fn remove_device(&self, device: u32) -> Result<(), LinuxError> {
        let message = RouteNetlinkMessage::DelLink(link(device, Vec::new()));
        self.order(message, 0)
            .map_err(|e| self.refused(format!("device {device} cannot be removed"), e))
    }

    /// Gives a device an address with `prefix_len` bits of network. An IPv6
    /// address is usable at once: there is no duplicate address detection.
    ///
    /// # Errors
    /// When the device has it already, or cannot have it.
    pub fn add_address(
        &self,
        device: u32,
        address: IpAddr,
        prefix_len: u8,
    ) -> Result<(), LinuxError> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix_len;
        message.header.index = device;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            let flags = AddressFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(flags));
        }
        let message = RouteNetlinkMessage::NewAddress(message);
        self.order(message, NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|e| self.refused(format!("device {device} cannot have {address}"), e))
    }

    /// The addresses of the namespace with the index of the device that has
    /// each.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn addresses(&self) -> Result<Vec<(u32, IpAddr)>, LinuxError> {
        let ask = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.netlink().dump(ask);
        let answers = answers.map_err(|e| self.refused("its addresses cannot be listed", e))?;
        let of = |message: &AddressMessage| {
            let attributes = &message.attributes;
            let local = attributes.iter().find_map(|a| match a {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            let address = attributes.iter().find_map(|a| match a {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            });
            Some((message.header.index, local.or(address)?))
        };
        Ok(answers
            .iter()
            .filter_map(|m| match m {
                RouteNetlinkMessage::NewAddress(address) => of(address),
                _ => None,
            })
            .collect())
    }

    /// Puts a route into the main table, in place of one to the same
    /// destination if there is one.
    ///
    /// # Errors
    /// When the kernel refuses: the device is down, the router is not reached.
    pub fn add_route(&self, route: &Route) -> Result<(), LinuxError> {
        let message = RouteNetlinkMessage::NewRoute(message_of(route));
        self.order(message, NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|e| {
                let (to, bits) = (route.to, route.prefix_len);
                self.refused(format!("the route to {to}/{bits} cannot be made"), e)
            })
    }

    /// The unicast routes of the main tables.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn routes(&self) -> Result<Vec<Route>, LinuxError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.netlink().dump(RouteNetlinkMessage::GetRoute(message));
            let answers = answers.map_err(|e| self.refused("its routes cannot be listed", e))?;
            routes.extend(answers.iter().filter_map(|m| match m {
                RouteNetlinkMessage::NewRoute(route) => route_of(route),
                _ => None,
            }));
        }
        Ok(routes)
    }

    /// Where routes of any table lead, the namespace's own addresses included:
    /// address and bits of network. What leads everywhere is left out.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn destinations(&self) -> Result<Vec<(IpAddr, u8)>, LinuxError> {
        let mut all = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let answers = self.netlink().dump(RouteNetlinkMessage::GetRoute(message));
            let answers = answers.map_err(|e| self.refused("its routes cannot be listed", e))?;
            for answer in &answers {
                let RouteNetlinkMessage::NewRoute(route) = answer else {
                    continue;
                };
                let bits = route.header.destination_prefix_length;
                let to = route.attributes.iter().find_map(|a| match a {
                    RouteAttribute::Destination(RouteAddress::Inet(a)) => Some(IpAddr::V4(*a)),
                    RouteAttribute::Destination(RouteAddress::Inet6(a)) => Some(IpAddr::V6(*a)),
                    _ => None,
                });
                all.extend(to.filter(|_| bits > 0).map(|to| (to, bits)));
            }
        }
        Ok(all)
    }
}

/// The most segments in one packet that a device of the calling thread's
/// namespace takes (`gso_max_segs`), and the device's index.
pub fn own_segments(name: &str) -> io::Result<(u32, u32)> {
    let mut netlink = Netlink::open()?;
    let ask = link(0, vec![LinkAttribute::IfName(name.to_owned())]);
    let answers = netlink.get(RouteNetlinkMessage::GetLink(ask))?;
    let found = answers.iter().find_map(|m| match m {
        RouteNetlinkMessage::NewLink(message) => {
            let segments = message.attributes.iter().find_map(|a| match a {
                LinkAttribute::GsoMaxSegs(segments) => Some(*segments),
                _ => None,
            });
            // Before Linux 4.6 it was not reported; 65,535 is the kernel's default.
            Some((message.header.index, segments.unwrap_or(65_535)))
        }
        _ => None,
    });
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Sets it; sockets that are connected already keep what they have.
pub fn set_own_segments(name: &str, segments: u32) -> io::Result<()> {
    let (index, _) = own_segments(name)?;
    let message = link(index, vec![LinkAttribute::GsoMaxSegs(segments)]);
    Netlink::open()?.order(RouteNetlinkMessage::SetLink(message), 0)
}

/// Removes a device of the calling thread's namespace; whether it was there.
pub fn remove_own_device(name: &str) -> io::Result<bool> {
    let mut netlink = Netlink::open()?;
    let ask = link(0, vec![LinkAttribute::IfName(name.to_owned())]);
    let remove = RouteNetlinkMessage::DelLink(ask);
    match netlink.order(remove, 0) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(false),
        Err(e) => Err(e),
    }
}

fn message_of(route: &Route) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(route.to),
        destination_prefix_length: route.prefix_len,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        // IPv6 routes have no scope.
        scope: if route.via.is_none() && route.to.is_ipv4() {
            RouteScope::Link
        } else {
            RouteScope::Universe
        },
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes.push(RouteAttribute::Oif(route.device));
    let mut add = |attribute| message.attributes.push(attribute);
    if route.prefix_len > 0 {
        add(RouteAttribute::Destination(route.to.into()));
    }
    if let Some(via) = route.via {
        add(RouteAttribute::Gateway(via.into()));
    }
    if let Some(source) = route.source {
        add(RouteAttribute::PrefSource(source.into()));
    }
    if let Some(mtu) = route.mtu {
        add(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
    }
    message
}

fn route_of(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let unspecified = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    let mut route = Route {
        to: unspecified,
        prefix_len: header.destination_prefix_length,
        device: 0,
        via: None,
        source: None,
        mtu: None,
    };
    let plain = |address: &RouteAddress| match address {
        RouteAddress::Inet(a) => Some(IpAddr::V4(*a)),
        RouteAddress::Inet6(a) => Some(IpAddr::V6(*a)),
        _ => None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => route.to = plain(to)?,
            RouteAttribute::Oif(device) => route.device = *device,
            RouteAttribute::Gateway(via) => route.via = plain(via),
            RouteAttribute::PrefSource(source) => route.source = plain(source),
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|m| match m {
                    RouteMetric::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    Some(route)
}

/// A pair of Ethernet devices joined by a wire, one in each of two namespaces.
/// Goes away when dropped, as it does when either namespace ends.
#[derive(Debug)]
pub struct Veth {
    near: Namespace,
    /// The index of the first namespace's device.
    pub near_index: u32,
    /// The index of the second's.
    pub far_index: u32,
}

impl Veth {
    /// Makes a pair, `a_name` in `a` and `b_name` in `b`, both up. Names have
    /// at most 15 characters.
    ///
    /// # Errors
    /// When a name is taken, or the kernel has no veth.
    pub fn between(
        a: &Namespace,
        a_name: &str,
        b: &Namespace,
        b_name: &str,
    ) -> Result<Self, LinuxError> {
        let peer = link(
            0,
            vec![
                LinkAttribute::IfName(b_name.to_owned()),
                LinkAttribute::NetNsFd(b.descriptor().as_raw_fd()),
            ],
        );
        let message = link(
            0,
            vec![
                LinkAttribute::IfName(a_name.to_owned()),
                LinkAttribute::LinkInfo(vec![
                    LinkInfo::Kind(InfoKind::Veth),
                    LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
                ]),
            ],
        );
        let message = RouteNetlinkMessage::NewLink(message);
        a.order(message, NLM_F_CREATE | NLM_F_EXCL).map_err(|e| {
            let what = format!("the pair {a_name} and {b_name} cannot be made");
            match e.raw_os_error() {
                // What rtnetlink says of a kind of device that it does not know.
                Some(libc::EOPNOTSUPP) => LinuxError::NoVeth { what },
                _ => a.refused(what, e),
            }
        })?;
        let mut veth = Self {
            near: a.clone(),
            near_index: a.device(a_name)?.index,
            far_index: 0,
        };
        // From here on an error drops, and so removes, the pair.
        veth.far_index = b.device(b_name)?.index;
        a.set_up(veth.near_index)?;
        b.set_up(veth.far_index)?;
        Ok(veth)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        // The other end's namespace may have taken both along.
        let _ = self.near.remove_device(self.near_index);
    }
}
