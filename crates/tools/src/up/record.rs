//! What is written down of a topology.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use narrows_linux::start_time;
use narrows_scenario::{NamedElement, Plan};
use serde::{Deserialize, Serialize};

/// The process that holds a topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// When it started ([`start_time`](narrows_linux::start_time)).
    pub start: u64,
}

impl Holder {
    /// The process with this number, if there is one.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let pid = u32::try_from(pid).ok()?;
        start_time(pid).map(|start| Self { pid, start })
    }
}

/// A topology as it was built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// The run that it is on this machine: what is left of one that was killed has its id.
    pub run: String,
    /// The file or the entry of the catalogue that it is of.
    pub scenario: String,
    /// The folder in which that was typed, below which a relative path of a file is.
    #[serde(default)]
    pub folder: PathBuf,
    /// The seed of its elements' randomness.
    pub seed: u64,
    /// Its hosts and routers.
    pub hosts: Vec<HostRecord>,
    /// Its links.
    pub links: Vec<LinkRecord>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its name in the scenario.
    pub name: String,
    /// `<topology>-<host>`, which no other host has.
    pub full_name: String,
    /// Whether it forwards.
    pub router: bool,
    /// Its address.
    pub ipv4: Ipv4Addr,
    /// Its address; `None` where this machine or a link of the topology has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// The descriptor of its network namespace in the process that holds it.
    pub network: i32,
    /// The number of that namespace, as `/proc/PID/ns/net` shows it.
    pub inode: u64,
    /// The descriptor of its mount namespace; `None` where none could be made.
    pub mounts: Option<i32>,
    /// Whether `ip netns` shows it by its full name.
    pub named: bool,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Its name.
    pub name: String,
    /// Up is from the first to the second.
    pub ends: [End; 2],
    /// Its MTU in bytes.
    pub mtu: u32,
    /// Whether its elements are queueing disciplines of the kernel.
    pub kernel: bool,
    /// Its elements in order of travel.
    pub up: Vec<ElementRecord>,
    /// The same for the way back.
    pub down: Vec<ElementRecord>,
}

/// Where a link ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The host.
    pub host: String,
    /// The device in it.
    pub device: String,
}

/// An element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementRecord {
    /// `link/access/up/bottleneck`.
    pub name: String,
    /// `rate 50Mbit queue dualpi2`.
    pub words: String,
}

/// The links of `plan`, whose devices `ends` names.
pub(super) fn links(plan: &Plan, ends: impl Fn(usize) -> [String; 2]) -> Vec<LinkRecord> {
    let elements = |all: &[NamedElement]| {
        let record = |element: &NamedElement| ElementRecord {
            name: element.name.clone(),
            words: element.spec.to_string(),
        };
        all.iter().map(record).collect()
    };
    let links = plan.links.iter().enumerate();
    let record = |(i, link): (usize, &narrows_scenario::LinkPlan)| {
        let [first, second] = ends(i);
        let end = |host, device| End {
            host: plan.host(host).name.clone(),
            device,
        };
        LinkRecord {
            name: link.name.clone(),
            ends: [end(link.ends.0, first), end(link.ends.1, second)],
            mtu: link.mtu,
            kernel: !link.datapath.is_own(),
            up: elements(&link.up),
            down: elements(&link.down),
        }
    };
    links.map(record).collect()
}
