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
        let ports = self.ports.iter().zip(0..);
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
