//! `[test]` as the `[[flow]]` and `[[probe]]` tables that it stands for.

use narrows_units::{Duration, Value as _};

use super::{DELAY, FlentTest, MOST_STREAMS, STEP_SIZE};
use crate::source::Spot;
use crate::tree::{Node, Value};

/// Keys of `[test]` that each of its flows has.
const OF_FLOWS: [&str; 5] = ["cc", "transport", "ecn", "ip", "host_model"];

/// Adds the flows and probes of `[test]` behind those that `root` has. What is wrong in the table
/// is refused when it is read; then nothing is added.
pub(crate) fn expand(root: &mut Node) {
    let Some((flows, probes, window)) = root.at("test").and_then(|test| parts(root, test)) else {
        return;
    };
    if root.at("measure").is_none() {
        root.put("measure", window);
    }
    add(root, "flow", flows);
    add(root, "probe", probes);
}

/// The tables of flows and of probes, and the window between the begin of all flows and their end.
fn parts(root: &Node, test: &Node) -> Option<(Vec<Node>, Vec<Node>, Node)> {
    let spot = &test.spot;
    let text = |words: &str| Node::text(words, spot);
    let streams = test.at("streams").and_then(Node::as_whole);
    if streams.is_some_and(|streams| streams > MOST_STREAMS) {
        return None;
    }
    let flent = FlentTest::named(test.at("flent")?.as_text()?, streams)?;
    let (from, to) = (test.at("from")?, test.at("to")?);
    let delay = test.at("delay").cloned().unwrap_or_else(|| text(DELAY));
    let duration = Duration::parse(root.at("duration")?.as_text()?.trim())?;
    let (start, stop) = times(duration, Duration::parse(delay.as_text()?.trim())?)?;

    let flow = |flow: &super::FlentFlow| {
        let (sender, receiver) = if flow.down { (to, from) } else { (from, to) };
        let mut table = Node::table(
            [
                ("name", text(&flow.name)),
                ("from", sender.clone()),
                ("to", receiver.clone()),
                // Netperf's client opens all connections.
                ("opens", from.clone()),
                ("cc", text("cubic")),
                ("dscp", text(flow.dscp)),
                ("start", delay.clone()),
                ("stop", text(&stop.to_string())),
            ],
            spot,
        );
        for key in OF_FLOWS {
            if let Some(value) = test.at(key) {
                table.put(key, value.clone());
            }
        }
        table
    };
    let probe = |probe: &super::FlentProbe| {
        Node::table(
            [
                ("name", text(probe.name)),
                ("from", from.clone()),
                ("to", to.clone()),
                ("dscp", text(probe.dscp)),
                ("interval", text(STEP_SIZE)),
            ],
            spot,
        )
    };
    let window = text(&format!("{start}..{stop}"));
    let flows = flent.flows.iter().map(flow).collect();
    Some((flows, flent.probes.iter().map(probe).collect(), window))
}

/// When flows begin and when they end in a run of that length; `None` if that leaves no time.
pub(crate) fn times(duration: Duration, delay: Duration) -> Option<(Duration, Duration)> {
    let stop = duration.saturating_sub(delay);
    (stop > delay).then_some((delay, stop))
}

fn add(root: &mut Node, kind: &str, tables: Vec<Node>) {
    match root.at_mut(kind).map(|node| &mut node.value) {
        Some(Value::List(before)) => before.extend(tables),
        // What else it is, is refused.
        Some(_) => {}
        None => root.put(kind, Node::list(tables, &Spot::whole("[test]", ""))),
    }
}
