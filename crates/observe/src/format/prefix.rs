//! Flows taken together by the networks of their ends: what passes between the observer
//! and each network, whoever talks to whom.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::names::Names;
use crate::flow::Flow;
use crate::quantiles::Quantiles;
use crate::sample::{Measured, Quantity, Sample, Side, Technique};

/// Lengths of the prefixes by which addresses are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    /// Of IPv4, up to 32.
    pub v4: u8,
    /// Of IPv6, up to 128.
    pub v6: u8,
}

/// Networks that are kept apart at a point; what belongs to others is in one more row.
const MOST: usize = 1 << 16;

/// What is known of one network.
pub(super) struct PrefixRow {
    /// The network, or its pseudonym, with its length.
    pub prefix: String,
    /// Ends of flows in it.
    pub flows: u64,
    /// What came from it, went to it, and was sent again by it.
    pub packets_from: u64,
    pub packets_to: u64,
    pub bytes_from: u64,
    pub bytes_to: u64,
    pub again: u64,
    /// Round trips between the observer and it, by the technique with the most.
    pub rtt: Option<RttRow>,
}

/// Round trips of one technique, in milliseconds.
pub(super) struct RttRow {
    pub technique: &'static str,
    pub n: u64,
    pub mean_ms: f64,
    pub min_ms: f64,
    pub median_ms: f64,
    pub p95_ms: f64,
}

/// Round trips of one technique.
#[derive(Default)]
struct RoundTrips {
    n: u64,
    sum_ms: f64,
    min_ms: f64,
    spread: Quantiles,
}

#[derive(Default)]
struct Network {
    flows: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
    again: u64,
    rtt: BTreeMap<&'static str, RoundTrips>,
}

/// The networks of each point.
pub(super) struct Prefixes {
    lengths: PrefixLengths,
    taps: BTreeMap<String, BTreeMap<Option<IpAddr>, Network>>,
}

impl Prefixes {
    pub fn new(lengths: PrefixLengths) -> Self {
        Self {
            lengths,
            taps: BTreeMap::new(),
        }
    }

    fn network(&mut self, tap: &str, address: IpAddr) -> &mut Network {
        if !self.taps.contains_key(tap) {
            self.taps.insert(tap.to_owned(), BTreeMap::new());
        }
        let networks = self.taps.get_mut(tap).expect("it was just made");
        let prefix = Some(masked(address, self.lengths));
        let known = networks.len() < MOST || networks.contains_key(&prefix);
        networks.entry(prefix.filter(|_| known)).or_default()
    }

    /// Adds a round trip between the observer and an end of its flow; others are of two
    /// networks.
    pub fn sample(&mut self, tap: &str, flow: &Flow, sample: &Sample) {
        let side = match sample.quantity {
            Quantity::LeftRtt => Side::Initiator,
            Quantity::RightRtt => Side::Responder,
            _ => return,
        };
        let Measured::Rtt(rtt) = sample.value else {
            return;
        };
        let ms = rtt.as_millis_f64();
        let network = self.network(tap, flow.end(side).0);
        let trips = network.rtt.entry(sample.technique.name()).or_default();
        trips.min_ms = if trips.n == 0 {
            ms
        } else {
            trips.min_ms.min(ms)
        };
        trips.n += 1;
        trips.sum_ms += ms;
        trips.spread.add(ms as f32);
    }

    /// Adds what was counted of a flow that has ended.
    pub fn ended(&mut self, tap: &str, flow: &Flow) {
        for side in Side::BOTH {
            let network = self.network(tap, flow.end(side).0);
            network.flows += 1;
            network.again += u64::from(flow.again(side));
            for (way, sender) in [side, side.other()].into_iter().enumerate() {
                network.packets[way] += flow.packets(sender);
                network.bytes[way] += flow.bytes(sender);
            }
        }
    }

    /// What is known of the networks at a point, those with the most bytes first.
    pub fn rows(&mut self, tap: &str, names: &Names) -> Vec<PrefixRow> {
        let lengths = self.lengths;
        let networks = self.taps.remove(tap).unwrap_or_default();
        let mut rows: Vec<PrefixRow> = networks
            .into_iter()
            .map(|(prefix, network)| {
                let prefix = match prefix {
                    Some(address) => {
                        let length = if address.is_ipv4() {
                            lengths.v4
                        } else {
                            lengths.v6
                        };
                        format!("{}/{length}", names.address(address))
                    }
                    None => "others".to_owned(),
                };
                let [packets_from, packets_to] = network.packets;
                let [bytes_from, bytes_to] = network.bytes;
                PrefixRow {
                    prefix,
                    flows: network.flows,
                    packets_from,
                    packets_to,
                    bytes_from,
                    bytes_to,
                    again: network.again,
                    rtt: most(network.rtt),
                }
            })
            .collect();
        // Sorting is stable, and the map was in order.
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes_from + row.bytes_to));
        rows
    }
}

/// The technique with the most round trips; that of the handshake, which each flow shows
/// once, only where there is no other.
fn most(rtt: BTreeMap<&'static str, RoundTrips>) -> Option<RttRow> {
    let opening = Technique::Handshake.name();
    let order = |(technique, trips): &(&'static str, RoundTrips)| (*technique != opening, trips.n);
    let (technique, trips) = rtt.into_iter().max_by_key(order)?;
    let [median_ms, p95_ms] = trips.spread.at([0.5, 0.95])?;
    Some(RttRow {
        technique,
        n: trips.n,
        mean_ms: trips.sum_ms / trips.n as f64,
        min_ms: trips.min_ms,
        median_ms,
        p95_ms,
    })
}

/// The network of an address.
fn masked(address: IpAddr, lengths: PrefixLengths) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(lengths.v4.min(32)));
            Ipv4Addr::from_bits(a.to_bits() & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(lengths.v6.min(128)));
            Ipv6Addr::from_bits(a.to_bits() & mask.unwrap_or(0)).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_together_by_their_first_bits() {
        let of = |address: &str, v4, v6| {
            masked(address.parse().unwrap(), PrefixLengths { v4, v6 }).to_string()
        };
        assert_eq!(of("192.0.2.77", 24, 48), "192.0.2.0");
        assert_eq!(of("192.0.2.77", 32, 48), "192.0.2.77");
        assert_eq!(of("192.0.2.77", 0, 48), "0.0.0.0");
        assert_eq!(of("2001:db8:1:2::3", 24, 48), "2001:db8:1::");
        assert_eq!(of("2001:db8:1:2::3", 24, 0), "::");
        assert_eq!(of("2001:db8:1:2::3", 24, 128), "2001:db8:1:2::3");
    }
}
