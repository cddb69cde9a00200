//! Two ends of a connection that exchange real headers by hand.

use std::net::{IpAddr, Ipv4Addr};

use narrows_efm::{PacketFacts, SignalFlow, SignalParams, SignalSpec};
use narrows_units::Instant;
use narrows_wire::{Profile, SackList, Signal, Tcp, TcpFields, TcpFlags, TcpOptions};

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A segment on the wire.
#[derive(Clone, Debug)]
pub struct Segment {
    pub bytes: Vec<u8>,
    pub len: u32,
}

impl Segment {
    /// Byte 12 without the data offset and AE.
    pub fn bits(&self) -> u8 {
        Tcp::parse(&self.bytes).unwrap().flags.measurement_bits()
    }

    /// The code that a SYN or SYN-ACK announces.
    pub fn code(&self) -> u8 {
        Tcp::parse(&self.bytes).unwrap().flags.announced_code()
    }

    /// Whether it carries `signal` of `profile`.
    pub fn has(&self, profile: &str, signal: Signal) -> bool {
        let profile: Profile = profile.parse().unwrap();
        self.bits() & profile.mask(signal) != 0
    }
}

/// One end.
#[derive(Clone, Debug)]
pub struct End {
    pub flow: SignalFlow,
    pub params: SignalParams,
    /// Sequence number of the next octet to be sent.
    pub next: u32,
    /// Sequence number of the next octet expected.
    pub expected: u32,
    /// Whether segments carry timestamps, of 1 ms.
    pub timestamps: bool,
    /// What the socket counts: lost, spurious, echoed CE.
    pub socket: Option<(u32, u32, u32)>,
}

/// What kind of segment is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub flags: u16,
    /// Octets of payload.
    pub payload: u32,
    /// Whether it carries a SACK block.
    pub sack: bool,
    /// Packets that it becomes.
    pub segments: u32,
}

/// A pure ACK.
pub const ACK: Kind = Kind {
    flags: TcpFlags::ACK,
    payload: 0,
    sack: false,
    segments: 1,
};
/// A full segment.
pub const DATA: Kind = Kind {
    payload: 1448,
    ..ACK
};
pub const SYN: Kind = Kind {
    flags: TcpFlags::SYN,
    ..ACK
};
pub const SYN_ACK: Kind = Kind {
    flags: TcpFlags::SYN | TcpFlags::ACK,
    ..ACK
};

impl End {
    pub fn new(words: &str, isn: u32) -> Self {
        Self {
            flow: SignalFlow::new(),
            params: SignalSpec::parse(words).unwrap().params(),
            next: isn,
            expected: 0,
            timestamps: true,
            socket: None,
        }
    }

    /// Sends a segment at `us` with the sequence number that is next.
    pub fn send(&mut self, us: u64, kind: Kind) -> Segment {
        let seq = self.next;
        self.next = seq.wrapping_add(kind.payload);
        if kind.flags & (TcpFlags::SYN | TcpFlags::FIN) != 0 {
            self.next = self.next.wrapping_add(1);
        }
        self.send_at(us, kind, seq)
    }

    /// Sends a segment with any sequence number, which moves nothing on.
    pub fn send_at(&mut self, us: u64, kind: Kind, seq: u32) -> Segment {
        let mut options = TcpOptions {
            timestamps: self.timestamps.then_some(((us / 1000) as u32, 0)),
            ..TcpOptions::default()
        };
        if kind.sack {
            let mut sack = SackList::default();
            sack.push(
                self.expected.wrapping_add(1448),
                self.expected.wrapping_add(2896),
            );
            options.sack = sack;
        }
        let fields = TcpFields {
            source_port: 1,
            destination_port: 2,
            seq,
            ack: if kind.flags & TcpFlags::ACK == 0 {
                0
            } else {
                self.expected
            },
            flags: TcpFlags(kind.flags),
            window: 1000,
            options,
        };
        let mut bytes = Vec::new();
        fields.write(&mut bytes, A, B, &[], kind.payload);
        let len = bytes.len() as u32 + kind.payload;
        let facts = self
            .facts(us, &bytes, len)
            .with_segments(kind.segments.max(1));
        if let Some(write) = self.flow.egress(&self.params, &facts) {
            write.apply(&mut bytes);
        }
        Segment { bytes, len }
    }

    fn facts(&self, us: u64, bytes: &[u8], len: u32) -> PacketFacts {
        let facts = PacketFacts::read(Instant::from_nanos(us * 1000), bytes, len).unwrap();
        match self.socket {
            Some((lost, spurious, ce)) => facts.with_socket(lost, spurious, ce),
            None => facts,
        }
    }

    /// Receives a segment at `us`.
    pub fn receive(&mut self, us: u64, segment: &Segment) {
        let facts = self.facts(us, &segment.bytes, segment.len);
        self.flow.ingress(&self.params, &facts);
        let tcp = Tcp::parse(&segment.bytes).unwrap();
        let mut end = tcp.seq.wrapping_add(segment.len - tcp.header_len as u32);
        if tcp.flags.has(TcpFlags::SYN) || tcp.flags.has(TcpFlags::FIN) {
            end = end.wrapping_add(1);
        }
        if tcp.flags.has(TcpFlags::SYN) || end.wrapping_sub(self.expected) < 1 << 31 {
            self.expected = end;
        }
    }
}

/// Initiator and responder with the same words, after a handshake at time 0
/// whose last ACK is still to be sent.
pub fn pair(words: &str) -> (End, End) {
    let (mut a, mut b) = (End::new(words, 1000), End::new(words, 3_000_000_000));
    let syn = a.send(0, SYN);
    b.receive(0, &syn);
    let answer = b.send(0, SYN_ACK);
    a.receive(0, &answer);
    (a, b)
}
