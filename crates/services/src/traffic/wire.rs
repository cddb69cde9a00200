//! What client and server send each other.
//!
//! A session has a control connection, on which both show that they have the token and then send
//! lines of JSON, and ports of its own for data. Numbers in data are in network byte order.

use std::net::IpAddr;

use narrows_quic::QuicControl;
use narrows_traffic::Transfer;
use narrows_units::Duration;
use serde::{Deserialize, Serialize};

use super::token::PROOF;

/// Bytes of the key of a session, which opens its flows.
pub(super) const KEY: usize = 16;

/// Bytes of what a client sends to open a flow, or to ask for the server's time.
pub(super) const OPENING: usize = KEY + 16;

/// Bytes at the head of each datagram of data: the fewest that one has.
pub(super) const HEAD: usize = 32;

/// Bytes of the longest line: the longest mix in JSON.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// How long the server says nothing on the control connection at most (our choice).
pub(super) const BEAT: Duration = Duration::from_secs(1);

/// How long a client that receives nothing of its server waits for it at least (our choice).
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// Characters of a text of the other end that are kept (our choice).
const LONGEST_TEXT: usize = 200;

/// What a client asks of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Time between samples, in nanoseconds.
    pub(super) interval_ns: u64,
    /// How long it lasts, in nanoseconds, waiting for the last transfers included.
    pub(super) lasts_ns: u64,
    /// Options of the sets.
    pub(super) sets: Vec<SetOptions>,
    /// What is to be sent, by number.
    pub(super) transfers: Vec<Transfer>,
}

/// What all flows of a set have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetOptions {
    /// The traffic class of its packets.
    pub(super) class: u8,
    /// The kernel's name of the congestion control of its connections, or that of one of QUIC's.
    pub(super) control: Option<String>,
}

impl SetOptions {
    /// The congestion control of connections that are QUIC.
    pub(super) fn quic(&self) -> Option<QuicControl> {
        QuicControl::parse(self.control.as_deref()?).ok()
    }
}

/// What the server answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The session has begun.
    Session {
        /// Opens its flows.
        key: [u8; KEY],
        /// Where connections of data are opened.
        tcp: u16,
        /// Where datagrams are.
        udp: u16,
        /// Where connections of QUIC are opened, if the request has such.
        quic: Option<QuicPort>,
    },
    /// It has not: why.
    Refused(String),
}

/// Where a server has QUIC.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct QuicPort {
    /// A port of UDP.
    pub(super) port: u16,
    /// Proves the certificate that it shows there.
    pub(super) certificate: [u8; PROOF],
}

/// What the server reports on the control connection while a session lasts and at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// What the server's connections did in an interval.
    Samples(Vec<StreamSample>),
    /// The end of the session.
    End(SenderEnd),
}

/// A connection in an interval, as its sender has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StreamSample {
    /// Which.
    pub(super) transfer: u32,
    /// When the interval began, by the server's clock.
    pub(super) at_ns: u64,
    /// How long it was.
    pub(super) span_ns: u64,
    /// Bytes written.
    pub(super) bytes: u64,
    /// Segments sent again, or packets of QUIC that were lost.
    pub(super) retransmissions: u32,
    /// In bytes.
    pub(super) cwnd: u64,
    /// In microseconds.
    pub(super) rtt_us: u32,
    /// In microseconds; `None` of QUIC.
    pub(super) rttvar_us: Option<u32>,
    /// In bytes.
    pub(super) pmtu: u32,
}

/// What the sender knows at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SenderEnd {
    /// Datagrams that left.
    pub(super) datagrams: u64,
    /// Datagrams that its host did not take.
    pub(super) refused: u64,
    /// The most by which a datagram left after it was due, in nanoseconds.
    pub(super) latest_ns: u64,
    /// Datagrams that left more than a millisecond late.
    pub(super) late: u64,
    /// Bytes written to each transfer that was opened.
    pub(super) written: Vec<(u32, u64)>,
    /// How many file descriptors the server may have, if connections waited for one.
    pub(super) descriptors: Option<u64>,
    /// Why it ended before its time, if it did.
    pub(super) why: Option<String>,
}

/// What a client sends to the server's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The flow of this number begins.
    Flow(u32),
    /// What time is it? With the client's, which comes back.
    Time(u64),
}

impl Opening {
    pub(super) fn to_bytes(self, key: &[u8; KEY]) -> [u8; OPENING] {
        let (kind, value) = match self {
            Self::Flow(number) => (1_u64, u64::from(number)),
            Self::Time(at) => (2, at),
        };
        let mut bytes = [0; OPENING];
        bytes[..KEY].copy_from_slice(key);
        bytes[KEY..KEY + 8].copy_from_slice(&kind.to_be_bytes());
        bytes[KEY + 8..].copy_from_slice(&value.to_be_bytes());
        bytes
    }

    /// Reads one of the session of `key`; `None` of what is none.
    pub(super) fn parse(bytes: &[u8], key: &[u8; KEY]) -> Option<Self> {
        let whole: &[u8; OPENING] = bytes.first_chunk()?;
        if !same(&whole[..KEY], key) || bytes.len() != OPENING {
            return None;
        }
        let value = word(whole, KEY + 8);
        match word(whole, KEY) {
            1 => Some(Self::Flow(u32::try_from(value).ok()?)),
            2 => Some(Self::Time(value)),
            _ => None,
        }
    }
}

/// The head of a datagram of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The flow; of an answer about the time `u32::MAX`.
    pub(super) transfer: u32,
    /// The number of the datagram, from 0; of an answer about the time, the client's.
    pub(super) number: u64,
    /// When it was sent, by the server's clock.
    pub(super) sent_ns: u64,
}

impl Head {
    /// Bytes of the session's key that it has, at its end.
    const PROOF: usize = 8;
    const MAGIC: [u8; 4] = *b"nrwt";

    pub(super) fn to_bytes(self, key: &[u8; KEY]) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&Self::MAGIC);
        bytes[4..8].copy_from_slice(&self.transfer.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
        bytes[24..].copy_from_slice(&key[..Self::PROOF]);
        bytes
    }

    /// Reads one of the session of `key`; `None` of what is none.
    pub(super) fn parse(bytes: &[u8], key: &[u8; KEY]) -> Option<Self> {
        let whole: &[u8; HEAD] = bytes.first_chunk()?;
        let transfer = u32::from_be_bytes([whole[4], whole[5], whole[6], whole[7]]);
        let fits = whole[..4] == Self::MAGIC && same(&whole[24..], &key[..Self::PROOF]);
        fits.then(|| Self {
            transfer,
            number: word(whole, 8),
            sent_ns: word(whole, 16),
        })
    }
}

/// Whether two are the same, in one time whichever byte differs.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// A text of the other end as it may be printed: without what a terminal would obey or show in
/// another order, and of some length.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => plain.extend(c.escape_unicode()),
            c if c.is_control() => plain.extend(c.escape_default()),
            c => plain.push(c),
        }
        if plain.chars().count() >= LONGEST_TEXT {
            return plain.chars().take(LONGEST_TEXT).collect::<String>() + "...";
        }
    }
    plain
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

/// Whom an address is counted as: an IPv4 address, a /64 of IPv6.
pub(super) fn client_of(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 | 1 << 100,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_of_one_session_and_read_back() {
        let (key, other) = ([7; KEY], [8; KEY]);
        for opening in [Opening::Flow(3), Opening::Time(u64::MAX)] {
            let bytes = opening.to_bytes(&key);
            assert_eq!(Opening::parse(&bytes, &key), Some(opening));
            assert_eq!(Opening::parse(&bytes, &other), None);
            assert_eq!(Opening::parse(&bytes[..OPENING - 1], &key), None);
            assert_eq!(Opening::parse(&[&bytes[..], &[0]].concat(), &key), None);
        }
        let mut strange = Opening::Flow(3).to_bytes(&key);
        strange[KEY] = 1;
        assert_eq!(Opening::parse(&strange, &key), None);
    }

    #[test]
    fn heads_are_of_one_session_and_read_back() {
        let (key, other) = ([7; KEY], [8; KEY]);
        let head = Head {
            transfer: 1,
            number: 2,
            sent_ns: 3,
        };
        let bytes = head.to_bytes(&key);
        assert_eq!(Head::parse(&bytes, &key), Some(head));
        assert_eq!(Head::parse(&bytes, &other), None);
        assert_eq!(Head::parse(&bytes[1..], &key), None);
        assert_eq!(Head::parse(&[0; HEAD], &[0; KEY]), None);
    }
}
