//! The constants of a discovery (RFC 8899 section 5.1.2) and what it listens to.

use crate::black_hole::LossRule;
use crate::timer::Timers;

/// Headers of IPv4 without options and of UDP, in bytes.
const IPV4_UDP: u16 = 28;

/// Headers of IPv6 without extensions and of UDP, in bytes.
const IPV6_UDP: u16 = 48;

/// The smallest MTU of a link that carries IPv4, in bytes (RFC 791, page 25).
const IPV4_MINIMUM_MTU: u16 = 68;

/// The smallest MTU of a link that carries IPv6, in bytes (RFC 8200 section 5).
const IPV6_MINIMUM_MTU: u16 = 1_280;

/// BASE_PLPMTU in bytes: what is expected to work on most paths (RFC 8899 section 5.1.2).
const BASE_PLPMTU: u16 = 1_200;

/// MAX_PROBES (RFC 8899 section 5.1.2).
const MAX_PROBES: u32 = 3;

/// What is done about a router's report that a packet was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Nothing (RFC 8899 section 4.6: a host may ignore them).
    Ignored,
    /// It is used if it quotes a probe that is outstanding (section 4.6.1).
    Validated,
}

/// What a discovery is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a packet that are below the packetization layer's datagram.
    pub headers: u16,
    /// MIN_PLPMTU: the smallest datagram size that a path has to carry.
    pub min: u16,
    /// BASE_PLPMTU: the size with which a search begins, at least `min`.
    pub base: u16,
    /// MAX_PLPMTU: the largest size that is tried, by the interface's MTU and the peer's limit.
    pub max: u16,
    /// MAX_PROBES: probes of one size that are lost before the size counts as too large.
    pub max_probes: u32,
    /// PROBE_TIMER, CONFIRMATION_TIMER and PMTU_RAISE_TIMER.
    pub timers: Timers,
    /// What is done about packet-too-big reports.
    pub reports: Reports,
    /// When confirmed datagrams that are lost count as a black hole.
    pub loss_rule: LossRule,
}

impl Settings {
    /// Over UDP and IPv4, of an interface with this MTU in bytes, which is at least 68: the
    /// RFC's constants, probe timers that follow the round trip, validated reports.
    pub fn ipv4(mtu: u16) -> Self {
        Self::of(IPV4_UDP, IPV4_MINIMUM_MTU, mtu)
    }

    /// The same over IPv6; the MTU is at least 1280. BASE_PLPMTU is MIN_PLPMTU then, as 1200
    /// would be below it.
    pub fn ipv6(mtu: u16) -> Self {
        Self::of(IPV6_UDP, IPV6_MINIMUM_MTU, mtu)
    }

    fn of(headers: u16, minimum_mtu: u16, mtu: u16) -> Self {
        let min = minimum_mtu - headers;
        let max = mtu.max(minimum_mtu) - headers;
        Self {
            headers,
            min,
            base: BASE_PLPMTU.max(min).min(max),
            max,
            max_probes: MAX_PROBES,
            timers: Timers::ADAPTIVE,
            reports: Reports::Validated,
            loss_rule: LossRule::Evidence,
        }
    }

    /// The MTU, headers included, of a path that carries datagrams of `size`.
    pub fn mtu_of(&self, size: u16) -> u32 {
        u32::from(size) + u32::from(self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_ip_versions() {
        let v4 = Settings::ipv4(1_500);
        assert_eq!((v4.min, v4.base, v4.max), (40, 1_200, 1_472));
        let v6 = Settings::ipv6(1_500);
        assert_eq!((v6.min, v6.base, v6.max), (1_232, 1_232, 1_452));
        let narrow = Settings::ipv4(600);
        assert_eq!((narrow.base, narrow.max), (572, 572));
        assert_eq!(v4.mtu_of(1_472), 1_500);
    }
}
