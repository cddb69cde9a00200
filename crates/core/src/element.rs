//! One box on a path.

use narrows_units::{Duration, Instant};

use crate::event::{DropCause, EntityId, Event, EventSink};
use crate::packet::{Packet, PacketPool};

/// Which way a packet goes through an element: [`UP`] or [`DOWN`] a link. One-way
/// elements are called with 0 and answer with 0 in either direction of a link. At a node
/// of several ports it is the one by which the packet leaves.
pub type Port = u8;

/// The packet travels up the link that a two-way box is on.
pub const UP: Port = 0;

/// The packet travels down the link that a two-way box is on.
pub const DOWN: Port = 1;

/// What an element counts, whatever its kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementCounters {
    /// Packets taken.
    pub packets_in: u64,
    /// IP bytes taken.
    pub bytes_in: u64,
    /// Packets handed out.
    pub packets_out: u64,
    /// IP bytes handed out.
    pub bytes_out: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets marked CE.
    pub marked: u64,
}

impl std::iter::Sum for ElementCounters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            packets_in: sum.packets_in + one.packets_in,
            bytes_in: sum.bytes_in + one.bytes_in,
            packets_out: sum.packets_out + one.packets_out,
            bytes_out: sum.bytes_out + one.bytes_out,
            dropped: sum.dropped + one.dropped,
            marked: sum.marked + one.marked,
        })
    }
}

/// A change of an element's parameters while the run goes on: the element's
/// own words, as in a scenario file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// For instance `rate 10Mbit`.
    pub words: String,
    /// At a node of several ports the one that it concerns; 0 at any other element.
    pub port: Port,
}

/// Where an element puts what it lets out, and to whom it reports.
pub struct Outlet<'a> {
    /// Where packets come from and go back to.
    pub pool: &'a mut PacketPool,
    /// Receives the events.
    pub events: &'a mut dyn EventSink,
    /// Packets let out in order, with the port that they left by.
    pub sent: &'a mut Vec<(Port, Box<Packet>)>,
}

impl Outlet<'_> {
    /// Lets `packet` out at `port`.
    #[inline]
    pub fn send(&mut self, port: Port, packet: Box<Packet>) {
        self.sent.push((port, packet));
    }

    /// Reports the drop of `packet` by `element` and recycles it.
    pub fn drop(&mut self, now: Instant, element: EntityId, packet: Box<Packet>, cause: DropCause) {
        self.events.record(
            now,
            Event::Dropped {
                element,
                packet: &packet,
                cause,
            },
        );
        self.pool.give(packet);
    }
}

/// A box that packets pass: it takes them at a port at a time, says when it
/// next wants to be woken, hands packets out, and counts.
///
/// The simulator and the live datapath run the same element and differ only in
/// who calls it and what `now` is. `now` never goes back between calls, but see
/// [`lookahead`](Self::lookahead).
///
/// A **two-way box** (middlebox) is an element that is in both directions of a
/// link: one instance takes what travels [`UP`] and what travels [`DOWN`], and sends
/// either way, so that it can answer, reset and translate. What it rewrites stays the
/// same [`Packet`], with its id, parent and flow; what it makes itself is taken from
/// the pool, with the packet that it answers as its parent. New addresses of a flow are
/// reported by [`Event::Translated`].
///
/// A **node** (a switch, an access point) is an element of any number of ports, one for each
/// link that begins there. A packet is pushed at the port by which it is to leave, since the
/// route is chosen before, and leaves by that port. Each port reports as an entity of its own.
pub trait Element: Send {
    /// Takes `packet`, which travels as `port` says.
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>);

    /// When [`wake`](Self::wake) wants to be called; `None` while only a
    /// packet can change anything. The engine asks after each call.
    fn next_wake(&self) -> Option<Instant> {
        None
    }

    /// Called at or after the time that [`next_wake`](Self::next_wake) gave.
    fn wake(&mut self, _now: Instant, _out: &mut Outlet<'_>) {}

    /// For how long at least it holds every packet, if it may be woken for a time before
    /// packets of earlier times are pushed: where what it lets out does not depend on what is
    /// pushed later, nor the reverse. Zero says that `now` must never go back.
    fn lookahead(&self) -> Duration {
        Duration::ZERO
    }

    /// Takes new parameters in mid-run.
    ///
    /// # Errors
    /// When the words are not this element's; scenario checking tries every
    /// change beforehand.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), narrows_units::WordError>;

    /// What it has counted.
    fn counters(&self) -> ElementCounters;

    /// What it has counted at one port; all that it has counted, unless it is a node.
    fn port_counters(&self, _port: Port) -> ElementCounters {
        self.counters()
    }

    /// Reports a periodic sample of its state (a queue: backlog and
    /// probability; a box: what its rules applied to). Most elements have nothing to say.
    fn sample(&self, _now: Instant, _events: &mut dyn EventSink) {}
}
