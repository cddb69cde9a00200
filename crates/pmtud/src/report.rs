//! Packet-too-big reports (RFC 8899 section 4.6).

/// What an ICMP or ICMPv6 message said about a packet that was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The MTU that it reports, as the router counts it: a whole packet.
    pub mtu: u32,
    /// The number of the probe that it quotes, where ports, and what the probe carries to tell
    /// it from others, were found in the quotation; `None` where it could not be matched.
    pub quotes: Option<u64>,
}

/// What a discovery made of a report. Each rule is one of RFC 8899 section 4.6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reports are not used, or this one does not quote a probe that is outstanding.
    Unverified,
    /// It reports less than MIN_PLPMTU, or no less than what was sent: no router can mean it.
    Implausible,
    /// Less than BASE_PLPMTU: the path cannot carry what a search begins with.
    BelowBase,
    /// Less than what was confirmed: the path has changed, and the search begins anew.
    BlackHole,
    /// Exactly what was confirmed: the search is complete.
    Complete,
    /// Between what was confirmed and what was tried: this size is tried next.
    TryNext(u16),
}
