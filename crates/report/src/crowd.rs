//! Many of a kind: which have a row of their own, and what the others come to together.

use std::collections::BTreeMap;

use narrows_results::summary::{FlowSummary, QueueSummary};

/// Flows, queues, … that have a row of their own. A table of thousands is read by nobody, and
/// `summary.csv` has all of them.
pub const NAMED: usize = 50;

/// Rows of the table of groups; what is in further groups is summed up in a last row.
const GROUPS: usize = 50;

/// Indices of the flows that have a row, in the scenario's order: those with most bytes.
pub fn named(flows: &[FlowSummary]) -> Vec<usize> {
    first_by(flows, |flow| flow.bytes_total)
}

/// Indices of the queues that have a row, in the scenario's order: those that marked and
/// dropped most, then those that carried most.
pub fn named_queues(queues: &[QueueSummary]) -> Vec<usize> {
    first_by(queues, |queue| {
        (queue.marks.total() + queue.drops.total(), queue.wire_bytes)
    })
}

fn first_by<T, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(key(&all[*index])));
    order.truncate(NAMED);
    order.sort_unstable();
    order
}

/// Flows with the same control from and to the same hosts.
pub struct Group<'a> {
    /// `cubic, client → server`.
    pub name: String,
    /// At least one.
    pub flows: Vec<&'a FlowSummary>,
}

impl Group<'_> {
    /// The sum of what its flows have.
    pub fn sum(&self, of: impl Fn(&FlowSummary) -> u64) -> u64 {
        self.flows.iter().map(|flow| of(flow)).sum()
    }

    /// Least, median and greatest of what its flows have.
    pub fn spread(&self, of: impl Fn(&FlowSummary) -> Option<f64>) -> [Option<f64>; 3] {
        let mut values: Vec<f64> = self.flows.iter().filter_map(|flow| of(flow)).collect();
        values.sort_by(f64::total_cmp);
        // Of an even number the lower one of the middle two: a flow's own figure.
        let middle = values.len().saturating_sub(1) / 2;
        [values.first(), values.get(middle), values.last()].map(|value| value.copied())
    }

    /// Goodput of all of them, in Mbit/s.
    pub fn goodput_mbit(&self) -> f64 {
        self.flows.iter().filter_map(|flow| flow.goodput_mbit).sum()
    }
}

/// All flows in groups.
pub fn groups(flows: &[FlowSummary]) -> Vec<Group<'_>> {
    let mut groups: Vec<Vec<&FlowSummary>> = Vec::new();
    let mut known: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for flow in flows {
        let at = *known
            .entry([&flow.cc, &flow.from, &flow.to])
            .or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(flow);
    }
    let others: Vec<_> = groups.drain(GROUPS.min(groups.len())..).flatten().collect();
    let called = |flow: &FlowSummary| format!("{}, {} → {}", flow.cc, flow.from, flow.to);
    let groups = groups.into_iter().map(|flows| Group {
        name: called(flows[0]),
        flows,
    });
    let rest = (!others.is_empty()).then(|| Group {
        name: "all others".to_owned(),
        flows: others,
    });
    groups.chain(rest).collect()
}
