//! Tables for people.

use std::io::{self, Write};

use super::{Context, Form, value};
use crate::estimate::{Basis, Estimate, Unit};
use crate::observer::Counters;
use crate::sample::{Sample, Side};
use crate::spin::SpinClass;
use narrows_wire::Ecn;

pub(super) struct Text;

impl Form for Text {
    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        let (value, unit, _) = value(sample);
        let (at, flow) = (on.at.as_secs_f64(), on.names.flow(on.flow));
        let (technique, quantity) = (sample.technique.name(), sample.quantity.name());
        writeln!(
            out,
            "{at:.6} {flow} {technique} {quantity} {value:.6} {unit}"
        )
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        let flow = on.flow;
        let (names, state) = (on.names, flow.state().name());
        let (from, to) = (
            names.end(flow, Side::Initiator),
            names.end(flow, Side::Responder),
        );
        let arrow = if flow.role_known() { ">" } else { "-" };
        let protocol = flow.protocol_name();
        write!(out, "{protocol} {from} {arrow} {to} {state}")?;
        if !flow.profile().is_none() {
            write!(out, ", marked {}", flow.profile())?;
        }
        if flow.spin_class() != SpinClass::Unknown {
            write!(out, " ({})", flow.spin_class().name())?;
        }
        let seconds = flow.last_at().since(flow.first_at()).as_secs_f64();
        writeln!(out, ", {seconds:.3} s")?;
        for side in Side::BOTH {
            write!(
                out,
                "  {:<10} {:>9} packets {:>12} bytes {:>6} again",
                side.name(),
                flow.packets(side),
                flow.bytes(side),
                flow.again(side)
            )?;
            for (ecn, name) in [
                (Ecn::Ect0, "ECT(0)"),
                (Ecn::Ect1, "ECT(1)"),
                (Ecn::Ce, "CE"),
            ] {
                if flow.ecn(side, ecn) > 0 {
                    write!(out, "  {name} {}", flow.ecn(side, ecn))?;
                }
            }
            writeln!(out)?;
        }
        if !all.is_empty() {
            writeln!(
                out,
                "  {:<15} {:<30} {:>11}    {:<23} {:>9} {:>8}",
                "technique", "quantity", "value", "95 % interval", "n", "rejected"
            )?;
        }
        for e in all {
            let (scale, unit) = match e.unit {
                Unit::Ms => (1.0, "ms"),
                Unit::Ratio => (100.0, "%"),
            };
            let interval = e.interval.map_or_else(String::new, |i| {
                format!("{:.3} .. {:.3}", i.low * scale, i.high * scale)
            });
            let basis = match e.basis {
                Basis::Assumed => "  assumed",
                Basis::Pinned => "  pinned",
                Basis::Measured | Basis::Learnt => "",
            };
            writeln!(
                out,
                "  {:<15} {:<30} {:>11.3} {unit:<2} {interval:<23} {:>9} {:>8}{basis}",
                e.technique.name(),
                e.quantity.name(),
                e.value * scale,
                e.n,
                e.rejected
            )?;
        }
        writeln!(out)
    }

    fn counters(&mut self, out: &mut dyn Write, tap: &str, counters: &Counters) -> io::Result<()> {
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
}
