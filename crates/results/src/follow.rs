//! Following a run while it goes on: its values, and in virtual time its pace.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant as WallInstant;

use narrows_core::{Event, EventSink};
use narrows_engine::{Amended, Ended, Engine, EngineError, RunHandle, VirtualKernel};
use narrows_reduce::{Cut, EntityValues};
use narrows_scenario::Plan;
use narrows_units::{Duration, Instant};

/// Least wall time between two samples: 20 a second.
const SAMPLE_EVERY: std::time::Duration = std::time::Duration::from_millis(50);

/// Of a run that is far ahead of the clock, the part of a sample's wall time in which what packets
/// do is recorded, the last: all of it would cost such a run some percent of its processor time.
const RECORDED: std::time::Duration = std::time::Duration::from_millis(10);

/// Events between two looks at the wall clock: a simulator reports a few million a second.
const LOOK_EVERY: u32 = 64;

/// Wall time for which a paced run goes on without waiting: what a sleep costs is small beside
/// it, and a watcher's picture is updated less often.
const SLICE: std::time::Duration = std::time::Duration::from_millis(5);

/// How often a run that waits looks whether it is cancelled.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// What a run came to over a stretch that ends at `at`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time of the run.
    pub at: Instant,
    /// The metrics of the series: counts over the stretch, and the others over it or, of a run that
    /// is far ahead of the clock, over the last fifth of it.
    pub values: Vec<EntityValues>,
}

/// How fast a run may go, and how far it is. Shared by the run and by who follows it.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
    /// Until when the run need not ask, in nanoseconds of its time.
    free_until: AtomicU64,
    /// Time of the run that was reached, in nanoseconds.
    reached: AtomicU64,
    watched: AtomicBool,
    amended: Amended,
}

#[derive(Clone, Copy, Debug)]
struct State {
    paused: bool,
    /// By how many it is [held](Pace::hold).
    holds: usize,
    /// The time at which it is, while it waits.
    waits_at: Option<Instant>,
    /// Whether it has ended.
    ended: bool,
    /// Where it pauses by itself.
    until: Option<Instant>,
    /// Seconds of the run in a second of wall time; `None` for as fast as it goes.
    speed: Option<f64>,
    /// From when on, in both times, the speed holds.
    base: Option<(WallInstant, Instant)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(None, false)
    }
}

impl Pace {
    /// Of a run with this speed (`None`: as fast as it goes), perhaps paused.
    pub fn new(speed: Option<f64>, paused: bool) -> Self {
        Self {
            state: Mutex::new(State {
                paused,
                holds: 0,
                waits_at: None,
                ended: false,
                until: None,
                speed,
                base: None,
            }),
            changed: Condvar::new(),
            free_until: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            watched: AtomicBool::new(true),
            amended: Amended::default(),
        }
    }

    /// The time of the run that was reached.
    pub fn reached(&self) -> Instant {
        Instant::from_nanos(self.reached.load(Ordering::Relaxed))
    }

    /// Says how far the run is, where its events do not: of one that is not followed.
    pub fn set_reached(&self, at: Instant) {
        self.reached.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Whether it is paused, also where it has not yet come to wait.
    pub fn paused(&self) -> bool {
        self.lock().paused
    }

    /// The speed that was asked for.
    pub fn speed(&self) -> Option<f64> {
        self.lock().speed
    }

    /// Whether samples are made; if not, they cost nothing.
    pub fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Has the run wait where it is, paused or not, until what this gives is dropped: so that
    /// it can be given changes that come after where it is. `None` if it has ended, or if it
    /// reports no event for as long as `patience`.
    pub fn hold(&self, patience: std::time::Duration) -> Option<Held<'_>> {
        let mut held = Held {
            pace: self,
            at: Instant::ZERO,
        };
        self.change(|state| state.holds += 1);
        let goes_on = |state: &mut State| !state.ended && state.waits_at.is_none();
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), patience, goes_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let at = state.waits_at.filter(|_| !state.ended);
        drop(state);
        held.at = at?;
        Some(held)
    }

    /// Gives the run `plan`, which differs from that before it by changes after the time at
    /// which it is [held](Self::hold).
    pub fn amend(&self, plan: Arc<Plan>) {
        self.amended.put(plan);
    }

    /// Pauses the run where it is.
    pub fn pause(&self) {
        self.change(|state| state.paused = true);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.change(|state| {
            state.paused = false;
            state.until = None;
        });
    }

    /// Lets it go on for so long, and pauses it there.
    pub fn step(&self, by: Duration) {
        let reached = self.reached();
        self.change(|state| {
            state.paused = false;
            state.until = Some(reached + by);
        });
    }

    /// Changes its speed.
    pub fn set_speed(&self, speed: Option<f64>) {
        self.change(|state| state.speed = speed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.base = None;
        self.free_until.store(0, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// Waits until the run may go on at `now`; `before_waiting` is called if it has to stop.
    fn wait(&self, now: Instant, handle: &RunHandle<'_>, before_waiting: &mut dyn FnMut()) {
        self.reached.store(now.as_nanos(), Ordering::Relaxed);
        let mut state = self.lock();
        let mut called = false;
        loop {
            state.waits_at = None;
            if handle.cancelled() {
                // The engine ends it at its next look at `handle`.
                self.free_until.store(u64::MAX, Ordering::Relaxed);
                return;
            }
            if state.until.is_some_and(|until| now >= until) {
                state.until = None;
                state.paused = true;
            }
            let wait = match (state.paused || state.holds > 0, state.speed) {
                (true, _) => LOOK,
                (false, None) => {
                    let until = state.until.unwrap_or(Instant::MAX);
                    self.free_until.store(until.as_nanos(), Ordering::Relaxed);
                    return;
                }
                (false, Some(speed)) => {
                    let (wall, from) = *state.base.get_or_insert_with(|| (WallInstant::now(), now));
                    let passed = wall.elapsed().as_secs_f64() * speed;
                    let ahead = now.since(from).as_secs_f64() - passed;
                    if ahead <= 0.0 {
                        let slice = Duration::from_nanos((SLICE.as_nanos() as f64 * speed) as u64);
                        let until = (now + slice).min(state.until.unwrap_or(Instant::MAX));
                        self.free_until.store(until.as_nanos(), Ordering::Relaxed);
                        return;
                    }
                    time_ahead(ahead, speed)
                }
            };
            if !std::mem::replace(&mut called, true) {
                drop(state);
                before_waiting();
                state = self.lock();
                continue;
            }
            state.waits_at = Some(now);
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// How long a run waits that is so many seconds `ahead` of its speed, until it looks again.
fn time_ahead(ahead: f64, speed: f64) -> std::time::Duration {
    LOOK.min(std::time::Duration::from_secs_f64((ahead / speed).min(1.0)))
}

/// A run that waits. It may go on when this is dropped.
#[derive(Debug)]
pub struct Held<'a> {
    pace: &'a Pace,
    at: Instant,
}

impl Held<'_> {
    /// The time of the run at which it waits: it has done nothing that comes later.
    pub fn at(&self) -> Instant {
        self.at
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.pace.change(|state| state.holds -= 1);
    }
}

/// An engine whose runs are followed. What a run comes to is the same, followed or not: its
/// events pass unchanged.
pub struct Followed<'a> {
    /// What runs.
    pub engine: &'a dyn Engine,
    /// Its pace.
    pub pace: &'a Pace,
    /// Takes samples, at most 20 a second of wall time; called by the run, so it should not
    /// wait.
    pub samples: &'a (dyn Fn(Sample) + Sync),
}

impl Followed<'_> {
    /// Whether runs of `engine` can be paused and slowed down: those in virtual time that
    /// nothing outside this process has a part in.
    pub fn has_pace(engine: &dyn Engine) -> bool {
        !engine.alone() && engine.virtual_kernel().is_none()
    }
}

impl Engine for Followed<'_> {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        self.engine.virtual_kernel()
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.engine.names(plan)
    }

    fn alone(&self) -> bool {
        self.engine.alone()
    }

    fn accepts(&self, plan: &Plan) -> Result<(), EngineError> {
        self.engine.accepts(plan)
    }

    fn hosts_as_here(&self, plan: &Plan) -> Plan {
        self.engine.hosts_as_here(plan)
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let paced = Self::has_pace(self.engine);
        let mut tap = Tap {
            sink,
            follower: Follower::new(self, &plan.for_seed(seed)),
            paced,
            handle,
        };
        let own = RunHandle {
            amended: paced.then_some(&self.pace.amended),
            ..*handle
        };
        let ended = self.engine.run(plan, seed, &mut tap, &own);
        self.pace.change(|state| state.ended = true);
        let ended = ended?;
        let end = Instant::ZERO + ended.virtual_time;
        self.pace.reached.store(end.as_nanos(), Ordering::Relaxed);
        tap.follower.give(end);
        Ok(ended)
    }
}

/// What a follower is given.
struct Follower<'a> {
    followed: &'a Followed<'a>,
    cut: Cut,
    shortest: Duration,
    interval: Duration,
    /// When the last sample was, in both times.
    given: WallInstant,
    given_at: Instant,
    events: u32,
    watched: bool,
    /// Whether what packets do is recorded now; not all the time where the run is
    /// [far ahead](RECORDED).
    recorded: bool,
    /// Amendments of the plan that were seen.
    amendments: u64,
}

impl<'a> Follower<'a> {
    fn new(followed: &'a Followed<'a>, plan: &Plan) -> Self {
        Self {
            cut: Cut::new(plan, followed.names(plan)),
            // Windows of a paced run that are shorter hold too few packets.
            shortest: plan.sample_interval / 5,
            interval: plan.sample_interval,
            given: WallInstant::now(),
            given_at: Instant::ZERO,
            events: 0,
            watched: false,
            recorded: false,
            amendments: 0,
            followed,
        }
    }

    fn record(&mut self, now: Instant, event: Event<'_>) {
        self.events += 1;
        if self.events >= LOOK_EVERY {
            self.events = 0;
            self.look(now);
        }
        // A connection has values from its opening on, whoever watched then.
        let lasts = matches!(event, Event::Established { .. } | Event::Finished { .. });
        if self.recorded || lasts || self.watched && !is_frequent(&event) {
            self.cut.record(now, event);
        }
    }

    fn look(&mut self, now: Instant) {
        let pace = self.followed.pace;
        pace.reached.store(now.as_nanos(), Ordering::Relaxed);
        if let Some(plan) = pace.amended.newer(&mut self.amendments) {
            self.cut.amend(&plan);
        }
        let watched = pace.watched.load(Ordering::Relaxed);
        if !watched {
            (self.watched, self.recorded) = (false, false);
            return;
        }
        if !self.watched {
            // What was before it was not recorded.
            self.cut.at(now);
            (self.watched, self.recorded) = (true, true);
        }
        let passed = self.given.elapsed();
        if passed + RECORDED >= SAMPLE_EVERY {
            self.record_all(now);
        }
        if passed >= SAMPLE_EVERY {
            self.give(now);
        }
    }

    /// What packets do is recorded from `now` on, if it was not.
    fn record_all(&mut self, now: Instant) {
        if self.watched && !self.recorded {
            self.cut.restart(now);
            self.recorded = true;
        }
    }

    fn give(&mut self, now: Instant) {
        if !self.recorded || now.since(self.cut.since()) < self.shortest {
            return;
        }
        let values = self.cut.at(now);
        let passed = self.given.elapsed().as_secs_f64();
        let speed = now.since(self.given_at).as_secs_f64() / passed;
        self.recorded = !is_far_ahead(speed, self.interval);
        (self.given, self.given_at) = (WallInstant::now(), now);
        (self.followed.samples)(Sample { at: now, values });
    }
}

/// Whether a run of this speed passes a whole sampling interval in the time for which one that is
/// [far ahead](RECORDED) is recorded.
fn is_far_ahead(speed: f64, interval: Duration) -> bool {
    speed * RECORDED.as_secs_f64() >= interval.as_secs_f64()
}

/// Whether it is what every packet does.
#[inline]
fn is_frequent(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Enqueued { .. }
            | Event::Dequeued { .. }
            | Event::Sent { .. }
            | Event::Received { .. }
            | Event::Delivered { .. }
            | Event::RttSample { .. }
    )
}

/// Passes events on, and holds the run back.
struct Tap<'a, 's> {
    sink: &'s mut dyn EventSink,
    follower: Follower<'a>,
    paced: bool,
    handle: &'a RunHandle<'a>,
}

impl EventSink for Tap<'_, '_> {
    #[inline]
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let pace = self.follower.followed.pace;
        if self.paced && now.as_nanos() >= pace.free_until.load(Ordering::Relaxed) {
            let follower = &mut self.follower;
            pace.wait(now, self.handle, &mut || {
                if follower.given.elapsed() >= SAMPLE_EVERY || pace.paused() {
                    follower.look(now);
                    follower.give(now);
                }
                // A run that waits is not ahead, and what comes next may be a short step.
                follower.record_all(now);
            });
        }
        self.follower.record(now, event);
        self.sink.record(now, event);
    }
}
