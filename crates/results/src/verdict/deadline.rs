//! Transfers with a deadline: whether it was kept, and whether it could be.

use narrows_scenario::FlowPlan;

use super::checks::Findings;
use crate::summary::FlowSummary;
use crate::text::seconds;

/// Part of the deadline by which a transfer may be late without a word: the deadline is
/// soft, and a control sees what it sends once per interval.
const LATE: f64 = 0.01;

/// Of a flow whose control knows a size and a deadline.
pub(super) fn judge(found: &mut Findings, facts: &FlowPlan, flow: &FlowSummary) {
    let Some(spec) = facts.transport.tcp().and_then(|tcp| tcp.cc.simulated()) else {
        return;
    };
    let given = |name| spec.option(name).filter(|value| *value > 0);
    let (Some(deadline_us), Some(_)) = (given("deadline"), given("size")) else {
        return;
    };
    let (name, deadline) = (&flow.name, deadline_us as f64 / 1e6);
    let reported = |field: &str| flow.telemetry.iter().find(|t| t.name == field);
    if let Some(at) = reported("out_of_reach_s").and_then(|t| t.figures.min()) {
        let line = format!(
            "{name} found after {} s that its deadline of {} s is out of reach: best effort was \
             reckoned to be slower than is needed in three intervals in a row",
            seconds(at),
            seconds(deadline)
        );
        found.note("deadline-out-of-reach", name, line);
    }
    let late = flow.fct_s.map(|fct| fct - deadline);
    if let Some(late) = late.filter(|late| *late > LATE * deadline) {
        let line = format!(
            "{name} was done {} s after its deadline of {} s, {:.1} % late",
            seconds(late),
            seconds(deadline),
            100.0 * late / deadline
        );
        found.note("deadline-missed", name, line);
    }
}
