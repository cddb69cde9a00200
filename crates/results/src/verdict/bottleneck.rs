//! Whether flows met their bottleneck where it was meant to be, what it gave them, and whether
//! its marks can mean what they are to mean.

use std::collections::BTreeMap;

use narrows_path::routes::Routes;
use narrows_scenario::{FlowPlan, LinkPlan, NamedElement, Plan};
use narrows_units::{Instant, Rate};

use super::checks::{Findings, fills_window, is_seen, window_of};
use crate::facts::RateSteps;
use crate::summary::{FlowSignals, FlowSummary, QueueSummary, RunSummary};
use crate::text::number;

/// A bottleneck that is used less than this *and* never makes a packet wait
/// for two others limits no flow.
const IDLE_UTILISATION: f64 = 0.9;
/// A bottleneck that is used less than this limits nobody, however long the few
/// packets of a burst wait for each other. A window that is halved whenever the link is
/// full leaves three quarters of it in use; two such halvings in a row, a third.
const UNUSED_UTILISATION: f64 = 0.25;
/// Packets that a queue must hold up at the 99th percentile to have built up.
const IDLE_PACKETS: f64 = 2.0;
/// Part of its equal share with less than which a bulk flow all but stops. In tail drop
/// beside CUBIC, published for Prague in heistp/l4s-tests (S1), the least is 0.066.
const STARVED_SHARE: f64 = 0.05;
/// Controls that yield to others by design (RFC 6817, LEDBAT++, DA-LBE): with next to nothing
/// beside other flows they do what they are for.
const YIELDING: [&str; 3] = ["ledbat", "ledbatpp", "dalbe"];

/// An element with a rate on a flow's way.
struct Rated<'a> {
    link: &'a LinkPlan,
    element: &'a NamedElement,
    rates: RateSteps,
    /// The lowest rate within the flow's part of the steady window, in bit/s.
    lowest: u64,
}

/// The elements with a rate that a flow's data meets; where it goes by a proxy, those of the
/// leg with the lowest, for the other has a sender of its own.
fn rated<'a>(plan: &'a Plan, routes: &Routes, facts: &FlowPlan) -> Vec<Rated<'a>> {
    let (from, to) = window_of(plan, facts.start, facts.stop);
    let between = |(a, b)| -> Vec<_> {
        let elements = plan.elements_between(routes, a, b);
        let rated = elements.filter_map(|(link, element)| {
            let rates = RateSteps::of(plan, &element.name)?;
            let lowest = rates.lowest_between(from, to).as_bits();
            Some(Rated {
                link,
                element,
                rates,
                lowest,
            })
        });
        rated.collect()
    };
    let legs = plan.legs(facts).into_iter().map(between);
    let lowest = |leg: &Vec<Rated<'_>>| leg.iter().map(|r| r.lowest).min();
    let slower = legs.filter(|leg| !leg.is_empty());
    slower.min_by_key(lowest).unwrap_or_default()
}

/// Which of `rated` are meant to be the bottleneck: at each instant those with the lowest rate,
/// which timed changes may make others than before.
fn meant(rated: &[Rated<'_>], (from, to): (Instant, Instant)) -> Vec<bool> {
    let mut instants = vec![from];
    for r in rated {
        instants.extend(r.rates.steps().filter(|at| (from..to).contains(at)));
    }
    let mut meant = vec![false; rated.len()];
    for at in instants {
        let rates: Vec<u64> = rated.iter().map(|r| r.rates.at(at).as_bits()).collect();
        let lowest = rates.iter().min();
        for (meant, rate) in meant.iter_mut().zip(&rates) {
            *meant |= Some(rate) == lowest;
        }
    }
    meant
}

/// Whether `other` signalled more congestion to a flow than `meant` did. Marks and drops are one
/// kind of signal where a mark counts as a loss would (RFC 3168 §5); a control that needs ECN
/// makes more of less, so that of two queues the one that marks and drops no less counts.
pub(super) fn outdoes(other: &FlowSignals, meant: &FlowSignals, alike: bool) -> bool {
    if alike {
        return other.marks + other.drops > meant.marks + meant.drops;
    }
    let no_less = other.marks >= meant.marks && other.drops >= meant.drops;
    no_less && (other.marks > meant.marks || other.drops > meant.drops)
}

/// What is found of an element that signalled more than the one that was meant to.
struct Wrong {
    /// `120 and 3 of flow/a, 10 and 0`: of the first flow.
    first: String,
    meant: String,
    flows: usize,
}

/// Judges every bulk flow that fills half of the steady window and more.
pub(super) fn judge(found: &mut Findings, plan: &Plan, routes: &Routes, summary: &RunSummary) {
    let flows = plan.flows.iter().zip(&summary.flows);
    let flows: Vec<_> = flows
        .filter(|(facts, _)| fills_window(plan, facts))
        .map(|(facts, flow)| (facts, flow, rated(plan, routes, facts)))
        .collect();
    // How many of them share each element.
    let mut sharing: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, _, rated) in &flows {
        for r in rated {
            *sharing.entry(&r.element.name).or_default() += 1;
        }
    }
    let mut wrong: BTreeMap<&str, Wrong> = BTreeMap::new();
    let mut coarse: BTreeMap<&str, String> = BTreeMap::new();
    for (facts, flow, rated) in &flows {
        let window = window_of(plan, facts.start, facts.stop);
        let is_meant = meant(rated, window);
        let meant: Vec<&Rated<'_>> = pick(rated, &is_meant, true);
        let Some(first) = meant.iter().min_by_key(|r| r.lowest) else {
            continue;
        };
        let idle = |r: &&Rated<'_>| {
            let queue = summary.queue(&r.element.name);
            queue.is_none_or(|queue| is_idle(queue, is_shared(r)))
        };
        if meant.iter().all(idle) {
            idle_bottleneck(found, plan, summary, &first.element.name);
        } else {
            starved(found, (facts, flow), rated, &sharing, window);
        }
        for r in rated {
            if let Some(line) = coarse_step(facts, r) {
                coarse.entry(&r.element.name).or_insert(line);
            }
        }
        // Each one's part of a rate, of all that share it.
        let share = |r: &Rated<'_>| r.lowest / sharing.get(&*r.element.name).map_or(1, |n| *n);
        let least = meant.iter().map(|r| share(r)).min().unwrap_or_default();
        let alike = !facts.transport.needs().ecn;
        let mine = |r: &Rated<'_>| flow.signals_at(&r.element.name);
        for other in pick(rated, &is_meant, false) {
            let more = |m: &&Rated<'_>| outdoes(&mine(other), &mine(m), alike);
            // Others use a part of a shared radio that is not known: it may be the slower one.
            if !is_shared(other) && share(other) > least && meant.iter().all(more) {
                let (there, here) = (mine(other), mine(first));
                let of_first = || Wrong {
                    first: format!(
                        "{} and {} of {}, {} and {}",
                        there.marks, there.drops, flow.name, here.marks, here.drops
                    ),
                    meant: first.element.name.clone(),
                    flows: 0,
                };
                let entry = wrong.entry(&other.element.name);
                entry.or_insert_with(of_first).flows += 1;
            }
        }
    }
    for (
        element,
        Wrong {
            first,
            meant,
            flows,
        },
    ) in wrong
    {
        let more = match flows {
            1 => String::new(),
            n => format!("; likewise of {} more flows", n - 1),
        };
        let line = format!(
            "{element} marked and dropped more than {meant}, which was meant to be the \
             bottleneck: {first} packets{more}"
        );
        found.distrust("wrong-bottleneck", element, line);
    }
    for (element, line) in coarse {
        found.note("coarse-step", element, line);
    }
}

fn pick<'r, 'a>(rated: &'r [Rated<'a>], is_meant: &[bool], wanted: bool) -> Vec<&'r Rated<'a>> {
    let picked = rated.iter().zip(is_meant);
    let picked = picked.filter(|(_, meant)| **meant == wanted);
    picked.map(|(r, _)| r).collect()
}

fn idle_bottleneck(found: &mut Findings, plan: &Plan, summary: &RunSummary, name: &str) {
    if !is_seen(plan, summary, name) {
        return;
    }
    let used = summary.queue(name).and_then(|q| q.utilisation);
    let line = format!(
        "{name} was meant to be the bottleneck, and no queue built up there; it was used to \
         {:.1} %",
        100.0 * used.unwrap_or(0.0)
    );
    found.distrust("idle-bottleneck", name, line);
}

fn is_shared(rated: &Rated<'_>) -> bool {
    let link = rated.element.spec.facts().link;
    link.is_some_and(|link| link.shared)
}

/// Whether packets hardly waited at a link, and it had time to spare; of one that is shared what
/// others took is not known.
fn is_idle(queue: &QueueSummary, shared: bool) -> bool {
    let Some(sojourn) = &queue.sojourn_ms else {
        return !shared;
    };
    let (Some(rate), Some(utilisation)) = (queue.rate_mbit, queue.utilisation) else {
        return false;
    };
    let mean_bits = queue.wire_bytes as f64 * 8.0 / queue.packets.max(1) as f64;
    let packet_ms = mean_bits / (rate * 1e3);
    let hardly_waited = sojourn.p99 < IDLE_PACKETS * packet_ms;
    if shared {
        return hardly_waited;
    }
    utilisation < UNUSED_UTILISATION || utilisation < IDLE_UTILISATION && hardly_waited
}

/// A flow that sends for as long as it may and is left with next to nothing by what else goes
/// its way. One of which nothing arrived at all has a finding of its own.
fn starved(
    found: &mut Findings,
    (facts, flow): (&FlowPlan, &FlowSummary),
    rated: &[Rated<'_>],
    sharing: &BTreeMap<&str, u64>,
    (from, to): (Instant, Instant),
) {
    // What others take of a shared link is not known, and so no equal share.
    let shared = rated.iter().any(is_shared);
    if YIELDING.contains(&facts.transport.control_name()) || flow.bytes == 0 || shared {
        return;
    }
    let seconds = to.since(from).as_secs_f64();
    let equal = rated.iter().filter_map(|r| {
        let among = sharing.get(&*r.element.name)?;
        Some(r.rates.bits_between(from, to) / seconds / *among as f64)
    });
    let equal = equal.fold(f64::INFINITY, f64::min);
    let got = flow.bytes as f64 * 8.0 / seconds;
    if got < STARVED_SHARE * equal {
        let name = &flow.name;
        let line = format!(
            "{name} all but stopped: it had {} Mbit/s in the steady window, of {} that would be an \
             equal share for each bulk flow at its bottleneck",
            number(Some(got / 1e6)),
            number(Some(equal / 1e6)),
        );
        found.distrust("starved", name, line);
    }
}

/// Where the time of one packet on the link is longer than the queue's marking threshold, each
/// packet that finds another one there is marked, however slowly its sender sends.
fn coarse_step(facts: &FlowPlan, rated: &Rated<'_>) -> Option<String> {
    let step = rated.element.spec.marking_step()?;
    if !facts.transport.needs().ecn || rated.lowest == 0 {
        return None;
    }
    let frame = u64::from(rated.link.mtu) + u64::from(rated.element.spec.overhead_bytes());
    let time = Rate::from_bits(rated.lowest).time_for(frame);
    (time > step).then(|| {
        format!(
            "one packet of {frame} bytes takes {time} at {}, longer than its marking step of \
             {step}: a packet that waits for another is marked, so that a flow such as flow/{} \
             cannot fill the link",
            rated.element.name, facts.name
        )
    })
}
