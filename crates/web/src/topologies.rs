//! Topologies that `narrows up` has brought up, and how their hosts are entered.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::body::Json;
use crate::documents::Documents;
use crate::error::Answer;
use crate::state::{Shared, Work, aside};

/// All topologies of the user whose server this is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Topologies {
    /// By name.
    pub(crate) topologies: Vec<Topology>,
}

/// A topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Topology {
    /// Its name.
    name: String,
    /// The document whose file, or entry of the catalogue, it is of; none of a file elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// Its hosts and routers, each with the command for a terminal in it.
    hosts: Vec<Terminal>,
    /// The command that takes it down.
    down: String,
}

/// How a host is entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Terminal {
    /// The host's name in the scenario.
    host: String,
    /// The command.
    command: String,
}

/// Those that are up.
#[cfg(target_os = "linux")]
pub(crate) fn up(documents: &Documents) -> Vec<Topology> {
    let of = |found: narrows::up::Found| {
        let record = found.record?;
        let hosts = record.hosts.iter().map(|host| Terminal {
            host: host.name.clone(),
            command: format!("narrows enter {}", host.full_name),
        });
        Some(Topology {
            document: documents.id_of(&record.folder, &record.scenario),
            hosts: hosts.collect(),
            down: format!("narrows down {}", found.name),
            name: found.name,
        })
    };
    narrows::up::enterable()
        .into_iter()
        .filter_map(of)
        .collect()
}

/// They stay in Linux's network namespaces.
#[cfg(not(target_os = "linux"))]
pub(crate) fn up(_: &Documents) -> Vec<Topology> {
    Vec::new()
}

/// Lists them.
pub(crate) async fn list(State(state): State<Shared>) -> Answer<Json<Topologies>> {
    aside(&state, Work::Quick, |lab| {
        let topologies = up(&lab.documents);
        Ok(Json(Topologies { topologies }))
    })
    .await
}
