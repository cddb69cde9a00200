//! The elements of a plan's links, driven in real time over TUN devices.
//!
//! One thread, the caller's, does all of it: it reads packets from devices,
//! hands them to the same elements that the simulator runs, wakes elements when
//! they asked for it, and writes what leaves a link to the device at its end.
//! A write runs the receiving kernel stack within the call, up to the socket.
//!
//! # Path time
//!
//! Elements are not called with what the clock shows but with **path time**:
//!
//! - a wake is served with the time for which it was asked, in order, however
//!   late the thread comes to it;
//! - a packet enters with the clock's reading from just before it was read,
//!   after all wakes due by then.
//!
//! So path time follows the clock, lags behind it while the machine keeps the
//! thread from running, and catches up by serving what was due. A link of
//! limited rate thereby loses nothing of its capacity to lateness: the next
//! packet's bits go out from when the last one's ended, not from when the thread
//! noticed. Events carry path time: the sojourn that they carry is the queue's
//! own, without the machine's noise. The noise is reported apart from it, as the
//! [lateness](crate::Lateness) with which packets were written. What is lost is
//! what was not observed: a packet that came while the thread was not running enters
//! when it is read, so that a queue that ran empty meanwhile stays empty.
//!
//! # Waiting
//!
//! Timers wake a thread some tens of microseconds late. The thread therefore
//! sleeps only until shortly before the next wake, with all devices watched,
//! and then polls clock and devices in turn until the wake is due.
//!
//! # Virtual time
//!
//! Where time is virtual, timers are exact and calls dear, so that it works another way,
//! by ports instead of TUN devices: see [`virtual_time`].

mod ahead;
mod devices;
mod drive;
mod flow_table;
mod forwarded;
mod held;
mod lateness;
mod lookahead;
mod pace;
mod routers;
mod tally;
mod virtual_time;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use narrows_core::EntityId;
use narrows_linux::timed_socket::TimedSocket;
use narrows_path::paths::{Link, Next, Paths, Planned};
use narrows_path::wakes::Slot;
use narrows_scenario::{BadChange, HostIndex, NameTable, Plan, assemble};
use narrows_units::{Duration, Instant};

use crate::world::TimedPort;
use devices::{Device, Port, Way};
pub use drive::Driven;
use flow_table::FlowTable;
use forwarded::Forwarded;
use lookahead::Lookahead;
use routers::Routers;
pub use tally::Tally;

/// Why a path cannot be driven, or cannot be driven any longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// There is not one pair of devices for each link.
    #[error("{links} links need as many pairs of devices; {pairs} were given")]
    Devices {
        /// Links of the plan.
        links: usize,
        /// Pairs given.
        pairs: usize,
    },
    /// A change names an element that is not there, or has words that it does
    /// not understand.
    #[error(transparent)]
    Change(#[from] BadChange),
    /// A device was deleted.
    #[error("the device of {host} on link {link} was deleted while the run used it")]
    Gone {
        /// Whose device it was.
        host: String,
        /// On which link.
        link: String,
    },
    /// A device failed.
    #[error("the device of {host} on link {link} cannot be {what}: {error}")]
    Device {
        /// Whose device it is.
        host: String,
        /// On which link.
        link: String,
        /// `read`, `written` or `watched`.
        what: &'static str,
        /// What the kernel says.
        error: nix::Error,
    },
    /// The ports of a path in virtual time failed.
    #[error("the ports of the path failed: {0}")]
    Ports(nix::Error),
    /// An element asked to be called again and again at one instant.
    #[error("{element} makes no progress at {at}")]
    Stuck {
        /// Which.
        element: String,
        /// When.
        at: Instant,
    },
}

/// A host or router.
#[derive(Clone, Copy)]
struct Node {
    entity: EntityId,
    router: bool,
    ipv4: [u8; 4],
    ipv6: [u8; 16],
}

/// The plan as far as it is ours: without the elements of links that the kernel
/// carries.
fn without_the_kernels(plan: &Plan) -> Plan {
    let mut own = plan.clone();
    for link in own.links.iter_mut().filter(|l| !l.datapath.is_own()) {
        link.up.clear();
        link.down.clear();
    }
    own
}

/// The paths of a plan between open devices.
pub struct Datapath<'d> {
    names: NameTable,
    links: Vec<Link>,
    changes: Vec<Planned>,
    nodes: Vec<Node>,
    /// What each node has in its hands to forward; nothing but for routers.
    forwarded: Vec<Forwarded>,
    flows: FlowTable,
    /// That of link `l`'s first end is number `2l`, that of its second `2l + 1`.
    /// `None` for those of links that the kernel carries.
    devices: Vec<Option<Device<'d>>>,
    /// What devices with times are reached by.
    socket: Option<&'d TimedSocket>,
    /// Those that forward here.
    routers: Routers,
    /// How far ahead of path time what leaves is.
    lookahead: Lookahead,
    /// A [`Next::Node`] is the number of a device here.
    paths: Paths,
    sample_interval: Duration,
    end: Instant,
    /// Where others ask what the elements have counted.
    tally: Option<Arc<Tally>>,
}

impl<'d> Datapath<'d> {
    /// [`of_own_links`](Self::of_own_links) of a plan all of whose links are
    /// driven here.
    ///
    /// # Errors
    /// As there.
    pub fn new(
        plan: &Plan,
        seed: u64,
        devices: &[(BorrowedFd<'d>, BorrowedFd<'d>)],
    ) -> Result<Self, PathError> {
        let devices: Vec<_> = devices.iter().copied().map(Some).collect();
        Self::of_own_links(plan, seed, &devices)
    }

    /// Builds the elements of `plan` between `devices`: of each link the
    /// nonblocking TUN devices (without packet information) of its first and
    /// second end, `None` for a link that the kernel carries. Randomness comes from `seed` and the elements' names.
    ///
    /// # Errors
    /// When devices and links are not as many, or a timed change is wrong.
    pub fn of_own_links(
        plan: &Plan,
        seed: u64,
        devices: &[Option<(BorrowedFd<'d>, BorrowedFd<'d>)>],
    ) -> Result<Self, PathError> {
        let ways = |(a, b): (BorrowedFd<'d>, BorrowedFd<'d>)| [Way::Calls(a), Way::Calls(b)];
        let ways: Vec<_> = devices.iter().map(|pair| pair.map(ways)).collect();
        Self::between(plan, seed, &ways, None)
    }

    /// [`of_own_links`](Self::of_own_links) of a world whose time is virtual, between its
    /// `ports`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn of_timed_links(
        plan: &Plan,
        seed: u64,
        (socket, ports): (&'d TimedSocket, &[Option<[&TimedPort; 2]>]),
    ) -> Result<Self, PathError> {
        let way = |port: &TimedPort| {
            Way::Times(Port {
                number: port.number(),
                mtu: port.mtu(),
            })
        };
        let ways: Vec<_> = ports.iter().map(|pair| pair.map(|p| p.map(way))).collect();
        Self::between(plan, seed, &ways, Some(socket))
    }

    fn between(
        plan: &Plan,
        seed: u64,
        ways: &[Option<[Way<'d>; 2]>],
        socket: Option<&'d TimedSocket>,
    ) -> Result<Self, PathError> {
        if ways.len() != plan.links.len() {
            return Err(PathError::Devices {
                links: plan.links.len(),
                pairs: ways.len(),
            });
        }
        let names = NameTable::of(plan);
        let plan = &without_the_kernels(plan);
        let mut assembled = assemble(plan, &names, seed, |link, up| {
            Next::Node((2 * link + usize::from(up)) as u32)
        })?;
        let nodes = plan.hosts.iter().map(|h| Node {
            entity: names.id(&format!("host/{}", h.name)).unwrap_or_default(),
            router: h.router,
            ipv4: h.ipv4.octets(),
            ipv6: h.ipv6.octets(),
        });
        let ends = plan.links.iter().zip(ways).flat_map(|(link, pair)| {
            let (HostIndex(a), HostIndex(b)) = link.ends;
            match *pair {
                Some([first, second]) => {
                    [(first, a), (second, b)].map(|(way, node)| Some(Device { way, node }))
                }
                None => [None, None],
            }
        });
        let end = Instant::ZERO + plan.duration;
        let (routers, lookahead) = match socket {
            None => (Routers::none(plan), Lookahead::none(&assembled)),
            Some(_) => {
                let routers = Routers::of(plan);
                let lookahead = Lookahead::of(plan, &names, &assembled, &routers);
                lookahead.shift(&mut assembled, end);
                (routers, lookahead)
            }
        };
        let changes = assembled.changes;
        let mut paths = Paths::new(assembled.stages, 1 + changes.len());
        // Changes first: at equal times they come before packets.
        let sampler = paths.stages.len();
        for (i, change) in changes.iter().enumerate() {
            paths.wakes.set((sampler + 1 + i) as Slot, Some(change.at));
        }
        paths.first_wakes();
        // A sampler that never advances would keep the path from all else.
        let sample_interval = plan.sample_interval.max(Duration::from_micros(10));
        let first = Instant::ZERO + sample_interval;
        paths.wakes.set(sampler as Slot, Some(first));
        Ok(Self {
            nodes: nodes.collect(),
            forwarded: plan.hosts.iter().map(|_| Forwarded::default()).collect(),
            devices: ends.collect(),
            socket,
            routers,
            lookahead,
            flows: FlowTable::of(plan),
            links: assembled.links,
            changes,
            paths,
            sample_interval,
            end,
            names,
            tally: None,
        })
    }

    /// Answers in `tally` what its elements have counted, while it is driven.
    pub fn count_in(&mut self, tally: Arc<Tally>) {
        self.tally = Some(tally);
    }

    fn device_error(&self, device: usize, what: &'static str, error: nix::Error) -> PathError {
        let owner = self.devices.get(device).and_then(Option::as_ref);
        let host = owner.map_or_else(EntityId::default, |d| self.nodes[d.node].entity);
        let link = self.links[device / 2].entity;
        let short = |entity| {
            let name = self.names.name(entity);
            name.split_once('/').map_or(name, |(_, n)| n).to_owned()
        };
        let (host, link) = (short(host), short(link));
        // What a TUN file says whose device is no more (drivers/net/tun.c).
        if error == nix::errno::Errno::EBADFD {
            return PathError::Gone { host, link };
        }
        PathError::Device {
            host,
            link,
            what,
            error,
        }
    }
}
