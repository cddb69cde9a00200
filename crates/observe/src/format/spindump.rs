//! The records of spindump's JSON format (its Format.md, 2021), one a line and
//! without the brackets around all of them. spindump gives one round trip per
//! flow and kind: here they are the delay bit's where there is one, else the
//! spin bit's, else those of acknowledgements.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Context, Form};
use crate::flow::End;
use crate::sample::{Measured, Quantity, Sample, Side, Technique};
use narrows_wire::Ecn;
use narrows_wire::efm::Signal;

pub(super) struct Spindump;

impl Form for Spindump {
    fn began(&mut self, out: &mut dyn Write, on: &Context<'_>) -> io::Result<()> {
        writeln!(out, "{}", record(on, "new"))
    }

    fn sample(&mut self, out: &mut dyn Write, on: &Context<'_>, sample: &Sample) -> io::Result<()> {
        let profile = on.flow.profile();
        let wanted = if profile.has(Signal::Delay) {
            Technique::Delay
        } else if profile.has(Signal::Spin) {
            Technique::Spin
        } else {
            Technique::SeqAck
        };
        let opening = sample.technique == Technique::Handshake;
        let Measured::Rtt(rtt) = sample.value else {
            return Ok(());
        };
        let key = match sample.quantity {
            Quantity::LeftRtt => "Left_rtt",
            Quantity::RightRtt => "Right_rtt",
            Quantity::FullRtt(Side::Initiator) if !opening => "Full_rtt_initiator",
            Quantity::FullRtt(Side::Responder) => "Full_rtt_responder",
            _ => return Ok(()),
        };
        if sample.technique != wanted && !opening {
            return Ok(());
        }
        let mut record = record(on, "measurement");
        record[key] = json!(rtt.as_micros());
        counts(&mut record, on);
        writeln!(out, "{record}")
    }

    fn ended(&mut self, out: &mut dyn Write, on: &Context<'_>, _: End) -> io::Result<()> {
        let mut record = record(on, "delete");
        counts(&mut record, on);
        writeln!(out, "{record}")
    }
}

fn record(on: &Context<'_>, event: &str) -> Value {
    let flow = on.flow;
    let (initiator, responder) = (flow.end(Side::Initiator), flow.end(Side::Responder));
    json!({
        "Event": event,
        "Type": flow.protocol_name(),
        "Addrs": [on.names.address(initiator.0), on.names.address(responder.0)],
        "Session": format!("{}:{}", initiator.1, responder.1),
        "Ts": on.at.as_micros(),
        "State": flow.state().name(),
    })
}

fn counts(record: &mut Value, on: &Context<'_>) {
    let flow = on.flow;
    for (side, n) in [(Side::Initiator, 1), (Side::Responder, 2)] {
        record[format!("Packets{n}")] = json!(flow.packets(side));
        record[format!("Bytes{n}")] = json!(flow.bytes(side));
    }
    for (ecn, key) in [(Ecn::Ect0, "Ect0"), (Ecn::Ect1, "Ect1"), (Ecn::Ce, "Ce")] {
        let both: u64 = Side::BOTH
            .iter()
            .map(|s| u64::from(flow.ecn(*s, ecn)))
            .sum();
        record[key] = json!(both);
    }
}
