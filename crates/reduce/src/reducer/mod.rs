//! From events to metrics, in one pass and bounded memory.

mod bins;
mod cut;
mod flow;
mod one_way;
mod probe;
mod queue;
mod telemetry;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, BTreeSet};

use narrows_core::{DropCause, EntityId, Event, EventSink, FlowId, Packet, Source, TelemetryField};
use narrows_scenario::{Plan, Window, WindowPlan};
use narrows_units::{Duration, Instant};

use crate::distribution::{Distribution, cdf_ms};
use crate::facts::{self, RateSteps};
use crate::fairness::jain;
use crate::summary::{
    DirectionSummary, DropCounts, DropperSummary, FlowSummary, LimitedSummary, ProbeSummary,
    RunSummary, SourceSummary, WindowSummary, millionths,
};
pub use bins::{Column, Columns};
pub use cut::{Cut, EntityValues};
use flow::FlowState;
use probe::ProbeState;
use queue::QueueState;
use telemetry::Telemetry;

/// How a run is to be reduced.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The name of each [`EntityId`].
    pub names: Vec<String>,
    /// Length of an interval of the series; zero for no series.
    pub interval: Duration,
}

/// Where each entity stands in a list that grows as entities are seen.
struct Slots(Vec<u32>);

/// Slot of an entity that nothing is known about yet.
const UNSEEN: u32 = u32::MAX;

impl Slots {
    fn new(entities: usize) -> Self {
        Self(vec![UNSEEN; entities])
    }

    #[inline]
    fn of(&self, entity: EntityId) -> Option<usize> {
        let slot = self.0.get(entity.0 as usize).copied();
        slot.filter(|slot| *slot != UNSEEN)
            .map(|slot| slot as usize)
    }

    #[cold]
    fn add(&mut self, entity: EntityId, slot: usize) {
        let index = entity.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, UNSEEN);
        }
        self.0[index] = slot as u32;
    }
}

/// Takes the events of a run and keeps what its metrics need: histograms,
/// counters, and one number per interval and metric.
pub struct Reducer {
    from: Instant,
    to: Instant,
    /// When the run ends.
    end: Instant,
    interval: Duration,
    /// End of the interval that is being filled; its end belongs to it.
    interval_end: Instant,
    intervals: usize,
    names: Vec<String>,
    flows: Vec<FlowState>,
    queues: Vec<QueueState>,
    queue_slots: Slots,
    /// What reports of itself and is no flow.
    sources: Vec<(EntityId, Telemetry)>,
    source_slots: Slots,
    /// The scenario's further windows.
    windows: Vec<WindowPlan>,
    probes: Vec<ProbeState>,
    /// The entity of each probe of the plan.
    probe_entities: Vec<Option<EntityId>>,
    droppers: Vec<(EntityId, DropCounts)>,
}

/// What a run was reduced to.
#[derive(Debug)]
pub struct Reduced {
    /// The metrics.
    pub summary: RunSummary,
    /// The series, interval by interval.
    pub columns: Vec<Columns>,
    /// Length of an interval.
    pub interval: Duration,
}

impl Reducer {
    /// A reducer for a run of `plan`, whose flows start when it says.
    pub fn new(plan: &Plan, setup: Setup) -> Self {
        let interval = setup.interval;
        let entities = setup.names.iter().enumerate();
        let entities: BTreeMap<&str, EntityId> = entities
            .map(|(place, name)| (name.as_str(), EntityId(place as u32)))
            .collect();
        let flow = |flow: &narrows_scenario::FlowPlan| {
            let ends = [flow.from, flow.to].map(|end| {
                let host = format!("host/{}", plan.host(end).name);
                entities.get(host.as_str()).copied()
            });
            FlowState::new(flow, ends, &plan.windows, plan.measure)
        };
        let flows = plan.flows.iter().map(flow).collect();
        let entity = |probe: &narrows_scenario::ProbePlan| {
            let probe = format!("probe/{}", probe.name);
            let place = setup.names.iter().position(|name| *name == probe);
            place.map(|place| EntityId(place as u32))
        };
        Self {
            probe_entities: plan.probes.iter().map(entity).collect(),
            from: plan.measure.from,
            to: plan.measure.to,
            end: Instant::ZERO + plan.duration,
            interval,
            interval_end: if interval.is_zero() {
                Instant::MAX
            } else {
                Instant::ZERO + interval
            },
            intervals: 0,
            queue_slots: Slots::new(setup.names.len()),
            sources: Vec::new(),
            source_slots: Slots::new(setup.names.len()),
            windows: plan.windows.clone(),
            names: setup.names,
            flows,
            queues: Vec::new(),
            probes: Vec::new(),
            droppers: Vec::new(),
        }
    }

    /// Ends the interval that is being filled.
    #[cold]
    fn close_this_interval(&mut self) {
        let seconds = self.interval.as_secs_f64();
        self.close_interval(seconds, (self.intervals + 1) as f64 * seconds);
        self.interval_end += self.interval;
    }

    /// Ends an interval that took so many seconds, `until` seconds from the start.
    fn close_interval(&mut self, seconds: f64, until: f64) {
        for flow in &mut self.flows {
            flow.close_interval(self.intervals, seconds, until);
        }
        for queue in &mut self.queues {
            queue.close_interval(self.intervals, seconds);
        }
        for (_, source) in &mut self.sources {
            source.close_interval(self.intervals);
        }
        for probe in &mut self.probes {
            probe.close_interval(self.intervals);
        }
        self.intervals += 1;
    }

    #[inline]
    fn queue(&mut self, entity: EntityId) -> &mut QueueState {
        let slot = match self.queue_slots.of(entity) {
            Some(slot) => slot,
            None => self.new_queue(entity),
        };
        &mut self.queues[slot]
    }

    #[cold]
    fn new_queue(&mut self, entity: EntityId) -> usize {
        let slot = self.queues.len();
        self.queue_slots.add(entity, slot);
        self.queues.push(QueueState::new(entity));
        slot
    }

    fn source(&mut self, entity: EntityId) -> &mut Telemetry {
        let slot = self.source_slots.of(entity).unwrap_or_else(|| {
            let slot = self.sources.len();
            self.source_slots.add(entity, slot);
            self.sources.push((entity, Telemetry::new(&self.windows)));
            slot
        });
        &mut self.sources[slot].1
    }

    fn probe(&mut self, entity: EntityId) -> &mut ProbeState {
        let slot = self.probes.iter().position(|p| p.entity == entity);
        let slot = slot.unwrap_or_else(|| {
            let window = Window {
                from: self.from,
                to: self.to,
            };
            self.probes.push(ProbeState::new(entity, window, self.end));
            self.probes.len() - 1
        });
        &mut self.probes[slot]
    }

    /// A packet that is no flow's leaves its host: a probe's question, if it is one.
    #[cold]
    fn probe_sent(&mut self, now: Instant, packet: &Packet) {
        if let Some((number, false)) = one_way::probe_of(packet) {
            if let Some(Some(entity)) = self.probe_entities.get(number) {
                self.probe(*entity).asked(now);
            }
        }
    }

    /// A packet that is no flow's reaches its host: a probe's question or answer, if it is
    /// one.
    #[cold]
    fn probe_received(&mut self, now: Instant, packet: &Packet) {
        let Some((number, answers)) = one_way::probe_of(packet) else {
            return;
        };
        if let Some(Some(entity)) = self.probe_entities.get(number) {
            self.probe(*entity).ways[usize::from(answers)].received(now, packet);
        }
    }

    fn dropped(&mut self, inside: bool, element: EntityId, packet: &Packet, cause: DropCause) {
        let slot = self.queue_slots.of(element);
        if let Some(flow) = flow_of(&mut self.flows, packet.flow) {
            flow.dropped(inside, slot.map(|_| element));
        }
        if let Some(slot) = slot {
            self.queues[slot].dropped(inside, cause);
            return;
        }
        if !inside {
            return;
        }
        let at = self.droppers.iter().position(|(e, _)| *e == element);
        let at = at.unwrap_or_else(|| {
            self.droppers.push((element, DropCounts::default()));
            self.droppers.len() - 1
        });
        self.droppers[at].1.count(cause);
    }

    fn reported(
        &mut self,
        now: Instant,
        inside: bool,
        source: Source,
        field: TelemetryField,
        value: i64,
    ) {
        match source {
            Source::Flow(flow) => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.reported(now, inside, field, value);
                }
            }
            Source::Entity(entity) => {
                let source = self.source(entity);
                source.reported(now, inside, field, value);
            }
        }
    }

    /// What sources reported over a steady window of this length; their series are added to
    /// those of the same name.
    fn finish_sources(
        &mut self,
        columns: &mut Vec<Columns>,
        length: Duration,
    ) -> Vec<SourceSummary> {
        let mut summaries = Vec::new();
        self.sources.sort_by_key(|(entity, _)| *entity);
        for (entity, mut telemetry) in std::mem::take(&mut self.sources) {
            let name = self.name(entity);
            let in_window = |(place, window): (usize, &WindowPlan)| SourceSummary {
                name: format!("window/{}/{name}", window.name),
                telemetry: telemetry.in_window(place),
                windows: Vec::new(),
            };
            summaries.push(SourceSummary {
                name: name.clone(),
                telemetry: telemetry.in_steady_window(length),
                windows: self.windows.iter().enumerate().map(in_window).collect(),
            });
            let known = columns.iter().position(|c| c.entity == name);
            let at = known.unwrap_or_else(|| {
                columns.push(Columns::new(&[]).named(name));
                columns.len() - 1
            });
            telemetry.declare(&mut columns[at]);
        }
        summaries
    }

    fn name(&self, entity: EntityId) -> String {
        self.names
            .get(entity.0 as usize)
            .cloned()
            .unwrap_or_else(|| format!("entity/{}", entity.0))
    }

    /// Ends the run at `end` and gives what it came to. `plan` is the one that
    /// the reducer was made for.
    pub fn finish(mut self, plan: &Plan, engine: &str, seed: u64, end: Instant) -> Reduced {
        if !self.interval.is_zero() {
            // The last whole interval; what is left of a broken-off one would be a rate over less
            // time than it says.
            while self.interval_end <= end {
                self.close_this_interval();
            }
        }
        let until = self.to.min(end);
        let mut queues = std::mem::take(&mut self.queues);
        queues.sort_by_key(|q| q.entity());
        self.probes.sort_by_key(|p| p.entity);
        self.droppers.sort_by_key(|d| d.0);

        let mut columns = Vec::new();
        let (mut flow_summaries, mut windows) = (Vec::new(), Vec::new());
        for (flow, facts) in std::mem::take(&mut self.flows).into_iter().zip(&plan.flows) {
            let signals = flow.signals(|element| self.name(element));
            let (mut summary, in_windows, flow_columns) =
                flow.finish(plan, facts, self.from, until, end);
            summary.signals = signals;
            windows.extend(in_windows);
            columns.push(flow_columns);
            flow_summaries.push(summary);
        }
        let mut queue_summaries = Vec::new();
        for queue in queues {
            let name = self.name(queue.entity());
            let words = plan
                .elements()
                .find(|e| e.name == name)
                .map(|e| e.spec.to_string())
                .unwrap_or_default();
            let rates = RateSteps::of(plan, &name);
            let (summary, queue_columns) = queue.finish(name, words, rates, self.from, until);
            columns.push(queue_columns);
            queue_summaries.push(summary);
        }
        let mut probe_summaries = Vec::new();
        for mut probe in std::mem::take(&mut self.probes) {
            let name = self.name(probe.entity);
            let [there, back] = probe.ways;
            let questions = probe.questions.count_all();
            let there = there.finish("there_", &mut probe.columns);
            let back = back.finish("back_", &mut probe.columns);
            probe_summaries.push(ProbeSummary {
                rtt_ms: Distribution::of_ms(&probe.rtt),
                rtt_cdf: cdf_ms(&probe.rtt),
                asked: questions.asked,
                lost: questions.lost,
                there,
                back,
                name: name.clone(),
            });
            columns.push(probe.columns.named(name));
        }
        let sources = self.finish_sources(&mut columns, until.since(self.from));
        let droppers = std::mem::take(&mut self.droppers)
            .into_iter()
            .map(|(entity, drops)| DropperSummary {
                name: self.name(entity),
                drops,
            })
            .collect();
        let directions = directions(plan, &flow_summaries);
        let summary = RunSummary {
            name: plan.name.clone(),
            title: plan.title.clone(),
            engine: engine.to_owned(),
            seed,
            duration_s: plan.duration.as_secs_f64(),
            window: WindowSummary {
                from_s: self.from.as_secs_f64(),
                to_s: self.to.as_secs_f64(),
            },
            jain: {
                let mut with_bulk = directions.iter().filter(|d| d.bulk_flows > 0);
                let first = with_bulk.next();
                first
                    .filter(|_| with_bulk.next().is_none())
                    .and_then(|d| d.jain)
            },
            directions,
            flows: flow_summaries,
            windows,
            queues: queue_summaries,
            sources,
            probes: probe_summaries,
            droppers,
            disciplines: Vec::new(),
            marks: Vec::new(),
            observations: Vec::new(),
            topology: crate::facts::topology(plan),
        };
        Reduced {
            summary,
            columns,
            interval: self.interval,
        }
    }
}

/// What the flows that compete with each other come to.
fn directions(plan: &Plan, flows: &[FlowSummary]) -> Vec<DirectionSummary> {
    let hosts = |group: &[usize], host: fn(&FlowSummary) -> &String| -> Vec<String> {
        let mut seen = BTreeSet::new();
        let hosts = group.iter().map(|flow| host(&flows[*flow]));
        hosts.filter(|host| seen.insert(*host)).cloned().collect()
    };
    let of = |group: Vec<usize>| {
        let rates: Vec<f64> = group
            .iter()
            .filter_map(|f| flows[*f].goodput_mbit)
            .collect();
        // What an application or a model holds back takes no share that it could have.
        let bulk = group.iter().filter(|f| {
            let facts = &plan.flows[**f];
            facts.is_bulk() && facts.transport.is_elastic()
        });
        let bulk: Vec<f64> = bulk.filter_map(|f| flows[*f].goodput_mbit).collect();
        let jain = jain(&bulk).filter(|_| bulk.len() > 1);
        DirectionSummary {
            from: hosts(&group, |flow| &flow.from),
            to: hosts(&group, |flow| &flow.to),
            flows: group.iter().map(|f| flows[*f].name.clone()).collect(),
            goodput_mbit: (!rates.is_empty()).then(|| millionths(rates.iter().sum())),
            jain: jain.map(millionths),
            bulk_flows: bulk.len(),
        }
    };
    facts::directions(plan).into_iter().map(of).collect()
}

#[inline]
fn flow_of(flows: &mut [FlowState], flow: Option<FlowId>) -> Option<&mut FlowState> {
    flow.and_then(|f| flows.get_mut(f.0 as usize))
}

impl EventSink for Reducer {
    #[inline]
    fn record(&mut self, now: Instant, event: Event<'_>) {
        while now > self.interval_end {
            self.close_this_interval();
        }
        let before = now < self.from;
        let inside = !before && now < self.to;
        match event {
            Event::Enqueued {
                queue,
                backlog_packets,
                backlog_bytes,
                ..
            } => self.queue(queue).enqueued(backlog_packets, backlog_bytes),
            Event::Dequeued {
                queue,
                sojourn,
                wire_bytes,
                band,
                ..
            } => {
                let when = (now, before, inside);
                self.queue(queue).dequeued(when, sojourn, wire_bytes, band);
            }
            Event::Sent { host, packet } => {
                if let Some(flow) = flow_of(&mut self.flows, packet.flow) {
                    flow.sent(inside, host, packet);
                } else if !self.probe_entities.is_empty() {
                    self.probe_sent(now, packet);
                }
            }
            Event::Received { host, packet } => {
                if let Some(flow) = flow_of(&mut self.flows, packet.flow) {
                    flow.received(now, host, packet);
                } else if !self.probe_entities.is_empty() {
                    self.probe_received(now, packet);
                }
            }
            Event::Delivered { flow, bytes } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.delivered(now, inside, bytes);
                }
            }
            Event::RttSample { flow, rtt } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.rtt_sample(now, inside, rtt);
                }
            }
            Event::Marked {
                queue,
                packet,
                cause,
            } => {
                if let Some(flow) = flow_of(&mut self.flows, packet.flow) {
                    flow.marked(inside, queue);
                }
                self.queue(queue).marked(inside, cause);
            }
            Event::Dropped {
                element,
                packet,
                cause,
            } => self.dropped(inside, element, packet, cause),
            Event::Established { flow, ecn, accecn } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.established(now, ecn, accecn);
                }
            }
            Event::Recovery { flow, event } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.recovery(event);
                }
            }
            Event::Retransmitted { flow, .. } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.retransmitted(inside);
                }
            }
            Event::Sampled { flow, sample } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.sampled(now, inside, &sample);
                }
            }
            Event::Telemetry {
                source,
                field,
                value,
            } => self.reported(now, inside, source, field, value),
            Event::QueueSampled {
                queue,
                backlog_packets,
                backlog_bytes,
                probability,
            } => self
                .queue(queue)
                .sampled(inside, backlog_packets, backlog_bytes, probability),
            Event::Finished { flow, complete, .. } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    flow.finished(now, complete);
                }
            }
            Event::ProbeRtt { probe, rtt } => self.probe(probe).answered(now, inside, rtt),
            Event::ProbeLost { probe } => self.probe(probe).given_up(),
            Event::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            } => {
                if let Some(flow) = flow_of(&mut self.flows, Some(flow)) {
                    let limited = LimitedSummary {
                        receive_window_s: receive_window.as_secs_f64(),
                        send_buffer_s: send_buffer.as_secs_f64(),
                        application_s: application.as_secs_f64(),
                    };
                    flow.limited((before, inside), limited);
                }
            }
            other => other.reports(&mut |source, field, value| {
                self.reported(now, inside, source, field, value);
            }),
        }
    }
}
