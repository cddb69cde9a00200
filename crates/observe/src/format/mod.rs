//! What an observer finds, written down: one module for each format. Their
//! schemas are in the guide's page on observing.

mod brief;
mod csv;
mod headline;
mod json;
mod line;
mod metrics;
mod names;
mod prefix;
mod qlog;
mod spindump;
mod text;

use std::io::{self, Write};

use narrows_units::Instant;

use crate::estimate::Estimate;
use crate::flow::{End, Flow};
use crate::observer::{Observer, ObserverCounters, SampleSink};
use crate::sample::{Measured, Sample};

use metrics::Metrics;
pub use names::Names;
pub use prefix::PrefixLengths;
use prefix::{PrefixRow, Prefixes};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line for each flow, those with the most bytes first, for people.
    Brief,
    /// Tables of estimates, for people.
    Text,
    /// One JSON object a line.
    Json,
    /// The columns of a run's `samples.csv.gz`.
    Csv,
    /// qlog, as a JSON text sequence.
    Qlog,
    /// spindump's JSON records, one a line.
    Spindump,
}

/// Which results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Each sample as it is completed.
    pub samples: bool,
    /// What the samples of a flow amount to, when it ends or a report is due.
    pub estimates: bool,
}

/// One format: what it makes of each event.
trait Form {
    fn head(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    fn began(&mut self, _: &mut dyn Write, _: &Context<'_>) -> io::Result<()> {
        Ok(())
    }
    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()>;
    fn estimates(&mut self, _: &mut dyn Write, _: &Context<'_>, _: &[Estimate]) -> io::Result<()> {
        Ok(())
    }
    fn ended(&mut self, _: &mut dyn Write, _: &Context<'_>, _: End) -> io::Result<()> {
        Ok(())
    }
    /// Writes what was kept back of the flows since the last time: all of an interval that
    /// ended at `at`, or of all.
    fn settle(&mut self, _: &mut dyn Write, _at: Option<Instant>) -> io::Result<()> {
        Ok(())
    }
    fn prefixes(&mut self, _: &mut dyn Write, _tap: &str, _: &[PrefixRow]) -> io::Result<()> {
        Ok(())
    }
    fn counters(&mut self, _: &mut dyn Write, _tap: &str, _: &ObserverCounters) -> io::Result<()> {
        Ok(())
    }
}

/// The flow that something is said of.
struct Context<'a> {
    flow: &'a Flow,
    names: &'a Names,
    tap: &'a str,
    at: Instant,
}

/// Writes results to `W` as an observer finds them. Packets and flows can be
/// any number; what is kept of them is bounded: lines that are written in order, networks,
/// and metrics.
pub struct Report<W: Write> {
    out: W,
    form: Box<dyn Form>,
    rows: Rows,
    names: Names,
    tap: String,
    /// Flows taken together, in place of rows for each.
    prefixes: Option<Prefixes>,
    metrics: Option<Metrics>,
    /// The first thing that went wrong with `out`; nothing is written after it.
    failed: Option<io::Error>,
}

impl<W: Write> std::fmt::Debug for Report<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report")
            .field("tap", &self.tap)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Report<W> {
    /// Starts a report on what was seen at `tap`.
    pub fn new(out: W, format: Format, rows: Rows, names: Names, tap: &str) -> Self {
        let form: Box<dyn Form> = match format {
            Format::Brief => Box::new(brief::Brief::default()),
            Format::Text => Box::new(text::Text::default()),
            Format::Json => Box::new(json::Json),
            Format::Csv => Box::new(csv::Csv::default()),
            Format::Qlog => Box::new(qlog::Qlog),
            Format::Spindump => Box::new(spindump::Spindump),
        };
        let mut report = Self {
            out,
            form,
            rows,
            names,
            tap: tap.to_owned(),
            prefixes: None,
            metrics: None,
            failed: None,
        };
        report.write(|form, out| form.head(out));
        report
    }

    /// Takes flows together by the networks of their ends, and writes what is known of
    /// these at the end, in place of anything about single flows.
    pub fn take_together(&mut self, by: PrefixLengths) {
        self.prefixes = Some(Prefixes::new(by));
    }

    /// Keeps metrics from now on.
    pub fn keep_metrics(&mut self) {
        self.metrics = Some(Metrics::default());
    }

    /// The metrics of all points, each with its name, its counters and how many flows
    /// there are at it now, in Prometheus's text format; empty if none are kept.
    pub fn metrics<'a>(
        &self,
        taps: impl Iterator<Item = (&'a str, &'a ObserverCounters, u64)>,
    ) -> String {
        let metrics = self.metrics.as_ref();
        metrics.map_or(String::new(), |metrics| metrics.text(taps))
    }

    fn write(&mut self, what: impl FnOnce(&mut dyn Form, &mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = what(self.form.as_mut(), &mut self.out).err();
        }
    }

    fn on(
        &mut self,
        flow: &Flow,
        at: Instant,
        what: impl FnOnce(&mut dyn Form, &mut dyn Write, &Context<'_>) -> io::Result<()>,
    ) {
        if self.failed.is_some() || self.prefixes.is_some() {
            return;
        }
        let context = Context {
            flow,
            names: &self.names,
            tap: &self.tap,
            at,
        };
        self.failed = what(self.form.as_mut(), &mut self.out, &context).err();
    }

    /// Writes what is known of a flow at `at`.
    pub fn estimates(&mut self, flow: &Flow, at: Instant) {
        if self.rows.estimates && self.prefixes.is_none() {
            let estimates = Observer::estimates(flow);
            self.on(flow, at, |form, out, on| {
                form.estimates(out, on, &estimates)
            });
        }
    }

    /// Whether writing has failed, as when the reader of a pipe has gone.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// What follows was seen at another point.
    pub fn at_tap(&mut self, tap: &str) {
        tap.clone_into(&mut self.tap);
    }

    /// Writes what passed the observer at this point in all.
    pub fn counters(&mut self, counters: &ObserverCounters) {
        let tap = std::mem::take(&mut self.tap);
        let prefixes = self.prefixes.as_mut();
        let prefixes = prefixes.map(|prefixes| prefixes.rows(&tap, &self.names));
        self.write(|form, out| {
            form.settle(out, None)?;
            form.prefixes(out, &tap, &prefixes.unwrap_or_default())?;
            form.counters(out, &tap, counters)
        });
        self.tap = tap;
    }

    /// Ends a report on the flows that were seen in an interval until `at`, and hands on
    /// what was written so far.
    pub fn settle(&mut self, at: Instant) {
        self.write(|form, out| form.settle(out, Some(at)).and_then(|()| out.flush()));
    }

    /// Ends the report.
    ///
    /// # Errors
    /// The first failure to write, whenever it was.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(|form, out| form.settle(out, None).and_then(|()| out.flush()));
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }
}

impl<W: Write> SampleSink for Report<W> {
    fn began(&mut self, flow: &Flow, at: Instant) {
        self.on(flow, at, |form, out, on| form.began(out, on));
    }

    fn sample(&mut self, flow: &Flow, sample: &Sample) {
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.sample(&self.tap, flow, sample);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.sample(&self.tap, sample);
        }
        if self.rows.samples {
            self.on(flow, sample.at, |form, out, on| {
                form.sample(out, on, sample)
            });
        }
    }

    fn ended(&mut self, flow: &Flow, why: End, at: Instant) {
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.ended(&self.tap, flow);
        }
        self.estimates(flow, at);
        self.on(flow, at, |form, out, on| form.ended(out, on, why));
    }
}

/// A sample as a number and its unit: milliseconds, or the share that was lost.
fn value(sample: &Sample) -> (f64, &'static str, u32) {
    match sample.value {
        Measured::Rtt(rtt) => (rtt.as_millis_f64(), "ms", sample.weight),
        Measured::Block { sent, received } => {
            let lost = 1.0 - f64::from(received) / f64::from(sent.max(1));
            (lost, "ratio", sent)
        }
    }
}

/// The word for why a flow ended.
fn reason(why: End) -> &'static str {
    match why {
        End::Idle => "idle",
        End::Evicted => "evicted",
        End::Reused => "reused",
        End::Finished => "finished",
    }
}
