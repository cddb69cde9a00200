//! Tables for people.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::line::Line;
use super::{Context, Form, value};
use crate::estimate::{Basis, Estimate, Unit};
use crate::flow::Flow;
use crate::observer::ObserverCounters;
use crate::sample::{Sample, Side};
use crate::spin::SpinClass;
use narrows_wire::Ecn;

/// Decimals of every number that is not whole.
const DECIMALS: usize = 3;

#[derive(Default)]
pub(super) struct Text(Line);

impl Form for Text {
    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        let (value, unit, _) = value(sample);
        let line = &mut self.0;
        line.fixed(on.at.as_secs_f64(), 6, 0);
        // Writing to memory does not fail.
        let _ = write!(line, " {} ", on.names.flow(on.flow));
        line.text(sample.technique.name()).text(" ");
        line.text(sample.quantity.name()).text(" ");
        line.fixed(value, 6, 0).text(" ").text(unit).text("\n");
        line.write(out)
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        let line = &mut self.0;
        title(line, on);
        for side in Side::BOTH {
            counts(line, on.flow, side);
        }
        if !all.is_empty() {
            line.text("  technique       quantity                             value");
            line.text("    95 % interval                   n rejected");
            line.text("        min     median        p95\n");
        }
        for estimate in all {
            row(line, estimate);
        }
        line.text("\n");
        line.write(out)
    }

    fn counters(
        &mut self,
        out: &mut dyn Write,
        tap: &str,
        all: &ObserverCounters,
    ) -> io::Result<()> {
        counters(out, tap, all)
    }
}

/// The counters of a point in a line, those that are not zero.
pub(super) fn counters(
    out: &mut dyn Write,
    tap: &str,
    counters: &ObserverCounters,
) -> io::Result<()> {
    if !tap.is_empty() {
        write!(out, "{tap}: ")?;
    }
    let shown = counters.named();
    let mut shown = shown
        .iter()
        .filter(|(name, count)| *count > 0 || *name == "packets");
    if let Some((name, count)) = shown.next() {
        write!(out, "{name} {count}")?;
    }
    for (name, count) in shown {
        write!(out, ", {} {count}", name.replace('_', " "))?;
    }
    writeln!(out)
}

fn title(line: &mut Line, on: &Context<'_>) {
    let (flow, names) = (on.flow, on.names);
    line.text(flow.protocol_name()).text(" ");
    line.text(&names.end(flow, Side::Initiator));
    line.text(if flow.role_known() { " > " } else { " - " });
    line.text(&names.end(flow, Side::Responder)).text(" ");
    line.text(flow.state().name());
    if !flow.profile().is_none() {
        let _ = write!(line, ", marked {}", flow.profile());
    }
    if flow.spin_class() != SpinClass::Unknown {
        line.text(" (").text(flow.spin_class().name()).text(")");
    }
    let seconds = flow.last_at().since(flow.first_at()).as_secs_f64();
    line.text(", ").fixed(seconds, DECIMALS, 0).text(" s\n");
}

fn counts(line: &mut Line, flow: &Flow, side: Side) {
    line.text("  ").left(side.name(), 10).text(" ");
    line.whole(flow.packets(side), 9).text(" packets ");
    line.whole(flow.bytes(side), 12).text(" bytes ");
    line.whole(u64::from(flow.again(side)), 6).text(" again");
    for (ecn, name) in [
        (Ecn::Ect0, "  ECT(0) "),
        (Ecn::Ect1, "  ECT(1) "),
        (Ecn::Ce, "  CE "),
    ] {
        let count = flow.ecn(side, ecn);
        if count > 0 {
            line.text(name).whole(u64::from(count), 0);
        }
    }
    line.text("\n");
}

fn row(line: &mut Line, e: &Estimate) {
    let (scale, unit) = match e.unit {
        Unit::Ms => (1.0, " ms "),
        Unit::Ratio => (100.0, " %  "),
    };
    line.text("  ").left(e.technique.name(), 15).text(" ");
    line.left(e.quantity.name(), 30).text(" ");
    line.fixed(e.value * scale, DECIMALS, 11).text(unit);
    match e.interval {
        Some(i) => {
            let before = line.len();
            line.fixed(i.low * scale, DECIMALS, 0).text(" .. ");
            line.fixed(i.high * scale, DECIMALS, 0);
            line.pad(before, 23);
        }
        None => {
            line.left("", 23);
        }
    }
    line.text(" ").whole(e.n, 9).text(" ").whole(e.rejected, 8);
    for value in [e.min, e.median, e.p95].into_iter().flatten() {
        line.fixed(value, DECIMALS, 11);
    }
    line.text(match e.basis {
        Basis::Assumed => "  assumed\n",
        Basis::Pinned => "  pinned\n",
        Basis::Measured | Basis::Learnt => "\n",
    });
}
