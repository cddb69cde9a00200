//! Events as bytes: a run's events cross the border between a kernel in virtual time
//! and its machine in the order in which they happened.
//!
//! Numbers are LEB128 varints, times differences to the event before, and the bytes of a
//! packet are sent once for as long as they do not change. Both ends are the same
//! program, so that the form has no version.

mod packets;
mod read;
mod write;

pub(crate) use read::EventReader;
pub(crate) use write::EventWriter;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use narrows_core::{
        Band, DropCause, EVENTS, EntityId, Event, EventSink, FlowId, FlowSample, MarkCause, Packet,
        PacketId, RecoveryEvent, Reduce, TelemetryField,
    };
    use narrows_units::{Duration, Instant};

    use super::*;

    /// Keeps what it is sent, packets without what their holder notes in them.
    #[derive(Default)]
    struct Collected(Vec<String>);

    impl EventSink for Collected {
        fn record(&mut self, now: Instant, event: Event<'_>) {
            self.0.push(format!("{now:?} {event:?}"));
        }
    }

    fn packet(id: u64, bytes: Vec<u8>, zero_tail: u32) -> Packet {
        Packet {
            id: PacketId(id),
            parent: (id % 2 == 1).then_some(PacketId(id / 2)),
            born: Instant::from_nanos(900),
            flow: (id % 3 == 0).then_some(FlowId(id as u32)),
            held_since: Instant::from_nanos(900),
            bytes,
            zero_tail,
            ..Packet::default()
        }
    }

    /// One event of each kind and with each cause.
    fn each<'p>(packet: &'p Packet, field: TelemetryField) -> Vec<Event<'p>> {
        let (queue, element) = (EntityId(3), EntityId(300));
        let flow = FlowId(7);
        let mut all = vec![
            Event::Enqueued {
                queue,
                backlog_packets: 5,
                backlog_bytes: 1 << 40,
            },
            Event::Dequeued {
                queue,
                packet,
                sojourn: Duration::from_micros(17),
                wire_bytes: 1514,
                band: Band::new(&["classic", "low_latency"], 1),
            },
            Event::Dequeued {
                queue,
                packet,
                sojourn: Duration::ZERO,
                wire_bytes: 60,
                band: Band::new(&["all"], 0),
            },
            Event::Tapped {
                tap: queue,
                forward: true,
                packet,
            },
            Event::Tapped {
                tap: queue,
                forward: false,
                packet,
            },
            Event::Sent {
                host: element,
                packet,
            },
            Event::Received {
                host: element,
                packet,
            },
            Event::Delivered { flow, bytes: 99 },
            Event::RttSample {
                flow,
                rtt: Duration::from_millis(20),
            },
            Event::Retransmitted { flow, bytes: 1448 },
            Event::Sampled {
                flow,
                sample: FlowSample {
                    cwnd: 1,
                    ssthresh: u32::MAX,
                    in_flight: 3,
                    srtt: Duration::from_nanos(4),
                    latest_rtt: Duration::from_nanos(5),
                    min_rtt: Duration::from_nanos(6),
                    pacing_rate: u64::MAX,
                    delivery_rate: 8,
                    bytes_acked: 9,
                    retransmits: 10,
                    delivered: 11,
                    delivered_ce: 12,
                    ca_state: 4,
                },
            },
            Event::Telemetry {
                source: flow.into(),
                field,
                value: -3,
            },
            Event::Telemetry {
                source: element.into(),
                field,
                value: i64::MIN,
            },
            Event::QueueSampled {
                queue,
                backlog_packets: 1,
                backlog_bytes: 2,
                probability: 0.1,
            },
            Event::RuleSampled {
                element,
                rule: 1,
                packets: u64::MAX,
                dropped: 3,
            },
            Event::ProbeRtt {
                probe: queue,
                rtt: Duration::from_nanos(1),
            },
            Event::ProbeLost { probe: queue },
            Event::Limited {
                flow,
                receive_window: Duration::from_nanos(1),
                send_buffer: Duration::from_nanos(2),
                application: Duration::from_nanos(3),
            },
        ];
        for (ecn, accecn) in [(false, true), (true, false)] {
            all.push(Event::Established { flow, ecn, accecn });
        }
        for complete in [false, true] {
            all.push(Event::Finished {
                flow,
                bytes: 1,
                complete,
            });
        }
        for addresses in ["10.0.0.1:80", "[fd00::1]:443"] {
            let address = addresses.parse().unwrap();
            for flow in [None, Some(flow)] {
                all.push(Event::Translated {
                    element,
                    flow,
                    protocol: 6,
                    addresses: (address, address),
                });
            }
        }
        for cause in MarkCause::ALL.iter().copied() {
            all.push(Event::Marked {
                queue,
                packet,
                cause,
            });
        }
        for cause in DropCause::ALL.iter().copied() {
            all.push(Event::Dropped {
                element,
                packet,
                cause,
            });
        }
        for event in RecoveryEvent::ALL.iter().copied() {
            all.push(Event::Recovery { flow, event });
        }
        all
    }

    fn through(sent: &[(Instant, Event<'_>)], frame: usize) -> Vec<String> {
        let (mut writer, mut reader) = (EventWriter::default(), EventReader::default());
        let mut collected = Collected::default();
        for some in sent.chunks(frame) {
            for (now, event) in some {
                writer.record(*now, *event);
            }
            reader.read(writer.bytes(), &mut collected).unwrap();
            writer.clear();
        }
        collected.0
    }

    #[test]
    fn every_event_arrives_as_it_was_whatever_the_frames() {
        let field = TelemetryField {
            name: "alpha",
            unit: "",
            about: "the marked share",
            chart: "",
            scale: 1024,
            reduce: Reduce::Sample,
        };
        let mut changed = vec![0x45; 60];
        let first = packet(5, changed.clone(), 1400);
        changed[1] = 3;
        let marked = packet(5, changed, 1400);
        let long = packet(6, vec![7; 1500], 0);
        let mut sent = Vec::new();
        let mut now = 1_000;
        for packet in [&first, &marked, &first, &long] {
            for event in each(packet, field) {
                sent.push((Instant::from_nanos(now), event));
                now += 12_345;
            }
        }
        // A report of another thread may lie a little in the past.
        sent.push((Instant::from_nanos(now - 50_000), sent[0].1));
        let mut direct = Collected::default();
        for (now, event) in &sent {
            direct.record(*now, *event);
        }
        for frame in [1, 7, sent.len()] {
            assert_eq!(through(&sent, frame), direct.0);
        }
    }

    #[test]
    fn zeros_at_a_packets_end_are_counted_and_not_sent() {
        let mut bytes = vec![1; 52];
        bytes.resize(1500, 0);
        let whole = packet(1, bytes, 0);
        let event = Event::Sent {
            host: EntityId(0),
            packet: &whole,
        };
        let mut writer = EventWriter::default();
        writer.record(Instant::ZERO, event);
        assert!(writer.bytes().len() < 200, "{}", writer.bytes().len());
        struct Length(Option<(u32, Vec<u8>)>);
        impl EventSink for Length {
            fn record(&mut self, _: Instant, event: Event<'_>) {
                if let Event::Sent { packet, .. } = event {
                    self.0 = Some((packet.len(), packet.bytes[..52].to_vec()));
                }
            }
        }
        let mut length = Length(None);
        let mut reader = EventReader::default();
        reader.read(writer.bytes(), &mut length).unwrap();
        assert_eq!(length.0, Some((1500, vec![1; 52])));
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_refused_and_no_event_of_it_is_invented() {
        let field = TelemetryField {
            name: "alpha",
            unit: "",
            about: "",
            chart: "",
            scale: 1,
            reduce: Reduce::Counter,
        };
        let one = packet(3, vec![1; 80], 0);
        let mut writer = EventWriter::default();
        let sent = each(&one, field);
        for event in &sent {
            writer.record(Instant::ZERO, *event);
        }
        let bytes = writer.bytes().to_vec();
        for cut in 0..bytes.len() {
            let mut collected = Collected::default();
            let read = EventReader::default().read(&bytes[..cut], &mut collected);
            assert!(collected.0.len() < sent.len());
            // Between two events the rest may be another frame.
            if read.is_ok() {
                let mut again = Collected::default();
                EventReader::default()
                    .read(&bytes[..cut], &mut again)
                    .unwrap();
                assert_eq!(collected.0, again.0);
            }
        }
        let unknown = [EVENTS.len() as u8, 0];
        assert!(
            EventReader::default()
                .read(&unknown, &mut Collected::default())
                .is_err()
        );
    }

    #[test]
    fn each_event_that_is_declared_is_tried_here() {
        let field = TelemetryField::new("alpha", "", "", Reduce::Gauge);
        let packet = packet(1, vec![1], 0);
        let tried: BTreeSet<u8> = each(&packet, field).iter().map(Event::number).collect();
        assert!(tried.into_iter().eq(0..EVENTS.len() as u8));
    }
}
