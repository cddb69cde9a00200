//! The points at which packets are observed, and what is written of them.

use std::io::Write;
use std::ops::ControlFlow;

use narrows_observe::format::Report;
use narrows_observe::{Observer, ObserverConfig};
use narrows_results::Error;
use narrows_units::{Duration, Instant};
use narrows_wire::capture::Record;

use super::read::Wanted;
use super::save::Saved;
use narrows_services::Exposed;

/// An observer at one point.
pub struct Tap {
    /// Its name: of an interface or a device; empty for the only one of a capture.
    pub name: String,
    /// What was observed there.
    pub observer: Observer,
    /// When the next report is due.
    due: Option<u64>,
    /// When the last packet passed.
    last: Instant,
}

impl Tap {
    /// A point at which `observer` has the packets.
    pub fn new(name: &str, observer: Observer) -> Self {
        Self {
            name: name.to_owned(),
            observer,
            due: None,
            last: Instant::from_nanos(0),
        }
    }
}

/// Is shown the points while packets come, as often as there were some; breaks to end
/// observing.
pub type View = Box<dyn FnMut(&[Tap]) -> ControlFlow<()>>;

/// All points at which packets are observed, and what is written about them.
pub struct Observation<W: Write> {
    config: ObserverConfig,
    wanted: Wanted,
    interval: Option<u64>,
    taps: Vec<Tap>,
    current: usize,
    report: Report<W>,
    saved: Option<Saved>,
    exposed: Option<Exposed>,
    view: Option<View>,
    closed: bool,
    packets: u64,
    /// How many packets more are to be observed.
    left: u64,
}

impl<W: Write> Observation<W> {
    /// Observes the `wanted` packets with `config`, and writes to `report`: at the end, and
    /// after each `interval` of the time of packets.
    pub fn new(
        config: ObserverConfig,
        wanted: Wanted,
        interval: Option<Duration>,
        report: Report<W>,
    ) -> Self {
        Self {
            config,
            wanted,
            interval: interval.map(Duration::as_nanos),
            taps: Vec::new(),
            current: usize::MAX,
            report,
            saved: None,
            exposed: None,
            view: None,
            closed: false,
            packets: 0,
            left: u64::MAX,
        }
    }

    /// Ends after this many packets that the filter takes.
    pub fn stop_after(&mut self, packets: Option<u64>) {
        self.left = packets.unwrap_or(u64::MAX);
    }

    /// Writes the packets that the filter takes.
    pub fn save(&mut self, saved: Option<Saved>) {
        self.saved = saved;
    }

    /// Answers with metrics while packets come.
    pub fn expose(&mut self, exposed: Option<Exposed>) {
        if exposed.is_some() {
            self.report.keep_metrics();
        }
        self.exposed = exposed;
    }

    /// Shows what is observed while packets come.
    pub fn show(&mut self, view: Option<View>) {
        self.view = view;
    }

    /// Calls the view, and makes the page of metrics anew if it is time.
    pub fn draw(&mut self) {
        if let Some(exposed) = self.exposed.as_mut().filter(|e| e.is_due()) {
            let taps = self.taps.iter().map(|tap| {
                let observer = &tap.observer;
                (&*tap.name, observer.counters(), observer.flows_now())
            });
            exposed.show(self.report.metrics(taps));
        }
        if let Some(view) = &mut self.view {
            self.closed |= view(&self.taps).is_break();
        }
    }

    /// Whether to end: enough was observed, the reader of the output
    /// has gone, or the view was closed.
    pub fn is_over(&self) -> bool {
        self.left == 0
            || self.report.has_failed()
            || self.saved.as_ref().is_some_and(Saved::has_failed)
            || self.closed
    }

    /// Which packets are observed.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The tap with this name. Interfaces of the same name in several files are one
    /// point: a capture may be rotated.
    pub fn tap(&mut self, name: &str) -> usize {
        let known = self.taps.iter().position(|t| t.name == name);
        known.unwrap_or_else(|| {
            self.taps.push(Tap::new(name, Observer::new(self.config)));
            self.taps.len() - 1
        })
    }

    /// A packet at a tap as it was captured: observes it if the filter takes it.
    pub fn packet(&mut self, at_tap: usize, record: &Record<'_>, vlan: Option<u16>) {
        self.packets += 1;
        self.turn_to(at_tap);
        let tap = &mut self.taps[at_tap];
        let Some(ip) = record.ip_packet() else {
            tap.observer.count_no_ip();
            return;
        };
        let mut packet = None;
        self.wanted.classify(ip, record.cut(), &mut packet);
        let at = record.at.unwrap_or(tap.last);
        if let Some(interval) = self.interval {
            report_until(tap, at.as_nanos(), interval, &mut self.report);
        }
        tap.last = at;
        let of_flow = packet.as_ref().and_then(|p| tap.observer.count(p));
        let taken = match of_flow {
            Some(packet) => self.wanted.filter.takes(packet, vlan),
            None => self.wanted.takes_other(record, vlan),
        };
        if !taken {
            return;
        }
        self.left -= 1;
        if let Some(packet) = of_flow {
            // Frames are numbered from 1, as other tools number them.
            let id = record.id.unwrap_or(self.packets);
            tap.observer.take(packet, at, id, &mut self.report);
        }
        if let Some(saved) = &mut self.saved {
            saved.packet(at_tap, &tap.name, record);
        }
    }

    /// Says that all packets before `at` have been passed on, where there may have
    /// been none: reports that are due are written.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub fn passes(&mut self, at: Instant) {
        let Some(interval) = self.interval else {
            return;
        };
        for tap in 0..self.taps.len() {
            self.turn_to(tap);
            let tap = &mut self.taps[tap];
            report_until(tap, at.as_nanos(), interval, &mut self.report);
        }
    }

    /// How many packets of a tap the machine had no room for so far.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub fn dropped(&mut self, tap: usize, packets: u64) {
        self.taps[tap].observer.set_dropped(packets);
    }

    fn turn_to(&mut self, tap: usize) {
        if self.current != tap {
            self.current = tap;
            self.report.at_tap(&self.taps[tap].name);
        }
    }

    /// Ends all flows, the report and what is saved.
    ///
    /// # Errors
    /// When packets could not be saved. Who writes the report knows whether that failed.
    pub fn finish(mut self) -> Result<(), Error> {
        // The screen first: what follows is written below it.
        drop(self.view.take());
        for at in 0..self.taps.len() {
            self.turn_to(at);
            let tap = &mut self.taps[at];
            tap.observer.finish(&mut self.report);
        }
        for at in 0..self.taps.len() {
            self.turn_to(at);
            self.report.counters(self.taps[at].observer.counters());
        }
        let _ = self.report.finish();
        self.saved.map_or(Ok(()), Saved::finish)
    }
}

/// Reports on the flows of a tap that were seen in an interval that is over.
fn report_until<W: Write>(tap: &mut Tap, at: u64, interval: u64, report: &mut Report<W>) {
    let due = *tap.due.get_or_insert(at.saturating_add(interval));
    if at < due {
        return;
    }
    let begun = due.saturating_sub(interval);
    for flow in tap.observer.flows() {
        if flow.last_at().as_nanos() >= begun {
            report.estimates(flow, Instant::from_nanos(due));
        }
    }
    report.settle(Instant::from_nanos(due));
    // Intervals in which nothing passed have no report.
    let steps = (at - due) / interval + 1;
    tap.due = Some(due.saturating_add(steps.saturating_mul(interval)));
}
