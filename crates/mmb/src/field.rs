//! The table of fields: what a rule can name, where it stands in a packet, and which
//! values it takes. Parser, printer, matcher, rewriting, completion and the field
//! reference of the guide are made from it.

/// What has to be in a packet for a field to be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Nothing: what the box knows of any packet.
    Meta,
    /// A frame that is not IP.
    Frame,
    /// IP of either version.
    Ip,
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// ICMP over IPv4.
    Icmp,
    /// ICMPv6.
    Icmp6,
    /// UDP.
    Udp,
    /// A UDP datagram with at least one byte of payload.
    UdpData,
    /// TCP.
    Tcp,
}

impl Layer {
    /// As headings of the field reference say it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Meta => "Interfaces",
            Self::Frame => "Frames that are not IP",
            Self::Ip => "Either version of IP",
            Self::Ip4 => "IPv4",
            Self::Ip6 => "IPv6",
            Self::Icmp => "ICMP",
            Self::Icmp6 => "ICMPv6",
            Self::Udp => "UDP",
            Self::UdpData => "First byte of a UDP payload (QUIC)",
            Self::Tcp => "TCP",
        }
    }

    /// Whether a packet can have both layers.
    pub(crate) fn goes_with(self, other: Self) -> bool {
        use Layer::{Frame, Icmp, Icmp6, Ip, Ip4, Ip6, Meta, Tcp, Udp, UdpData};
        match (self, other) {
            (a, b) if a == b => true,
            (Meta, _) | (_, Meta) => true,
            (Frame, _) | (_, Frame) => false,
            (Ip, _) | (_, Ip) => true,
            (Ip4, Ip6) | (Ip6, Ip4) => false,
            (Ip4, Icmp6) | (Icmp6, Ip4) | (Ip6, Icmp) | (Icmp, Ip6) => false,
            (Ip4 | Ip6, _) | (_, Ip4 | Ip6) => true,
            (Udp, UdpData) | (UdpData, Udp) => true,
            (Icmp | Icmp6 | Udp | UdpData | Tcp, _) => false,
        }
    }
}

/// Where a field's value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many bits, `at` bits after the start of the layer's header.
    Bits { at: u16, width: u8 },
    /// The protocol above IP, after extension headers.
    Upper,
    /// The interface by which the packet came.
    In,
    /// The interface by which the packet leaves.
    Out,
    /// What follows the layer's header, after IPv6 extension headers too.
    Payload,
    /// What a TCP option of this kind holds.
    Option(u8),
    /// The same of a kind that the rule names; any option if it names none.
    AnyOption,
    /// An IPv6 extension header of this kind.
    Extension(u8),
    /// The same of a kind that the rule names; any one if it names none.
    AnyExtension,
}

/// What is written as a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A number.
    Number,
    /// 0 or 1; the field alone means 1.
    Flag,
    /// No value: the field alone means this one.
    Constant(u8),
    /// A number, or the name of a protocol.
    Protocol,
    /// A number, or the name of an EtherType.
    EtherType,
    /// 4 or 6, or `ip`, `ip4`, `ip6`.
    Version,
    /// An IPv4 address, or a prefix.
    Address4,
    /// An IPv6 address, or a prefix.
    Address6,
    /// Bytes, in hexadecimal.
    Bytes,
    /// The name of an interface.
    Interface,
    /// No value: the packet has it or not.
    Nothing,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub name: &'static str,
    pub layer: Layer,
    pub place: Place,
    pub takes: Takes,
    pub about: &'static str,
}

const fn row(
    name: &'static str,
    layer: Layer,
    place: Place,
    takes: Takes,
    about: &'static str,
) -> Row {
    Row {
        name,
        layer,
        place,
        takes,
        about,
    }
}

const fn bits(at: u16, width: u8) -> Place {
    Place::Bits { at, width }
}

use Layer::{Frame, Icmp, Icmp6, Ip, Ip4, Ip6, Meta, Tcp, Udp, UdpData};
use Place::{AnyExtension, AnyOption, Extension, Option as Opt, Payload};
use Takes::{
    Address4, Address6, Bytes, Constant, EtherType, Flag, Interface, Nothing, Number, Protocol,
    Version,
};

/// All fields, those of mmb 0.4 by its names. Beyond them are `eth-type`, `ip6-dscp` to `ip6-proto`,
/// `icmp6-…`, `tcp-res` over four bits (as in `tcp-reserved`, which is read as `tcp-res`),
/// `tcp-ae`, and the `quic-…` bits (RFC 9000 §17).
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row("in", Meta, Place::In, Interface, "the interface by which it came"),
    row("out", Meta, Place::Out, Interface, "the interface by which it leaves"),
    row("eth-type", Frame, bits(0, 16), EtherType, "EtherType"),
    row("net-proto", Ip, bits(0, 4), Version, "the version of IP"),
    row("ip-ver", Ip4, bits(0, 4), Number, "version"),
    row("ip-ihl", Ip4, bits(4, 4), Number, "header length in words of four bytes"),
    row("ip-dscp", Ip4, bits(8, 6), Number, "differentiated services codepoint"),
    row("ip-ecn", Ip4, bits(14, 2), Number, "ECN: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE"),
    row("ip-non-ect", Ip4, bits(14, 2), Constant(0), "ECN is not-ECT"),
    row("ip-ect0", Ip4, bits(14, 2), Constant(2), "ECN is ECT(0)"),
    row("ip-ect1", Ip4, bits(14, 2), Constant(1), "ECN is ECT(1)"),
    row("ip-ce", Ip4, bits(14, 2), Constant(3), "ECN is CE"),
    row("ip-len", Ip4, bits(16, 16), Number, "total length in bytes"),
    row("ip-id", Ip4, bits(32, 16), Number, "identification"),
    row("ip-flags", Ip4, bits(48, 3), Number, "reserved bit 4, don't fragment 2, more fragments 1"),
    row("ip-res", Ip4, bits(48, 1), Flag, "the reserved bit"),
    row("ip-df", Ip4, bits(49, 1), Flag, "don't fragment"),
    row("ip-mf", Ip4, bits(50, 1), Flag, "more fragments"),
    row("ip-frag-offset", Ip4, bits(51, 13), Number, "fragment offset in units of eight bytes"),
    row("ip-ttl", Ip4, bits(64, 8), Number, "hops left"),
    row("ip-proto", Ip4, bits(72, 8), Protocol, "protocol above"),
    row("ip-checksum", Ip4, bits(80, 16), Number, "header checksum"),
    row("ip-saddr", Ip4, bits(96, 32), Address4, "source address"),
    row("ip-daddr", Ip4, bits(128, 32), Address4, "destination address"),
    row("ip-payload", Ip4, Payload, Bytes, "what follows the header"),
    row("ip6-ver", Ip6, bits(0, 4), Number, "version"),
    row("ip6-traffic-class", Ip6, bits(4, 8), Number, "traffic class: DSCP and ECN"),
    row("ip6-dscp", Ip6, bits(4, 6), Number, "differentiated services codepoint"),
    row("ip6-ecn", Ip6, bits(10, 2), Number, "ECN, as `ip-ecn`"),
    row("ip6-non-ect", Ip6, bits(10, 2), Constant(0), "ECN is not-ECT"),
    row("ip6-ect0", Ip6, bits(10, 2), Constant(2), "ECN is ECT(0)"),
    row("ip6-ect1", Ip6, bits(10, 2), Constant(1), "ECN is ECT(1)"),
    row("ip6-ce", Ip6, bits(10, 2), Constant(3), "ECN is CE"),
    row("ip6-flow-label", Ip6, bits(12, 20), Number, "flow label"),
    row("ip6-len", Ip6, bits(32, 16), Number, "payload length in bytes"),
    row("ip6-next", Ip6, bits(48, 8), Protocol, "next header of the first header"),
    row("ip6-proto", Ip6, Place::Upper, Protocol, "protocol above the extension headers"),
    row("ip6-hop-limit", Ip6, bits(56, 8), Number, "hops left"),
    row("ip6-saddr", Ip6, bits(64, 128), Address6, "source address"),
    row("ip6-daddr", Ip6, bits(192, 128), Address6, "destination address"),
    row("ip6-payload", Ip6, Payload, Bytes, "what follows the extension headers"),
    row("ip6-eh-hopbyhop", Ip6, Extension(0), Nothing, "hop-by-hop options"),
    row("ip6-eh-routing", Ip6, Extension(43), Nothing, "routing header"),
    row("ip6-eh-fragment", Ip6, Extension(44), Nothing, "fragment header"),
    row("ip6-eh-esp", Ip6, Extension(50), Nothing, "encapsulating security payload"),
    row("ip6-eh-ah", Ip6, Extension(51), Nothing, "authentication header"),
    row("ip6-eh-destopt", Ip6, Extension(60), Nothing, "destination options"),
    row("ip6-eh-mobility", Ip6, Extension(135), Nothing, "mobility header"),
    row("ip6-eh-hip", Ip6, Extension(139), Nothing, "host identity protocol"),
    row("ip6-eh-shim6", Ip6, Extension(140), Nothing, "shim6"),
    row("ip6-eh", Ip6, AnyExtension, Nothing, "an extension header, `ip6-eh 60`; any one without a number"),
    row("icmp-type", Icmp, bits(0, 8), Number, "type"),
    row("icmp-code", Icmp, bits(8, 8), Number, "code"),
    row("icmp-checksum", Icmp, bits(16, 16), Number, "checksum"),
    row("icmp-ident", Icmp, bits(32, 16), Number, "identifier of an echo"),
    row("icmp-payload", Icmp, Payload, Bytes, "what follows the eight bytes of the header"),
    row("icmp6-type", Icmp6, bits(0, 8), Number, "type"),
    row("icmp6-code", Icmp6, bits(8, 8), Number, "code"),
    row("icmp6-checksum", Icmp6, bits(16, 16), Number, "checksum"),
    row("icmp6-ident", Icmp6, bits(32, 16), Number, "identifier of an echo"),
    row("icmp6-payload", Icmp6, Payload, Bytes, "what follows the eight bytes of the header"),
    row("udp-sport", Udp, bits(0, 16), Number, "source port"),
    row("udp-dport", Udp, bits(16, 16), Number, "destination port"),
    row("udp-len", Udp, bits(32, 16), Number, "length in bytes"),
    row("udp-checksum", Udp, bits(48, 16), Number, "checksum"),
    row("udp-payload", Udp, Payload, Bytes, "payload"),
    row("quic-long", UdpData, bits(0, 1), Flag, "header form: 1 long, 0 short"),
    row("quic-fixed", UdpData, bits(1, 1), Flag, "the fixed bit"),
    row("quic-spin", UdpData, bits(2, 1), Flag, "the spin bit of a short header"),
    row("tcp-sport", Tcp, bits(0, 16), Number, "source port"),
    row("tcp-dport", Tcp, bits(16, 16), Number, "destination port"),
    row("tcp-seq-num", Tcp, bits(32, 32), Number, "sequence number"),
    row("tcp-ack-num", Tcp, bits(64, 32), Number, "acknowledgement number"),
    row("tcp-offset", Tcp, bits(96, 4), Number, "header length in words of four bytes"),
    row("tcp-res", Tcp, bits(100, 4), Number, "the bits that were reserved before AccECN: three, and AE"),
    row("tcp-ae", Tcp, bits(103, 1), Flag, "accurate ECN (RFC 9768)"),
    row("tcp-flags", Tcp, bits(104, 8), Number, "the eight flags from CWR to FIN"),
    row("tcp-cwr", Tcp, bits(104, 1), Flag, "congestion window reduced"),
    row("tcp-ece", Tcp, bits(105, 1), Flag, "ECN echo"),
    row("tcp-urg", Tcp, bits(106, 1), Flag, "urgent"),
    row("tcp-ack", Tcp, bits(107, 1), Flag, "acknowledgement"),
    row("tcp-push", Tcp, bits(108, 1), Flag, "push"),
    row("tcp-rst", Tcp, bits(109, 1), Flag, "reset"),
    row("tcp-syn", Tcp, bits(110, 1), Flag, "synchronise sequence numbers"),
    row("tcp-fin", Tcp, bits(111, 1), Flag, "no more from the sender"),
    row("tcp-win", Tcp, bits(112, 16), Number, "window, not scaled"),
    row("tcp-checksum", Tcp, bits(128, 16), Number, "checksum"),
    row("tcp-urg-ptr", Tcp, bits(144, 16), Number, "urgent pointer"),
    row("tcp-payload", Tcp, Payload, Bytes, "payload"),
    row("tcp-opt-mss", Tcp, Opt(2), Number, "maximum segment size, 16 bits"),
    row("tcp-opt-wscale", Tcp, Opt(3), Number, "window scale, 8 bits"),
    row("tcp-opt-sackp", Tcp, Opt(4), Nothing, "SACK permitted"),
    row("tcp-opt-sack", Tcp, Opt(5), Bytes, "SACK blocks"),
    row("tcp-opt-timestamp", Tcp, Opt(8), Number, "timestamp value and echo, 64 bits"),
    row("tcp-opt-mptcp", Tcp, Opt(30), Bytes, "multipath TCP"),
    row("tcp-opt-fast-open", Tcp, Opt(34), Bytes, "Fast Open cookie"),
    row("tcp-opt", Tcp, AnyOption, Bytes, "an option by its kind, `tcp-opt 22`; any one without"),
];

/// Protocols that have a name in rules.
pub(crate) const PROTOCOLS: &[(&str, u8)] = &[("icmp", 1), ("tcp", 6), ("udp", 17), ("icmp6", 58)];

/// EtherTypes that have a name in rules (include/uapi/linux/if_ether.h of Linux): a frame of IEEE 802.3 that
/// has a length in the place of a type counts as `ETH_P_802_2`.
pub(crate) const ETHER_TYPES: &[(&str, u16)] = &[
    ("llc", 0x0004),
    ("arp", 0x0806),
    ("vlan", 0x8100),
    ("mpls", 0x8847),
    ("pppoe", 0x8864),
    ("qinq", 0x88a8),
];

/// Spellings that are read and never written.
const ALIASES: &[(&str, &str)] = &[("tcp-reserved", "tcp-res"), ("ip4-payload", "ip-payload")];

/// The rows of the table in the order of their names: files have millions of them.
const BY_NAME: [u8; TABLE.len()] = by_name();

const fn by_name() -> [u8; TABLE.len()] {
    let mut rows = [0; TABLE.len()];
    let mut next = 0;
    while next < rows.len() {
        let mut at = next;
        while at > 0 && is_before(TABLE[next].name, TABLE[rows[at - 1] as usize].name) {
            rows[at] = rows[at - 1];
            at -= 1;
        }
        rows[at] = next as u8;
        next += 1;
    }
    rows
}

const fn is_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return a[at] < b[at];
        }
        at += 1;
    }
    a.len() < b.len()
}

/// A field of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field(u8);

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Field {
    /// All fields in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len()).map(|i| Self(i as u8))
    }

    /// The field of that name.
    pub fn named(name: &str) -> Option<Self> {
        let alias = ALIASES.iter().find(|(from, _)| *from == name);
        let name = alias.map_or(name, |(_, to)| to);
        let found = BY_NAME.binary_search_by(|row| TABLE[usize::from(*row)].name.cmp(name));
        found.ok().map(|at| Self(BY_NAME[at]))
    }

    pub(crate) fn row(self) -> &'static Row {
        &TABLE[usize::from(self.0)]
    }

    /// Its name in rules.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        self.row().about
    }

    /// What has to be in a packet for it to be there.
    pub fn layer(self) -> Layer {
        self.row().layer
    }

    /// Whether a number may follow that says which option or extension header is meant.
    pub(crate) fn takes_kind(self) -> bool {
        matches!(self.row().place, Place::AnyOption | Place::AnyExtension)
    }

    /// Whether it is a TCP option.
    pub fn is_option(self) -> bool {
        matches!(self.row().place, Place::Option(_) | Place::AnyOption)
    }

    /// Bits of its value where it is a number.
    pub(crate) fn width(self) -> u8 {
        match self.row().place {
            Place::Bits { width, .. } => width,
            Place::Upper => 8,
            Place::Option(2) => 16,
            Place::Option(3) => 8,
            Place::Option(8) => 64,
            _ => 0,
        }
    }

    /// Whether `mod` can write it.
    pub fn can_be_set(self) -> bool {
        match self.row().place {
            Place::Bits { .. } => !matches!(self.layer(), Layer::Ip | Layer::Frame),
            Place::Payload => true,
            Place::Option(_) | Place::AnyOption => self.row().takes != Takes::Nothing,
            _ => false,
        }
    }

    /// Whether `map` takes it.
    pub fn can_be_mapped(self) -> bool {
        const NAMES: [&str; 12] = [
            "ip-saddr",
            "ip-daddr",
            "ip6-saddr",
            "ip6-daddr",
            "tcp-sport",
            "tcp-dport",
            "udp-sport",
            "udp-dport",
            "icmp-ident",
            "icmp6-ident",
            "ip-id",
            "ip6-flow-label",
        ];
        NAMES.contains(&self.name())
    }

    /// Whether `shuffle` takes it.
    pub fn can_be_shuffled(self) -> bool {
        const NAMES: [&str; 10] = [
            "tcp-seq-num",
            "tcp-ack-num",
            "tcp-sport",
            "tcp-dport",
            "udp-sport",
            "udp-dport",
            "icmp-ident",
            "icmp6-ident",
            "ip-id",
            "ip6-flow-label",
        ];
        NAMES.contains(&self.name())
    }

    /// Whether it is a checksum.
    pub(crate) fn is_checksum(self) -> bool {
        self.name().ends_with("-checksum")
    }

    /// Whether it has a bit of the ECN field.
    pub fn is_ecn(self) -> bool {
        let ecn = match self.layer() {
            Layer::Ip4 => 14..16,
            Layer::Ip6 => 10..12,
            _ => return false,
        };
        match self.row().place {
            Place::Bits { at, width } => at < ecn.end && ecn.start < at + u16::from(width),
            _ => false,
        }
    }

    /// What is written as its value, for error messages and the reference.
    pub fn values(self) -> String {
        match self.row().takes {
            Takes::Number => format!("a number up to {}", most(self.width())),
            Takes::Flag => "0 or 1; alone it means 1".to_owned(),
            Takes::Constant(_) | Takes::Nothing => "no value".to_owned(),
            Takes::Protocol => "a protocol's number, or tcp, udp, icmp or icmp6".to_owned(),
            Takes::EtherType => {
                "a number up to 65535, or llc, arp, vlan, mpls, pppoe or qinq".to_owned()
            }
            Takes::Version => "ip4 or ip6".to_owned(),
            Takes::Address4 => "an IPv4 address or prefix, such as 10.0.0.0/8".to_owned(),
            Takes::Address6 => "an IPv6 address or prefix, such as 2001:db8::/32".to_owned(),
            Takes::Bytes => "bytes in hexadecimal, such as x16c0".to_owned(),
            Takes::Interface => "the name of an interface".to_owned(),
        }
    }
}

/// The largest number of `width` bits.
pub(crate) fn most(width: u8) -> u128 {
    match width {
        128.. => u128::MAX,
        width => (1 << width) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_name_and_by_none_other() {
        for field in Field::all() {
            assert_eq!(Field::named(field.name()), Some(field));
        }
        for name in ["", "a", "ip", "tcp-", "tcp-synn", "zz"] {
            assert_eq!(Field::named(name), None, "{name}");
        }
        assert_eq!(Field::named("tcp-reserved"), Field::named("tcp-res"));
    }

    #[test]
    fn fields_with_a_bit_of_the_ecn_field_are_known() {
        let known: Vec<_> = Field::all().filter(|f| f.is_ecn()).collect();
        // Fields are shown by their names.
        assert_eq!(
            format!("{known:?}"),
            "[ip-ecn, ip-non-ect, ip-ect0, ip-ect1, ip-ce, ip6-traffic-class, ip6-ecn, \
             ip6-non-ect, ip6-ect0, ip6-ect1, ip6-ce]"
        );
    }
}
