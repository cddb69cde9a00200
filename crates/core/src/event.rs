//! What elements, hosts and flows report while a run goes on.
//!
//! Engines hand every event to one [`EventSink`]; the reduction to metrics
//! happens there. An event borrows its packet, so reporting allocates nothing.

use std::net::SocketAddr;

use narrows_units::{Duration, Instant};

use crate::packet::Packet;
use crate::queue::Band;

/// Index of a named thing (element, link, host, tap) in the run's name table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// Index of a flow in the plan's list of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// Why a packet got a CE mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkCause {
    /// A shallow threshold on sojourn or length (L4S step, `ce_threshold`).
    Step,
    /// The probability coupled over from the classic queue (RFC 9332 p_CL).
    Coupled,
    /// The AQM's own probability or control law.
    Probability,
    /// Instead of a drop, because a limit was reached.
    Overflow,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// A limit in packets or bytes was reached.
    Overflow,
    /// The AQM's law chose it and it could not be marked.
    Probability,
    /// The AQM drops instead of marking because it is overloaded.
    Overload,
    /// Random loss of the path.
    Loss,
    /// A link was down, or there was no route.
    Unreachable,
    /// A rule of a middlebox, or a receiver's replay window.
    Policy,
    /// The packet could not be read, or had a wrong checksum.
    Malformed,
    /// Larger than the link's MTU.
    TooBig,
}

/// What happened to a sender's congestion state; each kind is its own event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryEvent {
    /// Fast retransmit: entered Recovery after loss was inferred.
    FastRetransmit,
    /// A tail-loss probe was sent.
    TailLossProbe,
    /// The retransmission timer fired.
    RetransmissionTimeout,
    /// Entered CWR after an ECN signal.
    CongestionExperienced,
    /// A reduction was found to be spurious and taken back.
    SpuriousUndo,
    /// Slow start was left by the algorithm's own choice (HyStart).
    SlowStartExit,
}

/// What reports a quantity of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A flow of the plan.
    Flow(FlowId),
    /// Anything else that is in the run's name table: an application, a host, an element, a
    /// box, a leg of a proxy, a prober.
    Entity(EntityId),
}

impl From<FlowId> for Source {
    fn from(flow: FlowId) -> Self {
        Self::Flow(flow)
    }
}

impl From<EntityId> for Source {
    fn from(entity: EntityId) -> Self {
        Self::Entity(entity)
    }
}

/// How the values of a field come to the figures of a run, over its steady window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduce {
    /// Each value is so many more (requests answered, bytes read): their total, and what that
    /// is per second.
    Counter,
    /// Each value is the state at that time (a window, a level of quality): its least, mean
    /// and greatest.
    Gauge,
    /// Each value is a measurement, not negative (a response time, the size of a frame): its
    /// distribution.
    Sample,
}

impl Reduce {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Counter, Self::Gauge, Self::Sample];

    /// The figures that a run has of such a field.
    pub const fn figures(self) -> &'static [&'static str] {
        match self {
            Self::Counter => &["total", "per_s"],
            Self::Gauge => &["min", "mean", "max"],
            Self::Sample => &["min", "mean", "p50", "p95", "p99", "max"],
        }
    }
}

/// A quantity that a source reports of itself: what it declares, so that nobody
/// between it and the reader needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryField {
    /// Its name among those of its source.
    pub name: &'static str,
    /// Its unit as columns spell it (`ms`, `mbit`, `packets`); empty if it has none.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Title of the chart that it shares with other fields of its unit; empty if it is
    /// drawn alone.
    pub chart: &'static str,
    /// Values are whole numbers of `1 / scale` units.
    pub scale: u64,
    /// How its values come to figures.
    pub reduce: Reduce,
}

impl TelemetryField {
    /// A field of whole units that is drawn alone.
    pub const fn new(
        name: &'static str,
        unit: &'static str,
        about: &'static str,
        reduce: Reduce,
    ) -> Self {
        Self {
            name,
            unit,
            about,
            chart: "",
            scale: 1,
            reduce,
        }
    }

    /// The same, of which values are whole numbers of `1 / scale` units.
    pub const fn in_parts(self, scale: u64) -> Self {
        Self { scale, ..self }
    }

    /// The same in the chart of this title.
    pub const fn in_chart(self, chart: &'static str) -> Self {
        Self { chart, ..self }
    }

    /// What the metrics of it are called: `response_ms.p99`.
    pub fn metrics(&self) -> impl Iterator<Item = String> {
        let column = self.column();
        let figures = self.reduce.figures().iter();
        figures.map(move |figure| format!("{column}.{figure}"))
    }

    /// The name of its column: with its unit, if it has one.
    pub fn column(&self) -> String {
        match self.unit {
            "" => self.name.to_owned(),
            unit => format!("{}_{unit}", self.name),
        }
    }

    /// `value` in its unit.
    pub fn in_units(&self, value: i64) -> f64 {
        value as f64 / self.scale as f64
    }
}

/// A snapshot of a sender: of TCP what [`TcpInfo`](crate::TcpInfo) says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSample {
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments; `u32::MAX` while unset.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed RTT.
    pub srtt: Duration,
    /// Latest RTT sample; zero before the first.
    pub latest_rtt: Duration,
    /// Minimum RTT over the window that the sender keeps.
    pub min_rtt: Duration,
    /// Pacing rate in bytes per second; 0 if not paced.
    pub pacing_rate: u64,
    /// Delivery rate of the latest rate sample in bytes per second.
    pub delivery_rate: u64,
    /// Bytes acknowledged since the start; of TCP, the SYN of the end that
    /// opened and a FIN count as one each, as in `tcpi_bytes_acked`.
    pub bytes_acked: u64,
    /// Segments retransmitted since the start.
    pub retransmits: u64,
    /// Segments delivered since the start.
    pub delivered: u64,
    /// Segments delivered with a CE mark since the start.
    pub delivered_ce: u64,
    /// Congestion-avoidance state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery,
    /// 4 Loss.
    pub ca_state: u8,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// `queue` took a packet; the backlog is that after it.
    Enqueued {
        /// Which queue.
        queue: EntityId,
        /// Packets now waiting.
        backlog_packets: u32,
        /// Bytes now waiting.
        backlog_bytes: u64,
    },
    /// `queue` let a packet go to the wire.
    Dequeued {
        /// Which queue.
        queue: EntityId,
        /// The packet.
        packet: &'a Packet,
        /// How long it waited in the queue.
        sojourn: Duration,
        /// Bytes that the link counts for it (IP packet plus overhead).
        wire_bytes: u32,
        /// The queue's band that it waited in.
        band: Band,
    },
    /// `queue` set CE on a packet.
    Marked {
        /// Which queue.
        queue: EntityId,
        /// The packet.
        packet: &'a Packet,
        /// Why.
        cause: MarkCause,
    },
    /// An element dropped a packet.
    Dropped {
        /// Which element.
        element: EntityId,
        /// The packet.
        packet: &'a Packet,
        /// Why.
        cause: DropCause,
    },
    /// A box gives the packets of a connection other addresses from now on.
    Translated {
        /// Which box.
        element: EntityId,
        /// Whose packets they are, if it is known.
        flow: Option<FlowId>,
        /// Protocol number of the header above IP.
        protocol: u8,
        /// Source and destination of the packets that open the connection, as they
        /// leave the box.
        addresses: (SocketAddr, SocketAddr),
    },
    /// A packet passed a tap; `forward` is the link's up direction.
    Tapped {
        /// Which tap.
        tap: EntityId,
        /// Whether it travels up.
        forward: bool,
        /// The packet.
        packet: &'a Packet,
    },
    /// A host sent a packet, after its egress hooks.
    Sent {
        /// Which host.
        host: EntityId,
        /// The packet.
        packet: &'a Packet,
    },
    /// A packet reached its host, before the ingress hooks.
    Received {
        /// Which host.
        host: EntityId,
        /// The packet.
        packet: &'a Packet,
    },
    /// A flow's connection was opened and negotiated.
    Established {
        /// Which flow.
        flow: FlowId,
        /// Whether classic ECN was negotiated.
        ecn: bool,
        /// Whether AccECN was negotiated.
        accecn: bool,
    },
    /// The receiving application of a flow was handed `bytes` in order.
    Delivered {
        /// Which flow.
        flow: FlowId,
        /// Payload bytes.
        bytes: u64,
    },
    /// The sender of a flow measured an RTT.
    RttSample {
        /// Which flow.
        flow: FlowId,
        /// The sample.
        rtt: Duration,
    },
    /// A flow's sender changed its congestion state.
    Recovery {
        /// Which flow.
        flow: FlowId,
        /// How.
        event: RecoveryEvent,
    },
    /// A segment of a flow was sent again.
    Retransmitted {
        /// Which flow.
        flow: FlowId,
        /// Payload bytes in it.
        bytes: u32,
    },
    /// A periodic sample of a flow's sender.
    Sampled {
        /// Which flow.
        flow: FlowId,
        /// What was seen.
        sample: FlowSample,
    },
    /// A source reports a quantity of itself; a flow's sender before each sample.
    Telemetry {
        /// Which source.
        source: Source,
        /// What it reports.
        field: TelemetryField,
        /// Its value, a whole number of `1 / scale` units.
        value: i64,
    },
    /// A periodic sample of a queue.
    QueueSampled {
        /// Which queue.
        queue: EntityId,
        /// Packets waiting.
        backlog_packets: u32,
        /// Bytes waiting.
        backlog_bytes: u64,
        /// The AQM's probability (p′ of DualPI2 and PIE, RED's, 0 elsewhere).
        probability: f64,
    },
    /// A flow has delivered all of its bytes, or was stopped.
    Finished {
        /// Which flow.
        flow: FlowId,
        /// Payload bytes delivered.
        bytes: u64,
        /// Whether all that it had to send arrived.
        complete: bool,
    },
    /// A latency probe's answer came back.
    ProbeRtt {
        /// Which probe, by its own name.
        probe: EntityId,
        /// Round trip.
        rtt: Duration,
    },
    /// A latency probe was not answered within its time.
    ProbeLost {
        /// Which probe.
        probe: EntityId,
    },
    /// A sender could not send for a reason other than congestion.
    Limited {
        /// Which flow.
        flow: FlowId,
        /// How long it has been limited by the receive window since the start.
        receive_window: Duration,
        /// How long it has been limited by its own buffer since the start.
        send_buffer: Duration,
        /// How long it had nothing in flight and nothing to send since the
        /// start.
        application: Duration,
    },
}

impl<'a> Event<'a> {
    /// What flows and probes report of themselves, for sinks that keep it; `None` of an event
    /// that is about a packet or a queue.
    pub fn of_itself(self) -> Option<Event<'static>> {
        match self.parts() {
            (
                Event::Enqueued { .. } | Event::QueueSampled { .. } | Event::Translated { .. },
                None,
            )
            | (_, Some(_)) => None,
            (event, None) => Some(event),
        }
    }

    /// The event and its packet, apart, for sinks that keep both; a packet without content is
    /// in its place. [`about`](Self::about) puts them together again.
    pub fn parts(self) -> (Event<'static>, Option<&'a Packet>) {
        let none = &NO_PACKET;
        let without = match self {
            Self::Dequeued {
                queue,
                packet,
                sojourn,
                wire_bytes,
                band,
            } => {
                let event = Event::Dequeued {
                    queue,
                    packet: none,
                    sojourn,
                    wire_bytes,
                    band,
                };
                return (event, Some(packet));
            }
            Self::Marked {
                queue,
                packet,
                cause,
            } => {
                let event = Event::Marked {
                    queue,
                    packet: none,
                    cause,
                };
                return (event, Some(packet));
            }
            Self::Dropped {
                element,
                packet,
                cause,
            } => {
                let event = Event::Dropped {
                    element,
                    packet: none,
                    cause,
                };
                return (event, Some(packet));
            }
            Self::Tapped {
                tap,
                forward,
                packet,
            } => {
                let event = Event::Tapped {
                    tap,
                    forward,
                    packet: none,
                };
                return (event, Some(packet));
            }
            Self::Sent { host, packet } => {
                return (Event::Sent { host, packet: none }, Some(packet));
            }
            Self::Received { host, packet } => {
                return (Event::Received { host, packet: none }, Some(packet));
            }
            Self::Enqueued {
                queue,
                backlog_packets,
                backlog_bytes,
            } => Event::Enqueued {
                queue,
                backlog_packets,
                backlog_bytes,
            },
            Self::Translated {
                element,
                flow,
                protocol,
                addresses,
            } => Event::Translated {
                element,
                flow,
                protocol,
                addresses,
            },
            Self::QueueSampled {
                queue,
                backlog_packets,
                backlog_bytes,
                probability,
            } => Event::QueueSampled {
                queue,
                backlog_packets,
                backlog_bytes,
                probability,
            },
            Self::Established { flow, ecn, accecn } => Event::Established { flow, ecn, accecn },
            Self::Delivered { flow, bytes } => Event::Delivered { flow, bytes },
            Self::RttSample { flow, rtt } => Event::RttSample { flow, rtt },
            Self::Recovery { flow, event } => Event::Recovery { flow, event },
            Self::Retransmitted { flow, bytes } => Event::Retransmitted { flow, bytes },
            Self::Sampled { flow, sample } => Event::Sampled { flow, sample },
            Self::Telemetry {
                source,
                field,
                value,
            } => Event::Telemetry {
                source,
                field,
                value,
            },
            Self::Finished {
                flow,
                bytes,
                complete,
            } => Event::Finished {
                flow,
                bytes,
                complete,
            },
            Self::ProbeRtt { probe, rtt } => Event::ProbeRtt { probe, rtt },
            Self::ProbeLost { probe } => Event::ProbeLost { probe },
            Self::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            } => Event::Limited {
                flow,
                receive_window,
                send_buffer,
                application,
            },
        };
        (without, None)
    }

    /// The same about `packet`, if it is about one at all.
    pub fn about(self, packet: &'a Packet) -> Self {
        match self {
            Self::Dequeued {
                queue,
                sojourn,
                wire_bytes,
                band,
                ..
            } => Event::Dequeued {
                queue,
                packet,
                sojourn,
                wire_bytes,
                band,
            },
            Self::Marked { queue, cause, .. } => Event::Marked {
                queue,
                packet,
                cause,
            },
            Self::Dropped { element, cause, .. } => Event::Dropped {
                element,
                packet,
                cause,
            },
            Self::Tapped { tap, forward, .. } => Event::Tapped {
                tap,
                forward,
                packet,
            },
            Self::Sent { host, .. } => Event::Sent { host, packet },
            Self::Received { host, .. } => Event::Received { host, packet },
            other => other,
        }
    }
}

/// Stands for the packet of an event that was taken apart.
static NO_PACKET: Packet = Packet::EMPTY;

/// Takes the events of a run in order of time.
pub trait EventSink {
    /// Takes one event.
    fn record(&mut self, now: Instant, event: Event<'_>);
}

/// Discards events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl EventSink for NullSink {
    fn record(&mut self, _: Instant, _: Event<'_>) {}
}
