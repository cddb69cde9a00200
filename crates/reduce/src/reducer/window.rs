//! What is kept of a flow in one of the scenario's further windows.

use narrows_scenario::Window;
use narrows_units::{Duration, Histogram, Instant};

use crate::distribution::Distribution;
use crate::summary::{FlowInWindow, TelemetrySummary, WindowSummary, millionths};

const SECOND: Duration = Duration::from_secs(1);

/// A flow in a window.
pub(super) struct InWindow {
    over: Window,
    bytes: u64,
    /// The whole second that is being filled, from the window's start, and its bytes.
    second: u64,
    in_second: u64,
    /// Most bytes of a whole second.
    most: u64,
    rtt: Histogram,
}

impl InWindow {
    pub(super) fn new(over: Window) -> Self {
        Self {
            over,
            bytes: 0,
            second: 0,
            in_second: 0,
            most: 0,
            rtt: Histogram::default(),
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

    pub(super) fn rtt_sample(&mut self, now: Instant, rtt: Duration) {
        if self.over.contains(now) {
            self.rtt.record(rtt);
        }
    }

    fn close_second(&mut self) {
        let whole = (self.second + 1) * SECOND.as_nanos() <= self.over.length().as_nanos();
        if whole {
            self.most = self.most.max(self.in_second);
        }
        self.in_second = 0;
    }

    /// What it came to, of a flow that reported this.
    pub(super) fn finish(mut self, name: String, telemetry: Vec<TelemetrySummary>) -> FlowInWindow {
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
            rtt_ms: Distribution::of_ms(&self.rtt),
            telemetry,
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
    fn goodput_and_round_trips_are_of_the_window_and_the_peak_of_a_whole_second() {
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
        for (ms, rtt) in [(999, 900), (1000, 20), (4499, 40), (4500, 900)] {
            window.rtt_sample(at(ms), Duration::from_millis(rtt));
        }
        let flow = window.finish("window/w/f".to_owned(), Vec::new());
        assert_eq!(flow.goodput_mbit, 4.0);
        assert_eq!(flow.peak_mbit, Some(3.0));
        let rtt = flow.rtt_ms.expect("samples");
        assert_eq!((rtt.min, rtt.max), (20.0, 40.0));
    }

    #[test]
    fn the_peak_is_of_all_bytes_in_the_same_second_from_the_window_s_start() {
        let mut window = InWindow::new(Window {
            from: at(500),
            to: at(3500),
        });
        for (ms, bytes) in [(500, 1000), (1499, 2000), (1500, 1500), (2600, 500)] {
            window.delivered(at(ms), bytes);
        }
        let flow = window.finish("window/w/f".to_owned(), Vec::new());
        assert_eq!(flow.peak_mbit, Some(0.024));
    }
}
