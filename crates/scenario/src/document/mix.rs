//! `[[mix]]`: a traffic mix of a file.

use narrows_units::{Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Choices, Name, OneOf, Spelled, Whole, Words};
use super::place::{Optional, Required};
use super::scenario::{EcnRequest, HostModel};
use crate::mix::OFFSETS;
use crate::parts::{Control, Dscp};
use crate::transport::TransportName;

/// A traffic mix: the flows and clients of a mix file, from the server to the client.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mix {
    /// Its name, with which the names of its flows and applications begin.
    pub(crate) name: Required<Name>,
    /// The mix or flow file, in trafic's grammar: beside this one or below its folder, or by its whole path.
    pub(crate) file: Required<String>,
    /// The client, which opens all connections and gets what is sent.
    pub(crate) from: Required<String>,
    /// The server.
    pub(crate) to: Required<String>,
    /// What it is to fill, in place of the file's `total-bandwidth`.
    pub(crate) bandwidth: Optional<Spelled<Rate>>,
    /// When it begins; `0s` by default.
    pub(crate) start: Optional<Spelled<Duration>>,
    /// Where in their first interval clients begin: `random` (the default), `spread` or `together`.
    pub(crate) offsets: Optional<OneOf<OffsetsWord>>,
    /// `tcp` or `quic`, of its connections; what `cc` is made for by default.
    pub(crate) transport: Optional<Words<TransportName>>,
    /// The congestion control of its connections in words; the file's, or `cubic`, by default.
    pub(crate) cc: Optional<Words<Control>>,
    /// What handshakes of its connections ask for; what `cc` needs by default.
    pub(crate) ecn: Optional<Words<EcnRequest>>,
    /// The code point of its packets, in place of the file's.
    pub(crate) dscp: Optional<Words<Dscp>>,
    /// 4 (the default) or 6.
    #[schemars(extend("enum" = [4, 6]))]
    pub(crate) ip: Optional<Whole<4, 6>>,
    /// How the two hosts treat segments of its connections.
    pub(crate) host_model: Optional<HostModel>,
}

/// Where in their first interval clients begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OffsetsWord {}

impl Choices for OffsetsWord {
    const WORDS: &'static [&'static str] = &OFFSETS;
}
