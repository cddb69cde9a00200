//! The observer: packets in, samples out.

use narrows_units::Instant;
use narrows_wire::link::{self, LinkType};

use crate::classify::{Classified, OptionsRead, Packet, Unread, classify};
use crate::config::ObserverConfig;
use crate::estimate::{self, Estimate};
use crate::flow::{End, Flow};
use crate::probes::Room;
use crate::sample::{Now, ObservedPacketId, Sample};
use crate::table::Table;

/// Receives what an observer finds. Every method does nothing unless it is
/// written.
pub trait SampleSink {
    /// A flow was seen for the first time.
    fn began(&mut self, _flow: &Flow, _at: Instant) {}
    /// A packet of a flow passed.
    fn packet(&mut self, _flow: &Flow, _packet: &Packet<'_>, _at: Instant) {}
    /// A sample was completed.
    fn sample(&mut self, _flow: &Flow, _sample: &Sample) {}
    /// The observer lets go of a flow; its estimates are final.
    fn ended(&mut self, _flow: &Flow, _why: End, _at: Instant) {}
}

/// A sink for those who only want estimates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl SampleSink for Nothing {}

/// What passed an observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObserverCounters {
    /// Packets in all.
    pub packets: u64,
    /// Packets of flows.
    pub observed: u64,
    /// Frames without an IP packet.
    pub no_ip: u64,
    /// Headers that contradict themselves, those whose options do included.
    pub malformed: u64,
    /// Packets that were cut inside a header that is needed.
    pub truncated: u64,
    /// Packets that were cut inside their options; seen without them.
    pub cut_options: u64,
    /// Fragments other than the first.
    pub later_fragments: u64,
    /// Packets of protocols other than TCP and UDP.
    pub other_protocols: u64,
    /// Packets whose time lies before that of one before them.
    pub time_went_back: u64,
    /// Flows in all.
    pub flows: u64,
    /// Flows that made room for others.
    pub evicted: u64,
    /// Flows that were silent for too long.
    pub expired: u64,
    /// Packets that passed, but found no room on their way to the observer;
    /// not among `packets`. Only of devices, never of files.
    pub dropped: u64,
}

impl ObserverCounters {
    /// Every counter with its name.
    pub fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("packets", self.packets),
            ("observed", self.observed),
            ("no_ip", self.no_ip),
            ("malformed", self.malformed),
            ("truncated", self.truncated),
            ("cut_options", self.cut_options),
            ("later_fragments", self.later_fragments),
            ("other_protocols", self.other_protocols),
            ("time_went_back", self.time_went_back),
            ("flows", self.flows),
            ("evicted", self.evicted),
            ("expired", self.expired),
            ("dropped", self.dropped),
        ]
    }
}

/// A point on a path.
#[derive(Debug)]
pub struct Observer {
    config: ObserverConfig,
    table: Table,
    counters: ObserverCounters,
    samples: Vec<Sample>,
    /// What the queues of all flows share.
    room: Room,
    newest: u64,
}

impl Observer {
    /// An observer that has seen nothing yet.
    pub fn new(config: ObserverConfig) -> Self {
        Self {
            config,
            table: Table::new(config.seed),
            counters: ObserverCounters::default(),
            samples: Vec::with_capacity(64),
            room: Room::default(),
            newest: 0,
        }
    }

    /// What passed so far.
    pub fn counters(&self) -> &ObserverCounters {
        &self.counters
    }

    /// Its settings.
    pub fn config(&self) -> &ObserverConfig {
        &self.config
    }

    /// How many flows are in the table.
    pub fn flows_now(&self) -> u64 {
        u64::from(self.table.len())
    }

    /// Flows in the table, from the one that was silent longest on.
    pub fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.table.iter()
    }

    /// A frame of a capture.
    pub fn observe_frame(
        &mut self,
        link: LinkType,
        frame: &[u8],
        at: Instant,
        id: ObservedPacketId,
        sink: &mut impl SampleSink,
    ) {
        match link::ip_packet(link, frame) {
            Some(bytes) => self.observe(bytes, at, id, sink),
            None => {
                self.counters.packets += 1;
                self.counters.no_ip += 1;
            }
        }
    }

    /// A packet that starts at its IP header; its payload may be cut. Packets
    /// come in the order in which they passed.
    pub fn observe(
        &mut self,
        bytes: &[u8],
        at: Instant,
        id: ObservedPacketId,
        sink: &mut impl SampleSink,
    ) {
        if let Some(packet) = self.classify(bytes) {
            self.take(&packet, at, id, sink);
        }
    }

    /// Reads a packet and counts what it is, for callers who want only some
    /// packets observed; those go on to [`take`](Self::take).
    pub fn classify<'a>(&mut self, bytes: &'a [u8]) -> Option<Packet<'a>> {
        self.count(&classify(bytes)).copied()
    }

    /// Counts a packet that the caller has read with [`classify()`].
    #[inline]
    pub fn count<'r, 'a>(&mut self, read: &'r Classified<'a>) -> Option<&'r Packet<'a>> {
        let counters = &mut self.counters;
        counters.packets += 1;
        let packet = match read {
            Ok(packet) => packet,
            Err(why) => {
                *match why {
                    Unread::Malformed => &mut counters.malformed,
                    Unread::Truncated => &mut counters.truncated,
                    Unread::LaterFragment => &mut counters.later_fragments,
                    Unread::OtherProtocol => &mut counters.other_protocols,
                } += 1;
                return None;
            }
        };
        match packet.options {
            OptionsRead::All => {}
            OptionsRead::Cut => counters.cut_options += 1,
            OptionsRead::Malformed => counters.malformed += 1,
        }
        Some(packet)
    }

    /// Counts a frame in which there is no IP packet.
    pub fn count_no_ip(&mut self) {
        self.counters.packets += 1;
        self.counters.no_ip += 1;
    }

    /// Says how many packets have passed so far, but did not come here.
    pub fn set_dropped(&mut self, packets: u64) {
        self.counters.dropped = packets;
    }

    /// Observes a packet that [`classify`](Self::classify) has read.
    pub fn take(
        &mut self,
        packet: &Packet<'_>,
        at: Instant,
        id: ObservedPacketId,
        sink: &mut impl SampleSink,
    ) {
        let flow = self.place(packet, at, sink);
        let now = Now {
            at: at.as_nanos(),
            id,
        };
        self.samples.clear();
        let flow = self.table.flow_mut(flow);
        flow.packet(packet, now, &self.config, &mut self.room, &mut self.samples);
        sink.packet(flow, packet, at);
        for sample in &self.samples {
            sink.sample(flow, sample);
        }
    }

    /// Where the flow of a packet is kept, which is now the newest; flows begin
    /// and end by it.
    fn place(&mut self, packet: &Packet<'_>, at: Instant, sink: &mut impl SampleSink) -> u32 {
        self.counters.observed += 1;
        if at.as_nanos() < self.newest {
            self.counters.time_went_back += 1;
        }
        self.newest = self.newest.max(at.as_nanos());
        let mut found = self.table.find(&packet.ends);
        if let Some(old) = found {
            if self.table.flow(old).is_over_by(packet) {
                self.end(old, End::Reused, sink);
                found = None;
            }
        }
        match found {
            Some(flow) => flow,
            None => self.begin(packet, at, sink),
        }
    }

    fn begin(&mut self, packet: &Packet<'_>, at: Instant, sink: &mut impl SampleSink) -> u32 {
        let idle = self.config.idle.as_nanos();
        // Two at a time: the table empties faster than it fills.
        for _ in 0..2 {
            let Some(oldest) = self.table.oldest() else {
                break;
            };
            if self.newest.saturating_sub(self.table.flow(oldest).last_at) <= idle {
                break;
            }
            self.counters.expired += 1;
            self.end(oldest, End::Idle, sink);
        }
        if self.table.len() >= self.config.max_flows.max(1) {
            if let Some(oldest) = self.table.oldest() {
                self.counters.evicted += 1;
                self.end(oldest, End::Evicted, sink);
            }
        }
        let id = self.counters.flows;
        self.counters.flows += 1;
        let place = self.table.insert(Flow::new(packet, id, at.as_nanos()));
        sink.began(self.table.flow(place), at);
        place
    }

    fn end(&mut self, place: u32, why: End, sink: &mut impl SampleSink) {
        let at = Instant::from_nanos(self.newest);
        let held = self.table.flow(place).estimators.held();
        self.room.give_back(held);
        sink.ended(self.table.flow(place), why, at);
        self.table.remove(place);
    }

    /// Ends every flow, the one that was silent longest first.
    pub fn finish(&mut self, sink: &mut impl SampleSink) {
        while let Some(flow) = self.table.oldest() {
            self.end(flow, End::Finished, sink);
        }
    }

    /// From now on the rates of all flows are of what passes from here on. What was learnt
    /// of their signals is kept, and the block that is passing counts when it ends.
    pub fn restart_counts(&mut self) {
        self.table.each(Flow::restart_counts);
    }

    /// What is known of a flow.
    pub fn estimates(flow: &Flow) -> Vec<Estimate> {
        estimate::of(flow)
    }
}
