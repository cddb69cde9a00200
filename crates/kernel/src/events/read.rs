//! Reading events.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use narrows_core::{
    Decoder, Event, EventSink, FlowId, Malformed, Packet, PacketId, TelemetryField, Value,
};
use narrows_units::Instant;

use super::packets::Remembered;

/// Turns bytes into events.
#[derive(Default)]
pub(crate) struct EventReader {
    known: Known,
    /// Time of the last event.
    reached: Instant,
    /// Events read.
    count: u64,
}

/// What later events refer to.
#[derive(Default)]
struct Known {
    /// When the event at hand happened, in ns.
    now: u64,
    packets: Remembered,
    fields: Vec<TelemetryField>,
    names: Vec<&'static [&'static str]>,
    /// The packet of the event at hand.
    packet: Packet,
}

impl EventReader {
    /// Time of the last event.
    pub(crate) fn reached(&self) -> Instant {
        self.reached
    }

    /// Events read so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Hands `sink` the events in `bytes`, which end with one.
    ///
    /// # Errors
    /// When they do not, or hold what is no event.
    pub(crate) fn read(&mut self, bytes: &[u8], sink: &mut dyn EventSink) -> Result<(), Malformed> {
        let known = &mut self.known;
        let mut rest = Rest { bytes, known };
        while let Some((number, after)) = rest.bytes.split_first() {
            rest.bytes = after;
            rest.known.now = rest.known.now.wrapping_add(rest.signed()? as u64);
            let event = Event::read(*number, &mut rest)?;
            let now = Instant::from_nanos(rest.known.now);
            sink.record(now, event.about(&rest.known.packet));
            self.count += 1;
            self.reached = self.reached.max(now);
        }
        Ok(())
    }
}

/// The text for as long as the program runs: names of telemetry fields and bands, of which
/// there are as many as controls, applications and queues have.
fn kept(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    texts.insert(text);
    text
}

/// The same of a list of texts.
fn kept_list(list: &[&'static str]) -> &'static [&'static str] {
    static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.get(list) {
        return known;
    }
    let list: &'static [&'static str] = Box::leak(list.into());
    lists.insert(list);
    list
}

/// What is left to read.
struct Rest<'b> {
    bytes: &'b [u8],
    known: &'b mut Known,
}

impl<'b> Rest<'b> {
    fn take(&mut self, length: u64) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A number that may be missing.
    fn maybe(&mut self) -> Result<Option<u64>, Malformed> {
        Ok(self.number()?.checked_sub(1))
    }

    /// One of those that were met, by its number; the next number is that of a new one, which
    /// `described` reads.
    fn met<T: Copy>(
        &mut self,
        met: fn(&mut Known) -> &mut Vec<T>,
        described: fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let number = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if number == met(self.known).len() {
            let new = described(self)?;
            met(self.known).push(new);
        }
        met(self.known).get(number).copied().ok_or(Malformed)
    }
}

impl Decoder for Rest<'_> {
    fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first().ok_or(Malformed)?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn text(&mut self) -> Result<&str, Malformed> {
        let length = self.number()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    fn packet(&mut self) -> Result<(), Malformed> {
        let id = PacketId(self.number()?);
        let parent = self.maybe()?.map(PacketId);
        let flow = self.maybe()?.map(u32::try_from).transpose();
        let flow = flow.map_err(|_| Malformed)?.map(FlowId);
        let before = self.signed()? as u64;
        let zero_tail = u32::read(self)?;
        let length = self.number()?;
        let new = self.take(length)?;
        let Known {
            now,
            packets,
            packet,
            ..
        } = &mut *self.known;
        packet.id = id;
        packet.parent = parent;
        packet.flow = flow;
        packet.born = Instant::from_nanos(now.wrapping_sub(before));
        packet.held_since = packet.born;
        packet.zero_tail = zero_tail;
        packet.bytes.clear();
        // No packet is empty: without bytes, it has those that were met last.
        if new.is_empty() {
            packet
                .bytes
                .extend_from_slice(packets.bytes(id).ok_or(Malformed)?);
        } else {
            packets.note(id, new);
            packet.bytes.extend_from_slice(new);
        }
        Ok(())
    }

    fn field(&mut self) -> Result<TelemetryField, Malformed> {
        let described = |rest: &mut Self| {
            Ok(TelemetryField {
                name: kept(rest.text()?),
                unit: kept(rest.text()?),
                about: kept(rest.text()?),
                chart: kept(rest.text()?),
                scale: rest.number()?,
                reduce: Value::read(rest)?,
            })
        };
        self.met(|known| &mut known.fields, described)
    }

    fn names(&mut self) -> Result<&'static [&'static str], Malformed> {
        let described = |rest: &mut Self| {
            let names = (0..rest.number()?).map(|_| rest.text().map(kept));
            Ok(kept_list(&names.collect::<Result<Vec<_>, _>>()?))
        };
        self.met(|known| &mut known.names, described)
    }
}
