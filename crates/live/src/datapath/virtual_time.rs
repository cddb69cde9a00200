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
//! That takes a path that can be computed ahead. If every way through it has an element that
//! holds each packet for 10 ms, what leaves in the next 10 ms is decided by what has
//! come by now. So what is behind such elements is ahead of the clock ([`super::lookahead`]), at most
//! by 5 ms, and the path is served that much later: packets enter at the times of
//! their arrival, and leave before their time. Events are put in order afterwards.
//!
//! Where some way through it has no such element, the thread wakes for every packet and wake.

use std::os::fd::AsFd;

use narrows_core::{DropCause, EventSink, Packet};
use narrows_engine::RunHandle;
use narrows_linux::timed_socket::{Departure, Room, TimedSocket};
use narrows_path::paths::Next;
use narrows_units::{Duration, Instant};
use narrows_wire::ip;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use super::devices::{Way, sleep_until_readable};
use super::drive::{Drive, TICK_EVERY};
use super::lookahead::MARGIN;
use super::{Datapath, PathError};
use crate::Reports;
use crate::world::HOST_ADDRESS;

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
    /// Where `packet` goes on that left by `device`, if a router there forwards it in the path;
    /// otherwise the packet. What a router would bring to another time is its stack's.
    pub(super) fn forward(
        &self,
        device: usize,
        mut packet: Box<Packet>,
    ) -> Result<(Next, Box<Packet>), Box<Packet>> {
        let node = self.devices[device].as_ref().map(|d| d.node);
        let hop = node.and_then(|node| self.routers.hop(node, &packet));
        let next = hop.map(|hop| self.links[hop.link].first(hop));
        match next.filter(|n| self.lookahead.at(*n) == self.lookahead.exits[device]) {
            Some(next) => {
                ip::take_hop(&mut packet.bytes);
                Ok((next, packet))
            }
            None => Err(packet),
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
        let ahead = self.path.lookahead.least;
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
                self.let_in(&room)?;
            }
            self.serve_until(clock.min(end))?;
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
    fn let_in(&mut self, room: &Room) -> Result<(), PathError> {
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
            self.enter(self.now, device, arrival.bytes)?;
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
        let needed = self.next_due();
        let soon = clock + ahead.saturating_sub(MARGIN);
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
