//! The searches of known stacks, as their rules are, on a path whose base a handshake has
//! confirmed.

use super::Known;

/// A stack's search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Halves up to 1452 bytes until they are less than 20 apart, and the largest size if it
    /// is further (quinn-proto 0.11.19 `connection/mtud.rs`, `MtuDiscoveryConfig`).
    Quinn,
    /// Ethernet's size first, then halves until they are less than 20 apart (s2n-quic
    /// `path/mtu.rs`).
    S2n,
    /// MTUs of TMA'18 upwards, until one fails (neqo `pmtud.rs`).
    Neqo,
    /// From an MTU of 1248 by 80 bytes, and 1500 in any case (msquic `mtu_discovery.c`).
    Msquic,
    /// The largest, then 1500 and 1400 bytes of payload, until one arrives (picoquic
    /// `sender.c`); what makes it leave out probes that queued data does not repay is not
    /// modelled.
    Picoquic,
}

pub(super) const STACKS: [(&str, Stack); 5] = [
    ("quinn", Stack::Quinn),
    ("s2n-quic", Stack::S2n),
    ("neqo", Stack::Neqo),
    ("msquic", Stack::Msquic),
    ("picoquic", Stack::Picoquic),
];

/// quinn's `upper_bound` by default, in bytes of UDP's payload.
const QUINN_MAX: u16 = 1_452;

/// quinn's BINARY_SEARCH_MINIMUM_CHANGE and s2n-quic's PROBE_THRESHOLD, in bytes.
const NEAR: u16 = 20;

/// Ethernet's MTU in bytes (RFC 894).
const ETHERNET: u16 = 1_500;

/// neqo's table up to Ethernet's MTU, and the two that a jumbo interface may have (`MTU_SIZES_V4`).
const NEQO: [u16; 7] = [1_280, 1_380, 1_420, 1_472, 1_500, 2_047, 4_095];

/// msquic's QUIC_DPLPMTUD_MIN_MTU and QUIC_DPLPMTUD_INCREMENT, in bytes of IP.
const MSQUIC: (u16, u16) = (1_248, 80);

/// Sizes of picoquic after the largest has failed, in bytes of payload.
const PICOQUIC: [u16; 2] = [1_500, 1_400];

impl Stack {
    /// The next size to try; `None` where the search is over.
    pub(super) fn next(self, known: &Known) -> Option<u16> {
        let lower = known.lower();
        let payload = |mtu: u16| mtu.saturating_sub(known.headers);
        let next = match self {
            Self::Quinn => {
                let upper = known.failed.map_or(known.max, |f| f - 1).min(QUINN_MAX);
                let middle = lower + upper.saturating_sub(lower) / 2;
                // What was tried last: the lower end, or the one above the upper.
                let step = match known.failed.filter(|_| known.failed_last) {
                    Some(failed) => failed - middle,
                    None => middle - lower,
                };
                match step >= NEAR {
                    true => middle,
                    false if known.failed_last || upper.saturating_sub(lower) < NEAR => {
                        return None;
                    }
                    false => upper,
                }
            }
            Self::S2n if known.arrived.is_none() && known.failed.is_none() => {
                payload(ETHERNET).min(known.max)
            }
            Self::S2n => {
                let upper = known.failed.unwrap_or(known.max);
                let half = upper.saturating_sub(lower) / 2;
                (half >= NEAR).then_some(lower + half)?
            }
            _ if self != Self::Picoquic && known.failed.is_some() => return None,
            Self::Neqo => NEQO.into_iter().map(payload).find(|size| *size > lower)?,
            Self::Msquic => {
                let (least, step) = MSQUIC;
                let from = lower.max(payload(least));
                let ethernet = payload(ETHERNET);
                match from + step {
                    next if from < ethernet && next > ethernet => ethernet,
                    next => next.min(known.max),
                }
            }
            Self::Picoquic => match (known.arrived, known.failed) {
                (Some(_), _) => return None,
                (None, None) => known.max,
                (None, Some(failed)) => PICOQUIC.into_iter().find(|size| *size < failed)?,
            },
        };
        (next > lower).then_some(next)
    }
}
