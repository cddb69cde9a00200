//! What sources report of themselves.

use super::{Decoder, Encoder, EntityId, FlowId, Malformed, Value};

/// What reports a quantity of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A flow of the plan.
    Flow(FlowId),
    /// Anything else that is in the run's name table: an application, a host, an element, a
    /// box, a leg of a proxy, a prober.
    Entity(EntityId),
}

impl From<FlowId> for Source {
    fn from(flow: FlowId) -> Self {
        Self::Flow(flow)
    }
}

impl From<EntityId> for Source {
    fn from(entity: EntityId) -> Self {
        Self::Entity(entity)
    }
}

choices! {
    /// How the values of a field come to the figures of a run, over its steady window.
    Reduce {
        /// Each value is so many more (requests answered, bytes read): their total, and what
        /// that is per second.
        Counter,
        /// Each value is the state at that time (a window, a level of quality): its least,
        /// mean and greatest.
        Gauge,
        /// Each value is a measurement, not negative (a response time, the size of a frame):
        /// its distribution.
        Sample,
    }
}

impl Reduce {
    /// What it is called in lists.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Sample => "sample",
        }
    }

    /// The figures that a run has of such a field.
    pub const fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["total", "per_s"],
            Self::Gauge => &["min", "mean", "max"],
            Self::Sample => &["min", "mean", "p50", "p95", "p99", "max"],
        }
    }
}

/// A quantity that a source reports of itself: what it declares, so that nobody
/// between it and the reader needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryField {
    /// Its name among those of its source.
    pub name: &'static str,
    /// Its unit as columns spell it (`ms`, `mbit`, `packets`); empty if it has none.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Title of the chart that it shares with other fields of its unit; empty if it is
    /// drawn alone.
    pub chart: &'static str,
    /// Values are whole numbers of `1 / scale` units.
    pub scale: u64,
    /// How its values come to figures.
    pub reduce: Reduce,
}

impl TelemetryField {
    /// A field of whole units that is drawn alone.
    pub const fn new(
        name: &'static str,
        unit: &'static str,
        about: &'static str,
        reduce: Reduce,
    ) -> Self {
        Self {
            name,
            unit,
            about,
            chart: "",
            scale: 1,
            reduce,
        }
    }

    /// The same, of which values are whole numbers of `1 / scale` units.
    pub const fn in_parts(self, scale: u64) -> Self {
        Self { scale, ..self }
    }

    /// The same in the chart of this title.
    pub const fn in_chart(self, chart: &'static str) -> Self {
        Self { chart, ..self }
    }

    /// What the metrics of it are called: `response_ms.p99`.
    pub fn metrics(&self) -> impl Iterator<Item = String> {
        let column = self.column();
        let figures = self.reduce.figures().iter();
        figures.map(move |figure| format!("{column}.{figure}"))
    }

    /// The name of its column: with its unit, if it has one.
    pub fn column(&self) -> String {
        match self.unit {
            "" => self.name.to_owned(),
            unit => format!("{}_{unit}", self.name),
        }
    }

    /// `value` in its unit.
    pub fn in_units(&self, value: i64) -> f64 {
        value as f64 / self.scale as f64
    }
}
