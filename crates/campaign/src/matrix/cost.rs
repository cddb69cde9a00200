//! What runs cost.

use narrows_results::facts::RateSteps;
use narrows_scenario::Plan;

/// What a run costs, in an unit of its own: bits through the first flow's
/// bottleneck, and a little for each second.
pub(super) fn weight(plan: &Plan) -> f64 {
    let lowest = plan.flows.first().and_then(|flow| {
        plan.elements_between(&plan.routes(), flow.from, flow.to)
            .filter_map(|(_, e)| RateSteps::of(plan, &e.name))
            .map(|r| r.lowest().as_mbit_f64())
            .min_by(f64::total_cmp)
    });
    plan.duration.as_secs_f64() * (1.0 + lowest.unwrap_or(0.0))
}
