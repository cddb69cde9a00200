//! Delay and jitter of packets from one host to another: of a flow of datagrams, and of a
//! probe's questions and answers.

use narrows_core::Packet;
use narrows_scenario::Window;
use narrows_scenario::endpoints::{ASKER_PORTS, MAX_PROBES, PROBE_PORTS};
use narrows_units::{Histogram, Instant};
use narrows_wire::{FlowKey, ip};

use super::bins::{Columns, mean_ms};
use crate::distribution::Distribution;
use crate::summary::{OneWaySummary, millionths};

/// RFC 3550 §6.4.1: a new difference counts for a sixteenth of the estimate.
const GAIN: f64 = 1.0 / 16.0;

/// Packets from one host to another. Those that were sent in the steady window count.
pub(super) struct OneWay {
    window: Window,
    delay: Histogram,
    /// What the packet that arrived last took, in nanoseconds.
    last: Option<u64>,
    /// The interarrival jitter by now, in nanoseconds.
    jitter: f64,
    /// Sum, count and greatest of its values at the packets that count.
    jitters: (f64, u64, f64),
    /// Of the present interval.
    sum: u64,
    count: u64,
    points: [Vec<(usize, f32)>; 2],
}

impl OneWay {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            delay: Histogram::default(),
            last: None,
            jitter: 0.0,
            jitters: (0.0, 0, 0.0),
            sum: 0,
            count: 0,
            points: Default::default(),
        }
    }

    /// `packet` arrives. A copy that was made on the way is no packet of its sender's.
    pub(super) fn received(&mut self, now: Instant, packet: &Packet) {
        if packet.parent.is_some() {
            return;
        }
        let delay = now.since(packet.born);
        let took = delay.as_nanos();
        if let Some(last) = self.last.replace(took) {
            let difference = took.abs_diff(last) as f64;
            self.jitter += (difference - self.jitter) * GAIN;
        }
        self.sum += took;
        self.count += 1;
        if self.window.contains(packet.born) {
            self.delay.record(delay);
            let (sum, count, most) = &mut self.jitters;
            *sum += self.jitter;
            *count += 1;
            *most = most.max(self.jitter);
        }
    }

    /// Begins the present interval anew, after packets that were not recorded.
    pub(super) fn restart(&mut self) {
        (self.last, self.sum, self.count) = (None, 0, 0);
    }

    pub(super) fn close_interval(&mut self, interval: usize) {
        if self.count > 0 {
            self.points[0].push((interval, mean_ms(self.sum, self.count)));
            self.points[1].push((interval, (self.jitter / 1e6) as f32));
        }
        (self.sum, self.count) = (0, 0);
    }

    /// Moves its series to `columns`, under names that begin with `way`.
    pub(super) fn declare(&mut self, way: &str, columns: &mut Columns) {
        for (name, points) in ["one_way_ms", "jitter_ms"].iter().zip(&mut self.points) {
            columns.declare(format!("{way}{name}"), std::mem::take(points));
        }
    }

    /// What it came to; its series go to `columns` under names that begin with `way`. `None`
    /// if no packet that counts arrived.
    pub(super) fn finish(mut self, way: &str, columns: &mut Columns) -> Option<OneWaySummary> {
        self.declare(way, columns);
        let delay = Distribution::of_ms(&self.delay)?;
        let (sum, count, most) = self.jitters;
        Some(OneWaySummary {
            one_way_ms: delay,
            jitter_mean_ms: millionths(sum / count as f64 / 1e6),
            jitter_max_ms: millionths(most / 1e6),
        })
    }
}

/// Which probe `packet` is of, by its number in the plan, and whether it is the answer.
pub(super) fn probe_of(packet: &Packet) -> Option<(usize, bool)> {
    let key = FlowKey::of(&packet.bytes).filter(|key| key.protocol == ip::UDP)?;
    let number = |port: u16, first: u16| Some(usize::from(port.checked_sub(first)?));
    for (asker, answerer, answers) in [
        (key.source_port, key.destination_port, false),
        (key.destination_port, key.source_port, true),
    ] {
        let both = (number(asker, ASKER_PORTS), number(answerer, PROBE_PORTS));
        if let (Some(probe), Some(other)) = both {
            if probe == other && probe < MAX_PROBES {
                return Some((probe, answers));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn one_way(packets: &[(u64, u64)]) -> OneWaySummary {
        let mut way = OneWay::new(Window {
            from: at(1_000),
            to: at(2_000),
        });
        for (sent, took) in packets {
            let packet = Packet {
                born: at(*sent),
                ..Packet::default()
            };
            way.received(at(sent + took), &packet);
        }
        way.finish("", &mut Columns::new(&[])).unwrap()
    }

    /// D is 16, 8 and 0 ms: J becomes 1, then 1 + 7/16, then 15/16 of that.
    #[test]
    fn jitter_is_the_interarrival_jitter_of_rfc_3550() {
        let found = one_way(&[(1_000, 10), (1_020, 26), (1_040, 18), (1_060, 18)]);
        let expected = [0.0, 1.0, 1.4375, 1.347_656_25];
        let mean = expected.iter().sum::<f64>() / 4.0;
        assert!((found.jitter_mean_ms - mean).abs() < 1e-6, "{found:?}");
        assert_eq!(found.jitter_max_ms, 1.4375);
    }

    /// An even stream has none, however long it takes.
    #[test]
    fn a_constant_delay_has_no_jitter_and_no_variation() {
        let found = one_way(&[(1_000, 30), (1_020, 30), (1_040, 30)]);
        assert_eq!((found.jitter_mean_ms, found.jitter_max_ms), (0.0, 0.0));
        assert_eq!(found.variation_ms(found.one_way_ms.max), 0.0);
        assert_eq!(found.one_way_ms.mean, 30.0);
    }

    #[test]
    fn what_was_sent_outside_the_window_counts_for_the_estimate_alone() {
        let found = one_way(&[(900, 10), (1_000, 26), (2_000, 90)]);
        assert_eq!(found.one_way_ms.count, 1);
        assert_eq!((found.one_way_ms.max, found.jitter_max_ms), (26.0, 1.0));
    }

    fn datagram(source_port: u16, destination_port: u16, protocol: u8) -> Packet {
        let (source, destination) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut bytes = Vec::new();
        let header = narrows_wire::IpFields {
            source,
            destination,
            traffic_class: 0,
            ttl: 64,
            protocol,
            ident: 0,
        };
        header.write(&mut bytes, 8);
        let udp = narrows_wire::UdpFields {
            source_port,
            destination_port,
        };
        udp.write(&mut bytes, source, destination, &[], 0);
        Packet {
            bytes,
            ..Packet::default()
        }
    }

    #[test]
    fn a_probe_is_known_by_the_ports_of_both_ends_which_have_the_same_number() {
        let most = MAX_PROBES as u16;
        for (from, to, probe) in [
            (ASKER_PORTS, PROBE_PORTS, Some((0, false))),
            (PROBE_PORTS, ASKER_PORTS, Some((0, true))),
            (ASKER_PORTS + 7, PROBE_PORTS + 7, Some((7, false))),
            (PROBE_PORTS + 7, ASKER_PORTS + 7, Some((7, true))),
            (
                ASKER_PORTS + most - 1,
                PROBE_PORTS + most - 1,
                Some((MAX_PROBES - 1, false)),
            ),
            (ASKER_PORTS + most, PROBE_PORTS + most, None),
            (ASKER_PORTS + 1, PROBE_PORTS + 2, None),
            (ASKER_PORTS - 1, PROBE_PORTS - 1, None),
            (443, PROBE_PORTS, None),
        ] {
            let found = probe_of(&datagram(from, to, ip::UDP));
            assert_eq!(found, probe, "{from} {to}");
        }
        let segment = datagram(ASKER_PORTS, PROBE_PORTS, ip::TCP);
        assert_eq!(probe_of(&segment), None);
        assert_eq!(probe_of(&Packet::default()), None);
    }
}
