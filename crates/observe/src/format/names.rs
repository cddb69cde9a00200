//! How flows are called in results, openly or not.

use std::fmt;
use std::net::IpAddr;

use crate::flow::Flow;
use crate::sample::Side;

/// Names of addresses and flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    /// With a key, addresses are replaced by pseudonyms that depend on it.
    key: Option<u64>,
}

impl Names {
    /// Addresses as they are.
    pub const fn open() -> Self {
        Self { key: None }
    }

    /// Pseudonyms in place of addresses. The same address has the same one
    /// under the same key; who knows neither key nor address cannot go back,
    /// who knows the key can try all addresses.
    pub const fn anonymous(key: u64) -> Self {
        Self { key: Some(key) }
    }

    /// An address, or its pseudonym.
    pub fn address(&self, address: IpAddr) -> String {
        let Some(key) = self.key else {
            return address.to_string();
        };
        let octets = match address {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        format!(
            "host-{:010x}",
            narrows_units::stable_hash(key, &octets) >> 24
        )
    }

    /// Address and port of one end of a flow.
    pub fn end(&self, flow: &Flow, side: Side) -> String {
        let (address, port) = flow.end(side);
        match (address, self.key) {
            (IpAddr::V6(a), None) => format!("[{a}]:{port}"),
            _ => format!("{}:{port}", self.address(address)),
        }
    }

    /// A flow: protocol, initiator, responder, number.
    pub fn flow<'a>(&'a self, flow: &'a Flow) -> impl fmt::Display + 'a {
        FlowName(self, flow)
    }
}

struct FlowName<'a>(&'a Names, &'a Flow);

impl fmt::Display for FlowName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(names, flow) = self;
        let protocol = flow.protocol_name().to_ascii_lowercase();
        let (from, to) = (
            names.end(flow, Side::Initiator),
            names.end(flow, Side::Responder),
        );
        write!(f, "{protocol}/{from}-{to}/{}", flow.id())
    }
}
