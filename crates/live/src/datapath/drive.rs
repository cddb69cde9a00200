//! The loop.

use narrows_packet::{DropCause, Event, EventSink, Packet};
use narrows_path::paths::Next;
use narrows_path::wakes::Slot;
use narrows_run::{Lateness, RunHandle};
use narrows_units::{Duration, Instant};

use super::devices::{Buffer, Written, sleep};
use super::flow_table::{TranslationSink, is_link_local};
use super::lateness::Lates;
use super::pace::{Awake, ExactTimers, Idle, is_virtual_time, until_wake};
use super::{Datapath, PathError};
use crate::clock::Clock;
use crate::report::Reports;

/// Packets read from one device before the others have their turn.
const AT_A_TIME: usize = 16;

/// Reports passed on before packets have their turn.
const REPORTS_AT_A_TIME: usize = 64;

/// The longest that reports wait while packets never pause.
const REPORTS_WAIT: Duration = Duration::from_millis(1);

/// Time between two checks of the caller's cancel flag.
const TICK_EVERY: Duration = Duration::from_millis(20);

/// In virtual time, wakes served before the clock is read again. Each sleep is as long as
/// what was left by the last reading, so that what a call takes (0.05 µs, 1 µs where it
/// fails) adds up until then.
const WAKES_A_READING: u32 = 8;

/// In virtual time, packets of one burst are so close: more than reading one takes (two
/// readings of the clock), less than a segment at 10 Gbit/s (1.2 µs).
const BURST: Duration = Duration::from_nanos(500);

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
struct Drive<'p, 'd, 's> {
    path: &'p mut Datapath<'d>,
    clock: &'p Clock,
    sink: &'s mut dyn EventSink,
    buffer: Buffer,
    lates: Lates,
    /// Path time.
    now: Instant,
    /// When what is on its way was due, if an element had held it back.
    due: Option<Instant>,
    /// In virtual time what the clock shows, where it has just been read; time stands
    /// still until the next sleep.
    shown: Option<Option<Instant>>,
    /// Devices with packets.
    ready: Vec<usize>,
    /// In virtual time, whether a device had several when it was read last.
    several: Vec<bool>,
    /// In virtual time, what the clock showed then.
    last_read: Vec<Instant>,
    counted: Driven,
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
        let mut drive = Drive {
            path: self,
            clock,
            sink,
            buffer: Buffer::new(),
            lates: Lates::default(),
            now: Instant::ZERO,
            due: None,
            shown: None,
            ready: Vec::new(),
            several: Vec::new(),
            last_read: Vec::new(),
            counted: Driven::default(),
        };
        clock.sleep_until_epoch();
        if is_virtual_time() {
            drive.run_in_virtual_time(reports, handle)?;
        } else {
            drive.run(reports, handle)?;
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
                    sleep(&self.path.devices, longest, &mut self.ready)
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

    /// The same where timers are exact and nothing takes time but reading the clock and
    /// calls that fail: no polling, and the clock is read when a packet comes.
    fn run_in_virtual_time(
        &mut self,
        reports: &Reports,
        handle: &RunHandle<'_>,
    ) -> Result<(), PathError> {
        let end = self.path.end;
        let mut tick = Instant::ZERO;
        let mut clock = self.clock.now();
        let mut wakes = 0;
        self.shown = Some(Some(clock));
        self.several = vec![false; self.path.devices.len()];
        self.last_read = vec![Instant::ZERO; self.path.devices.len()];
        loop {
            if clock >= tick {
                tick = clock + TICK_EVERY;
                if !handle.tick(clock.min(end)) {
                    self.counted.interrupted = true;
                    return Ok(());
                }
            }
            self.serve_until(clock.min(end))?;
            if clock >= end {
                return Ok(());
            }
            for place in 0..self.ready.len() {
                let device = self.ready[place];
                self.read_all(device, clock)?;
            }
            self.pass_on(reports, usize::MAX);
            let due = self.next_due().min(end).min(tick);
            let slept = sleep(&self.path.devices, due.since(clock), &mut self.ready)
                .map_err(|e| self.path.device_error(0, "watched", e))?;
            wakes += 1;
            if slept && wakes < WAKES_A_READING {
                clock = due;
                self.shown = Some(None);
            } else {
                clock = self.clock.now();
                wakes = 0;
                self.shown = Some(Some(clock));
            }
        }
    }

    /// Takes what waits at `device`. Whether there is more is asked where the last time
    /// there was: a read of nothing is a call that fails, and a poll says it as well.
    fn read_all(&mut self, device: usize, clock: Instant) -> Result<(), PathError> {
        let mut packets = 0;
        while (packets == 0 || self.several[device]) && self.read(device, clock)? {
            packets += 1;
        }
        // Again with a packet when hardly any time has passed: they come in bursts.
        let again = clock.since(self.last_read[device]) < BURST;
        self.several[device] = packets > 1 || again;
        self.last_read[device] = clock;
        Ok(())
    }

    fn next_due(&mut self) -> Instant {
        self.path.paths.wakes.peek().map_or(Instant::MAX, |w| w.0)
    }

    /// Serves what is due by `until`, in order; path time is then `until`.
    fn serve_until(&mut self, until: Instant) -> Result<(), PathError> {
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
                sink: self.sink,
                flows: &mut path.flows,
            };
            let first = path.paths.wake(self.now, i, &mut sink);
            let result = self.drain(first);
            self.due = None;
            return result;
        }
        if i == stages {
            path.paths.sample(self.now, self.sink);
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
        let path = &mut *self.path;
        let Some(from) = &path.devices[device] else {
            return Ok(false);
        };
        let bytes = match self.buffer.read(from) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(error) => return Err(path.device_error(device, "read", error)),
        };
        self.now = clock.min(path.end);
        self.counted.events += 1;
        if is_link_local(bytes) {
            self.counted.neighbours += 1;
            return Ok(true);
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
                let mut packet = path.paths.pool.take(self.now, flow);
                packet.bytes.extend_from_slice(bytes);
                packet
            }
        };
        if node.sends(&packet.bytes) {
            let (host, packet) = (node.entity, &*packet);
            self.sink.record(self.now, Event::Sent { host, packet });
        }
        let link = &path.links[device / 2];
        if packet.len() > link.mtu {
            self.drop_packet(device, packet, DropCause::TooBig);
            return Ok(true);
        }
        let next = if device % 2 == 0 { link.up } else { link.down };
        self.drain(Some((next, packet)))?;
        Ok(true)
    }

    /// Moves packets on, `current` before all others, until none is on its way
    /// within this instant.
    fn drain(&mut self, mut current: Option<(Next, Box<Packet>)>) -> Result<(), PathError> {
        loop {
            let path = &mut *self.path;
            let Some((next, packet)) = current.take().or_else(|| path.paths.take()) else {
                return Ok(());
            };
            match next {
                Next::Stage(i, port) => {
                    let mut sink = TranslationSink {
                        sink: self.sink,
                        flows: &mut path.flows,
                    };
                    current = path
                        .paths
                        .push(self.now, i as usize, port, packet, &mut sink);
                }
                Next::Node(device) => self.write(device as usize, packet)?,
            }
        }
    }

    /// Hands a packet to the stack behind `device`.
    fn write(&mut self, device: usize, packet: Box<Packet>) -> Result<(), PathError> {
        if let Some(due) = self.due {
            let shown = self.shown.unwrap_or_else(|| Some(self.clock.now()));
            if let Some(shown) = shown {
                self.lates.add(shown.since(due));
            }
        }
        let path = &mut *self.path;
        let Some(to) = &path.devices[device] else {
            // The kernel's links have no elements here, so nothing leads here.
            return Ok(());
        };
        match self.buffer.write(to, &packet) {
            Ok(Written::Taken) => {
                let node = &path.nodes[to.node];
                if node.receives(&packet.bytes) {
                    let event = Event::Received {
                        host: node.entity,
                        packet: &packet,
                    };
                    self.sink.record(self.now, event);
                    path.paths.pool.give(packet);
                } else {
                    let pool = &mut path.paths.pool;
                    path.forwarded[to.node].got(self.now, packet, pool);
                }
                self.counted.delivered += 1;
            }
            Ok(Written::NoRoom) => {
                self.counted.refused += 1;
                self.drop_packet(device, packet, DropCause::Overflow);
            }
            Ok(Written::Malformed) => self.drop_packet(device, packet, DropCause::Malformed),
            Err(error) => return Err(path.device_error(device, "written", error)),
        }
        Ok(())
    }

    /// Drops a packet that is in no element, in the name of the link.
    fn drop_packet(&mut self, device: usize, packet: Box<Packet>, cause: DropCause) {
        self.counted.dropped += 1;
        let event = Event::Dropped {
            element: self.path.links[device / 2].entity,
            packet: &packet,
            cause,
        };
        self.sink.record(self.now, event);
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
