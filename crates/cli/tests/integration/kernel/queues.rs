//! The queues of a kernel in virtual time against ours: the same arrivals, packet by packet.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use narrows_aqm::replay::{Difference, Known, Open, Recorded, Wire, departures, recording, replay};
use narrows_aqm::{LinkFacts, QueueSpec};
use narrows_units::{Duration, Rate};

use super::{cells_of, has_kernel};

const CAMPAIGN: &str = include_str!("../../../../../catalog/kernel/queues.toml");

/// The link of the campaign, and the bucket in front of which the kernel has its queue: a frame
/// and what 10 µs bring at 10 Mbit/s.
const LINK: LinkFacts = LinkFacts {
    rate: Rate::from_mbit(100_000),
    overhead: 14,
    mtu: 1500,
};
const BUCKET: &str = "tbf rate 10Mbit burst 1526 limit 1Mb";

/// How a queue has to agree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judged {
    /// The same of each packet, once its clock is in step.
    Exactly(Duration),
    /// Counts of drops and of marks, by this part or by this many standard deviations of a
    /// count of rare events.
    Counts(f64, f64),
}

fn judged(queue: &str) -> Judged {
    match queue {
        // Chance decides about single packets: `red_mark_probability`, `pie_drop_early`,
        // `dualpi2_drop`.
        name if ["red", "pie", "fq_pie", "dualpi2"].contains(&name.split('-').next().unwrap()) => {
            Judged::Counts(0.15, 4.0)
        }
        // Chance rounds each flow's quantum (`cake_get_flow_quantum`), which may move a packet
        // before another one.
        name if name.starts_with("cake") => Judged::Counts(0.05, 3.0),
        // The ages of flows are jiffies with the lowest bit set (`fq_flow_set_detached`).
        name if name.starts_with("fq-") || name == "fq" => {
            Judged::Exactly(Duration::from_millis(2))
        }
        _ => Judged::Exactly(Duration::from_nanos(1_024)),
    }
}

/// The queues of the campaign: their names and words.
fn queues() -> Vec<(&'static str, &'static str)> {
    let line = |line: &'static str| {
        let (name, rest) = line.split_once('=')?;
        let (words, _) = rest.trim().strip_prefix("{ words = \"")?.split_once('"')?;
        Some((name.trim(), words))
    };
    CAMPAIGN.lines().filter_map(line).collect()
}

fn capture(cell: &Path, name: &str) -> Vec<Recorded> {
    let path = cell.join("captures").join(format!("{name}.pcapng"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    recording(BufReader::new(file)).expect("a capture")
}

/// How ours differs least, over what a recording leaves open.
fn difference(cell: &Path, words: &str, unit: Duration) -> Difference {
    let spec = QueueSpec::parse(&format!("{BUCKET} queue ({words})")).expect("words");
    let arrivals = capture(cell, "arrivals");
    let seen = departures(&arrivals, &capture(cell, "departures"), Known::ByBytes);
    let mut best: Option<Difference> = None;
    for open in Open::each(2, 32, unit) {
        let ours = replay(&spec, &arrivals, LINK, Wire::Free, open);
        let found = Difference::between(arrivals.len(), [&seen, &ours]);
        let is_exact = found.packets_apart() == 0;
        if best
            .as_ref()
            .is_none_or(|best| found.packets_apart() < best.packets_apart())
        {
            best = Some(found);
        }
        if is_exact {
            break;
        }
    }
    best.expect("a replay")
}

/// The counts of the kernel, and ours in the mean of five seeds.
fn counts(cell: &Path, words: &str) -> [(f64, f64); 2] {
    let spec = QueueSpec::parse(&format!("{BUCKET} queue ({words})")).expect("words");
    let arrivals = capture(cell, "arrivals");
    let seen = departures(&arrivals, &capture(cell, "departures"), Known::ByBytes);
    let each: Vec<_> = Open::each(5, 1, Duration::ZERO)
        .map(|open| {
            let ours = replay(&spec, &arrivals, LINK, Wire::Free, open);
            Difference::between(arrivals.len(), [&seen, &ours])
        })
        .collect();
    let mean = |of: fn(&Difference) -> usize| {
        each.iter().map(|found| of(found) as f64).sum::<f64>() / each.len() as f64
    };
    [
        (
            mean(|found| found.dropped[0]),
            mean(|found| found.dropped[1]),
        ),
        (mean(|found| found.marked[0]), mean(|found| found.marked[1])),
    ]
}

/// What is wrong with a cell, if anything.
fn complaint(cell: &Path, queue: &str, words: &str) -> Option<String> {
    match judged(queue) {
        Judged::Exactly(unit) => {
            let found = difference(cell, words, unit);
            // A microsecond is what a system call may be late by.
            let agrees = found.packets_apart() == 0 && found.apart < Duration::from_micros(2);
            (!agrees || found.packets < 8_000).then(|| format!("{found:?}"))
        }
        Judged::Counts(part, deviations) => {
            let counts = counts(cell, words);
            let is_near = |(theirs, ours): (f64, f64)| {
                let apart = (theirs - ours).abs();
                apart <= part * theirs.max(ours) || apart <= deviations * theirs.max(ours).sqrt()
            };
            (!counts.into_iter().all(is_near)).then(|| format!("{counts:?}"))
        }
    }
}

#[test]
fn each_queue_does_with_each_packet_what_that_of_linux_does() {
    if !has_kernel("queues in a kernel in virtual time") {
        return;
    }
    let (_dir, cells) = cells_of("kernel/queues");
    let mut wrong = Vec::new();
    for (queue, words) in queues() {
        for load in ["light", "heavy"] {
            let cell = cells.join(queue).join(load);
            if let Some(complaint) = complaint(&cell, queue, words) {
                wrong.push(format!("{queue}/{load}: {complaint}"));
            }
        }
    }
    assert!(queues().len() > 40, "queues of the campaign");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
