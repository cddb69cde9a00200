//! Flows: an application that sends from one host to another, and what carries it.

use narrows_pep::FirstData;
use narrows_units::Instant;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{HostIndex, words};
use crate::parts::Traffic;
use crate::transport::Transport;

/// Which Internet Protocol a flow uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    #[serde(rename = "4")]
    V4,
    /// IPv6.
    #[serde(rename = "6")]
    V6,
}

/// An application that sends from one host to another, and what carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    /// Its name; its entity is `flow/<name>`.
    pub name: String,
    /// Who sends the data.
    pub from: HostIndex,
    /// Who gets it.
    pub to: HostIndex,
    /// Who sends the first packet: one of the two.
    pub opens: HostIndex,
    /// The code point of all of its packets, both ways.
    pub dscp: u8,
    /// When it is opened.
    pub start: Instant,
    /// Whether it is opened up to a round trip later, as the seed has it; see
    /// [`Plan::for_seed`](super::Plan::for_seed).
    pub start_offset: bool,
    /// When it stops sending, if before the end of the run.
    pub stop: Option<Instant>,
    /// What the application sends.
    pub traffic: Traffic,
    /// IPv4 or IPv6.
    pub ip: IpVersion,
    /// What carries it, with its options.
    pub transport: Transport,
    /// The proxy that it goes by, if it goes by one.
    pub via: Option<ViaPlan>,
}

impl FlowPlan {
    /// Whether it sends for as long as it may; of a modelled flow, whose window or rate is
    /// its definition, no faster than that.
    pub fn is_bulk(&self) -> bool {
        self.traffic == Traffic::Bulk
    }
}

/// What results keep of it: the options of its transport stand among its other values, and
/// those that its transport does not have are left out.
impl Serialize for FlowPlan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        map.serialize_entry("opens", &self.opens)?;
        self.transport.serialize_before(&mut map)?;
        map.serialize_entry("dscp", &self.dscp)?;
        map.serialize_entry("start", &self.start.to_string())?;
        map.serialize_entry("start_offset", &self.start_offset)?;
        map.serialize_entry("stop", &self.stop.map(|stop| stop.to_string()))?;
        map.serialize_entry("traffic", &self.traffic)?;
        map.serialize_entry("ip", &self.ip)?;
        self.transport.serialize_after(&mut map)?;
        if let Some(via) = &self.via {
            map.serialize_entry("via", via)?;
        }
        map.end()
    }
}

/// How a flow goes by a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ViaPlan {
    /// Index of the proxy in [`Plan::proxies`](super::Plan::proxies).
    pub proxy: usize,
    /// When data follows the request.
    #[serde(serialize_with = "words")]
    pub first_data: FirstData,
}
