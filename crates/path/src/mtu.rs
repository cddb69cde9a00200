//! A link with a smaller MTU in the middle of a path.

use std::fmt;
use std::net::IpAddr;

use narrows_core::{
    Change, DOWN, DropCause, Element, ElementCounters, EntityId, Outlet, Packet, Port, UP,
};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, WordError, Words};
use narrows_wire::Icmp;

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports};
use crate::site::Site;
use crate::tap::pass;

/// `mtu BYTES [silent]`: a router whose next link takes IP packets of at most so many
/// bytes. A longer one is dropped, and its sender receives "fragmentation needed"
/// (RFC 1191 §4) or "packet too big" (RFC 4443 §3.2); neither is rate-limited, as in
/// Linux (`icmpv4_xrlim_allow`, `icmpv6_mask_allow`). `silent` sends none: a black hole
/// for path MTU discovery (RFC 2923 §2.1).
///
/// It never fragments. A packet without "don't fragment" is treated alike, unlike in
/// RFC 1812 §5.2.7: nothing that Narrows or Linux sends by default lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuSpec {
    /// The longest IP packet that passes, in bytes.
    pub mtu: u32,
    /// Whether no ICMP error is sent.
    pub silent: bool,
}

/// What every IPv4 link takes (RFC 791 §3.2), and the longest IP packet.
const RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;
const MTU: &str = "an MTU in bytes of IP, 68 to 65535, such as 1400";

impl Kind for MtuSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "BYTES",
            ParameterKind::Number("bytes"),
            MTU,
            "",
            "The longest IP packet that passes",
        ),
        Parameter::new(
            "silent",
            ParameterKind::Flag,
            "",
            "not silent",
            "Whether no ICMP error is sent",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mtu = words.value_where(MTU, |mtu| RANGE.contains(mtu))?;
        let silent = words.take_if("silent");
        words.clone().finish("`silent` or the end of the element")?;
        Ok(Self { mtu, silent })
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(Mtu {
            entity: site.entity,
            addresses: site.addresses,
            spec: *self,
            counters: ElementCounters::default(),
        })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: true,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            mtu: Some(*self),
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

impl fmt::Display for MtuSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = if self.silent { " silent" } else { "" };
        write!(f, "mtu {}{silent}", self.mtu)
    }
}

/// The running box.
#[derive(Clone, Debug)]
pub struct Mtu {
    entity: EntityId,
    addresses: [IpAddr; 2],
    spec: MtuSpec,
    counters: ElementCounters,
}

impl Element for Mtu {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        if packet.len() <= self.spec.mtu {
            pass(&mut self.counters, &packet);
            out.send(port, packet);
            return;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        self.counters.dropped += 1;
        if !self.spec.silent {
            let error = Icmp::TooBig { mtu: self.spec.mtu };
            if let Some(error) = report(now, error, &self.addresses, &packet, out) {
                self.counters.packets_out += 1;
                self.counters.bytes_out += u64::from(error.len());
                out.send(back(port), error);
            }
        }
        out.drop(now, self.entity, packet, DropCause::TooBig);
    }

    /// `mtu BYTES [silent]`: another link has taken its place, as when a route changes.
    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        words.take_if("mtu");
        self.spec = MtuSpec::parse(&mut words)?;
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

/// The way back.
pub(crate) fn back(port: Port) -> Port {
    if port == UP { DOWN } else { UP }
}

/// The ICMP error `error` about `packet`, from that of `addresses` that has its IP
/// version; `None` where none may be sent.
pub(crate) fn report(
    now: Instant,
    error: Icmp,
    addresses: &[IpAddr; 2],
    packet: &Packet,
    out: &mut Outlet<'_>,
) -> Option<Box<Packet>> {
    let [v4, v6] = *addresses;
    let from = if packet.bytes.first()? >> 4 == 4 {
        v4
    } else {
        v6
    };
    let mut made = out.pool.take(now, None);
    made.parent = Some(packet.id);
    match error.report(&mut made.bytes, from, &packet.bytes, packet.zero_tail) {
        Some(zeros) => {
            made.zero_tail = zeros;
            Some(made)
        }
        None => {
            out.pool.give(made);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BoxBench, datagram};
    use narrows_wire::{FlowKey, Ip, ip};

    #[test]
    fn a_packet_that_fits_passes_and_a_longer_one_is_answered_with_the_mtu() {
        for (a, b) in [("10.0.0.1:9", "10.0.0.2:7"), ("[fd00::1]:9", "[fd00::2]:7")] {
            let mut bench = BoxBench::new("mtu 1400");
            for port in [UP, DOWN] {
                let fits = bench.push(port, &datagram(a, b, 1400), 0);
                assert_eq!(fits.len(), 1);
                assert_eq!(fits[0].0, port);
                let long = bench.push(port, &datagram(a, b, 60), 1341);
                let [(way, error)] = &long[..] else {
                    panic!("{long:?}");
                };
                assert_eq!(*way, back(port));
                assert!(error.parent.is_some());
                let ip = Ip::parse(&error.bytes).unwrap();
                assert_eq!(ip.total_len as u32, error.len());
                let quoted = Icmp::quoted(ip.protocol, &error.bytes[ip.header_len..]);
                let (message, quote) = quoted.unwrap();
                assert_eq!(message, Icmp::TooBig { mtu: 1400 });
                assert_eq!(FlowKey::of(quote).unwrap().source, ip.destination);
                assert!(matches!(ip.protocol, ip::ICMP | ip::ICMPV6));
            }
            let counters = bench.element.counters();
            assert_eq!((counters.packets_in, counters.dropped), (4, 2));
        }
    }

    #[test]
    fn a_silent_one_drops_and_says_nothing_until_it_is_changed() {
        let (a, b) = ("10.0.0.1:9", "10.0.0.2:7");
        let mut bench = BoxBench::new("mtu 1400 silent");
        assert!(bench.push(UP, &datagram(a, b, 1401), 0).is_empty());
        bench.change("mtu 1300");
        let error = bench.push(UP, &datagram(a, b, 1301), 0);
        assert_eq!(error[0].0, DOWN);
    }
}
