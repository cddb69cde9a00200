//! What a proxy reports of a tunnel, among the series of the flow that it carries.

use narrows_core::{Event, FlowId, Reduce, Sockets, TelemetryField};

use crate::tunnel::{Leg, Tunnel};

const fn field(name: &'static str, unit: &'static str, about: &'static str) -> TelemetryField {
    TelemetryField::new(name, unit, about, Reduce::Gauge)
}

/// Bytes in the proxy, and not yet in the send buffer of a leg.
const BACKLOG: TelemetryField = field(
    "proxy_backlog",
    "bytes",
    "bytes that wait in the proxy, both directions",
);

/// What is reported of a leg on which the proxy sends data.
struct LegFields {
    cwnd: TelemetryField,
    rtt: TelemetryField,
    rate: TelemetryField,
}

/// Thousandths of a millisecond are whole microseconds.
const MILLIS: u64 = 1_000;

const fn leg(names: [&'static str; 3]) -> LegFields {
    let [cwnd, rtt, rate] = names;
    LegFields {
        cwnd: field(cwnd, "packets", "congestion window of the proxy's leg"),
        rtt: field(rtt, "ms", "smoothed RTT of the proxy's leg").in_parts(MILLIS),
        rate: field(rate, "mbit", "delivery rate of the proxy's leg").in_parts(1_000_000),
    }
}

/// All that is reported of a tunnel.
pub const TELEMETRY: &[TelemetryField] = &[
    BACKLOG, NEAR.cwnd, NEAR.rtt, NEAR.rate, FAR.cwnd, FAR.rtt, FAR.rate,
];

const NEAR: LegFields = leg(["near_cwnd", "near_srtt", "near_delivery_rate"]);
const FAR: LegFields = leg(["far_cwnd", "far_srtt", "far_delivery_rate"]);

/// A leg that has sent no more than this carries no data but the answer to a request.
const ANSWER: u64 = 1_024;

/// Reports of `tunnel`, which carries `flow`.
pub(crate) fn report(host: &mut dyn Sockets, flow: FlowId, tunnel: &Tunnel) {
    let record = |host: &mut dyn Sockets, field, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let source = flow.into();
        host.record(Event::Telemetry {
            source,
            field,
            value,
        });
    };
    record(host, BACKLOG, tunnel.backlog());
    for (leg, fields) in [(Leg::Near, NEAR), (Leg::Far, FAR)] {
        let sample = tunnel.socket(leg).and_then(|socket| host.sample(socket));
        if let Some(sample) = sample.filter(|sample| sample.bytes_acked > ANSWER) {
            record(host, fields.cwnd, sample.cwnd.into());
            record(host, fields.rtt, sample.srtt.as_micros());
            record(host, fields.rate, sample.delivery_rate * 8);
        }
    }
}
