//! Keys of a scenario that are no part of its network.

use narrows_scenario::Plan;
use toml::{Table, Value};

use crate::outline::{Node, Outline};
use crate::{Lost, lost};

/// Tables of which each entry has a name, by which those are named that are lost.
const NAMED: [&str; 9] = [
    "flow", "app", "probe", "command", "proxy", "mark", "observe", "capture", "change",
];

/// Why a network of devices and disciplines has no place for a key of a scenario.
fn why(key: &str) -> &'static str {
    match key {
        "title" | "about" | "source" => "words about the scenario",
        "duration" => "how long a run lasts: the network is up until it is taken down",
        "measure" | "window" => "the part of a run that counts",
        "seed" => "what an element of Narrows draws from; the kernel draws for itself",
        "sample_interval" => "how often a run is sampled",
        "start_offset" => "when the flows of a run begin",
        "expected" => "what the verdict of a run may find",
        "host_model" => "a model of hosts, in place of which programs run on the kernel's",
        _ => "of a run, and not of the network",
    }
}

/// Keys at the root of the scenario, and tables in which nothing has a name of its own.
pub(crate) fn of_runs(plan: &Plan) -> Vec<Lost> {
    let keys = tables(&Outline::of(plan));
    let others = keys.keys().filter(|key| !NAMED.contains(&key.as_str()));
    others.map(|key| lost(key.as_str(), why(key))).collect()
}

/// All of a scenario that is no node and no link: what there is of it, by the key of its root.
pub(crate) fn tables(outline: &Outline) -> Table {
    // What the scenario's own writer wrote is TOML.
    outline.rest.text.parse().unwrap_or_default()
}

/// How many tables of an array there are; `None` of another value.
pub(crate) fn count(value: &Value) -> Option<usize> {
    let list = value.as_array()?;
    list.iter().all(Value::is_table).then_some(list.len())
}

/// The keys of a node among `keys`, that a scenario says.
pub(crate) fn of_node(node: &Node, keys: &[&str], why: &str) -> Vec<Lost> {
    let said = [("is", &node.is), ("ipv4", &node.ipv4), ("ipv6", &node.ipv6)];
    let said = said
        .into_iter()
        .filter(|(key, value)| keys.contains(key) && value.is_some());
    said.map(|(key, _)| lost(format!("host/{}/{key}", node.name), why))
        .collect()
}
