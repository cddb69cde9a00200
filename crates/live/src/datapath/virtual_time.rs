//! The loop where time is virtual.
//!
//! Time stands still while anything runs, and then jumps to the next timer. So timers are
//! never late, and to poll for one would take for ever. What costs is the border between a
//! program and the kernel, each crossing of which is two switches between processes of the
//! machine. Packets therefore cross it together: those that came are read with the times of
//! their arrival, and those that leave are handed over before their time, at which a
//! timer of the kernel's lets them go.
//!
//! # Ahead of the clock
//!
//! That takes a path that can be computed ahead. If every way into it begins with an element
//! that holds each packet for 10 ms, what leaves in the next 10 ms is decided by what has
//! come by now. So path time is ahead of the clock by the shortest of these times
//! ([`Element::lookahead`](narrows_packet::Element::lookahead)), at most by [`MOST_AHEAD`]. A
//! packet that comes meanwhile is let in later, at the time of its arrival; only the first
//! element sees time go back, and says that it can. Events are put in order afterwards.
//!
//! A path of other elements is not ahead: the thread wakes for every packet and wake.

use std::os::fd::AsFd;

use narrows_packet::{DropCause, EventSink, Packet};
use narrows_path::paths::Next;
use narrows_run::RunHandle;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use super::devices::{Way, sleep_until_readable};
use super::drive::{Drive, TICK_EVERY};
use super::{Datapath, PathError};
use crate::Reports;
use crate::world::{Departure, HOST_ADDRESS, Room, TimedSocket};

/// The most that path time is ahead of the clock: what an event waits until it is passed on.
const MOST_AHEAD: Duration = Duration::from_millis(5);

/// How long before the path has to be computed further that is done: more than what readings
/// of the clock and failing calls of a whole turn take (see `docs/kernel.md`).
const MARGIN: Duration = Duration::from_micros(50);

/// Packets that are to leave at a time each.
#[derive(Default)]
pub(super) struct Departures {
    packets: Vec<Departure>,
    /// For each, its device and when that is in the run's time.
    places: Vec<(usize, Instant)>,
}

impl Departures {
    /// Adds one for port `number` of `place`, a device and a time of the run.
    pub(super) fn add(
        &mut self,
        place: (usize, Instant),
        number: u32,
        at_ns: u64,
        packet: Box<Packet>,
    ) {
        self.packets.push(Departure::new(number, at_ns, packet));
        self.places.push(place);
    }
}

impl Datapath<'_> {
    /// How far the path can be computed ahead of what comes: the shortest time that any way
    /// into it holds all packets; zero if an element needs to know all that came before.
    fn lookahead(&self) -> Duration {
        let entries = self.links.iter().zip(self.devices.chunks(2));
        let entries = entries.filter(|(_, ends)| ends.iter().any(Option::is_some));
        let entries = entries.flat_map(|(link, _)| [link.up, link.down]);
        let leads_on = |entry: Next| self.paths.stages.iter().any(|s| s.next.contains(&entry));
        let changes = |i: u32| self.changes.iter().any(|c| c.stages.contains(&i));
        let of = |entry| match entry {
            Next::Stage(i, _) if !leads_on(entry) && !changes(i) => {
                self.paths.stages[i as usize].element.lookahead()
            }
            Next::Stage(..) | Next::Node(_) => Duration::ZERO,
        };
        let shortest = entries.map(of).min().unwrap_or(Duration::ZERO);
        if shortest > MARGIN * 2 {
            shortest.min(MOST_AHEAD)
        } else {
            Duration::ZERO
        }
    }
}

impl Drive<'_, '_, '_> {
    /// Runs to the end of the plan, or until the caller cancels.
    pub(super) fn run_in_virtual_time(
        &mut self,
        socket: &TimedSocket,
        reports: &Reports,
        handle: &RunHandle<'_>,
    ) -> Result<(), PathError> {
        let end = self.path.end;
        let ahead = self.path.lookahead();
        tracing::debug!(?ahead, "the path is computed ahead of the clock");
        let largest = self.path.links.iter().map(|link| link.mtu).max();
        let mut room = Room::new(largest.unwrap_or(0));
        let mut tick = Instant::ZERO;
        let mut came = true;
        loop {
            let clock = self.clock.now();
            if clock >= tick {
                tick = clock + TICK_EVERY;
                if !handle.tick(clock.min(end)) {
                    self.counted.interrupted = true;
                    break;
                }
            }
            while came {
                came = socket.receive(&mut room).map_err(PathError::Ports)?;
                self.let_in(&room, ahead)?;
            }
            self.serve_until((clock + ahead).min(end))?;
            self.let_out(socket, clock)?;
            self.report_on(reports, clock);
            if clock >= end {
                break;
            }
            self.sink.pass_on(clock);
            came = self.wait(socket, clock, ahead, tick.min(end))?;
        }
        self.sink.pass_on(Instant::MAX);
        Ok(())
    }

    /// Lets in what came, each packet at its time.
    fn let_in(&mut self, room: &Room, ahead: Duration) -> Result<(), PathError> {
        for arrival in room.arrivals() {
            let at = self.clock.at(arrival.at_ns).min(self.path.end);
            let by = |device: &Option<super::Device<'_>>| match device.as_ref().map(|d| d.way) {
                Some(Way::Times(port)) => port.number == arrival.device,
                _ => false,
            };
            let Some(device) = self.path.devices.iter().position(by) else {
                continue;
            };
            self.serve_until(at)?;
            let at = if ahead.is_zero() { self.now } else { at };
            self.enter(at, device, arrival.bytes)?;
        }
        Ok(())
    }

    /// Hands over what is to leave; `clock` has just been read.
    fn let_out(&mut self, socket: &TimedSocket, clock: Instant) -> Result<(), PathError> {
        let mut leaving = std::mem::take(&mut self.departures);
        for (_, at) in &leaving.places {
            self.lates.add(clock.since(*at));
        }
        let mut from = 0;
        let mut sent = Vec::with_capacity(leaving.packets.len());
        while from < leaving.packets.len() {
            match socket.send(&leaving.packets[from..], HOST_ADDRESS) {
                Ok(count) => {
                    sent.extend(std::iter::repeat_n(None, count));
                    from += count;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::ENOMEM) => {
                    sent.push(Some(DropCause::Overflow));
                    from += 1;
                }
                Err(Errno::EINVAL | Errno::EMSGSIZE) => {
                    sent.push(Some(DropCause::Malformed));
                    from += 1;
                }
                Err(error) => return Err(PathError::Ports(error)),
            }
        }
        let packets = leaving.packets.drain(..).zip(leaving.places.drain(..));
        for ((departure, (device, at)), refused) in packets.zip(sent) {
            match refused {
                None => self.left(at, device, departure.packet),
                Some(cause) => {
                    self.counted.refused += u64::from(cause == DropCause::Overflow);
                    self.drop_packet(at, device, departure.packet, cause);
                }
            }
        }
        self.departures = leaving;
        Ok(())
    }

    /// Records what other threads saw until `clock`, each at its time.
    fn report_on(&mut self, reports: &Reports, clock: Instant) {
        for (at, report) in std::iter::from_fn(|| reports.next()) {
            self.counted.events += 1;
            self.sink.record(at.min(clock), report);
        }
    }

    /// Sleeps until the path has to be computed further; whether something may have come.
    fn wait(
        &mut self,
        socket: &TimedSocket,
        clock: Instant,
        ahead: Duration,
        latest: Instant,
    ) -> Result<bool, PathError> {
        let next = self.next_due();
        let soon = clock + ahead.saturating_sub(MARGIN);
        let needed = Instant::ZERO + next.since(Instant::ZERO + ahead);
        if needed > soon || ahead.is_zero() {
            // What comes may be the first for long.
            let longest = needed.min(latest).since(clock);
            let fds = std::iter::once(socket.as_fd());
            return sleep_until_readable(fds, longest).map_err(PathError::Ports);
        }
        let until = self.clock.monotonic_ns_at(soon.min(latest));
        let until = TimeSpec::from(std::time::Duration::from_nanos(until));
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &until) {
            Ok(_) | Err(Errno::EINTR) => Ok(true),
            Err(error) => Err(PathError::Ports(error)),
        }
    }
}
