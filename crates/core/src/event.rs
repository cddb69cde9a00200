//! What elements, hosts and flows report while a run goes on.
//!
//! Engines hand every event to one [`EventSink`]; the reduction to metrics
//! happens there. An event borrows its packet, so reporting allocates nothing.
//!
//! Each event is declared once, below: from that come the type, the bytes by which a kernel
//! in virtual time sends it, what it is reduced to, and the guide's list.

#[macro_use]
mod declare;
mod telemetry;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;

use narrows_units::{Duration, Instant};

pub use telemetry::{Reduce, Source, TelemetryField};
pub use value::{Decoder, Encoder, Malformed, Value};

use crate::packet::Packet;
use crate::queue::Band;

/// Index of a named thing (element, link, host, tap) in the run's name table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// Index of a flow in the plan's list of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

choices! {
    /// Why a packet got a CE mark.
    MarkCause {
        /// A shallow threshold on sojourn or length (L4S step, `ce_threshold`).
        Step,
        /// The probability coupled over from the classic queue (RFC 9332 p_CL).
        Coupled,
        /// The AQM's own probability or control law.
        Probability,
        /// Instead of a drop, because a limit was reached.
        Overflow,
    }
}

choices! {
    /// Why a packet was dropped.
    DropCause {
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
        /// A rule of a middlebox.
        Policy,
        /// The packet could not be read, or had a wrong checksum.
        Malformed,
        /// Larger than the link's MTU.
        TooBig,
        /// Below a receiver's window against replayed packets, or a second time in it.
        Replay,
        /// It reached its host, where no socket takes it: a port that is closed, or one that
        /// was closed while the packet was on its way (Linux's `SKB_DROP_REASON_NO_SOCKET`).
        NoSocket,
    }
}

choices! {
    /// What happened to a sender's congestion state; each kind is its own event.
    RecoveryEvent {
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
}

group! {
    /// A snapshot of a sender: of TCP what [`TcpInfo`](crate::TcpInfo) says.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    FlowSample {
        /// Congestion window in segments.
        cwnd: u32,
        /// Slow-start threshold in segments; `u32::MAX` while unset.
        ssthresh: u32,
        /// Segments in flight.
        in_flight: u32,
        /// Smoothed RTT.
        srtt: Duration,
        /// Latest RTT sample; zero before the first.
        latest_rtt: Duration,
        /// Minimum RTT over the window that the sender keeps.
        min_rtt: Duration,
        /// Pacing rate in bytes per second; 0 if not paced.
        pacing_rate: u64,
        /// Delivery rate of the latest rate sample in bytes per second.
        delivery_rate: u64,
        /// Bytes acknowledged since the start; of TCP, the SYN of the end that
        /// opened and a FIN count as one each, as in `tcpi_bytes_acked`.
        bytes_acked: u64,
        /// Segments retransmitted since the start.
        retransmits: u64,
        /// Segments delivered since the start.
        delivered: u64,
        /// Segments delivered with a CE mark since the start.
        delivered_ce: u64,
        /// Congestion-avoidance state: 0 Open, 1 Disorder, 2 CWR, 3 Recovery,
        /// 4 Loss.
        ca_state: u8,
    }
}

/// What is declared of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKind {
    /// `dequeued`.
    pub name: &'static str,
    /// What happened.
    pub about: &'static str,
    /// What reports it: `queue`, `flow`, …
    pub by: &'static str,
    /// Whether it is about a packet.
    pub of_packet: bool,
    /// Whether it is counted.
    pub counted: bool,
    /// What else it has.
    pub fields: &'static [EventField],
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventField {
    /// `sojourn`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Of which type.
    pub shape: &'static str,
    /// The unit of its figures and how it is reduced to them; `None` of a label.
    pub reduced: Option<(&'static str, Reduce)>,
}

events! {
    /// A queue took a packet; the backlog is that after it.
    Enqueued = "enqueued", by queue: EntityId, None {
        /// Packets now waiting.
        backlog_packets: u32, "packets", Gauge;
        /// Bytes now waiting.
        backlog_bytes: u64, "bytes", Gauge;
    }
    /// A queue let a packet go to the wire.
    Dequeued = "dequeued" of packet, by queue: EntityId, Counter {
        /// How long it waited in the queue.
        sojourn: Duration, "ms", Sample;
        /// Bytes that the link counts for it (IP packet plus overhead).
        wire_bytes: u32, "bytes", Counter;
        /// The queue's band that it waited in.
        band: Band;
    }
    /// A queue set CE on a packet.
    Marked = "marked" of packet, by queue: EntityId, Counter {
        /// Why.
        cause: MarkCause;
    }
    /// An element dropped a packet.
    Dropped = "dropped" of packet, by element: EntityId, Counter {
        /// Why.
        cause: DropCause;
    }
    /// A box gives the packets of a connection other addresses from now on.
    Translated = "translated", by element: EntityId, None {
        /// Whose packets they are, if it is known.
        flow: Option<FlowId>;
        /// Protocol number of the header above IP.
        protocol: u8;
        /// Source and destination of the packets that open the connection, as they
        /// leave the box.
        addresses: (SocketAddr, SocketAddr);
    }
    /// A packet passed a tap; `forward` is the link's up direction.
    Tapped = "tapped" of packet, by tap: EntityId, None {
        /// Whether it travels up.
        forward: bool;
    }
    /// A host sent a packet, after its egress hooks.
    Sent = "sent" of packet, by host: EntityId, Counter {}
    /// A packet reached its host, before the ingress hooks.
    Received = "received" of packet, by host: EntityId, Counter {}
    /// A flow's connection was opened and negotiated.
    Established = "established", by flow: FlowId, Counter {
        /// Whether classic ECN was negotiated.
        ecn: bool;
        /// Whether AccECN was negotiated.
        accecn: bool;
    }
    /// The receiving application of a flow was handed `bytes` in order.
    Delivered = "delivered", by flow: FlowId, None {
        /// Payload bytes.
        bytes: u64, "bytes", Counter;
    }
    /// The sender of a flow measured an RTT.
    RttSample = "rtt_sample", by flow: FlowId, None {
        /// The sample.
        rtt: Duration, "ms", Sample;
    }
    /// A flow's sender changed its congestion state.
    Recovery = "recovery", by flow: FlowId, Counter {
        /// How.
        event: RecoveryEvent;
    }
    /// A segment of a flow was sent again.
    Retransmitted = "retransmitted", by flow: FlowId, Counter {
        /// Payload bytes in it.
        bytes: u32, "bytes", Counter;
    }
    /// A periodic sample of a flow's sender.
    Sampled = "sampled", by flow: FlowId, None {
        /// What was seen.
        sample: FlowSample;
    }
    /// A source reports a quantity of itself; a flow's sender before each sample.
    Telemetry = "telemetry", by source: Source, None {
        /// What it reports, and how that is reduced.
        field: TelemetryField;
        /// Its value, a whole number of `1 / scale` units.
        value: i64;
    }
    /// A periodic sample of a queue.
    QueueSampled = "queue_sampled", by queue: EntityId, None {
        /// Packets waiting.
        backlog_packets: u32, "packets", Gauge;
        /// Bytes waiting.
        backlog_bytes: u64, "bytes", Gauge;
        /// The AQM's probability (p′ of DualPI2 and PIE, RED's, 0 elsewhere).
        probability: f64, "", Gauge;
    }
    /// A periodic sample of a rule of a box that has applied to a packet.
    RuleSampled = "rule_sampled", by element: EntityId, None {
        /// Its number, from 1.
        rule: u32;
        /// Packets to which it applied since the start, or since the rule is there.
        packets: u64;
        /// Of these, dropped by it.
        dropped: u64;
    }
    /// A flow has delivered all of its bytes, or was stopped.
    Finished = "finished", by flow: FlowId, Counter {
        /// Payload bytes delivered.
        bytes: u64, "bytes", Counter;
        /// Whether all that it had to send arrived.
        complete: bool;
    }
    /// A latency probe's answer came back.
    ProbeRtt = "probe_rtt", by probe: EntityId, None {
        /// Round trip.
        rtt: Duration, "ms", Sample;
    }
    /// A latency probe was not answered within its time.
    ProbeLost = "probe_lost", by probe: EntityId, Counter {}
    /// A sender could not send for a reason other than congestion.
    Limited = "limited", by flow: FlowId, None {
        /// How long it has been limited by the receive window since the start.
        receive_window: Duration, "ms", Gauge;
        /// How long it has been limited by its own buffer since the start.
        send_buffer: Duration, "ms", Gauge;
        /// How long it had nothing in flight and nothing to send since the
        /// start.
        application: Duration, "ms", Gauge;
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

/// Hands events to one sink after the other.
pub struct Sinks<'a>(pub Vec<&'a mut dyn EventSink>);

impl EventSink for Sinks<'_> {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        for sink in &mut self.0 {
            sink.record(now, event);
        }
    }
}
