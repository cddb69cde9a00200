//! The checks of any run.

use narrows_scenario::{EcnMode, FlowPlan, NamedElement, Plan};

use super::{Finding, Verdict, Weight};
use crate::facts::{RateSteps, path_of};
use crate::rig::Rig;
use crate::summary::{FlowSummary, QueueSummary, RunSummary};

/// A bottleneck that is used less than this *and* never makes a packet wait
/// for two others limits nobody.
const IDLE_UTILISATION: f64 = 0.9;
/// Packets that a queue must hold up at the 99th percentile to have built up.
const IDLE_PACKETS: f64 = 2.0;
/// Part of a flow's time for which something else than congestion may hold
/// its sender back.
const LIMITED_SHARE: f64 = 0.01;
/// Round trips that a steady window must span: fewer, and the mean rate is
/// that of a few congestion epochs' parts.
const WINDOW_ROUNDS: f64 = 20.0;

/// Judges a run of `plan` that came to `summary`.
pub fn judge(plan: &Plan, summary: &RunSummary, interrupted: bool) -> Verdict {
    all(plan, summary, None, interrupted)
}

/// The same of a live run that ran on `rig`.
pub fn judge_live(plan: &Plan, summary: &RunSummary, rig: &Rig, interrupted: bool) -> Verdict {
    all(plan, summary, Some(rig), interrupted)
}

fn all(plan: &Plan, summary: &RunSummary, rig: Option<&Rig>, interrupted: bool) -> Verdict {
    let mut found = Findings(Vec::new());
    if interrupted {
        found.distrust("interrupted", "run", "it was interrupted".to_owned());
        return found.verdict();
    }
    if let Some(rig) = rig {
        super::rig::judge(&mut found, plan, summary, rig);
    }
    for (facts, flow) in plan.flows.iter().zip(&summary.flows) {
        life(&mut found, plan, facts, flow);
        negotiation(&mut found, facts, flow);
        codepoints(&mut found, plan, facts, flow);
        sender_limits(&mut found, plan, facts, flow);
        window(&mut found, plan, facts, flow);
    }
    if summary.engine == "sim" {
        stand_ins(&mut found, plan);
    }
    bottlenecks(&mut found, plan, summary);
    other_limits(&mut found, summary);
    found.verdict()
}

/// What is found while a run is judged.
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn distrust(&mut self, check: &str, entity: &str, line: String) {
        self.0.push(Finding {
            weight: Weight::Distrust,
            check: check.to_owned(),
            entity: entity.to_owned(),
            line,
        });
    }

    pub(super) fn note(&mut self, check: &str, entity: &str, line: String) {
        self.0.push(Finding {
            weight: Weight::Note,
            check: check.to_owned(),
            entity: entity.to_owned(),
            line,
        });
    }

    fn verdict(mut self) -> Verdict {
        self.0.sort_by_key(|f| f.weight);
        // Flows that share a path find the same things there.
        let mut seen = std::collections::BTreeSet::new();
        self.0
            .retain(|f| seen.insert((f.check.clone(), f.line.clone())));
        Verdict { findings: self.0 }
    }
}

/// Algorithms of a kernel for which the simulator ran its own.
fn stand_ins(found: &mut Findings, plan: &Plan) {
    for flow in plan.flows.iter().filter(|f| !f.traffic.is_datagram()) {
        if let (Some(kernel), Some(own)) = (flow.cc.kernel(), flow.cc.simulated()) {
            let name = format!("flow/{}", flow.name);
            let line =
                format!("for kernel:{kernel} of {name} ran Narrows' {own}, the same algorithm");
            found.note("stand-in", &name, line);
        }
    }
}

/// Whether the flow sends for as long as it may.
fn is_bulk(facts: &FlowPlan) -> bool {
    facts.traffic.to_string().split_whitespace().next() == Some("bulk")
}

/// Whether the flow is to be running all through the steady window.
fn fills_window(plan: &Plan, facts: &FlowPlan) -> bool {
    is_bulk(facts)
        && facts.start <= plan.measure.from
        && facts.stop.is_none_or(|stop| stop >= plan.measure.to)
}

/// Whether it sends for as long as it may.
fn is_endless(facts: &FlowPlan) -> bool {
    facts.traffic.is_endless()
}

fn life(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    let name = &flow.name;
    if flow.established_s.is_none() {
        found.distrust(
            "never-started",
            name,
            format!("{name} was never established"),
        );
    } else if !is_endless(facts) && !flow.complete && facts.stop.is_none() {
        found.distrust(
            "unfinished",
            name,
            format!(
                "{name} had not delivered all that it had to send after {}",
                plan.duration
            ),
        );
    }
}

fn negotiation(found: &mut Findings, facts: &FlowPlan, flow: &FlowSummary) {
    if flow.established_s.is_none() || !facts.is_tcp() {
        return;
    }
    let name = &flow.name;
    let got = match (flow.accecn, flow.ecn) {
        (true, _) => "AccECN",
        (false, true) => "classic ECN",
        (false, false) => "no ECN",
    };
    let needs = facts.cc.needs();
    let mode = match facts.ecn {
        EcnMode::Auto if needs.accecn => EcnMode::AccEcn,
        EcnMode::Auto if needs.ecn && !flow.accecn => EcnMode::Classic,
        other => other,
    };
    let asked = match mode {
        EcnMode::AccEcn if !flow.accecn => "AccECN",
        EcnMode::Classic if !flow.ecn || flow.accecn => "classic ECN",
        EcnMode::Off if flow.ecn || flow.accecn => "no ECN",
        _ => return,
    };
    found.distrust(
        "ecn-negotiation",
        name,
        format!("{name} asked for {asked} and negotiated {got}"),
    );
}

/// ECT codepoints that change on a path where nothing is to change them.
fn codepoints(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    let mut both_ways = path_of(plan, facts);
    let back = FlowPlan {
        from: facts.to,
        to: facts.from,
        ..facts.clone()
    };
    both_ways.extend(path_of(plan, &back));
    // Elements may stand in brackets, `by dscp 8 (remark …) else (…)`.
    let words_of = |e: &NamedElement| {
        let words = e.spec.to_string().replace(['(', ')', '|'], " ");
        words
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into_iter()
    };
    let says = |word: &str| both_ways.iter().any(|e| words_of(e).any(|w| w == word));
    // A duplicate is received twice and sent once, which looks the same.
    if says("remark") || says("duplicate") {
        return;
    }
    let (sent, received) = (flow.codepoints.sent, flow.codepoints.received);
    for (value, word) in [(0, "Not-ECT"), (1, "ECT(1)"), (2, "ECT(0)")] {
        if received[value] > sent[value] {
            let name = &flow.name;
            found.distrust(
                "codepoint-changed",
                name,
                format!(
                    "{} packets of {name} arrived as {word} that were sent as something else",
                    received[value] - sent[value]
                ),
            );
        }
    }
}

fn sender_limits(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    let Some(from) = flow.established_s else {
        return;
    };
    let until = flow.finished_s.unwrap_or(plan.duration.as_secs_f64());
    let open = (until - from).max(1e-9);
    let limits = [
        (flow.limited.receive_window_s, "the receive window", true),
        (flow.limited.send_buffer_s, "its own send buffer", true),
        (
            flow.limited.application_s,
            "having nothing to send",
            is_bulk(facts),
        ),
    ];
    for (seconds, by, matters) in limits {
        if matters && seconds / open > LIMITED_SHARE {
            let name = &flow.name;
            found.distrust(
                "sender-limited",
                name,
                format!(
                    "{name} was held back by {by}, not by the network, for {:.0} % of its time",
                    100.0 * seconds / open
                ),
            );
        }
    }
}

fn window(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    if !fills_window(plan, facts) {
        return;
    }
    let Some(rtt) = &flow.rtt_ms else { return };
    let length = plan.measure.length().as_millis_f64();
    if length < WINDOW_ROUNDS * rtt.mean {
        let name = &flow.name;
        found.distrust(
            "short-window",
            name,
            format!(
                "the steady window of {} spans only {:.1} round trips of {name}",
                plan.measure.length(),
                length / rtt.mean
            ),
        );
    }
}

/// The elements with a rate that a flow's data meets, each with its lowest
/// rate.
fn rated<'a>(plan: &'a Plan, facts: &FlowPlan) -> Vec<(&'a NamedElement, u64)> {
    path_of(plan, facts)
        .into_iter()
        .filter_map(|e| Some((e, RateSteps::of(plan, &e.name)?.lowest().as_bits())))
        .collect()
}

fn bottlenecks(found: &mut Findings, plan: &Plan, summary: &RunSummary) {
    for facts in plan.flows.iter().filter(|f| fills_window(plan, f)) {
        let rated = rated(plan, facts);
        let Some(&(meant, lowest)) = rated.iter().min_by_key(|(_, bits)| *bits) else {
            continue;
        };
        let signals = |q: &QueueSummary| q.marks.total() + q.drops.total();
        let meant_queue = summary.queue(&meant.name);
        let shared = rated.iter().filter(|(_, bits)| *bits == lowest).count() > 1;
        let seen = summary.engine != "live" || is_ours(plan, &meant.name);
        if !shared && seen && meant_queue.is_none_or(is_idle) {
            found.distrust(
                "idle-bottleneck",
                &meant.name,
                format!(
                    "{} was meant to be the bottleneck, and no queue built up there",
                    meant.name
                ),
            );
        }
        let meant_signals = meant_queue.map_or(0, signals);
        for (other, bits) in &rated {
            let Some(queue) = summary.queue(&other.name) else {
                continue;
            };
            if *bits > lowest && signals(queue) > meant_signals {
                found.distrust(
                    "wrong-bottleneck",
                    &other.name,
                    format!(
                        "{} marked and dropped more than {}, which was meant to be the bottleneck",
                        other.name, meant.name
                    ),
                );
            }
        }
    }
}

/// Whether an element is our own also in a live run, which then tells what
/// happens in it.
fn is_ours(plan: &Plan, element: &str) -> bool {
    let mut theirs = plan.links.iter().filter(|l| !l.datapath.is_own());
    !theirs.any(|l| l.up.iter().chain(&l.down).any(|e| e.name == element))
}

fn is_idle(queue: &QueueSummary) -> bool {
    let Some(sojourn) = &queue.sojourn_ms else {
        return true;
    };
    let (Some(rate), Some(utilisation)) = (queue.rate_mbit, queue.utilisation) else {
        return false;
    };
    let mean_bits = queue.wire_bytes as f64 * 8.0 / queue.packets.max(1) as f64;
    let packet_ms = mean_bits / (rate * 1e3);
    utilisation < IDLE_UTILISATION && sojourn.p99 < IDLE_PACKETS * packet_ms
}

/// Limits of elements that are not there to limit.
fn other_limits(found: &mut Findings, summary: &RunSummary) {
    for dropper in &summary.droppers {
        let name = &dropper.name;
        let drops = &dropper.drops;
        if drops.overflow > 0 {
            found.distrust(
                "wrong-limit",
                name,
                format!("{name} dropped {} packets at its own limit", drops.overflow),
            );
        }
        for (n, why) in [
            (drops.too_big, "larger than the MTU"),
            (drops.malformed, "that it could not read"),
            (drops.unreachable, "for which there was no way on"),
        ] {
            if n > 0 {
                found.distrust(
                    "lost-packets",
                    name,
                    format!("{name} dropped {n} packets {why}"),
                );
            }
        }
    }
    for queue in &summary.queues {
        if queue.drops.too_big + queue.drops.malformed > 0 {
            found.note(
                "odd-drops",
                &queue.name,
                format!("{} dropped packets as too big or unreadable", queue.name),
            );
        }
    }
}
