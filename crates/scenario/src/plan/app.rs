//! Applications that scenarios name by their kind.

use narrows_app::AppSpec;
use narrows_units::Instant;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{HostIndex, IpVersion};
use crate::transport::Transport;

/// An application between two hosts, and what carries what it sends.
#[derive(Clone, Debug, PartialEq)]
pub struct AppPlan {
    /// Its name; its entity is `app/<name>`.
    pub name: String,
    /// Which application, with its parameters.
    pub spec: AppSpec,
    /// Who begins: the client.
    pub from: HostIndex,
    /// Who answers: the server.
    pub to: HostIndex,
    /// The code point of all of its packets, both ways.
    pub dscp: u8,
    /// IPv4 or IPv6.
    pub ip: IpVersion,
    /// When it begins.
    pub start: Instant,
    /// When it begins nothing more, if before the end of the run.
    pub stop: Option<Instant>,
    /// What carries what it sends, with its options.
    pub transport: Transport,
}

/// What results keep of it: its parameters and the options of its transport stand among its
/// other values.
impl Serialize for AppPlan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("kind", self.spec.kind())?;
        for (name, value) in self.spec.parameters() {
            map.serialize_entry(name, &value)?;
        }
        map.serialize_entry("from", &self.from)?;
        map.serialize_entry("to", &self.to)?;
        map.serialize_entry("dscp", &self.dscp)?;
        map.serialize_entry("ip", &self.ip)?;
        map.serialize_entry("start", &self.start.to_string())?;
        map.serialize_entry("stop", &self.stop.map(|stop| stop.to_string()))?;
        self.transport.serialize_before(&mut map)?;
        self.transport.serialize_after(&mut map)?;
        map.end()
    }
}
