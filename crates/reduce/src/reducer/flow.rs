//! What is kept of a flow.

use narrows_cc::Reference;
use narrows_core::{EntityId, FlowSample, Packet, RecoveryEvent, TelemetryField};
use narrows_scenario::{FlowPlan, Plan, Window, WindowPlan};
use narrows_units::{Duration, Histogram, Instant};
use narrows_wire::{ip, udp};

use super::bins::{Column, Columns, mbit, mean_ms};
use super::one_way::OneWay;
use super::telemetry::Telemetry;
use super::window::InWindow;
use crate::distribution::Distribution;
use crate::summary::{
    CodepointSummary, FlowInWindow, FlowSignals, FlowSummary, LimitedSummary, RecoverySummary,
    millionths,
};

const COLUMNS: [(&str, Column); 11] = [
    ("goodput_mbit", Column::Gauge),
    ("throughput_mbit", Column::Gauge),
    ("delivery_rate_mbit", Column::Gauge),
    ("rtt_ms", Column::Gauge),
    ("srtt_ms", Column::Gauge),
    ("cwnd_packets", Column::Gauge),
    ("in_flight_packets", Column::Gauge),
    ("pacing_rate_mbit", Column::Gauge),
    ("retransmissions", Column::Counter),
    ("ce_marks", Column::Counter),
    ("drops", Column::Counter),
];

/// What each packet counts in. Of ten thousand flows no packet finds its own in a cache: these
/// stand beside each other, so that few lines are fetched.
struct PerPacket {
    /// Who sends the data, and who gets it.
    sender: Option<EntityId>,
    receiver: Option<EntityId>,
    codepoints: CodepointSummary,
    packets: u64,
    marks: u64,
    /// Whether a packet of its data ever reached the receiver where the path
    /// sees it.
    arrives: bool,
    /// When payload was first delivered, how much was in the steady window, and in all.
    first_byte: Option<Instant>,
    bytes: u64,
    bytes_total: u64,
    bin: Bin,
}

pub(super) struct FlowState {
    per_packet: PerPacket,
    start: Instant,
    established: Option<Instant>,
    finished: Option<(Instant, bool)>,
    ecn: bool,
    accecn: bool,
    rtt: Histogram,
    retransmissions: u64,
    /// Sum of the windows at the samples in the steady window, and how many those were.
    windows: (u64, u64),
    drops: u64,
    /// Elements with a rate that marked or dropped its packets, with how many of either.
    signals: Vec<(EntityId, u64, u64)>,
    recovery: RecoverySummary,
    limited: LimitedSummary,
    /// The last before the window, and the last before its end.
    limited_until: [LimitedSummary; 2],
    /// The last one of the present interval.
    sample: Option<FlowSample>,
    /// Acknowledged bytes at the end of the last interval.
    acked_before: u64,
    columns: Columns,
    telemetry: Telemetry,
    /// The law in double precision of a control that has one, and what the control
    /// reported since the last sample.
    reference: Option<Reference>,
    latest: Vec<(TelemetryField, i64)>,
    in_windows: Vec<InWindow>,
    /// Of a flow of datagrams.
    one_way: Option<OneWay>,
    /// Whether its last row is written.
    closed: bool,
}

/// What happened in the present interval.
#[derive(Default)]
struct Bin {
    /// Handed to the application.
    bytes: u64,
    /// Payload of the packets that reached the receiver.
    arrived: u64,
    rtt_sum: u64,
    rtt_count: u64,
    retransmissions: u64,
    marks: u64,
    drops: u64,
}

impl FlowState {
    /// Of the flow `plan`, whose data go from the host `sender` to `receiver`, in a run with
    /// these further windows.
    pub(super) fn new(
        plan: &FlowPlan,
        [sender, receiver]: [Option<EntityId>; 2],
        windows: &[WindowPlan],
        measure: Window,
    ) -> Self {
        let own = plan.transport.tcp().and_then(|tcp| tcp.cc.simulated());
        let has_handshake = plan.transport.has_handshake();
        Self {
            per_packet: PerPacket {
                sender,
                receiver,
                codepoints: CodepointSummary::default(),
                packets: 0,
                marks: 0,
                arrives: false,
                first_byte: None,
                bytes: 0,
                bytes_total: 0,
                bin: Bin::default(),
            },
            start: plan.start,
            // Datagrams need no handshake.
            established: (!has_handshake).then_some(plan.start),
            finished: None,
            ecn: false,
            accecn: false,
            rtt: Histogram::default(),
            retransmissions: 0,
            windows: (0, 0),
            drops: 0,
            signals: Vec::new(),
            recovery: RecoverySummary::default(),
            limited: LimitedSummary::default(),
            limited_until: Default::default(),
            sample: None,
            acked_before: 0,
            columns: Columns::new(&COLUMNS),
            telemetry: Telemetry::new(windows),
            reference: own.and_then(|spec| Reference::of(&spec)),
            latest: Vec::new(),
            in_windows: windows.iter().map(|w| InWindow::new(w.over)).collect(),
            one_way: (!has_handshake).then(|| OneWay::new(measure)),
            closed: false,
        }
    }

    pub(super) fn established(&mut self, now: Instant, ecn: bool, accecn: bool) {
        // Both ends may report; the first is when data may flow.
        self.established.get_or_insert(now);
        self.ecn |= ecn;
        self.accecn |= accecn;
    }

    #[inline]
    pub(super) fn delivered(&mut self, now: Instant, inside: bool, bytes: u64) {
        self.per_packet.first_byte.get_or_insert(now);
        self.per_packet.bytes_total += bytes;
        self.per_packet.bin.bytes += bytes;
        for window in &mut self.in_windows {
            window.delivered(now, bytes);
        }
        if inside {
            self.per_packet.bytes += bytes;
        }
    }

    #[inline]
    pub(super) fn rtt_sample(&mut self, now: Instant, inside: bool, rtt: Duration) {
        self.per_packet.bin.rtt_sum += rtt.as_nanos();
        self.per_packet.bin.rtt_count += 1;
        for window in &mut self.in_windows {
            window.rtt_sample(now, rtt);
        }
        if inside {
            self.rtt.record(rtt);
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, inside: bool, host: EntityId, packet: &Packet) {
        self.per_packet.packets += u64::from(inside && self.per_packet.sender == Some(host));
        self.per_packet.codepoints.sent[codepoint(packet)] += 1;
    }

    #[inline]
    pub(super) fn received(&mut self, now: Instant, host: EntityId, packet: &Packet) {
        self.per_packet.codepoints.received[codepoint(packet)] += 1;
        if self.per_packet.receiver == Some(host) {
            self.per_packet.bin.arrived += payload(packet);
            self.per_packet.arrives = true;
            if let Some(one_way) = &mut self.one_way {
                one_way.received(now, packet);
            }
        }
    }

    pub(super) fn marked(&mut self, inside: bool, queue: EntityId) {
        self.per_packet.marks += u64::from(inside);
        self.per_packet.bin.marks += 1;
        if inside {
            self.signal(queue).1 += 1;
        }
    }

    /// By whatever element; `queue` is it, if it has a rate.
    pub(super) fn dropped(&mut self, inside: bool, queue: Option<EntityId>) {
        self.drops += u64::from(inside);
        self.per_packet.bin.drops += 1;
        if let Some(queue) = queue.filter(|_| inside) {
            self.signal(queue).2 += 1;
        }
    }

    fn signal(&mut self, element: EntityId) -> &mut (EntityId, u64, u64) {
        let known = self.signals.iter().position(|s| s.0 == element);
        let at = known.unwrap_or_else(|| {
            self.signals.push((element, 0, 0));
            self.signals.len() - 1
        });
        &mut self.signals[at]
    }

    /// What each element signalled to it, of which `name` gives the name.
    pub(super) fn signals(&self, name: impl Fn(EntityId) -> String) -> Vec<FlowSignals> {
        let mut signals = self.signals.clone();
        signals.sort_unstable();
        let of = |(element, marks, drops)| FlowSignals {
            element: name(element),
            marks,
            drops,
        };
        signals.into_iter().map(of).collect()
    }

    pub(super) fn retransmitted(&mut self, inside: bool) {
        self.retransmissions += u64::from(inside);
        self.per_packet.bin.retransmissions += 1;
    }

    pub(super) fn sampled(&mut self, now: Instant, inside: bool, sample: &FlowSample) {
        if let Some(reference) = &mut self.reference {
            let compared = reference.compare(&self.latest);
            self.latest.clear();
            for (field, value) in compared.into_iter().flatten() {
                self.telemetry.reported(now, inside, field, value);
            }
        }
        if inside {
            self.windows.0 += u64::from(sample.cwnd);
            self.windows.1 += 1;
        }
        self.sample = Some(*sample);
    }

    pub(super) fn reported(
        &mut self,
        now: Instant,
        inside: bool,
        field: TelemetryField,
        value: i64,
    ) {
        if self.reference.is_some() {
            self.latest.push((field, value));
        }
        self.telemetry.reported(now, inside, field, value);
    }

    pub(super) fn finished(&mut self, now: Instant, complete: bool) {
        self.finished.get_or_insert((now, complete));
    }

    pub(super) fn recovery(&mut self, event: RecoveryEvent) {
        let count = &mut self.recovery;
        *match event {
            RecoveryEvent::FastRetransmit => &mut count.fast_retransmits,
            RecoveryEvent::TailLossProbe => &mut count.tail_loss_probes,
            RecoveryEvent::RetransmissionTimeout => &mut count.timeouts,
            RecoveryEvent::CongestionExperienced => &mut count.ecn_reductions,
            RecoveryEvent::SpuriousUndo => &mut count.spurious_undos,
            RecoveryEvent::SlowStartExit => &mut count.slow_start_exits,
        } += 1;
    }

    /// How long it has been held back by now, which is before the window, in it or neither.
    pub(super) fn limited(&mut self, (before, inside): (bool, bool), limited: LimitedSummary) {
        self.limited = limited;
        if before {
            self.limited_until = [limited; 2];
        } else if inside {
            self.limited_until[1] = limited;
        }
    }

    /// Ends the present interval, which took so many seconds and ends at `until`, in seconds.
    pub(super) fn close_interval(&mut self, interval: usize, seconds: f64, until: f64) {
        let bin = std::mem::take(&mut self.per_packet.bin);
        let sample = self.sample.take();
        if let Some(one_way) = &mut self.one_way {
            one_way.close_interval(interval);
        }
        // A flow has a row from its first interval to the one that it ends in.
        if self.established.is_none() || self.closed || until <= self.start.as_secs_f64() {
            return;
        }
        self.closed = self.finished.is_some();
        let mut row = [f32::NAN; COLUMNS.len()];
        row[0] = mbit(bin.bytes, seconds);
        if self.per_packet.arrives {
            row[1] = mbit(bin.arrived, seconds);
        }
        row[3] = mean_ms(bin.rtt_sum, bin.rtt_count);
        if let Some(s) = sample {
            row[2] = mbit(s.bytes_acked.saturating_sub(self.acked_before), seconds);
            self.acked_before = s.bytes_acked;
            if !s.srtt.is_zero() {
                row[4] = s.srtt.as_millis_f64() as f32;
            }
            row[5] = s.cwnd as f32;
            row[6] = s.in_flight as f32;
            if s.pacing_rate != 0 {
                row[7] = mbit(s.pacing_rate, 1.0);
            }
        }
        row[8] = bin.retransmissions as f32;
        row[9] = bin.marks as f32;
        row[10] = bin.drops as f32;
        self.telemetry.close_interval(interval);
        self.columns.push(interval, &row);
    }

    /// Begins the present interval anew, but for its counts.
    pub(super) fn restart(&mut self) {
        let bin = &mut self.per_packet.bin;
        *bin = Bin {
            retransmissions: bin.retransmissions,
            marks: bin.marks,
            drops: bin.drops,
            ..Bin::default()
        };
        if let Some(sample) = &self.sample {
            self.acked_before = sample.bytes_acked;
        }
        if let Some(one_way) = &mut self.one_way {
            one_way.restart();
        }
    }

    /// Takes the rows so far out of it.
    pub(super) fn take_rows(&mut self) -> Columns {
        let mut columns = std::mem::replace(&mut self.columns, Columns::new(&COLUMNS));
        if let Some(one_way) = &mut self.one_way {
            one_way.declare("", &mut columns);
        }
        self.telemetry.declare(&mut columns);
        columns
    }

    pub(super) fn finish(
        mut self,
        plan: &Plan,
        facts: &FlowPlan,
        from: Instant,
        until: Instant,
        end: Instant,
    ) -> (FlowSummary, Vec<FlowInWindow>, Columns) {
        let name = format!("flow/{}", facts.name);
        let (finished_at, complete) = match self.finished {
            Some((at, complete)) => (Some(at), complete),
            None => (None, false),
        };
        let one_way = self.one_way.take();
        let one_way = one_way.and_then(|w| w.finish("", &mut self.columns));
        let closed = finished_at.unwrap_or(end).min(until);
        let open = closed.since(from.max(self.start));
        let summary = FlowSummary {
            from: plan.host(facts.from).name.clone(),
            to: plan.host(facts.to).name.clone(),
            cc: facts.transport.control_words(),
            start_s: self.start.as_secs_f64(),
            established_s: self.established.map(Instant::as_secs_f64),
            finished_s: finished_at.map(Instant::as_secs_f64),
            complete,
            ecn: self.ecn,
            accecn: self.accecn,
            goodput_mbit: (!open.is_zero() && self.established.is_some())
                .then(|| millionths(self.per_packet.bytes as f64 * 8.0 / open.as_secs_f64() / 1e6)),
            fct_s: finished_at
                .filter(|_| complete)
                .map(|at| at.since(self.start).as_secs_f64()),
            first_byte_ms: self
                .per_packet
                .first_byte
                .map(|at| millionths(at.since(self.start).as_millis_f64())),
            rtt_ms: Distribution::of_ms(&self.rtt),
            bytes: self.per_packet.bytes,
            bytes_total: self.per_packet.bytes_total,
            retransmissions: self.retransmissions,
            packets: self.per_packet.packets,
            mean_window_packets: (self.windows.1 > 0)
                .then(|| millionths(self.windows.0 as f64 / self.windows.1 as f64)),
            ce_marks: self.per_packet.marks,
            drops: self.drops,
            signals: Vec::new(),
            one_way,
            recovery: self.recovery,
            limited: self.limited,
            limited_in_window: self.limited_until[1].since(self.limited_until[0]),
            codepoints: self.per_packet.codepoints,
            telemetry: self.telemetry.in_steady_window(until.since(from)),
            name: name.clone(),
        };
        let windows = std::mem::take(&mut self.in_windows).into_iter();
        let windows = windows.zip(&plan.windows).enumerate();
        let windows = windows
            .map(|(place, (window, plan))| {
                let name = format!("window/{}/{}", plan.name, facts.name);
                window.finish(name, self.telemetry.in_window(place))
            })
            .collect();
        self.telemetry.declare(&mut self.columns);
        (summary, windows, self.columns.named(name))
    }
}

/// The ECN field of an IPv4 or IPv6 packet (RFC 3168 §5: the two low bits of
/// the traffic class), read in place because it is asked for every packet.
#[inline]
fn codepoint(packet: &Packet) -> usize {
    let bytes = &packet.bytes;
    match bytes.first().map(|b| b >> 4) {
        Some(4) => bytes.get(1).map_or(0, |b| usize::from(b & 3)),
        Some(6) => bytes.get(1).map_or(0, |b| usize::from(b >> 4 & 3)),
        _ => 0,
    }
}

/// Bytes of a packet behind its transport header, TCP's or UDP's; none of a
/// packet that has neither in reach. Like [`codepoint`] read in place.
#[inline]
fn payload(packet: &Packet) -> u64 {
    let bytes = &packet.bytes;
    let at = |place: usize| bytes.get(place).copied().unwrap_or_default();
    // RFC 791 §3.1, RFC 8200 §3: header length and protocol.
    let (ip, protocol) = match at(0) >> 4 {
        4 => (usize::from(at(0) & 15) * 4, at(9)),
        6 => (40, at(6)),
        _ => return 0,
    };
    let transport = match protocol {
        // RFC 9293 §3.1: the data offset counts words of four bytes.
        ip::TCP => usize::from(at(ip + 12) >> 4) * 4,
        ip::UDP => udp::HEADER_LEN,
        _ => return 0,
    };
    u64::from(packet.len()).saturating_sub((ip + transport) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ecn_field_is_read_from_both_versions() {
        let packet = |bytes: &[u8]| Packet {
            bytes: bytes.to_vec(),
            ..Packet::default()
        };
        assert_eq!(codepoint(&packet(&[0x45, 0x01])), 1);
        assert_eq!(codepoint(&packet(&[0x45, 0x22])), 2);
        assert_eq!(codepoint(&packet(&[0x60, 0x30, 0, 0])), 3);
        assert_eq!(codepoint(&packet(&[0x62, 0x10, 0, 0])), 1);
        assert_eq!(codepoint(&packet(&[])), 0);
    }

    #[test]
    fn payload_is_what_is_behind_the_transport_header() {
        let packet = |ip: &[(usize, u8)], zero_tail| {
            let mut bytes = vec![0; 72];
            for (at, byte) in ip {
                bytes[*at] = *byte;
            }
            Packet {
                bytes,
                zero_tail,
                ..Packet::default()
            }
        };
        // IPv4 with TCP and 12 bytes of options, which leaves 20 of the 72.
        let tcp = [(0, 0x45), (9, 6), (32, 0x80)];
        assert_eq!(payload(&packet(&tcp, 1400)), 1420);
        // The same behind IPv6, which leaves none.
        let six = [(0, 0x60), (6, 6), (52, 0x80)];
        assert_eq!(payload(&packet(&six, 0)), 0);
        assert_eq!(payload(&packet(&six, 7)), 7);
        assert_eq!(payload(&packet(&[(0, 0x45), (9, 17)], 100)), 144);
        assert_eq!(payload(&packet(&[(0, 0x45), (9, 1)], 100)), 0);
        assert_eq!(payload(&Packet::default()), 0);
    }
}
