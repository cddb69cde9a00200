//! What a run reports to its caller.

use std::sync::Arc;

use narrows_app::FlowAccount;
use narrows_core::{ElementCounters, EntityId, SocketError};
use narrows_efm::HostSignals;
use narrows_scenario::{BadChange, Plan};
use narrows_units::{Duration, Instant};

/// What a run counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Wakes that the engine served.
    pub events: u64,
    /// Packets made.
    pub packets: u64,
    /// Packets pushed into elements, one for each element passed.
    pub packet_hops: u64,
    /// Packets that reached a host that wanted them.
    pub delivered: u64,
    /// Packets dropped, by whomever.
    pub dropped: u64,
    /// Packets still in the path at the end.
    pub in_flight: u64,
    /// Sockets still in use at the end.
    pub sockets: usize,
    /// Virtual time that was run.
    pub virtual_time: Duration,
    /// Whether the run was cancelled before its end.
    pub interrupted: bool,
    /// Each element's counters, in the plan's order.
    pub elements: Vec<ElementReport>,
    /// Each flow, in the plan's order.
    pub flows: Vec<FlowReport>,
    /// What the plan's marks did at each of their hosts.
    pub signals: Vec<HostSignals>,
    /// The names of entities, by their index.
    pub names: Vec<String>,
    /// The plan that was run, where changes were added to it while the run went on.
    pub amended: Option<Arc<Plan>>,
}

/// What an element counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementReport {
    /// Which element; the two sides of a tap share one.
    pub element: EntityId,
    /// Its counters.
    pub counters: ElementCounters,
}

/// How a flow fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Whether the sender's connection was opened; datagrams need none.
    pub established: bool,
    /// Classic ECN was negotiated; of QUIC, that packets carry ECT(0).
    pub ecn: bool,
    /// AccECN was negotiated.
    pub accecn: bool,
    /// Payload bytes handed to the receiving application in order.
    pub delivered: u64,
    /// All that the application had to send arrived.
    pub complete: bool,
    /// The connection was reset or given up.
    pub broken: bool,
}

impl FlowReport {
    /// What the account of a flow comes to.
    pub(crate) fn of(account: &FlowAccount) -> Self {
        Self {
            established: account.established(),
            ecn: account.ecn(),
            accecn: account.accecn(),
            delivered: account.delivered(),
            complete: account.complete(),
            broken: account.broken(),
        }
    }
}

impl SimError {
    /// The full name of what in the plan it is about, `flow/cubic/cc`; empty for what is
    /// about no value of it.
    pub fn about(&self) -> String {
        match self {
            Self::Kernel { owner, .. } | Self::Unrepeatable { owner, .. } => {
                format!("{owner}/cc")
            }
            Self::KernelAtProxy { proxy, leg, .. } => format!("proxy/{proxy}/{leg}_cc"),
            Self::Command { command } => format!("command/{command}"),
            Self::Timeless { flow } => format!("flow/{flow}"),
            Self::Change(change) => change.target.clone(),
            Self::App { app, .. } => app.clone(),
            Self::Setup(_) | Self::Stuck { .. } | Self::Late { .. } => String::new(),
        }
    }
}

/// Why a plan cannot be run. A plan that was checked, and that
/// [`accepts`](crate::accepts) lets pass, has none of these faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A flow or an application has an algorithm that only a kernel has.
    #[error(
        "{owner}: `{control}` runs in a kernel only; give it one of Narrows' own controls, \
         kernel:reno or kernel:cubic, or run it with --engine live or kernel"
    )]
    Kernel {
        /// The flow or application by its full name.
        owner: String,
        /// Its control, as written.
        control: String,
    },
    /// A proxy has an algorithm that only a kernel has.
    #[error(
        "proxy/{proxy}: `{control}` runs in a kernel only; give its {leg} leg one of Narrows' own \
         controls, kernel:reno or kernel:cubic, or run it with --engine live or kernel"
    )]
    KernelAtProxy {
        /// The proxy.
        proxy: String,
        /// `near` or `far`.
        leg: &'static str,
        /// Its control there, as written.
        control: String,
    },
    /// A flow or an application has a control that draws from the operating system.
    #[error(
        "{owner}: quinn's `{control}` draws from the system's own randomness, so that no run \
         would repeat; give it quic:cubic or quic:newreno, or run it with --engine live"
    )]
    Unrepeatable {
        /// The flow or application by its full name.
        owner: String,
        /// Its control, as written.
        control: String,
    },
    /// Programs run in real hosts only.
    #[error(
        "command/{command}: the simulator runs no programs; take [[command]] out, or run it \
         with --engine live"
    )]
    Command {
        /// The first of them.
        command: String,
    },
    /// A flow would send without end at one instant.
    #[error(
        "flow/{flow}: nothing on its way takes time, neither a delay nor a rate, so that it would \
         send without end at one instant; give a link `netem delay 1ms` or `rate 1Gbit`, give \
         the flow `bytes`, or run it with --engine live"
    )]
    Timeless {
        /// The flow.
        flow: String,
    },
    /// The ends of a flow are not joined, or there are too many.
    #[error(transparent)]
    Setup(#[from] narrows_engine::SetupError),
    /// A change names an element that is not there, or has words that it does
    /// not understand.
    #[error(transparent)]
    Change(#[from] BadChange),
    /// An application cannot begin.
    #[error("{app} cannot begin: {why}")]
    App {
        /// Which.
        app: String,
        /// Why.
        why: SocketError,
    },
    /// An entity asked to be called again and again at one instant.
    #[error("{entity} makes no progress at {at}")]
    Stuck {
        /// Who.
        entity: String,
        /// When.
        at: Instant,
    },
    /// A change was added when its time had come, or one that was made was taken away.
    #[error("at {now}: changes may be added for later times only")]
    Late {
        /// What the run had reached.
        now: Instant,
    },
}
