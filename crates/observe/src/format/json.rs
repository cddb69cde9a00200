//! One JSON object a line.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Context, Form, reason, value};
use crate::estimate::Estimate;
use crate::flow::{End, Flow};
use crate::observer::Counters;
use crate::sample::{Sample, Side};
use narrows_wire::Ecn;

pub(super) struct Json;

impl Form for Json {
    fn began(&mut self, out: &mut dyn Write, on: &Context<'_>) -> io::Result<()> {
        let flow = on.flow;
        let (initiator, responder) = (
            on.names.end(flow, Side::Initiator),
            on.names.end(flow, Side::Responder),
        );
        line(
            out,
            on,
            "flow",
            json!({
                "protocol": flow.protocol_name(),
                "initiator": initiator,
                "responder": responder,
                "role_known": flow.role_known(),
            }),
        )
    }

    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        line(out, on, "sample", of_sample(sample))
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        for estimate in all {
            line(out, on, "estimate", of_estimate(estimate))?;
        }
        Ok(())
    }

    fn ended(&mut self, out: &mut dyn Write, on: &Context<'_>, why: End) -> io::Result<()> {
        let mut data = of_flow(on.flow);
        data["reason"] = json!(reason(why));
        line(out, on, "end", data)
    }

    fn counters(&mut self, out: &mut dyn Write, tap: &str, counters: &Counters) -> io::Result<()> {
        let mut data = json!({"event": "counters", "tap": tap});
        for (name, count) in counters.named() {
            data[name] = json!(count);
        }
        writeln!(out, "{data}")
    }
}

fn line(out: &mut dyn Write, on: &Context<'_>, event: &str, data: Value) -> io::Result<()> {
    let mut object = json!({
        "event": event,
        "t_s": on.at.as_secs_f64(),
        "tap": on.tap,
        "flow": on.names.flow(on.flow).to_string(),
    });
    if let (Value::Object(object), Value::Object(data)) = (&mut object, data) {
        object.extend(data);
    }
    writeln!(out, "{object}")
}

/// A sample with the packets that bound it.
pub(super) fn of_sample(sample: &Sample) -> Value {
    let (value, unit, n) = value(sample);
    json!({
        "technique": sample.technique.name(),
        "quantity": sample.quantity.name(),
        "value": value,
        "unit": unit,
        "n": n,
        "first_packet": sample.first,
        "last_packet": sample.last,
    })
}

/// An estimate.
pub(super) fn of_estimate(e: &Estimate) -> Value {
    json!({
        "technique": e.technique.name(),
        "quantity": e.quantity.name(),
        "value": e.value,
        "unit": e.unit.name(),
        "low": e.interval.map(|i| i.low),
        "high": e.interval.map(|i| i.high),
        "n": e.n,
        "rejected": e.rejected,
        "sd_ms": e.sd,
        "min_ms": e.min,
        "basis": e.basis.name(),
    })
}

/// What was counted of a flow.
pub(super) fn of_flow(flow: &Flow) -> Value {
    let mut data = json!({
        "state": flow.state().name(),
        "profile": flow.profile().to_string(),
        "spin": flow.spin_class().name(),
    });
    for side in Side::BOTH {
        data[side.name()] = json!({
            "packets": flow.packets(side),
            "bytes": flow.bytes(side),
            "not_ect": flow.ecn(side, Ecn::NotEct),
            "ect0": flow.ecn(side, Ecn::Ect0),
            "ect1": flow.ecn(side, Ecn::Ect1),
            "ce": flow.ecn(side, Ecn::Ce),
            "sent_again_or_late": flow.again(side),
        });
    }
    data
}
