//! Where boxes stand.

use std::net::IpAddr;

use narrows_core::{EntityId, Port};

use crate::ElementSpec;

/// Where a box stands; what it needs besides its own words.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// By which it reports. A tap reports by its observation point's.
    pub entity: EntityId,
    /// Its full name; with the seed it seeds the box's randomness.
    pub name: &'a str,
    /// The run's seed.
    pub seed: u64,
    /// The link's MTU in bytes of IP.
    pub mtu: u32,
    /// Whether the box is in the link's up direction.
    pub forward: bool,
    /// A two-way box's own addresses, IPv4 and IPv6; hosts' ways to them lead to the
    /// link's first end. Of no meaning to one-way elements.
    pub addresses: [IpAddr; 2],
    /// The other end, if the box is one of the two of a tunnel.
    pub other_end: Option<OtherEnd>,
    /// The ports of a node, this site being the first; none for all other elements.
    pub ports: &'a [PortSite<'a>],
}

/// One port of a node.
#[derive(Clone, Copy, Debug)]
pub struct PortSite<'a> {
    /// Where it stands: in front of its link.
    pub site: Site<'a>,
    /// Its words, which differ from the others' in what a port may have of its own.
    pub spec: &'a ElementSpec,
}

/// The other end of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct OtherEnd {
    /// Its own addresses, IPv4 and IPv6.
    pub addresses: [IpAddr; 2],
    /// The way that leads there.
    pub way: Port,
}
