//! What applications report of themselves in a run.

use narrows_core::{EntityId, Event, EventSink, Reduce, Source};
use narrows_scenario::{NameTable, Plan};
use narrows_sim::Outcome;
use narrows_units::Instant;

/// All that applications report.
#[derive(Default)]
pub struct Reports(Vec<(Instant, EntityId, &'static str, i64)>);

impl EventSink for Reports {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        if let Event::Telemetry {
            source: Source::Entity(source),
            field,
            value,
        } = event
        {
            // That nothing is counted yet is no event.
            if field.reduce != Reduce::Counter || value != 0 {
                self.0.push((now, source, field.name, value));
            }
        }
    }
}

impl Reports {
    /// Each value of a field, and when it was reported.
    pub fn of(&self, source: EntityId, name: &str) -> Vec<(Instant, i64)> {
        let own = self.0.iter().filter(|r| r.1 == source && r.2 == name);
        own.map(|r| (r.0, r.3)).collect()
    }
}

/// What one application reported.
pub struct OfApp {
    reports: Reports,
    entity: EntityId,
    pub outcome: Outcome,
}

impl OfApp {
    /// The values of a field, in order.
    pub fn values(&self, field: &str) -> Vec<i64> {
        let all = self.reports.of(self.entity, field);
        all.into_iter().map(|r| r.1).collect()
    }

    /// When they were reported.
    pub fn times(&self, field: &str) -> Vec<Instant> {
        let all = self.reports.of(self.entity, field);
        all.into_iter().map(|r| r.0).collect()
    }

    /// Their sum.
    pub fn total(&self, field: &str) -> i64 {
        self.values(field).iter().sum()
    }

    /// Their mean in units of 1 / `scale`.
    pub fn mean(&self, field: &str, scale: f64) -> f64 {
        let values = self.values(field);
        let sum: f64 = values.iter().map(|v| *v as f64).sum();
        sum / scale / values.len() as f64
    }
}

/// Runs `plan`, and returns what the application `app/NAME` reported.
pub fn reports(plan: &Plan, name: &str) -> OfApp {
    let mut reports = Reports::default();
    let outcome = super::run(plan, 1, &mut reports);
    let entity = NameTable::of(plan).id(name).expect("a name of the run");
    OfApp {
        reports,
        entity,
        outcome,
    }
}
