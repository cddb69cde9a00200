//! What results need to know of a plan: rates over time, paths, the drawing.

use std::sync::Arc;

use narrows_path::Trace;
use narrows_scenario::{ElementSpec, FlowPlan, HostIndex, NamedElement, Plan};
use narrows_units::{Instant, Rate, Words};

use crate::summary::{Topology, TopologyElement, TopologyHost, TopologyLink};

/// A link's rate over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateSteps {
    /// From each instant on, a rate.
    Steps(Vec<(Instant, Rate)>),
    /// What a recording allows.
    Trace(Arc<Trace>),
}

impl RateSteps {
    /// The rates of the element `name`; `None` if it has none.
    pub fn of(plan: &Plan, name: &str) -> Option<Self> {
        let element = plan.elements().find(|e| e.name == name)?;
        if let ElementSpec::Trace(spec) = &element.spec {
            return Some(Self::Trace(Arc::clone(&spec.trace)));
        }
        let mut steps = vec![(Instant::ZERO, rate_in(&element.spec.to_string())?)];
        for change in plan.changes.iter().filter(|c| c.target == name) {
            if let Some(rate) = rate_in(&change.words) {
                steps.push((change.at, rate));
            }
        }
        Some(Self::Steps(steps))
    }

    /// Bytes that fit between `from` and `to`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        let steps = match self {
            Self::Steps(steps) => steps,
            Self::Trace(trace) => return trace.bytes_between(from, to),
        };
        let ends = steps.iter().skip(1).map(|s| s.0).chain([Instant::MAX]);
        steps
            .iter()
            .zip(ends)
            .map(|(&(start, rate), end)| rate.bytes_in(end.min(to).since(start.max(from))))
            .sum()
    }

    /// The lowest rate; of a recording the mean, for its lowest is mostly
    /// none.
    pub fn lowest(&self) -> Rate {
        match self {
            Self::Steps(steps) => steps.iter().map(|s| s.1).min().unwrap_or_default(),
            Self::Trace(trace) => trace.mean_rate(),
        }
    }
}

/// The rate in the words of an element or of its change: `rate 50Mbit …`.
fn rate_in(words: &str) -> Option<Rate> {
    let mut words = Words::new(words);
    words.take_if("rate").then(|| words.value().ok())?
}

/// The elements that the data of `flow` meets, in order: along the path with
/// the fewest links (the first found, in the plan's order, of several).
pub fn path_of<'a>(plan: &'a Plan, flow: &FlowPlan) -> Vec<&'a NamedElement> {
    // Breadth first from the sender; `came` is how a host was reached.
    let mut came: Vec<Option<(usize, HostIndex)>> = vec![None; plan.hosts.len()];
    let mut frontier = std::collections::VecDeque::from([flow.from]);
    while let Some(at) = frontier.pop_front() {
        for (index, link) in plan.links.iter().enumerate() {
            let next = match link.ends {
                (a, b) if a == at => b,
                (a, b) if b == at => a,
                _ => continue,
            };
            if next != flow.from && came[next.0].is_none() {
                came[next.0] = Some((index, at));
                frontier.push_back(next);
            }
        }
    }
    let mut hops = Vec::new();
    let mut at = flow.to;
    while let Some((link, before)) = came[at.0] {
        hops.push((link, before));
        at = before;
    }
    hops.iter()
        .rev()
        .flat_map(|&(link, before)| {
            let link = &plan.links[link];
            if link.ends.0 == before {
                &link.up
            } else {
                &link.down
            }
        })
        .collect()
}

/// The drawing of `plan`.
pub fn topology(plan: &Plan) -> Topology {
    let elements = |list: &[NamedElement]| {
        list.iter()
            .map(|e| TopologyElement {
                name: e.name.clone(),
                words: e.spec.to_string(),
            })
            .collect()
    };
    Topology {
        hosts: plan
            .hosts
            .iter()
            .map(|h| TopologyHost {
                name: h.name.clone(),
                router: h.router,
            })
            .collect(),
        links: plan
            .links
            .iter()
            .map(|l| TopologyLink {
                name: l.name.clone(),
                ends: (
                    plan.host(l.ends.0).name.clone(),
                    plan.host(l.ends.1).name.clone(),
                ),
                up: elements(&l.up),
                down: elements(&l.down),
            })
            .collect(),
        changes: plan
            .changes
            .iter()
            .map(|c| (c.at.as_secs_f64(), c.target.clone(), c.words.clone()))
            .collect(),
    }
}
