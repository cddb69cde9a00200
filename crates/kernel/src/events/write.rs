//! Writing events.

use std::net::SocketAddr;

use narrows_core::{
    Band, EntityId, Event, EventSink, FlowId, Packet, Reduce, Source, TelemetryField,
};
use narrows_units::Instant;

use super::packets::{Remembered, without_zeros};
use super::{DROP_CAUSES, Kind, MARK_CAUSES, RECOVERY_EVENTS, number_of};

/// Turns events into bytes.
#[derive(Default)]
pub(crate) struct EventWriter {
    bytes: Vec<u8>,
    last: u64,
    packets: Remembered,
    fields: Vec<TelemetryField>,
    bands: Vec<&'static [&'static str]>,
    /// The first event that has no number.
    unknown: Option<String>,
}

impl EventWriter {
    /// What was written since [`clear`](Self::clear).
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The first event that could not be written, if there was one: a kind that is new to the
    /// list of events, and has no number here.
    pub(crate) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Forgets what was written, once it has been sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn begin(&mut self, kind: Kind, now: Instant) {
        self.bytes.push(kind as u8);
        let apart = now.as_nanos().wrapping_sub(self.last) as i64;
        self.last = now.as_nanos();
        self.signed(apart);
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        // Zigzag: small numbers of either sign stay short.
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    fn flow(&mut self, flow: Option<FlowId>) {
        self.number(flow.map_or(0, |FlowId(n)| u64::from(n) + 1));
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn address(&mut self, address: SocketAddr) {
        self.text(&address.to_string());
    }

    fn packet(&mut self, packet: &Packet) {
        self.number(packet.id.0);
        self.number(packet.parent.map_or(0, |parent| parent.0 + 1));
        self.flow(packet.flow);
        self.signed(self.last.wrapping_sub(packet.born.as_nanos()) as i64);
        let (kept, zeros) = without_zeros(&packet.bytes);
        self.number(u64::from(packet.zero_tail + zeros));
        if self.packets.note(packet.id, kept) {
            // No packet is empty.
            self.number(0);
        } else {
            self.number(kept.len() as u64);
            self.bytes.extend_from_slice(kept);
        }
    }

    /// The number of `field`; a new one has the next number, and its description follows.
    fn field(&mut self, field: TelemetryField) {
        let known = self.fields.iter().position(|known| *known == field);
        self.number(known.unwrap_or(self.fields.len()) as u64);
        if known.is_none() {
            for text in [field.name, field.unit, field.about, field.chart] {
                self.text(text);
            }
            self.number(field.scale);
            self.bytes.push(number_of(&Reduce::ALL, &field.reduce));
            self.fields.push(field);
        }
    }

    /// The number of the list of bands, likewise, and which of them.
    fn band(&mut self, band: Band) {
        let known = self.bands.iter().position(|known| *known == band.names());
        self.number(known.unwrap_or(self.bands.len()) as u64);
        if known.is_none() {
            self.number(band.names().len() as u64);
            for name in band.names() {
                self.text(name);
            }
            self.bands.push(band.names());
        }
        self.number(band.index() as u64);
    }
}

impl EventSink for EventWriter {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Enqueued {
                queue,
                backlog_packets,
                backlog_bytes,
            } => {
                self.begin(Kind::Enqueued, now);
                self.number(queue.0.into());
                self.number(backlog_packets.into());
                self.number(backlog_bytes);
            }
            Event::Dequeued {
                queue,
                packet,
                sojourn,
                wire_bytes,
                band,
            } => {
                self.begin(Kind::Dequeued, now);
                self.number(queue.0.into());
                self.packet(packet);
                self.number(sojourn.as_nanos());
                self.number(wire_bytes.into());
                self.band(band);
            }
            Event::Marked {
                queue,
                packet,
                cause,
            } => {
                self.begin(Kind::Marked, now);
                self.number(queue.0.into());
                self.packet(packet);
                self.bytes.push(number_of(&MARK_CAUSES, &cause));
            }
            Event::Dropped {
                element,
                packet,
                cause,
            } => {
                self.begin(Kind::Dropped, now);
                self.number(element.0.into());
                self.packet(packet);
                self.bytes.push(number_of(&DROP_CAUSES, &cause));
            }
            Event::Translated {
                element,
                flow,
                protocol,
                addresses,
            } => {
                self.begin(Kind::Translated, now);
                self.number(element.0.into());
                self.flow(flow);
                self.bytes.push(protocol);
                self.address(addresses.0);
                self.address(addresses.1);
            }
            Event::Tapped {
                tap,
                forward,
                packet,
            } => {
                self.begin(Kind::Tapped, now);
                self.number(tap.0.into());
                self.bytes.push(forward.into());
                self.packet(packet);
            }
            Event::Sent { host, packet } => {
                self.begin(Kind::Sent, now);
                self.number(host.0.into());
                self.packet(packet);
            }
            Event::Received { host, packet } => {
                self.begin(Kind::Received, now);
                self.number(host.0.into());
                self.packet(packet);
            }
            other => self.of_itself(now, other),
        }
    }
}

impl EventWriter {
    /// What flows, probes and samplers report of themselves.
    fn of_itself(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Established { flow, ecn, accecn } => {
                self.begin(Kind::Established, now);
                self.number(flow.0.into());
                self.bytes.extend([u8::from(ecn), u8::from(accecn)]);
            }
            Event::Delivered { flow, bytes } => {
                self.begin(Kind::Delivered, now);
                self.number(flow.0.into());
                self.number(bytes);
            }
            Event::RttSample { flow, rtt } => {
                self.begin(Kind::RttSample, now);
                self.number(flow.0.into());
                self.number(rtt.as_nanos());
            }
            Event::Recovery { flow, event } => {
                self.begin(Kind::Recovery, now);
                self.number(flow.0.into());
                self.bytes.push(number_of(&RECOVERY_EVENTS, &event));
            }
            Event::Retransmitted { flow, bytes } => {
                self.begin(Kind::Retransmitted, now);
                self.number(flow.0.into());
                self.number(bytes.into());
            }
            Event::Sampled { flow, sample } => {
                self.begin(Kind::Sampled, now);
                self.number(flow.0.into());
                for value in [sample.cwnd, sample.ssthresh, sample.in_flight] {
                    self.number(value.into());
                }
                for time in [sample.srtt, sample.latest_rtt, sample.min_rtt] {
                    self.number(time.as_nanos());
                }
                for value in [
                    sample.pacing_rate,
                    sample.delivery_rate,
                    sample.bytes_acked,
                    sample.retransmits,
                    sample.delivered,
                    sample.delivered_ce,
                ] {
                    self.number(value);
                }
                self.bytes.push(sample.ca_state);
            }
            Event::Telemetry {
                source,
                field,
                value,
            } => {
                self.begin(Kind::Telemetry, now);
                let (kind, number) = match source {
                    Source::Flow(FlowId(number)) => (0, number),
                    Source::Entity(EntityId(number)) => (1, number),
                };
                self.bytes.push(kind);
                self.number(number.into());
                self.field(field);
                self.signed(value);
            }
            Event::QueueSampled {
                queue,
                backlog_packets,
                backlog_bytes,
                probability,
            } => {
                self.begin(Kind::QueueSampled, now);
                self.number(queue.0.into());
                self.number(backlog_packets.into());
                self.number(backlog_bytes);
                self.bytes.extend(probability.to_bits().to_le_bytes());
            }
            Event::Finished {
                flow,
                bytes,
                complete,
            } => {
                self.begin(Kind::Finished, now);
                self.number(flow.0.into());
                self.number(bytes);
                self.bytes.push(complete.into());
            }
            Event::ProbeRtt { probe, rtt } => {
                self.begin(Kind::ProbeRtt, now);
                self.number(probe.0.into());
                self.number(rtt.as_nanos());
            }
            Event::ProbeLost { probe } => {
                self.begin(Kind::ProbeLost, now);
                self.number(probe.0.into());
            }
            Event::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            } => {
                self.begin(Kind::Limited, now);
                self.number(flow.0.into());
                for time in [receive_window, send_buffer, application] {
                    self.number(time.as_nanos());
                }
            }
            // Those about packets were written before.
            other => self.unknown = self.unknown.take().or_else(|| Some(format!("{other:?}"))),
        }
    }
}
