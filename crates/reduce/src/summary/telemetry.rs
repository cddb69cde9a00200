//! What sources report of themselves.

use narrows_core::Reduce;
use serde::{Deserialize, Serialize};

use super::Distribution;

/// A source that is no flow, and what it reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceSummary {
    /// Full name, `app/web`.
    pub name: String,
    /// What it reports, in the steady window.
    pub telemetry: Vec<TelemetrySummary>,
    /// The same in each of the scenario's further windows, as `window/mid/app/web`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<SourceSummary>,
}

impl SourceSummary {
    /// The figures that any field of `sources` has, for the heads of a table.
    pub fn figures(sources: &[Self]) -> Vec<&'static str> {
        let mut names = Vec::new();
        for reduce in [Reduce::Sample, Reduce::Gauge, Reduce::Counter] {
            let fields = sources.iter().flat_map(|source| &source.telemetry);
            let mut named = fields.map(|field| field.figures.reduce());
            if named.any(|of| of == reduce) {
                let new = reduce.figures().iter().copied();
                names.extend(new.filter(|name| !names.contains(name)).collect::<Vec<_>>());
            }
        }
        names
    }
}

/// A quantity that a source reports of itself, over what it reported in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TelemetrySummary {
    /// Its column among the series, with its unit: `alpha`, `noted_mbit`.
    pub name: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// What it is.
    pub about: String,
    /// Title of the chart that it shares with others of its unit; empty if it is drawn
    /// alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chart: String,
    /// What its values came to.
    #[serde(flatten)]
    pub figures: FieldFigures,
}

/// What the values of a quantity came to, by how its source declares that they are
/// [reduced](narrows_core::Reduce).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldFigures {
    /// Of a sample.
    Sample(Distribution),
    /// Of a counter.
    Counter {
        /// All of them.
        total: f64,
        /// The same per second of the window.
        per_s: f64,
    },
    /// Of a gauge.
    Gauge {
        /// Mean.
        mean: f64,
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
}

impl Default for FieldFigures {
    fn default() -> Self {
        Self::Gauge {
            mean: 0.0,
            min: 0.0,
            max: 0.0,
        }
    }
}

impl FieldFigures {
    /// Each figure with its name, [`Reduce::figures`](narrows_core::Reduce::figures).
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let values = match *self {
            Self::Sample(d) => d.named().map(|(_, value)| value).to_vec(),
            Self::Counter { total, per_s } => vec![total, per_s],
            Self::Gauge { mean, min, max } => vec![min, mean, max],
        };
        self.reduce().figures().iter().copied().zip(values)
    }

    /// How the values were reduced.
    pub fn reduce(&self) -> Reduce {
        match self {
            Self::Sample(_) => Reduce::Sample,
            Self::Counter { .. } => Reduce::Counter,
            Self::Gauge { .. } => Reduce::Gauge,
        }
    }

    /// The figure of that name, if it has it.
    pub fn get(&self, name: &str) -> Option<f64> {
        let mut named = self.named();
        named
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The least of what was reported; `None` of a counter.
    pub fn min(&self) -> Option<f64> {
        self.get("min")
    }
}
