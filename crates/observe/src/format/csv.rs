//! CSV with the columns of a run's `samples.csv.gz`. `truth` and `error` are
//! empty: only a laboratory knows them.

use std::io::{self, Write};

use super::{Context, Form, value};
use crate::estimate::{Estimate, Unit};
use crate::sample::Sample;

pub(super) struct Csv;

impl Form for Csv {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "t_s,tap,flow,technique,quantity,value,unit,low,high,n,rejected,truth,error"
        )
    }

    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        let (value, unit, n) = value(sample);
        start(out, on)?;
        let (technique, quantity) = (sample.technique.name(), sample.quantity.name());
        writeln!(out, "{technique},{quantity},{value:.6},{unit},,,{n},,,")
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        for e in all {
            start(out, on)?;
            let (technique, kind, quantity) = (e.technique.name(), kind(e), e.quantity.name());
            write!(
                out,
                "{technique},{kind}_{quantity},{:.6},{},",
                e.value,
                e.unit.name()
            )?;
            match e.interval {
                Some(i) => write!(out, "{:.6},{:.6}", i.low, i.high)?,
                None => write!(out, ",")?,
            }
            writeln!(out, ",{},{},,", e.n, e.rejected)?;
        }
        Ok(())
    }
}

/// What goes before the quantity of an estimate.
pub(super) fn kind(estimate: &Estimate) -> &'static str {
    match estimate.unit {
        Unit::Ms => "mean",
        Unit::Ratio => "rate",
    }
}

fn start(out: &mut dyn Write, on: &Context<'_>) -> io::Result<()> {
    let (at, flow) = (on.at.as_nanos(), on.names.flow(on.flow));
    let (s, ns) = (at / 1_000_000_000, at % 1_000_000_000);
    write!(out, "{s}.{ns:09},{},{flow},", quoted(on.tap))
}

/// A field that may hold anything.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
