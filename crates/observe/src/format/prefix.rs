//! Flows taken together by the networks of their ends: what passes between the observer
//! and each network, whoever talks to whom.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::headline;
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
    /// Round trips between the observer and it, by the technique that says most.
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

impl RoundTrips {
    fn add(&mut self, ms: f64) {
        self.min_ms = if self.n == 0 { ms } else { self.min_ms.min(ms) };
        self.n += 1;
        self.sum_ms += ms;
        self.spread.add(ms as f32);
    }
}

#[derive(Default)]
struct Network {
    flows: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
    again: u64,
    rtt: BTreeMap<Technique, RoundTrips>,
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
        let trips = network.rtt.entry(sample.technique).or_default();
        trips.add(ms);
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

/// The round trips that say most of the path: by what cannot hold waits of an
/// application, the delay bit before acknowledgements; or else by the technique with the
/// most, unless the handshakes, which each flow shows once, show that waits are in them.
fn most(mut rtt: BTreeMap<Technique, RoundTrips>) -> Option<RttRow> {
    let mean = |trips: &RoundTrips| trips.sum_ms / trips.n as f64;
    let opening = rtt.remove(&Technique::Handshake);
    let order = |(technique, trips): &(Technique, RoundTrips)| match technique {
        Technique::Delay => (2, trips.n),
        Technique::SeqAck => (1, trips.n),
        _ => (0, trips.n),
    };
    let shown = rtt
        .into_iter()
        .max_by_key(order)
        .filter(|(technique, trips)| {
            !(headline::may_hold_waits(*technique)
                && (opening.as_ref())
                    .is_some_and(|opening| headline::holds_waits(mean(trips), mean(opening))))
        });
    let (technique, trips) = shown.or(opening.map(|trips| (Technique::Handshake, trips)))?;
    let [median_ms, p95_ms] = trips.spread.at([0.5, 0.95])?;
    Some(RttRow {
        technique: technique.name(),
        n: trips.n,
        mean_ms: mean(&trips),
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

    fn trips(ms: &[f64]) -> RoundTrips {
        let mut trips = RoundTrips::default();
        for ms in ms {
            trips.add(*ms);
        }
        trips
    }

    fn shown(all: &[(Technique, &[f64])]) -> &'static str {
        let all = all.iter().map(|(technique, ms)| (*technique, trips(ms)));
        most(all.collect()).unwrap().technique
    }

    #[test]
    fn a_network_is_not_as_far_as_its_applications_wait() {
        let waits: &[f64] = &[100.0, 120.0, 90.0];
        // Fewer acknowledgements than timestamps, and yet they are what is shown.
        assert_eq!(
            shown(&[(Technique::TsAll, waits), (Technique::SeqAck, &[20.0])]),
            "seq-ack"
        );
        assert_eq!(
            shown(&[(Technique::TsAll, waits), (Technique::Handshake, &[20.0])]),
            "handshake"
        );
        assert_eq!(
            shown(&[(Technique::TsAll, waits), (Technique::Handshake, &[60.0])]),
            "ts-all"
        );
        assert_eq!(shown(&[(Technique::TsAll, waits)]), "ts-all");
        assert_eq!(
            shown(&[(Technique::Delay, &[21.0]), (Technique::SeqAck, &[20.0; 9])]),
            "delay"
        );
    }

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
