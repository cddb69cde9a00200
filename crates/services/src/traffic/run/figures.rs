//! The figures of a mix that was run, with clocks compared.

use std::collections::BTreeMap;

use narrows_traffic::{Mix, Sends};
use narrows_units::{Duration, Instant};

use super::super::clocks::Clocks;
use super::super::kpi::{DatagramRow, Measured, SetFigures, StreamRow, TrafficResult};
use super::super::marks::ArrivedMarks;
use super::super::receiver::Interval;
use super::client::Client;

impl Client {
    /// All that was measured.
    pub(super) fn result(
        &self,
        mix: &Mix,
        clocks: Option<Clocks>,
        began_s: f64,
        ran: Instant,
    ) -> TrafficResult {
        let ms = |ns: f64| ns / 1e6;
        let sent = self.sent();
        let figures = (0..).zip(&mix.sets).map(|(i, set)| {
            let of = || {
                let all = self.transfers.iter().zip(&self.done).enumerate();
                all.filter(move |(_, (transfer, _))| transfer.set == i)
            };
            let size = match set.sends {
                Sends::Datagrams { size, .. } => Some(u64::from(size)),
                _ => None,
            };
            let sent_of = |number: usize| sent.as_ref()?.get(&(number as u32)).copied();
            let sent_bytes = sent
                .as_ref()
                .map(|_| of().filter_map(|(n, _)| sent_of(n)).sum::<u64>());
            let received: u64 = of().map(|(_, (_, done))| done.received).sum();
            // How many packets of QUIC there were, no server says.
            let packets = sent_bytes.filter(|_| self.protocol(i, &set.sends) != "quic");
            let packets = packets.map(|bytes| size.map_or(0, |size| bytes / size));
            let failed = || of().filter_map(|(n, _)| self.failed(n, sent.as_ref()));
            let delays = clocks.map(|clocks| {
                let values = self.values[i as usize].kept().iter();
                // The clock there is ahead by the difference: what left then, left earlier by ours.
                let of = |&(at, transit): &(u64, i64)| ms((transit + clocks.at(at)) as f64);
                values.map(of).collect()
            });
            SetFigures {
                label: set.label.clone(),
                kind: set.kind.clone(),
                protocol: self.protocol(i, &set.sends),
                transfers: of().count() as u64,
                complete: of().filter(|(_, (_, done))| done.complete).count() as u64,
                failed: failed().count() as u64,
                failed_why: failed().next(),
                due_bytes: set.bytes(),
                sent_bytes,
                received_bytes: of().map(|(_, (_, done))| done.bytes).sum(),
                seconds: self.own_time(i, ran).as_secs_f64(),
                packets,
                packets_received: received,
                lost: packets.map(|packets| packets.saturating_sub(received)),
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
        let datagrams = self.rows.iter().map(|row| {
            let Interval {
                bytes,
                packets,
                sum_ns,
                max_ns,
                began,
                ..
            } = row.interval;
            let apart = clocks.map(|clocks| clocks.at(row.until.as_nanos()) as f64);
            let mean = (packets > 0).then(|| sum_ns as f64 / packets as f64);
            DatagramRow {
                at_s: unix(i128::from(began.as_nanos())),
                span_s: row.until.since(began).as_secs_f64(),
                flow: flow(row.transfer),
                tos: tos(row.transfer),
                bytes,
                jitter_ms: row.jitter_ms,
                packets: row.expected,
                lost: (row.expected > 0).then(|| row.expected.saturating_sub(packets)),
                delay_ms: mean.zip(apart).map(|(mean, apart)| ms(mean + apart)),
                delay_max_ms: max_ns.zip(apart).map(|(max, apart)| ms(max as f64 + apart)),
                delay_within_ms: clocks
                    .filter(|_| packets > 0)
                    .map(|c| ms(c.within_ns() as f64)),
            }
        });
        let apart = clocks.map_or(0, |clocks| clocks.first.ns);
        let here = |there_ns: u64| i128::from(there_ns) - i128::from(apart);
        let streams = self.reports.samples.iter().map(|sample| {
            // The comparison of clocks is not exact: none began before its flow.
            let opened = self.done.get(sample.transfer as usize);
            let opened = opened.and_then(|done| done.opened).unwrap_or(self.begin);
            StreamRow {
                at_s: unix(here(sample.at_ns).max(i128::from(opened.as_nanos()))),
                span_s: sample.span_ns as f64 / 1e9,
                flow: flow(sample.transfer),
                protocol: self.protocol_of(sample.transfer),
                tos: tos(sample.transfer),
                pmtu: Some(sample.pmtu),
                bytes: sample.bytes,
                retransmissions: Some(sample.retransmissions),
                cwnd: Some(sample.cwnd),
                rtt_ms: Some(f64::from(sample.rtt_us) / 1e3),
                rttvar_ms: sample.rttvar_us.map(|us| f64::from(us) / 1e3),
            }
        });
        // What a server that is gone did not report, as this end has it.
        let gone = self.done.iter().enumerate();
        let gone = gone.filter(|_| self.reports.end.is_none());
        let rest = gone.filter_map(|(number, done)| {
            let (until_ns, reported) = self.reports.of(number).unwrap_or((0, 0));
            let is_stream = !matches!(self.transfers[number].sends, Sends::Datagrams { .. });
            let bytes = done
                .bytes
                .checked_sub(reported)
                .filter(|n| *n > 0 && is_stream)?;
            let (opened, last) = (done.opened?.as_nanos(), done.last?.as_nanos());
            let at = here(until_ns).clamp(opened.into(), last.max(opened).into());
            Some(StreamRow {
                at_s: unix(at),
                span_s: (i128::from(last) - at) as f64 / 1e9,
                flow: flow(number as u32),
                protocol: self.protocol_of(number as u32),
                tos: tos(number as u32),
                bytes,
                ..StreamRow::default()
            })
        });
        let streams = streams.chain(rest);
        let end = self.reports.end.as_ref();
        let over = (0..).zip(&mix.sets).filter_map(|(i, _)| self.over(i, ran));
        let over = over.max().unwrap_or(self.begin);
        TrafficResult {
            began_s,
            seconds: over.since(self.begin).as_secs_f64(),
            clocks_apart_ms: clocks.map(|clocks| ms(clocks.first.ns as f64)),
            clocks_within_ms: clocks.map(|clocks| ms(clocks.within_ns() as f64)),
            clocks_drift_ppm: clocks.and_then(|clocks| clocks.drift_ppm()),
            opened_late_ms: self.opened_late.as_millis_f64(),
            sent_late_ms: end.map(|end| ms(end.latest_ns as f64)),
            sent_late: end.map(|end| end.late),
            datagrams_sent: end.map(|end| end.datagrams),
            refused_by_host: end.map(|end| end.refused),
            not_begun: self.not_begun(),
            sets: figures.collect(),
            datagrams: datagrams.collect(),
            streams: streams.collect(),
            ..TrafficResult::default()
        }
    }

    /// The protocol of what a set `sends`, by name.
    fn protocol(&self, set: u32, sends: &Sends) -> &'static str {
        match self.sets[set as usize].quic() {
            Some(_) => "quic",
            None => sends.protocol(),
        }
    }

    fn protocol_of(&self, transfer: u32) -> &'static str {
        let transfer = &self.transfers[transfer as usize];
        self.protocol(transfer.set, &transfer.sends)
    }

    /// Bytes that the server sent of each transfer that it began; `None` if it did not say that.
    fn sent(&self) -> Option<BTreeMap<u32, u64>> {
        let end = self.reports.end.as_ref()?;
        Some(end.written.iter().copied().collect())
    }

    /// Why a transfer failed, if it did. A flow of datagrams of which the server sent some, all of
    /// them lost, did not.
    fn failed(&self, number: usize, sent: Option<&BTreeMap<u32, u64>>) -> Option<String> {
        let done = &self.done[number];
        let is_datagrams = matches!(self.transfers[number].sends, Sends::Datagrams { .. });
        if done.failed.is_some() || !is_datagrams {
            return done.failed.clone();
        }
        let sent = sent.and_then(|sent| sent.get(&(number as u32)));
        let none = done.opened.is_some() && done.received == 0 && sent.is_none_or(|n| *n == 0);
        none.then(|| "no datagram was received".to_owned())
    }

    fn not_begun(&self) -> u64 {
        self.done
            .iter()
            .filter(|done| done.opened.is_none())
            .count() as u64
    }

    /// What of the mix was not run, of a session that went to its end.
    pub(super) fn not_run(&self) -> Option<String> {
        let sent = self.sent();
        let all = self.done.len();
        let broke = |&number: &usize| {
            let failed = self.failed(number, sent.as_ref());
            failed.filter(|_| self.done[number].broke || self.done[number].failed.is_none())
        };
        let mut failed = (0..all).filter_map(|n| broke(&n).map(|why| (n, why)));
        if let Some((number, why)) = failed.next() {
            let (n, name) = (failed.count() + 1, &self.names[number]);
            return Some(format!(
                "{n} of {all} transfers failed, the first of them {name}: {why}"
            ));
        }
        if self.not_begun() > 0 {
            return Some(format!(
                "{} of {all} transfers were not begun",
                self.not_begun()
            ));
        }
        let descriptors = self.reports.end.as_ref()?.descriptors?;
        Some(format!(
            "connections waited for a file descriptor of the server, which may have {descriptors} \
             (`ulimit -n`)"
        ))
    }

    /// When the last transfer of a set was over: its last byte was received, or, of one that sends
    /// for a time, that time was.
    fn over(&self, set: u32, ran: Instant) -> Option<Instant> {
        let of = self.transfers.iter().zip(&self.done);
        let of = of.filter(|(transfer, done)| transfer.set == set && done.opened.is_some());
        of.map(|(transfer, done)| {
            let due = self.begin + transfer.start;
            let sends = (due + transfer.sends.lasts()).min(ran.max(due));
            done.last.map_or(sends, |last| last.max(sends))
        })
        .max()
    }

    /// From when the first transfer of a set was due to when its last was over.
    fn own_time(&self, set: u32, ran: Instant) -> Duration {
        let of = self.transfers.iter().filter(|transfer| transfer.set == set);
        let first = of.map(|transfer| self.begin + transfer.start).min();
        let over = self.over(set, ran).zip(first);
        over.map_or(Duration::ZERO, |(over, first)| over.since(first))
    }
}
