//! Probes: packets of which both ends know every byte, and how they are distinguished.

use std::net::{IpAddr, SocketAddr};

use narrows_wire::checksum::Sum;
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{Ecn, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, Udp, UdpFields, ip};

use crate::message::{HEADER_LEN, Kind, Message, Token};

/// Hops that a packet may take where nothing is to be found out about hops,
pub(crate) const TTL: u8 = 64;
/// and those of every other pair: no path is so long that packets of both come with as many left, unless
/// a box sets them.
pub(crate) const OTHER_TTL: u8 = 128;

/// IPv4 identification of packets that are no probes: identifiers of probes end before.
const NO_PROBE: u32 = 0xffff;

/// Ports after a prober's own from which it sends what is to be new to boxes.
const FRESH_PORTS: u16 = 64;

/// The MSS in a SYN: what jumbo frames of 9,000 bytes hold, so that any clamp shows.
pub(crate) const MSS: u16 = 8_960;

/// Bytes of UDP that make a datagram as long as a segment: TCP's 20, timestamps and AccECN.
const UDP_FILLING: usize = 20 + 12 + 12 - 8;

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the prober to the responder.
    Forward,
    /// From the responder to the prober.
    Back,
}

impl Way {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Back];

    /// As an index.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// What a probe looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A datagram like QUIC's with a short header, its spin bit set.
    Udp = 1,
    /// A segment with data, AE, timestamps and the AccECN option.
    Segment = 2,
    /// A SYN that asks for AccECN, with the options of a client that asks for a Fast Open cookie.
    Syn = 3,
    /// The same with data.
    SynData = 4,
}

/// A probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub shape: Shape,
    pub ecn: Ecn,
    pub ttl: u8,
    /// From a port from which the sender has sent nothing that was answered.
    pub fresh: bool,
}

impl Probe {
    /// The probe of a shape that goes all the way from the port that both use.
    pub(crate) const fn new(shape: Shape, ecn: Ecn) -> Self {
        Self {
            shape,
            ecn,
            ttl: TTL,
            fresh: false,
        }
    }

    pub(crate) const fn fresh(self) -> Self {
        Self {
            fresh: true,
            ..self
        }
    }

    /// Whether it is to go all the way.
    pub(crate) const fn goes_all_the_way(self) -> bool {
        self.ttl >= TTL
    }

    pub(crate) const fn encode(self) -> [u8; 4] {
        [self.shape as u8, self.ecn as u8, self.ttl, self.fresh as u8]
    }

    pub(crate) fn decode(bytes: [u8; 4]) -> Option<Self> {
        let [shape, ecn, ttl, fresh] = bytes;
        Some(Self {
            shape: match shape {
                1 => Shape::Udp,
                2 => Shape::Segment,
                3 => Shape::Syn,
                4 => Shape::SynData,
                _ => return None,
            },
            ecn: Ecn::from_bits(ecn),
            ttl,
            fresh: fresh != 0,
        })
    }

    /// The port from which `way`'s sender, whose port is `port`, sends the probe.
    pub(crate) const fn port(self, way: Way, port: u16, id: u16) -> u16 {
        match (self.fresh, way) {
            (false, _) => port,
            (true, Way::Forward) => port.wrapping_add(1 + id % FRESH_PORTS),
            (true, Way::Back) => port.wrapping_add(1),
        }
    }

    /// The packet, which always is the same for the same arguments.
    pub(crate) fn packet(self, way: Way, id: u16, session: Session, ends: Addresses) -> Vec<u8> {
        let message = Message {
            spin: true,
            kind: Kind::Probe,
            session: session.number,
            token: session.token,
            id,
            body: &[],
        };
        let header = Header {
            ecn: self.ecn,
            ttl: self.ttl,
            ident: u32::from(id),
        };
        let start = session.start(way);
        let syn = TcpFields {
            source_port: ends.source.port(),
            destination_port: ends.destination.port(),
            seq: start,
            ack: 0,
            flags: TcpFlags(TcpFlags::SYN | TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE),
            window: id,
            options: TcpOptions {
                mss: Some(MSS),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some((session.number, 0)),
                fast_open: Some(FastOpenCookie::default()),
                ..TcpOptions::default()
            },
        };
        match self.shape {
            Shape::Udp => datagram(ends, header, &message.write(HEADER_LEN + UDP_FILLING)),
            Shape::Segment => {
                let fields = TcpFields {
                    flags: TcpFlags(TcpFlags::ACK | TcpFlags::PSH | TcpFlags::AE),
                    options: TcpOptions {
                        timestamps: Some((session.number, 0)),
                        accecn: Some(AccEcnOption {
                            ect1_first: false,
                            e0b: Some(1),
                            ceb: Some(0),
                            e1b: Some(1),
                        }),
                        ..TcpOptions::default()
                    },
                    ..session.data(way, ends)
                };
                segment(ends, header, &fields, &message.write(0))
            }
            Shape::Syn => segment(ends, header, &syn, &[]),
            Shape::SynData => segment(ends, header, &syn, &message.write(0)),
        }
    }
}

/// A session between a prober and a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub number: u32,
    pub token: Token,
}

impl Session {
    /// The initial sequence number of the end that sends `way`.
    pub(crate) const fn start(self, way: Way) -> u32 {
        match way {
            Way::Forward => self.number,
            Way::Back => !self.number,
        }
    }

    /// A segment within the connection that both ends act.
    fn data(self, way: Way, ends: Addresses) -> TcpFields {
        let other = match way {
            Way::Forward => Way::Back,
            Way::Back => Way::Forward,
        };
        TcpFields {
            source_port: ends.source.port(),
            destination_port: ends.destination.port(),
            seq: self.start(way).wrapping_add(1),
            ack: self.start(other).wrapping_add(1),
            flags: TcpFlags(TcpFlags::ACK | TcpFlags::PSH),
            window: u16::MAX,
            options: TcpOptions::default(),
        }
    }

    /// `payload` on the connection, or as a datagram.
    pub(crate) fn carry(self, over: Over, way: Way, ends: Addresses, payload: &[u8]) -> Vec<u8> {
        match over {
            Over::Udp => datagram(ends, Header::PLAIN, payload),
            Over::Tcp => segment(ends, Header::PLAIN, &self.data(way, ends), payload),
        }
    }

    /// The SYN of the connection, or its answer: neither is a probe.
    pub(crate) fn open(self, way: Way, answer: bool, ends: Addresses) -> Vec<u8> {
        let data = self.data(way, ends);
        let fields = TcpFields {
            seq: self.start(way),
            ack: if answer { data.ack } else { 0 },
            flags: TcpFlags(TcpFlags::SYN | if answer { TcpFlags::ACK } else { 0 }),
            window: 0,
            options: TcpOptions {
                mss: Some(1_460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some((self.number, 0)),
                ..TcpOptions::default()
            },
            ..data
        };
        segment(ends, Header::PLAIN, &fields, &[])
    }

    /// The probe of this session that `packet` is, or that a router quotes: its identifier, and
    /// whether its payload is as it was sent. Of what has no payload, a SYN bears it as its
    /// window, and a quotation that ends before has the IPv4 identification.
    pub(crate) fn identify(self, packet: &[u8], quoted: bool) -> Option<(u16, bool)> {
        let ip = Ip::parse(packet).ok()?;
        let message = payload(packet).and_then(Message::parse);
        if let Some((message, intact)) = message {
            let ours = message.kind == Kind::Probe && message.session == self.number;
            return ours.then_some((message.id, intact));
        }
        if ip.protocol == ip::TCP {
            if let Ok(tcp) = Tcp::parse(&packet[ip.header_len..]) {
                let stamped = tcp
                    .options
                    .timestamps
                    .is_some_and(|(v, _)| v == self.number);
                let ours = stamped || Way::BOTH.iter().any(|way| tcp.seq == self.start(*way));
                if ours && tcp.flags.has(TcpFlags::SYN) && tcp.window > 0 {
                    return Some((tcp.window, true));
                }
            }
        }
        let named = quoted && ip.source.is_ipv4() && ip.ident > 0 && ip.ident < NO_PROBE;
        named.then_some((ip.ident as u16, true))
    }
}

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

impl Over {
    pub(crate) const BOTH: [Self; 2] = [Self::Udp, Self::Tcp];

    /// Bytes of its header in a message's packet.
    pub(crate) const fn header_len(self) -> usize {
        match self {
            Self::Udp => 8,
            Self::Tcp => 20,
        }
    }
}

/// From where to where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

impl Addresses {
    pub(crate) const fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
        }
    }

    /// Those of a packet of TCP or UDP.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let ip = Ip::parse(packet).ok()?;
        let [a, b, c, d] = *packet.get(ip.header_len..)?.first_chunk::<4>()?;
        let known = matches!(ip.protocol, ip::TCP | ip::UDP) && ip.fragment_offset == 0;
        known.then_some(Self {
            source: SocketAddr::new(ip.source, u16::from_be_bytes([a, b])),
            destination: SocketAddr::new(ip.destination, u16::from_be_bytes([c, d])),
        })
    }
}

/// What IP says.
#[derive(Clone, Copy, Debug)]
struct Header {
    ecn: Ecn,
    ttl: u8,
    ident: u32,
}

impl Header {
    const PLAIN: Self = Self {
        ecn: Ecn::NotEct,
        ttl: TTL,
        ident: NO_PROBE,
    };

    fn write(self, out: &mut Vec<u8>, ends: Addresses, protocol: u8, len: usize) {
        let fields = IpFields {
            source: ends.source.ip(),
            destination: ends.destination.ip(),
            traffic_class: self.ecn as u8,
            ttl: self.ttl,
            protocol,
            // Routers choose among paths by the flow label (RFC 6438), so it is one for all.
            ident: if ends.source.is_ipv4() { self.ident } else { 0 },
        };
        fields.write(out, len);
    }
}

fn datagram(ends: Addresses, header: Header, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.write(&mut out, ends, ip::UDP, 8 + payload.len());
    let fields = UdpFields {
        source_port: ends.source.port(),
        destination_port: ends.destination.port(),
    };
    let (source, destination) = (ends.source.ip(), ends.destination.ip());
    fields.write(&mut out, source, destination, payload, 0);
    out
}

fn segment(ends: Addresses, header: Header, fields: &TcpFields, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let len = fields.header_len() + payload.len();
    header.write(&mut out, ends, ip::TCP, len);
    let (source, destination) = (ends.source.ip(), ends.destination.ip());
    fields.write(&mut out, source, destination, payload, 0);
    out
}

/// An answer to what a host that is no responder says to a SYN: the connection is not wanted.
pub(crate) fn reset(ends: Addresses, seq: u32) -> Vec<u8> {
    let fields = TcpFields {
        source_port: ends.source.port(),
        destination_port: ends.destination.port(),
        seq,
        flags: TcpFlags(TcpFlags::RST),
        ..TcpFields::default()
    };
    segment(ends, Header::PLAIN, &fields, &[])
}

/// What a packet of TCP or UDP carries.
pub(crate) fn payload(packet: &[u8]) -> Option<&[u8]> {
    let ip = Ip::parse(packet).ok()?;
    let above = packet.get(ip.header_len..)?;
    let header = match ip.protocol {
        ip::UDP => Udp::parse(above).map(|_| 8).ok()?,
        ip::TCP => Tcp::parse(above).ok()?.header_len,
        _ => return None,
    };
    let end = ip.total_len.checked_sub(ip.header_len)?.min(above.len());
    above.get(header..end)
}

/// Whether the checksum of TCP or UDP holds: what is damaged on the way is as good as lost.
pub(crate) fn is_whole(packet: &[u8]) -> bool {
    let Ok(ip) = Ip::parse(packet) else {
        return false;
    };
    let Some(above) = packet.get(ip.header_len..ip.total_len) else {
        return false;
    };
    let address: [IpAddr; 2] = [ip.source, ip.destination];
    let mut sum = Sum::default();
    sum.add_pseudo_header(address[0], address[1], ip.protocol, above.len() as u32);
    sum.add(above);
    sum.finish() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{SESSION, ends};

    #[test]
    fn every_probe_is_whole_and_told_apart_in_both_versions() {
        let v6 = Addresses {
            source: "[fd00::1]:4000".parse().unwrap(),
            destination: "[fd00::2]:5000".parse().unwrap(),
        };
        for ends in [ends(), v6] {
            for shape in [Shape::Udp, Shape::Segment, Shape::Syn, Shape::SynData] {
                for way in Way::BOTH {
                    let probe = Probe::new(shape, Ecn::Ect1);
                    let packet = probe.packet(way, 77, SESSION, ends);
                    assert!(is_whole(&packet), "{shape:?}");
                    assert_eq!(SESSION.identify(&packet, false), Some((77, true)));
                    assert_eq!(Addresses::of(&packet), Some(ends));
                    assert_eq!(Probe::decode(probe.encode()), Some(probe));
                    let other = Session {
                        number: 1,
                        ..SESSION
                    };
                    assert_eq!(other.identify(&packet, false), None);
                }
            }
        }
    }

    #[test]
    fn a_datagram_is_as_long_as_the_segment_that_controls_it() {
        let len = |shape| {
            let probe = Probe::new(shape, Ecn::NotEct);
            probe.packet(Way::Forward, 1, SESSION, ends()).len()
        };
        assert_eq!(len(Shape::Udp), len(Shape::Segment));
    }

    #[test]
    fn eight_quoted_bytes_above_ip_name_the_probe() {
        let probe = Probe::new(Shape::Syn, Ecn::NotEct);
        let packet = probe.packet(Way::Forward, 99, SESSION, ends());
        assert_eq!(SESSION.identify(&packet[..28], true), Some((99, true)));
        assert_eq!(SESSION.identify(&packet[..28], false), None);
        let message = SESSION.open(Way::Forward, false, ends());
        assert_eq!(SESSION.identify(&message, true), None);
    }

    #[test]
    fn a_damaged_packet_is_not_whole() {
        let probe = Probe::new(Shape::Segment, Ecn::NotEct);
        let mut packet = probe.packet(Way::Forward, 99, SESSION, ends());
        packet[60] ^= 4;
        assert!(!is_whole(&packet));
        assert!(!is_whole(&packet[..40]));
    }
}
