//! A capture that is read on two processors: a thread of its own reads packets
//! and finds their flows, while this one runs the estimators and writes. What is
//! written is the same to the byte as with one.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use narrows_observe::format::Report;
use narrows_observe::{Classified, Config, Follower, Step};
use narrows_wire::capture::{CaptureError, Record};

use super::super::read::{Source, Takes, Wanted};
use super::super::save::Saved;
use super::{Tap, Watch};

/// Batches that may wait, of some 1,000 packets and 64 KiB each: enough that
/// neither thread waits for the other's every hiccup, and within a second-level
/// cache.
const WAITING: usize = 6;

/// Flows of a point up to which there are two threads. With more, memory is what
/// a packet costs; and none is to be spent on estimators that are apart.
const MOST_FLOWS: u64 = 1 << 16;

/// Why two threads stopped reading.
pub enum Stop {
    /// The capture has ended.
    End,
    /// Somebody has told them to, or there is nobody to write for.
    Told,
    /// There are too many flows: one thread is to read on.
    Many,
}

fn have_many_flows(taps: &[Tap]) -> bool {
    taps.iter().any(|t| t.observer.flows_now() > MOST_FLOWS)
}

/// What was read together.
#[derive(Default)]
struct Batch {
    /// Points that are new, in order, and their estimators.
    new: Vec<(String, Follower)>,
    /// Points by turns, and where in the steps each turn ends.
    turns: Vec<(usize, usize)>,
    steps: Vec<Step>,
}

/// What the thread that reads needs of a watch.
struct Front<'a> {
    config: Config,
    wanted: &'a Wanted,
    saved: Option<&'a mut Saved>,
    taps: &'a mut Vec<Tap>,
    packets: &'a mut u64,
    batch: Batch,
}

impl<W: Write> Watch<W> {
    /// Whether a capture may be read on two processors: where there are two, and
    /// nobody wants to know anything before a flow ends.
    pub fn may_part(&self) -> bool {
        let alone = thread::available_parallelism().is_ok_and(|n| n.get() == 1);
        let early = self.interval.is_some() || self.top.is_some() || self.report.needs_samples();
        !alone && !early && self.left == u64::MAX && !have_many_flows(&self.taps)
    }

    /// Reads a capture on two processors.
    ///
    /// # Errors
    /// When it is wrong; what came before is observed.
    pub fn read_apart<R: Read + Send>(
        &mut self,
        source: &mut Source<'_, R>,
        stop: &AtomicBool,
    ) -> Result<Stop, CaptureError> {
        let parted = self.taps.iter_mut();
        let parted = parted.map(|tap| (tap.name.clone(), tap.observer.part()));
        let mut back = Back {
            followers: parted.collect(),
            report: &mut self.report,
            current: usize::MAX,
        };
        let front = Front {
            config: self.config,
            wanted: &self.wanted,
            saved: self.saved.as_mut(),
            taps: &mut self.taps,
            packets: &mut self.packets,
            batch: Batch::default(),
        };
        let failed = AtomicBool::new(false);
        let stops = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        let (full, to_follow) = sync_channel(WAITING);
        let (used, empty) = channel();
        let ended = thread::scope(|scope| {
            let reader = scope.spawn(|| front.read(source, stops, full, empty));
            back.follow(&to_follow, &used, &failed);
            reader.join()
        });
        let followers = back.followers;
        for (tap, (_, follower)) in self.taps.iter_mut().zip(followers) {
            tap.observer.join(follower);
        }
        self.current = usize::MAX;
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Front<'_> {
    fn read<R: Read>(
        mut self,
        source: &mut Source<'_, R>,
        stops: impl Fn() -> bool,
        full: SyncSender<Batch>,
        empty: Receiver<Batch>,
    ) -> Result<Stop, CaptureError> {
        while !stops() {
            if !source.read()? {
                return Ok(Stop::End);
            }
            source.tell(&mut self);
            if self.is_over() {
                break;
            }
            if have_many_flows(self.taps) {
                // Nobody is gone who has not told.
                let _ = full.send(self.batch);
                return Ok(Stop::Many);
            }
            let next = empty.try_recv().unwrap_or_default();
            let batch = std::mem::replace(&mut self.batch, next);
            if full.send(batch).is_err() {
                break;
            }
        }
        Ok(Stop::Told)
    }
}

impl Takes for Front<'_> {
    fn is_over(&self) -> bool {
        self.saved.as_ref().is_some_and(|saved| saved.has_failed())
    }

    fn wanted(&self) -> &Wanted {
        self.wanted
    }

    fn tap(&mut self, name: &str) -> usize {
        let (at, new) = Tap::named(self.taps, name, self.config);
        if new {
            let follower = self.taps[at].observer.part();
            self.batch.new.push((name.to_owned(), follower));
        }
        at
    }

    fn prefetch(&self, taps: &[Option<usize>], packets: &[Option<Classified<'_>>]) {
        Tap::prefetch(self.taps, taps, packets);
    }

    fn read_packet(
        &mut self,
        at_tap: usize,
        packet: Option<&Classified<'_>>,
        record: &Record<'_>,
        vlan: Option<u16>,
    ) -> bool {
        *self.packets += 1;
        let tap = &mut self.taps[at_tap];
        let Some(packet) = packet else {
            tap.observer.count_no_ip();
            return false;
        };
        let at = record.at.unwrap_or(tap.last);
        tap.last = at;
        let of_flow = tap.observer.count(packet);
        let taken = match of_flow {
            Some(packet) => self.wanted.filter.takes(packet, vlan),
            // Nobody else asks.
            None => self.saved.is_some() && self.wanted.takes_other(record, vlan),
        };
        if !taken {
            return false;
        }
        if let Some(saved) = &mut self.saved {
            saved.packet(at_tap, &tap.name, record);
        }
        let Some(packet) = of_flow else {
            return true;
        };
        let id = record.id.unwrap_or(*self.packets);
        let Batch { turns, steps, .. } = &mut self.batch;
        tap.observer.go_ahead(packet, at, id, steps);
        match turns.last_mut() {
            Some((tap, end)) if *tap == at_tap => *end = steps.len(),
            _ => turns.push((at_tap, steps.len())),
        }
        true
    }
}

/// What the thread that writes has.
struct Back<'a, W: Write> {
    followers: Vec<(String, Follower)>,
    report: &'a mut Report<W>,
    current: usize,
}

impl<W: Write> Back<'_, W> {
    /// Follows until there is nobody ahead.
    fn follow(&mut self, full: &Receiver<Batch>, used: &Sender<Batch>, failed: &AtomicBool) {
        for mut batch in full {
            self.followers.append(&mut batch.new);
            let mut begin = 0;
            for (tap, end) in batch.turns.drain(..) {
                let (name, follower) = &mut self.followers[tap];
                if self.current != tap {
                    self.current = tap;
                    self.report.at_tap(name);
                }
                follower.follow(&mut batch.steps[begin..end], self.report);
                begin = end;
            }
            batch.steps.clear();
            if self.report.has_failed() {
                failed.store(true, Ordering::Relaxed);
            }
            // At the end nobody takes it.
            let _ = used.send(batch);
        }
    }
}
