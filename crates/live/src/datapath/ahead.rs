//! An element whose time is ahead of the path's.

use narrows_core::{Change, Element, ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{Duration, Instant, WordError};

/// Calls an element with its own time: packets come in so much ahead of path time, and
/// leave so much ahead.
pub(super) struct Ahead {
    pub element: Box<dyn Element>,
    pub entry: Duration,
    pub exit: Duration,
    /// The end of the run, after which nothing is done.
    pub end: Instant,
}

impl Element for Ahead {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.element.push(now + self.entry, port, packet, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        let wake = self.element.next_wake().filter(|at| *at <= self.end)?;
        Some(Instant::ZERO + wake.since(Instant::ZERO + self.exit))
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.element.wake(now + self.exit, out);
    }

    fn lookahead(&self) -> Duration {
        self.element.lookahead()
    }

    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        self.element.change(now + self.entry, change)
    }

    fn counters(&self) -> ElementCounters {
        self.element.counters()
    }

    fn port_counters(&self, port: Port) -> ElementCounters {
        self.element.port_counters(port)
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.element
            .sample((now + self.entry).min(self.end), events);
    }
}
