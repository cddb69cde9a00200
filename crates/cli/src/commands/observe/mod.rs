//! `narrows observe`: what packets of others show.

#[cfg(target_os = "linux")]
mod live;
mod read;
mod top;
mod watch;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufWriter, Write};
use std::sync::atomic::Ordering;

use narrows_observe::format::{Format, Names, Report, Rows};
use narrows_observe::{Config, Filter, Mode, Pinned};
use narrows_scenario::Refusal;
use narrows_units::{Duration, Value};
use narrows_wire::efm::Profile;

use crate::args::{Observe, ObserveFormat, ObserveMode, ObserveRows};
use crate::progress;
use crate::status::{Outcome, Status};
use read::Takes;
use top::Top;
use watch::Watch;

pub fn observe(args: &Observe) -> Outcome {
    let config = config(args)?;
    let filter = filter(&args.filter)?;
    let interval = optional_time("--interval", args.interval.as_deref())?;
    let duration = optional_time("--duration", args.duration.as_deref())?;
    if args.read.is_empty() && args.interfaces.is_empty() {
        let allowed = "-i DEVICE for what passes a device, or -r FILE for a capture";
        let refusal = Refusal::new("observe", "nothing to observe", allowed);
        return Err(refusal
            .with_help("for instance: narrows observe -r capture.pcapng")
            .into());
    }
    let names = names(args);
    let top = if args.top {
        let title = match args.interfaces.as_slice() {
            [] => "captures".to_owned(),
            names => names.join(", "),
        };
        Some(Top::start(&title, names)?)
    } else {
        None
    };
    let (format, rows) = form(args);
    // Where a table is on the screen, nothing else may write to it.
    let out: Box<dyn Write> = match top {
        Some(_) => Box::new(std::io::sink()),
        None => Box::new(std::io::stdout().lock()),
    };
    let out = BufWriter::with_capacity(1 << 16, out);
    let report = Report::new(out, format, rows, names, "");
    let mut watch = Watch::new(config, filter, interval, report);
    watch.stop_after(args.count);
    watch.show(top);
    let stop = progress::cancel_flag();
    let mut status = Status::Done;
    for path in &args.read {
        if watch.is_over() || stop.load(Ordering::Relaxed) {
            break;
        }
        status = status.and(watch.read(path, stop)?);
    }
    if !args.interfaces.is_empty() {
        watch_devices(args, &mut watch, duration)?;
    }
    // A reader that has gone (`| head`) is no error of ours.
    let _ = watch.finish();
    Ok(status)
}

#[cfg(target_os = "linux")]
fn watch_devices<W: Write>(
    args: &Observe,
    watch: &mut Watch<W>,
    duration: Option<Duration>,
) -> Result<(), narrows_lab::LabError> {
    live::watch(args, watch, duration, progress::cancel_flag())
}

#[cfg(not(target_os = "linux"))]
fn watch_devices<W: Write>(
    _: &Observe,
    _: &mut Watch<W>,
    _: Option<Duration>,
) -> Result<(), narrows_lab::LabError> {
    let what = "devices can be watched on Linux only; capture with tcpdump and read with -r";
    Err(narrows_lab::LabError::Refused(what.to_owned()))
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
        (Some(word), _) => Names::anonymous(word.as_bytes()),
        (None, true) => Names::anonymous(&[random(), random()].map(u64::to_ne_bytes).concat()),
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
    let t_max = optional_time("--t-max", args.t_max.as_deref())?;
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

fn optional_time(option: &str, word: Option<&str>) -> Result<Option<Duration>, Refusal> {
    word.map(|w| time(option, w)).transpose()
}
