//! The flows over TCP that begin or end in one host.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;

use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::ecn_switch::EcnSwitch;
use super::facts::EndFacts;
use super::stop::{Stop, wake_sharply};
use super::stream_end::{Interest, Phase, Scene, StreamEnd, buffer};
use crate::sample::EcnLayout;
use crate::{Clock, Reporter};

/// How often receivers that were not woken are read, and what they got is
/// reported.
const TICK: Duration = Duration::from_millis(5);

/// Tokens of what is no end of a flow.
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// What happens to an end at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Start,
    /// Its application writes, as it does at times of its own.
    Write,
    Stop,
}

/// All ends in one host, served by one thread: a thread for each flow would
/// cost more wake-ups than the sockets need, and take them from the path.
#[derive(Debug)]
pub struct Streams {
    ends: Vec<StreamEnd>,
    interests: Vec<Interest>,
    acts: BTreeSet<(Instant, usize, Act)>,
    ecn: EcnSwitch,
    layout: EcnLayout,
    clock: Clock,
    reporter: Reporter,
    epoll: Epoll,
    timer: TimerFd,
    /// Receivers that have a connection.
    receiving: BTreeSet<usize>,
    tick: Instant,
    stop: Stop,
}

impl Streams {
    /// To be called on a thread in the host.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(
        ends: Vec<StreamEnd>,
        ecn: EcnSwitch,
        clock: Clock,
        reporter: Reporter,
        stop: Stop,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(
            ClockId::CLOCK_MONOTONIC,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )?;
        for (fd, token) in [(stop.as_fd(), STOP), (timer.as_fd(), TIMER)] {
            epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        }
        let mut acts = BTreeSet::new();
        for (i, end) in ends.iter().enumerate() {
            acts.insert((end.plan.start, i, Act::Start));
            if let Some(at) = end.plan.stop.filter(|_| end.plan.generator.is_some()) {
                acts.insert((at, i, Act::Stop));
            }
        }
        let mut streams = Self {
            interests: vec![Interest::Nothing; ends.len()],
            ends,
            acts,
            ecn,
            layout: EcnLayout::of_this_kernel(),
            clock,
            reporter,
            epoll,
            timer,
            receiving: BTreeSet::new(),
            tick: Instant::ZERO,
            stop,
        };
        for i in 0..streams.ends.len() {
            streams.attend(i)?;
        }
        Ok(streams)
    }

    /// Serves all ends until it is stopped.
    pub fn run(mut self) -> Vec<EndFacts> {
        wake_sharply();
        let mut buffer = buffer();
        let mut ready = vec![EpollEvent::empty(); 256];
        let mut set = None;
        while !self.stop.told() {
            self.act(&mut buffer);
            let next = self.next();
            if next != set {
                self.set_timer(next);
                set = next;
            }
            let count = match self.epoll.wait(&mut ready, EpollTimeout::NONE) {
                Ok(count) => count,
                Err(Errno::EINTR) => continue,
                // Nothing that was opened here can fail to be waited for.
                Err(_) => break,
            };
            for event in &ready[..count] {
                match event.data() {
                    STOP => {}
                    TIMER => {
                        // Read, lest it stays ready; that it is not any more
                        // does not matter.
                        let _ = self.timer.wait();
                        set = None;
                    }
                    token => self.serve(token as usize, &mut buffer),
                }
            }
        }
        let mut scene = scene(
            &self.clock,
            &self.reporter,
            &self.ecn,
            self.layout,
            &mut buffer,
        );
        let ends = self.ends.into_iter();
        ends.map(|end| end.end(&mut scene)).collect()
    }

    /// Does what is due.
    fn act(&mut self, buffer: &mut [u8]) {
        let now = self.clock.now();
        while let Some((at, i, act)) = self.acts.first().copied() {
            if at > now {
                break;
            }
            self.acts.pop_first();
            self.with(i, buffer, |end, scene| match act {
                Act::Start => end.start(scene),
                Act::Write => end.write_when_due(scene),
                Act::Stop => end.stop(scene),
            });
        }
        if self.tick <= now && !self.receiving.is_empty() {
            for i in self.receiving.clone() {
                self.with(i, buffer, |end, scene| {
                    end.take(scene);
                    end.report_delivered(scene);
                });
            }
            self.tick = self.clock.now() + TICK;
        }
    }

    fn next(&self) -> Option<Instant> {
        let act = self.acts.first().map(|(at, ..)| *at);
        let tick = (!self.receiving.is_empty()).then_some(self.tick);
        match (act, tick) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sets the timer to an absolute time; no wait adds to the next.
    fn set_timer(&self, next: Option<Instant>) {
        let set = match next {
            None => self.timer.unset(),
            Some(at) => {
                // Zero would switch it off.
                let ns = self.clock.monotonic_ns_at(at).max(1);
                let at = std::time::Duration::from_nanos(ns);
                self.timer.set(
                    Expiration::OneShot(at.into()),
                    TimerSetTimeFlags::TFD_TIMER_ABSTIME,
                )
            }
        };
        // Times are valid and the descriptor is a timer.
        debug_assert!(set.is_ok(), "{set:?}");
    }

    fn serve(&mut self, i: usize, buffer: &mut [u8]) {
        let mut replaced = false;
        self.with(i, buffer, |end, scene| replaced = end.ready(scene));
        if replaced {
            // The listener left with its registration.
            self.interests[i] = Interest::Nothing;
            let _ = self.attend(i);
        }
    }

    /// Lets an end act, and sees what it waits for afterwards.
    fn with(
        &mut self,
        i: usize,
        buffer: &mut [u8],
        act: impl FnOnce(&mut StreamEnd, &mut Scene<'_>),
    ) {
        let mut scene = scene(&self.clock, &self.reporter, &self.ecn, self.layout, buffer);
        let (was, wanted) = (self.ends[i].phase, self.ends[i].interest());
        act(&mut self.ends[i], &mut scene);
        let end = &self.ends[i];
        if let Some(at) = end.next_write(scene.now) {
            // A second one for the same time is the same.
            self.acts.insert((at, i, Act::Write));
        }
        if (end.phase, end.interest()) == (was, wanted) {
            return;
        }
        if end.receives() {
            if self.receiving.is_empty() {
                self.tick = scene.now + TICK;
            }
            self.receiving.insert(i);
        } else {
            self.receiving.remove(&i);
        }
        if was != Phase::Waiting || end.plan.opens {
            let _ = self.attend(i);
        }
    }

    /// Registers what an end waits for.
    fn attend(&mut self, i: usize) -> nix::Result<()> {
        let end = &self.ends[i];
        let (was, is) = (self.interests[i], end.interest());
        let flags = match is {
            Interest::Nothing => EpollFlags::empty(),
            Interest::Read => EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP,
            Interest::Write => EpollFlags::EPOLLOUT,
        };
        let mut event = EpollEvent::new(flags, i as u64);
        let done = match (was, is) {
            (a, b) if a == b => return Ok(()),
            (Interest::Nothing, _) => self.epoll.add(&end.socket, event),
            (_, Interest::Nothing) => self.epoll.delete(&end.socket),
            _ => self.epoll.modify(&end.socket, &mut event),
        };
        self.interests[i] = is;
        done
    }
}

fn scene<'a>(
    clock: &Clock,
    reporter: &'a Reporter,
    ecn: &'a EcnSwitch,
    layout: EcnLayout,
    buffer: &'a mut [u8],
) -> Scene<'a> {
    Scene {
        now: clock.now(),
        reporter,
        ecn,
        layout,
        buffer,
    }
}
