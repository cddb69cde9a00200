//! What is kept of a flow in one of the scenario's further windows.

use narrows_core::TelemetryField;
use narrows_scenario::Window;
use narrows_units::{Duration, Instant};

use crate::summary::{FlowInWindow, TelemetrySummary, WindowSummary, millionths};

const SECOND: Duration = Duration::from_secs(1);

/// The values of a quantity.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    sum: f64,
    count: u64,
    least: f64,
    most: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            sum: 0.0,
            count: 0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
        }
    }
}

impl Spread {
    pub(super) fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Of `field`; `None` without a value.
    pub(super) fn summary(&self, field: TelemetryField) -> Option<TelemetrySummary> {
        (self.count > 0).then(|| TelemetrySummary {
            name: field.column(),
            unit: field.unit.to_owned(),
            about: field.about.to_owned(),
            chart: field.chart.to_owned(),
            mean: millionths(self.sum / self.count as f64),
            min: millionths(self.least),
            max: millionths(self.most),
        })
    }
}

/// A flow in a window.
pub(super) struct InWindow {
    over: Window,
    bytes: u64,
    /// The whole second that is being filled, from the window's start, and its bytes.
    second: u64,
    in_second: u64,
    /// Most bytes of a whole second.
    most: u64,
    /// By the place of the field among those that the flow reports.
    telemetry: Vec<Spread>,
}

impl InWindow {
    pub(super) fn new(over: Window) -> Self {
        Self {
            over,
            bytes: 0,
            second: 0,
            in_second: 0,
            most: 0,
            telemetry: Vec::new(),
        }
    }

    pub(super) fn delivered(&mut self, now: Instant, bytes: u64) {
        if !self.over.contains(now) {
            return;
        }
        self.bytes += bytes;
        let second = now.since(self.over.from).as_nanos() / SECOND.as_nanos();
        if second != self.second {
            self.close_second();
            self.second = second;
        }
        self.in_second += bytes;
    }

    fn close_second(&mut self) {
        let whole = (self.second + 1) * SECOND.as_nanos() <= self.over.length().as_nanos();
        if whole {
            self.most = self.most.max(self.in_second);
        }
        self.in_second = 0;
    }

    /// The field at that place has this value.
    pub(super) fn reported(&mut self, now: Instant, place: usize, value: f64) {
        if !self.over.contains(now) {
            return;
        }
        if self.telemetry.len() <= place {
            self.telemetry.resize(place + 1, Spread::default());
        }
        self.telemetry[place].add(value);
    }

    /// What it came to, of a flow that reports `fields`.
    pub(super) fn finish(mut self, name: String, fields: &[TelemetryField]) -> FlowInWindow {
        self.close_second();
        let length = self.over.length();
        let mbit = |bytes: u64, seconds: f64| millionths(bytes as f64 * 8.0 / seconds / 1e6);
        FlowInWindow {
            name,
            window: WindowSummary {
                from_s: self.over.from.as_secs_f64(),
                to_s: self.over.to.as_secs_f64(),
            },
            goodput_mbit: mbit(self.bytes, length.as_secs_f64()),
            peak_mbit: (length >= SECOND).then(|| mbit(self.most, 1.0)),
            telemetry: self
                .telemetry
                .iter()
                .zip(fields)
                .filter_map(|(spread, field)| spread.summary(*field))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn goodput_is_over_the_whole_window_and_the_peak_of_a_whole_second() {
        let mut window = InWindow::new(Window {
            from: at(1000),
            to: at(4500),
        });
        for (ms, bytes) in [
            (999, 1_000_000),
            (1000, 125_000),
            (1999, 125_000),
            (2000, 375_000),
            // Half a second is left, which is no whole one.
            (4100, 1_125_000),
            (4500, 1_000_000),
        ] {
            window.delivered(at(ms), bytes);
        }
        let flow = window.finish("window/w/f".to_owned(), &[]);
        assert_eq!(flow.goodput_mbit, 4.0);
        assert_eq!(flow.peak_mbit, Some(3.0));
    }

    #[test]
    fn telemetry_counts_within_the_window_alone() {
        let field = TelemetryField {
            name: "w",
            unit: "",
            about: "weight",
            chart: "",
            scale: 1,
        };
        let mut window = InWindow::new(Window {
            from: at(0),
            to: at(1000),
        });
        for (ms, value) in [(0, 1.0), (999, 3.0), (1000, 9.0)] {
            window.reported(at(ms), 1, value);
        }
        let flow = window.finish(String::new(), &[field, field]);
        // The first field has no value there.
        let [w] = &flow.telemetry[..] else {
            panic!("{:?}", flow.telemetry)
        };
        assert_eq!((w.min, w.mean, w.max), (1.0, 2.0, 3.0));
    }
}
