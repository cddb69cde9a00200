//! The loop.

use narrows_core::{DropCause, Event, EventSink, Packet};
use narrows_engine::{Lateness, RunHandle};
use narrows_path::paths::{Next, Stage};
use narrows_path::wakes::Slot;
use narrows_units::{Duration, Instant};

use super::devices::{Buffer, Way, Written, sleep};
use super::flow_table::{TranslationSink, is_link_local};
use super::held::InOrder;
use super::lateness::Lates;
use super::pace::{Awake, ExactTimers, Idle, until_wake};
use super::virtual_time::Departures;
use super::{Datapath, PathError};
use crate::Clock;
use crate::report::Reports;

/// Packets read from one device before the others have their turn.
const AT_A_TIME: usize = 16;

/// Reports passed on before packets have their turn.
const REPORTS_AT_A_TIME: usize = 64;

/// The longest that reports wait while packets never pause.
const REPORTS_WAIT: Duration = Duration::from_millis(1);

/// Time between two checks of the caller's cancel flag.
pub(super) const TICK_EVERY: Duration = Duration::from_millis(20);

/// Wakes at one instant after which a path counts as stuck.
const MOST_AT_ONCE: u64 = 1 << 24;

/// What a drive counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Driven {
    /// Wakes served, packets read and reports passed on.
    pub events: u64,
    /// Packets that entered a path, copies that elements made included.
    pub packets: u64,
    /// Packets that left a path for a stack.
    pub delivered: u64,
    /// Packets that elements, links or devices dropped.
    pub dropped: u64,
    /// Packets still in the path at the end.
    pub in_flight: u64,
    /// Packets among the dropped that the kernel had no room for.
    pub refused: u64,
    /// Packets between neighbours, which were not let in.
    pub neighbours: u64,
    /// Time of the run that was reached.
    pub reached: Instant,
    /// Whether the caller cancelled.
    pub interrupted: bool,
    /// How late packets left.
    pub lateness: Lateness,
}

/// A path under way.
pub(super) struct Drive<'p, 'd, 's> {
    pub path: &'p mut Datapath<'d>,
    pub clock: &'p Clock,
    pub sink: InOrder<'s>,
    buffer: Buffer,
    pub lates: Lates,
    /// Path time.
    pub now: Instant,
    /// When what is on its way was due, if an element had held it back.
    due: Option<Instant>,
    /// Packets for devices with times.
    pub departures: Departures,
    pub counted: Driven,
}

impl Datapath<'_> {
    /// Drives the path from the epoch of `clock` to the end of the plan, or
    /// until the caller of the run cancels; hands its events, and those of
    /// `reports`, to `sink`. What waits at the devices when it begins is let
    /// in then: hosts are silent but for the run's own flows, of which none
    /// must lose its first packet.
    ///
    /// # Errors
    /// When a device fails, or an element makes no progress.
    pub fn drive(
        &mut self,
        clock: &Clock,
        reports: &Reports,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Driven, PathError> {
        let _exact = ExactTimers::start();
        let awake = Awake::start();
        tracing::debug!(granted = awake.granted(), "processors stay awake");
        let socket = self.socket;
        let mut drive = Drive {
            path: self,
            clock,
            sink: match socket {
                Some(_) => InOrder::new(sink),
                None => InOrder::direct(sink),
            },
            buffer: Buffer::new(),
            lates: Lates::default(),
            now: Instant::ZERO,
            due: None,
            departures: Departures::default(),
            counted: Driven::default(),
        };
        clock.sleep_until_epoch();
        match socket {
            Some(socket) => drive.run_in_virtual_time(socket, reports, handle)?,
            None => drive.run(reports, handle)?,
        }
        Ok(drive.finish())
    }

    /// Hands `sink` what `reports` still holds once all who report have ended,
    /// as seen at the end `at`; how many that were.
    pub fn pass_on_rest(&self, reports: &Reports, at: Instant, sink: &mut dyn EventSink) -> u64 {
        let mut count = 0;
        while let Some((_, report)) = reports.next() {
            sink.record(at, report);
            count += 1;
        }
        count
    }
}

impl Drive<'_, '_, '_> {
    fn run(&mut self, reports: &Reports, handle: &RunHandle<'_>) -> Result<(), PathError> {
        let end = self.path.end;
        let mut tick = Instant::ZERO;
        let mut report = Instant::ZERO;
        loop {
            let clock = self.clock.now();
            if clock >= tick {
                tick = clock + TICK_EVERY;
                if let Some(tally) = &self.path.tally {
                    let stages = &self.path.paths.stages;
                    tally.answer(|| stages.iter().flat_map(Stage::counters).collect());
                }
                if !handle.tick(clock.min(end)) {
                    self.counted.interrupted = true;
                    return Ok(());
                }
            }
            self.serve_until(clock.min(end))?;
            if clock >= end {
                return Ok(());
            }
            let read = self.read_devices()?;
            if read && clock < report {
                continue;
            }
            report = clock + REPORTS_WAIT;
            if self.pass_on(reports, REPORTS_AT_A_TIME) || read {
                continue;
            }
            let due = self.next_due().min(end);
            match until_wake(self.clock.now(), due) {
                Idle::Sleep(longest) => {
                    sleep(&self.path.devices, longest)
                        .map_err(|e| self.path.device_error(0, "watched", e))?;
                }
                Idle::Poll => std::hint::spin_loop(),
                Idle::Spin => {
                    while self.clock.now() < due {
                        std::hint::spin_loop();
                    }
                }
            }
        }
    }

    pub(super) fn next_due(&mut self) -> Instant {
        self.path.paths.wakes.peek().map_or(Instant::MAX, |w| w.0)
    }

    /// Serves what is due by `until`, in order; path time is then `until`.
    pub(super) fn serve_until(&mut self, until: Instant) -> Result<(), PathError> {
        let mut at_once = 0;
        while let Some((due, slot)) = self.path.paths.wakes.peek() {
            if due > until {
                break;
            }
            if due > self.now {
                self.now = due;
                at_once = 0;
            } else {
                at_once += 1;
                if at_once > MOST_AT_ONCE {
                    return Err(self.stuck(slot));
                }
            }
            self.counted.events += 1;
            self.serve(slot)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn stuck(&self, slot: Slot) -> PathError {
        let stage = self.path.paths.stages.get(slot as usize);
        PathError::Stuck {
            element: stage.map_or("the sampler".to_owned(), |s| {
                self.path.names.name(s.entity).to_owned()
            }),
            at: self.now,
        }
    }

    fn serve(&mut self, slot: Slot) -> Result<(), PathError> {
        let path = &mut *self.path;
        let i = slot as usize;
        let stages = path.paths.stages.len();
        if i < stages {
            self.due = Some(self.now);
            let mut sink = TranslationSink {
                sink: &mut self.sink,
                flows: &mut path.flows,
            };
            let first = path.paths.wake(self.now, i, &mut sink);
            let result = self.drain(self.now, first);
            self.due = None;
            return result;
        }
        if i == stages {
            path.paths.sample(self.now, &mut self.sink);
            let next = self.now + path.sample_interval;
            path.paths.wakes.serve(slot, Some(next));
            return Ok(());
        }
        let planned = &path.changes[i - stages - 1];
        // Checked when the path was built.
        if let Err(error) = path.paths.change(self.now, planned) {
            tracing::warn!(words = planned.words, %error, "a change was refused in mid-run");
        }
        path.paths.wakes.serve(slot, None);
        Ok(())
    }

    /// Reads what waits at the devices, until a wake is due; whether there was
    /// anything.
    fn read_devices(&mut self) -> Result<bool, PathError> {
        let mut any = false;
        for device in 0..self.path.devices.len() {
            for _ in 0..AT_A_TIME {
                let clock = self.clock.now();
                if self.next_due() <= clock {
                    return Ok(true);
                }
                if !self.read(device, clock)? {
                    break;
                }
                any = true;
            }
        }
        Ok(any)
    }

    /// Takes one packet from `device` at `clock`; whether there was one.
    fn read(&mut self, device: usize, clock: Instant) -> Result<bool, PathError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match &self.path.devices[device] {
            None => Ok(None),
            Some(from) => buffer.read(from),
        };
        let entered = match read {
            Ok(None) => Ok(false),
            Ok(Some(bytes)) => {
                self.now = clock.min(self.path.end);
                self.enter(self.now, device, bytes).map(|()| true)
            }
            Err(error) => Err(self.path.device_error(device, "read", error)),
        };
        self.buffer = buffer;
        entered
    }

    /// Lets in the packet of `bytes`, which came from `device` at `at`.
    pub(super) fn enter(
        &mut self,
        at: Instant,
        device: usize,
        bytes: &[u8],
    ) -> Result<(), PathError> {
        let path = &mut *self.path;
        let Some(from) = &path.devices[device] else {
            return Ok(());
        };
        self.counted.events += 1;
        if is_link_local(bytes) {
            self.counted.neighbours += 1;
            return Ok(());
        }
        let node = &path.nodes[from.node];
        let packet = match path.forwarded[from.node].known(bytes) {
            Some(mut packet) => {
                packet.bytes.clear();
                packet.bytes.extend_from_slice(bytes);
                packet
            }
            None => {
                let flow = path.flows.flow(bytes);
                let mut packet = path.paths.pool.take(at, flow);
                packet.bytes.extend_from_slice(bytes);
                packet
            }
        };
        if node.sends(&packet.bytes) {
            let (host, packet) = (node.entity, &*packet);
            self.sink.record(at, Event::Sent { host, packet });
        }
        let link = &path.links[device / 2];
        if packet.len() > link.mtu {
            self.drop_packet(at, device, packet, DropCause::TooBig);
            return Ok(());
        }
        let next = if device % 2 == 0 { link.up } else { link.down };
        self.drain(at, Some((next, packet)))
    }

    /// Moves packets on at `at`, `current` before all others, until none is on its way
    /// within this instant.
    fn drain(
        &mut self,
        at: Instant,
        mut current: Option<(Next, Box<Packet>)>,
    ) -> Result<(), PathError> {
        loop {
            let path = &mut *self.path;
            let Some((next, packet)) = current.take().or_else(|| path.paths.take()) else {
                return Ok(());
            };
            match next {
                Next::Stage(i, port) => {
                    let mut sink = TranslationSink {
                        sink: &mut self.sink,
                        flows: &mut path.flows,
                    };
                    current = path.paths.push(at, i as usize, port, packet, &mut sink);
                }
                Next::Node(device) => match self.path.forward(device as usize, packet) {
                    Ok(onward) => current = Some(onward),
                    Err(packet) => self.leave(at, device as usize, packet)?,
                },
            }
        }
    }

    /// Hands a packet to the stack behind `device`, or sees to it that the kernel does.
    fn leave(&mut self, at: Instant, device: usize, packet: Box<Packet>) -> Result<(), PathError> {
        let Some(to) = &self.path.devices[device] else {
            // The kernel's links have no elements here, so nothing leads here.
            return Ok(());
        };
        let at = at + self.path.lookahead.exits[device];
        let fd = match to.way {
            Way::Calls(fd) => fd,
            Way::Times(port) if packet.len() > port.mtu => {
                self.drop_packet(at, device, packet, DropCause::TooBig);
                return Ok(());
            }
            Way::Times(port) => {
                let at_ns = self.clock.monotonic_ns_at(at);
                self.departures
                    .add((device, at), port.number, at_ns, packet);
                return Ok(());
            }
        };
        if let Some(due) = self.due {
            self.lates.add(self.clock.now().since(due));
        }
        match self.buffer.write(fd, &packet) {
            Ok(Written::Taken) => self.left(at, device, packet),
            Ok(Written::NoRoom) => {
                self.counted.refused += 1;
                self.drop_packet(at, device, packet, DropCause::Overflow);
            }
            Ok(Written::Malformed) => self.drop_packet(at, device, packet, DropCause::Malformed),
            Err(error) => return Err(self.path.device_error(device, "written", error)),
        }
        Ok(())
    }

    /// The stack behind `device` has `packet`.
    pub(super) fn left(&mut self, at: Instant, device: usize, packet: Box<Packet>) {
        let path = &mut *self.path;
        let Some(to) = &path.devices[device] else {
            return;
        };
        let node = &path.nodes[to.node];
        if node.receives(&packet.bytes) {
            let event = Event::Received {
                host: node.entity,
                packet: &packet,
            };
            self.sink.record(at, event);
            path.paths.pool.give(packet);
        } else {
            path.forwarded[to.node].got(at, packet, &mut path.paths.pool);
        }
        self.counted.delivered += 1;
    }

    /// Drops a packet that is in no element, in the name of the link.
    pub(super) fn drop_packet(
        &mut self,
        at: Instant,
        device: usize,
        packet: Box<Packet>,
        cause: DropCause,
    ) {
        self.counted.dropped += 1;
        let event = Event::Dropped {
            element: self.path.links[device / 2].entity,
            packet: &packet,
            cause,
        };
        self.sink.record(at, event);
        self.path.paths.pool.give(packet);
    }

    /// Passes on what other threads saw, at most `most` reports; whether there
    /// was anything. What they saw lies in the past, where other events may
    /// have been recorded since: path time is used for it.
    fn pass_on(&mut self, reports: &Reports, most: usize) -> bool {
        let mut any = false;
        for (_, report) in std::iter::from_fn(|| reports.next()).take(most) {
            self.counted.events += 1;
            self.sink.record(self.now, report);
            any = true;
        }
        any
    }

    fn finish(self) -> Driven {
        let pool = &self.path.paths.pool;
        let stages = &self.path.paths.stages;
        let dropped: u64 = stages.iter().map(|s| s.element.counters().dropped).sum();
        Driven {
            packets: pool.made(),
            in_flight: pool.outstanding(),
            dropped: self.counted.dropped + dropped,
            reached: self.now,
            lateness: self.lates.summary(),
            ..self.counted
        }
    }
}
