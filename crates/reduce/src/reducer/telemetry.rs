//! What a source reports of itself, whatever it is.

use narrows_core::{Reduce, TelemetryField};
use narrows_scenario::{Window, WindowPlan};
use narrows_units::{Duration, Histogram, Instant};

use super::bins::Columns;
use crate::distribution::Distribution;
use crate::summary::{FieldFigures, TelemetrySummary, millionths};

/// The fields that a source has reported, in the order in which it first did.
pub(super) struct Telemetry {
    fields: Vec<Reported>,
    /// The scenario's further windows.
    windows: Vec<Window>,
}

/// A field that was reported.
struct Reported {
    field: TelemetryField,
    present: Option<Present>,
    /// Interval and value.
    points: Vec<(usize, f32)>,
    steady: Kept,
    /// By the place of the window among those of the scenario.
    in_windows: Vec<Kept>,
}

/// Values of the present interval.
#[derive(Clone, Copy, Default)]
struct Present {
    last: f64,
    sum: f64,
    count: u64,
}

impl Present {
    /// What a series has of them.
    fn point(self, reduce: Reduce) -> f64 {
        match reduce {
            Reduce::Counter => self.sum,
            Reduce::Gauge => self.last,
            Reduce::Sample => self.sum / self.count as f64,
        }
    }
}

/// The values of a field in a window.
#[derive(Clone)]
enum Kept {
    Counter(i64),
    Gauge {
        sum: f64,
        count: u64,
        least: f64,
        most: f64,
    },
    /// In parts of a unit.
    Sample(Histogram),
}

impl Kept {
    fn new(reduce: Reduce) -> Self {
        match reduce {
            Reduce::Counter => Self::Counter(0),
            Reduce::Gauge => Self::Gauge {
                sum: 0.0,
                count: 0,
                least: f64::INFINITY,
                most: f64::NEG_INFINITY,
            },
            Reduce::Sample => Self::Sample(Histogram::default()),
        }
    }

    fn add(&mut self, value: i64, in_units: f64) {
        match self {
            Self::Counter(total) => *total = total.saturating_add(value),
            Self::Gauge {
                sum,
                count,
                least,
                most,
            } => {
                *sum += in_units;
                *count += 1;
                *least = least.min(in_units);
                *most = most.max(in_units);
            }
            // The histogram's nanoseconds stand for any whole number.
            Self::Sample(values) => {
                values.record(Duration::from_nanos(value.max(0).unsigned_abs()));
            }
        }
    }

    /// In a window of this length; `None` of a gauge or a sample without a value.
    fn figures(&self, field: &TelemetryField, length: Duration) -> Option<FieldFigures> {
        match self {
            Self::Counter(total) => {
                let total = field.in_units(*total);
                let seconds = length.as_secs_f64();
                let per_s = if seconds > 0.0 { total / seconds } else { 0.0 };
                Some(FieldFigures::Counter {
                    total: millionths(total),
                    per_s: millionths(per_s),
                })
            }
            Self::Gauge {
                sum,
                count,
                least,
                most,
            } => (*count > 0).then(|| FieldFigures::Gauge {
                mean: millionths(sum / *count as f64),
                min: millionths(*least),
                max: millionths(*most),
            }),
            Self::Sample(values) => {
                Distribution::of(values, field.scale as f64).map(FieldFigures::Sample)
            }
        }
    }
}

impl Telemetry {
    /// Of a source in a run with these further windows.
    pub(super) fn new(windows: &[WindowPlan]) -> Self {
        Self {
            fields: Vec::new(),
            windows: windows.iter().map(|w| w.over).collect(),
        }
    }

    /// `field` has this value, a whole number of its parts.
    pub(super) fn reported(
        &mut self,
        now: Instant,
        inside: bool,
        field: TelemetryField,
        value: i64,
    ) {
        let known = self.fields.iter().position(|r| r.field == field);
        let at = known.unwrap_or_else(|| {
            let kept = Kept::new(field.reduce);
            self.fields.push(Reported {
                field,
                present: None,
                points: Vec::new(),
                steady: kept.clone(),
                in_windows: vec![kept; self.windows.len()],
            });
            self.fields.len() - 1
        });
        let reported = &mut self.fields[at];
        let in_units = field.in_units(value);
        let present = reported.present.get_or_insert_default();
        present.last = in_units;
        present.sum += in_units;
        present.count += 1;
        if inside {
            reported.steady.add(value, in_units);
        }
        for (over, kept) in self.windows.iter().zip(&mut reported.in_windows) {
            if over.contains(now) {
                kept.add(value, in_units);
            }
        }
    }

    pub(super) fn close_interval(&mut self, interval: usize) {
        for reported in &mut self.fields {
            if let Some(present) = reported.present.take() {
                let point = present.point(reported.field.reduce);
                reported.points.push((interval, point as f32));
            }
        }
    }

    fn summaries<'a>(
        &'a self,
        kept: impl Fn(&'a Reported) -> &'a Kept,
        length: Duration,
    ) -> Vec<TelemetrySummary> {
        let of = |reported: &'a Reported| {
            let field = &reported.field;
            Some(TelemetrySummary {
                name: field.column(),
                unit: field.unit.to_owned(),
                about: field.about.to_owned(),
                chart: field.chart.to_owned(),
                figures: kept(reported).figures(field, length)?,
            })
        };
        self.fields.iter().filter_map(of).collect()
    }

    /// What it came to in the steady window, which is so long.
    pub(super) fn in_steady_window(&self, length: Duration) -> Vec<TelemetrySummary> {
        self.summaries(|reported| &reported.steady, length)
    }

    /// The same in the scenario's further window at that place.
    pub(super) fn in_window(&self, place: usize) -> Vec<TelemetrySummary> {
        let length = self.windows[place].length();
        self.summaries(|reported| &reported.in_windows[place], length)
    }

    /// Moves its series to those of the source.
    pub(super) fn declare(&mut self, columns: &mut Columns) {
        for reported in &mut self.fields {
            let mut points = std::mem::take(&mut reported.points);
            if reported.field.reduce == Reduce::Counter {
                points.retain(|(_, value)| *value != 0.0);
            }
            columns.declare(reported.field.column(), points);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn window(from: u64, to: u64) -> WindowPlan {
        let (from, to) = (at(from), at(to));
        WindowPlan {
            name: "w".to_owned(),
            over: Window { from, to },
        }
    }

    const QUALITY: TelemetryField = TelemetryField::new("quality", "", "level", Reduce::Gauge);
    const RESPONSE: TelemetryField =
        TelemetryField::new("response", "ms", "time to the answer", Reduce::Sample).in_parts(1000);
    const REQUESTS: TelemetryField =
        TelemetryField::new("requests", "", "answered", Reduce::Counter);

    fn columns(mut telemetry: Telemetry) -> Vec<(String, Vec<(usize, f32)>)> {
        let mut columns = Columns::new(&[]);
        telemetry.declare(&mut columns);
        let tracks = columns.tracks();
        tracks
            .map(|(name, points)| (name.to_owned(), points))
            .collect()
    }

    #[test]
    fn a_gauge_has_least_mean_and_greatest_and_its_series_the_last_of_each_interval() {
        let mut telemetry = Telemetry::new(&[]);
        for (interval, values) in [[2, 5], [-1, 4]].into_iter().enumerate() {
            for value in values {
                telemetry.reported(at(1), true, QUALITY, value);
            }
            telemetry.close_interval(interval);
        }
        telemetry.reported(at(1), false, QUALITY, 100);
        let [quality] = &telemetry.in_steady_window(Duration::from_secs(2))[..] else {
            panic!("one field")
        };
        let figures: Vec<_> = quality.figures.named().collect();
        assert_eq!(figures, [("min", -1.0), ("mean", 2.5), ("max", 5.0)]);
        let expected = ("quality".to_owned(), vec![(0, 5.0), (1, 4.0)]);
        assert_eq!(columns(telemetry), [expected]);
    }

    #[test]
    fn a_sample_has_a_distribution_in_its_unit_and_its_series_the_mean_of_each_interval() {
        let mut telemetry = Telemetry::new(&[]);
        for us in 1..=1000 {
            telemetry.reported(at(1), true, RESPONSE, us);
        }
        telemetry.close_interval(3);
        let [response] = &telemetry.in_steady_window(Duration::from_secs(1))[..] else {
            panic!("one field")
        };
        assert_eq!(
            (response.name.as_str(), response.unit.as_str()),
            ("response_ms", "ms")
        );
        let FieldFigures::Sample(d) = response.figures else {
            panic!("{response:?}")
        };
        assert_eq!(
            (d.count, d.min, d.mean, d.max),
            (1000, 0.001, 0.5005, 1.0),
            "exact"
        );
        for (found, exact) in [(d.p50, 0.5), (d.p95, 0.95), (d.p99, 0.99)] {
            assert!((found / exact - 1.0).abs() < 0.002, "{found} for {exact}");
        }
        let expected = ("response_ms".to_owned(), vec![(3, 0.5005)]);
        assert_eq!(columns(telemetry), [expected]);
    }

    #[test]
    fn a_counter_has_a_total_and_a_rate_over_its_window_and_no_rows_of_zero() {
        let mut telemetry = Telemetry::new(&[]);
        for (interval, values) in [&[2, 3][..], &[0], &[], &[1]].iter().enumerate() {
            for value in *values {
                telemetry.reported(at(1), true, REQUESTS, *value);
            }
            telemetry.close_interval(interval);
        }
        let [requests] = &telemetry.in_steady_window(Duration::from_secs(4))[..] else {
            panic!("one field")
        };
        let figures: Vec<_> = requests.figures.named().collect();
        assert_eq!(figures, [("total", 6.0), ("per_s", 1.5)]);
        let expected = ("requests".to_owned(), vec![(0, 5.0), (3, 1.0)]);
        assert_eq!(columns(telemetry), [expected]);
    }

    #[test]
    fn each_window_has_what_was_reported_within_it_alone() {
        let mut telemetry = Telemetry::new(&[window(0, 1000), window(500, 3000)]);
        telemetry.reported(at(0), false, RESPONSE, 0);
        for (ms, value) in [(0, 1), (999, 3), (1000, 9), (3000, 100)] {
            telemetry.reported(at(ms), false, QUALITY, value);
        }
        let gauge = |min, mean, max| FieldFigures::Gauge { mean, min, max };
        let of = |place| {
            let summaries = telemetry.in_window(place).into_iter();
            let named = summaries.map(|f| (f.name, f.figures));
            named.collect::<Vec<_>>()
        };
        assert_eq!(of(0)[1], ("quality".to_owned(), gauge(1.0, 2.0, 3.0)));
        // The first field has no value in the second window.
        assert_eq!(of(1), [("quality".to_owned(), gauge(3.0, 6.0, 9.0))]);
        assert_eq!(telemetry.in_steady_window(Duration::ZERO), []);
    }

    #[test]
    fn fields_have_the_figures_that_their_declaration_names() {
        for reduce in Reduce::ALL.iter().copied() {
            let field = TelemetryField { reduce, ..QUALITY };
            let mut telemetry = Telemetry::new(&[]);
            telemetry.reported(at(0), true, field, 1);
            let summary = telemetry.in_steady_window(Duration::from_secs(1)).remove(0);
            let named: Vec<&str> = summary.figures.named().map(|(name, _)| name).collect();
            assert_eq!(named, reduce.figures());
        }
    }

    #[test]
    fn a_counter_in_a_window_of_no_length_has_a_total_and_no_rate() {
        let mut telemetry = Telemetry::new(&[]);
        telemetry.reported(at(0), true, REQUESTS, 3);
        let [requests] = &telemetry.in_steady_window(Duration::ZERO)[..] else {
            panic!("one field")
        };
        let figures: Vec<_> = requests.figures.named().collect();
        assert_eq!(figures, [("total", 3.0), ("per_s", 0.0)]);
    }
}
