//! `[test]`: one of Flent's tests.

use narrows_units::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Choices, OneOf, Spelled, Whole, Words};
use super::place::{Optional, Required};
use super::scenario::{EcnRequest, HostModel};
use crate::flent::{MOST_STREAMS, NAMES};
use crate::parts::Control;
use crate::transport::TransportName;

/// One of Flent's tests: what it has of flows and probes.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    /// Its name, as Flent has it: `rrul`, `rrul_be`, `tcp_8up`.
    pub(crate) flent: Required<OneOf<TestName>>,
    /// The client: uploads go from it to the server.
    pub(crate) from: Required<String>,
    /// The server.
    pub(crate) to: Required<String>,
    /// How many flows `tcp_nup` or `tcp_ndown` has; 4 by default.
    pub(crate) streams: Optional<Whole<1, MOST_STREAMS>>,
    /// When its flows begin, and how long before the run's end they stop; `5s` by default.
    pub(crate) delay: Optional<Spelled<Duration>>,
    /// The congestion control of its flows in words; `cubic` by default.
    pub(crate) cc: Optional<Words<Control>>,
    /// `tcp` or `quic`; what `cc` is made for by default.
    pub(crate) transport: Optional<Words<TransportName>>,
    /// What handshakes of its flows ask for; what `cc` needs by default.
    pub(crate) ecn: Optional<Words<EcnRequest>>,
    /// 4 (the default) or 6.
    #[schemars(extend("enum" = [4, 6]))]
    pub(crate) ip: Optional<Whole<4, 6>>,
    /// How the two hosts treat segments of its flows.
    pub(crate) host_model: Optional<HostModel>,
}

/// The names of Flent's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestName {}

impl Choices for TestName {
    const WORDS: &'static [&'static str] = &NAMES;
}
