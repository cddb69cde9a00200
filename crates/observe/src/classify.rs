//! From bytes to the facts of a packet that the estimators need.

use std::net::IpAddr;

use narrows_wire::{Ecn, Ip, Malformed, Tcp, TcpFlags, ip};

/// The two ends of a packet's flow, without a direction: the lower address and
/// port first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowEnds {
    /// Addresses in their IPv6 form.
    low: [u64; 2],
    high: [u64; 2],
    /// Ports, that of `low` in the upper half.
    ports: u32,
    protocol: u8,
}

/// Words of an address, IPv4 in its mapped form.
fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => [0, 0xffff << 32 | u64::from(a.to_bits())],
        IpAddr::V6(a) => {
            let whole = a.to_bits();
            [(whole >> 64) as u64, whole as u64]
        }
    }
}

fn address(words: [u64; 2]) -> IpAddr {
    let whole = u128::from(words[0]) << 64 | u128::from(words[1]);
    std::net::Ipv6Addr::from(whole).to_canonical()
}

impl FlowEnds {
    /// The ends of a packet, and whether its source is the lower one.
    fn of(source: (IpAddr, u16), destination: (IpAddr, u16), protocol: u8) -> (Self, bool) {
        let from = (words(source.0), source.1);
        let to = (words(destination.0), destination.1);
        let lower = from <= to;
        let (low, high) = if lower { (from, to) } else { (to, from) };
        let ends = Self {
            low: low.0,
            high: high.0,
            ports: u32::from(low.1) << 16 | u32::from(high.1),
            protocol,
        };
        (ends, lower)
    }

    /// The lower end.
    pub fn low(&self) -> (IpAddr, u16) {
        (address(self.low), (self.ports >> 16) as u16)
    }

    /// The higher end.
    pub fn high(&self) -> (IpAddr, u16) {
        (address(self.high), self.ports as u16)
    }

    /// Protocol number.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// A hash with folded multiplication (as foldhash and wyhash do).
    pub fn hash(&self, seed: u64) -> u32 {
        let fold = |a: u64, b: u64| {
            let whole = u128::from(a) * u128::from(b);
            whole as u64 ^ (whole >> 64) as u64
        };
        // Odd constants with mixed bits: fractions of pi.
        let one = fold(self.low[0] ^ seed, self.low[1] ^ 0x243f_6a88_85a3_08d3);
        let two = fold(self.high[0] ^ one, self.high[1] ^ 0x1319_8a2e_0370_7344);
        let last = u64::from(self.ports) << 8 | u64::from(self.protocol);
        let all = fold(two ^ last, seed ^ 0xa409_3822_299f_31d1);
        (all ^ all >> 32) as u32
    }
}

/// What the estimators need of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
    /// Bytes of payload by the IP header's length, whether captured or not.
    pub payload: u32,
    pub timestamps: Option<(u32, u32)>,
}

impl Segment {
    /// Sequence number after the segment: SYN and FIN count one each.
    pub fn end(&self) -> u32 {
        let controls =
            u32::from(self.flags.has(TcpFlags::SYN)) + u32::from(self.flags.has(TcpFlags::FIN));
        self.seq.wrapping_add(self.payload).wrapping_add(controls)
    }
}

/// What is above a packet's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Above<'a> {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram: what was captured of its payload. Of what protocol that
    /// is, only a flow can know that has seen others.
    Udp(&'a [u8]),
}

/// A packet that belongs to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    pub(crate) ends: FlowEnds,
    /// Whether the lower end sent it.
    pub(crate) from_low: bool,
    pub(crate) ecn: Ecn,
    /// Bytes of the IP packet.
    pub(crate) length: u32,
    pub(crate) above: Above<'a>,
    /// Whether options were cut or contradict themselves.
    pub(crate) options: OptionsRead,
}

impl<'a> Packet<'a> {
    /// The segment, if it is TCP.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match &self.above {
            Above::Tcp(segment) => Some(segment),
            Above::Udp(_) => None,
        }
    }

    /// What was captured of a UDP datagram's payload; `None` of a segment.
    pub fn datagram(&self) -> Option<&'a [u8]> {
        match self.above {
            Above::Tcp(_) => None,
            Above::Udp(payload) => Some(payload),
        }
    }

    /// Address and port of the sender.
    pub fn source(&self) -> (IpAddr, u16) {
        if self.from_low {
            self.ends.low()
        } else {
            self.ends.high()
        }
    }

    /// Address and port of the receiver.
    pub fn destination(&self) -> (IpAddr, u16) {
        if self.from_low {
            self.ends.high()
        } else {
            self.ends.low()
        }
    }

    /// Protocol number.
    pub fn protocol(&self) -> u8 {
        self.ends.protocol
    }
}

/// How much of a TCP header's options could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsRead {
    All,
    Cut,
    Malformed,
}

/// Why a packet shows nothing of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// A header contradicts itself.
    Malformed,
    /// The capture ends inside a header that is needed.
    Truncated,
    /// A fragment other than the first: it has no ports.
    LaterFragment,
    /// A protocol other than TCP and UDP.
    OtherProtocol,
}

/// What a packet is.
pub type Classified<'a> = Result<Packet<'a>, Unread>;

/// Reads a packet that starts at its IP header, as [`classify`] does, into a
/// place of its own: what a packet is takes some hundred bytes, and moving them
/// around takes longer than reading most packets. After `bytes`, the capture has not kept
/// `cut` bytes, which count where the IP header has no length.
#[inline]
pub fn classify_into<'a>(bytes: &'a [u8], cut: u32, slot: &mut Option<Classified<'a>>) {
    if usual(bytes, slot).is_none() {
        *slot = Some(classify_cut(bytes, cut));
    }
}

/// A TCP segment over IPv4, both without options or with the timestamps that
/// Linux puts on almost every segment; no later fragment. Most packets are so.
#[inline]
fn usual(bytes: &[u8], slot: &mut Option<Classified<'_>>) -> Option<()> {
    let h = bytes.first_chunk::<40>()?;
    let word = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let half = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    if h[0] != 0x45 || half(6) & 0x1fff != 0 || h[9] != ip::TCP {
        return None;
    }
    let (header, timestamps) = match h[32] >> 4 {
        5 => (40, None),
        8 => match bytes.get(40..52)?.first_chunk::<12>()? {
            [1, 1, 8, 10, a, b, c, d, e, f, g, i] => {
                let value = u32::from_be_bytes([*a, *b, *c, *d]);
                (52, Some((value, u32::from_be_bytes([*e, *f, *g, *i]))))
            }
            _ => return None,
        },
        _ => return None,
    };
    let length = u32::from(half(2));
    let segment = Segment {
        seq: word(24),
        ack: word(28),
        flags: TcpFlags(half(32) & 0x0fff),
        payload: length.checked_sub(header)?,
        timestamps,
    };
    // Address and port in one number are in order as they are in a pair.
    let end = |address: u32, port: u16| u64::from(address) << 16 | u64::from(port);
    let (from, to) = (end(word(12), half(20)), end(word(16), half(22)));
    let (low, high) = (from.min(to), from.max(to));
    let mapped = |end: u64| [0, 0xffff << 32 | end >> 16];
    *slot = Some(Ok(Packet {
        ends: FlowEnds {
            low: mapped(low),
            high: mapped(high),
            ports: (low as u32) << 16 | high as u32 & 0xffff,
            protocol: ip::TCP,
        },
        from_low: from <= to,
        ecn: Ecn::from_bits(h[1]),
        length,
        above: Above::Tcp(segment),
        options: OptionsRead::All,
    }));
    Some(())
}

/// Reads a packet that starts at its IP header.
///
/// # Errors
/// Says why it belongs to no flow.
pub fn classify(bytes: &[u8]) -> Classified<'_> {
    classify_cut(bytes, 0)
}

/// Reads a packet of which a capture has not kept the last `cut` bytes.
fn classify_cut(bytes: &[u8], cut: u32) -> Classified<'_> {
    let ip = Ip::parse_cut(bytes, cut).map_err(unread)?;
    if ip.fragment_offset > 0 {
        return Err(Unread::LaterFragment);
    }
    let above = &bytes[ip.header_len..];
    let space = ip.total_len - ip.header_len;
    let bytes_of = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (ports, above, options) = match ip.protocol {
        ip::TCP => {
            let (ports, segment, options) = segment(above, bytes_of(space))?;
            (ports, Above::Tcp(segment), options)
        }
        ip::UDP => {
            let (ports, payload) = datagram(above, space)?;
            (ports, Above::Udp(payload), OptionsRead::All)
        }
        _ => return Err(Unread::OtherProtocol),
    };
    let (ends, from_low) =
        FlowEnds::of((ip.source, ports.0), (ip.destination, ports.1), ip.protocol);
    Ok(Packet {
        ends,
        from_low,
        ecn: ip.ecn(),
        length: bytes_of(ip.total_len),
        above,
        options,
    })
}

/// Reads a UDP header: its ports, and what was captured of the payload, without
/// padding of the link.
fn datagram(bytes: &[u8], space: usize) -> Result<((u16, u16), &[u8]), Unread> {
    let Some((h, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(Unread::Truncated);
    };
    // A length below 8 is not a datagram; one above what IP left is cut there.
    let payload = usize::from(u16::from_be_bytes([h[4], h[5]])).min(space);
    let payload = payload.checked_sub(8).ok_or(Unread::Malformed)?;
    let ports = (
        u16::from_be_bytes([h[0], h[1]]),
        u16::from_be_bytes([h[2], h[3]]),
    );
    Ok((ports, &rest[..payload.min(rest.len())]))
}

fn unread(malformed: Malformed) -> Unread {
    match malformed {
        Malformed::Truncated(_) => Unread::Truncated,
        _ => Unread::Malformed,
    }
}

/// Reads a TCP header; without its options where these are cut or wrong, as a
/// receiver does. `space` is what the IP header leaves for it.
fn segment(bytes: &[u8], space: u32) -> Result<((u16, u16), Segment, OptionsRead), Unread> {
    let Some(h) = bytes.first_chunk::<20>() else {
        return Err(Unread::Truncated);
    };
    let header_len = u32::from(h[12] >> 4) * 4;
    if header_len < 20 || header_len > space {
        return Err(Unread::Malformed);
    }
    let number = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
    let flags = TcpFlags(u16::from_be_bytes([h[12] & 0x0f, h[13]]));
    let (timestamps, options) = match bytes.get(20..header_len as usize) {
        // The layout that Linux puts on almost every segment.
        Some([1, 1, 8, 10, a, b, c, d, e, f, g, i]) => (
            Some((
                u32::from_be_bytes([*a, *b, *c, *d]),
                u32::from_be_bytes([*e, *f, *g, *i]),
            )),
            OptionsRead::All,
        ),
        Some([]) => (None, OptionsRead::All),
        Some(_) => match Tcp::parse(bytes) {
            Ok(tcp) => (tcp.options.timestamps, OptionsRead::All),
            Err(_) => (None, OptionsRead::Malformed),
        },
        None => (None, OptionsRead::Cut),
    };
    let ports = (
        u16::from_be_bytes([h[0], h[1]]),
        u16::from_be_bytes([h[2], h[3]]),
    );
    let segment = Segment {
        seq: number(4),
        ack: number(8),
        flags,
        payload: space - header_len,
        timestamps,
    };
    Ok((ports, segment, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::{IpFields, TcpFields, TcpOptions};

    fn packet(v6: bool) -> Vec<u8> {
        let (source, destination): (IpAddr, IpAddr) = if v6 {
            (
                "2001:db8::2".parse().unwrap(),
                "2001:db8::1".parse().unwrap(),
            )
        } else {
            ("10.0.0.2".parse().unwrap(), "10.0.0.1".parse().unwrap())
        };
        let tcp = TcpFields {
            source_port: 40_000,
            destination_port: 443,
            seq: 7,
            flags: TcpFlags(TcpFlags::ACK),
            options: TcpOptions {
                timestamps: Some((5, 6)),
                ..TcpOptions::default()
            },
            ..TcpFields::default()
        };
        let ip = IpFields {
            source,
            destination,
            traffic_class: 3,
            ttl: 64,
            protocol: ip::TCP,
            ident: 0,
        };
        let mut bytes = Vec::new();
        ip.write(&mut bytes, tcp.header_len() + 100);
        tcp.write(&mut bytes, source, destination, &[1; 100], 0);
        bytes
    }

    #[test]
    fn both_versions_show_ends_numbers_and_ecn() {
        for v6 in [false, true] {
            let bytes = packet(v6);
            let packet = classify(&bytes).unwrap();
            assert_eq!(packet.source().1, 40_000);
            assert!(!packet.from_low);
            assert_eq!(packet.source().0.is_ipv6(), v6);
            assert_eq!(packet.ecn, Ecn::Ce);
            let segment = packet.segment().unwrap();
            assert_eq!((segment.payload, segment.end()), (100, 107));
            assert_eq!(segment.timestamps, Some((5, 6)));
        }
    }

    #[test]
    fn a_packet_cut_in_its_options_still_shows_its_numbers() {
        let bytes = packet(false);
        let cut = classify(&bytes[..45]).unwrap();
        assert_eq!(cut.options, OptionsRead::Cut);
        let segment = cut.segment().unwrap();
        assert_eq!((segment.seq, segment.payload), (7, 100));
        assert_eq!(segment.timestamps, None);
        assert_eq!(
            classify(&packet(false)[..39]).unwrap_err(),
            Unread::Truncated
        );
    }

    #[test]
    fn the_short_way_reads_the_same_or_leaves_it_to_the_long_one() {
        let mut rng = narrows_units::Rng::for_name(1, "short way");
        let mut short = 0;
        for i in 0..40_000 {
            let mut bytes = packet(i % 8 == 0);
            if i % 3 == 0 {
                // Without options.
                bytes[32] = 0x50;
            }
            // Header bytes and their neighbours, and a cut now and then.
            for _ in 0..rng.below(3) {
                let at = rng.below(56) as usize;
                bytes[at] = rng.draw_u64() as u8;
            }
            if rng.below(4) == 0 {
                bytes.truncate(rng.below(80) as usize);
            }
            let mut slot = None;
            if usual(&bytes, &mut slot).is_some() {
                assert_eq!(slot, Some(classify(&bytes)), "{bytes:x?}");
                short += 1;
            }
        }
        assert!(short > 10_000, "{short}");
    }

    #[test]
    fn the_lower_end_is_the_same_by_the_short_way_whoever_sends() {
        for (source, destination, ports) in [
            (9u8, 9u8, (7u16, 6u16)),
            (9, 9, (6, 7)),
            (9, 9, (7, 7)),
            (1, 255, (9, 8)),
            (255, 1, (8, 9)),
        ] {
            let mut bytes = packet(false);
            (bytes[15], bytes[19]) = (source, destination);
            bytes[20..22].copy_from_slice(&ports.0.to_be_bytes());
            bytes[22..24].copy_from_slice(&ports.1.to_be_bytes());
            let mut slot = None;
            assert!(usual(&bytes, &mut slot).is_some());
            assert_eq!(slot, Some(classify(&bytes)));
        }
    }

    #[test]
    fn an_option_of_length_zero_does_not_hang() {
        let mut bytes = packet(false);
        bytes[40..44].copy_from_slice(&[8, 0, 8, 0]);
        assert_eq!(classify(&bytes).unwrap().options, OptionsRead::Malformed);
    }

    #[test]
    fn a_segment_that_offload_left_without_a_length_has_the_payload_of_its_frame() {
        for v6 in [false, true] {
            let mut bytes = packet(v6);
            let field = if v6 { 4..6 } else { 2..4 };
            bytes[field].fill(0);
            let mut slot = None;
            classify_into(&bytes, 149_900, &mut slot);
            let read = slot.unwrap().unwrap();
            assert_eq!(read.length as usize, bytes.len() + 149_900);
            assert_eq!(read.segment().unwrap().payload, 150_000);
            assert_eq!(read.segment().unwrap().timestamps, Some((5, 6)));
        }
    }

    #[test]
    fn a_header_longer_than_its_packet_is_malformed() {
        let mut bytes = packet(false);
        bytes[2..4].copy_from_slice(&45u16.to_be_bytes());
        assert_eq!(classify(&bytes).unwrap_err(), Unread::Malformed);
    }
}
