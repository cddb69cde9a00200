//! The parts of following one at a time, without a clock that decides.

use super::*;

/// Asks for the machine alone, and has a name, names and a kernel of its own; delivers a kilobyte
/// to the first flow at each of these times, also after it was cancelled.
struct Odd {
    alone: bool,
    kernel: Option<VirtualKernel>,
    at_ms: Vec<u64>,
    ends_ms: u64,
    /// The changes of the plan that the run was given, as it saw them at its end.
    changes: Mutex<Option<usize>>,
}

impl Odd {
    fn at(at_ms: Vec<u64>) -> Self {
        Self {
            alone: false,
            kernel: None,
            ends_ms: at_ms.last().copied().unwrap_or_default(),
            at_ms,
            changes: Mutex::new(None),
        }
    }
}

impl Engine for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn names(&self, _: &Plan) -> Vec<String> {
        vec!["host/a".to_owned(), "link/l/up/rate".to_owned()]
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        self.kernel.as_ref()
    }

    fn accepts(&self, _: &Plan) -> Result<(), EngineError> {
        Err(EngineError::Refused("not this one".to_owned()))
    }

    fn run(
        &self,
        _: &Plan,
        _: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let flow = FlowId(0);
        for ms in &self.at_ms {
            let now = Instant::ZERO + Duration::from_millis(*ms);
            sink.record(now, Event::Delivered { flow, bytes: 1000 });
        }
        let amended = handle.amended.and_then(|amended| amended.newer(&mut 0));
        *self.changes.lock().expect("no panic") = amended.map(|plan| plan.changes.len());
        Ok(Ended {
            virtual_time: Duration::from_millis(self.ends_ms),
            ..Ended::default()
        })
    }
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// The times of the samples of a run by this engine.
fn samples_of(engine: &dyn Engine, pace: &Pace, handle: &RunHandle<'_>) -> Vec<Instant> {
    let (send, samples) = mpsc::channel();
    let send = Mutex::new(send);
    let followed = Followed {
        engine,
        pace,
        samples: &|sample: Sample| {
            let send = send.lock().expect("no panic");
            send.send(sample.at).expect("the test receives");
        },
    };
    followed
        .run(&plan(), 1, &mut Count(0), handle)
        .expect("it runs");
    samples.try_iter().collect()
}

#[test]
fn an_engine_that_is_followed_is_still_itself() {
    let kernel = VirtualKernel {
        id: "6.18-abc".to_owned(),
        ..VirtualKernel::default()
    };
    let (pace, plan) = (Pace::default(), plan());
    for alone in [true, false] {
        let odd = Odd {
            alone,
            kernel: Some(kernel.clone()),
            ..Odd::at(Vec::new())
        };
        let followed = Followed {
            engine: &odd,
            pace: &pace,
            samples: &|_| {},
        };
        assert_eq!((followed.name(), followed.alone()), ("odd", alone));
        assert_eq!(followed.virtual_kernel(), Some(&kernel));
        assert_eq!(followed.names(&plan), odd.names(&plan));
        let refused = followed.accepts(&plan).map_err(|why| why.to_string());
        assert!(refused.is_err_and(|why| why.contains("not this one")));
    }
}

#[test]
fn what_runs_in_virtual_time_in_this_process_alone_has_a_pace() {
    for (alone, boots, has) in [
        (false, false, true),
        (true, false, false),
        (false, true, false),
        (true, true, false),
    ] {
        let odd = Odd {
            alone,
            kernel: boots.then(VirtualKernel::default),
            ..Odd::at(Vec::new())
        };
        assert_eq!(Followed::has_pace(&odd), has, "{alone} {boots}");
    }
}

/// A run that has no pace is neither held back nor given changes.
#[test]
fn a_pace_is_that_of_runs_which_have_one() {
    let changed = {
        let mut changed = plan();
        changed.changes.push(narrows_scenario::TimedChange {
            name: None,
            at: ms(1_000),
            target: "link/access/up/bottleneck".to_owned(),
            words: "rate 1Mbit".to_owned(),
        });
        Arc::new(changed)
    };
    for alone in [true, false] {
        let odd = Odd {
            alone,
            ..Odd::at((0..10).collect())
        };
        let pace = Pace::new(None, true);
        pace.amend(Arc::clone(&changed));
        // A run that is cancelled does not wait for ever where it does.
        let cancel = AtomicBool::new(true);
        let handle = RunHandle {
            cancel: Some(&cancel),
            ..RunHandle::default()
        };
        let followed = Followed {
            engine: &odd,
            pace: &pace,
            samples: &|_| {},
        };
        let mut asked = Asked(&pace, false);
        followed
            .run(&plan(), 1, &mut asked, &handle)
            .expect("it runs");
        let given = *odd.changes.lock().expect("no panic");
        let expected = if alone {
            (false, None)
        } else {
            (true, Some(1))
        };
        assert_eq!((asked.1, given), expected);
    }
}

/// Whether the pace of a run that is cancelled was asked.
struct Asked<'a>(&'a Pace, bool);

impl EventSink for Asked<'_> {
    fn record(&mut self, _: Instant, _: Event<'_>) {
        self.1 |= self.0.free_until.load(Ordering::Relaxed) == u64::MAX;
    }
}

#[test]
fn a_pace_has_the_speed_and_the_time_that_it_is_given() {
    let pace = Pace::new(Some(2.5), false);
    assert_eq!((pace.speed(), pace.reached()), (Some(2.5), Instant::ZERO));
    pace.set_speed(None);
    pace.set_reached(ms(70));
    assert_eq!((pace.speed(), pace.reached()), (None, ms(70)));
}

/// Five milliseconds of wall time.
#[test]
fn a_run_that_is_not_ahead_goes_on_for_a_slice_without_asking() {
    for (until, free_until) in [(None, 15_000), (Some(2), 12_000), (Some(7), 15_000)] {
        let pace = Pace::new(Some(1_000.0), false);
        pace.set_reached(ms(10_000));
        if let Some(seconds) = until {
            pace.step(Duration::from_secs(seconds));
        }
        pace.wait(ms(10_000), &RunHandle::default(), &mut || {});
        let found = pace.free_until.load(Ordering::Relaxed);
        assert_eq!(found, ms(free_until).as_nanos(), "{until:?}");
    }
}

#[test]
fn a_run_that_is_ahead_waits_for_the_wall_clock_and_looks_in_between() {
    for (ahead, speed, waits_ms) in [
        (1.0, 100.0, 10),
        (0.5, 100.0, 5),
        (1.0, 1.0, 20),
        (1e9, 1e-9, 20),
    ] {
        let waits = std::time::Duration::from_millis(waits_ms);
        assert_eq!(time_ahead(ahead, speed), waits, "{ahead} {speed}");
    }
}

#[test]
fn a_run_is_far_ahead_that_passes_an_interval_in_ten_milliseconds() {
    let interval = Duration::from_millis(100);
    for (speed, far) in [(1.0, false), (9.9, false), (10.0, true), (1_000.0, true)] {
        assert_eq!(is_far_ahead(speed, interval), far, "{speed}");
    }
}

#[test]
fn a_run_that_is_held_says_where_it_waits() {
    let (pace, cancel) = (Pace::new(None, true), AtomicBool::new(false));
    follow(&pace, &cancel, || {
        pace.step(Duration::from_millis(250));
        until(|| pace.reached() >= ms(250) && pace.paused());
        let held = pace.hold(PATIENCE).expect("it waits");
        assert_eq!(held.at(), ms(250));
        drop(held);
        cancel.store(true, Ordering::Relaxed);
    });
}

/// Also where the last sample was a moment ago.
#[test]
fn each_step_of_a_paused_run_ends_with_a_sample() {
    let (pace, cancel) = (Pace::new(None, true), AtomicBool::new(false));
    let ends = [250, 500, 750, 1_000].map(ms);
    let (.., samples) = follow(&pace, &cancel, || {
        for end in ends {
            // A step is from where the run waits.
            drop(pace.hold(PATIENCE).expect("it waits"));
            pace.step(Duration::from_millis(250));
            until(|| pace.reached() >= end && pace.paused());
        }
        drop(pace.hold(PATIENCE).expect("it waits"));
        cancel.store(true, Ordering::Relaxed);
    });
    let found: Vec<Instant> = samples.iter().map(|sample| sample.at).collect();
    assert!(found.starts_with(&ends), "{found:?}");
}

#[test]
fn a_run_that_is_held_back_gives_no_more_samples_than_twenty_a_second() {
    let (pace, cancel) = (Pace::new(Some(50.0), false), AtomicBool::new(false));
    let begun = WallInstant::now();
    let (.., samples) = follow(&pace, &cancel, || {});
    let most = begun.elapsed().as_millis() / SAMPLE_EVERY.as_millis();
    // And one at the end.
    assert!(
        samples.len() as u128 <= most + 1,
        "{} {most}",
        samples.len()
    );
}

/// A stretch of less than a fifth of the plan's interval holds too few packets.
#[test]
fn a_run_is_looked_at_each_64_events_and_the_stretch_until_its_end_gives_a_sample() {
    let interval = plan().sample_interval.as_nanos() / 1_000_000;
    assert_eq!(interval % 5, 0);
    let least = interval / 5;
    for (events, end, sampled) in [
        (64, least, true),
        (64, 4 * least, true),
        (64, least - 1, false),
        (63, 4 * least, false),
    ] {
        let odd = Odd {
            alone: true,
            ends_ms: end,
            ..Odd::at(vec![0; events])
        };
        let found = samples_of(&odd, &Pace::default(), &RunHandle::default());
        let expected = if sampled { vec![ms(end)] } else { Vec::new() };
        assert_eq!(found, expected, "{events} events, {end} ms");
    }
}

/// What packets do counts while it is recorded, other things also while somebody watches, and the
/// opening of a connection always.
#[test]
fn events_are_recorded_where_they_will_be_part_of_a_sample() {
    let (pace, plan, odd) = (Pace::default(), plan(), Odd::at(Vec::new()));
    let followed = Followed {
        engine: &odd,
        pace: &pace,
        samples: &|_| {},
    };
    for (watched, recorded, expected) in [
        (true, true, (Some(0.08), Some(1.0))),
        (true, false, (Some(0.0), Some(1.0))),
        (false, false, (Some(0.0), None)),
    ] {
        let mut follower = Follower::new(&followed, &plan);
        (follower.watched, follower.recorded) = (watched, recorded);
        let flow = FlowId(0);
        let (ecn, accecn, bytes) = (false, false, 10_000);
        follower.record(ms(1), Event::Established { flow, ecn, accecn });
        follower.record(ms(2), Event::Delivered { flow, bytes });
        follower.record(ms(3), Event::Retransmitted { flow, bytes: 1_000 });
        let values = follower.cut.at(ms(1_000)).remove(0).values;
        let of = |metric: &str| values.iter().find(|(name, _)| name == metric).map(|v| v.1);
        assert_eq!((of("goodput_mbit"), of("retransmissions")), expected);
    }
}

/// A wall clock that does not go on, and one that is past the time for it.
#[test]
fn packets_are_recorded_again_for_the_last_fifth_of_a_sample_s_time() {
    let (pace, plan, odd) = (Pace::default(), plan(), Odd::at(Vec::new()));
    let followed = Followed {
        engine: &odd,
        pace: &pace,
        samples: &|_| {},
    };
    let now = WallInstant::now();
    let hour = std::time::Duration::from_secs(3_600);
    for (sampled, recorded) in [(now + hour, false), (now - RECORDED * 4, true)] {
        let mut follower = Follower::new(&followed, &plan);
        (follower.watched, follower.recorded, follower.given) = (true, false, sampled);
        follower.look(ms(500));
        assert_eq!(follower.recorded, recorded);
    }
}

/// Ten seconds after the last sample.
#[test]
fn after_a_sample_packets_are_recorded_on_unless_the_run_is_far_ahead() {
    let (pace, plan, odd) = (Pace::default(), plan(), Odd::at(Vec::new()));
    let followed = Followed {
        engine: &odd,
        pace: &pace,
        samples: &|_| {},
    };
    let ago = std::time::Duration::from_secs(10);
    assert_eq!(plan.sample_interval, Duration::from_millis(50));
    // Of an interval a run may not pass the whole in 10 ms.
    for (speed, recorded) in [(0.25, true), (2.5, true), (33.3, false)] {
        let mut follower = Follower::new(&followed, &plan);
        (follower.watched, follower.recorded) = (true, true);
        follower.given = WallInstant::now() - ago;
        follower.give(ms((speed * 10_000.0) as u64));
        assert_eq!(follower.recorded, recorded, "{speed}");
    }
}
