//! What a packet as it was sent and as it came, or as a router quotes it, says about boxes.

use narrows_wire::{Ecn, Ip, SackList, Tcp, TcpFlags, ip};

use crate::probe::Addresses;

/// A box that shows in what it changes, by its name in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Changer {
    EcnBleach,
    Ect1ToEct0,
    CeStrip,
    AccEcnOptionStrip,
    ReservedClear,
    MssClamp,
    OptionAllowList,
    Snat,
    SequenceShuffle,
    SpinClear,
}

impl Changer {
    pub(crate) const ALL: [Self; 10] = [
        Self::EcnBleach,
        Self::Ect1ToEct0,
        Self::CeStrip,
        Self::AccEcnOptionStrip,
        Self::ReservedClear,
        Self::MssClamp,
        Self::OptionAllowList,
        Self::Snat,
        Self::SequenceShuffle,
        Self::SpinClear,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::EcnBleach => "ecn-bleach",
            Self::Ect1ToEct0 => "ect1-to-ect0",
            Self::CeStrip => "ce-strip",
            Self::AccEcnOptionStrip => "accecn-option-strip",
            Self::ReservedClear => "reserved-clear",
            Self::MssClamp => "mss-clamp",
            Self::OptionAllowList => "option-allow-list",
            Self::Snat => "snat",
            Self::SequenceShuffle => "sequence-shuffle",
            Self::SpinClear => "spin-clear",
        }
    }

    /// Whether such a box repairs what ICMP quotes of the packets that it changes (RFC 5508
    /// §4.2), so that a quotation that looks as sent says nothing.
    pub(crate) const fn repairs_quotations(self) -> bool {
        matches!(self, Self::Snat | Self::SequenceShuffle)
    }

    /// Whether `came` shows the change, or shows that what would change did not; `None` where
    /// it says neither. The allow-list's sign here is that the Fast Open option is gone.
    pub(crate) fn shows(self, sent: &Seen, came: &Seen) -> Option<bool> {
        let (was, is) = (sent.ip.ecn(), came.ip.ecn());
        let [tcp, tcp_came] = [sent.tcp, came.tcp];
        match self {
            Self::EcnBleach => was.is_capable().then_some(is == Ecn::NotEct),
            Self::Ect1ToEct0 => (was == Ecn::Ect1 && is != Ecn::NotEct).then_some(is == Ecn::Ect0),
            Self::CeStrip => (was == Ecn::Ce && is != Ecn::NotEct).then_some(is != Ecn::Ce),
            Self::AccEcnOptionStrip => {
                let _sent = tcp?.options.accecn?;
                Some(tcp_came?.options.accecn.is_none())
            }
            Self::ReservedClear => {
                let ae = |tcp: Tcp| tcp.flags.has(TcpFlags::AE);
                ae(tcp?).then_some(!ae(tcp_came?))
            }
            Self::MssClamp => Some(tcp_came?.options.mss? < tcp?.options.mss?),
            Self::OptionAllowList => {
                let _sent = tcp?.options.fast_open?;
                Some(tcp_came?.options.fast_open.is_none())
            }
            Self::Snat => Some(sent.ends?.source != came.ends?.source),
            Self::SequenceShuffle => Some(sent.seq? != came.seq?),
            Self::SpinClear => sent.spin?.then_some(!came.spin?),
        }
    }

    /// What the change is, of a packet that shows it.
    pub(crate) fn detail(self, sent: &Seen, came: &Seen) -> String {
        let ecn = |ecn| match ecn {
            Ecn::NotEct => "not-ECT",
            Ecn::Ect1 => "ECT(1)",
            Ecn::Ect0 => "ECT(0)",
            Ecn::Ce => "CE",
        };
        let mss = |seen: &Seen| seen.tcp.and_then(|tcp| tcp.options.mss).unwrap_or(0);
        match self {
            Self::EcnBleach | Self::Ect1ToEct0 | Self::CeStrip => {
                format!("{} became {}", ecn(sent.ip.ecn()), ecn(came.ip.ecn()))
            }
            Self::AccEcnOptionStrip => "the AccECN option is gone".to_owned(),
            Self::ReservedClear => "AE is cleared".to_owned(),
            Self::MssClamp => format!("MSS {} became {}", mss(sent), mss(came)),
            Self::OptionAllowList => "the Fast Open and AccECN options are gone".to_owned(),
            Self::Snat => match (sent.ends, came.ends) {
                (Some(sent), Some(came)) => format!("{} became {}", sent.source, came.source),
                _ => String::new(),
            },
            Self::SequenceShuffle => "the sequence number differs".to_owned(),
            Self::SpinClear => "the spin bit is cleared".to_owned(),
        }
    }
}

/// Options of a TCP header at most: 40 bytes of those that have two.
const KINDS: usize = 20;

/// The kinds of the options in a TCP header, as far as they are there.
fn kinds(header: &[u8]) -> [u8; KINDS] {
    let mut kinds = [0; KINDS];
    let mut places = kinds.iter_mut();
    let end = usize::from(header.get(12).map_or(0, |byte| byte >> 4)) * 4;
    let mut rest = header.get(20..end).unwrap_or_default();
    while let [kind, after @ ..] = rest {
        rest = match (kind, after.first()) {
            (0, _) | (_, None) => break,
            (1, _) => after,
            (_, Some(len)) => {
                if let Some(place) = places.next() {
                    *place = *kind;
                }
                rest.get(usize::from(*len).max(2)..).unwrap_or_default()
            }
        };
    }
    kinds
}

/// What can be read of a packet, of a part of one too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub ip: Ip,
    pub ends: Option<Addresses>,
    seq: Option<u32>,
    tcp: Option<Tcp>,
    /// The kinds of its TCP options in their order, without fillers; 0 behind them.
    kinds: [u8; KINDS],
    /// Of a datagram, its spin bit.
    spin: Option<bool>,
}

impl Seen {
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let ip = Ip::parse(packet).ok()?;
        let above = &packet[ip.header_len..];
        let is_tcp = ip.protocol == ip::TCP;
        let word = above.get(4..8).filter(|_| is_tcp);
        let first = above.get(8).filter(|_| ip.protocol == ip::UDP);
        Some(Self {
            ip,
            ends: Addresses::of(packet),
            seq: word.map(|w| u32::from_be_bytes([w[0], w[1], w[2], w[3]])),
            tcp: is_tcp.then(|| Tcp::parse(above).ok()).flatten(),
            kinds: match is_tcp {
                true => kinds(above),
                false => [0; KINDS],
            },
            spin: first.map(|byte| byte & 0x20 != 0),
        })
    }

    /// The field's name in the packet's version of IP.
    pub(crate) fn field(&self, four: &'static str, six: &'static str) -> &'static str {
        if self.ip.source.is_ipv4() { four } else { six }
    }

    /// Whether the options that both have are in another order.
    fn is_in_another_order(&self, came: &Self) -> bool {
        let of = |one: &Self, other: &Self| -> Vec<u8> {
            let shared = |kind: &&u8| other.kinds.contains(kind);
            one.kinds
                .iter()
                .filter(shared)
                .copied()
                .filter(|kind| *kind > 0)
                .collect()
        };
        of(self, came) != of(came, self)
    }

    /// Fields, in mmb's words, that differ and that no box of the catalogue changes.
    pub(crate) fn other_changes(&self, came: &Self) -> Vec<&'static str> {
        let mut differ = Vec::new();
        let mut note = |differs: bool, field| {
            if differs {
                differ.push(field);
            }
        };
        let field = |four, six| self.field(four, six);
        note(
            self.ip.dscp() != came.ip.dscp(),
            field("ip-dscp", "ip6-dscp"),
        );
        // What else becomes of ECN is a queue's mark, or a ready box's doing.
        let made = match (self.ip.ecn(), came.ip.ecn()) {
            (Ecn::NotEct, ecn) => ecn != Ecn::NotEct,
            (Ecn::Ect0, ecn) => ecn == Ecn::Ect1,
            _ => false,
        };
        note(made, field("ip-ecn", "ip6-ecn"));
        if let (Some(sent), Some(came)) = (self.ends, came.ends) {
            let (sent, came) = (sent.destination, came.destination);
            note(sent.ip() != came.ip(), field("ip-daddr", "ip6-daddr"));
            let port = match self.ip.protocol {
                ip::UDP => "udp-dport",
                _ => "tcp-dport",
            };
            note(sent.port() != came.port(), port);
        }
        if let (Some(sent), Some(came)) = (self.tcp, came.tcp) {
            let flags = |tcp: Tcp| tcp.flags.0 & !TcpFlags::AE;
            note(flags(sent) != flags(came), "tcp-flags");
            note(sent.window != came.window, "tcp-win");
            let (sent, came) = (sent.options, came.options);
            // One that is lower is the clamp's doing.
            note(
                came.mss > sent.mss || came.mss.is_some() != sent.mss.is_some(),
                "tcp-opt-mss",
            );
            note(sent.window_scale != came.window_scale, "tcp-opt-wscale");
            note(sent.sack_permitted != came.sack_permitted, "tcp-opt-sackp");
            note(sent.timestamps != came.timestamps, "tcp-opt-timestamp");
            note(came.sack != SackList::default(), "tcp-opt-sack");
        }
        note(self.is_in_another_order(came), "tcp-opt");
        differ
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{SESSION, ends};
    use crate::probe::{Probe, Shape, Way};
    use narrows_mmb::{Field, Middlebox, READY, Settings, commands};
    use narrows_units::{Instant, Rng};

    fn probes() -> Vec<Vec<u8>> {
        let shapes = [Shape::Udp, Shape::Segment, Shape::Syn, Shape::SynData];
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        let all = shapes
            .into_iter()
            .flat_map(|shape| ecn.map(|ecn| (shape, ecn)));
        all.map(|(shape, ecn)| Probe::new(shape, ecn).packet(Way::Forward, 9, SESSION, ends()))
            .collect()
    }

    #[test]
    fn every_box_that_changes_packets_shows_and_no_other_does() {
        for ready in READY {
            let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
            middlebox.apply(&commands(ready.rules).unwrap()).unwrap();
            let mut shown: std::collections::BTreeSet<Changer> = Default::default();
            for sent in probes() {
                let mut came = sent.clone();
                let outcome = middlebox.process(Instant::ZERO, 0, &mut came, &mut 0);
                if outcome.dropped.is_some() {
                    continue;
                }
                assert_eq!(
                    SESSION.identify(&came, false),
                    Some((9, true)),
                    "{}",
                    ready.name
                );
                let (sent, came) = (Seen::of(&sent).unwrap(), Seen::of(&came).unwrap());
                assert_eq!(sent.other_changes(&came), [""; 0], "{}", ready.name);
                let changers = Changer::ALL.iter();
                shown.extend(
                    changers
                        .filter(|c| c.shows(&sent, &came) == Some(true))
                        .copied(),
                );
            }
            let names: Vec<_> = shown.iter().map(|c| c.name()).collect();
            match Changer::ALL.iter().any(|c| c.name() == ready.name) {
                true => assert!(names.contains(&ready.name), "{}: {names:?}", ready.name),
                false => assert_eq!(names, [""; 0], "{}", ready.name),
            }
            let both = ["accecn-option-strip", "option-allow-list"];
            match ready.name {
                "option-allow-list" => assert_eq!(names, both),
                name => assert!(names.is_empty() || names == [name], "{name}: {names:?}"),
            }
        }
    }

    #[test]
    fn eight_quoted_bytes_show_ecn_ports_and_sequence_numbers_and_nothing_else() {
        for packet in probes() {
            let (whole, part) = (Seen::of(&packet).unwrap(), Seen::of(&packet[..28]).unwrap());
            for changer in Changer::ALL {
                let shown = changer.shows(&whole, &part);
                assert_ne!(shown, Some(true), "{changer:?}");
                if !matches!(
                    changer,
                    Changer::EcnBleach
                        | Changer::Ect1ToEct0
                        | Changer::CeStrip
                        | Changer::Snat
                        | Changer::SequenceShuffle
                ) {
                    assert_eq!(shown, None, "{changer:?}");
                }
            }
        }
    }

    #[test]
    fn other_changes_have_the_names_of_fields() {
        let sent = Seen::of(&probes()[8]).unwrap();
        let mut changed = Probe::new(Shape::Syn, Ecn::NotEct).packet(
            Way::Forward,
            10,
            SESSION,
            ends().reversed(),
        );
        changed[1] = 0x20;
        let changes = sent.other_changes(&Seen::of(&changed).unwrap());
        assert_eq!(changes, ["ip-dscp", "ip-daddr", "tcp-dport", "tcp-win"]);
        for name in changes {
            assert!(Field::named(name).is_some(), "{name}");
        }
    }
}
