//! A link with a smaller MTU in the middle of a path.

use std::fmt;
use std::net::IpAddr;

use narrows_core::{
    Change, DOWN, DropCause, Element, ElementCounters, EntityId, Outlet, Packet, Port, UP,
};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rng, WordError, WordWriter, Words,
};
use narrows_wire::{Icmp, Ip, ip, udp};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports};
use crate::site::Site;
use crate::tap::pass;

/// `mtu BYTES`: a router whose next link takes IP packets of at most so many
/// bytes. A longer one is dropped, and its sender receives "fragmentation needed"
/// (RFC 1191 §4) or "packet too big" (RFC 4443 §3.2); neither is rate-limited, as in
/// Linux (`icmpv4_xrlim_allow`, `icmpv6_mask_allow`).
///
/// What goes wrong with these errors in the field: `silent` sends none, a black hole for
/// path MTU discovery (RFC 2923 §2.1); `limit` sends so many a second, as routers do;
/// `says` names another MTU than the link has; `spoofs` is somebody elsewhere who knows
/// addresses and ports and nothing of what was sent (RFC 5927 §7).
///
/// It never fragments. A packet without "don't fragment" is treated alike, unlike in
/// RFC 1812 §5.2.7: nothing that Narrows or Linux sends by default lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuSpec {
    /// The longest IP packet that passes, in bytes.
    pub mtu: u32,
    /// Whether no ICMP error is sent.
    pub silent: bool,
    /// ICMP errors that are sent in a second of the run at most; all if it is `None`.
    pub limit: Option<u32>,
    /// The MTU that errors name, where that is not the true one.
    pub says: Option<u32>,
    /// The MTU that forged errors name, one of which comes for each packet that passes and
    /// quotes one that nobody sent; none if it is `None`.
    pub spoofs: Option<u32>,
}

/// What every IPv4 link takes (RFC 791 §3.2), and the longest IP packet.
const RANGE: std::ops::RangeInclusive<u32> = 68..=65_535;
const NAMED: &str = "an MTU in bytes of IP, 0 to 65535";
const OTHERS: &str = "`silent`, `limit N`, `says BYTES`, `spoofs BYTES` or the end of the element";
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
        Parameter::flag("silent", "not silent", "Whether no ICMP error is sent"),
        Parameter::new(
            "limit N",
            ParameterKind::Number("errors a second"),
            "at least 1 error",
            "none",
            "ICMP errors that are sent in a second at most",
        ),
        Parameter::new(
            "says BYTES",
            ParameterKind::Number("bytes"),
            NAMED,
            "the true one",
            "The MTU that errors name",
        ),
        Parameter::new(
            "spoofs BYTES",
            ParameterKind::Number("bytes"),
            NAMED,
            "none",
            "Sends a forged error for each packet that passes, which names this MTU and quotes a \
             packet that nobody sent: addresses and ports are right, all behind them is random",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mtu = words.value_where(MTU, |mtu| RANGE.contains(mtu))?;
        let mut spec = Self {
            mtu,
            silent: false,
            limit: None,
            says: None,
            spoofs: None,
        };
        let named = |words: &mut Words<'_>| {
            let named = words.value_where(NAMED, |mtu| *mtu <= *RANGE.end())?;
            Ok::<_, WordError>(Some(named))
        };
        while let Some(word) = words.take() {
            match word.text {
                "silent" => spec.silent = true,
                "limit" => {
                    spec.limit = Some(words.value_where("at least 1 error", |n: &u32| *n > 0)?);
                }
                "says" => spec.says = named(words)?,
                "spoofs" => spec.spoofs = named(words)?,
                _ => return Err(word.refused(OTHERS)),
            }
        }
        Ok(spec)
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
            rng: Rng::for_name(site.seed, site.name),
            second: 0,
            sent: 0,
        })
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: true,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
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
        write!(f, "mtu {}", self.mtu)?;
        WordWriter::new(f)
            .word_if(self.silent, "silent")
            .some("limit", self.limit)
            .some("says", self.says)
            .some("spoofs", self.spoofs)
            .finish()
    }
}

/// The running box.
#[derive(Clone, Debug)]
pub struct Mtu {
    entity: EntityId,
    addresses: [IpAddr; 2],
    spec: MtuSpec,
    counters: ElementCounters,
    /// Of what forged errors quote.
    rng: Rng,
    /// The second of the run in which `sent` errors were sent.
    second: u64,
    sent: u32,
}

impl Mtu {
    /// Whether one more error may be sent.
    fn allows(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            (self.second, self.sent) = (second, 0);
        }
        let allowed = !self.spec.silent && self.spec.limit.is_none_or(|limit| self.sent < limit);
        self.sent += u32::from(allowed);
        allowed
    }

    /// Sends the sender of `packet` an error that names `mtu`.
    fn answer(
        &mut self,
        now: Instant,
        port: Port,
        mtu: u32,
        packet: &Packet,
        out: &mut Outlet<'_>,
    ) {
        let error = Icmp::TooBig { mtu };
        if let Some(error) = report(now, error, &self.addresses, packet, out) {
            self.counters.packets_out += 1;
            self.counters.bytes_out += u64::from(error.len());
            out.send(back(port), error);
        }
    }

    /// Sends the sender of `packet` an error by somebody who knows its addresses and ports.
    fn forge(&mut self, now: Instant, port: Port, mtu: u32, packet: &Packet, out: &mut Outlet<'_>) {
        let Ok(ip) = Ip::parse(&packet.bytes) else {
            return;
        };
        let known = ip.header_len
            + if ip.protocol == ip::UDP {
                udp::HEADER_LEN
            } else {
                PORTS
            };
        let mut guessed = packet.clone();
        for byte in guessed.bytes.iter_mut().skip(known) {
            *byte = self.rng.below(256) as u8;
        }
        self.answer(now, port, mtu, &guessed, out);
    }
}

/// Bytes of both ports, with which a transport's header begins.
const PORTS: usize = 4;

impl Element for Mtu {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        if packet.len() <= self.spec.mtu {
            pass(&mut self.counters, &packet);
            if let Some(mtu) = self.spec.spoofs {
                self.forge(now, port, mtu, &packet, out);
            }
            out.send(port, packet);
            return;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        self.counters.dropped += 1;
        if self.allows(now) {
            let mtu = self.spec.says.unwrap_or(self.spec.mtu);
            self.answer(now, port, mtu, &packet, out);
        }
        out.drop(now, self.entity, packet, DropCause::TooBig);
    }

    /// `mtu BYTES …`: another link has taken its place, as when a route changes.
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
    use narrows_wire::FlowKey;

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
    /// The MTU that an error names, and what of a datagram's payload it quotes.
    fn read(error: &Packet) -> (u32, Vec<u8>) {
        let ip = Ip::parse(&error.bytes).unwrap();
        let (message, quote) = Icmp::quoted(ip.protocol, &error.bytes[ip.header_len..]).unwrap();
        let Icmp::TooBig { mtu } = message else {
            panic!("{message:?}");
        };
        let quoted = Ip::parse(quote).unwrap().header_len + udp::HEADER_LEN;
        (mtu, quote[quoted..].to_vec())
    }

    #[test]
    fn one_that_is_limited_sends_so_many_errors_in_a_second_and_drops_the_rest() {
        let (a, b) = ("10.0.0.1:9", "10.0.0.2:7");
        let mut bench = BoxBench::new("mtu 1400 limit 2");
        let sent = (0..5).map(|_| bench.push(UP, &datagram(a, b, 1401), 0).len());
        assert_eq!(sent.sum::<usize>(), 2);
        assert_eq!(bench.element.counters().dropped, 5);
        bench.run_for(Duration::from_secs(1));
        assert_eq!(bench.push(UP, &datagram(a, b, 1401), 0).len(), 1);
        // Half a second later it is the same second.
        bench.run_for(Duration::from_millis(500));
        let sent = (0..3).map(|_| bench.push(UP, &datagram(a, b, 1401), 0).len());
        assert_eq!(sent.sum::<usize>(), 1);
    }

    #[test]
    fn what_passes_what_is_dropped_and_errors_are_counted() {
        let (a, b) = ("10.0.0.1:9", "10.0.0.2:7");
        let mut bench = BoxBench::new("mtu 1400");
        bench.push(UP, &datagram(a, b, 1000), 0);
        let mut bytes = 1000;
        for _ in 0..2 {
            bytes += bench.push(UP, &datagram(a, b, 1500), 0)[0].1.len();
        }
        let counters = bench.element.counters();
        assert_eq!((counters.packets_in, counters.bytes_in), (3, 4000));
        let out = (counters.packets_out, counters.bytes_out);
        assert_eq!(out, (3, u64::from(bytes)));
        assert_eq!(counters.dropped, 2);
    }

    #[test]
    fn one_that_says_another_mtu_drops_by_its_own() {
        let (a, b) = ("10.0.0.1:9", "10.0.0.2:7");
        let mut bench = BoxBench::new("mtu 1400 says 900");
        assert_eq!(bench.push(UP, &datagram(a, b, 1400), 0)[0].0, UP);
        let error = bench.push(UP, &datagram(a, b, 1401), 0);
        assert_eq!(read(&error[0].1).0, 900);
    }

    #[test]
    fn a_forged_error_has_addresses_and_ports_of_what_passes_and_none_of_its_payload() {
        for (a, b) in [("10.0.0.1:9", "10.0.0.2:7"), ("[fd00::1]:9", "[fd00::2]:7")] {
            let mut bench = BoxBench::new("mtu 1500 silent spoofs 600");
            let packet = datagram(a, b, 200);
            let sent = bench.push(UP, &packet, 0);
            let (forged, passed) = match &sent[..] {
                [(DOWN, forged), (UP, passed)] => (forged, passed),
                _ => panic!("{sent:?}"),
            };
            assert_eq!(passed.bytes, packet);
            let (mtu, payload) = read(forged);
            assert_eq!(mtu, 600);
            let ip = Ip::parse(&packet).unwrap();
            assert_ne!(payload, packet[ip.header_len + udp::HEADER_LEN..]);
            let quoted = Icmp::quoted(Icmp::protocol(ip.source), &forged.bytes[ip.header_len..]);
            // The whole header of UDP is known.
            let known = ip.header_len..ip.header_len + udp::HEADER_LEN;
            assert_eq!(quoted.unwrap().1[known.clone()], packet[known]);
            let key = FlowKey::of(quoted.unwrap().1).unwrap();
            assert_eq!(Some(key), FlowKey::of(&packet));
        }
    }

    #[test]
    fn words_print_back() {
        for words in [
            "mtu 1400",
            "mtu 1400 silent",
            "mtu 1400 limit 1 says 0 spoofs 68",
        ] {
            let spec = ElementSpec::parse(words).unwrap();
            assert_eq!(spec.to_string(), words);
        }
        for wrong in ["mtu 1400 quiet", "mtu 1400 limit 0", "mtu 1400 says 65536"] {
            assert!(ElementSpec::parse(wrong).is_err(), "{wrong}");
        }
    }
}
