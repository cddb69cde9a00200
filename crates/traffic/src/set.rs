//! The flows of a mix, and when each begins.

use narrows_units::{Duration, Rate, Rng};
use serde::{Deserialize, Serialize};

/// Most transfers of a mix (our choice): each is an entry of a timetable.
pub const MAX_TRANSFERS: usize = 100_000;

/// Flows of one kind, all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSet {
    /// What they are called, followed by a number each where there are several.
    pub label: String,
    /// The kind of the mix, or `flow` where a flow file describes it.
    pub kind: String,
    /// What each of them sends.
    pub sends: Sends,
    /// How many run beside each other.
    pub instances: u32,
    /// When each of them begins.
    pub starts: Starts,
    /// The code point of its packets.
    pub dscp: Option<u8>,
    /// The congestion control that is asked for.
    pub control: Option<String>,
    /// The server that is named.
    pub server: Option<String>,
}

/// What a flow sends, from the server to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// Datagrams at a constant rate of payload.
    Datagrams {
        /// Payload, in bits a second.
        rate: u64,
        /// Payload of each, in bytes.
        size: u32,
        /// When it ends.
        until: Until,
    },
    /// A connection on which bytes are written at a constant rate.
    Paced {
        /// In bits a second.
        rate: u64,
        /// When it ends.
        until: Until,
    },
    /// A connection for an object of so many bytes.
    Get(u64),
    /// A connection that carries all that it can for so long.
    Bulk(Duration),
}

/// When a flow of a constant rate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After a time.
    Time(Duration),
    /// After so many bytes of payload.
    Bytes(u64),
}

/// When the flows of a set begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Starts {
    /// Each at these times.
    At(Vec<Duration>),
    /// Each so many times, a period apart, the first within the first period.
    Every {
        /// From a beginning to the next one.
        period: Duration,
        /// Beginnings of each.
        times: u32,
    },
}

/// Where in the first period the instances of a set begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offsets {
    /// Drawn, uniformly.
    #[default]
    Random,
    /// Evenly.
    Spread,
    /// All at once.
    Together,
}

/// One flow, with its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its set, in the order of the mix.
    pub set: u32,
    /// Its number in the set, from 0.
    pub instance: u32,
    /// When it begins, after the mix does.
    pub start: Duration,
    /// What is sent.
    pub sends: Sends,
}

impl Sends {
    /// Bytes of payload that it sends if nothing holds it back; `None` where that depends on the
    /// path.
    pub fn bytes(&self) -> Option<u64> {
        match *self {
            Self::Get(bytes) => Some(bytes),
            Self::Bulk(_) => None,
            Self::Paced { rate, until } => Some(match until {
                Until::Bytes(bytes) => bytes,
                Until::Time(time) => Rate::from_bits(rate).bytes_in(time),
            }),
            Self::Datagrams { size, .. } => self.packets().map(|n| n * u64::from(size)),
        }
    }

    /// Datagrams that it sends; `None` for a connection.
    pub fn packets(&self) -> Option<u64> {
        let Self::Datagrams { rate, size, until } = *self else {
            return None;
        };
        let size = u64::from(size).max(1);
        Some(match until {
            Until::Bytes(bytes) => bytes.div_ceil(size),
            // One at the beginning, and one as often as its bits have gone by.
            Until::Time(time) => {
                let bits = u128::from(rate) * u128::from(time.as_nanos()) / 1_000_000_000;
                let whole = bits.div_ceil(u128::from(size) * 8);
                u64::try_from(whole).unwrap_or(u64::MAX)
            }
        })
    }

    /// How long it sends if nothing holds it back; nothing for an object.
    pub fn lasts(&self) -> Duration {
        match *self {
            Self::Get(_) => Duration::ZERO,
            Self::Bulk(time) => time,
            Self::Paced { rate, until } | Self::Datagrams { rate, until, .. } => match until {
                Until::Time(time) => time,
                Until::Bytes(bytes) => Rate::from_bits(rate.max(1)).time_for(bytes),
            },
        }
    }

    /// The protocol by name.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::Datagrams { .. } => "udp",
            _ => "tcp",
        }
    }
}

impl Starts {
    /// Beginnings of one flow.
    pub fn times(&self) -> usize {
        match self {
            Self::At(times) => times.len(),
            Self::Every { times, .. } => *times as usize,
        }
    }
}

impl FlowSet {
    /// The name of one of its flows.
    pub fn name(&self, instance: u32) -> String {
        match self.instances {
            1 => self.label.clone(),
            _ => format!("{}-{instance}", self.label),
        }
    }

    /// Transfers that it has.
    pub fn transfers(&self) -> usize {
        (self.instances as usize).saturating_mul(self.starts.times())
    }

    /// Bytes of payload that it offers in all; `None` where that depends on the path.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.sends.bytes()?.saturating_mul(self.transfers() as u64))
    }

    /// When each instance begins, as drawn by `seed`. Flows of a constant rate that begin together
    /// are spread over the time between two datagrams, lest all of them send at the same instant.
    pub fn offsets(&self, offsets: Offsets, seed: u64) -> Vec<Duration> {
        let within = match (&self.starts, self.sends) {
            (Starts::Every { period, .. }, _) => *period,
            (_, Sends::Datagrams { rate, size, .. }) => {
                Rate::from_bits(rate.max(1)).time_for(u64::from(size))
            }
            _ => return vec![Duration::ZERO; self.instances as usize],
        };
        let mut rng = Rng::for_name(seed, &format!("mix/{}", self.label));
        let n = u64::from(self.instances.max(1));
        let place = |i: u64| match offsets {
            Offsets::Random => rng.within(within),
            Offsets::Spread => {
                let ns = u128::from(within.as_nanos()) * u128::from(i) / u128::from(n);
                Duration::from_nanos(ns as u64)
            }
            Offsets::Together => Duration::ZERO,
        };
        (0..u64::from(self.instances)).map(place).collect()
    }

    /// Its flows with their beginnings, as set number `set` of a mix.
    pub fn schedule(&self, set: u32, offsets: Offsets, seed: u64) -> Vec<Transfer> {
        let mut all = Vec::with_capacity(self.transfers().min(MAX_TRANSFERS));
        for (instance, offset) in (0..).zip(self.offsets(offsets, seed)) {
            let times: Vec<_> = match &self.starts {
                Starts::At(times) => times.clone(),
                Starts::Every { period, times } => {
                    (0..u64::from(*times)).map(|i| *period * i).collect()
                }
            };
            all.extend(times.into_iter().map(|time| Transfer {
                set,
                instance,
                start: time + offset,
                sends: self.sends,
            }));
        }
        all
    }
}
