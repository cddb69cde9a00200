//! Reading events.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use narrows_core::{
    Band, EntityId, Event, EventSink, FlowId, FlowSample, Packet, PacketId, Reduce, Source,
    TelemetryField,
};
use narrows_units::{Duration, Instant};

use super::packets::Remembered;
use super::{DROP_CAUSES, Kind, MARK_CAUSES, RECOVERY_EVENTS};

/// What was read is no event, or ends within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Turns bytes into events.
#[derive(Default)]
pub(crate) struct EventReader {
    last: u64,
    packets: Remembered,
    fields: Vec<TelemetryField>,
    bands: Vec<&'static [&'static str]>,
    /// The packet of the event at hand.
    packet: Packet,
    /// Time of the last event.
    reached: Instant,
    /// Events read.
    count: u64,
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
        let mut rest = Rest(bytes);
        while !rest.0.is_empty() {
            let kind = Kind::ALL.get(usize::from(rest.byte()?)).ok_or(Malformed)?;
            self.last = self.last.wrapping_add(rest.signed()? as u64);
            let now = Instant::from_nanos(self.last);
            sink.record(now, self.event(*kind, &mut rest)?);
            self.count += 1;
            self.reached = self.reached.max(now);
        }
        Ok(())
    }

    fn event(&mut self, kind: Kind, rest: &mut Rest<'_>) -> Result<Event<'_>, Malformed> {
        Ok(match kind {
            Kind::Enqueued => Event::Enqueued {
                queue: rest.entity()?,
                backlog_packets: rest.small()?,
                backlog_bytes: rest.number()?,
            },
            Kind::Dequeued => {
                let queue = rest.entity()?;
                self.take_packet(rest)?;
                Event::Dequeued {
                    queue,
                    packet: &self.packet,
                    sojourn: rest.time()?,
                    wire_bytes: rest.small()?,
                    band: rest.band(&mut self.bands)?,
                }
            }
            Kind::Marked => {
                let queue = rest.entity()?;
                self.take_packet(rest)?;
                Event::Marked {
                    queue,
                    packet: &self.packet,
                    cause: rest.one_of(&MARK_CAUSES)?,
                }
            }
            Kind::Dropped => {
                let element = rest.entity()?;
                self.take_packet(rest)?;
                Event::Dropped {
                    element,
                    packet: &self.packet,
                    cause: rest.one_of(&DROP_CAUSES)?,
                }
            }
            Kind::Translated => Event::Translated {
                element: rest.entity()?,
                flow: rest.maybe()?.map(flow_id).transpose()?,
                protocol: rest.byte()?,
                addresses: (rest.address()?, rest.address()?),
            },
            Kind::Tapped => {
                let tap = rest.entity()?;
                let forward = rest.yes()?;
                self.take_packet(rest)?;
                Event::Tapped {
                    tap,
                    forward,
                    packet: &self.packet,
                }
            }
            Kind::Sent => {
                let host = rest.entity()?;
                self.take_packet(rest)?;
                Event::Sent {
                    host,
                    packet: &self.packet,
                }
            }
            Kind::Received => {
                let host = rest.entity()?;
                self.take_packet(rest)?;
                Event::Received {
                    host,
                    packet: &self.packet,
                }
            }
            Kind::Telemetry => Event::Telemetry {
                source: match rest.byte()? {
                    0 => Source::Flow(rest.flow()?),
                    1 => Source::Entity(rest.entity()?),
                    _ => return Err(Malformed),
                },
                field: rest.field(&mut self.fields)?,
                value: rest.signed()?,
            },
            other => rest.of_itself(other)?,
        })
    }

    fn take_packet(&mut self, rest: &mut Rest<'_>) -> Result<(), Malformed> {
        let packet = &mut self.packet;
        packet.id = PacketId(rest.number()?);
        packet.parent = rest.maybe()?.map(PacketId);
        packet.flow = rest.maybe()?.map(flow_id).transpose()?;
        packet.born = Instant::from_nanos(self.last.wrapping_sub(rest.signed()? as u64));
        packet.held_since = packet.born;
        packet.zero_tail = rest.small()?;
        packet.bytes.clear();
        match rest.number()? {
            0 => {
                let known = self.packets.bytes(packet.id).ok_or(Malformed)?;
                packet.bytes.extend_from_slice(known);
            }
            length => {
                let bytes = rest.bytes(length)?;
                self.packets.note(packet.id, bytes);
                packet.bytes.extend_from_slice(bytes);
            }
        }
        Ok(())
    }
}

fn flow_id(number: u64) -> Result<FlowId, Malformed> {
    u32::try_from(number).map(FlowId).map_err(|_| Malformed)
}

/// The text for as long as the program runs: names of telemetry fields, of which there
/// are as many as congestion controls report.
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

/// The same of a list of texts: names of bands.
fn kept_list(list: Vec<&'static str>) -> &'static [&'static str] {
    static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.get(list.as_slice()) {
        return known;
    }
    let list: &'static [&'static str] = Box::leak(list.into());
    lists.insert(list);
    list
}

/// What is left to read.
struct Rest<'b>(&'b [u8]);

impl<'b> Rest<'b> {
    fn bytes(&mut self, length: u64) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    /// A number that may be missing.
    fn maybe(&mut self) -> Result<Option<u64>, Malformed> {
        Ok(self.number()?.checked_sub(1))
    }

    fn entity(&mut self) -> Result<EntityId, Malformed> {
        self.small().map(EntityId)
    }

    fn flow(&mut self) -> Result<FlowId, Malformed> {
        self.small().map(FlowId)
    }

    fn time(&mut self) -> Result<Duration, Malformed> {
        self.number().map(Duration::from_nanos)
    }

    fn yes(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, Malformed> {
        all.get(usize::from(self.byte()?)).copied().ok_or(Malformed)
    }

    fn text(&mut self) -> Result<&'b str, Malformed> {
        let length = self.number()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Malformed)
    }

    fn address(&mut self) -> Result<SocketAddr, Malformed> {
        self.text()?.parse().map_err(|_| Malformed)
    }

    /// One of `known`, by its number; the next number is of a new one, which `described`
    /// reads.
    fn described<T: Copy>(
        &mut self,
        known: &mut Vec<T>,
        described: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let number = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if number == known.len() {
            known.push(described(self)?);
        }
        known.get(number).copied().ok_or(Malformed)
    }

    fn field(&mut self, known: &mut Vec<TelemetryField>) -> Result<TelemetryField, Malformed> {
        self.described(known, |rest| {
            Ok(TelemetryField {
                name: kept(rest.text()?),
                unit: kept(rest.text()?),
                about: kept(rest.text()?),
                chart: kept(rest.text()?),
                scale: rest.number()?,
                reduce: rest.one_of(&Reduce::ALL)?,
            })
        })
    }

    fn band(&mut self, known: &mut Vec<&'static [&'static str]>) -> Result<Band, Malformed> {
        let names = self.described(known, |rest| {
            let names = (0..rest.number()?).map(|_| rest.text().map(kept));
            Ok(kept_list(names.collect::<Result<_, _>>()?))
        })?;
        let index = u8::try_from(self.number()?).map_err(|_| Malformed)?;
        let known = names.get(usize::from(index)).is_some();
        known.then(|| Band::new(names, index)).ok_or(Malformed)
    }

    /// What flows, probes and samplers report of themselves.
    fn of_itself(&mut self, kind: Kind) -> Result<Event<'static>, Malformed> {
        Ok(match kind {
            Kind::Established => Event::Established {
                flow: self.flow()?,
                ecn: self.yes()?,
                accecn: self.yes()?,
            },
            Kind::Delivered => Event::Delivered {
                flow: self.flow()?,
                bytes: self.number()?,
            },
            Kind::RttSample => Event::RttSample {
                flow: self.flow()?,
                rtt: self.time()?,
            },
            Kind::Recovery => Event::Recovery {
                flow: self.flow()?,
                event: self.one_of(&RECOVERY_EVENTS)?,
            },
            Kind::Retransmitted => Event::Retransmitted {
                flow: self.flow()?,
                bytes: self.small()?,
            },
            Kind::Sampled => Event::Sampled {
                flow: self.flow()?,
                sample: FlowSample {
                    cwnd: self.small()?,
                    ssthresh: self.small()?,
                    in_flight: self.small()?,
                    srtt: self.time()?,
                    latest_rtt: self.time()?,
                    min_rtt: self.time()?,
                    pacing_rate: self.number()?,
                    delivery_rate: self.number()?,
                    bytes_acked: self.number()?,
                    retransmits: self.number()?,
                    delivered: self.number()?,
                    delivered_ce: self.number()?,
                    ca_state: self.byte()?,
                },
            },
            Kind::QueueSampled => Event::QueueSampled {
                queue: self.entity()?,
                backlog_packets: self.small()?,
                backlog_bytes: self.number()?,
                probability: f64::from_bits(u64::from_le_bytes(
                    self.bytes(8)?.try_into().map_err(|_| Malformed)?,
                )),
            },
            Kind::Finished => Event::Finished {
                flow: self.flow()?,
                bytes: self.number()?,
                complete: self.yes()?,
            },
            Kind::ProbeRtt => Event::ProbeRtt {
                probe: self.entity()?,
                rtt: self.time()?,
            },
            Kind::ProbeLost => Event::ProbeLost {
                probe: self.entity()?,
            },
            Kind::Limited => Event::Limited {
                flow: self.flow()?,
                receive_window: self.time()?,
                send_buffer: self.time()?,
                application: self.time()?,
            },
            _ => return Err(Malformed),
        })
    }
}
