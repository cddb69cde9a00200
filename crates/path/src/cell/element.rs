//! The running cell.

use std::collections::{BTreeMap, VecDeque};

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, EventSink, Outlet, Packet, Port,
    Reduce, TelemetryField,
};
use narrows_units::{Duration, Instant, Rng, WordError, Words};

use super::channel::Carries;
use super::radio::{CQI_MAX, HARQ_ROUND, MOST_TRIES, TTI, cqi_at};
use super::schedule::{Claim, Turn};
use super::spec::CellSpec;
use crate::percent::{Correlated, Percent};
use crate::site::Site;
use crate::waiting::{Waiting, earliest};

/// Resource blocks that a terminal got.
const BLOCKS: TelemetryField = TelemetryField::new(
    "blocks",
    "",
    "resource blocks that the terminal got",
    Reduce::Counter,
);

/// A packet of which a part has been sent.
struct Begun {
    packet: Box<Packet>,
    /// Bytes that are missing.
    left: u64,
    /// The transport block with its first byte.
    block: u64,
}

/// A transport block on its way: the packets that end in it, each with the block in which it began.
struct Block {
    terminal: usize,
    number: u64,
    /// Resource blocks that it takes.
    size: u32,
    tries: u32,
    lost: bool,
    ends: Vec<(Box<Packet>, u64)>,
}

/// A terminal: what waits for it, and what it has received.
pub struct Terminal {
    entity: EntityId,
    /// Whether it is none, but a wire, and what passed that.
    wire: bool,
    passed: ElementCounters,
    waiting: Waiting,
    carries: Carries,
    /// Bits of a subframe, on average so far.
    average: f64,
    /// Packets in the middle of which it is, each of a higher priority than the one before.
    begun: Vec<Begun>,
    /// The number of its next transport block.
    next: u64,
    /// The number of the one whose packets are passed on next.
    wanted: u64,
    /// Those behind it that have come.
    arrived: BTreeMap<u64, Block>,
    /// The last transport block that was given up.
    given_up: Option<u64>,
    /// Packets that were lost with such a one.
    lost: u64,
}

impl Terminal {
    pub(super) fn new(spec: &CellSpec, site: &Site<'_>) -> Self {
        Self {
            entity: site.entity,
            wire: spec.is_wire(),
            passed: ElementCounters::default(),
            waiting: Waiting::new(&spec.queue, site, spec.mean_rate(), spec.overhead()),
            carries: spec.carries.clone(),
            average: 0.0,
            begun: Vec::new(),
            next: 0,
            wanted: 0,
            arrived: BTreeMap::new(),
            given_up: None,
            lost: 0,
        }
    }

    /// Bytes that wait, those of a packet that was begun among them.
    fn backlog(&self) -> u64 {
        let begun = self.begun.iter().map(|begun| begun.left);
        begun.sum::<u64>() + self.waiting.queue.backlog().bytes
    }

    /// Fills a transport block of `bytes`; how many it took, and the packets that end in it.
    fn fill(
        &mut self,
        now: Instant,
        bytes: u64,
        out: &mut Outlet<'_>,
    ) -> (u64, Vec<(Box<Packet>, u64)>) {
        let (mut room, mut ends) = (bytes, Vec::new());
        while room > 0 {
            let queue = &self.waiting.queue;
            let goes_on = |begun: &&mut Begun| !queue.overtakes(&begun.packet);
            if self.begun.last_mut().filter(goes_on).is_none() {
                if let Some((packet, length)) = self.waiting.pull(now, out) {
                    self.begun.push(Begun {
                        packet,
                        left: length.into(),
                        block: self.next,
                    });
                }
            }
            let Some(mut begun) = self.begun.pop() else {
                break;
            };
            let taken = begun.left.min(room);
            room -= taken;
            begun.left -= taken;
            match begun.left {
                0 => ends.push((begun.packet, begun.block)),
                _ => self.begun.push(begun),
            }
        }
        (bytes - room, ends)
    }

    /// Passes on what has come in its order.
    fn pass(&mut self, now: Instant, port: Port, out: &mut Outlet<'_>) {
        while let Some(block) = self.arrived.remove(&self.wanted) {
            if block.lost {
                self.given_up = Some(self.wanted);
            }
            self.wanted += 1;
            for (packet, began) in block.ends {
                // Of a packet without one of its segments nothing is left.
                if self.given_up.is_some_and(|lost| lost >= began) {
                    self.lost += 1;
                    out.drop(now, self.entity, packet, DropCause::Loss);
                    continue;
                }
                self.waiting.let_out_by(port, packet, out);
            }
        }
    }

    fn counters(&self) -> ElementCounters {
        if self.wire {
            return self.passed;
        }
        let counters = self.waiting.counters();
        ElementCounters {
            dropped: counters.dropped + self.lost,
            ..counters
        }
    }
}

/// The base station.
pub struct Cell {
    blocks: u32,
    turn: Turn,
    /// Subframes over which rates are averaged.
    window: f64,
    delay: Duration,
    error: Percent,
    errors: Correlated,
    rng: Rng,
    terminals: Vec<Terminal>,
    /// Transport blocks that come at these times, in their order.
    flying: VecDeque<(Instant, Block)>,
    /// Those that are sent again at these times, in their order.
    again: VecDeque<(Instant, Block)>,
    /// The subframe that comes next, if anything waits for it.
    due: Option<Instant>,
    /// The last one.
    last: Option<Instant>,
    claims: Vec<Claim>,
    grants: Vec<u32>,
}

impl Cell {
    pub(super) fn new(spec: &CellSpec, site: &Site<'_>, terminals: Vec<Terminal>) -> Self {
        Self {
            blocks: spec.blocks.unwrap_or_default(),
            turn: Turn::new(spec.scheduler),
            window: spec.window.as_nanos() as f64 / TTI.as_nanos() as f64,
            delay: spec.delay,
            error: spec.error,
            errors: Correlated::default(),
            rng: Rng::for_name(site.seed, site.name),
            terminals,
            flying: VecDeque::new(),
            again: VecDeque::new(),
            due: None,
            last: None,
            claims: Vec::new(),
            grants: Vec::new(),
        }
    }

    /// Whether anything waits for a subframe.
    fn is_busy(&self) -> bool {
        !self.again.is_empty() || self.terminals.iter().any(|t| t.backlog() > 0)
    }

    /// The first subframe that begins at `now` or later and has not been.
    fn next_subframe(&self, now: Instant) -> Instant {
        let whole = now.as_nanos().div_ceil(TTI.as_nanos()) * TTI.as_nanos();
        let free = self.last.map_or(Instant::ZERO, |last| last + TTI);
        Instant::from_nanos(whole).max(free)
    }

    /// Gives out all subframes that began by `last`. One that is woken late has several of them,
    /// and a packet that came meanwhile is in none that began before.
    fn run_subframes(&mut self, last: Instant, out: &mut Outlet<'_>) {
        while let Some(due) = self.due.filter(|due| *due <= last) {
            self.subframe(due, out);
            self.due = self.is_busy().then(|| due + TTI);
        }
    }

    /// Sends a transport block in the subframe that begins `now`.
    fn send(&mut self, now: Instant, mut block: Block) {
        block.tries += 1;
        let fails = !self.error.is_zero()
            && self
                .errors
                .happens(self.error, Percent::ZERO, &mut self.rng);
        if fails && block.tries < MOST_TRIES {
            self.again.push_back((now + HARQ_ROUND, block));
            return;
        }
        block.lost = fails;
        self.flying.push_back((now + self.delay, block));
    }

    /// Gives out the blocks of the subframe that begins `now`.
    fn subframe(&mut self, now: Instant, out: &mut Outlet<'_>) {
        let mut free = self.blocks;
        while let Some((_, block)) = self.again.front().filter(|(at, _)| *at <= now) {
            if block.size > free {
                break;
            }
            free -= block.size;
            if let Some((_, block)) = self.again.pop_front() {
                self.send(now, block);
            }
        }
        // Averages go on falling in subframes in which there was nothing to do.
        let since = self
            .last
            .map_or(1, |last| now.since(last).as_nanos() / TTI.as_nanos());
        let kept = libm::pow(1.0 - 1.0 / self.window, since as f64);
        self.last = Some(now);
        self.claims.clear();
        for terminal in &mut self.terminals {
            terminal.average *= kept;
            let all = terminal.carries.bits(now, self.blocks);
            // Less than a bit of a block is no service.
            let bits = all / u64::from(self.blocks);
            let wanted = match bits {
                0 => 0,
                _ => (8 * terminal.backlog() * u64::from(self.blocks)).div_ceil(all),
            };
            self.claims.push(Claim {
                blocks: u32::try_from(wanted).unwrap_or(u32::MAX),
                bits,
                average: terminal.average,
            });
        }
        let mut grants = std::mem::take(&mut self.grants);
        self.turn.grants(free, &self.claims, &mut grants);
        for (at, granted) in grants.iter().copied().enumerate() {
            let terminal = &mut self.terminals[at];
            let all = terminal.carries.bits(now, self.blocks);
            let bytes = u64::from(granted) * all / (8 * u64::from(self.blocks));
            if bytes == 0 {
                continue;
            }
            let (taken, ends) = terminal.fill(now, bytes, out);
            if taken == 0 {
                continue;
            }
            terminal.average += (8 * taken) as f64 / self.window;
            let (source, number) = (terminal.entity.into(), terminal.next);
            terminal.next += 1;
            out.events.record(
                now,
                Event::Telemetry {
                    source,
                    field: BLOCKS,
                    value: granted.into(),
                },
            );
            let block = Block {
                terminal: at,
                number,
                size: granted,
                tries: 0,
                lost: false,
                ends,
            };
            self.send(now, block);
        }
        self.grants = grants;
    }
}

impl Element for Cell {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        let terminal = &mut self.terminals[usize::from(port)];
        if terminal.wire {
            let bytes = u64::from(packet.len());
            terminal.passed.packets_in += 1;
            terminal.passed.bytes_in += bytes;
            terminal.passed.packets_out += 1;
            terminal.passed.bytes_out += bytes;
            out.send(port, packet);
            return;
        }
        if let Some(before) = now.as_nanos().checked_sub(1) {
            self.run_subframes(Instant::from_nanos(before), out);
        }
        self.terminals[usize::from(port)]
            .waiting
            .push(now, packet, out);
        if self.due.is_none() && self.is_busy() {
            self.due = Some(self.next_subframe(now));
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let arrives = self.flying.front().map(|(at, _)| *at);
        let ticks = self.terminals.iter();
        let ticks = ticks.map(|terminal| terminal.waiting.queue.next_tick());
        ticks.fold(earliest(arrives, self.due), earliest)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        for terminal in &mut self.terminals {
            terminal.waiting.tick(now);
        }
        while self.flying.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, block)) = self.flying.pop_front() {
                let at = block.terminal;
                let terminal = &mut self.terminals[at];
                terminal.arrived.insert(block.number, block);
                terminal.pass(now, at as Port, out);
            }
        }
        self.run_subframes(now, out);
    }

    /// `cqi N`, `distance DISTANCE`, `queue …`, or several, of one terminal.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        const ALLOWED: &str = "cqi CQI, distance DISTANCE or queue …";
        let mut words = Words::new(&change.words);
        words.take_if("cell");
        if words.peek().is_none() {
            return Err(words.ended(ALLOWED));
        }
        let (mut cqi, mut queue) = (None, None);
        while let Some(word) = words.take() {
            match word.text {
                "cqi" => {
                    let fits = |cqi: &u32| *cqi <= u32::from(CQI_MAX);
                    cqi = Some(words.value_where("0 to 15", fits)? as u8);
                }
                "distance" => cqi = Some(cqi_at(words.value()?, self.blocks)),
                "queue" => {
                    let rest = words.rest();
                    queue = Some((rest.text, rest.start));
                    break;
                }
                _ => return Err(word.refused(ALLOWED)),
            }
        }
        let terminal = &mut self.terminals[usize::from(change.port)];
        if terminal.wire {
            let found = "a change of a wire";
            let allowed = "one of a terminal, whose link says its channel";
            return Err(WordError::new(0..change.words.len(), found, allowed));
        }
        terminal.waiting.change(now, queue)?;
        if let Some(cqi) = cqi {
            terminal.carries = Carries::quality(cqi);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.terminals.iter().map(Terminal::counters).sum()
    }

    fn port_counters(&self, port: Port) -> ElementCounters {
        self.terminals[usize::from(port)].counters()
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        for terminal in self.terminals.iter().filter(|terminal| !terminal.wire) {
            terminal.waiting.sample(now, events);
        }
    }
}
