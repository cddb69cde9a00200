//! qlog (draft-ietf-quic-qlog-main-schema) as a JSON text sequence (RFC 7464):
//! each record begins with a record separator. Events are of Narrows's own
//! namespace, as qlog has none for observers.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use super::json::{of_beginning, of_estimate, of_flow, of_sample};
use super::{Context, Form, reason};
use crate::estimate::Estimate;
use crate::flow::End;
use crate::observer::ObserverCounters;
use crate::sample::Sample;

/// RFC 7464's record separator.
const SEPARATOR: char = '\u{1e}';

pub(super) struct Qlog;

impl Form for Qlog {
    fn head(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let head = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "narrows observe",
            "trace": {
                "common_fields": {"time_format": "relative_to_epoch",
                    "reference_time": {"clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z"}},
                "vantage_point": {"type": "network"},
                "event_schemas": ["urn:narrows:qlog:events:observe"],
            },
        });
        writeln!(out, "{SEPARATOR}{head}")
    }

    fn began(&mut self, out: &mut dyn Write, on: &Context<'_>) -> io::Result<()> {
        event(out, on, "flow_began", of_beginning(on))
    }

    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        event(out, on, "sample", of_sample(sample))
    }

    fn estimates(
        &mut self,
        out: &mut dyn Write,
        on: &Context<'_>,
        all: &[Estimate],
    ) -> io::Result<()> {
        for estimate in all {
            event(out, on, "estimate", of_estimate(estimate))?;
        }
        Ok(())
    }

    fn ended(&mut self, out: &mut dyn Write, on: &Context<'_>, why: End) -> io::Result<()> {
        let mut data = of_flow(on.flow);
        data["reason"] = json!(reason(why));
        event(out, on, "flow_ended", data)
    }

    fn counters(
        &mut self,
        out: &mut dyn Write,
        tap: &str,
        counters: &ObserverCounters,
    ) -> io::Result<()> {
        let mut data = json!({"tap": tap});
        for (name, count) in counters.named() {
            data[name] = json!(count);
        }
        let record = json!({"time": 0, "name": "observe:counters", "data": data});
        writeln!(out, "{SEPARATOR}{record}")
    }
}

/// What an event holds: what JSON's does, and the tap.
#[derive(Serialize)]
struct Data<'a, T> {
    #[serde(flatten)]
    data: T,
    tap: &'a str,
}

#[derive(Serialize)]
struct Event<'a, T> {
    /// In milliseconds.
    time: f64,
    name: String,
    group_id: String,
    data: Data<'a, T>,
}

fn event(
    out: &mut dyn Write,
    on: &Context<'_>,
    name: &str,
    data: impl Serialize,
) -> io::Result<()> {
    let event = Event {
        time: on.at.as_secs_f64() * 1e3,
        name: format!("observe:{name}"),
        group_id: on.names.flow(on.flow).to_string(),
        data: Data { data, tap: on.tap },
    };
    let event = serde_json::to_string(&event)?;
    writeln!(out, "{SEPARATOR}{event}")
}
