//! What the box runs: the links that it is an end of, as a topology that stays.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use narrows_scenario::{HostIndex, HostPlan, LinkPlan, NamedFiles, Plan, Refusal};

use super::line::Line;

/// What the topology is called in the box.
pub(super) const TOPOLOGY: &str = "testbed";

/// The hosts of the topology: where the device towards the source is, the box itself, and where the
/// device towards the sink is.
pub(super) const HOSTS: [&str; 3] = ["near", "box", "far"];

/// Their addresses, of the range that is the machines' own.
pub(super) const STUBS: [Ipv4Addr; 3] = [
    Ipv4Addr::new(169, 254, 77, 101),
    Ipv4Addr::new(169, 254, 77, 102),
    Ipv4Addr::new(169, 254, 77, 103),
];

/// The name by which root finds a host of the topology.
pub(super) fn namespace(host: &str) -> String {
    format!("{TOPOLOGY}-{host}")
}

/// The scenario file of the box, and the files that its elements name, by their names.
///
/// # Errors
/// When an element names a file outside of the scenario's folder.
pub(super) fn scenario(line: &Line) -> Result<(String, Vec<(String, String)>), Refusal> {
    let full = &line.plan;
    let neighbours = [
        line.places[line.at_box - 1].host,
        line.places[line.at_box].host,
        line.places[line.at_box + 1].host,
    ];
    let place = |host: HostIndex| {
        let at = neighbours.iter().position(|known| *known == host);
        HostIndex(at.unwrap_or(0))
    };
    let links = line.links_of_box().map(|link| LinkPlan {
        ends: (place(link.ends.0), place(link.ends.1)),
        ..link.clone()
    });
    let hosts = HOSTS.iter().zip(STUBS).zip(neighbours);
    let hosts = hosts.map(|((name, ipv4), of)| HostPlan {
        name: (*name).to_owned(),
        router: true,
        ipv4,
        ..full.host(of).clone()
    });
    let plan = Plan {
        title: None,
        about: None,
        source: None,
        hosts: hosts.collect(),
        links: links.to_vec(),
        proxies: Vec::new(),
        flows: Vec::new(),
        apps: Vec::new(),
        probes: Vec::new(),
        test: None,
        mixes: Vec::new(),
        marks: Vec::new(),
        commands: Vec::new(),
        observers: Vec::new(),
        captures: Vec::new(),
        changes: Vec::new(),
        windows: Vec::new(),
        expected: Vec::new(),
        files: Arc::clone(&full.files),
        ..full.clone()
    };
    Ok((plan.to_toml(), named(&full.files)?))
}

/// Files by their names, which lead nowhere but below the folder that they are in.
fn named(files: &NamedFiles) -> Result<Vec<(String, String)>, Refusal> {
    let plain = |name: &str| {
        let mut parts = name.split('/');
        parts.all(|part| !matches!(part, "" | "." | ".."))
    };
    let unreadable = |e: serde_json::Error| Refusal::new("", e.to_string(), "names and texts");
    let texts = serde_json::to_value(files).and_then(serde_json::from_value);
    let texts: BTreeMap<String, String> = texts.map_err(unreadable)?;
    if let Some(name) = texts.keys().find(|name| !plain(name)) {
        let found = format!("`{name}`");
        return Err(Refusal::new(
            "",
            found,
            "a file below the scenario's folder",
        ));
    }
    Ok(texts.into_iter().collect())
}
