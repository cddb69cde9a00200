//! One line for each flow, those with the most bytes first, for people.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use narrows_units::Instant;

use super::line::Line;
use super::{Context, Form, PrefixRow, headline, text};
use crate::estimate::{Estimate, Unit};
use crate::observer::ObserverCounters;
use crate::sample::{Quantity, Sample, Side};
use narrows_wire::Ecn;

/// Lines that are kept until they are written; beyond that, flows with fewer bytes only
/// count in the summary. Some 20 MB.
const MOST: usize = 1 << 16;
/// Decimals of round trips.
const DECIMALS: usize = 3;

#[derive(Default)]
pub(super) struct Brief {
    samples: text::Text,
    line: Line,
    /// By bytes, then in the order in which they came.
    flows: BTreeSet<(u64, Reverse<u64>, Row)>,
    sums: Sums,
}

/// What is written of a flow: its prefix, where it was seen, its name.
type Row = (String, String, String);

/// All flows together, those included whose lines are not kept.
#[derive(Default)]
struct Sums {
    flows: u64,
    packets: u64,
    bytes: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Form for Brief {
    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        self.samples.sample(out, on, sample)
    }

    fn estimates(
        &mut self,
        _: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        let flow = on.flow;
        let both = |count: &dyn Fn(Side) -> u64| Side::BOTH.into_iter().map(count).sum::<u64>();
        let bytes = both(&|side| flow.bytes(side));
        let sums = &mut self.sums;
        sums.flows += 1;
        sums.packets += both(&|side| flow.packets(side));
        sums.bytes += bytes;
        sums.first = Some(
            sums.first
                .map_or(flow.first_at(), |at| at.min(flow.first_at())),
        );
        sums.last = sums.last.max(Some(flow.last_at()));
        let line = &mut self.line;
        line.whole(bytes, 12).text(" ");
        line.whole(both(&|side| flow.packets(side)), 9).text(" ");
        line.whole(both(&|side| u64::from(flow.again(side))), 7)
            .text(" ");
        let ce = both(&|side| u64::from(flow.ecn(side, Ecn::Ce)));
        line.whole(ce, 6).text(" ");
        loss(line, all);
        let shown = headline::of(all);
        round_trip(line, shown.map(|shown| shown.estimate));
        let numbers = line.take();
        let mut name = on.names.flow(flow).to_string();
        if !flow.profile().is_none() {
            // Writing to memory does not fail.
            let _ = write!(name, " marked {}", flow.profile());
        }
        if let Some(times) = shown.and_then(|shown| shown.times_handshake) {
            let _ = write!(name, " (rtt {times:.1} times the handshake's)");
        }
        if shown.is_some_and(|shown| shown.may_hold_waits) {
            name.push_str(" (rtt may hold waits of the application)");
        }
        let order = Reverse(sums.flows);
        self.flows
            .insert((bytes, order, (numbers, on.tap.to_owned(), name)));
        if self.flows.len() > MOST {
            self.flows.pop_first();
        }
        Ok(())
    }

    fn settle(&mut self, out: &mut dyn Write, at: Option<Instant>) -> io::Result<()> {
        let (flows, sums) = (
            std::mem::take(&mut self.flows),
            std::mem::take(&mut self.sums),
        );
        if flows.is_empty() {
            return Ok(());
        }
        if let Some(at) = at {
            writeln!(out, "until {:.3} s:", at.as_secs_f64())?;
        }
        out.write_all(
            b"       bytes   packets   again     ce  loss %  rtt_ms min     median        p95\
              \x20      mean  by                   flow\n",
        )?;
        let first = flows.first().map(|(.., (_, tap, _))| tap);
        let several = flows.iter().any(|(.., (_, tap, _))| Some(tap) != first);
        for (.., (numbers, tap, name)) in flows.iter().rev() {
            write!(out, "{numbers}  {name}")?;
            if several && !tap.is_empty() {
                write!(out, " at {tap}")?;
            }
            writeln!(out)?;
        }
        let seconds = match (sums.first, sums.last) {
            (Some(first), Some(last)) => last.since(first).as_secs_f64(),
            _ => 0.0,
        };
        write!(
            out,
            "{} flows, {} packets, {} bytes in {seconds:.3} s",
            sums.flows, sums.packets, sums.bytes
        )?;
        match sums.flows - flows.len() as u64 {
            0 => writeln!(out),
            left => writeln!(out, "; {left} with fewer bytes have no line"),
        }
    }

    fn prefixes(&mut self, out: &mut dyn Write, tap: &str, rows: &[PrefixRow]) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let line = &mut self.line;
        if !tap.is_empty() {
            line.text(tap).text(":\n");
        }
        line.text("  bytes from     bytes to   flows   again  rtt_ms min     median        p95");
        line.text("       mean         n  by          prefix\n");
        for row in rows {
            line.whole(row.bytes_from, 12).text(" ");
            line.whole(row.bytes_to, 12).text(" ");
            line.whole(row.flows, 7).text(" ");
            line.whole(row.again, 7).text(" ");
            match &row.rtt {
                Some(rtt) => {
                    for (value, width) in [
                        (rtt.min_ms, 11),
                        (rtt.median_ms, 10),
                        (rtt.p95_ms, 10),
                        (rtt.mean_ms, 10),
                    ] {
                        line.fixed(value, DECIMALS, width).text(" ");
                    }
                    line.whole(rtt.n, 9).text("  ");
                    line.left(rtt.technique, 10);
                }
                None => {
                    line.left(
                        "          -          -          -          -         0  -",
                        66,
                    );
                }
            }
            line.text("  ").text(&row.prefix).text("\n");
        }
        line.write(out)
    }

    fn counters(
        &mut self,
        out: &mut dyn Write,
        tap: &str,
        counters: &ObserverCounters,
    ) -> io::Result<()> {
        text::counters(out, tap, counters)
    }
}

/// The greatest rate of loss that was estimated, in percent.
fn loss(line: &mut Line, all: &[Estimate]) {
    let of_loss = |e: &&Estimate| {
        e.unit == Unit::Ratio
            && !matches!(
                e.quantity,
                Quantity::UpstreamCe(_) | Quantity::EndToEndCe(_) | Quantity::DownstreamCe(_)
            )
    };
    let rates = all.iter().filter(of_loss).map(|e| e.value);
    match rates.max_by(f64::total_cmp) {
        Some(rate) => line.fixed(100.0 * rate, DECIMALS, 7),
        None => line.text("      -"),
    };
    line.text(" ");
}

/// The round trips of an estimate, and which they are.
fn round_trip(line: &mut Line, shown: Option<&Estimate>) {
    let Some(e) = shown else {
        line.text("          -          -          -          -  -                  ");
        return;
    };
    for (value, width) in [
        (e.min, 11),
        (e.median, 10),
        (e.p95, 10),
        (Some(e.value), 10),
    ] {
        line.fixed(value.unwrap_or(f64::NAN), DECIMALS, width)
            .text(" ");
    }
    let before = line.len();
    line.text(" ")
        .text(e.technique.name())
        .text(match e.quantity {
            Quantity::LeftRtt => " left",
            Quantity::RightRtt => " right",
            _ => " full",
        });
    line.pad(before, 20);
}
