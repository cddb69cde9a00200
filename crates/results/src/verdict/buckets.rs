//! Flows and probes that a queue which keeps flows apart takes for one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use narrows_core::Packet;
use narrows_path::routes::Routes;
use narrows_scenario::Plan;
use narrows_scenario::endpoints::Ends;
use narrows_units::Instant;
use narrows_wire::{IpFields, ip};

use super::checks::{Findings, is_seen};
use crate::summary::RunSummary;

/// Who sends packets of one five-tuple there and of its reverse back.
pub(super) struct Talker {
    /// `flow/prague`, `probe/ping`.
    pub(super) name: String,
    ends: Ends,
    dscp: u8,
    protocol: u8,
    start: Instant,
    stop: Option<Instant>,
}

/// The flows and probes of `plan`.
pub(super) fn talkers(plan: &Plan) -> Vec<Talker> {
    let flows = plan.flows.iter().enumerate().map(|(i, flow)| Talker {
        name: format!("flow/{}", flow.name),
        ends: plan.flow_ends(i),
        dscp: flow.dscp,
        protocol: flow.transport.protocol(),
        start: flow.start,
        stop: flow.stop,
    });
    let probes = plan.probes.iter().enumerate().map(|(i, probe)| Talker {
        name: format!("probe/{}", probe.name),
        ends: plan.probe_ends(i),
        dscp: probe.dscp,
        protocol: ip::UDP,
        start: probe.start,
        stop: probe.stop,
    });
    flows.chain(probes).collect()
}

/// Notes flows that share a bucket of a queue on their way: of two of them each gets
/// half of a fair share, a probe measures the queue of the flow that it is with, and nothing
/// else shows why. Data and acknowledgements count alike. It is no reason for distrust, for
/// such queues are like that: two of four flows meet in one of 1024 buckets with one seed in
/// 170.
pub(super) fn judge(found: &mut Findings, plan: &Plan, routes: &Routes, summary: &RunSummary) {
    let talkers = talkers(plan);
    // Element and bucket, with those in it.
    let mut shared: BTreeMap<(&str, usize), Vec<&Talker>> = BTreeMap::new();
    for talker in &talkers {
        let (opener, answerer) = (talker.ends.opener, talker.ends.answerer);
        for ((from, source), (to, destination)) in [(opener, answerer), (answerer, opener)] {
            let packet = packet(talker, source, destination);
            let mut way = plan.elements_between(routes, from, to);
            if way.any(|(_, e)| e.spec.facts().translates || e.spec.facts().wraps) {
                // Which addresses a queue sees there is settled as the run goes on.
                continue;
            }
            for (_, element) in plan.elements_between(routes, from, to) {
                let name = &element.name;
                let bucket = element.spec.bucket_of(summary.seed, name, &packet);
                let Some(bucket) = bucket.filter(|_| is_seen(plan, summary, name)) else {
                    continue;
                };
                shared
                    .entry((&element.name, bucket))
                    .or_default()
                    .push(talker);
            }
        }
    }
    for ((element, _), flows) in shared {
        let flows: Vec<&Talker> = flows
            .iter()
            .filter(|flow| flows.iter().any(|other| meet(plan, flow, other)))
            .copied()
            .collect();
        if let [first, rest @ ..] = flows.as_slice() {
            let rest: Vec<&str> = rest.iter().map(|f| f.name.as_str()).collect();
            let line = format!(
                "{} and {} share a bucket of {element}, which takes them for one flow; \
                 another seed sorts them otherwise",
                first.name,
                rest.join(" and ")
            );
            found.note("shared-bucket", element, line);
        }
    }
}

/// Whether two flows are different ones, and there at the same time.
pub(super) fn meet(plan: &Plan, one: &Talker, other: &Talker) -> bool {
    let end = |flow: &Talker| flow.stop.unwrap_or(Instant::ZERO + plan.duration);
    one.name != other.name && one.start < end(other) && other.start < end(one)
}

/// What a queue sees of every packet of `talker` in one direction.
pub(super) fn packet(talker: &Talker, source: SocketAddr, destination: SocketAddr) -> Packet {
    let mut bytes = Vec::new();
    let fields = IpFields {
        source: source.ip(),
        destination: destination.ip(),
        traffic_class: talker.dscp << 2,
        ttl: 64,
        protocol: talker.protocol,
        ident: 0,
    };
    // As much of the header above as both transports have alike: the ports, and four bytes.
    fields.write(&mut bytes, 8);
    bytes.extend_from_slice(&source.port().to_be_bytes());
    bytes.extend_from_slice(&destination.port().to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    Packet {
        bytes,
        ..Packet::default()
    }
}
