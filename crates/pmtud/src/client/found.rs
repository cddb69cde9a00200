//! What a client found, probe by probe.

use std::net::IpAddr;

use narrows_units::Duration;

use crate::counts::Counts;
use crate::report::Effect;
use crate::search::Search;

/// Which way sizes are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    There,
    /// From it.
    Back,
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// No acknowledgement of it was received.
    Lost,
    /// It arrived, as was known after this time.
    Arrived(Duration),
    /// Somebody reported that it is too big.
    Reported {
        /// Who, if that is known.
        by: Option<IpAddr>,
        /// The MTU that the report names.
        mtu: u32,
        /// What was made of it.
        effect: Effect,
    },
    /// Somebody reported that it is too big, and it arrived all the same.
    Contradicted {
        /// Who, if that is known.
        by: Option<IpAddr>,
        /// The MTU that the report names.
        mtu: u32,
        /// After what time its arrival was known.
        after: Duration,
    },
}

/// A probe, as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, since the search began.
    pub at: Duration,
    /// Its size.
    pub size: u16,
    /// What became of it.
    pub fate: Fate,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The search.
    pub search: Search,
    /// Of which way.
    pub way: Way,
    /// Whether only a base was looked for.
    pub is_base: bool,
    /// The size that was found; 0 where not even the smallest arrived.
    pub plpmtu: u16,
    /// The MTU of that, headers included; 0 likewise.
    pub mtu: u32,
    /// Bytes of headers of each packet.
    pub headers: u16,
    /// The base from which it was found.
    pub base: u16,
    /// From the first probe to the end of the search, before its result was checked.
    pub time: Duration,
    /// What it has cost, without that check.
    pub counts: Counts,
    /// Each probe, with those of the check.
    pub steps: Vec<Step>,
}
