//! One JSON object a line.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Context, Form, PrefixRow, reason, value};
use crate::estimate::Estimate;
use crate::flow::{End, Flow};
use crate::observer::ObserverCounters;
use crate::sample::{Sample, Side};
use narrows_wire::Ecn;

pub(super) struct Json;

impl Form for Json {
    fn began(&mut self, out: &mut dyn Write, on: &Context<'_>) -> io::Result<()> {
        line(out, on, "flow", of_beginning(on))
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

    fn prefixes(&mut self, out: &mut dyn Write, tap: &str, rows: &[PrefixRow]) -> io::Result<()> {
        for row in rows {
            let rtt = row.rtt.as_ref();
            let line = json!({
                "event": "prefix",
                "tap": tap,
                "prefix": row.prefix,
                "flows": row.flows,
                "packets_from": row.packets_from,
                "packets_to": row.packets_to,
                "bytes_from": row.bytes_from,
                "bytes_to": row.bytes_to,
                "sent_again_or_late": row.again,
                "technique": rtt.map(|r| r.technique),
                "n": rtt.map_or(0, |r| r.n),
                "rtt_ms": rtt.map(|r| r.mean_ms),
                "min_ms": rtt.map(|r| r.min_ms),
                "median_ms": rtt.map(|r| r.median_ms),
                "p95_ms": rtt.map(|r| r.p95_ms),
            });
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    fn counters(
        &mut self,
        out: &mut dyn Write,
        tap: &str,
        counters: &ObserverCounters,
    ) -> io::Result<()> {
        let mut data = json!({"event": "counters", "tap": tap});
        for (name, count) in counters.named() {
            data[name] = json!(count);
        }
        writeln!(out, "{data}")
    }
}

/// A line: what every event has, then its own.
#[derive(Serialize)]
struct Row<'a, T> {
    event: &'static str,
    t_s: f64,
    tap: &'a str,
    flow: String,
    #[serde(flatten)]
    data: T,
}

fn line(
    out: &mut dyn Write,
    on: &Context<'_>,
    event: &'static str,
    data: impl Serialize,
) -> io::Result<()> {
    let row = Row {
        event,
        t_s: on.at.as_secs_f64(),
        tap: on.tap,
        flow: on.names.flow(on.flow).to_string(),
        data,
    };
    let mut line = serde_json::to_vec(&row)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Who opened a flow to whom.
pub(super) fn of_beginning(on: &Context<'_>) -> Value {
    let (flow, names) = (on.flow, on.names);
    json!({
        "protocol": flow.protocol_name(),
        "initiator": names.end(flow, Side::Initiator),
        "responder": names.end(flow, Side::Responder),
        "role_known": flow.role_known(),
    })
}

/// A sample with the packets that bound it.
#[derive(Serialize)]
pub(super) struct SampleData {
    technique: &'static str,
    quantity: &'static str,
    value: f64,
    unit: &'static str,
    n: u32,
    first_packet: u64,
    last_packet: u64,
}

pub(super) fn of_sample(sample: &Sample) -> SampleData {
    let (value, unit, n) = value(sample);
    SampleData {
        technique: sample.technique.name(),
        quantity: sample.quantity.name(),
        value,
        unit,
        n,
        first_packet: sample.first,
        last_packet: sample.last,
    }
}

/// An estimate.
#[derive(Serialize)]
pub(super) struct EstimateData {
    technique: &'static str,
    quantity: &'static str,
    value: f64,
    unit: &'static str,
    low: Option<f64>,
    high: Option<f64>,
    n: u64,
    rejected: u64,
    sd_ms: Option<f64>,
    min_ms: Option<f64>,
    median_ms: Option<f64>,
    p95_ms: Option<f64>,
    basis: &'static str,
}

pub(super) fn of_estimate(e: &Estimate) -> EstimateData {
    EstimateData {
        technique: e.technique.name(),
        quantity: e.quantity.name(),
        value: e.value,
        unit: e.unit.name(),
        low: e.interval.map(|i| i.low),
        high: e.interval.map(|i| i.high),
        n: e.n,
        rejected: e.rejected,
        sd_ms: e.sd,
        min_ms: e.min,
        median_ms: e.median,
        p95_ms: e.p95,
        basis: e.basis.name(),
    }
}

/// What was counted of a flow.
pub(super) fn of_flow(flow: &Flow) -> Value {
    let mut data = json!({
        "protocol": flow.protocol_name(),
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
