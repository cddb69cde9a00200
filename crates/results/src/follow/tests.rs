mod parts;

use std::sync::mpsc;

use narrows_core::FlowId;
use narrows_scenario::Draft;

use super::*;

/// Delivers a kilobyte to the first flow in each millisecond.
struct Steady {
    seconds: u64,
    /// How long it rests after each second, at whose end it sends something again then; not at all
    /// if for no time.
    rests: std::time::Duration,
}

/// As fast as it goes.
const STEADY: Steady = Steady {
    seconds: 10,
    rests: std::time::Duration::ZERO,
};

/// Some three hundred times as fast as the clock.
const AHEAD: Steady = Steady {
    seconds: 100,
    rests: std::time::Duration::from_millis(3),
};

impl Engine for Steady {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn names(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }

    fn run(
        &self,
        _: &Plan,
        _: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let flow = FlowId(0);
        let (ecn, accecn) = (false, false);
        sink.record(Instant::ZERO, Event::Established { flow, ecn, accecn });
        let mut ended = Ended::default();
        for ms in 1..=1000 * self.seconds {
            if !handle.tick(Instant::ZERO + ended.virtual_time) {
                ended.interrupted = true;
                break;
            }
            ended.virtual_time = Duration::from_millis(ms);
            let now = Instant::ZERO + ended.virtual_time;
            sink.record(now, Event::Delivered { flow, bytes: 1000 });
            ended.events += 1;
            if ms % 1000 == 0 && !self.rests.is_zero() {
                sink.record(now, Event::Retransmitted { flow, bytes: 1000 });
                std::thread::sleep(self.rests);
            }
        }
        Ok(ended)
    }
}

/// Counts events.
struct Count(u64);

impl EventSink for Count {
    fn record(&mut self, _: Instant, _: Event<'_>) {
        self.0 += 1;
    }
}

fn plan() -> Plan {
    let link = ["rate 10Mbit".to_owned()];
    let draft = Draft::from_words(&link, &["cubic start 0s".to_owned()]).expect("a draft");
    draft.check().expect("a plan")
}

fn follow(pace: &Pace, cancel: &AtomicBool, meanwhile: impl FnOnce()) -> (Ended, u64, Vec<Sample>) {
    follow_by(&STEADY, pace, cancel, meanwhile)
}

/// Runs it, with what is sent of samples, while `meanwhile` does something else.
fn follow_by(
    engine: &dyn Engine,
    pace: &Pace,
    cancel: &AtomicBool,
    meanwhile: impl FnOnce(),
) -> (Ended, u64, Vec<Sample>) {
    let (send, samples) = mpsc::channel();
    let send = Mutex::new(send);
    let (ended, counted) = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let followed = Followed {
                engine,
                pace,
                samples: &|sample| {
                    let send = send.lock().expect("no panic");
                    send.send(sample).expect("the test receives");
                },
            };
            let handle = RunHandle {
                cancel: Some(cancel),
                ..RunHandle::default()
            };
            let mut count = Count(0);
            let ended = followed
                .run(&plan(), 1, &mut count, &handle)
                .expect("it runs");
            (ended, count.0)
        });
        let _ends = EndsAfterPanic(cancel);
        meanwhile();
        run.join().expect("no panic")
    });
    drop(send);
    (ended, counted, samples.iter().collect())
}

/// Ends a run that is held when the test that follows it fails, so that it does not wait for ever.
struct EndsAfterPanic<'a>(&'a AtomicBool);

impl Drop for EndsAfterPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn until(is: impl Fn() -> bool) {
    let begun = WallInstant::now();
    while !is() {
        let longest = std::time::Duration::from_secs(30);
        assert!(begun.elapsed() < longest, "it does not come to that");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn all_events_pass_and_the_samples_add_up_to_them() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    let (ended, counted, samples) = follow(&pace, &cancel, || {});
    assert_eq!((ended.events, counted), (10_000, 10_001));
    let last = samples.last().expect("one at the end");
    assert_eq!(last.at, Instant::ZERO + Duration::from_secs(10));
    let mut before = Instant::ZERO;
    for sample in &samples {
        let flow = &sample.values[0];
        let goodput = flow.values.iter().find(|(name, _)| name == "goodput_mbit");
        // 1000 bytes in each millisecond, of stretches that begin and end between events.
        let (_, mbit) = goodput.expect("a value");
        assert!(
            (mbit - 8.0).abs() < 0.9,
            "{mbit} from {before} to {}",
            sample.at
        );
        before = sample.at;
    }
}

/// Packets are recorded for a fifth of the time then: rates are those of this fifth, and nothing that
/// is counted is lost.
#[test]
fn samples_of_a_run_far_ahead_of_the_clock_have_its_rates_and_all_its_counts() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    let (_, counted, samples) = follow_by(&AHEAD, &pace, &cancel, || {});
    assert_eq!(counted, 100_101);
    assert!(samples.len() >= 3, "{}", samples.len());
    let (mut retransmissions, mut last) = (0.0, Instant::ZERO);
    for sample in &samples {
        let of = |metric| {
            let values = &sample.values[0].values;
            let found = values.iter().find(|(name, _)| name == metric);
            found.map_or(0.0, |(_, value)| *value)
        };
        let mbit = of("goodput_mbit");
        assert!((mbit - 8.0).abs() < 0.1, "{mbit} at {}", sample.at);
        retransmissions += of("retransmissions");
        last = sample.at;
    }
    // One that comes at the very time of a sample counts for the next.
    let seconds = last.as_secs_f64();
    assert!(
        (seconds - 1.0..=seconds).contains(&retransmissions),
        "{retransmissions} until {last}"
    );
}

/// While it was ahead, four fifths of it were not recorded; the step is, all of it.
#[test]
fn a_step_of_a_run_that_was_far_ahead_has_a_sample_of_its_own() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    let mut ends = (Instant::ZERO, Instant::ZERO);
    let (.., samples) = follow_by(&AHEAD, &pace, &cancel, || {
        until(|| pace.reached() > Instant::ZERO + Duration::from_secs(30));
        pace.pause();
        drop(pace.hold(PATIENCE).expect("it waits"));
        ends.0 = pace.reached();
        pace.step(Duration::from_millis(500));
        until(|| pace.reached() >= ends.0 + Duration::from_millis(500) && pace.paused());
        drop(pace.hold(PATIENCE).expect("it waits"));
        ends.1 = pace.reached();
        cancel.store(true, Ordering::Relaxed);
    });
    let of_step = samples.iter().find(|sample| sample.at == ends.1);
    let values = &of_step.expect("a sample").values[0].values;
    let goodput = values.iter().find(|(name, _)| name == "goodput_mbit");
    let (_, mbit) = goodput.expect("a value");
    assert!(
        (mbit - 8.0).abs() < 0.1,
        "{mbit} from {} to {}",
        ends.0,
        ends.1
    );
}

#[test]
fn a_run_that_nobody_watches_gives_no_samples() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    pace.set_watched(false);
    let (_, counted, samples) = follow(&pace, &cancel, || {});
    assert_eq!((counted, samples.len()), (10_001, 0));
}

#[test]
fn steps_end_where_they_should_and_a_cancelled_run_does_not_wait() {
    let (pace, cancel) = (Pace::new(None, true), AtomicBool::new(false));
    let (ended, ..) = follow(&pace, &cancel, || {
        pace.step(Duration::from_millis(250));
        until(|| pace.reached() >= Instant::ZERO + Duration::from_millis(250) && pace.paused());
        assert_eq!(pace.reached(), Instant::ZERO + Duration::from_millis(250));
        pace.step(Duration::from_millis(1000));
        until(|| pace.reached() >= Instant::ZERO + Duration::from_millis(1250) && pace.paused());
        cancel.store(true, Ordering::Relaxed);
    });
    assert!(ended.interrupted);
    assert!(
        ended.virtual_time < Duration::from_millis(1300),
        "{ended:?}"
    );
}

#[test]
fn speed_holds_a_run_back() {
    // Ten seconds in a tenth of one: no run is faster than its speed.
    let (pace, cancel) = (Pace::new(Some(100.0), false), AtomicBool::new(false));
    let begun = WallInstant::now();
    follow(&pace, &cancel, || {});
    assert!(begun.elapsed() >= std::time::Duration::from_millis(95));
}

#[test]
fn a_run_that_is_resumed_within_a_step_does_not_pause_at_its_end() {
    let (pace, cancel) = (Pace::new(Some(1e-3), true), AtomicBool::new(false));
    follow(&pace, &cancel, || {
        pace.step(Duration::from_secs(2));
        pace.resume();
        pace.set_speed(None);
        until(|| pace.reached() == Instant::ZERO + Duration::from_secs(10));
    });
    assert!(!pace.paused());
}

#[test]
fn time_in_which_a_run_was_held_is_not_made_up_for() {
    let (pace, cancel) = (Pace::new(Some(100.0), false), AtomicBool::new(false));
    let (mut left, mut resumed) = (Duration::ZERO, WallInstant::now());
    follow(&pace, &cancel, || {
        until(|| pace.reached() > Instant::ZERO);
        pace.pause();
        // As long as the whole run would take.
        std::thread::sleep(std::time::Duration::from_millis(100));
        left = (Instant::ZERO + Duration::from_secs(10)).since(pace.reached());
        resumed = WallInstant::now();
        pace.resume();
    });
    let least = std::time::Duration::from_nanos(left.as_nanos() / 100 * 9 / 10);
    assert!(resumed.elapsed() >= least, "{:?}", resumed.elapsed());
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

#[test]
fn a_run_that_is_held_waits_paused_or_not_and_goes_on_as_it_was() {
    for (speed, paused) in [
        (None, false),
        (Some(100.0), false),
        (Some(0.01), false),
        (None, true),
    ] {
        let (pace, cancel) = (Pace::new(speed, paused), AtomicBool::new(false));
        follow(&pace, &cancel, || {
            let held = pace.hold(PATIENCE).expect("it goes on");
            let at = held.at();
            // Whoever lets it go on meanwhile does not let it pass.
            pace.step(Duration::from_secs(1));
            pace.resume();
            pace.set_speed(None);
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert_eq!((pace.reached(), held.at()), (at, at));
            drop(held);
            until(|| pace.reached() == Instant::ZERO + Duration::from_secs(10));
        });
    }
}

#[test]
fn a_run_is_held_until_all_that_hold_it_let_go() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    follow(&pace, &cancel, || {
        let first = pace.hold(PATIENCE).expect("it goes on");
        let second = pace.hold(PATIENCE).expect("it goes on");
        let at = first.at();
        drop(first);
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert_eq!((pace.reached(), second.at()), (at, at));
    });
}

#[test]
fn a_run_that_has_ended_or_never_begins_is_not_held() {
    let (pace, cancel) = (Pace::default(), AtomicBool::new(false));
    follow(&pace, &cancel, || {});
    let asked = WallInstant::now();
    assert!(pace.hold(PATIENCE).is_none());
    assert!(asked.elapsed() < PATIENCE, "it is not waited for");
    let soon = std::time::Duration::from_millis(1);
    assert!(Pace::default().hold(soon).is_none());
}
