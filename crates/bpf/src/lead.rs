//! The connections of a control group, led to a port of loopback.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, OpenObject};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::BpfError;
use crate::libbpf::{self, refused};

/// `struct nw_end` of bpf/lead.bpf.c.
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, FromBytes, Immutable)]
struct End {
    address: [u8; 16],
    port: [u8; 4],
}

impl From<SocketAddr> for End {
    fn from(at: SocketAddr) -> Self {
        let address = match at.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let [high, low] = at.port().to_be_bytes();
        // As the kernel has a port in a word: its two bytes first, in network order.
        Self {
            address: address.octets(),
            port: port_word([high, low]),
        }
    }
}

fn port_word(port: [u8; 2]) -> [u8; 4] {
    u32::from(u16::from_ne_bytes(port)).to_ne_bytes()
}

impl From<End> for SocketAddr {
    fn from(end: End) -> Self {
        let address = IpAddr::V6(Ipv6Addr::from(end.address)).to_canonical();
        let port = u32::from_ne_bytes(end.port) as u16;
        Self::new(address, u16::from_be(port))
    }
}

/// Leads the TCP connections that programs of a control group open to a port of loopback,
/// 127.0.0.1 and ::1. Dropping it, or the end of the process, takes it off.
pub struct Lead {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    led: MapHandle,
    _object: Object,
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead")
            .field("programs", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl Lead {
    /// Attaches the programs to `cgroup`, a folder of the second hierarchy. Connections to
    /// `spared`, to loopback and to a link stay as they are.
    ///
    /// # Errors
    /// If the kernel refuses, or the caller is not root.
    pub fn attach(cgroup: BorrowedFd<'_>, port: u16, spared: SocketAddr) -> Result<Self, BpfError> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/lead.bpf.o"));
        let mut object = libbpf::open("lead", bytes)?;
        set(&mut object, port, spared);
        let object = libbpf::load(object, "load the programs that lead connections")?;
        let map = object.maps().find(|m| m.name() == "nw_led");
        let map = map.expect("the object has this map");
        let led = MapHandle::try_from(&map);
        let led = led.map_err(|e| refused("hold a map of connections", &e))?;
        let attach = |program: libbpf_rs::ProgramMut<'_>| {
            let attached = program.attach_cgroup(cgroup.as_raw_fd());
            attached.map_err(|e| refused("lead the connections of a control group", &e))
        };
        let links = object.progs_mut().map(attach).collect::<Result<_, _>>()?;
        Ok(Self {
            links,
            led,
            _object: object,
        })
    }

    /// What finds out where to connections were opened that were led.
    ///
    /// # Errors
    /// If the kernel gives no hold of the map.
    pub fn origins(&self) -> Result<Origins, BpfError> {
        let led = MapHandle::try_from(&self.led);
        Ok(Origins(
            led.map_err(|e| refused("hold a map of connections", &e))?,
        ))
    }
}

/// Where to connections were opened that were led.
pub struct Origins(MapHandle);

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Origins")
    }
}

impl Origins {
    /// Where to the connection from `client` had been opened, which is forgotten with that.
    pub fn take(&self, client: SocketAddr) -> Option<SocketAddr> {
        let key = End::from(client);
        let value = self.0.lookup(key.as_bytes(), MapFlags::ANY).ok()??;
        // One that stays is replaced in its time.
        let _ = self.0.delete(key.as_bytes());
        Some(End::read_from_bytes(&value).ok()?.into())
    }
}

/// Writes to the programs where to lead connections, and which to spare.
fn set(object: &mut OpenObject, port: u16, spared: SocketAddr) {
    let mut settings = End::from(spared).as_bytes().to_vec();
    settings.extend_from_slice(&port_word(port.to_be_bytes()));
    for mut map in object.maps_mut() {
        if map.name() == ".rodata.nw" {
            if let Some(value) = map.initial_value_mut() {
                value[..settings.len()].copy_from_slice(&settings);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_the_same_there_and_back() {
        for at in ["192.0.2.1:80", "[2001:db8::1]:65535", "127.0.0.1:1"] {
            let at: SocketAddr = at.parse().expect("an address");
            assert_eq!(SocketAddr::from(End::from(at)), at);
        }
        let end = End::from("192.0.2.1:258".parse::<SocketAddr>().expect("an address"));
        assert_eq!(end.address[10..], [0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(u32::from_ne_bytes(end.port), u32::from(258u16.to_be()));
    }
}
