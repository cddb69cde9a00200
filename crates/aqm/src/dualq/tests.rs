//! Each rule against the report and the study's public code, and wrong ones.

use narrows_units::Words;
use narrows_wire::Ecn::{Ect0, Ect1, NotEct};

use super::*;
use crate::testing::{Bench, ETHERNET, Taken, ms, us};

const FRAME: u32 = 1514;

fn queue(words: &str, base: f64, mutant: Option<Mutant>) -> Bench {
    let mut b = Bench::new(words);
    let words = words.strip_prefix("dualq").unwrap();
    let config = reading::fresh::<DualQConfig>(Words::new(words)).unwrap();
    let mut queue = DualQ::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
    queue.sides[CLASSIC].pi.probability = (base * ONE as f64) as u64;
    queue.mutant = mutant;
    b.queue = Box::new(queue);
    b
}

/// Parts of 20000 packets that were marked and dropped, each alone in the queue.
fn parts(words: &str, base: f64, ecn: Ecn, mutant: Option<Mutant>) -> (f64, f64) {
    let mut b = queue(words, base, mutant);
    for _ in 0..20_000 {
        b.offer(ms(1), 1, ecn, FRAME);
        b.take(ms(1));
    }
    let part = |n: usize| n as f64 / 20_000.0;
    (part(b.log.marks.len()), part(b.log.drops.len()))
}

fn near(found: f64, want: f64) -> bool {
    (found - want).abs() <= 4.0 * (want * (1.0 - want) / 20_000.0).sqrt() + 1e-9
}

fn pi2_couples_by_the_square(mutant: Option<Mutant>) -> bool {
    let (classic, _) = parts("dualq", 0.2, Ect0, mutant);
    let (low, _) = parts("dualq", 0.2, Ect1, mutant);
    let (_, dropped) = parts("dualq", 0.2, NotEct, mutant);
    near(classic, 0.04) && near(dropped, 0.04) && near(low, 0.4)
}

#[test]
fn pi2_marks_classic_packets_with_the_square_and_l_with_k_times_the_base() {
    assert!(pi2_couples_by_the_square(None));
    assert!(!pi2_couples_by_the_square(Some(Mutant::Unsquared)));
    assert!(!pi2_couples_by_the_square(Some(Mutant::NoK)));
}

#[test]
fn pi2_drops_from_both_queues_once_the_classic_part_is_a_quarter() {
    let (marked, dropped) = parts("dualq", 0.5, Ect0, None);
    assert!(marked == 0.0 && near(dropped, 0.25), "{marked} {dropped}");
    let (marked, dropped) = parts("dualq", 0.5, Ect1, None);
    // What is not dropped is marked.
    assert!(
        near(dropped, 0.25) && near(marked, 0.75),
        "{marked} {dropped}"
    );
    let (_, dropped) = parts("dualq", 0.499, Ect1, None);
    assert_eq!(dropped, 0.0);
}

fn pie_couples_by_the_root(mutant: Option<Mutant>) -> bool {
    let (low, _) = parts("dualq aqm pie", 0.04, Ect1, mutant);
    let (all, _) = parts("dualq aqm pie", 0.3, Ect1, mutant);
    near(low, 0.4) && near(all, 1.0)
}

#[test]
fn pie_marks_l_with_k_times_the_root() {
    assert!(pie_couples_by_the_root(None));
    assert!(!pie_couples_by_the_root(Some(Mutant::NoK)));
}

/// Four packets of L that come at once, of which one leaves each 2 ms; marks by packet.
fn marks_of_four(words: &str, mutant: Option<Mutant>) -> Vec<u64> {
    let mut b = queue(words, 0.0, mutant);
    (0..4).for_each(|_| assert!(b.offer(ms(10), 1, Ect1, FRAME).1));
    (0..4).for_each(|i| assert!(b.take(ms(12 + 2 * i)).is_some()));
    b.log.marks.iter().map(|m| m.1).collect()
}

#[test]
fn the_step_of_pi2_takes_delay_and_two_frames_behind() {
    // 3, 2, 1 and no frame are behind: more than two only behind the first.
    assert_eq!(marks_of_four("dualq", None), [0]);
    assert_eq!(marks_of_four("dualq step_thresh 3ms", None), []);
    assert_ne!(marks_of_four("dualq", Some(Mutant::StepOfOne)), [0]);
}

#[test]
fn the_step_of_pie_is_taken_as_a_packet_comes() {
    let mut b = queue("dualq aqm pie", 0.0, None);
    (0..3).for_each(|_| assert!(b.offer(ms(10), 1, Ect1, FRAME).1));
    // The oldest has waited for 1 ms, not longer.
    b.offer(ms(11), 1, Ect1, FRAME);
    let (late, _) = b.offer(us(11_001), 1, Ect1, FRAME);
    let marks: Vec<_> = b.log.marks.iter().map(|m| (m.1, m.2)).collect();
    assert_eq!(marks, [(late, MarkCause::Step)]);
}

#[test]
fn cred_marks_l_with_the_classic_delay_over_a_quarter_of_a_second() {
    let mut b = queue("dualq aqm cred", 0.0, None);
    b.offer(ms(0), 1, Ect0, FRAME);
    for _ in 0..20_000 {
        b.offer(ms(50), 2, Ect1, FRAME);
        assert_eq!(b.take(ms(50)).map(|t| t.flow), Some(2));
    }
    assert!(near(b.log.marks.len() as f64 / 20_000.0, 0.2));
    // More than five frames behind: marked in any case.
    let mut b = queue("dualq aqm cred", 0.0, None);
    (0..8).for_each(|_| assert!(b.offer(ms(1), 2, Ect1, FRAME).1));
    (0..8).for_each(|_| assert!(b.take(ms(1)).is_some()));
    let marked: Vec<_> = b.log.marks.iter().map(|m| m.1).collect();
    assert_eq!(marked, [0, 1]);
}

fn cred_squares_the_smoothed_delay(mutant: Option<Mutant>) -> bool {
    let mut b = queue("dualq aqm cred", 0.0, mutant);
    // Each packet has waited for 100 ms as it leaves: d̃ becomes 100 ms, p_C (0.1/0.5)².
    for i in 0..20_200u64 {
        b.offer(ms(i * 100), 1, Ect0, FRAME);
        if i == 200 {
            b.log.marks.clear();
        }
        b.take(ms(i * 100 + 100));
    }
    near(b.log.marks.len() as f64 / 20_000.0, 0.04)
}

#[test]
fn cred_marks_classic_packets_with_the_square_of_the_smoothed_delay_over_half_a_second() {
    assert!(cred_squares_the_smoothed_delay(None));
    assert!(!cred_squares_the_smoothed_delay(Some(Mutant::Unsquared)));
    // A new delay weighs 1/32.
    let config = DualQConfig::of(Aqm::Cred);
    let mut q = DualQ::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "q"));
    q.leaves_by_cred(ms(0), CLASSIC, Duration::from_millis(32));
    assert_eq!(q.smoothed >> SMOOTHING, 1_000_000);
}

fn red_is_between_its_thresholds(mutant: Option<Mutant>) -> bool {
    let mut ends = queue("dualq aqm red min 3 max 5", 0.0, mutant);
    let taken: Vec<_> = (0..8)
        .map(|_| ends.offer(ms(1), 1, NotEct, FRAME).1)
        .collect();
    // Up to 3 waiting: never; above 5: always. In between 1 and 2 %, which this seed does
    // not draw.
    let ends = taken == [true, true, true, true, true, true, false, false];
    let mut b = queue(
        "dualq aqm red min 10 max 20 l_min 1 l_max 1000",
        0.0,
        mutant,
    );
    (0..15).for_each(|_| assert!(b.offer(ms(1), 1, Ect0, FRAME).1));
    b.log.marks.clear();
    for _ in 0..20_000 {
        b.offer(ms(1), 1, Ect0, FRAME);
        b.take(ms(1));
    }
    ends && near(b.log.marks.len() as f64 / 20_000.0, 0.01)
}

#[test]
fn red_marks_by_the_length_and_two_per_cent_below_the_upper_threshold() {
    assert!(red_is_between_its_thresholds(None));
    assert!(!red_is_between_its_thresholds(Some(Mutant::Inclusive)));
}

/// Both queues full at once; flows in the order in which they leave.
fn order(words: &str, mutant: Option<Mutant>, packets: usize) -> Vec<u16> {
    let mut b = queue(words, 0.0, mutant);
    for _ in 0..packets {
        b.offer(ms(1), 1, Ect1, FRAME);
        b.offer(ms(1), 2, NotEct, FRAME);
    }
    let all = std::iter::from_fn(|| b.take(ms(1)));
    all.map(|t| t.flow).collect()
}

#[test]
fn the_queues_take_turns_of_so_many_packets() {
    let words = "dualq aqm red wrr 2:6 max 1000 l_max 1000";
    // 1:3 after division; when L has no more, the classic queue goes on.
    assert_eq!(order(words, None, 4), [1, 2, 2, 2, 1, 2, 1, 1]);
    assert_ne!(
        order(words, Some(Mutant::TurnsSwapped), 4),
        [1, 2, 2, 2, 1, 2, 1, 1]
    );
}

fn shifted(mutant: Option<Mutant>) -> Vec<Taken> {
    let mut b = queue("dualq shift 30ms", 0.0, mutant);
    b.offer(ms(0), 2, NotEct, FRAME);
    b.offer(ms(10), 1, Ect1, FRAME);
    b.offer(ms(20), 1, Ect1, FRAME);
    let first = b.take(ms(25));
    // The classic head has waited 51 ms, L's 20 ms and 30 ms more: not more than it.
    let second = b.take(us(51_000));
    [first, second].into_iter().flatten().collect()
}

#[test]
fn priority_is_shifted_in_time() {
    let flows = |mutant| shifted(mutant).iter().map(|t| t.flow).collect::<Vec<_>>();
    // At 25 ms L has 15 + 30 ms against 25; at 51 ms 31 + 30 against 51.
    assert_eq!(flows(None), [1, 1]);
    assert_ne!(flows(Some(Mutant::ShiftSwapped)), [1, 1]);
    let mut b = queue("dualq shift 30ms", 0.0, None);
    b.offer(ms(0), 2, NotEct, FRAME);
    b.offer(ms(40), 1, Ect1, FRAME);
    // 30 ms are not less than 40, so the classic queue's turn has come; at 30 not yet.
    assert_eq!(b.take(ms(40)).map(|t| t.flow), Some(2));
    assert_eq!(order("dualq aqm cred", None, 2), [1, 1, 2, 2]);
}

#[test]
fn l_is_chosen_by_ecn_or_by_dscp_and_reported_as_a_band() {
    let mut b = queue("dualq", 0.0, None);
    for ecn in [NotEct, Ect0, Ect1, Ecn::Ce] {
        b.offer(ms(1), 1, ecn, FRAME);
    }
    let bands: Vec<_> = std::iter::from_fn(|| b.take(ms(1)))
        .map(|t| t.band)
        .collect();
    assert_eq!(bands, [1, 1, 0, 0]);
    let mut b = queue("dualq dscp 0", 0.0, None);
    b.offer(ms(1), 1, NotEct, FRAME);
    assert_eq!(b.take(ms(1)).map(|t| t.band), Some(1));
}

#[test]
fn the_updates_come_each_tupdate_and_pi2_falls_back_on_l() {
    let mut b = queue("dualq", 0.0, None);
    assert_eq!(b.queue.next_tick(), Some(ms(16)));
    b.offer(ms(0), 1, Ect1, FRAME);
    b.tick_until(ms(16));
    // 0.16·(16 − 15) ms + 1.6·16 ms.
    assert!((b.queue.probability() - 0.025_76).abs() < 1e-6);
    assert_eq!(b.queue.next_tick(), Some(ms(32)));
    let mut b = queue("dualq aqm pie", 0.0, None);
    b.offer(ms(0), 1, Ect1, FRAME);
    b.tick_until(ms(15));
    assert_eq!(b.queue.probability(), 0.0);
    assert_eq!(queue("dualq aqm cred", 0.0, None).queue.next_tick(), None);
}

#[test]
fn what_contradicts_is_refused() {
    let refused = |words: &str| {
        let e = crate::QueueSpec::parse(words).unwrap_err();
        words[e.span].to_owned()
    };
    assert_eq!(refused("dualq aqm red coupled"), "coupled");
    assert_eq!(refused("dualq uncoupled"), "uncoupled");
    assert_eq!(refused("dualq aqm red l_min 5 min 300"), "min");
    assert_eq!(refused("dualq aqm fred"), "fred");
    assert_eq!(refused("dualq wrr 0:1"), "0:1");
    let mut b = queue("dualq aqm pie", 0.0, None);
    assert!(b.queue.change(ms(1), "aqm red").is_err());
    b.queue.change(ms(1), "dualq target 5ms wrr 1:2").unwrap();
}

#[test]
fn a_draw_wins_below_the_probability() {
    let q = || {
        let config = DualQConfig::default();
        DualQ::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "q"))
    };
    let draw = q().rng.draw_u64() >> 16;
    assert!(!q().roll(draw));
    assert!(q().roll(draw + 1));
}

#[test]
fn red_has_thresholds_of_its_own_for_l_and_draws_only_between_them() {
    let mut b = queue("dualq aqm red min 3 max 5 l_min 1 l_max 2", 0.0, None);
    (0..5).for_each(|_| assert!(b.offer(ms(1), 1, Ect1, FRAME).1));
    // Up to one waiting never, above two always.
    let marks: Vec<_> = b.log.marks.iter().map(|m| m.1).collect();
    assert!(marks.ends_with(&[3, 4]), "{marks:?}");
    assert!(!marks.contains(&0) && !marks.contains(&1), "{marks:?}");

    let words = Words::new("aqm red l_min 0 l_max 1");
    let config = reading::fresh::<DualQConfig>(words).unwrap();
    let mut q = DualQ::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "q"));
    let before = q.rng.clone().draw_u64();
    assert!(!q.red(LOW));
    assert_eq!(q.rng.draw_u64(), before);
}

#[test]
fn uncoupled_pie_marks_l_by_its_own_controller_alone() {
    let words = "dualq aqm pie uncoupled";
    assert_eq!(parts(words, 1.0, Ect1, None), (0.0, 0.0));
    assert_eq!(parts("dualq aqm pie", 1.0, Ect1, None), (1.0, 0.0));

    let targets = |words: &str| {
        let config = reading::fresh::<DualQConfig>(Words::new(words)).unwrap();
        [LOW, CLASSIC].map(|side| controller(&config, side).target)
    };
    let [one, nine] = [1, 9].map(Duration::from_millis);
    assert_eq!(targets("aqm pie uncoupled target 9ms"), [nine, nine]);
    assert_eq!(
        targets("aqm pie uncoupled target 9ms l_target 1ms"),
        [one, nine]
    );
}

#[test]
fn a_lower_limit_drops_what_exceeds_it_the_classic_packets_first() {
    for (limit, drops) in [(5, vec![]), (4, vec![2]), (2, vec![2, 3, 4])] {
        let mut b = queue("dualq", 0.0, None);
        for ecn in [Ect1, Ect1, NotEct, NotEct, NotEct] {
            assert!(b.offer(ms(1), 1, ecn, FRAME).1);
        }
        b.queue.change(ms(1), &format!("limit {limit}")).unwrap();
        assert!(b.take(ms(1)).is_some());
        let found: Vec<_> = b.log.drops.iter().map(|d| d.1).collect();
        assert_eq!(found, drops, "{limit}");
    }
}

#[test]
fn each_aqm_has_its_usual_scheduler() {
    let shift = Scheduler::Shift(Duration::from_millis(30));
    for (aqm, scheduler) in [
        (Aqm::Pi2, shift),
        (Aqm::Pie, Scheduler::Priority),
        (Aqm::Cred, Scheduler::Priority),
        (Aqm::Red, Scheduler::Wrr(1, 1)),
    ] {
        assert_eq!(DualQConfig::of(aqm).scheduler, scheduler, "{aqm:?}");
    }
}
