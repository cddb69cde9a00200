//! `narrows observe`: what packets of others show.

mod top;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufWriter, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use narrows::Error;
use narrows::observe::format::{Format, Names, PrefixLengths, Report, Rows};
use narrows::observe::{
    CaptureRead, Exposed, Filter, Observation, ObserverConfig, ObserverMode, Pinned, Profile,
    Saved, Wanted,
};
use narrows::scenario::Refusal;
use narrows::units::{Duration, Value, WordError};
use top::Top;

use crate::args::{Observe, ObserveFormat, ObserveMode, ObserveRows};
use crate::output::{Stdout, message};
use crate::progress;
use crate::status::{Outcome, Status};

pub fn observe(args: &Observe) -> Outcome {
    let config = config(args)?;
    let (files, words) = files_and_filter(args);
    let wanted = Wanted {
        filter: filter(words)?,
        inner: args.inner,
    };
    let interval = optional_time("--interval", args.interval.as_deref())?;
    let duration = optional_time("--duration", args.duration.as_deref())?;
    if files.is_empty() && args.interfaces.is_empty() {
        let allowed = "a capture, or -i DEVICE for what passes a device";
        let refusal = Refusal::new("observe", "nothing to observe", allowed);
        return Err(refusal
            .with_help("for instance: narrows observe capture.pcapng tcp port 443")
            .into());
    }
    let saved = args.write.as_deref();
    let saved = saved.map(|path| save(path, &files)).transpose()?;
    let by_prefix = args.by_prefix.as_deref();
    let by_prefix = by_prefix
        .map(|w| prefix_lengths(w, args.format))
        .transpose()?;
    let exposed = args.prometheus.as_deref();
    let exposed = exposed.map(expose).transpose()?;
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
        None => Box::new(Stdout::lock()),
    };
    let out = BufWriter::with_capacity(1 << 16, out);
    let mut report = Report::new(out, format, rows, names, "");
    if let Some(by) = by_prefix {
        report.take_together(by);
    }
    let mut watch = Observation::new(config, wanted, interval, report);
    watch.stop_after(args.count);
    watch.save(saved);
    watch.expose(exposed);
    watch.show(top.map(Top::into_view));
    let stop = progress::cancel_flag();
    let mut status = Status::Done;
    for path in &files {
        if watch.is_over() || stop.load(Ordering::Relaxed) {
            break;
        }
        status = status.and(said(path, watch.read(path, stop)?));
    }
    if !args.interfaces.is_empty() {
        let gone = watch_devices(args, &mut watch, duration)?;
        // A table on the screen is gone by then.
        watch.finish()?;
        if let Some(device) = gone {
            message!(
                "narrows: {device} was deleted, or moved to another network namespace: what was seen \
                 until then is counted"
            );
            status = status.and(Status::Failed);
        }
        return Ok(status);
    }
    watch.finish()?;
    Ok(status)
}

/// The captures to read, and the words of the filter: where neither -r nor -i says what to
/// observe, captures come first.
fn files_and_filter(args: &Observe) -> (Vec<PathBuf>, &[String]) {
    if !args.read.is_empty() || !args.interfaces.is_empty() {
        return (args.read.clone(), &args.words);
    }
    let files = args.words.iter().take_while(|word| !Filter::begins(word));
    let files: Vec<PathBuf> = files.map(PathBuf::from).collect();
    let words = &args.words[files.len()..];
    (files, words)
}

#[cfg(target_os = "linux")]
fn watch_devices<W: Write>(
    args: &Observe,
    watch: &mut Observation<W>,
    duration: Option<Duration>,
) -> Result<Option<String>, Error> {
    let begun = || {
        if !args.top {
            let until = duration.map_or("until Ctrl-C".to_owned(), |d| format!("for {d}"));
            message!("narrows: observing {}, {until}", args.interfaces.join(", "));
        }
    };
    let stop = progress::cancel_flag();
    watch.watch(&args.interfaces, args.promiscuous, duration, stop, begun)
}

#[cfg(not(target_os = "linux"))]
fn watch_devices<W: Write>(
    _: &Observe,
    _: &mut Observation<W>,
    _: Option<Duration>,
) -> Result<Option<String>, Error> {
    let what = "devices can be watched on Linux only; capture with tcpdump and read with -r";
    Err(Error::Refused(what.to_owned()))
}

/// Says what of a capture was not read, and how its reading ended.
fn said(path: &Path, read: CaptureRead) -> Status {
    let path = path.display();
    for unread in &read.unread {
        message!("narrows: {path}: {unread}");
    }
    if let Some(error) = &read.error {
        message!("narrows: {path}: {error}; what came before it is counted");
    }
    match (read.interrupted, read.failed()) {
        (true, _) => Status::Interrupted,
        (false, true) => Status::Failed,
        (false, false) => Status::Done,
    }
}

fn save(path: &Path, read: &[PathBuf]) -> Result<Saved, Error> {
    Saved::create(path, read).map_err(|error| match error {
        Error::Refused(why) => Error::Refused(format!("-w: {why}")),
        error => error,
    })
}

/// Answers with metrics at `address`, a port or an address with one; a port alone is one
/// of loopback.
fn expose(address: &str) -> Result<Exposed, Refusal> {
    let refused = |found: String| {
        let allowed = "a free port such as 9101, or an address with one such as [::]:9101";
        Refusal::new("--prometheus", found, allowed)
    };
    let known = match address.parse::<u16>() {
        Ok(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => address
            .to_socket_addrs()
            .ok()
            .and_then(|mut all| all.next()),
    };
    let known = known.ok_or_else(|| refused(format!("`{address}`")))?;
    let exposed = Exposed::listen(known).map_err(|e| refused(format!("`{address}`: {e}")))?;
    message!("narrows: metrics at http://{}/metrics", exposed.address());
    Ok(exposed)
}

fn form(args: &Observe) -> (Format, Rows) {
    let format = match args.format {
        ObserveFormat::Text if args.verbose => Format::Text,
        ObserveFormat::Text => Format::Brief,
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

/// The lengths of prefixes, for IPv4 and, after a comma, for IPv6.
fn prefix_lengths(words: &str, format: ObserveFormat) -> Result<PrefixLengths, Refusal> {
    /// A site's network, as it is mostly given out (RFC 6177 §2).
    const SITE: u8 = 48;
    if !matches!(format, ObserveFormat::Text | ObserveFormat::Json) {
        let found = "a format that has no rows for networks";
        return Err(Refusal::new("--by-prefix", found, "--format text or json"));
    }
    let (v4, v6) = match words.split_once(',') {
        Some((v4, v6)) => (v4.parse().ok(), v6.parse().ok()),
        None => (words.parse().ok(), Some(SITE)),
    };
    match (v4, v6) {
        (Some(v4 @ 0..=32), Some(v6 @ 0..=128)) => Ok(PrefixLengths { v4, v6 }),
        _ => {
            let allowed =
                "a length from 0 to 32, and after a comma one from 0 to 128, such as 24,48";
            Err(Refusal::new("--by-prefix", format!("`{words}`"), allowed))
        }
    }
}

/// How addresses are called.
fn names(args: &Observe) -> Names {
    match (&args.anonymize_key, args.anonymize) {
        (Some(word), _) => Names::anonymous(word.as_bytes()),
        (None, true) => Names::anonymous(&[random(), random()].map(u64::to_ne_bytes).concat()),
        (None, false) => Names::open(),
    }
}

/// An unpredictable number.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn config(args: &Observe) -> Result<ObserverConfig, Refusal> {
    let profile = args.profile.as_deref();
    let profile = profile
        .map(|word| parse::<Profile>("--profile", word))
        .transpose()?;
    let t_max = optional_time("--t-max", args.t_max.as_deref())?;
    Ok(ObserverConfig {
        max_flows: args.max_flows,
        idle: time("--idle", &args.idle)?,
        mode: match args.mode {
            ObserveMode::Rfc => ObserverMode::Rfc,
            ObserveMode::Thesis => ObserverMode::Thesis,
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
        .map_err(|error: WordError| Refusal::new("filter", &error.found, &error.allowed))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        for address in ["", "70000", "192.0.2.1:1"] {
            assert!(expose(address).is_err(), "{address}");
        }
    }
}
