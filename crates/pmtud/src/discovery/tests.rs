use narrows_units::{Duration, Rng};

use super::*;
use crate::black_hole::LossRule;
use crate::search::Stack;
use crate::timer::{ProbeTimer, Timers};

/// A path in virtual time.
struct Path {
    largest: u16,
    rtt: Duration,
    loss: f64,
    /// Routers report what is too big, with this MTU.
    reports: Option<u32>,
    rng: Rng,
}

impl Path {
    fn silent(mtu: u16) -> Self {
        Self {
            largest: mtu - 28,
            rtt: Duration::from_millis(50),
            loss: 0.0,
            reports: None,
            rng: Rng::for_name(1, "path"),
        }
    }

    fn reporting(mtu: u16) -> Self {
        Self {
            reports: Some(u32::from(mtu)),
            ..Self::silent(mtu)
        }
    }

    fn carries(&mut self, size: u16) -> bool {
        let lost = self.loss > 0.0 && self.rng.unit() < self.loss;
        size <= self.largest && !lost
    }
}

/// Runs `discovery` over `path` until `end`, or until nothing is to come.
fn run(discovery: &mut Discovery, path: &mut Path, mut now: Instant, end: Instant) -> Instant {
    let mut answers: Vec<(Instant, u64, Option<u32>)> = Vec::new();
    loop {
        while let Some(probe) = discovery.poll_probe(now) {
            if path.carries(probe.size) {
                answers.push((now + path.rtt, probe.number, None));
            } else if let (Some(mtu), true) = (path.reports, probe.size > path.largest) {
                answers.push((now + path.rtt, probe.number, Some(mtu)));
            }
        }
        answers.sort_by_key(|answer| answer.0);
        let answer = answers.first().map(|answer| answer.0);
        let Some(next) = answer.into_iter().chain(discovery.timeout()).min() else {
            return now;
        };
        if next > end {
            return end;
        }
        now = next;
        if answer == Some(now) {
            let (_, number, report) = answers.remove(0);
            match report {
                None => {
                    discovery.acknowledged(now, number);
                }
                Some(mtu) => {
                    let quotes = Some(number);
                    discovery.reported(now, Report { mtu, quotes });
                }
            }
        } else {
            discovery.on_timeout(now);
        }
    }
}

fn after(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn found(search: Search, path: &mut Path) -> Discovery {
    let mut discovery = Discovery::new(Settings::ipv4(1_500), search);
    discovery.connected_at_base(Instant::ZERO);
    run(&mut discovery, path, Instant::ZERO, after(290));
    assert_eq!(discovery.state(), State::SearchComplete, "{search}");
    discovery
}

#[test]
fn the_cells_of_the_report_with_reports_are_tried_as_published() {
    // MAMI report, section 3.1.3: sizes that arrived and the largest, of step 1, step 50 and
    // table; sizes tried of binary.
    for (mtu, step, fifty, table, binary) in [
        (1_500, (273, 1_472), (6, 1_450), (7, 1_472), 1),
        (1_492, (265, 1_464), (6, 1_450), (6, 1_464), 2),
        (1_480, (253, 1_452), (6, 1_450), (6, 1_452), 2),
        (1_460, (233, 1_432), (6, 1_432), (6, 1_432), 2),
        (1_454, (227, 1_426), (6, 1_426), (6, 1_426), 2),
        (1_372, (145, 1_344), (4, 1_344), (3, 1_344), 2),
    ] {
        let with = |search| found(search, &mut Path::reporting(mtu));
        for (search, expected) in [
            (Search::Step(1), step),
            (Search::Step(50), fifty),
            (Search::Table, table),
        ] {
            let discovery = with(search);
            let cell = (discovery.counts().sizes_arrived, discovery.plpmtu());
            assert_eq!(cell, expected, "{search} at {mtu}");
        }
        let discovery = with(Search::Binary);
        let cell = (discovery.counts().sizes_tried, discovery.plpmtu());
        assert_eq!(cell, (binary, mtu - 28), "binary at {mtu}");
    }
}

#[test]
fn a_silent_limit_costs_max_probes_timeouts_for_each_size_that_fails() {
    for (probes, failed) in [(3, 1), (10, 1)] {
        let mut settings = Settings::ipv4(1_500);
        settings.max_probes = probes;
        settings.timers.probe = ProbeTimer::Fixed(Duration::from_millis(140));
        let mut discovery = Discovery::new(settings, Search::Table);
        discovery.connected_at_base(Instant::ZERO);
        let path = &mut Path::silent(1_480);
        while discovery.state() == State::Searching {
            let now = run(&mut discovery, path, Instant::ZERO, after(100));
            assert!(now <= after(100));
        }
        let counts = discovery.counts();
        assert_eq!(counts.sizes_failed, failed);
        assert_eq!(counts.probes, 5 + u64::from(probes));
        assert_eq!(discovery.plpmtu(), 1_412);
    }
}

#[test]
fn the_base_is_confirmed_before_larger_sizes_unless_that_was_done() {
    let mut discovery = Discovery::new(Settings::ipv4(1_500), Search::Binary);
    assert_eq!(discovery.poll_probe(Instant::ZERO), None, "disabled");
    discovery.connected();
    let probe = discovery.poll_probe(Instant::ZERO).unwrap();
    assert_eq!((probe.size, probe.purpose), (1_200, Purpose::Base));
    assert_eq!(discovery.poll_probe(Instant::ZERO), None, "one at a time");
    discovery.acknowledged(after(1), probe.number);
    let probe = discovery.poll_probe(after(1)).unwrap();
    assert_eq!((probe.size, probe.purpose), (1_472, Purpose::Search));
    assert!(
        !discovery.acknowledged(after(1), probe.number + 1),
        "not sent yet"
    );
    discovery.disconnected();
    assert_eq!((discovery.plpmtu(), discovery.timeout()), (0, None));
    assert!(!discovery.acknowledged(after(2), probe.number), "forgotten");
}

#[test]
fn a_path_below_the_base_is_an_error_in_which_the_smallest_is_used() {
    let mut discovery = Discovery::new(Settings::ipv4(1_500), Search::Binary);
    discovery.connected();
    run(
        &mut discovery,
        &mut Path::silent(1_100),
        Instant::ZERO,
        after(60),
    );
    assert_eq!((discovery.state(), discovery.plpmtu()), (State::Error, 40));
    // The path gets better: what it can carry is found.
    run(
        &mut discovery,
        &mut Path::silent(1_400),
        after(60),
        after(120),
    );
    assert_eq!(
        (discovery.state(), discovery.plpmtu()),
        (State::SearchComplete, 1_372)
    );
    // And one that carries nothing at all is given up.
    let mut discovery = Discovery::new(Settings::ipv4(1_500), Search::Binary);
    discovery.connected();
    run(
        &mut discovery,
        &mut Path::silent(60),
        Instant::ZERO,
        after(600),
    );
    assert_eq!(discovery.state(), State::Disabled);
}

#[test]
fn each_size_of_a_report_has_its_rule() {
    let report = |size: u32, quotes| Report {
        mtu: size + 28,
        quotes,
    };
    for (size, effect) in [
        (39, Effect::Implausible),
        (40, Effect::BelowBase),
        (1_199, Effect::BelowBase),
        (1_200, Effect::BlackHole),
        (1_331, Effect::BlackHole),
        (1_332, Effect::Complete),
        (1_333, Effect::TryNext(1_333)),
        (1_371, Effect::TryNext(1_371)),
        (1_372, Effect::Implausible),
        (70_000, Effect::Implausible),
    ] {
        let mut discovery = Discovery::new(Settings::ipv4(1_500), Search::Table);
        discovery.connected_at_base(Instant::ZERO);
        for _ in 0..2 {
            let probe = discovery.poll_probe(Instant::ZERO).unwrap();
            discovery.acknowledged(after(1), probe.number);
        }
        let probe = discovery.poll_probe(after(1)).unwrap();
        assert_eq!((discovery.plpmtu(), probe.size), (1_332, 1_372));
        let before = discovery.plpmtu();
        for wrong in [None, Some(probe.number + 1), Some(0)] {
            let made = discovery.reported(after(1), report(size, wrong));
            assert_eq!(made, Effect::Unverified, "{size}");
        }
        assert_eq!(
            discovery.reported(after(1), report(size, Some(probe.number))),
            effect
        );
        assert!(discovery.plpmtu() <= before, "adopted unprobed: {size}");
        if let Effect::TryNext(next) = effect {
            let probe = discovery.poll_probe(after(1)).unwrap();
            assert_eq!(probe.size, next);
            discovery.acknowledged(after(2), probe.number);
            assert_eq!(
                (discovery.state(), discovery.plpmtu()),
                (State::SearchComplete, next)
            );
        }
    }
}

#[test]
fn a_report_of_more_than_the_path_carries_ends_no_search() {
    let mut path = Path {
        largest: 1_322,
        ..Path::reporting(1_400)
    };
    assert_eq!(found(Search::Adaptive, &mut path).plpmtu(), 1_322);
}

#[test]
fn a_million_spoofed_reports_change_nothing() {
    let mut rng = Rng::for_name(7, "spoofed");
    let mut discovery = Discovery::new(Settings::ipv4(1_500), Search::Adaptive);
    discovery.connected_at_base(Instant::ZERO);
    let probe = discovery.poll_probe(Instant::ZERO).unwrap();
    let before = format!(
        "{:?}",
        (discovery.state(), discovery.plpmtu(), &discovery.probed)
    );
    for _ in 0..1_000_000 {
        let quotes = match rng.below(3) {
            0 => None,
            1 => Some(rng.draw_u64() | 1 << 40),
            _ => Some(probe.number + 1 + u64::from(rng.below(100))),
        };
        let mtu = rng.below(70_000);
        assert_eq!(
            discovery.reported(Instant::ZERO, Report { mtu, quotes }),
            Effect::Unverified
        );
    }
    let now = format!(
        "{:?}",
        (discovery.state(), discovery.plpmtu(), &discovery.probed)
    );
    assert_eq!(now, before);
}

#[test]
fn reports_that_the_settings_ignore_or_a_stack_whose_search_it_is_change_nothing() {
    for (reports, search, used) in [
        (Reports::Validated, Search::Binary, true),
        (Reports::Ignored, Search::Binary, false),
        (Reports::Validated, Search::Of(Stack::Picoquic), false),
    ] {
        let mut settings = Settings::ipv4(1_500);
        settings.reports = reports;
        let mut discovery = Discovery::new(settings, search);
        discovery.connected_at_base(Instant::ZERO);
        let probe = discovery.poll_probe(Instant::ZERO).unwrap();
        let report = Report {
            mtu: 1_400,
            quotes: Some(probe.number),
        };
        let effect = discovery.reported(Instant::ZERO, report);
        assert_eq!(effect != Effect::Unverified, used, "{reports:?} {search}");
    }
}

#[test]
fn every_search_ends_at_what_the_path_carries_under_loss_and_reports() {
    for seed in 0..300 {
        let mut rng = Rng::for_name(seed, "path");
        let mtu = 1_228 + rng.below(273) as u16;
        for search in [
            Search::Adaptive,
            Search::Binary,
            Search::Sctp,
            Search::Table,
        ] {
            let mut path = Path {
                rng: Rng::for_name(seed, "loss"),
                ..Path::silent(mtu)
            };
            path.loss = 0.02;
            path.reports = (seed % 2 == 0).then_some(u32::from(mtu));
            let discovery = found(search, &mut path);
            assert!(
                discovery.plpmtu() <= path.largest,
                "{search}: more than is carried"
            );
            assert!(discovery.plpmtu() >= 1_200);
        }
    }
}

#[test]
fn a_black_hole_is_found_within_five_timeouts_of_data() {
    let mut discovery = found(Search::Adaptive, &mut Path::silent(1_500));
    let now = after(1);
    // Three datagrams of data are lost; the rest is found by probes.
    for _ in 0..3 {
        discovery.data_lost(1_472);
    }
    let timeout = discovery.round_trip.timeout(ProbeTimer::Adaptive);
    let path = &mut Path::silent(1_400);
    let limit = now + Duration::from_nanos(5 * timeout.as_nanos());
    run(&mut discovery, path, now, limit);
    assert_eq!(discovery.counts().black_holes, 1);
    run(&mut discovery, path, limit, after(60));
    assert_eq!(discovery.plpmtu(), 1_372);
}

#[test]
fn a_lower_limit_is_found_by_confirmations_where_data_says_nothing() {
    let mut discovery = found(Search::Binary, &mut Path::silent(1_500));
    run(
        &mut discovery,
        &mut Path::silent(1_400),
        after(290),
        after(330),
    );
    assert_eq!(
        (discovery.counts().black_holes, discovery.plpmtu()),
        (1, 1_372)
    );
}

#[test]
fn a_dead_link_is_no_black_hole() {
    let mut discovery = found(Search::Adaptive, &mut Path::silent(1_500));
    run(
        &mut discovery,
        &mut Path::silent(60),
        after(290),
        after(500),
    );
    assert_eq!(discovery.counts().black_holes, 0);
    assert_eq!(discovery.plpmtu(), 1_472);
}

#[test]
fn random_loss_of_15_percent_is_no_black_hole_in_ten_million_datagrams() {
    let mut rng = Rng::for_name(3, "loss");
    let mut evidence = BlackHole::new(LossRule::Evidence, 3);
    let mut rule_of_three = BlackHole::new(LossRule::MaxProbes, 3);
    let (mut ours, mut theirs) = (0, 0);
    for _ in 0..10_000_000_u32 {
        let lost = rng.unit() < 0.15;
        let small = rng.below(10) == 0;
        for (hole, found) in [
            (&mut evidence, &mut ours),
            (&mut rule_of_three, &mut theirs),
        ] {
            match (small, lost) {
                (true, false) => hole.small_arrived(),
                (true, true) => {}
                (false, false) => hole.large_arrived(),
                (false, true) => hole.large_lost(),
            }
            if hole.is_found() {
                *found += 1;
                hole.large_arrived();
            }
        }
    }
    assert_eq!(ours, 0);
    assert!(
        theirs > 10_000,
        "the rule that loss can trigger, as the null model: {theirs}"
    );
}

#[test]
fn a_path_that_carries_more_is_found_by_the_raise_timer() {
    let mut discovery = found(Search::Adaptive, &mut Path::silent(1_400));
    assert_eq!(discovery.plpmtu(), 1_372);
    run(
        &mut discovery,
        &mut Path::silent(1_500),
        after(290),
        after(590),
    );
    assert_eq!(discovery.plpmtu(), 1_372, "not before its time");
    run(
        &mut discovery,
        &mut Path::silent(1_500),
        after(590),
        after(620),
    );
    assert_eq!(discovery.plpmtu(), 1_472);
    assert_eq!(discovery.raise_timer, None, "nothing is left to raise");
}

#[test]
fn where_data_confirms_the_size_no_probe_does() {
    let mut settings = Settings::ipv4(1_500);
    settings.timers = Timers {
        confirmation: None,
        ..Timers::ADAPTIVE
    };
    let mut discovery = Discovery::new(settings, Search::Adaptive);
    discovery.connected_at_base(Instant::ZERO);
    run(
        &mut discovery,
        &mut Path::silent(1_500),
        Instant::ZERO,
        after(3_000),
    );
    assert_eq!(discovery.counts().probes, 1);
}

#[test]
fn ipv6_starts_at_its_least_mtu() {
    let mut discovery = Discovery::new(Settings::ipv6(1_500), Search::Adaptive);
    discovery.connected_at_base(Instant::ZERO);
    let path = &mut Path {
        largest: 1_420 - 48,
        ..Path::silent(1_500)
    };
    run(&mut discovery, path, Instant::ZERO, after(100));
    assert_eq!(discovery.plpmtu(), 1_372);
}
