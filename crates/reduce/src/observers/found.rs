//! What an observer found, in order, and what of it lies in its window.

use std::collections::BTreeMap;

use narrows_observe::format::Names;
use narrows_observe::{
    End, Estimate, Flow, Measured, Observer, Quantity, Sample, SampleSink, Technique, Unit,
};
use narrows_units::Instant;
use narrows_wire::Profile;

use super::window::{Passing, Phase, Span};

/// What an observer found. Samples are all of the run, estimates are of the window.
pub(super) struct Found {
    /// By the observer's number of the flow.
    pub(super) flows: BTreeMap<u64, Seen>,
    pub(super) log: Vec<Entry>,
    pub(super) span: Span,
    /// The plan's flow of the packet that is being observed.
    pub(super) now: Option<usize>,
    techniques: Vec<String>,
    phase: Phase,
}

/// A flow as an observer saw it.
pub(super) struct Seen {
    /// As `narrows observe` calls it.
    pub(super) called: String,
    /// The plan's flow, if its packets are one's.
    pub(super) plan: Option<usize>,
    /// Of it, in the whole run.
    pub(super) all: Passing,
    /// In the window.
    pub(super) inside: Passing,
    /// What its packets carry.
    pub(super) profile: Profile,
    /// Before the window.
    before: Passing,
    /// What had been rejected by then.
    rejected: BTreeMap<(Technique, Quantity), u64>,
}

impl Seen {
    /// One of which nothing has passed.
    pub(super) fn begun(called: String, plan: Option<usize>, profile: Profile) -> Self {
        Self {
            called,
            plan,
            all: Passing::default(),
            inside: Passing::default(),
            profile,
            before: Passing::default(),
            rejected: BTreeMap::new(),
        }
    }
}

pub(super) enum Entry {
    Sample(u64, Sample),
    Estimate(u64, Instant, Estimate),
}

impl Found {
    pub(super) fn new(techniques: &[String], span: Span) -> Self {
        Self {
            flows: BTreeMap::new(),
            log: Vec::new(),
            span,
            now: None,
            techniques: techniques.to_vec(),
            phase: span.phase(Instant::ZERO),
        }
    }

    fn wants(&self, technique: &str) -> bool {
        self.techniques.is_empty() || self.techniques.iter().any(|t| t == technique)
    }

    /// Follows the run to `now`, before `observer` is given what passes then: at the window's
    /// start it counts anew, at the end its estimates are taken.
    pub(super) fn reach(&mut self, now: Instant, observer: &mut Observer) {
        let phase = self.span.phase(now);
        if phase == self.phase {
            return;
        }
        if self.phase == Phase::Before {
            for flow in observer.flows() {
                self.begin_window(flow);
            }
            observer.restart_counts();
            self.phase = Phase::Inside;
        }
        if phase == Phase::After {
            for flow in observer.flows() {
                self.end_window(flow, now);
            }
            self.phase = Phase::After;
        }
    }

    fn begin_window(&mut self, flow: &Flow) {
        if let Some(seen) = self.flows.get_mut(&flow.id()) {
            seen.before = Passing::of(flow);
            let estimates = Observer::estimates(flow).into_iter();
            seen.rejected = estimates
                .map(|e| ((e.technique, e.quantity), e.rejected))
                .collect();
        }
    }

    fn end_window(&mut self, flow: &Flow, at: Instant) {
        let Some(seen) = self.flows.get_mut(&flow.id()) else {
            return;
        };
        seen.inside = Passing::of(flow).since(seen.before);
        let rejected = std::mem::take(&mut seen.rejected);
        for mut estimate in Observer::estimates(flow) {
            if self.wants(estimate.technique.name()) {
                let before = rejected.get(&(estimate.technique, estimate.quantity));
                estimate.rejected -= before.copied().unwrap_or(0).min(estimate.rejected);
                self.log.push(Entry::Estimate(flow.id(), at, estimate));
            }
        }
    }

    /// The samples in the window, each with its flow.
    pub(super) fn samples(&self) -> impl Iterator<Item = (u64, &Sample)> {
        self.log.iter().filter_map(|entry| match entry {
            Entry::Sample(flow, sample) if self.span.contains(sample.at.as_nanos()) => {
                Some((*flow, sample))
            }
            _ => None,
        })
    }

    /// Once all has passed: makes what is said of round trips a statement of those in the
    /// window.
    pub(super) fn settle(&mut self) {
        if self.span.is_whole() {
            return;
        }
        let mut trips: BTreeMap<_, Vec<(f64, u32)>> = BTreeMap::new();
        for (flow, sample) in self.samples() {
            if let Measured::Rtt(rtt) = sample.value {
                let key = (flow, sample.technique, sample.quantity);
                let trips = trips.entry(key).or_default();
                trips.push((rtt.as_millis_f64(), sample.weight));
            }
        }
        self.log.retain_mut(|entry| {
            let Entry::Estimate(flow, _, estimate) = entry else {
                return true;
            };
            if estimate.unit == Unit::Ratio {
                return true;
            }
            // There is one handshake, whose whole is the sum of two samples.
            if estimate.technique == Technique::Handshake {
                return trips
                    .keys()
                    .any(|(f, t, _)| (*f, *t) == (*flow, Technique::Handshake));
            }
            let key = (*flow, estimate.technique, estimate.quantity);
            let samples = trips.remove(&key).unwrap_or_default();
            match estimate.of_round_trips(samples, estimate.rejected) {
                Some(inside) => {
                    *estimate = inside;
                    true
                }
                None => false,
            }
        });
    }
}

impl SampleSink for Found {
    fn began(&mut self, flow: &Flow, _: Instant) {
        let called = Names::open().flow(flow).to_string();
        let seen = Seen::begun(called, self.now, flow.profile());
        self.flows.insert(flow.id(), seen);
    }

    fn sample(&mut self, flow: &Flow, sample: &Sample) {
        if self.wants(sample.technique.name()) {
            self.log.push(Entry::Sample(flow.id(), *sample));
        }
    }

    fn ended(&mut self, flow: &Flow, _: End, at: Instant) {
        if self.phase == Phase::Inside {
            self.end_window(flow, at);
        }
        if let Some(seen) = self.flows.get_mut(&flow.id()) {
            seen.all = Passing::of(flow);
            seen.profile = flow.profile();
        }
    }
}
