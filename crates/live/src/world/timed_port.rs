//! One end of a link as its host sees it where time is virtual: a veth whose other end the
//! path has.
//!
//! A system call is dear there and a timer exact. So packets do not cross by a call each, as
//! over a [`Tun`](super::Tun), but wait with the time of their arrival until the path asks,
//! and go in at the time that the path has given them, by a timer of the kernel's.

use narrows_linux::TcPlace;
use narrows_linux::system_calls::without_offloads;
use narrows_linux::timed_socket::TimedSocket;
use netlink_packet_route::link::{LinkAttribute, LinkFlags};

use super::kernel_link::HOST_ADDRESS;
use super::{Namespace, RunId, Veth, sysctl};
use crate::LiveError;
use crate::disciplines::Discipline;

/// The hardware address of the path's devices: not the one of those in hosts, to which hosts
/// send as well, so that no stack there takes what comes.
const PATH_ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

/// The largest MTU of a veth, in bytes (`ETH_MAX_MTU`).
const LARGEST_MTU: u32 = 65_535;

/// Where the path's ends of all ports are.
#[derive(Debug)]
pub(crate) struct TimedPorts {
    namespace: Namespace,
    socket: TimedSocket,
}

impl TimedPorts {
    /// Makes the place.
    ///
    /// # Errors
    /// Where the kernel has no packet sockets with times.
    pub(super) fn open(run: &RunId) -> Result<Self, LiveError> {
        let namespace = Namespace::new(run, "the path")?;
        if sysctl::has_ipv6() {
            namespace.set_sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        }
        let socket = namespace
            .run(TimedSocket::open)?
            .map_err(|e| LiveError::refused("a packet socket with times", e))?;
        Ok(Self { namespace, socket })
    }

    /// What packets come and go by.
    pub(crate) fn socket(&self) -> &TimedSocket {
        &self.socket
    }

    /// Makes an end of a link in `host`: the device `name` (at most 15 characters) with
    /// `mtu` bytes as its largest packet.
    ///
    /// # Errors
    /// Where the kernel lacks veth or fq.
    pub(super) fn port(
        &self,
        host: &Namespace,
        name: String,
        mtu: u32,
    ) -> Result<TimedPort, LiveError> {
        let here = &self.namespace;
        let wire = Veth::between(host, &name, here, &name)?;
        let refused = |e| LiveError::refused(format!("{}: device {name}", host.name()), e);
        let quiet = LinkFlags::Noarp | LinkFlags::Multicast;
        for (namespace, device, address, mtu) in [
            (host, wire.near_index, HOST_ADDRESS, mtu),
            (here, wire.far_index, PATH_ADDRESS, LARGEST_MTU),
        ] {
            let attributes = vec![
                LinkAttribute::Address(address.to_vec()),
                LinkAttribute::Mtu(mtu),
            ];
            namespace
                .set_device(device, LinkFlags::Noarp, quiet, attributes)
                .map_err(refused)?;
        }
        host.run(|| without_offloads(&name))?.map_err(refused)?;
        here.put_queue(
            wire.far_index,
            Discipline::releases_at_times().as_qdisc(),
            TcPlace::ROOT,
        )
        .map_err(refused)?;
        Ok(TimedPort {
            name,
            mtu,
            host: host.clone(),
            wire,
        })
    }
}

/// The end of a link in a host.
#[derive(Debug)]
pub(crate) struct TimedPort {
    name: String,
    mtu: u32,
    host: Namespace,
    wire: Veth,
}

impl TimedPort {
    /// The device's name in its host.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The device's index in its host.
    pub(crate) fn index(&self) -> u32 {
        self.wire.near_index
    }

    /// By which the path knows it: the index of the other end.
    pub(crate) fn number(&self) -> u32 {
        self.wire.far_index
    }

    /// The largest packet that its host takes from it, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// From now on TCP hands it at most `segments` at once (`gso_max_segs`).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn limit_bursts(&self, segments: u32) -> Result<(), LiveError> {
        let attributes = vec![LinkAttribute::GsoMaxSegs(segments)];
        let none = LinkFlags::empty();
        let set = self.host.set_device(self.index(), none, none, attributes);
        set.map_err(|e| LiveError::refused(format!("{}: gso_max_segs {segments}", self.name), e))
    }
}
