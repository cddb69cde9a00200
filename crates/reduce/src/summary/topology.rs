//! The network of a run, as pages draw it.

use serde::{Deserialize, Serialize};

/// The graph of a run, enough to draw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// Hosts and routers.
    pub hosts: Vec<TopologyHost>,
    /// Links between them.
    pub links: Vec<TopologyLink>,
    /// Timed changes, as (seconds, element's name, words).
    #[serde(default)]
    pub changes: Vec<(f64, String, String)>,
    /// Flows that go by proxies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<TopologySplit>,
}

/// A flow whose connection a proxy splits in two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologySplit {
    /// Short name of the flow, `bulk`.
    pub flow: String,
    /// Short name of the proxy, `pep`.
    pub proxy: String,
    /// Names of the host that sends data, of the proxy's, and of the one that receives.
    pub hosts: [String; 3],
    /// What sends on the leg to the proxy, and on the leg from it, in words.
    pub controls: [String; 2],
}

/// A host or router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyHost {
    /// Short name, `client`.
    pub name: String,
    /// Whether it only forwards.
    pub router: bool,
}

/// A link with its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// Short name, `access`.
    pub name: String,
    /// Names of its two ends; `up` goes from the first to the second.
    pub ends: (String, String),
    /// Elements from the first end to the second, in travel order.
    pub up: Vec<TopologyElement>,
    /// Elements the other way, in travel order.
    pub down: Vec<TopologyElement>,
}

/// An element of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyElement {
    /// Full name, `link/access/up/bottleneck`.
    pub name: String,
    /// In its own words.
    pub words: String,
}
