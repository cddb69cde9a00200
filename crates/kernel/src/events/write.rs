//! Writing events.

use narrows_core::{Encoder, Event, EventSink, Packet, TelemetryField, Value};
use narrows_units::Instant;

use super::packets::{Remembered, without_zeros};

/// Turns events into bytes.
#[derive(Default)]
pub(crate) struct EventWriter {
    bytes: Vec<u8>,
    last: u64,
    packets: Remembered,
    fields: Vec<TelemetryField>,
    names: Vec<&'static [&'static str]>,
}

impl EventWriter {
    /// What was written since [`clear`](Self::clear).
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written, once it has been sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes the number of `one` among those that were met, and whether it is a new one, which
    /// has the next number and is to be described.
    fn is_new<T: Copy + PartialEq>(&mut self, met: fn(&mut Self) -> &mut Vec<T>, one: T) -> bool {
        let all = met(self);
        let known = all.iter().position(|known| *known == one);
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(one);
        }
        self.number(number as u64);
        known.is_none()
    }
}

impl EventSink for EventWriter {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        self.bytes.push(event.number());
        let apart = now.as_nanos().wrapping_sub(self.last) as i64;
        self.last = now.as_nanos();
        self.signed(apart);
        event.write(self);
    }
}

impl Encoder for EventWriter {
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn packet(&mut self, packet: &Packet) {
        self.number(packet.id.0);
        self.number(packet.parent.map_or(0, |parent| parent.0 + 1));
        self.number(packet.flow.map_or(0, |flow| u64::from(flow.0) + 1));
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

    fn field(&mut self, field: TelemetryField) {
        if self.is_new(|writer| &mut writer.fields, field) {
            for text in [field.name, field.unit, field.about, field.chart] {
                self.text(text);
            }
            self.number(field.scale);
            field.reduce.write(self);
        }
    }

    fn names(&mut self, names: &'static [&'static str]) {
        if self.is_new(|writer| &mut writer.names, names) {
            self.number(names.len() as u64);
            for name in names {
                self.text(name);
            }
        }
    }
}
