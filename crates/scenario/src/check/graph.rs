//! Which hosts can reach each other.

use crate::plan::{HostIndex, Plan};

/// Hosts in groups that links join.
pub(super) struct Reach {
    group: Vec<usize>,
}

impl Reach {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut neighbours = vec![Vec::new(); plan.hosts.len()];
        for link in &plan.links {
            neighbours[link.ends.0.0].push(link.ends.1.0);
            neighbours[link.ends.1.0].push(link.ends.0.0);
        }
        let mut group = vec![usize::MAX; plan.hosts.len()];
        for start in 0..plan.hosts.len() {
            let mut next = vec![start];
            while let Some(host) = next.pop() {
                if group[host] == usize::MAX {
                    group[host] = start;
                    next.extend(&neighbours[host]);
                }
            }
        }
        Self { group }
    }

    /// Whether links lead from one to the other, through whatever stands
    /// between.
    pub(super) fn joins(&self, a: HostIndex, b: HostIndex) -> bool {
        self.group[a.0] == self.group[b.0]
    }
}
