//! The elements of all links, and what passes through them: the part of a run
//! that both engines share.

use std::collections::VecDeque;

use narrows_core::{
    Change, Element, ElementCounters, EntityId, EventSink, Outlet, Packet, PacketPool, Port,
};
use narrows_units::{Instant, WordError};
use smallvec::SmallVec;

use crate::routes::Hop;
use crate::wakes::{Slot, Wakes};

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Into this stage, at this port.
    Stage(u32, Port),
    /// To this host or router, by its index in the plan.
    Node(u32),
}

/// An element in its place.
pub struct Stage {
    /// What was found there.
    pub element: Box<dyn Element>,
    /// By which it reports.
    pub entity: EntityId,
    /// Where what it lets out goes, by port: of a one-way element only the first
    /// counts, of a two-way box what it sends up and what it sends down, of a node one for
    /// each port.
    pub next: SmallVec<[Next; 2]>,
    /// Of a node, by which each port reports; empty for all others.
    pub ports: Vec<EntityId>,
}

impl Stage {
    /// Where what leaves at `port` goes.
    #[inline]
    fn way(&self, port: Port) -> Next {
        // Nothing sends at a port that it lacks.
        self.next[usize::from(port)]
    }

    /// What it has counted, by which it reports: of a node at each port.
    pub fn counters(&self) -> impl Iterator<Item = (EntityId, ElementCounters)> {
        let ports = self.ports.iter().zip(0..=Port::MAX);
        let whole = self
            .ports
            .is_empty()
            .then(|| (self.entity, self.element.counters()));
        ports
            .map(|(entity, port)| (*entity, self.element.port_counters(port)))
            .chain(whole)
    }
}

/// A link's two directions.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// By which it reports.
    pub entity: EntityId,
    /// The largest IP packet that it carries, in bytes.
    pub mtu: u32,
    /// Where a packet goes that enters up.
    pub up: Next,
    /// Where a packet goes that enters down.
    pub down: Next,
}

impl Link {
    /// Where a packet goes that takes `hop`.
    pub fn first(&self, hop: Hop) -> Next {
        if hop.up { self.up } else { self.down }
    }
}

/// A timed change, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When.
    pub at: Instant,
    /// The stages that it concerns, each with the port.
    pub stages: Vec<(u32, Port)>,
    /// The new parameters.
    pub words: String,
}

/// The stages of all links, their wakes, and the packets between them.
///
/// The first slots of [`wakes`](Self::wakes) are the stages'; an engine has the
/// others.
#[derive(Default)]
pub struct Paths {
    /// The stages, each direction of a link in order of travel. A two-way box is one
    /// stage, among those of the direction in which it is named first.
    pub stages: Vec<Stage>,
    /// Who wants to be called when.
    pub wakes: Wakes,
    /// Where packets come from and go back to.
    pub pool: PacketPool,
    /// What the element just called has let out.
    sent: Vec<(Port, Box<Packet>)>,
    /// Packets on their way within this instant, first come first served.
    work: VecDeque<(Next, Box<Packet>)>,
}

impl Paths {
    /// Paths through `stages`, and room for `more` wakes beside theirs.
    pub fn new(stages: Vec<Stage>, more: usize) -> Self {
        Self {
            wakes: Wakes::new(stages.len() + more),
            stages,
            ..Self::default()
        }
    }

    /// Notes when each element first wants to be called.
    pub fn first_wakes(&mut self) {
        for (i, stage) in self.stages.iter().enumerate() {
            self.wakes.set(i as Slot, stage.element.next_wake());
        }
    }

    /// Puts `packet` on its way to `next`, behind others of this instant.
    #[inline]
    pub fn send(&mut self, next: Next, packet: Box<Packet>) {
        self.work.push_back((next, packet));
    }

    /// The first packet that is on its way within this instant.
    #[inline]
    pub fn take(&mut self) -> Option<(Next, Box<Packet>)> {
        self.work.pop_front()
    }

    /// Hands `packet` to stage `i` at `port`; what that lets out, if it is one packet
    /// and no other is on its way. More are found by [`take`](Self::take).
    #[inline]
    pub fn push(
        &mut self,
        now: Instant,
        i: usize,
        port: Port,
        packet: Box<Packet>,
        events: &mut dyn EventSink,
    ) -> Option<(Next, Box<Packet>)> {
        let stage = &mut self.stages[i];
        let mut out = Outlet {
            pool: &mut self.pool,
            events,
            sent: &mut self.sent,
        };
        stage.element.push(now, port, packet, &mut out);
        self.wakes.set(i as Slot, stage.element.next_wake());
        self.take_sent(i)
    }

    /// Wakes stage `i`, whose time has come; what it lets out as from
    /// [`push`](Self::push).
    #[inline]
    pub fn wake(
        &mut self,
        now: Instant,
        i: usize,
        events: &mut dyn EventSink,
    ) -> Option<(Next, Box<Packet>)> {
        let stage = &mut self.stages[i];
        let mut out = Outlet {
            pool: &mut self.pool,
            events,
            sent: &mut self.sent,
        };
        stage.element.wake(now, &mut out);
        self.wakes.serve(i as Slot, stage.element.next_wake());
        self.take_sent(i)
    }

    /// What element `i` has just let out: mostly one packet while no other is
    /// on its way, which need not queue up.
    #[inline]
    fn take_sent(&mut self, i: usize) -> Option<(Next, Box<Packet>)> {
        let (port, packet) = self.sent.pop()?;
        let next = (self.stages[i].way(port), packet);
        if self.sent.is_empty() && self.work.is_empty() {
            return Some(next);
        }
        self.queue_sent(i, next);
        None
    }

    /// Has what element `i` has just let out queue up, `last` behind the others.
    #[inline(never)]
    fn queue_sent(&mut self, i: usize, last: (Next, Box<Packet>)) {
        let stage = &self.stages[i];
        let sent = self.sent.drain(..);
        self.work
            .extend(sent.map(|(port, packet)| (stage.way(port), packet)));
        self.work.push_back(last);
    }

    /// Changes the elements that `planned` names.
    ///
    /// # Errors
    /// The first refusal; a change that was checked meets none. The other
    /// elements are changed all the same.
    pub fn change(&mut self, now: Instant, planned: &Planned) -> Result<(), WordError> {
        let mut result = Ok(());
        for (i, port) in &planned.stages {
            let change = Change {
                words: planned.words.clone(),
                port: *port,
            };
            let element = &mut self.stages[*i as usize].element;
            let changed = element.change(now, &change);
            self.wakes.set(*i, element.next_wake());
            result = result.and(changed);
        }
        result
    }

    /// Lets every element report a sample of its state.
    pub fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for stage in &self.stages {
            stage.element.sample(now, events);
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Duration;
    use smallvec::smallvec;

    use super::*;
    use crate::ElementSpec;
    use crate::testing::{Record, Seen, ms, site};

    const HOST: Next = Next::Node(7);

    /// Stages one after the other, the last of which leads to the host.
    fn paths(words: &[&str]) -> Paths {
        let count = words.len();
        let stages = (1..).zip(words).map(|(behind, words)| {
            let mut spec = ElementSpec::parse(words).unwrap();
            if let Some(file) = spec.file() {
                file.read("time_s,rate_mbit\n0,8\n2,4\n").unwrap();
            }
            let next = match behind as usize == count {
                true => HOST,
                false => Next::Stage(behind, 0),
            };
            Stage {
                element: spec.build(&site(1)),
                entity: EntityId(behind),
                next: smallvec![next],
                ports: Vec::new(),
            }
        });
        Paths::new(stages.collect(), 1)
    }

    fn packet(paths: &mut Paths, number: u64) -> Box<Packet> {
        let mut packet = paths.pool.take(Instant::ZERO, None);
        packet.bytes.resize(1000, 0);
        packet.bytes[0] = 0x45;
        // The number travels as the birth time.
        packet.born = Instant::from_nanos(number);
        packet
    }

    /// Where a packet goes, and its number.
    fn numbered((next, packet): (Next, Box<Packet>)) -> (Next, u64) {
        (next, packet.born.as_nanos())
    }

    #[test]
    fn a_packet_goes_from_stage_to_stage_when_each_wakes_and_then_to_the_host() {
        let mut paths = paths(&["netem delay 5ms", "tap mid"]);
        let mut events = Record::default();
        let sent = packet(&mut paths, 3);
        assert!(paths.push(ms(0), 0, 0, sent, &mut events).is_none());
        assert_eq!(paths.wakes.peek(), Some((ms(5), 0)));
        let (next, out) = paths.wake(ms(5), 0, &mut events).expect("it is due");
        assert_eq!(next, Next::Stage(1, 0));
        assert_eq!(paths.wakes.peek(), None);
        let at_host = paths.push(ms(5), 1, 0, out, &mut events).map(numbered);
        assert_eq!(at_host, Some((HOST, 3)));
        assert_eq!(events.0, [(ms(5), Seen::Tapped(true))]);
        assert!(paths.take().is_none());
    }

    #[test]
    fn elements_that_want_to_be_called_at_the_start_are_noted() {
        let mut paths = paths(&["tap mid", "rate trace a.csv"]);
        paths.first_wakes();
        // The second rate is from 2 s on.
        assert_eq!(paths.wakes.peek(), Some((ms(2000), 1)));
    }

    #[test]
    fn several_packets_and_one_behind_others_queue_up_in_their_order() {
        let mut paths = paths(&["netem duplicate 100%", "tap mid"]);
        let mut events = Record::default();
        let sent = packet(&mut paths, 1);
        assert!(paths.push(ms(0), 0, 0, sent, &mut events).is_none());
        let sent = packet(&mut paths, 2);
        assert!(paths.push(ms(0), 1, 0, sent, &mut events).is_none());
        let other = packet(&mut paths, 3);
        paths.send(Next::Node(1), other);
        let taken: Vec<_> = std::iter::from_fn(|| paths.take().map(numbered)).collect();
        // The copy, which is born now, and then the packet itself.
        let copies = [0, 1].map(|number| (Next::Stage(1, 0), number));
        assert_eq!(taken[..2], copies);
        assert_eq!(taken[2..], [(HOST, 2), (Next::Node(1), 3)]);
        // Then one goes straight on again.
        let sent = packet(&mut paths, 4);
        let passed = paths.push(ms(0), 1, 0, sent, &mut events).map(numbered);
        assert_eq!(passed, Some((HOST, 4)));
    }

    #[test]
    fn a_change_moves_wakes_and_the_first_refusal_is_returned() {
        let mut paths = paths(&["tap mid", "rate 8Mbit overhead 0"]);
        let sent = packet(&mut paths, 1);
        paths.push(ms(0), 1, 0, sent, &mut Record::default());
        assert_eq!(paths.wakes.peek(), Some((ms(1), 1)));
        let mut planned = Planned {
            at: ms(0),
            stages: vec![(1, 0)],
            words: "rate 4Mbit".to_owned(),
        };
        assert_eq!(paths.change(ms(0), &planned), Ok(()));
        assert_eq!(paths.wakes.peek(), Some((ms(2), 1)));
        planned.words = "rate 2Mbit".to_owned();
        planned.stages.insert(0, (0, 0));
        assert!(paths.change(ms(0), &planned).is_err(), "a tap has no rate");
        let later = ms(0) + Duration::from_millis(4);
        assert_eq!(paths.wakes.peek(), Some((later, 1)));
    }

    #[test]
    fn every_element_is_asked_for_a_sample() {
        #[derive(Default)]
        struct Samples(u32);
        impl EventSink for Samples {
            fn record(&mut self, _: Instant, event: narrows_core::Event<'_>) {
                self.0 += u32::from(matches!(event, narrows_core::Event::QueueSampled { .. }));
            }
        }
        let mut samples = Samples::default();
        let paths = paths(&["rate 8Mbit", "tap mid", "rate 1Mbit"]);
        paths.sample(ms(0), &mut samples);
        assert_eq!(samples.0, 2);
    }
}
