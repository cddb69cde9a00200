//! The checked plan: everything that an engine needs to know, and nothing
//! that it would have to check again.

use std::borrow::Cow;
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use narrows_core::FlowId;
use narrows_pep::Layout;
use narrows_units::{Duration, Instant, Rate, Value};
use narrows_wire::Ecn;
use narrows_wire::efm::Profile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::document::Places;
use crate::named_files::NamedFiles;
use crate::parts::{Control, EcnMode, EcnWord, ElementSpec, SignalSpec};

mod app;
mod flow;

pub use app::AppPlan;
pub use flow::{FlowPlan, IpVersion, ViaPlan};

/// One run, checked: names are unique, every flow has a path, every value is
/// in range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The scenario's name.
    pub name: String,
    /// What the scenario shows, in a line.
    pub title: Option<String>,
    /// What it is, and which figures to expect, in a paragraph.
    pub about: Option<String>,
    /// Where it comes from: a paper, a repository, an RFC.
    pub source: Option<String>,
    /// The seed of every generator of randomness.
    pub seed: u64,
    /// How long the run lasts.
    #[serde(serialize_with = "words")]
    pub duration: Duration,
    /// The steady window.
    pub measure: Window,
    /// Further windows that flows are measured in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowPlan>,
    /// How often flows and queues are sampled.
    #[serde(serialize_with = "words")]
    pub sample_interval: Duration,
    /// Findings of the verdict that the experiment is about: they are named and do not
    /// count against the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<String>,
    /// Hosts and routers; a [`HostIndex`] points into it.
    pub hosts: Vec<HostPlan>,
    /// Links; a [`LinkIndex`] points into it.
    pub links: Vec<LinkPlan>,
    /// Proxies between the ends of flows; [`ViaPlan::proxy`] points into it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proxies: Vec<ProxyPlan>,
    /// Flows; a [`narrows_core::FlowId`] is the index here.
    pub flows: Vec<FlowPlan>,
    /// Applications that are named by their kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<AppPlan>,
    /// Latency probes.
    pub probes: Vec<ProbePlan>,
    /// The name of Flent's test whose flows and probes it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<&'static str>,
    /// Traffic mixes whose flows and applications it has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mixes: Vec<MixPlan>,
    /// Observation points, in the order in which the file first names them.
    pub taps: Vec<TapPlan>,
    /// Flows whose packets carry measurement signals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<SignalPlan>,
    /// Programs that run in hosts; the live engine alone has such.
    pub commands: Vec<CommandPlan>,
    /// Observers of measurement signals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<ObserverPlan>,
    /// Packet captures.
    pub captures: Vec<CapturePlan>,
    /// Changes of elements in mid-run, in order of time.
    pub changes: Vec<TimedChange>,
    /// The files that elements name, as they were read.
    #[serde(skip)]
    pub files: Arc<NamedFiles>,
    /// Where its values were written.
    #[serde(skip)]
    pub origin: Origin,
}

/// Where the values of a plan were written, for what is refused after the check. It is no
/// part of what the plan says: plans that differ in nothing else are equal.
#[derive(Clone, Debug, Default)]
pub struct Origin(pub(crate) Arc<Places>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The largest seed: what a TOML integer holds.
pub(crate) const LARGEST_SEED: u64 = i64::MAX as u64;

/// What of a plan is of a traffic mix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MixPlan {
    /// Its name.
    pub name: String,
    /// Its flows, as places in [`Plan::flows`].
    pub flows: Vec<usize>,
    /// Its applications, as places in [`Plan::apps`].
    pub apps: Vec<usize>,
}

/// Index of a host in [`Plan::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct HostIndex(pub usize);

/// Index of a link in [`Plan::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LinkIndex(pub usize);

/// A span of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Its first instant.
    #[serde(serialize_with = "words")]
    pub from: Instant,
    /// Its last.
    #[serde(serialize_with = "words")]
    pub to: Instant,
}

impl Window {
    /// How long it is.
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Whether `at` lies in it (its end does not).
    pub fn contains(&self, at: Instant) -> bool {
        self.from <= at && at < self.to
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

impl Value for Window {
    const ALLOWED: &'static str = "two times within the run, such as \"10s..58s\"";
    const PATTERN: Option<&'static str> =
        Some(r"([0-9]+\.?[0-9]*|\.[0-9]+)[a-z]+\s*\.\.\s*([0-9]+\.?[0-9]*|\.[0-9]+)[a-z]+");

    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once("..")?;
        Some(Self {
            from: Instant::ZERO + Duration::parse(from.trim())?,
            to: Instant::ZERO + Duration::parse(to.trim())?,
        })
    }
}

/// A window that flows are measured in, beside the steady one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WindowPlan {
    /// Its name; what flows and other sources come to in it is of the entities
    /// `window/<name>/<flow>` and `window/<name>/<source>`.
    pub name: String,
    /// Its span.
    pub over: Window,
}

/// A host, or a router between links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostPlan {
    /// Its name; its entity is `host/<name>`.
    pub name: String,
    /// Whether it forwards what is not for it. Flows may start and end here all the same.
    pub router: bool,
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address.
    pub ipv6: Ipv6Addr,
    /// What it is, if it is a node whose ports are elements of the links that begin there.
    #[serde(
        serialize_with = "maybe_words",
        skip_serializing_if = "Option::is_none"
    )]
    pub node: Option<ElementSpec>,
}

/// A link between two hosts, with a chain of elements in each direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkPlan {
    /// Its name; its entity is `link/<name>`.
    pub name: String,
    /// `up` runs from the first to the second.
    pub ends: (HostIndex, HostIndex),
    /// The largest IP packet that it carries, in bytes.
    pub mtu: u32,
    /// Who carries packets along its elements in a live run.
    #[serde(skip_serializing_if = "Datapath::is_own")]
    pub datapath: Datapath,
    /// Elements from the first end to the second, in order of travel.
    pub up: Vec<NamedElement>,
    /// Elements from the second end to the first, in order of travel.
    pub down: Vec<NamedElement>,
}

/// Who carries packets along the elements of a link in a live run. The
/// simulator has one way only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// Narrows' own elements.
    #[default]
    Narrows,
    /// The kernel's queueing disciplines of the same names.
    Kernel,
}

impl Datapath {
    /// Whether it is Narrows' own.
    pub fn is_own(&self) -> bool {
        *self == Self::Narrows
    }
}

/// An element of a link under the name that is its seed, its key and its
/// entity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedElement {
    /// `link/<link>/<up|down>/<name>`; of a two-way box `link/<link>/<name>`, of a tap
    /// `tap/<name>`, the same in both directions, because both are one. The port of a node is
    /// called as the node.
    pub name: String,
    /// What it does.
    #[serde(serialize_with = "words")]
    pub spec: ElementSpec,
}

impl NamedElement {
    /// The last part of the name, as the file spells it.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// A proxy that ends the connections of flows and opens others in their place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProxyPlan {
    /// Its name; its entity is `proxy/<name>`.
    pub name: String,
    /// Where it runs.
    pub host: HostIndex,
    /// How it is asked.
    #[serde(serialize_with = "words")]
    pub layout: Layout,
    /// Whether data may go with the SYN to a destination.
    pub fast_open: bool,
    /// Connections to those that open flows.
    pub near: LegPlan,
    /// Connections to the other ends.
    pub far: LegPlan,
    /// Bytes that wait in each direction of a tunnel at most.
    pub backlog: u64,
    /// Bytes that wait in all tunnels together at most.
    pub budget: u64,
    /// The rate of the leg that it is beside, from which what is not given was reckoned.
    #[serde(serialize_with = "maybe_words")]
    pub capacity: Option<Rate>,
}

/// What the proxy's end of a leg is like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LegPlan {
    /// The congestion control of what the proxy sends there.
    #[serde(serialize_with = "words")]
    pub cc: Control,
    /// What that control needs negotiated.
    #[serde(serialize_with = "ecn_words")]
    pub ecn: EcnMode,
    /// Bytes that its receive window offers at most.
    pub window: Option<u64>,
    /// Bytes that may wait in its send buffer to be sent for the first time.
    pub unsent: Option<u64>,
    /// The element whose rate its control is given, by its full name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A latency probe: a datagram each `interval`, sent back by the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbePlan {
    /// Its name; its entity is `probe/<name>`.
    pub name: String,
    /// Who asks.
    pub from: HostIndex,
    /// Who answers.
    pub to: HostIndex,
    /// Time between questions.
    #[serde(serialize_with = "words")]
    pub interval: Duration,
    /// Length of the IP packet in bytes, both ways.
    pub size: u32,
    /// Code point of both packets.
    pub dscp: u8,
    /// ECN field of both packets.
    #[serde(serialize_with = "codepoint_words")]
    pub ecn: Ecn,
    /// When the first question is sent.
    #[serde(serialize_with = "words")]
    pub start: Instant,
    /// When asking ends, if before the end of the run.
    #[serde(serialize_with = "maybe_words")]
    pub stop: Option<Instant>,
}

/// A program that runs in a host while the run goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandPlan {
    /// Its name; its output is kept under it.
    pub name: String,
    /// Where it runs.
    pub host: HostIndex,
    /// The program and its arguments as they are written: `{server}` stands
    /// for the IPv4 address of the host `server`, `{server/ipv6}` for the
    /// other one, `{{` and `}}` for a brace.
    /// [`arguments`](Self::arguments) fills them in.
    pub run: Vec<String>,
    /// When it is started.
    #[serde(serialize_with = "words")]
    pub start: Instant,
    /// When it is ended, if it has not ended by itself; otherwise at the end
    /// of the run.
    #[serde(serialize_with = "maybe_words")]
    pub stop: Option<Instant>,
}

/// Signals in the packets of flows, at the hosts that put them there. No host
/// has two for one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignalPlan {
    /// Its name; that of the flow where the flow itself says it.
    pub name: String,
    /// The signals and their rules.
    #[serde(serialize_with = "words")]
    pub signals: SignalSpec,
    /// Whose packets carry them, in order: flows over TCP.
    #[serde(serialize_with = "flow_numbers")]
    pub flows: Vec<FlowId>,
    /// Which ends of these flows put them there, in order.
    pub hosts: Vec<HostIndex>,
}

/// One observation point: an element `tap <name>` in one or both directions
/// of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TapPlan {
    /// `tap/<name>`.
    pub name: String,
    /// The link that it is on.
    pub link: LinkIndex,
}

/// An observer of measurement signals at a tap, whose samples are held against
/// what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ObserverPlan {
    /// Its name; what it finds is of the entities `observe/<name>/<flow>`.
    pub name: String,
    /// Its tap, `tap/<name>`.
    pub tap: String,
    /// The window that its figures are of: the steady one, unless it has its own.
    pub measure: Window,
    /// Whether it reads as the observer of Guarna's thesis (2024) does.
    pub thesis: bool,
    /// The profile of every flow, whatever handshakes announce.
    #[serde(serialize_with = "maybe_words")]
    pub profile: Option<Profile>,
    /// Whether the responder's answer decides on the profile.
    pub negotiated: bool,
    /// T_Max of the delay bit, if it is not to be learnt.
    #[serde(serialize_with = "maybe_words")]
    pub t_max: Option<Duration>,
    /// Packets in a Q block, if not to be learnt.
    pub block: Option<u32>,
    /// Packets that make a change of Q or R, if not to be learnt.
    pub reordering: Option<u32>,
    /// The techniques of which samples are kept and summed up, by their words;
    /// all if empty.
    pub techniques: Vec<String>,
}

/// A packet capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CapturePlan {
    /// Its name, and that of its file.
    pub name: String,
    /// Where packets are seen.
    pub at: CapturePoint,
    /// How many bytes of each packet are kept.
    pub snaplen: u32,
}

/// The place of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CapturePoint {
    /// At a tap, by its full name `tap/<name>`.
    Tap(String),
    /// At a host: what it sends and what reaches it.
    Host(HostIndex),
}

/// A change of an element while the run goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimedChange {
    /// Its name, by which `change/<name>/to` and the like are set.
    pub name: Option<String>,
    /// When.
    #[serde(serialize_with = "words")]
    pub at: Instant,
    /// The element's full name.
    pub target: String,
    /// Its new parameters, in its own words; what is not named stays.
    pub words: String,
}

impl Plan {
    /// The host at `index`.
    ///
    /// # Panics
    /// If the index is of another plan.
    pub fn host(&self, index: HostIndex) -> &HostPlan {
        &self.hosts[index.0]
    }

    /// The host called `name`.
    pub fn host_named(&self, name: &str) -> Option<HostIndex> {
        self.hosts
            .iter()
            .position(|h| h.name == name)
            .map(HostIndex)
    }

    /// The sentence `why`, after file, line and column of the value that it is about, by its
    /// full name (`flow/cubic/cc`), or of the table that the value belongs to.
    pub fn placed(&self, about: &str, why: impl Display) -> String {
        match self.origin.0.written(about) {
            Some(spot) => {
                let (line, column) = spot.line_and_column();
                format!("{}:{line}:{column}: {why}", spot.name())
            }
            None => why.to_string(),
        }
    }

    /// The full name of an element: `name`, or `link/access/up/bottleneck` for
    /// `link/up/bottleneck` where `access` is the only link.
    pub(crate) fn full_name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match (&self.links[..], &name.split('/').collect::<Vec<_>>()[..]) {
            ([link], ["link", direction @ ("up" | "down"), element]) => {
                Cow::Owned(format!("link/{}/{direction}/{element}", link.name))
            }
            _ => Cow::Borrowed(name),
        }
    }

    /// All elements of all links, each direction in order of travel. A tap or
    /// two-way box occurs once for each of its directions.
    pub fn elements(&self) -> impl Iterator<Item = &NamedElement> {
        self.links
            .iter()
            .flat_map(|link| link.up.iter().chain(&link.down))
    }
}

fn words<T: ToString, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&value.to_string())
}

fn maybe_words<T: ToString, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_str(&value.to_string()),
        None => to.serialize_none(),
    }
}

fn ecn_words<S: Serializer>(mode: &EcnMode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(ecn_mode_word(*mode))
}

fn codepoint_words<S: Serializer>(ecn: &Ecn, to: S) -> Result<S::Ok, S::Error> {
    words(&EcnWord(*ecn), to)
}

fn flow_numbers<S: Serializer>(flows: &[FlowId], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(flows.iter().map(|flow| flow.0))
}

/// How a file spells an ECN mode.
pub fn ecn_mode_word(mode: EcnMode) -> &'static str {
    match mode {
        EcnMode::Off => "off",
        EcnMode::Classic => "classic",
        EcnMode::AccEcn => "accecn",
        EcnMode::Auto => "auto",
    }
}
