//! Which of a tin's queues a packet goes into, and how much each queue may send in a round:
//! a set-associative hash of flows, and the load of the hosts at their ends.
//!
//! Behaviour from Linux net/sched/sch_cake.c v6.17 (`cake_hash`, `cake_get_flow_quantum`).

use narrows_core::Packet;
use narrows_units::{Draw, Rng};

use crate::flows::FlowHash;

/// Queues of a tin (`CAKE_QUEUES`).
pub(super) const QUEUES: u16 = 1024;
/// Queues among which a flow finds one of its own (`CAKE_SET_WAYS`).
const WAYS: u16 = 8;

/// What a flow is, and between whom capacity is shared first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowMode {
    /// All packets of a tin are one flow.
    Blind,
    /// A flow is a source address.
    SourceHost,
    /// A flow is a destination address.
    DestinationHost,
    /// A flow is a pair of addresses.
    Hosts,
    /// A flow is addresses, ports and protocol.
    Flows,
    /// The same; sources share first.
    DualSource,
    /// The same; destinations share first.
    DualDestination,
    /// The same; the more loaded of the two ends decides.
    #[default]
    Triple,
}

/// The words of tc.
pub(super) const MODES: &[(&str, FlowMode)] = &[
    ("flowblind", FlowMode::Blind),
    ("srchost", FlowMode::SourceHost),
    ("dsthost", FlowMode::DestinationHost),
    ("hosts", FlowMode::Hosts),
    ("flows", FlowMode::Flows),
    ("dual-srchost", FlowMode::DualSource),
    ("dual-dsthost", FlowMode::DualDestination),
    ("triple-isolate", FlowMode::Triple),
];

impl FlowMode {
    /// Whether the source's and the destination's loads count.
    const fn loads(self) -> [bool; 2] {
        match self {
            Self::DualSource => [true, false],
            Self::DualDestination => [false, true],
            Self::Triple => [true, true],
            _ => [false, false],
        }
    }

    /// What distinguishes the flow of `packet` from others; `None` where all are one.
    pub(super) fn flow_of(self, hash: FlowHash, packet: &Packet) -> Option<u32> {
        Some(match self {
            Self::Blind => return None,
            Self::SourceHost => hash.ends(packet)[0],
            Self::DestinationHost => hash.ends(packet)[1],
            Self::Hosts => {
                let [source, destination] = hash.ends(packet);
                source ^ destination
            }
            Self::Flows | Self::DualSource | Self::DualDestination | Self::Triple => {
                hash.of(packet)
            }
        })
    }
}

/// In which state a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    /// Empty and at rest: free for any flow.
    #[default]
    Free,
    /// Has not had its quantum.
    Sparse,
    /// Has had its quantum and was empty then: counted as sparse, served as bulk.
    SparseWait,
    /// Has had its quantum.
    Bulk,
    /// Empty, its AQM not yet at rest.
    Decaying,
}

/// A host, once as a source and once as a destination.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    tag: [u32; 2],
    /// Bulk flows from it, and to it.
    bulk: [u16; 2],
}

/// The hash of one tin.
#[derive(Clone, Debug)]
pub(super) struct Isolation {
    mode: FlowMode,
    hash: FlowHash,
    /// The flow that has or had each queue.
    tags: Vec<u32>,
    sets: Vec<Set>,
    /// The hosts of each queue's flow, as places in `hosts`.
    ends: Vec<[u16; 2]>,
    hosts: Vec<Host>,
}

/// The places of one set: those of `hash`'s set, beginning with its own.
fn ways(hash: u32) -> impl Iterator<Item = u16> {
    let place = (hash % u32::from(QUEUES)) as u16;
    let inner = place % WAYS;
    (0..WAYS).map(move |i| place - inner + (inner + i) % WAYS)
}

impl Isolation {
    pub fn new(mode: FlowMode, hash: FlowHash) -> Self {
        let queues = usize::from(QUEUES);
        Self {
            mode,
            hash,
            tags: vec![0; queues],
            sets: vec![Set::Free; queues],
            ends: vec![[0; 2]; queues],
            hosts: vec![Host::default(); queues],
        }
    }

    /// Takes flows for what `mode` says from now on.
    pub fn change_mode(&mut self, mode: FlowMode) {
        self.mode = mode;
    }

    pub fn set_of(&self, queue: u16) -> Set {
        self.sets[usize::from(queue)]
    }

    /// Brings `queue` into another state; the loads of its hosts follow.
    pub fn enter(&mut self, queue: u16, set: Set) {
        let before = std::mem::replace(&mut self.sets[usize::from(queue)], set);
        if before != Set::Bulk && set == Set::Bulk {
            self.load(queue);
        } else if before == Set::Bulk && set != Set::Bulk {
            self.unload(queue);
        }
    }

    /// One more bulk flow at both ends of `queue`'s flow, where the mode counts them.
    fn load(&mut self, queue: u16) {
        for (end, counts) in self.mode.loads().into_iter().enumerate() {
            let bulk = &mut self.hosts[usize::from(self.ends[usize::from(queue)][end])].bulk[end];
            if counts && *bulk < QUEUES {
                *bulk += 1;
            }
        }
    }

    fn unload(&mut self, queue: u16) {
        for (end, counts) in self.mode.loads().into_iter().enumerate() {
            let bulk = &mut self.hosts[usize::from(self.ends[usize::from(queue)][end])].bulk[end];
            if counts && *bulk > 0 {
                *bulk -= 1;
            }
        }
    }

    /// The queue of `packet`.
    pub fn queue_of(&mut self, packet: &Packet) -> u16 {
        let Some(flow) = self.mode.flow_of(self.hash, packet) else {
            return 0;
        };
        let own = (flow % u32::from(QUEUES)) as u16;
        if self.tags[usize::from(own)] == flow && self.set_of(own) != Set::Free {
            return own;
        }
        let reserved = ways(flow).find(|q| self.tags[usize::from(*q)] == flow);
        if let Some(queue) = reserved.filter(|q| self.set_of(*q) != Set::Free) {
            return queue;
        }
        let free = || ways(flow).find(|q| self.set_of(*q) == Set::Free);
        let queue = reserved.or_else(free).unwrap_or(own);
        // Where all are taken, two flows share a queue, which counts for the later one's hosts.
        let bulk = self.set_of(queue) == Set::Bulk;
        if bulk {
            self.unload(queue);
        }
        self.tags[usize::from(queue)] = flow;
        self.find_hosts(queue, packet);
        if bulk {
            self.load(queue);
        }
        queue
    }

    /// Notes the hosts of `packet` as those of `queue`.
    fn find_hosts(&mut self, queue: u16, packet: &Packet) {
        let loads = self.mode.loads();
        if loads == [false; 2] {
            return;
        }
        let hashes = self.hash.ends(packet);
        for end in 0..2 {
            if !loads[end] {
                continue;
            }
            let host = |place: u16| self.hosts[usize::from(place)];
            let hash = hashes[end];
            let known = ways(hash).find(|p| host(*p).tag[end] == hash);
            let idle = || ways(hash).find(|p| host(*p).bulk[end] == 0);
            let place = known
                .or_else(idle)
                .unwrap_or((hash % u32::from(QUEUES)) as u16);
            self.hosts[usize::from(place)].tag[end] = hash;
            self.ends[usize::from(queue)][end] = place;
        }
    }

    /// Bulk flows of the more loaded of the ends that count; at least 1.
    fn host_load(&self, queue: u16) -> u32 {
        let mut load = 1;
        for (end, counts) in self.mode.loads().into_iter().enumerate() {
            if counts {
                let host = self.hosts[usize::from(self.ends[usize::from(queue)][end])];
                load = load.max(host.bulk[end]);
            }
        }
        load.into()
    }

    /// What `queue` may send in a round in bytes: its part of `quantum` among the bulk flows
    /// of its more loaded end, rounded at random so that the parts add up.
    pub fn quantum(&self, queue: u16, quantum: u32, rng: &mut Rng) -> i32 {
        let part = 0xffff / self.host_load(queue);
        ((quantum * part + (rng.draw_u32() >> 16)) >> 16) as i32
    }
}

#[cfg(test)]
mod tests;
