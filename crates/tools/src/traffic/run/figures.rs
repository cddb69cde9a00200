//! The figures of a mix that was run, with clocks compared.

use std::collections::BTreeMap;

use narrows_traffic::{Mix, Sends};

use super::super::clocks::Clocks;
use super::super::kpi::{DatagramRow, Measured, SetFigures, StreamRow, TrafficResult};
use super::super::marks::ArrivedMarks;
use super::super::receiver::Interval;
use super::Client;

impl Client {
    /// All that was measured.
    pub(super) fn result(&self, mix: &Mix, clocks: Option<Clocks>, began_s: f64) -> TrafficResult {
        let ms = |ns: f64| ns / 1e6;
        let sent: BTreeMap<u32, u64> = match &self.end {
            Some(end) => end.written.iter().copied().collect(),
            None => BTreeMap::new(),
        };
        let figures = (0..).zip(&mix.sets).map(|(i, set)| {
            let of = || {
                let all = self.transfers.iter().zip(&self.done).enumerate();
                all.filter(move |(_, (transfer, _))| transfer.set == i)
            };
            let sent_of = |number: usize| sent.get(&(number as u32)).copied().unwrap_or(0);
            let size = match set.sends {
                Sends::Datagrams { size, .. } => Some(u64::from(size)),
                _ => None,
            };
            let sent_bytes: u64 = of().map(|(n, _)| sent_of(n)).sum();
            let received: u64 = of().map(|(_, (_, done))| done.received).sum();
            let packets = size.map_or(0, |size| sent_bytes / size);
            let delays = clocks.map(|clocks| {
                let values = self.values[i as usize].kept().iter();
                // The clock there is ahead by the difference: what left then, left earlier by ours.
                let of = |&(at, transit): &(u64, i64)| ms((transit + clocks.at(at)) as f64);
                values.map(of).collect()
            });
            SetFigures {
                label: set.label.clone(),
                kind: set.kind.clone(),
                protocol: set.sends.protocol(),
                transfers: of().count() as u64,
                complete: of().filter(|(_, (_, done))| done.complete).count() as u64,
                failed: of().filter(|(_, (_, done))| done.failed).count() as u64,
                due_bytes: set.bytes(),
                sent_bytes,
                received_bytes: of().map(|(_, (_, done))| done.bytes).sum(),
                packets,
                lost: packets.saturating_sub(received),
                completion_ms: Measured::of(
                    of().filter_map(|(_, (_, done))| done.completion)
                        .map(|time| time.as_millis_f64())
                        .collect(),
                ),
                delay_ms: delays.and_then(Measured::of),
                jitter_ms: Measured::of(of().filter_map(|(_, (_, done))| done.jitter_ms).collect()),
                ecn: self.capable[i as usize].map(|ecn| ecn.to_string()),
                ecn_connections: of().filter(|(_, (_, done))| done.ecn).count() as u64,
                marks: of().fold(ArrivedMarks::default(), |mut all, (_, (_, done))| {
                    all.add(done.marks);
                    all
                }),
            }
        });
        let flow = |number: u32| {
            let name = self.names.get(number as usize).map_or("", String::as_str);
            format!("{name}_{}_{number}", began_s as u64)
        };
        let tos = |number: u32| {
            let transfer = self.transfers.get(number as usize);
            transfer.map_or(0, |transfer| self.sets[transfer.set as usize].class)
        };
        let unix = |at_ns: i128| began_s + (at_ns - i128::from(self.begin.as_nanos())) as f64 / 1e9;
        let span_s = self.interval.as_secs_f64();
        let datagrams = self.rows.iter().map(|row| {
            let Interval {
                bytes,
                packets,
                sum_ns,
                max_ns,
                ..
            } = row.interval;
            let at_ns = row.at.as_nanos();
            let apart = clocks.map(|clocks| clocks.at(at_ns) as f64);
            let mean = (packets > 0).then(|| sum_ns as f64 / packets as f64);
            DatagramRow {
                at_s: unix(i128::from(at_ns) - i128::from(self.interval.as_nanos())),
                span_s,
                flow: flow(row.transfer),
                tos: tos(row.transfer),
                bytes,
                jitter_ms: row.jitter_ms,
                packets: row.expected,
                lost: row.expected.saturating_sub(packets),
                delay_ms: mean.zip(apart).map(|(mean, apart)| ms(mean + apart)),
                delay_max_ms: max_ns.zip(apart).map(|(max, apart)| ms(max as f64 + apart)),
                delay_within_ms: clocks
                    .filter(|_| packets > 0)
                    .map(|c| ms(c.within_ns() as f64)),
            }
        });
        let streams = self.samples.iter().map(|sample| {
            let apart = clocks.map_or(0, |clocks| clocks.first.ns);
            StreamRow {
                at_s: unix(i128::from(sample.at_ns) - i128::from(apart)),
                span_s: sample.span_ns as f64 / 1e9,
                flow: flow(sample.transfer),
                tos: tos(sample.transfer),
                pmtu: sample.pmtu,
                bytes: sample.bytes,
                retransmissions: sample.retransmissions,
                cwnd: sample.cwnd,
                rtt_ms: f64::from(sample.rtt_us) / 1e3,
                rttvar_ms: f64::from(sample.rttvar_us) / 1e3,
            }
        });
        let end = self.end.clone().unwrap_or_default();
        TrafficResult {
            began_s,
            clocks_apart_ms: clocks.map(|clocks| ms(clocks.first.ns as f64)),
            clocks_within_ms: clocks.map(|clocks| ms(clocks.within_ns() as f64)),
            clocks_drift_ppm: clocks.map(|clocks| clocks.drift_ppm()),
            opened_late_ms: self.opened_late.as_millis_f64(),
            sent_late_ms: ms(end.latest_ns as f64),
            sent_late: end.late,
            datagrams_sent: end.datagrams,
            refused_by_host: end.refused,
            not_begun: self.done.iter().filter(|done| !done.begun).count() as u64,
            sets: figures.collect(),
            datagrams: datagrams.collect(),
            streams: streams.collect(),
            ..TrafficResult::default()
        }
    }
}
