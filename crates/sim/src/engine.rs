//! The event loop.

use std::sync::Arc;

use narrows_app::FlowAccount;
use narrows_core::{App, EventSink, HostHook, Packet, Port, Profile};
use narrows_engine::RunHandle;
use narrows_host::{AppOn, Hosts, Net};
use narrows_path::paths::{Next, Paths, Planned};
use narrows_path::wakes::Slot;
use narrows_scenario::{NameTable, Placed, Plan};
use narrows_units::{Duration, Instant};

use crate::outcome::{ElementReport, FlowReport, Outcome, SimError};

/// Steps, wakes and packets that reach a node, between two checks of the
/// caller's cancel flag: milliseconds of real time, whatever the run's does.
const CANCEL_CHECK_EVERY: u64 = 1 << 14;

/// Steps at one instant after which a run counts as stuck. A burst of the
/// largest window that can be (a million segments) stays below.
const MOST_AT_ONCE: u64 = 1 << 24;

/// A run that is built and can be started once.
pub struct Simulation {
    pub(crate) names: NameTable,
    pub(crate) end: Instant,
    pub(crate) sample_interval: Duration,
    pub(crate) paths: Paths,
    pub(crate) hosts: Hosts,
    /// Applications of the plan, until they are started.
    pub(crate) apps: Vec<AppOn>,
    /// The account of each flow, in the plan's order.
    pub(crate) accounts: Vec<Arc<FlowAccount>>,
    /// Timed changes, in order of time.
    pub(crate) changes: Vec<Planned>,
    /// How many of them were made.
    pub(crate) changed: usize,
    pub(crate) placed: Placed,
    pub(crate) now: Instant,
    pub(crate) events: u64,
    pub(crate) packet_hops: u64,
}

impl Simulation {
    /// Slots of an engine: the stages', the sampler's, that of timed changes, then the hosts'.
    fn sampler_slot(&self) -> Slot {
        self.paths.stages.len() as Slot
    }

    fn change_slot(&self) -> Slot {
        self.sampler_slot() + 1
    }

    /// Puts `hook` at the host called `host` (`host/<name>`), after those that
    /// are there; whether there is such a host.
    pub fn add_hook(&mut self, host: &str, hook: Box<dyn HostHook>) -> bool {
        let entity = self.names.id(host);
        entity.is_some_and(|entity| self.hosts.add_hook(entity, hook))
    }

    /// A further set of socket options for applications, and its number. Its flow, if it
    /// has one, is of the plan.
    pub fn add_profile(&mut self, options: narrows_host::Options) -> Profile {
        self.hosts.add_profile(options)
    }

    /// Puts an application on the host called `host` (`host/<name>`), after those of the
    /// plan; `name` is what errors call it. Whether there is such a host.
    pub fn add_app(&mut self, host: &str, name: &str, app: Box<dyn App>) -> bool {
        let entity = self.names.id(host);
        let node = entity.and_then(|entity| self.hosts.node(entity));
        if let Some(node) = node {
            let name = name.to_owned();
            self.apps.push(AppOn { node, name, app });
        }
        node.is_some()
    }

    /// The names behind entity numbers.
    pub fn names(&self) -> &NameTable {
        &self.names
    }

    /// Waits for the next change: at equal times it comes before packets.
    fn await_change(&mut self) {
        let next = self.changes.get(self.changed).map(|change| change.at);
        self.paths.wakes.set_first(self.change_slot(), next);
    }

    /// Takes the changes of `plan`, which are those that it has and further ones to come.
    fn amend(&mut self, plan: &Plan) -> Result<(), SimError> {
        let changes = plan.planned_changes(&self.placed)?;
        let (made, now) = (&self.changes[..self.changed], self.now);
        let coming = changes.strip_prefix(made);
        if !coming.is_some_and(|coming| coming.iter().all(|change| change.at > now)) {
            return Err(SimError::Late { now });
        }
        self.changes = changes;
        self.await_change();
        Ok(())
    }

    /// Runs to the end of the plan, or until the caller cancels.
    ///
    /// # Errors
    /// When the run cannot go on: see [`SimError`].
    pub fn run(
        self,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Outcome, SimError> {
        Engine {
            sim: self,
            sink,
            handle,
            steps: 0,
            at_once: 0,
            interrupted: false,
            amendments: 0,
            amended: None,
        }
        .run()
    }

    fn owner_name(&self, slot: Slot) -> String {
        let i = slot as usize;
        if let Some(stage) = self.paths.stages.get(i) {
            return self.names.name(stage.entity).to_owned();
        }
        if slot == self.sampler_slot() {
            return "the sampler".to_owned();
        }
        match self.changes.get(self.changed) {
            Some(change) if slot == self.change_slot() => format!("change {}", change.words),
            _ => self.hosts.owner_name(slot),
        }
    }
}

/// A run under way.
pub(crate) struct Engine<'s> {
    pub sim: Simulation,
    pub sink: &'s mut dyn EventSink,
    handle: &'s RunHandle<'s>,
    /// Steps so far, and those at the present instant.
    steps: u64,
    at_once: u64,
    interrupted: bool,
    /// Amendments of the plan that were seen, and the plan that the last one made.
    amendments: u64,
    amended: Option<Arc<Plan>>,
}

impl Engine<'_> {
    fn run(mut self) -> Result<Outcome, SimError> {
        self.begin()?;
        self.interrupted = !self.handle.tick(self.sim.now);
        while !self.interrupted {
            self.amend()?;
            let Some((at, slot)) = self.sim.paths.wakes.peek() else {
                break;
            };
            if at > self.sim.end {
                break;
            }
            if at > self.sim.now {
                self.sim.now = at;
                self.at_once = 0;
            }
            self.sim.events += 1;
            self.step();
            let first = self.serve(slot);
            self.drain(first);
            if self.at_once > MOST_AT_ONCE {
                let entity = self.sim.owner_name(slot);
                return Err(SimError::Stuck { entity, at });
            }
        }
        if !self.interrupted {
            self.sim.now = self.sim.end;
        }
        self.with_hosts(Hosts::end);
        self.handle.tick(self.sim.now);
        let interrupted = self.interrupted;
        Ok(self.outcome(interrupted))
    }

    /// Takes changes that were added since the last step.
    #[inline]
    fn amend(&mut self) -> Result<(), SimError> {
        let Some(amended) = self.handle.amended else {
            return Ok(());
        };
        let Some(plan) = amended.newer(&mut self.amendments) else {
            return Ok(());
        };
        self.sim.amend(&plan)?;
        self.amended = Some(plan);
        Ok(())
    }

    /// Counts a step; whether the run may go on.
    #[inline]
    fn step(&mut self) -> bool {
        self.steps += 1;
        self.at_once += 1;
        if self.steps % CANCEL_CHECK_EVERY == 0 {
            self.interrupted = !self.handle.tick(self.sim.now);
        }
        !self.interrupted && self.at_once <= MOST_AT_ONCE
    }

    /// Starts applications, and notes what is to happen first.
    fn begin(&mut self) -> Result<(), SimError> {
        self.sim.await_change();
        let apps = std::mem::take(&mut self.sim.apps);
        self.with_hosts(|hosts, net| hosts.start(net, apps))
            .map_err(|(app, why)| SimError::App { app, why })?;
        self.sim.paths.first_wakes();
        let first = Instant::ZERO + self.sim.sample_interval;
        let slot = self.sim.sampler_slot();
        self.sim.paths.wakes.set(slot, Some(first));
        self.drain(None);
        Ok(())
    }

    #[inline]
    fn with_hosts<T>(&mut self, act: impl FnOnce(&mut Hosts, &mut Net<'_>) -> T) -> T {
        let mut net = Net {
            now: self.sim.now,
            paths: &mut self.sim.paths,
            sink: self.sink,
            system: None,
        };
        act(&mut self.sim.hosts, &mut net)
    }

    /// Calls the owner of `slot`; what it lets out, if that is one packet.
    #[inline]
    fn serve(&mut self, slot: Slot) -> Option<(Next, Box<Packet>)> {
        let i = slot as usize;
        let stages = self.sim.paths.stages.len();
        if i < stages {
            return self.sim.paths.wake(self.sim.now, i, self.sink);
        }
        if i > stages + 1 {
            self.with_hosts(|hosts, net| hosts.wake(net, slot));
        } else if i > stages {
            self.change();
        } else {
            self.sample();
            let next = self.sim.now + self.sim.sample_interval;
            self.sim.paths.wakes.serve(slot, Some(next));
        }
        None
    }

    /// Moves packets on, `current` before all others, until none is on its way
    /// within this instant, or the run may not go on: where nothing takes time,
    /// there is always one.
    #[inline]
    fn drain(&mut self, mut current: Option<(Next, Box<Packet>)>) {
        while let Some((next, packet)) = current.or_else(|| self.sim.paths.take()) {
            current = match next {
                Next::Stage(i, port) => self.push_stage(i as usize, port, packet),
                Next::Node(i) => {
                    self.with_hosts(|hosts, net| hosts.arrive(net, i as usize, packet));
                    if !self.step() {
                        return;
                    }
                    None
                }
            };
        }
    }

    #[inline]
    fn push_stage(
        &mut self,
        i: usize,
        port: Port,
        packet: Box<Packet>,
    ) -> Option<(Next, Box<Packet>)> {
        let sim = &mut self.sim;
        sim.packet_hops += 1;
        sim.paths.push(sim.now, i, port, packet, self.sink)
    }

    fn sample(&mut self) {
        self.with_hosts(Hosts::sample);
        self.sim.paths.sample(self.sim.now, self.sink);
    }

    fn change(&mut self) {
        let sim = &mut self.sim;
        let planned = &sim.changes[sim.changed];
        // Checked when the run was built.
        if let Err(error) = sim.paths.change(sim.now, planned) {
            tracing::warn!(words = planned.words, %error, "a change was refused in mid-run");
        }
        sim.changed += 1;
        sim.await_change();
    }

    fn outcome(self, interrupted: bool) -> Outcome {
        let sim = self.sim;
        let elements: Vec<_> = sim
            .paths
            .stages
            .iter()
            .flat_map(|s| s.counters())
            .map(|(element, counters)| ElementReport { element, counters })
            .collect();
        let dropped: u64 = elements.iter().map(|e| e.counters.dropped).sum();
        Outcome {
            events: sim.events,
            packets: sim.paths.pool.made(),
            packet_hops: sim.packet_hops,
            delivered: sim.hosts.delivered,
            dropped: dropped + sim.hosts.dropped,
            in_flight: sim.paths.pool.outstanding(),
            sockets: sim.hosts.sockets(),
            virtual_time: sim.now.since(Instant::ZERO),
            interrupted,
            elements,
            flows: sim.accounts.iter().map(|l| FlowReport::of(l)).collect(),
            signals: sim.hosts.signals(|host| {
                let name = sim.names.name(host);
                name.strip_prefix("host/").unwrap_or_default().to_owned()
            }),
            names: sim.names.as_slice().to_vec(),
            amended: self.amended,
        }
    }
}
