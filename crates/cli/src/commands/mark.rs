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
    let signals = signals.map_err(|e| {
        let found = format!("`{}`: {e}", args.profile);
        Refusal::new("--profile", found, "signals such as d+q, and their rules")
    })?;
    let duration = args.duration.as_deref().map(|word| {
        let refused = || Refusal::new("--for", format!("`{word}`"), "a time such as 30s");
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
fn run(_: &Mark, request: &Request) -> Outcome {
    let _ = (&request.signals, &request.filter, request.duration);
    Err(narrows::Error::Engine("packets can be marked on Linux only".to_owned()).into())
}

#[cfg(target_os = "linux")]
fn run(args: &Mark, request: &Request) -> Outcome {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use narrows::Error;
    use narrows::signals::DeviceSignals;

    use crate::output::message;

    let failed = |e: &dyn std::fmt::Display| Error::Engine(e.to_string());
    // Before anything is changed: a signal from here on ends it in good order.
    let (stop, stopped) = channel();
    let handler = ctrlc::set_handler(move || {
        // The receiver may be gone already.
        let _ = stop.send(());
    });
    handler.map_err(|e| failed(&format!("signals cannot be waited for: {e}")))?;
    let marks = DeviceSignals::attach(&args.dev, &request.signals, &request.filter.options());
    let marks = marks.map_err(|e| failed(&e))?;
    let by = if marks.is_tcx() { "tcx" } else { "clsact" };
    let until = request
        .duration
        .map_or("until Ctrl-C".to_owned(), |d| format!("for {d}"));
    message!(
        "narrows: marking new connections at {} with `{}` (by {by}), {until}",
        args.dev,
        request.signals
    );
    match request.duration {
        None => {
            let _ = stopped.recv();
        }
        Some(duration) => {
            let duration = std::time::Duration::from_nanos(duration.as_nanos());
            if let Err(RecvTimeoutError::Disconnected) = stopped.recv_timeout(duration) {
                return Err(failed(&"the thread that waits for signals is gone").into());
            }
        }
    }
    let counters = marks.counters().map_err(|e| failed(&e))?;
    drop(marks);
    print_counters(args, request, &counters);
    Ok(crate::status::Status::Done)
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
