//! How flows are called in results, openly or not.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use narrows_wire::ip;
use sha2::{Digest, Sha256};

use crate::flow::Flow;
use crate::sample::Side;

/// Names of addresses and flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names {
    /// With a key, addresses are replaced by pseudonyms that depend on it.
    key: Option<[u8; 32]>,
}

impl Names {
    /// Addresses as they are.
    pub const fn open() -> Self {
        Self { key: None }
    }

    /// Pseudonyms in place of addresses. The same address has the same one
    /// under the same key, and nothing else of it shows, its network neither.
    /// Who has not the key cannot go back, who has it can try all addresses.
    pub fn anonymous(key: &[u8]) -> Self {
        Self {
            key: Some(Sha256::digest(key).into()),
        }
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
        // Both are of one length, so the digest of one after the other is a
        // keyed hash. 48 of its bits keep a million addresses apart.
        let digest = Sha256::new().chain_update(key).chain_update(octets);
        let mut name = String::from("host-");
        for byte in &digest.finalize()[..6] {
            // Writing to memory does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Address and port of one end of a flow.
    pub fn end(&self, flow: &Flow, side: Side) -> String {
        let mut end = String::with_capacity(24);
        // Writing to memory does not fail.
        let _ = self.write_end(&mut end, flow, side);
        end
    }

    fn write_end(&self, out: &mut impl fmt::Write, flow: &Flow, side: Side) -> fmt::Result {
        let (address, port) = flow.end(side);
        match (address, self.key) {
            (IpAddr::V4(a), None) => {
                let [a, b, c, d] = a.octets();
                write!(out, "{a}.{b}.{c}.{d}:{port}")
            }
            (IpAddr::V6(a), None) => write!(out, "[{a}]:{port}"),
            _ => write!(out, "{}:{port}", self.address(address)),
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
        f.write_str(match flow.protocol() {
            ip::TCP => "tcp/",
            _ => "udp/",
        })?;
        names.write_end(f, flow, Side::Initiator)?;
        f.write_str("-")?;
        names.write_end(f, flow, Side::Responder)?;
        write!(f, "/{}", flow.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pseudonym_depends_on_the_key_and_the_whole_address() {
        let of = |key: &str, address: &str| {
            let names = Names::anonymous(key.as_bytes());
            names.address(address.parse().unwrap())
        };
        assert_eq!(of("a", "192.0.2.1"), of("a", "192.0.2.1"));
        assert_eq!(of("a", "192.0.2.1"), of("a", "::ffff:192.0.2.1"));
        assert_ne!(of("a", "192.0.2.1"), of("b", "192.0.2.1"));
        assert_ne!(of("a", "192.0.2.1"), of("a", "192.0.2.2"));
        assert_ne!(of("a", "2001:db8::1"), of("a", "2001:db8::2"));
        assert_eq!(of("a", "192.0.2.1").len(), "host-".len() + 12);
        assert_eq!(Names::open().address([192, 0, 2, 1].into()), "192.0.2.1");
    }
}
