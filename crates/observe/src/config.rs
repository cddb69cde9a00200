//! What an observer is configured with, rather than learns.

use narrows_units::Duration;
use narrows_wire::efm::Profile;

/// How strictly an observer reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObserverMode {
    /// As RFC 9506 says, with what the flow shows.
    #[default]
    Rfc,
    /// As the observer of Guarna's thesis (2024), a patched spindump: every
    /// edge of the spin bit counts, delay marks closer than 225 ms are a round
    /// trip, and acknowledgements give none once a flow is marked.
    Thesis,
}

/// Parameters of signals that are known beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// The client's T_Max of the delay bit.
    pub t_max: Option<Duration>,
    /// Packets in a Q block, at least 4.
    pub block: Option<u32>,
    /// Packets of the new value that make a change of Q or R.
    pub reordering: Option<u32>,
}

/// An observer's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserverConfig {
    /// Flows at a time; with more, the one that was silent longest goes.
    pub max_flows: u32,
    /// A flow that was silent for longer has ended.
    pub idle: Duration,
    /// How strictly it reads.
    pub mode: ObserverMode,
    /// The profile of every flow, whatever handshakes announce.
    pub profile: Option<Profile>,
    /// Whether the responder's answer decides on the profile. If not, both
    /// must announce the same.
    pub negotiated: bool,
    /// Parameters that need not be learnt.
    pub pinned: Pinned,
    /// Seeds the hash of the flow table. Random where others choose addresses.
    pub seed: u64,
}

impl Default for ObserverConfig {
    /// 2²⁰ flows; 300 s until a flow has ended (pping's default).
    fn default() -> Self {
        Self {
            max_flows: 1 << 20,
            idle: Duration::from_secs(300),
            mode: ObserverMode::Rfc,
            profile: None,
            negotiated: false,
            pinned: Pinned::default(),
            seed: 0x9e37_79b9_7f4a_7c15,
        }
    }
}
