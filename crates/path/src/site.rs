//! Where boxes stand.

use std::net::IpAddr;

use narrows_core::EntityId;

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
}
