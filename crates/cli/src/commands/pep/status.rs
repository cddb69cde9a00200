//! `narrows pep status`.

use std::fmt::Write;

use narrows::pep;

use crate::args::{Format, PepStatus};
use crate::output::{message, print, print_json};
use crate::status::{Outcome, Status};

pub fn status(args: &PepStatus) -> Outcome {
    match pep::status(&args.socket) {
        Ok(status) if args.format == Format::Json => match serde_json::to_value(&status) {
            Ok(value) => print_json(&value),
            Err(error) => {
                message!("narrows: {error}");
                return Ok(Status::Failed);
            }
        },
        Ok(status) => print(&page(&status)),
        Err(error) => {
            message!("narrows: {error}");
            return Ok(Status::Failed);
        }
    }
    Ok(Status::Done)
}

/// For people.
fn page(status: &pep::Status) -> String {
    let state = if status.draining { "draining" } else { "up" };
    let counters = &status.counters;
    let mut page = format!(
        "narrows {} (process {}), {state} for {:.0} s, at {}\n\
         tunnels   {} now, of {} clients; {} opened, {} closed, {} broken, {} refused\n\
         reset     {} not admitted, {} over their client's limit, {} over all limits\n\
         time-outs {} of requests, {} of names, {} of connections, {} of idle tunnels\n\
         waiting   {} of {}; in the kernel's buffers {}, of {} together\n\
         relayed   {} up, {} down\n",
        status.version,
        status.pid,
        status.uptime_s,
        status.listeners.join(", "),
        status.tunnels,
        status.clients,
        counters.opened,
        counters.closed,
        counters.broken,
        counters.refused,
        counters.denied,
        counters.over_client,
        counters.over_tunnels,
        counters.request_timeouts,
        counters.name_timeouts,
        counters.connect_timeouts,
        counters.idle_timeouts,
        size(status.backlog_bytes),
        size(status.budget_bytes),
        size(status.kernel_bytes),
        size(status.memory_bytes),
        size(counters.bytes_up),
        size(counters.bytes_down),
    );
    // Writing to a string does not fail.
    if counters.names > 0 {
        let _ = writeln!(
            page,
            "names     {} waiting, {} being found; {} asked for, {} refused for want of room",
            status.names_waiting, status.names_running, counters.names, counters.names_refused
        );
    }
    if counters.direct > 0 {
        let _ = writeln!(page, "directly  {} without their proxy", counters.direct);
    }
    if status.threads.len() > 1 {
        let each: Vec<_> = status.threads.iter().map(u64::to_string).collect();
        let count = each.len();
        let _ = writeln!(page, "threads   {count}, with {} tunnels", each.join(", "));
    }
    for tunnel in &status.largest {
        let to = tunnel.destination.as_deref().unwrap_or("(asking)");
        let _ = writeln!(
            page,
            "  {} -> {to}: {} up, {} down, {} waiting, {:.0} s old, {:.0} s idle{}",
            tunnel.client,
            size(tunnel.bytes_up),
            size(tunnel.bytes_down),
            size(tunnel.backlog_up_bytes + tunnel.backlog_down_bytes),
            tunnel.age_s,
            tunnel.idle_s,
            if tunnel.open { "" } else { ", not open yet" },
        );
    }
    page
}

/// A size in the units of IEC 80000-13, which are not mistaken for rates as tc's `Mb` is.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let scaled = |power: &usize| bytes >> (10 * power) > 0;
    let power = (0..UNITS.len()).rev().find(scaled).unwrap_or(0);
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    let digits = usize::from(power > 0 && value < 100.0);
    let value = format!("{value:.digits$}");
    format!("{} {}", value.trim_end_matches(".0"), UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_there_is_and_what_waits() {
        let status = pep::Status {
            tunnels: 1,
            backlog_bytes: 1 << 20,
            budget_bytes: 1 << 30,
            largest: vec![pep::TunnelStatus {
                client: "10.0.0.1:4000".to_owned(),
                destination: None,
                open: false,
                age_s: 1.0,
                idle_s: 0.0,
                bytes_up: 0,
                bytes_down: 0,
                backlog_up_bytes: 1 << 20,
                backlog_down_bytes: 0,
            }],
            ..pep::Status::default()
        };
        let page = page(&status);
        for part in [
            "waiting   1 MiB of 1 GiB",
            "10.0.0.1:4000 -> (asking)",
            "not open yet",
        ] {
            assert!(page.contains(part), "{page}");
        }
        assert!(!page.contains("directly"), "{page}");
        assert!(!page.contains("threads"), "{page}");
    }

    #[test]
    fn sizes_are_those_of_bytes() {
        for (bytes, said) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (128 << 20, "128 MiB"),
            (4 << 30, "4 GiB"),
            ((4 << 30) + (700 << 20), "4.7 GiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }

    #[test]
    fn where_there_are_several_threads_a_page_says_what_each_serves() {
        let status = pep::Status {
            threads: vec![3, 4],
            ..pep::Status::default()
        };
        let page = page(&status);
        assert!(page.contains("threads   2, with 3, 4 tunnels\n"), "{page}");
    }
}
