//! A control's law in double precision beside the fixed point that ran.

use narrows_core::{Reduce, TelemetryField};

use crate::dalbe::{DalbeInterval, DalbeLaw};
use crate::spec::ControlSpec;

/// By how much fixed point was off in the last interval.
const ERROR: TelemetryField = TelemetryField::new(
    "law_error",
    "ppm",
    "how far the weight is from that of the law in double precision",
    Reduce::Gauge,
)
.in_parts(1000);

/// How many intervals were compared.
const COMPARED: TelemetryField = TelemetryField::new(
    "law_compared",
    "",
    "intervals compared with the law in double precision",
    Reduce::Gauge,
);

/// What [`Reference::compare`] reports.
pub(crate) const FIELDS: [TelemetryField; 2] = [ERROR, COMPARED];

/// Follows what a control reports, and computes each interval of its law again in
/// double precision.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    law: DalbeLaw,
    before: Option<DalbeInterval>,
    compared: i64,
}

impl Reference {
    /// That of `spec`, if its control has a law in double precision.
    pub fn of(spec: &ControlSpec) -> Option<Self> {
        DalbeLaw::of(spec).map(|law| Self {
            law,
            before: None,
            compared: 0,
        })
    }

    /// From all that the control reports at one time: where an interval has ended since
    /// the last call, by how much its weight differs, and how many were compared. One
    /// whose predecessor was not reported cannot be.
    pub fn compare(
        &mut self,
        reported: &[(TelemetryField, i64)],
    ) -> Option<[(TelemetryField, i64); 2]> {
        let now = DalbeInterval::of(reported.iter().copied());
        let before = self.before.replace(now)?;
        if now.intervals != before.intervals + 1.0 {
            return None;
        }
        let exact = self.law.step(&before, &now);
        let ppm = (now.w / exact.w - 1.0).abs() * 1e6;
        self.compared += 1;
        let in_ppm = (ppm * ERROR.scale as f64).round() as i64;
        Some([(ERROR, in_ppm), (COMPARED, self.compared)])
    }
}
