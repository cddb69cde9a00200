//! The server that says which probes arrived.
//!
//! It answers who has shown, by the token in its probe, that it gets what goes to its address;
//! never with more bytes than arrived, and no faster than it is set to. Who has not shown it may
//! write any address as its own: what it asks for has rates of its own, and takes nothing of those
//! who have.

use std::fmt;
use std::net::IpAddr;

use narrows_units::{Duration, Instant};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::message::{MESSAGE_LEN, Message, MessageKind, TOKEN_LEN};

/// How long a token is given out; it is accepted for as long again (our choice).
pub(crate) const PERIOD: Duration = Duration::from_secs(300);

/// Clients whose rates are counted apart; more of them share counts (our choice: 64 KiB for each
/// of the two rates).
const COUNTS: usize = 4_096;

/// Tokens that are given to one client in a second (our choice): it asks for one, five times in
/// as many seconds at most, and twenty may be behind one address.
const TOKENS_PER_CLIENT: u32 = 20;

/// How much a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Probes that are answered in a second, of one IPv4 address or of one /64 of IPv6.
    pub per_client: u32,
    /// The same of all together.
    pub in_all: u32,
    /// Tokens that are given in a second, to all together.
    pub tokens: u32,
}

impl Default for ServerSettings {
    /// A client sends up to 200 in a second; ours is room for two behind one address, and for fifty of them.
    /// Each needs one token.
    fn default() -> Self {
        Self {
            per_client: 500,
            in_all: 10_000,
            tokens: 1_000,
        }
    }
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerCounts {
    /// Datagrams that came.
    pub received: u64,
    /// Tokens given.
    pub welcomed: u64,
    /// Probes answered.
    pub answered: u64,
    /// Datagrams that are no message of a client.
    pub malformed: u64,
    /// Probes without the token of their address, or with one of long ago.
    pub unauthenticated: u64,
    /// Probes beyond a rate.
    pub limited: u64,
    /// Requests for a token beyond a rate.
    pub tokens_limited: u64,
    /// Answers that the first link did not take.
    pub too_long: u64,
}

impl fmt::Display for ServerCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "datagrams that came: {}; requests for a token answered: {}, probes answered: {}; not answered: \
             {} that are no message, {} without a token, beyond the rates probes: {}, requests for a \
             token: {}; answers too long for the first link: {}",
            self.received,
            self.welcomed,
            self.answered,
            self.malformed,
            self.unauthenticated,
            self.limited,
            self.tokens_limited,
            self.too_long
        )
    }
}

/// What is to be sent: these bytes, then zeros up to `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The message.
    pub bytes: [u8; MESSAGE_LEN],
    /// Bytes of the datagram.
    pub len: u16,
}

/// Datagrams that may be answered, one a second for each of its rate and so many at once.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    second: u64,
    answered: u32,
}

impl Count {
    fn allows(&mut self, second: u64, rate: u32) -> bool {
        if self.second != second {
            *self = Self {
                second,
                answered: 0,
            };
        }
        let allowed = self.answered < rate;
        self.answered += u32::from(allowed);
        allowed
    }
}

/// What is answered in this second, to each client and to all.
#[derive(Clone, Debug)]
struct Rates {
    clients: Vec<Count>,
    all: Count,
}

impl Rates {
    fn new() -> Self {
        Self {
            clients: vec![Count::default(); COUNTS],
            all: Count::default(),
        }
    }

    /// Whether one more of `client` is answered. All together last: what one client has too many
    /// of takes nothing from others.
    fn allows(&mut self, second: u64, client: usize, per_client: u32, in_all: u32) -> bool {
        self.clients[client].allows(second, per_client) && self.all.allows(second, in_all)
    }
}

/// A server.
#[derive(Clone)]
pub struct Server {
    settings: ServerSettings,
    key: [u8; 32],
    /// Of those who have a token.
    probes: Rates,
    /// Of those who ask for one.
    tokens: Rates,
    counts: ServerCounts,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is nobody's to read.
        f.debug_struct("Server")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// One whose tokens only who has `key` can make.
    pub fn new(settings: ServerSettings, key: [u8; 32]) -> Self {
        Self {
            settings,
            key,
            probes: Rates::new(),
            tokens: Rates::new(),
            counts: ServerCounts::default(),
        }
    }

    /// What it has counted.
    pub fn counts(&self) -> ServerCounts {
        self.counts
    }

    /// The first link did not take an answer.
    pub fn note_too_long(&mut self) {
        self.counts.too_long += 1;
    }

    /// Takes a datagram of `len` bytes, of which `datagram` is the beginning, and gives the
    /// answer, if it has one.
    pub fn receive(
        &mut self,
        now: Instant,
        from: IpAddr,
        datagram: &[u8],
        len: u32,
    ) -> Option<Transmit> {
        self.counts.received += 1;
        let asked = Message::parse(datagram)
            .filter(|m| matches!(m.kind, MessageKind::Hello | MessageKind::Probe));
        let (Some(asked), Ok(len)) = (asked, u16::try_from(len)) else {
            self.counts.malformed += 1;
            return None;
        };
        let second = now.as_nanos() / 1_000_000_000;
        let period = now.as_nanos() / PERIOD.as_nanos();
        let client = self.client(from);
        let (kind, token, len_of_answer) = if asked.kind == MessageKind::Hello {
            let all = self.settings.tokens;
            if !self.tokens.allows(second, client, TOKENS_PER_CLIENT, all) {
                self.counts.tokens_limited += 1;
                return None;
            }
            self.counts.welcomed += 1;
            let token = self.token(from, period);
            (MessageKind::Welcome, token, MESSAGE_LEN as u16)
        } else {
            // Before any rate: what has no token takes nothing of those who have one.
            if !self.accepts(from, period, &asked.token) {
                self.counts.unauthenticated += 1;
                return None;
            }
            let ServerSettings {
                per_client, in_all, ..
            } = self.settings;
            if !self.probes.allows(second, client, per_client, in_all) {
                self.counts.limited += 1;
                return None;
            }
            self.counts.answered += 1;
            let wanted = asked.size.max(MESSAGE_LEN as u16).min(len);
            (MessageKind::Answer, asked.token, wanted)
        };
        let answer = Message {
            kind,
            size: len,
            number: asked.number,
            token,
        };
        Some(Transmit {
            bytes: answer.write(),
            len: len_of_answer,
        })
    }

    /// Who is counted as one: an IPv4 address, a /64 of IPv6.
    fn client(&self, from: IpAddr) -> usize {
        let prefix = match from.to_canonical() {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        };
        let hash = self.hash(b'c', u128::from(prefix), 0);
        usize::from(u16::from_be_bytes([hash[0], hash[1]])) % COUNTS
    }

    /// The token of an address in a period.
    fn token(&self, from: IpAddr, period: u64) -> [u8; TOKEN_LEN] {
        let address = match from.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        self.hash(b't', address.to_bits(), period)
    }

    /// SHA-256 of the key and what follows, cut to half: all inputs have one length and half of
    /// the state is kept back, so that nobody can extend one.
    fn hash(&self, what: u8, of: u128, period: u64) -> [u8; TOKEN_LEN] {
        let hash = Sha256::new()
            .chain_update(self.key)
            .chain_update([what])
            .chain_update(of.to_be_bytes())
            .chain_update(period.to_be_bytes())
            .finalize();
        let mut half = [0; TOKEN_LEN];
        half.copy_from_slice(&hash[..TOKEN_LEN]);
        half
    }

    /// Whether `token` was given to `from` in this period or the one before. It takes the same time whichever byte
    /// differs.
    fn accepts(&self, from: IpAddr, period: u64, token: &[u8; TOKEN_LEN]) -> bool {
        let given = |period| {
            let ours = self.token(from, period);
            let differs = ours.iter().zip(token).fold(0, |d, (a, b)| d | (a ^ b));
            differs == 0
        };
        given(period) | (period > 0 && given(period - 1))
    }
}

#[cfg(test)]
mod tests;
