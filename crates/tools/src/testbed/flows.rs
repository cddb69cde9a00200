//! The flows of a scenario as flow files, which `narrows traffic run` reads in the sink.

use narrows_scenario::{Control, FlowPlan, IpVersion, Refusal, Traffic, Transport};
use narrows_traffic::Mix;
use narrows_units::Duration;
use serde_json::{Map, Value, json};

use super::line::{Line, Role};

/// Controls that the kernel of a machine has under the same name as ours.
const OF_KERNELS: [&str; 2] = ["reno", "cubic"];

/// What the sink asks for.
pub(super) struct Flows {
    /// Flow files by name.
    pub(super) files: Vec<(String, String)>,
    /// The controls that they ask for, by the kernel's names, each once.
    pub(super) controls: Vec<String>,
    /// What of the scenario is not among them, a sentence each.
    pub(super) left_out: Vec<String>,
}

/// The flow files of a line.
///
/// # Errors
/// When no flow is left, or a name or a value is none that a flow file takes.
pub(super) fn of(line: &Line) -> Result<Flows, Refusal> {
    let plan = &line.plan;
    let mut left_out = Vec::new();
    let mut files = Vec::new();
    let mut controls: Vec<String> = Vec::new();
    for (i, flow) in plan.flows.iter().enumerate() {
        match config(line, flow) {
            Ok(config) => {
                let asked = config.get("congestion-ctrl").and_then(Value::as_str);
                controls.extend(asked.map(str::to_owned));
                let start = format!("{}s", seconds(Duration::from_nanos(flow.start.as_nanos())));
                let file = json!({
                    "label": flow.name,
                    "client": {"at": [start], "config": config},
                });
                files.push((format!("{i:03}.yaml"), format!("{file}\n")));
            }
            Err(why) => left_out.push(format!("flow/{} is not run: {why}", flow.name)),
        }
    }
    let others = [
        ("[[app]]", plan.apps.len()),
        ("[[probe]]", plan.probes.len()),
        ("[[mark]]", plan.marks.len()),
        ("[[command]]", plan.commands.len()),
        ("[[change]]", plan.changes.len()),
        ("[[observe]]", plan.observers.len()),
        ("[[capture]]", plan.captures.len()),
    ];
    let others = others.iter().filter(|(_, number)| *number > 0);
    left_out.extend(others.map(|(table, _)| format!("{table} is not run")));
    if files.is_empty() {
        let found = match left_out.is_empty() {
            true => "no flow".to_owned(),
            false => format!("no flow that machines run ({})", left_out.join("; ")),
        };
        return Err(Refusal::new("flow", found, "a flow from source to sink"));
    }
    let texts = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    // What the sink will read, so that it is refused here and not there.
    Mix::of_files(texts).map_err(|error| {
        Refusal::new("flow", error.to_string(), "names and values of a flow file")
    })?;
    controls.sort();
    controls.dedup();
    Ok(Flows {
        files,
        controls,
        left_out,
    })
}

/// What is sent, in iperf3's words; or why it is not.
fn config(line: &Line, flow: &FlowPlan) -> Result<Map<String, Value>, String> {
    let host = |role| line.places[line.index(role)].host;
    if (flow.from, flow.to) != (host(Role::Source), host(Role::Sink)) {
        return Err("it does not go from source to sink".to_owned());
    }
    if flow.ip != IpVersion::V4 || flow.via.is_some() {
        return Err("machines run IPv4, and no proxy".to_owned());
    }
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| drop(config.insert(key.to_owned(), value));
    put("server-address", json!(line.address(Role::Source)));
    if flow.dscp > 0 {
        put("dscp", json!(flow.dscp));
    }
    match &flow.transport {
        Transport::Tcp(options) => put("congestion-ctrl", json!(control(&options.cc)?)),
        Transport::Datagrams => put("udp", json!(true)),
        Transport::Quic(_) | Transport::Modelled(_) => {
            return Err("machines run TCP and plain datagrams".to_owned());
        }
    }
    let end = flow.stop.map_or(line.plan.duration, |stop| {
        Duration::from_nanos(stop.as_nanos())
    });
    let lasts = Duration::from_nanos(end.as_nanos().saturating_sub(flow.start.as_nanos()));
    match flow.traffic {
        Traffic::Bytes(bytes) => put("bytes", json!(bytes)),
        Traffic::Bulk => put("time-s", json!(seconds(lasts))),
        Traffic::Writes(writes) => {
            let bits = u128::from(writes.bytes) * 8 * 1_000_000_000;
            let rate = bits / u128::from(writes.every.as_nanos()).max(1);
            put("target-bitrate", json!(rate.to_string()));
            put("time-s", json!(seconds(lasts)));
        }
        Traffic::Cbr(datagrams) => {
            put("target-bitrate", json!(datagrams.rate.as_bits()));
            put("length", json!(datagrams.size));
            put("time-s", json!(seconds(lasts)));
        }
        _ => return Err("its datagrams are not evenly spaced".to_owned()),
    }
    Ok(config)
}

/// The name that the machine's kernel has for a control.
fn control(control: &Control) -> Result<&str, String> {
    match control {
        Control::Kernel(name) => Ok(name),
        Control::Own(spec) if OF_KERNELS.contains(&spec.name()) => Ok(spec.name()),
        other => {
            let name = other.name();
            Err(format!(
                "`{name}` is not a machine's control (`kernel:{name}` asks its kernel)"
            ))
        }
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}
