//! CSV with the columns of a run's `samples.csv.gz`. `truth` and `error` are
//! empty: only a laboratory knows them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use super::line::Line;
use super::{Context, Form, value};
use crate::estimate::{Estimate, Unit};
use crate::sample::Sample;

/// Decimals of every value.
const DECIMALS: usize = 6;

#[derive(Default)]
pub(super) struct Csv(Line);

impl Form for Csv {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "t_s,tap,flow,technique,quantity,value,unit,low,high,n,rejected,truth,error"
        )
    }

    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        let (value, unit, n) = value(sample);
        let line = &mut self.0;
        start(line, on);
        line.text(sample.technique.name()).text(",");
        line.text(sample.quantity.name()).text(",");
        line.fixed(value, DECIMALS, 0).text(",").text(unit);
        line.text(",,,").whole(u64::from(n), 0).text(",,,\n");
        line.write(out)
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        let line = &mut self.0;
        for e in all {
            start(line, on);
            line.text(e.technique.name()).text(",");
            line.text(kind(e)).text("_");
            line.text(e.quantity.name()).text(",");
            line.fixed(e.value, DECIMALS, 0).text(",");
            line.text(e.unit.name()).text(",");
            if let Some(i) = e.interval {
                line.fixed(i.low, DECIMALS, 0).text(",");
                line.fixed(i.high, DECIMALS, 0);
            } else {
                line.text(",");
            }
            line.text(",").whole(e.n, 0);
            line.text(",").whole(e.rejected, 0).text(",,\n");
        }
        line.write(out)
    }
}

/// What goes before the quantity of an estimate.
pub(super) fn kind(estimate: &Estimate) -> &'static str {
    match estimate.unit {
        Unit::Ms => "mean",
        Unit::Ratio => "rate",
    }
}

/// The columns up to the flow.
fn start(line: &mut Line, on: &Context<'_>) {
    let at = on.at.as_nanos();
    line.whole(at / 1_000_000_000, 0).text(".");
    line.zeros(at % 1_000_000_000, 9).text(",");
    line.text(&quoted(on.tap)).text(",");
    // Writing to memory does not fail.
    let _ = write!(line, "{},", on.names.flow(on.flow));
}

/// A field that may hold anything.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}
