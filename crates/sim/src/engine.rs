//! The event loop and what flows through it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use narrows_packet::{EventSink, HostHook, Packet};
use narrows_path::paths::{Link, Next, Paths, Planned};
use narrows_path::routes::Routes;
use narrows_path::wakes::Slot;
use narrows_scenario::{Handle, NameTable};
use narrows_units::{Duration, Instant};

use crate::control::{ElementReport, FlowReport, Outcome, SimError};
use crate::flow::{Flow, Socket};
use crate::host::Node;
use crate::model::ModelEnd;
use crate::probe::ProbeState;
use crate::quic::QuicEnd;

/// Wakes between two looks at the caller's cancel flag.
const LOOK_EVERY: u64 = 1 << 14;

/// Wakes at one instant after which a run counts as stuck. A burst of the
/// largest window that can be (a million segments) stays below.
const MOST_AT_ONCE: u64 = 1 << 24;

/// A run that is built and can be started once.
pub struct Simulation {
    pub(crate) names: NameTable,
    pub(crate) end: Instant,
    pub(crate) sample_interval: Duration,
    pub(crate) paths: Paths,
    pub(crate) links: Vec<Link>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) routes: Routes,
    pub(crate) addresses: BTreeMap<IpAddr, usize>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) probes: Vec<ProbeState>,
    pub(crate) quics: Vec<QuicEnd>,
    pub(crate) models: Vec<ModelEnd>,
    /// Where a packet is written before it has its addresses.
    pub(crate) scratch: Vec<u8>,
    pub(crate) changes: Vec<Planned>,
    pub(crate) now: Instant,
    pub(crate) events: u64,
    pub(crate) packet_hops: u64,
    pub(crate) delivered: u64,
    /// Drops by hosts, hooks and links; elements count their own.
    pub(crate) own_drops: u64,
}

/// Who owns a slot; slots are numbered in this order.
enum SlotOwner {
    Stage(usize),
    Socket(usize),
    Flow(usize),
    Probe(usize),
    Quic(usize),
    Model(usize),
    Sampler,
    Change(usize),
}

impl Simulation {
    pub(crate) fn empty() -> Self {
        Self {
            names: NameTable::default(),
            end: Instant::ZERO,
            sample_interval: Duration::ZERO,
            paths: Paths::default(),
            links: Vec::new(),
            nodes: Vec::new(),
            routes: narrows_path::routes::shortest(&[], &[], &[]),
            addresses: BTreeMap::new(),
            sockets: Vec::new(),
            flows: Vec::new(),
            probes: Vec::new(),
            quics: Vec::new(),
            models: Vec::new(),
            scratch: Vec::new(),
            changes: Vec::new(),
            now: Instant::ZERO,
            events: 0,
            packet_hops: 0,
            delivered: 0,
            own_drops: 0,
        }
    }

    /// Puts `hook` at the host called `host` (`host/<name>`), after those that
    /// are there; whether there is such a host.
    pub fn add_hook(&mut self, host: &str, hook: Box<dyn HostHook>) -> bool {
        let id = self.names.id(host);
        let node = self.nodes.iter_mut().find(|n| Some(n.entity) == id);
        match node {
            Some(node) => node.hooks.push(hook),
            None => return false,
        }
        true
    }

    /// The names behind entity numbers.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Sets what is known to happen before anything has.
    pub(crate) fn first_wakes(&mut self) {
        // Changes first: at equal times they come before packets.
        for i in 0..self.changes.len() {
            let at = self.changes[i].at;
            self.paths.wakes.set(self.change_slot(i), Some(at));
        }
        for i in 0..self.flows.len() {
            let at = self.flows[i].start;
            self.paths.wakes.set(self.flow_slot(i), Some(at));
        }
        for i in 0..self.probes.len() {
            let at = self.probes[i].asker.next_wake();
            self.paths.wakes.set(self.probe_slot(i), at);
        }
        self.paths.first_wakes();
        let first = Instant::ZERO + self.sample_interval;
        self.paths.wakes.set(self.sampler_slot(), Some(first));
    }

    /// Runs to the end of the plan, or until the caller cancels.
    ///
    /// # Errors
    /// When the run cannot go on: see [`SimError`].
    pub fn run(self, sink: &mut dyn EventSink, control: &Handle<'_>) -> Result<Outcome, SimError> {
        Engine { sim: self, sink }.run(control)
    }

    pub(crate) fn socket_slot(&self, i: usize) -> Slot {
        (self.paths.stages.len() + i) as Slot
    }

    pub(crate) fn flow_slot(&self, i: usize) -> Slot {
        self.socket_slot(self.sockets.len() + i)
    }

    pub(crate) fn probe_slot(&self, i: usize) -> Slot {
        self.flow_slot(self.flows.len() + i)
    }

    pub(crate) fn quic_slot(&self, i: usize) -> Slot {
        self.probe_slot(self.probes.len() + i)
    }

    pub(crate) fn model_slot(&self, i: usize) -> Slot {
        self.quic_slot(self.quics.len() + i)
    }

    fn sampler_slot(&self) -> Slot {
        self.model_slot(self.models.len())
    }

    fn change_slot(&self, i: usize) -> Slot {
        self.sampler_slot() + 1 + i as Slot
    }

    fn owner_of(&self, slot: Slot) -> SlotOwner {
        let mut i = slot as usize;
        for (n, owner) in [
            (
                self.paths.stages.len(),
                SlotOwner::Stage as fn(usize) -> SlotOwner,
            ),
            (self.sockets.len(), SlotOwner::Socket),
            (self.flows.len(), SlotOwner::Flow),
            (self.probes.len(), SlotOwner::Probe),
            (self.quics.len(), SlotOwner::Quic),
            (self.models.len(), SlotOwner::Model),
            (1, |_| SlotOwner::Sampler),
        ] {
            if i < n {
                return owner(i);
            }
            i -= n;
        }
        SlotOwner::Change(i)
    }

    fn owner_name(&self, slot: Slot) -> String {
        let entity = match self.owner_of(slot) {
            SlotOwner::Stage(i) => self.paths.stages[i].entity,
            SlotOwner::Socket(i) => return self.flow_name(self.sockets[i].flow as usize),
            SlotOwner::Flow(i) => return self.flow_name(i),
            SlotOwner::Probe(i) => self.probes[i].entity,
            SlotOwner::Quic(i) => return self.flow_name(self.quics[i].flow as usize),
            SlotOwner::Model(i) => return self.flow_name(self.models[i].flow as usize),
            SlotOwner::Sampler => return "the sampler".to_owned(),
            SlotOwner::Change(i) => return format!("change {}", self.changes[i].words),
        };
        self.names.name(entity).to_owned()
    }

    fn flow_name(&self, i: usize) -> String {
        let first = self
            .names
            .as_slice()
            .iter()
            .filter(|n| n.starts_with("flow/"))
            .nth(i);
        first.cloned().unwrap_or_default()
    }
}

/// A run under way.
pub(crate) struct Engine<'s> {
    pub sim: Simulation,
    pub sink: &'s mut dyn EventSink,
}

impl Engine<'_> {
    fn run(mut self, control: &Handle<'_>) -> Result<Outcome, SimError> {
        let mut interrupted = !control.tick(self.sim.now);
        let mut at_once = 0;
        while !interrupted {
            let Some((at, slot)) = self.sim.paths.wakes.peek() else {
                break;
            };
            if at > self.sim.end {
                break;
            }
            if at > self.sim.now {
                self.sim.now = at;
                at_once = 0;
            } else {
                at_once += 1;
                if at_once > MOST_AT_ONCE {
                    let entity = self.sim.owner_name(slot);
                    return Err(SimError::Stuck { entity, at });
                }
            }
            self.sim.events += 1;
            let first = self.serve(slot);
            self.drain(first);
            if self.sim.events % LOOK_EVERY == 0 {
                interrupted = !control.tick(self.sim.now);
            }
        }
        if !interrupted {
            self.sim.now = self.sim.end;
        }
        self.finish_flows();
        control.tick(self.sim.now);
        Ok(self.outcome(interrupted))
    }

    /// Calls the owner of `slot`; what it lets out, if that is one packet.
    #[inline]
    fn serve(&mut self, slot: Slot) -> Option<(Next, Box<Packet>)> {
        let i = slot as usize;
        let stages = self.sim.paths.stages.len();
        if i < stages {
            return self.sim.paths.wake(self.sim.now, i, self.sink);
        }
        if i - stages < self.sim.sockets.len() {
            self.wake_socket(i - stages, slot);
            return None;
        }
        match self.sim.owner_of(slot) {
            SlotOwner::Flow(i) => self.wake_flow(i),
            SlotOwner::Probe(i) => self.wake_probe(i),
            SlotOwner::Quic(i) => self.wake_quic(i, slot),
            SlotOwner::Model(i) => self.wake_model(i, slot),
            SlotOwner::Sampler => {
                self.sample();
                let next = self.sim.now + self.sim.sample_interval;
                self.sim.paths.wakes.serve(slot, Some(next));
            }
            SlotOwner::Change(i) => {
                self.change(i);
                self.sim.paths.wakes.serve(slot, None);
            }
            SlotOwner::Stage(_) | SlotOwner::Socket(_) => {}
        }
        None
    }

    #[inline]
    fn wake_socket(&mut self, i: usize, slot: Slot) {
        let now = self.sim.now;
        let connection = &mut self.sim.sockets[i].connection;
        let due = connection.next_timeout();
        if due.is_some_and(|t| t <= now) {
            connection.on_timeout(now);
            self.touch(i);
            let next = self.sim.sockets[i].connection.next_timeout();
            self.sim.paths.wakes.serve(slot, next);
        } else {
            // Its deadline has moved away since it was noted.
            self.sim.paths.wakes.serve(slot, due);
        }
    }

    /// Moves packets on, `current` before all others, until none is on its way
    /// within this instant.
    #[inline]
    fn drain(&mut self, mut current: Option<(Next, Box<Packet>)>) {
        loop {
            let Some((next, packet)) = current.take().or_else(|| self.sim.paths.take()) else {
                return;
            };
            match next {
                Next::Stage(i) => current = self.push_stage(i as usize, packet),
                Next::Node(i) => self.arrive(i as usize, packet),
            }
        }
    }

    #[inline]
    fn push_stage(&mut self, i: usize, packet: Box<Packet>) -> Option<(Next, Box<Packet>)> {
        let sim = &mut self.sim;
        sim.packet_hops += 1;
        sim.paths.push(sim.now, i, packet, self.sink)
    }

    fn sample(&mut self) {
        self.sample_flows();
        self.sim.paths.sample(self.sim.now, self.sink);
    }

    fn change(&mut self, i: usize) {
        let sim = &mut self.sim;
        let planned = &sim.changes[i];
        // Checked when the run was built.
        if let Err(error) = sim.paths.change(sim.now, planned) {
            tracing::warn!(words = planned.words, %error, "a change was refused in mid-run");
        }
    }

    fn outcome(self, interrupted: bool) -> Outcome {
        let sim = self.sim;
        let elements: Vec<_> = sim
            .paths
            .stages
            .iter()
            .map(|s| ElementReport {
                element: s.entity,
                counters: s.element.counters(),
            })
            .collect();
        let dropped: u64 = elements.iter().map(|e| e.counters.dropped).sum();
        Outcome {
            events: sim.events,
            packets: sim.paths.pool.made(),
            packet_hops: sim.packet_hops,
            delivered: sim.delivered,
            dropped: dropped + sim.own_drops,
            in_flight: sim.paths.pool.outstanding(),
            virtual_time: sim.now.since(Instant::ZERO),
            interrupted,
            elements,
            flows: sim
                .flows
                .iter()
                .map(|f| FlowReport {
                    established: f.established,
                    ecn: f.ecn,
                    accecn: f.accecn,
                    delivered: f.delivered,
                    complete: f.complete,
                    broken: f.broken,
                })
                .collect(),
            marks: sim
                .nodes
                .iter()
                .flat_map(|node| {
                    let name = sim.names.as_slice().get(node.entity.0 as usize);
                    let name = name.and_then(|n| n.strip_prefix("host/"));
                    node.marks(name.unwrap_or_default())
                })
                .collect(),
            names: sim.names.as_slice().to_vec(),
        }
    }
}
