//! From a plan to what is to be done in each of its hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_app::Generator;
use narrows_app::probe::{Asker, PAYLOAD_LEN};
use narrows_packet::FlowId;
use narrows_scenario::{HostIndex, NameTable, Plan, Transport};
use narrows_units::{Duration, Instant};

use super::datagrams::{Task, TaskPlan};
use super::ecn_switch::Ask;
use super::error::FlowError;
use super::host_model;
use super::quic::{self, Certificate, QuicPlan};
use super::sockets::StreamOptions;
use super::stream_plan::{EndPlan, Shared};
use crate::sample::Sampler;
use crate::{Clock, Reporter};

/// Bytes of the IPv4 and UDP headers of a probe.
const PROBE_HEADERS: u32 = 20 + 8;

/// What is to be done in one host.
#[derive(Default)]
pub struct Work {
    /// Ends of flows over TCP, each with the index of its flow.
    pub streams: Vec<(EndPlan, usize)>,
    /// Ends of flows and probes that are datagrams.
    pub datagrams: Vec<TaskPlan>,
    /// Ends of flows over QUIC.
    pub quic: Vec<QuicPlan>,
    /// What looks at the host's sockets, if there are such.
    pub sampler: Option<Sampler>,
}

/// What is to be done in each host; `seed` decides which ends of QUIC spin.
///
/// # Errors
/// For the first flow that this machine or quinn cannot carry.
pub fn work(
    plan: &Plan,
    seed: u64,
    control: &dyn Fn(FlowId) -> String,
    clock: Clock,
    reporter: &Reporter,
) -> Result<BTreeMap<HostIndex, Work>, FlowError> {
    let mut hosts: BTreeMap<HostIndex, Work> = BTreeMap::new();
    let mut certificate = None;
    for (i, flow) in plan.flows.iter().enumerate() {
        if flow.transport == Transport::Quic {
            quic_flow(plan, i, seed, &mut certificate, &mut hosts)?;
        } else if flow.traffic.is_datagram() {
            datagram_flow(plan, i, &mut hosts);
        } else {
            stream_flow(plan, i, control(FlowId(i as u32)), &mut hosts);
        }
    }
    let names = NameTable::of(plan);
    for i in 0..plan.probes.len() {
        probe(plan, i, &names, &mut hosts);
    }
    let programs = plan.commands.iter().map(|c| c.host);
    for host in programs {
        hosts.entry(host).or_default();
    }
    for (&host, work) in &mut hosts {
        let runs_programs = plan.commands.iter().any(|c| c.host == host);
        let ends = |(end, _): &(EndPlan, usize)| (end.local, end.remote);
        let (senders, receivers): (Vec<_>, Vec<_>) = work
            .streams
            .iter()
            .partition(|(end, _)| end.generator.is_some());
        if senders.is_empty() && !runs_programs {
            continue;
        }
        work.sampler = Some(Sampler {
            host,
            interval: plan.sample_interval,
            clock,
            reporter: reporter.clone(),
            senders: senders
                .into_iter()
                .map(|s| (ends(s), Arc::clone(&s.0.shared.watch)))
                .collect(),
            receivers: receivers.into_iter().map(ends).collect(),
            programs: runs_programs,
        });
    }
    Ok(hosts)
}

fn quic_flow(
    plan: &Plan,
    i: usize,
    seed: u64,
    certificate: &mut Option<Certificate>,
    hosts: &mut BTreeMap<HostIndex, Work>,
) -> Result<(), FlowError> {
    let made = match certificate.take() {
        Some(made) => made,
        None => Certificate::new().map_err(|reason| FlowError::Socket {
            what: format!("flow/{}", plan.flows[i].name),
            action: "make a certificate".to_owned(),
            reason,
        })?,
    };
    let ends = plan.flow_ends(i);
    let [opener, answerer] = quic::plans(plan, i, seed, &made)?;
    *certificate = Some(made);
    for ((host, _), end) in [(ends.opener, opener), (ends.answerer, answerer)] {
        hosts.entry(host).or_default().quic.push(end);
    }
    Ok(())
}

fn stream_flow(plan: &Plan, i: usize, control: String, hosts: &mut BTreeMap<HostIndex, Work>) {
    let flow = &plan.flows[i];
    let ends = plan.flow_ends(i);
    let shared = Arc::new(Shared::new(FlowId(i as u32)));
    for (opens, (host, local), (_, remote)) in [
        (true, ends.opener, ends.answerer),
        (false, ends.answerer, ends.opener),
    ] {
        let sends = host == flow.from;
        let mut notes = Vec::new();
        if sends {
            notes.extend(host_model::notes(plan, flow));
        }
        if flow.fast_open && opens && !sends {
            notes.push(
                "no data goes with its SYN: the end that opens it has none to send".to_owned(),
            );
        }
        let end = EndPlan {
            flow: i,
            name: format!("flow/{}", flow.name),
            local,
            remote,
            opens,
            fast_open: flow.fast_open,
            ask: Ask::default(),
            generator: sends.then(|| Generator::new(flow.traffic)),
            start: flow.start,
            stop: flow.stop,
            options: StreamOptions {
                control: control.clone(),
                dscp: flow.dscp,
                pace: host_model::paces_always(&flow.host),
            },
            shared: Arc::clone(&shared),
            notes,
        };
        hosts.entry(host).or_default().streams.push((end, i));
    }
}

fn datagram_flow(plan: &Plan, i: usize, hosts: &mut BTreeMap<HostIndex, Work>) {
    let flow = &plan.flows[i];
    let ends = plan.flow_ends(i);
    let (near, far) = if flow.from == flow.opens {
        (ends.opener, ends.answerer)
    } else {
        (ends.answerer, ends.opener)
    };
    let send = Task::Send {
        flow: i,
        generator: Generator::new(flow.traffic),
        remote: far.1,
        start: flow.start,
        stop: flow.stop,
    };
    let receive = Task::Receive {
        flow: i,
        start: flow.start,
        stop: flow.stop,
    };
    for ((host, local), task) in [(near, send), (far, receive)] {
        let task = TaskPlan {
            name: format!("flow/{}", flow.name),
            local,
            class: flow.dscp << 2,
            task,
        };
        hosts.entry(host).or_default().datagrams.push(task);
    }
}

fn probe(plan: &Plan, i: usize, names: &NameTable, hosts: &mut BTreeMap<HostIndex, Work>) {
    let probe = &plan.probes[i];
    let ends = plan.probe_ends(i);
    let name = format!("probe/{}", probe.name);
    let end = Instant::ZERO + plan.duration;
    let stop = probe.stop.unwrap_or(end).min(end);
    let payload_len = probe.size.saturating_sub(PROBE_HEADERS) as usize;
    let payload_len = payload_len.max(PAYLOAD_LEN);
    let ask = Task::Ask {
        entity: names.id(&name).unwrap_or_default(),
        asker: Asker::new(
            probe.interval.max(Duration::from_nanos(1)),
            probe.start,
            stop,
        ),
        remote: ends.answerer.1,
        payload_len,
    };
    let answer = Task::Answer { payload_len };
    for ((host, local), task) in [(ends.opener, ask), (ends.answerer, answer)] {
        let task = TaskPlan {
            name: name.clone(),
            local,
            class: probe.dscp << 2 | probe.ecn as u8,
            task,
        };
        hosts.entry(host).or_default().datagrams.push(task);
    }
}
