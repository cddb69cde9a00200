//! The checks of any run.

use narrows_path::MtuSpec;
use narrows_path::routes::Routes;
use narrows_scenario::{EcnMode, FlowPlan, Plan, TcpOptions};
use narrows_units::{Duration, Instant};

use super::{Finding, Verdict, Weight};
use crate::summary::{FlowSummary, RunSummary};
use narrows_engine::Rig;

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
        return Verdict::interrupted();
    }
    if let Some(rig) = rig {
        super::rig::judge(&mut found, plan, summary, rig);
    }
    let routes = plan.routes();
    for (facts, flow) in plan.flows.iter().zip(&summary.flows) {
        life(&mut found, plan, facts, flow);
        delivery(&mut found, plan, facts, flow);
        negotiation(&mut found, facts, flow);
        codepoints(&mut found, plan, &routes, facts, flow);
        sender_limits(&mut found, plan, facts, flow);
        window(&mut found, plan, &routes, facts, flow);
        super::deadline::judge(&mut found, facts, flow);
    }
    probes(&mut found, plan, summary);
    super::apps::judge(&mut found, plan, summary);
    super::mixes::judge(&mut found, plan, summary);
    super::buckets::judge(&mut found, plan, &routes, summary);
    if summary.engine == "sim" {
        stand_ins(&mut found, plan);
    }
    super::bottleneck::judge(&mut found, plan, &routes, summary);
    other_limits(&mut found, plan, &routes, summary);
    found.expect(&plan.expected);
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

    /// What the experiment is about does not speak against it.
    fn expect(&mut self, expected: &[String]) {
        let of = |f: &&mut Finding| expected.contains(&f.check);
        for finding in self.0.iter_mut().filter(of) {
            finding.weight = Weight::Note;
            finding.line = format!("as expected, {}", finding.line);
        }
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
    for flow in &plan.flows {
        let Some(TcpOptions { cc, .. }) = flow.transport.tcp() else {
            continue;
        };
        if let (Some(kernel), Some(own)) = (cc.kernel(), cc.simulated()) {
            let name = format!("flow/{}", flow.name);
            let line =
                format!("for kernel:{kernel} of {name} ran Narrows' {own}, the same algorithm");
            found.note("stand-in", &name, line);
        }
    }
}

/// The part of the steady window that lies between `start` and `stop`.
pub(super) fn window_of(plan: &Plan, start: Instant, stop: Option<Instant>) -> (Instant, Instant) {
    let until = stop.map_or(plan.measure.to, |stop| stop.min(plan.measure.to));
    (start.max(plan.measure.from), until)
}

/// How long that is.
pub(super) fn part_of_window(plan: &Plan, start: Instant, stop: Option<Instant>) -> Duration {
    let (from, to) = window_of(plan, start, stop);
    to.since(from)
}

/// Whether the flow is to be sending for at least half of the steady window.
pub(super) fn fills_window(plan: &Plan, facts: &FlowPlan) -> bool {
    let part = part_of_window(plan, facts.start, facts.stop);
    facts.is_bulk() && part * 2 >= plan.measure.length()
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
    let until = facts
        .stop
        .map_or(plan.duration, |stop| stop.since(Instant::ZERO));
    let ended = flow.finished_s.filter(|_| is_endless(facts));
    let grain = plan.sample_interval.as_secs_f64();
    if let Some(ended) = ended.filter(|at| at + grain < until.as_secs_f64()) {
        found.distrust(
            "broke-off",
            name,
            format!("{name} broke off at {ended:.3} s; it was to send until {until}"),
        );
    }
}

/// Flows of which nothing arrived: there is nothing else to judge them by.
fn delivery(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    let part = part_of_window(plan, facts.start, facts.stop);
    let name = &flow.name;
    if flow.bytes == 0 && is_endless(facts) && !part.is_zero() {
        found.distrust(
            "nothing-delivered",
            name,
            format!("not one byte of {name} arrived in the steady window"),
        );
    }
}

/// Probes without a single answer.
fn probes(found: &mut Findings, plan: &Plan, summary: &RunSummary) {
    for probe in &plan.probes {
        let name = format!("probe/{}", probe.name);
        // One that is active for a shorter time need have no reply within it.
        let expects_reply = part_of_window(plan, probe.start, probe.stop) > probe.interval;
        let answered = summary
            .probes
            .iter()
            .any(|p| p.name == name && p.rtt_ms.is_some());
        if expects_reply && !answered {
            let line = format!("{name} had not one answer in the steady window");
            found.distrust("unanswered", &name, line);
        }
    }
}

fn negotiation(found: &mut Findings, facts: &FlowPlan, flow: &FlowSummary) {
    let Some(tcp) = facts
        .transport
        .tcp()
        .filter(|_| flow.established_s.is_some())
    else {
        return;
    };
    let name = &flow.name;
    let got = match (flow.accecn, flow.ecn) {
        (true, _) => "AccECN",
        (false, true) => "classic ECN",
        (false, false) => "no ECN",
    };
    // The check of a scenario has put what the control needs in the place of `auto`.
    let asked = match tcp.ecn {
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
fn codepoints(
    found: &mut Findings,
    plan: &Plan,
    routes: &Routes,
    facts: &FlowPlan,
    flow: &FlowSummary,
) {
    let met = plan.elements_of(routes, facts);
    let specs = || met.iter().map(|e| &e.spec);
    // A bit that was flipped on purpose may be one of these.
    if specs().any(|spec| spec.facts().sets_ecn || spec.facts().corrupts) {
        return;
    }
    let (sent, received) = (flow.codepoints.sent, flow.codepoints.received);
    if sent[1..].iter().all(|n| *n == 0) && received[3] > 0 {
        let name = &flow.name;
        let line = format!(
            "{} packets of {name} arrived with CE, and none was sent that may be marked",
            received[3]
        );
        found.distrust("codepoint-changed", name, line);
    }
    // A duplicate is received twice and sent once, which counts the same.
    let duplicates = specs().any(|spec| spec.facts().duplicates);
    for (value, word) in [(0, "Not-ECT"), (1, "ECT(1)"), (2, "ECT(0)")] {
        let more = received[value] > sent[value] && (!duplicates || sent[value] == 0);
        if more {
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

/// What held a sender back in the steady window: before, while its receiver's window opens
/// (Linux begins with 64 KiB and doubles it each round trip), it is no flaw of a run.
fn sender_limits(found: &mut Findings, plan: &Plan, facts: &FlowPlan, flow: &FlowSummary) {
    let Some(from) = flow.established_s else {
        return;
    };
    let (begin, end) = (plan.measure.from, plan.measure.to);
    let inside = |seconds: f64| seconds.clamp(begin.as_secs_f64(), end.as_secs_f64());
    let open = inside(flow.finished_s.unwrap_or(f64::MAX)) - inside(from);
    if open <= 0.0 {
        return;
    }
    let limited = flow.limited_in_window;
    let limits = [
        // By the window a proxy holds back what it has no room for.
        (
            limited.receive_window_s,
            "the receive window",
            facts.via.is_none(),
        ),
        (limited.send_buffer_s, "its own send buffer", true),
        (
            limited.application_s,
            "having nothing to send",
            facts.is_bulk(),
        ),
    ];
    for (seconds, by, matters) in limits {
        if matters && seconds / open > LIMITED_SHARE {
            let name = &flow.name;
            found.distrust(
                "sender-limited",
                name,
                format!(
                    "{name} was held back by {by}, not by the network, for {:.0} % of its time in the steady window",
                    100.0 * seconds / open
                ),
            );
        }
    }
}

fn window(
    found: &mut Findings,
    plan: &Plan,
    routes: &Routes,
    facts: &FlowPlan,
    flow: &FlowSummary,
) {
    let part = part_of_window(plan, facts.start, facts.stop);
    if !facts.is_bulk() || part.is_zero() {
        return;
    }
    // Without a sample, the round trip is at least that of the empty path.
    let base = || plan.base_round_trip(routes, facts).as_millis_f64();
    let rtt_ms = flow.rtt_ms.map_or_else(base, |rtt| rtt.mean);
    let length = part.as_millis_f64();
    if length < WINDOW_ROUNDS * rtt_ms {
        let name = &flow.name;
        found.distrust(
            "short-window",
            name,
            format!(
                "the steady window of {} s spans only {:.1} round trips of {name}",
                crate::text::seconds(plan.measure.length().as_secs_f64()),
                length / rtt_ms
            ),
        );
    }
}

/// Whether it is known what happened in an element: not in a live run where
/// the kernel's disciplines carry its link.
pub(super) fn is_seen(plan: &Plan, summary: &RunSummary, element: &str) -> bool {
    let mut theirs = plan.links.iter().filter(|l| !l.datapath.is_own());
    summary.engine == "sim"
        || !theirs.any(|l| l.up.iter().chain(&l.down).any(|e| e.name == element))
}

/// What a smaller MTU in the middle dropped, and whether the sender got an ICMP error. One that
/// is silent is no black hole for who finds the size by probes, which is what then got lost:
/// `is_stuck` says whether somebody did not get through.
fn small_mtu(
    found: &mut Findings,
    name: &str,
    spec: &MtuSpec,
    drops: u64,
    is_stuck: impl FnOnce() -> bool,
) {
    let dropped = format!(
        "{name} dropped {drops} packets larger than its {} bytes",
        spec.mtu
    );
    let silent = format!("{dropped} without an ICMP error");
    match (drops, spec.silent) {
        (0, _) => {}
        (_, true) if is_stuck() => found.distrust(
            "mtu-black-hole",
            name,
            format!("{silent}: a black hole for path MTU discovery"),
        ),
        (_, true) => {
            let line = format!("{silent}; all whose way it is on got through in smaller packets");
            found.note("lost-packets", name, line);
        }
        (_, false) => found.note("lost-packets", name, format!("{dropped}, and said so")),
    }
}

/// Whether a flow or an application on whose way `element` is had something to deliver in the
/// steady window, and delivered nothing.
fn is_stuck(plan: &Plan, routes: &Routes, summary: &RunSummary, element: &str) -> bool {
    let flows = plan.flows.iter().zip(&summary.flows);
    let mut flows = flows.filter(|(facts, _)| {
        let met = plan.elements_of(routes, facts);
        met.iter().any(|e| e.name == element)
    });
    let mut apps = plan.apps.iter().filter(|app| {
        let ways = [(app.from, app.to), (app.to, app.from)];
        let mut met = ways
            .into_iter()
            .flat_map(|(a, b)| plan.elements_between(routes, a, b));
        met.any(|(_, e)| e.name == element)
    });
    let is_open = |facts: &FlowPlan, flow: &FlowSummary| {
        !flow.complete && !part_of_window(plan, facts.start, facts.stop).is_zero()
    };
    flows.any(|(facts, flow)| is_open(facts, flow) && flow.goodput_mbit.unwrap_or(0.0) <= 0.0)
        || apps.any(|app| super::apps::is_stuck(plan, app, summary))
}

/// Why packets are dropped that are too long for a link.
const LARGE: &str = "larger than the MTU";

/// Limits of elements that are not there to limit.
fn other_limits(found: &mut Findings, plan: &Plan, routes: &Routes, summary: &RunSummary) {
    // A bit that was flipped on purpose makes a checksum wrong, or leads elsewhere.
    let corrupts = plan.elements().any(|e| e.spec.facts().corrupts);
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
        let element = plan.elements().find(|e| e.name == *name);
        let too_big = match element.and_then(|e| e.spec.facts().mtu) {
            Some(spec) => {
                let is_stuck = || is_stuck(plan, routes, summary, name);
                small_mtu(found, name, &spec, drops.too_big, is_stuck);
                0
            }
            None => drops.too_big,
        };
        if drops.no_socket > 0 {
            found.note(
                "no-socket",
                name,
                format!(
                    "{} packets reached {name} and no socket took them: late for a connection that \
                     was over, or for a port at which nothing listens",
                    drops.no_socket
                ),
            );
        }
        for (n, why) in [
            (too_big, LARGE),
            (
                drops.malformed,
                "that it could not read, or that had a wrong checksum",
            ),
            (drops.unreachable, "for which there was no way on"),
        ] {
            let said = format!("{name} dropped {n} packets {why}");
            match (n, corrupts && why != LARGE) {
                (0, _) => {}
                (_, true) => found.note("lost-packets", name, said),
                (_, false) => found.distrust("lost-packets", name, said),
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
