//! What a run under way comes to, before it is over.

use std::collections::BTreeMap;

use narrows_core::{EntityId, Event, EventSink};
use narrows_scenario::{NamedElement, Plan, Window};
use narrows_units::{Duration, Instant};

use super::{Columns, Reducer, Setup};
use crate::decimal::shortest;
use crate::facts::RateSteps;

/// Reduces the events of a run that goes on to values over stretches of it, which need not be
/// of one length. The values are those of the run's [`Series`](crate::Series), by the same
/// names; an element with a rate also has its `load`, and a box what its rules applied to since the
/// start, `rule_1_packets`, and what of it they dropped, `rule_1_dropped`. What was given is forgotten, so memory does not grow with the run.
pub struct Cut {
    reducer: Reducer,
    /// Names of the flows, in the plan's order.
    flows: Vec<String>,
    /// The rates of elements that have one, by their full names.
    rates: BTreeMap<String, RateSteps>,
    /// What rules of boxes did, as last sampled over the present stretch.
    rules: BTreeMap<(EntityId, u32), [u64; 2]>,
    last: Instant,
}

/// What an element with a rate also has: the part of what it could have carried over the stretch,
/// 0..1, a little more where a packet ends in the next one.
const LOAD: &str = "load";

/// An entity over a stretch: its full name, and each metric with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityValues {
    /// `flow/prague`.
    pub entity: String,
    /// `rtt_ms` and its value; what has none over the stretch is not there.
    pub values: Vec<(String, f64)>,
}

/// The rates of a plan's elements that have one, by their full names.
fn rates(plan: &Plan) -> BTreeMap<String, RateSteps> {
    let of = |element: &NamedElement| {
        let rates = RateSteps::of(plan, &element.name)?;
        Some((element.name.clone(), rates))
    };
    plan.elements().filter_map(of).collect()
}

impl Cut {
    /// Of a run of `plan` that reports entities by these `names`.
    pub fn new(plan: &Plan, names: Vec<String>) -> Self {
        let setup = Setup {
            names,
            // None ends by itself.
            interval: Duration::ZERO,
        };
        // What is kept for a summary would be kept twice: the run has its own.
        let unsummarised = Plan {
            measure: Window {
                from: Instant::ZERO,
                to: Instant::ZERO,
            },
            windows: Vec::new(),
            ..plan.clone()
        };
        let flows = plan.flows.iter().map(|flow| format!("flow/{}", flow.name));
        Self {
            rates: rates(plan),
            rules: BTreeMap::new(),
            reducer: Reducer::new(&unsummarised, setup),
            flows: flows.collect(),
            last: Instant::ZERO,
        }
    }

    /// Takes the rates of `plan`, to which changes were added.
    pub fn amend(&mut self, plan: &Plan) {
        self.rates = rates(plan);
    }

    /// When the present stretch began.
    pub fn since(&self) -> Instant {
        self.last
    }

    /// Forgets what packets did over the present stretch, of which not all was recorded: rates and
    /// delays are those from `now` on. Counts stay.
    pub fn restart(&mut self, now: Instant) {
        self.last = now;
        for flow in &mut self.reducer.flows {
            flow.restart();
        }
        for queue in &mut self.reducer.queues {
            queue.restart();
        }
    }

    /// Ends the stretch at `now`: the values over it, none if no time has passed.
    pub fn at(&mut self, now: Instant) -> Vec<EntityValues> {
        let length = now.since(self.last);
        if length.is_zero() {
            return Vec::new();
        }
        let begun = std::mem::replace(&mut self.last, now);
        let reducer = &mut self.reducer;
        reducer.close_interval(length.as_secs_f64(), now.as_secs_f64());
        let mut rows: Vec<(String, Columns)> = Vec::new();
        for (name, flow) in self.flows.iter().zip(&mut reducer.flows) {
            rows.push((name.clone(), flow.take_rows()));
        }
        let mut others = Vec::new();
        for queue in &mut reducer.queues {
            others.push((queue.entity(), queue.take_rows()));
        }
        for probe in &mut reducer.probes {
            others.push((probe.entity, probe.take_rows()));
        }
        for (entity, source) in &mut reducer.sources {
            let mut columns = Columns::new(&[]);
            source.declare(&mut columns);
            others.push((*entity, columns));
        }
        others.sort_by_key(|(entity, _)| *entity);
        for (entity, columns) in others {
            rows.push((reducer.name(entity), columns));
        }
        let mut all: Vec<EntityValues> = Vec::new();
        for (entity, columns) in rows {
            let last = |points: Vec<(usize, f32)>| points.last().map(|(_, v)| shortest(*v));
            let tracks = columns.tracks();
            let values =
                tracks.filter_map(|(metric, points)| Some((metric.to_owned(), last(points)?)));
            let mut values: Vec<_> = values.collect();
            let carried = values
                .iter()
                .find(|(metric, _)| metric == "throughput_mbit");
            if let (Some((_, mbit)), Some(rates)) = (carried, self.rates.get(&entity)) {
                let capacity = rates.bits_between(begun, now);
                if capacity > 0.0 {
                    let load = mbit * 1e6 * length.as_secs_f64() / capacity;
                    values.push((LOAD.to_owned(), shortest(load as f32)));
                }
            }
            // A queue may also report of itself.
            match all.last_mut().filter(|before| before.entity == entity) {
                Some(before) => before.values.extend(values),
                None if values.is_empty() => {}
                None => all.push(EntityValues { entity, values }),
            }
        }
        self.add_rules(&mut all);
        all
    }

    /// Adds what rules did, as it was last sampled over the stretch.
    fn add_rules(&mut self, all: &mut Vec<EntityValues>) {
        for ((entity, rule), [packets, dropped]) in std::mem::take(&mut self.rules) {
            let entity = self.reducer.name(entity);
            let at = all.iter().position(|of| of.entity == entity);
            let at = at.unwrap_or_else(|| {
                let values = Vec::new();
                all.push(EntityValues { entity, values });
                all.len() - 1
            });
            all[at].values.extend([
                (format!("rule_{rule}_packets"), packets as f64),
                (format!("rule_{rule}_dropped"), dropped as f64),
            ]);
        }
    }
}

impl EventSink for Cut {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::RuleSampled {
            element,
            rule,
            packets,
            dropped,
        } = event
        {
            self.rules.insert((element, rule), [packets, dropped]);
        }
        self.reducer.record(now, event);
    }
}
