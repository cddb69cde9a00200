//! `narrows observe`: what packets of others show.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use narrows_lab::LabError;
use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Config, Filter, Mode, Observer, Pinned};
use narrows_scenario::Refusal;
use narrows_units::{Duration, Instant, Value};
use narrows_wire::capture::{CaptureError, CaptureReader};
use narrows_wire::efm::Profile;

use crate::args::{Observe, ObserveFormat, ObserveMode, ObserveRows};
use crate::status::{Outcome, Status};

/// Bytes of a capture that are read at a time.
const READ_AHEAD: usize = 1 << 20;

pub fn observe(args: &Observe) -> Outcome {
    let config = config(args)?;
    let filter = filter(&args.filter)?;
    let interval = args
        .interval
        .as_deref()
        .map(|w| time("--interval", w))
        .transpose()?;
    if args.read.is_empty() {
        let refusal = Refusal::new("observe", "nothing to read", "-r FILE");
        return Err(refusal
            .with_help("for instance: narrows observe -r capture.pcapng")
            .into());
    }
    let (format, rows) = form(args);
    let out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let report = Report::new(out, format, rows, names(args), "");
    let mut watch = Watch {
        config,
        filter,
        interval: interval.map(Duration::as_nanos),
        taps: Vec::new(),
        current: usize::MAX,
        report,
        packets: 0,
    };
    let mut status = Status::Done;
    for path in &args.read {
        status = status.and(watch.read(path)?);
    }
    // A reader that has gone (`| head`) is no error of ours.
    let _ = watch.finish();
    Ok(status)
}

/// An observer at one point.
struct Tap {
    name: String,
    observer: Observer,
    /// When the next report is due.
    due: Option<u64>,
    /// When the last packet passed.
    last: Instant,
}

/// All points of the captures that are read, and what is written about them.
struct Watch<W: Write> {
    config: Config,
    filter: Filter,
    interval: Option<u64>,
    taps: Vec<Tap>,
    current: usize,
    report: Report<W>,
    packets: u64,
}

impl<W: Write> Watch<W> {
    /// The tap with this name. Interfaces of the same name in several files
    /// are one point: a capture may be rotated.
    fn tap(&mut self, name: &str) -> usize {
        if let Some(at) = self.taps.iter().position(|t| t.name == name) {
            return at;
        }
        self.taps.push(Tap {
            name: name.to_owned(),
            observer: Observer::new(self.config),
            due: None,
            last: Instant::from_nanos(0),
        });
        self.taps.len() - 1
    }

    fn read(&mut self, path: &Path) -> Result<Status, LabError> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            let file = File::open(path).map_err(|source| LabError::Io {
                verb: "read",
                path: path.to_path_buf(),
                source,
            })?;
            Box::new(file)
        };
        let wrong = |error: CaptureError| LabError::Content {
            path: path.to_path_buf(),
            what: error.to_string(),
        };
        let input = BufReader::with_capacity(READ_AHEAD, input);
        let mut capture = CaptureReader::new(input).map_err(wrong)?;
        // The tap of each interface of this file.
        let mut taps: Vec<Option<usize>> = Vec::new();
        loop {
            let record = match capture.read() {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(Status::Done),
                Err(error) => {
                    let path = path.display();
                    eprintln!("narrows: {path}: {error}; what came before it is counted");
                    let cut = matches!(error, CaptureError::Truncated);
                    return Ok(if cut { Status::Done } else { Status::Failed });
                }
            };
            if taps.len() <= record.interface {
                taps.resize(record.interface + 1, None);
            }
            let tap = match taps[record.interface] {
                Some(tap) => tap,
                None => *taps[record.interface].insert(self.tap(record.interface_name)),
            };
            self.packet(tap, record.ip_packet(), record.at, record.id);
            if self.report.has_failed() {
                return Ok(Status::Done);
            }
        }
    }

    /// A packet at a tap: observes it if the filter takes it.
    fn packet(&mut self, tap: usize, packet: Option<&[u8]>, at: Option<Instant>, id: Option<u64>) {
        self.packets += 1;
        self.turn_to(tap);
        let tap = &mut self.taps[tap];
        let Some(packet) = packet else {
            tap.observer.count_no_ip();
            return;
        };
        let at = at.unwrap_or(tap.last);
        if let Some(interval) = self.interval {
            report_until(tap, at.as_nanos(), interval, &mut self.report);
        }
        tap.last = at;
        if let Some(packet) = tap.observer.classify(packet) {
            if self.filter.takes(&packet) {
                // Frames are numbered from 1, as other tools number them.
                let id = id.unwrap_or(self.packets);
                tap.observer.take(&packet, at, id, &mut self.report);
            }
        }
    }

    fn turn_to(&mut self, tap: usize) {
        if self.current != tap {
            self.current = tap;
            self.report.at_tap(&self.taps[tap].name);
        }
    }

    fn finish(mut self) -> std::io::Result<()> {
        for at in 0..self.taps.len() {
            self.turn_to(at);
            let tap = &mut self.taps[at];
            tap.observer.finish(&mut self.report);
        }
        for at in 0..self.taps.len() {
            self.turn_to(at);
            self.report.counters(self.taps[at].observer.counters());
        }
        self.report.finish().map(|_| ())
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
    report.flush();
    // Intervals in which nothing passed have no report.
    let steps = (at - due) / interval + 1;
    tap.due = Some(due.saturating_add(steps.saturating_mul(interval)));
}

fn form(args: &Observe) -> (Format, Rows) {
    let format = match args.format {
        ObserveFormat::Text => Format::Text,
        ObserveFormat::Json => Format::Json,
        ObserveFormat::Csv => Format::Csv,
        ObserveFormat::Qlog => Format::Qlog,
        ObserveFormat::Spindump => Format::Spindump,
    };
    let default = match args.format {
        ObserveFormat::Text => ObserveRows::Estimates,
        _ => ObserveRows::All,
    };
    let rows = args.rows.unwrap_or(default);
    let rows = Rows {
        samples: matches!(rows, ObserveRows::Samples | ObserveRows::All),
        estimates: matches!(rows, ObserveRows::Estimates | ObserveRows::All),
    };
    (format, rows)
}

/// How addresses are called.
fn names(args: &Observe) -> Names {
    match (&args.anonymize_key, args.anonymize) {
        (Some(word), _) => Names::anonymous(narrows_units::stable_hash(0, word.as_bytes())),
        (None, true) => Names::anonymous(random()),
        (None, false) => Names::open(),
    }
}

/// A number that nobody can guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn config(args: &Observe) -> Result<Config, Refusal> {
    let profile = args.profile.as_deref();
    let profile = profile
        .map(|word| parse::<Profile>("--profile", word))
        .transpose()?;
    let t_max = args
        .t_max
        .as_deref()
        .map(|w| time("--t-max", w))
        .transpose()?;
    Ok(Config {
        max_flows: args.max_flows,
        idle: time("--idle", &args.idle)?,
        mode: match args.mode {
            ObserveMode::Rfc => Mode::Rfc,
            ObserveMode::Thesis => Mode::Thesis,
        },
        profile,
        negotiated: args.negotiated,
        pinned: Pinned {
            t_max,
            block: args.block,
            reordering: args.reordering,
        },
        seed: random(),
    })
}

fn filter(words: &[String]) -> Result<Filter, Refusal> {
    words
        .join(" ")
        .parse()
        .map_err(|error: narrows_units::WordError| {
            Refusal::new("filter", &error.found, &error.allowed)
        })
}

fn parse<T: Value>(option: &str, word: &str) -> Result<T, Refusal> {
    T::parse(word).ok_or_else(|| Refusal::new(option, format!("`{word}`"), T::ALLOWED))
}

/// A time above zero.
fn time(option: &str, word: &str) -> Result<Duration, Refusal> {
    let time: Duration = parse(option, word)?;
    if time.is_zero() {
        return Err(Refusal::new(option, format!("`{word}`"), "more than zero"));
    }
    Ok(time)
}
