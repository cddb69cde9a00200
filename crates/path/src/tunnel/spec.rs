//! The words of a tunnel.

use std::fmt;

use narrows_core::Element;
use narrows_units::{Duration, Parameter, ParameterKind, WordError, WordWriter, Words};

use super::encapsulation::Encapsulation;
use super::{Ends, Tunnel};
use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, usages};
use crate::mtu::MtuSpec;
use crate::site::Site;

/// `tunnel KIND …` or `tunnel end`.
///
/// A tunnel has two boxes. In each direction of a link it begins at the element that says its
/// kind and ends at the next `tunnel end` that ends no tunnel between; what is between them
/// sees outer headers only. A scenario's check gives the end the words of the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelSpec {
    /// Where a tunnel begins.
    Begins(TunnelWords),
    /// Where the one that began last ends.
    Ends,
}

/// `tunnel wireguard|fou|ipsec [ipv6] [sport PORT|auto] [mtu BYTES] [replay PACKETS|off]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelWords {
    /// What packets are wrapped in.
    pub(super) of: Encapsulation,
    /// Whether the outer header is of IPv6.
    pub(super) ipv6: bool,
    /// Of the outer UDP header; `None` where there is none.
    pub(super) sport: Option<SourcePort>,
    /// The longest packet that it takes; what fits the link if it is not said.
    mtu: Option<u32>,
    /// Packets in the receiver's window; `None` of none.
    pub(super) replay: Option<u32>,
}

/// The source port of outer headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourcePort {
    /// One for all.
    Fixed(u16),
    /// By the flow inside.
    Auto,
}

impl TunnelSpec {
    /// The words of a tunnel; `None` of an end without them.
    pub fn words(&self) -> Option<&TunnelWords> {
        match self {
            Self::Begins(words) => Some(words),
            Self::Ends => None,
        }
    }
}

const KIND: &str = "`wireguard`, `fou`, `ipsec` or `end`";
const SPORT: &str = "a port, 1 to 65535, or auto";
/// What every IPv4 link takes (RFC 791 §3.2), and the longest IP packet.
pub(super) const MTUS: std::ops::RangeInclusive<u32> = 68..=65_535;
const MTU: &str = "an MTU in bytes of IP, 68 to 65535, such as 1420";
/// More than are on any path: 100 ms of 100 Gbit/s.
const MOST_REPLAY: u32 = 1 << 20;
const REPLAY: &str = "packets, 1 to 1048576, or off";

impl TunnelWords {
    /// Bytes of the outer IP header.
    pub(super) fn ip(&self) -> u32 {
        if self.ipv6 { 40 } else { 20 }
    }

    /// The longest packet that the tunnel takes on a link with this MTU.
    pub(super) fn mtu_on(&self, link: u32) -> u32 {
        self.mtu.unwrap_or_else(|| self.of.largest(self.ip(), link))
    }

    /// Whether an end sends to where the latest packet of the other came from, as WireGuard does; with one
    /// source port, to which answers can go.
    pub(super) fn roams(&self) -> bool {
        let fixed = matches!(self.sport, Some(SourcePort::Fixed(_)));
        self.of == Encapsulation::WireGuard && fixed
    }

    /// Whether the tunnel works where its outer addresses are translated on the way: FOU and
    /// ESP (without NAT traversal, RFC 3948) send to the address that they are set to.
    pub fn passes_nat(&self) -> bool {
        self.roams()
    }

    /// Bytes around a packet of `len` bytes that is as long as the tunnel takes, with it.
    pub fn around(&self, len: u32) -> u32 {
        self.of.outer(self.ip(), len, len)
    }

    /// The least MTU of a link on which it takes packets that every IPv4 link takes.
    pub fn least_link(&self) -> u32 {
        self.around(*MTUS.start())
    }

    /// The same tunnel with its MTU said.
    ///
    /// # Errors
    /// The largest MTU that fits the link, where that is too little.
    pub fn on_link(self, link: u32) -> Result<Self, u32> {
        let fits = self.of.largest(self.ip(), link);
        let mtu = self.mtu.unwrap_or(fits);
        if self.around(mtu) > link || mtu < *MTUS.start() {
            return Err(fits);
        }
        Ok(Self {
            mtu: Some(mtu),
            ..self
        })
    }

    fn parse(of: Encapsulation, words: &mut Words<'_>) -> Result<Self, WordError> {
        let (mut ipv6, mut sport, mut mtu, mut replay) = (false, None, None, None);
        while let Some(word) = words.take() {
            let repeated = match word.text {
                "ipv6" => std::mem::replace(&mut ipv6, true),
                "sport" if of.port().is_none() => {
                    let error = word.refused("ipv6, mtu BYTES, or replay PACKETS|off");
                    return Err(error.with_help("ESP has no ports"));
                }
                "sport" if words.take_if("auto") => sport.replace(SourcePort::Auto).is_some(),
                "sport" => {
                    let port = words.value_where(SPORT, |port| *port > 0)?;
                    sport.replace(SourcePort::Fixed(port)).is_some()
                }
                "mtu" => {
                    let given = words.value_where(MTU, |mtu| MTUS.contains(mtu))?;
                    mtu.replace(given).is_some()
                }
                "replay" if !of.is_numbered() => {
                    let error = word.refused("ipv6, sport PORT|auto, or mtu BYTES");
                    return Err(error.with_help("FOU does not number its packets"));
                }
                "replay" if words.take_if("off") => replay.replace(None).is_some(),
                "replay" => {
                    let fits = |packets: &u32| (1..=MOST_REPLAY).contains(packets);
                    let zero = words.peek().is_some_and(|w| w.text == "0");
                    let packets = words.value_where(REPLAY, fits).map_err(|e| match zero {
                        true => e.with_help("no window is `replay off`"),
                        false => e,
                    })?;
                    replay.replace(Some(packets)).is_some()
                }
                _ => return Err(word.refused(usages(TunnelSpec::PARAMETERS))),
            };
            if repeated {
                return Err(word.repeated());
            }
        }
        let own = of.port().map(SourcePort::Fixed);
        Ok(Self {
            of,
            ipv6,
            sport: sport.or(own),
            mtu,
            replay: replay.flatten(),
        })
    }
}

impl Kind for TunnelSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "KIND",
            ParameterKind::Choice,
            KIND,
            "",
            "What packets are wrapped in, `wireguard`, `fou` (IP in UDP) or `ipsec` (ESP); `end` \
             where the tunnel ends that began last",
        ),
        Parameter::flag("ipv6", "IPv4", "Whether the outer IP header is of IPv6"),
        Parameter::new(
            "sport PORT|auto",
            ParameterKind::Words,
            SPORT,
            "that of the kind",
            "Source port of the outer UDP header: one for all, or by a hash of the flow inside, \
             32768 to 60998",
        ),
        Parameter::new(
            "mtu BYTES",
            ParameterKind::Number("bytes"),
            MTU,
            "what fits the link",
            "The longest IP packet that it takes; the sender of a longer one receives the ICMP \
             error of a router",
        ),
        Parameter::new(
            "replay PACKETS|off",
            ParameterKind::Words,
            REPLAY,
            "off",
            "The receiver's window against replayed packets: one whose number was seen, or is so \
             many or more below the highest, is dropped",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(KIND)?;
        if word.text == "end" {
            words.clone().finish("the end of the element")?;
            return Ok(Self::Ends);
        }
        let known = Encapsulation::NAMES.iter().find(|(n, _)| *n == word.text);
        let (_, of) = known.ok_or_else(|| word.refused(KIND))?;
        TunnelWords::parse(*of, words).map(Self::Begins)
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let ends = match (self, site.other_end) {
            (Self::Begins(words), Some(other)) => Some(Ends::of(words, site, &other)),
            _ => None,
        };
        Box::new(Tunnel::new(site.entity, ends))
    }

    fn facts(&self) -> Facts<'_> {
        let mtu = match self {
            Self::Begins(TunnelWords { mtu: Some(mtu), .. }) => Some(MtuSpec {
                mtu: *mtu,
                silent: false,
                limit: None,
                says: None,
                spoofs: None,
            }),
            _ => None,
        };
        Facts {
            link: None,
            holds_back: false,
            two_way: true,
            node: false,
            translates: false,
            wraps: true,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for TunnelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Begins(words) = self else {
            return f.write_str("tunnel end");
        };
        let named = Encapsulation::NAMES.iter().find(|(_, of)| *of == words.of);
        write!(f, "tunnel {}", named.map_or("", |(name, _)| name))?;
        let sport = match words.sport {
            Some(SourcePort::Auto) => Some("auto".to_owned()),
            Some(SourcePort::Fixed(port)) if Some(port) != words.of.port() => {
                Some(port.to_string())
            }
            _ => None,
        };
        WordWriter::new(f)
            .word_if(words.ipv6, "ipv6")
            .some("sport", sport)
            .some("mtu", words.mtu)
            .some("replay", words.replay)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(line: &str) -> TunnelWords {
        match ElementSpec::parse(line) {
            Ok(ElementSpec::Tunnel(TunnelSpec::Begins(words))) => words,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn words_are_written_in_one_spelling() {
        for (line, written) in [
            ("tunnel end", "tunnel end"),
            ("tunnel wireguard", "tunnel wireguard"),
            ("tunnel wireguard sport 51820", "tunnel wireguard"),
            (
                "tunnel wireguard replay 64 mtu 1420 ipv6",
                "tunnel wireguard ipv6 mtu 1420 replay 64",
            ),
            ("tunnel fou sport auto", "tunnel fou sport auto"),
            ("tunnel ipsec replay off", "tunnel ipsec"),
        ] {
            let spec = ElementSpec::parse(line).unwrap();
            assert_eq!(spec.to_string(), written);
            assert_eq!(ElementSpec::parse(written), Ok(spec));
        }
    }

    #[test]
    fn only_wireguard_with_one_source_port_works_behind_a_nat() {
        for (line, passes) in [
            ("tunnel wireguard", Some(true)),
            ("tunnel wireguard sport 7", Some(true)),
            ("tunnel wireguard sport auto", Some(false)),
            ("tunnel fou", Some(false)),
            ("tunnel ipsec", Some(false)),
            ("tunnel end", None),
        ] {
            let Ok(ElementSpec::Tunnel(spec)) = ElementSpec::parse(line) else {
                panic!("{line}");
            };
            let words = spec.words();
            assert_eq!(words.map(TunnelWords::passes_nat), passes, "{line}");
        }
    }

    #[test]
    fn wrong_words_are_refused_at_their_place() {
        for (line, at, help) in [
            ("tunnel", "", ""),
            ("tunnel gre", "gre", ""),
            ("tunnel end replay 1", "replay", ""),
            ("tunnel ipsec sport auto", "sport", "ESP has no ports"),
            (
                "tunnel fou replay 64",
                "replay",
                "FOU does not number its packets",
            ),
            ("tunnel ipsec replay 0", "0", "no window is `replay off`"),
            ("tunnel ipsec replay 1048577", "1048577", ""),
            ("tunnel ipsec replay -1", "-1", ""),
            ("tunnel ipsec replay 32 replay off", "replay", ""),
            ("tunnel fou sport 0", "0", ""),
            ("tunnel fou mtu 67", "67", ""),
            ("tunnel fou ipv4", "ipv4", ""),
        ] {
            let error = ElementSpec::parse(line).unwrap_err();
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
            assert_eq!(error.help.as_deref().unwrap_or(""), help, "{line}");
        }
    }

    #[test]
    fn the_mtu_is_what_the_headers_leave_of_the_links() {
        // IPv4 20, UDP 8, WireGuard 32: 60; ESP 8, IV 8, trailer 2, tag 16 and padding.
        for (line, link, mtu) in [
            ("tunnel wireguard", 1500, 1440),
            ("tunnel wireguard ipv6", 1500, 1420),
            ("tunnel fou", 1500, 1472),
            ("tunnel fou ipv6", 1500, 1452),
            ("tunnel ipsec", 1500, 1446),
            ("tunnel ipsec", 1501, 1446),
            ("tunnel ipsec", 1504, 1450),
            ("tunnel wireguard mtu 1280", 1500, 1280),
            ("tunnel fou", 96, 68),
        ] {
            let on = begins(line).on_link(link).unwrap();
            assert_eq!(on.mtu, Some(mtu), "{line} on {link}");
            assert!(on.of.outer(on.ip(), mtu, mtu) <= link, "{line} on {link}");
            assert!(
                on.mtu
                    .is_some_and(|m| m == 1280 || on.of.outer(on.ip(), m + 1, m + 1) > link)
            );
        }
        for (line, link, fits) in [
            ("tunnel fou", 95, 67),
            ("tunnel wireguard", 68, 8),
            ("tunnel wireguard mtu 1441", 1500, 1440),
            ("tunnel wireguard mtu 65535", 1500, 1440),
            ("tunnel ipsec mtu 1447", 1500, 1446),
        ] {
            assert_eq!(begins(line).on_link(link), Err(fits), "{line} on {link}");
        }
        for (line, least) in [
            ("tunnel fou", 96),
            ("tunnel wireguard", 128),
            ("tunnel ipsec ipv6", 144),
        ] {
            assert_eq!(begins(line).least_link(), least, "{line}");
        }
    }
}
