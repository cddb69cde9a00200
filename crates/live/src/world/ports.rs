//! Which ports the sockets of a plan have.

use narrows_scenario::Plan;
use narrows_scenario::endpoints::{
    ANSWERER_PORTS, APP_CALLER_PORTS, APP_PORTS, ASKER_PORTS, OPENER_PORTS, PROBE_PORTS,
};

/// Ports of the plan's flows and probes, which no socket gets by chance.
pub(super) fn reserved(plan: &Plan) -> String {
    let ranges = [
        (OPENER_PORTS, plan.flows.len()),
        (ANSWERER_PORTS, plan.flows.len()),
        (ASKER_PORTS, plan.probes.len()),
        (PROBE_PORTS, plan.probes.len()),
        (APP_PORTS, plan.apps.len()),
        (APP_CALLER_PORTS, plan.apps.len()),
    ];
    let text = ranges
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(from, count)| {
            let last = (usize::from(*from) + count - 1).min(usize::from(u16::MAX));
            format!("{from}-{last}")
        });
    text.collect::<Vec<_>>().join(",")
}
