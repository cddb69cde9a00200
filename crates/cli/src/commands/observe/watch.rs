//! The points at which packets are observed, and what is told of them.

mod ahead;

use std::io::Write;

use narrows::Error;
use narrows_observe::format::Report;
use narrows_observe::{Classified, Config, Observer};
use narrows_units::{Duration, Instant};
use narrows_wire::capture::Record;

pub use ahead::Stop;

use super::expose::Exposed;
use super::read::{Takes, Wanted};
use super::save::Saved;
use super::top::Top;

/// An observer at one point.
pub struct Tap {
    pub name: String,
    pub observer: Observer,
    /// When the next report is due.
    due: Option<u64>,
    /// When the last packet passed.
    last: Instant,
}

impl Tap {
    /// Where the tap with this name is, and whether it is new. Interfaces of the
    /// same name in several files are one point: a capture may be rotated.
    fn named(taps: &mut Vec<Self>, name: &str, config: Config) -> (usize, bool) {
        if let Some(at) = taps.iter().position(|t| t.name == name) {
            return (at, false);
        }
        taps.push(Self {
            name: name.to_owned(),
            observer: Observer::new(config),
            due: None,
            last: Instant::from_nanos(0),
        });
        (taps.len() - 1, true)
    }

    /// Brings near what is kept of the flows of packets that come next, each at
    /// its tap if there is one yet.
    fn prefetch(all: &[Self], taps: &[Option<usize>], packets: &[Option<Classified<'_>>]) {
        for (at, tap) in all.iter().enumerate() {
            let here = taps
                .iter()
                .zip(packets)
                .filter(|(tap, _)| **tap == Some(at));
            let here = here.filter_map(|(_, packet)| packet.as_ref()?.as_ref().ok());
            tap.observer.prefetch(here);
        }
    }

    /// An observer that somebody else has fed.
    #[cfg(test)]
    pub fn at(name: &str, observer: Observer) -> Self {
        Self {
            name: name.to_owned(),
            observer,
            due: None,
            last: Instant::from_nanos(0),
        }
    }
}

/// All points at which packets are observed, and what is written about them.
pub struct Watch<W: Write> {
    config: Config,
    wanted: Wanted,
    interval: Option<u64>,
    taps: Vec<Tap>,
    current: usize,
    report: Report<W>,
    saved: Option<Saved>,
    exposed: Option<Exposed>,
    top: Option<Top>,
    packets: u64,
    /// How many packets more are to be observed.
    left: u64,
}

impl<W: Write> Watch<W> {
    pub fn new(
        config: Config,
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
            top: None,
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

    /// Shows flows in a table while packets come.
    pub fn show(&mut self, top: Option<Top>) {
        self.top = top;
    }

    /// Draws the table and makes the page of metrics anew, if there are such and it is
    /// time.
    pub fn draw(&mut self) {
        if let Some(exposed) = self.exposed.as_mut().filter(|e| e.is_due()) {
            let taps = self.taps.iter().map(|tap| {
                let observer = &tap.observer;
                (&*tap.name, observer.counters(), observer.flows_now())
            });
            exposed.show(self.report.metrics(taps));
        }
        if let Some(top) = &mut self.top {
            top.draw(&self.taps);
        }
    }

    /// A packet at a tap as it was captured: observes it if the filter takes it.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub fn packet(&mut self, tap: usize, record: &Record<'_>, vlan: Option<u16>) {
        let mut read = None;
        if let Some(ip) = record.ip_packet() {
            self.wanted.classify(ip, record.cut(), &mut read);
        }
        self.read_packet(tap, read.as_ref(), record, vlan);
    }

    /// Says that all packets before `at` have been told, where there may have
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
        drop(self.top.take());
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

impl<W: Write> Takes for Watch<W> {
    fn is_over(&self) -> bool {
        self.left == 0
            || self.report.has_failed()
            || self.saved.as_ref().is_some_and(Saved::has_failed)
            || self.top.as_ref().is_some_and(Top::is_closed)
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn tap(&mut self, name: &str) -> usize {
        Tap::named(&mut self.taps, name, self.config).0
    }

    fn prefetch(&self, taps: &[Option<usize>], packets: &[Option<Classified<'_>>]) {
        Tap::prefetch(&self.taps, taps, packets);
    }

    fn read_packet(
        &mut self,
        at_tap: usize,
        packet: Option<&Classified<'_>>,
        record: &Record<'_>,
        vlan: Option<u16>,
    ) -> bool {
        self.packets += 1;
        self.turn_to(at_tap);
        let tap = &mut self.taps[at_tap];
        let Some(packet) = packet else {
            tap.observer.count_no_ip();
            return false;
        };
        let at = record.at.unwrap_or(tap.last);
        if let Some(interval) = self.interval {
            report_until(tap, at.as_nanos(), interval, &mut self.report);
        }
        tap.last = at;
        let of_flow = tap.observer.count(packet);
        let taken = match of_flow {
            Some(packet) => self.wanted.filter.takes(packet, vlan),
            None => self.wanted.takes_other(record, vlan),
        };
        if !taken {
            return false;
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
        true
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
