//! What passed a path, in words.

use narrows::shell::{Closed, ElementTally, Way};

/// The lines printed when the command has ended.
pub fn text(closed: &Closed) -> String {
    let tally = &closed.tally;
    let mut text = String::from("narrows: behind the path\n");
    for (name, way) in [("up", &tally.up), ("down", &tally.down)] {
        text.push_str(&format!("  {name:<5} {}\n", passed(way)));
    }
    for element in &tally.elements {
        text.push_str(&format!("  {}\n", did(element)));
    }
    let late = &closed.lateness;
    if late.count > 0 {
        text.push_str(&format!(
            "  released late by {:.1} us p50, {:.1} us p99\n",
            late.p50_us, late.p99_us
        ));
    }
    text
}

fn passed(way: &Way) -> String {
    let mean = way.mean_mbit().map_or(String::new(), |mbit| {
        let seconds = way.busy.as_nanos() as f64 / 1e9;
        format!(", {mbit:.2} Mbit/s over {seconds:.1} s")
    });
    format!("{} packets, {}{mean}", way.packets, bytes(way.bytes))
}

fn did(element: &ElementTally) -> String {
    let mut facts = Vec::new();
    if let Some(queue) = &element.queue {
        if let Some(share) = queue.utilisation {
            facts.push(format!("used {:.1} %", share * 100.0));
        }
        facts.push(format!(
            "sojourn_ms p50 {:.2}, p99 {:.2}, max {:.2}",
            queue.sojourn_p50_ms, queue.sojourn_p99_ms, queue.sojourn_max_ms
        ));
    }
    if element.marks.total() > 0 {
        facts.push(format!("marked {}", element.marks.text()));
    }
    if element.drops.total() > 0 {
        facts.push(format!("dropped {}", element.drops.text()));
    }
    format!("{}: {}", element.name, facts.join("; "))
}

/// Decimal, as rates are.
fn bytes(n: u64) -> String {
    match n {
        0..10_000 => format!("{n} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}
