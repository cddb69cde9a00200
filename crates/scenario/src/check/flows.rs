//! Flows: who sends what to whom, under which control.

use std::collections::BTreeMap;

use narrows_units::{Bytes, Instant, Value as _};

use super::graph::Reach;
use super::transport;
use crate::fields::Fields;
use crate::parts::{Control, Dscp, EcnMode, HostModel, Traffic};
use crate::plan::{FlowPlan, HostIndex, IpVersion, Plan};
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::transport::Transport;
use crate::tree::{Node, Value};

/// What a `[[flow]]` may have.
pub(crate) const FLOW: &[&str] = &[
    "name",
    "from",
    "to",
    "opens",
    "cc",
    "transport",
    "spin",
    "ecn",
    "dscp",
    "start",
    "stop",
    "bytes",
    "traffic",
    "ip",
    "fast_open",
    "mark",
    "host_model",
];

/// Reads the flows.
pub(super) fn read(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let reach = Reach::of(plan);
    let model = super::model::read(top, HostModel::default())?;
    let offsets = top.flag("start_offset")?.unwrap_or(true);
    let mut names = BTreeMap::new();
    for node in top.tables("flow")? {
        let mut flow = flow(node, plan, &reach, model, &mut names)?;
        flow.start_offset &= offsets;
        plan.flows.push(flow);
    }
    Ok(())
}

fn flow(
    node: &Node,
    plan: &Plan,
    reach: &Reach,
    model: HostModel,
    names: &mut BTreeMap<String, Spot>,
) -> Result<FlowPlan, Refusal> {
    let fields = Fields::of(node, "flow", FLOW)?;
    let name = fields.needed_name("name")?;
    let fields = fields.called(format!("flow/{name}"));
    super::unique(names, name, &fields)?;
    let (from, to) = ends(&fields, plan, reach)?;
    let opens = match host(&fields, "opens", plan)? {
        None => from,
        Some(opens) if opens == from || opens == to => opens,
        Some(_) => {
            let (from, to) = (&plan.host(from).name, &plan.host(to).name);
            return Err(fields.refuse("opens", format!("`{from}` or `{to}`")));
        }
    };
    let traffic = traffic(&fields)?;
    let cc = fields.words("cc", "a congestion control in words", Control::parse)?;
    let transport = transport::read(&fields, cc.as_ref())?;
    let ip = ip(&fields)?;
    if transport == Transport::Quic {
        transport::fits_quic(&fields, plan, (from, to), &traffic, ip)?;
    }
    if let Some(spec) = transport.modelled() {
        transport::fits_modelled(&fields, plan, (from, to), spec, (&traffic, ip))?;
    }
    let cc = match cc {
        Some(cc) => cc,
        None if transport.modelled().is_some() => no_control(&fields)?,
        None if transport == Transport::Quic => Control::Quic(Default::default()),
        None if traffic.is_datagram() => no_control(&fields)?,
        None => return Err(fields.missing("cc", "a congestion control, such as \"cubic\"")),
    };
    let (start, stop) = times(&fields, plan)?;
    Ok(FlowPlan {
        name: name.to_owned(),
        from,
        to,
        opens,
        ecn: match transport {
            Transport::Tcp => ecn(&fields, &cc)?,
            Transport::Quic => transport::quic_ecn(&fields)?,
            Transport::Modelled(_) => EcnMode::Off,
        },
        dscp: dscp(&fields)?,
        start,
        start_offset: fields.get("start").is_none(),
        stop,
        traffic,
        ip,
        fast_open: fields.flag("fast_open")?.unwrap_or(false),
        host: match transport {
            Transport::Tcp => super::model::read(&fields, model)?,
            // It is about TCP's segments.
            Transport::Quic | Transport::Modelled(_) => HostModel::default(),
        },
        transport,
        spin: transport::spin(&fields, transport)?,
        cc,
    })
}

/// What stands in the plan for the control of a flow that has none.
fn no_control(fields: &Fields<'_>) -> Result<Control, Refusal> {
    Control::parse("reno").map_err(|e| Refusal::words(fields.spot(), fields.name_of("cc"), e))
}

/// The two ends of a flow or a probe, between which there is a path.
pub(super) fn ends(
    fields: &Fields<'_>,
    plan: &Plan,
    reach: &Reach,
) -> Result<(HostIndex, HostIndex), Refusal> {
    let end = |key: &str| {
        host(fields, key, plan)?
            .ok_or_else(|| fields.missing(key, format!("the name of a host: {}", hosts(plan))))
    };
    let (from, to) = (end("from")?, end("to")?);
    if from == to {
        return Err(fields.refuse("to", "another host than `from`"));
    }
    if !reach.joins(from, to) {
        let (a, b) = (&plan.host(from).name, &plan.host(to).name);
        return Err(fields
            .refuse("to", "a host to which there is a path")
            .with_help(format!("no links lead from `{a}` to `{b}`")));
    }
    Ok((from, to))
}

pub(super) fn hosts(plan: &Plan) -> String {
    let hosts = plan.hosts.iter().filter(|h| !h.router);
    one_of(hosts.map(|h| h.name.as_str()))
}

pub(super) fn host(
    fields: &Fields<'_>,
    key: &str,
    plan: &Plan,
) -> Result<Option<HostIndex>, Refusal> {
    let Some(name) = fields.text(key)? else {
        return Ok(None);
    };
    let refusal = || fields.refuse(key, format!("the name of a host: {}", hosts(plan)));
    match plan.host_named(name) {
        Some(index) if plan.host(index).router => {
            Err(refusal().with_help(format!("`{name}` is a router")))
        }
        Some(index) => Ok(Some(index)),
        None => Err(refusal().did_you_mean(name, plan.hosts.iter().map(|h| h.name.as_str()))),
    }
}

/// When a flow or a probe starts and stops.
pub(super) fn times(
    fields: &Fields<'_>,
    plan: &Plan,
) -> Result<(Instant, Option<Instant>), Refusal> {
    let end = Instant::ZERO + plan.duration;
    let start = fields.instant("start")?.unwrap_or(Instant::ZERO);
    if start >= end {
        return Err(fields.refuse("start", format!("a time before the run's end at {end}")));
    }
    let stop = fields.instant("stop")?;
    if stop.is_some_and(|stop| stop <= start || stop > end) {
        let allowed = format!("a time after the start at {start} and up to the run's end at {end}");
        return Err(fields.refuse("stop", allowed));
    }
    Ok((start, stop))
}

/// What the handshake asks for where a file says nothing: what the control needs.
pub(crate) fn needed_ecn(cc: &Control) -> EcnMode {
    let needs = cc.needs();
    if needs.accecn {
        EcnMode::AccEcn
    } else if needs.ecn {
        EcnMode::Classic
    } else {
        EcnMode::Off
    }
}

/// What the handshake asks for: what the file says, or else what the control
/// needs. `true` is the plainest form that serves the control.
fn ecn(fields: &Fields<'_>, cc: &Control) -> Result<EcnMode, Refusal> {
    let needed = needed_ecn(cc);
    let on = match needed {
        EcnMode::Off => EcnMode::Classic,
        needed => needed,
    };
    let Some(node) = fields.get("ecn") else {
        return Ok(needed);
    };
    match (&node.value, node.as_text()) {
        (Value::Flag(true), _) | (_, Some("true" | "on")) => Ok(on),
        (Value::Flag(false), _) | (_, Some("false" | "off")) => Ok(EcnMode::Off),
        (_, Some("classic")) => Ok(EcnMode::Classic),
        (_, Some("accecn")) => Ok(EcnMode::AccEcn),
        _ => Err(fields.refuse("ecn", "`true`, `false`, \"classic\", \"accecn\" or \"off\"")),
    }
}

/// A code point as a number or by name.
pub(super) fn dscp(fields: &Fields<'_>) -> Result<u8, Refusal> {
    let Some(node) = fields.get("dscp") else {
        return Ok(0);
    };
    let number = node.as_whole().map(|n| n.to_string());
    number
        .as_deref()
        .or(node.as_text())
        .and_then(Dscp::parse)
        .map(|d| d.0)
        .ok_or_else(|| fields.refuse("dscp", Dscp::ALLOWED))
}

/// `bytes = 1000000`, `bytes = "10Mb"` or `traffic = "words"`; bulk if neither.
fn traffic(fields: &Fields<'_>) -> Result<Traffic, Refusal> {
    let Some(node) = fields.get("bytes") else {
        let words = fields.words("traffic", "traffic in words", Traffic::parse)?;
        return Ok(words.unwrap_or_default());
    };
    if let Some(traffic) = fields.get("traffic") {
        let allowed = "either `bytes` or `traffic`, not both";
        return Err(Refusal::at(
            &traffic.spot,
            fields.name_of("traffic"),
            traffic.describe(),
            allowed,
        ));
    }
    node.as_whole()
        .or_else(|| node.as_text().and_then(Bytes::parse).map(Bytes::get))
        .filter(|bytes| *bytes > 0)
        .and_then(|bytes| Traffic::parse(&format!("bytes {bytes}")).ok())
        .ok_or_else(|| {
            fields.refuse(
                "bytes",
                "a size above zero, such as 1000000, \"64kb\", \"32Mb\"",
            )
        })
}

fn ip(fields: &Fields<'_>) -> Result<IpVersion, Refusal> {
    match fields.whole("ip", 4, 6)? {
        None | Some(4) => Ok(IpVersion::V4),
        Some(6) => Ok(IpVersion::V6),
        Some(_) => Err(fields.refuse("ip", "4 or 6")),
    }
}
