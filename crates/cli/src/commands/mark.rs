//! `narrows mark`: measurement signals in the packets of a device.

use narrows::scenario::{Refusal, SignalSpec};
use narrows::signals::SignalFilter;
use narrows::units::{Duration, Value};

use crate::args::Mark;
use crate::status::Outcome;

/// What was asked for.
struct Request {
    signals: SignalSpec,
    filter: SignalFilter,
    duration: Option<Duration>,
}

pub fn mark(args: &Mark) -> Outcome {
    let signals = args.profile.parse::<SignalSpec>();
    let signals = signals.map_err(|e| Refusal::new("--profile", e.found, e.allowed))?;
    let duration = args.duration.as_deref().map(|word| {
        let refused = || {
            let refusal = Refusal::new("--duration", format!("`{word}`"), Duration::ALLOWED);
            match word.parse::<f64>() {
                Ok(_) => refusal.with_help(format!("a unit belongs to it: `{word}s`.")),
                Err(_) => refusal,
            }
        };
        Duration::parse(word).ok_or_else(refused)
    });
    let request = Request {
        signals,
        filter: args.filter.join(" ").parse()?,
        duration: duration.transpose()?,
    };
    run(args, &request)
}

#[cfg(not(target_os = "linux"))]
fn run(args: &Mark, request: &Request) -> Outcome {
    let _ = (
        args.wait,
        &request.signals,
        &request.filter,
        request.duration,
    );
    Err(narrows::Error::Engine("packets can be marked on Linux only".to_owned()).into())
}

#[cfg(target_os = "linux")]
fn run(args: &Mark, request: &Request) -> Outcome {
    use std::sync::mpsc::RecvTimeoutError;
    use std::time;

    use narrows::Error;
    use narrows::signals::{DeviceSignals, SignalCounters};

    use super::device_events::{DeviceEvent, device_events, ends_without};
    use crate::output::message;
    use crate::status::Status;

    let failed = |e: &dyn std::fmt::Display| Error::Engine(e.to_string());
    let (_stop, events) = device_events(&args.dev, args.wait)?;
    let until = request
        .duration
        .map_or("until Ctrl-C".to_owned(), |d| format!("for {d}"));
    let end = request
        .duration
        .map(|d| time::Instant::now() + time::Duration::from_nanos(d.as_nanos()));
    let mut marks: Option<DeviceSignals> = None;
    // Of devices that were there before.
    let mut counted = SignalCounters::default();
    let mut status = Status::Done;
    loop {
        let left = end.map(|end| end.saturating_duration_since(time::Instant::now()));
        let event = match left {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => events.recv_timeout(left),
        };
        match event {
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed(&"the thread that waits for signals is gone").into());
            }
            Ok(event) => match event? {
                DeviceEvent::Stop => break,
                DeviceEvent::There(_) => {
                    let options = request.filter.options();
                    let new = DeviceSignals::attach(&args.dev, &request.signals, &options);
                    let new = new.map_err(|e| match e.is_of_rights() {
                        true => Error::NoPermission(e.to_string()),
                        false => failed(&e),
                    })?;
                    let by = if new.is_tcx() { "tcx" } else { "clsact" };
                    marks = Some(new);
                    message!(
                        "narrows: marking new connections at {} with `{}` (by {by}), {until}",
                        args.dev,
                        request.signals
                    );
                }
                DeviceEvent::Gone => {
                    if let Some(marks) = marks.take() {
                        counted += marks.counters().map_err(|e| failed(&e))?;
                    }
                    if !args.wait {
                        status = ends_without(&args.dev, "nothing is marked any more");
                        break;
                    }
                    message!(
                        "narrows: {} is gone: nothing is marked until it returns",
                        args.dev
                    );
                }
            },
        }
    }
    if let Some(marks) = marks {
        counted += marks.counters().map_err(|e| failed(&e))?;
    }
    print_counters(args, request, &counted);
    Ok(status)
}

#[cfg(target_os = "linux")]
fn print_counters(args: &Mark, request: &Request, counters: &narrows::signals::SignalCounters) {
    use crate::args::Format;
    use crate::output::{print, print_json};

    let c = counters;
    let set = c.signals().map(|(s, n)| (s.word().to_owned(), n));
    let set: Vec<(String, u64)> = set.collect();
    if args.format == Format::Json {
        let set: serde_json::Map<_, _> = set.into_iter().map(|(s, n)| (s, n.into())).collect();
        print_json(&serde_json::json!({
            "device": args.dev,
            "profile": request.signals.to_string(),
            "connections": c.flows,
            "evicted": c.evicted,
            "announced": c.announced,
            "marked": c.marked,
            "set": set,
            "unmarked": {
                "segments": c.segments,
                "segmented": c.segmented,
                "refused": c.refused,
                "without_socket": c.without_socket,
                "passed_over": c.passed_over,
                "other": c.other,
            },
        }));
        return;
    }
    let mut text = format!(
        "connections  {} ({} forgotten for want of room)\n\
         SYNs         {} announced\n\
         packets      {} marked\n",
        c.flows, c.evicted, c.announced, c.marked
    );
    for (signal, n) in set {
        text.push_str(&format!("  {signal:<10} set in {n}\n"));
    }
    text.push_str(&format!(
        "unmarked     {} packets on the wire, in {} that the device cut\n",
        c.segments, c.segmented
    ));
    for (n, what) in [
        (c.refused, "that could not be changed"),
        (c.without_socket, "SYNs that no socket here sent"),
        (c.passed_over, "of connections that are not marked"),
        (c.other, "that are no TCP, or fragments"),
    ] {
        if n > 0 {
            text.push_str(&format!("             {n} {what}\n"));
        }
    }
    print(&text);
}
