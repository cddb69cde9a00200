use narrows_core::{DropCause, MarkCause};
use narrows_units::{Duration, Instant, Rate};
use narrows_wire::Ecn::{Ce, Ect0, Ect1, NotEct};

use super::*;
use crate::testing::{Bench, ETHERNET, Log, ms, us};

const FRAME: u32 = 1514;

/// The queue itself, its p′ set by hand.
struct Fixed {
    queue: DualPi2,
    pool: narrows_core::PacketPool,
    log: Log,
    sent: Vec<(u8, Box<Packet>)>,
}

impl Fixed {
    fn new(words: &str, p: f64) -> Self {
        let config = reading::fresh(narrows_units::Words::new(words)).unwrap();
        let mut queue = DualPi2::new(config, EntityId(1), ETHERNET, Rng::for_name(3, "q"));
        queue.pi.set_probability((p * ONE as f64) as u64);
        Self {
            queue,
            pool: Default::default(),
            log: Log::default(),
            sent: Vec::new(),
        }
    }

    /// Sends `n` packets through a queue that always holds ten of them, each
    /// waiting for `wait`; returns how many left.
    fn pass(&mut self, n: u32, ecn: Ecn, wait: Duration) -> u32 {
        let mut now = ms(1);
        let mut left = 0;
        for i in 0..n + 9 {
            let packet = crate::testing::packet(&mut self.pool, now, 1, ecn, FRAME);
            let mut out = Outlet {
                pool: &mut self.pool,
                events: &mut self.log,
                sent: &mut self.sent,
            };
            self.queue.enqueue(now, packet, &mut out);
            now += wait / 10;
            if i >= 9 && self.queue.backlog().packets > 9 {
                if let Some(packet) = self.queue.dequeue(now, &mut out) {
                    left += 1;
                    self.pool.give(packet);
                }
            }
        }
        left
    }

    /// Offers a frame at 1 ms.
    fn offer(&mut self, ecn: Ecn) {
        let packet = crate::testing::packet(&mut self.pool, ms(1), 1, ecn, FRAME);
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.log,
            sent: &mut self.sent,
        };
        assert!(self.queue.enqueue(ms(1), packet, &mut out));
    }

    /// Takes the next packet at 1 ms.
    fn take(&mut self) -> Option<Box<Packet>> {
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.log,
            sent: &mut self.sent,
        };
        self.queue.dequeue(ms(1), &mut out)
    }

    fn marked(&self, cause: MarkCause) -> f64 {
        self.log.marks.iter().filter(|m| m.2 == cause).count() as f64
    }

    fn dropped(&self, cause: DropCause) -> f64 {
        self.log.drops.iter().filter(|d| d.2 == cause).count() as f64
    }
}

/// Within four standard deviations of a binomial law.
fn near(found: f64, n: u32, p: f64) -> bool {
    let n = f64::from(n);
    (found - n * p).abs() <= 4.0 * (n * p * (1.0 - p)).sqrt() + 1.0
}

const N: u32 = 40_000;
const SHORT: Duration = Duration::from_micros(500);

#[test]
fn classic_ect_packets_are_marked_with_p_squared() {
    for p in [0.05, 0.2, 0.45] {
        let mut q = Fixed::new("", p);
        assert_eq!(q.pass(N, Ect0, SHORT), N);
        let marks = q.marked(MarkCause::Probability);
        assert!(near(marks, N, p * p), "{p}: {marks}");
        assert_eq!(q.queue.counts().dropped, 0);
    }
}

#[test]
fn classic_packets_without_ecn_are_dropped_with_p_squared() {
    for p in [0.05, 0.2, 0.45] {
        let mut q = Fixed::new("", p);
        let offered = N;
        q.pass(offered, NotEct, SHORT);
        let drops = q.dropped(DropCause::Probability);
        assert!(near(drops, offered, p * p), "{p}: {drops}");
        assert!(q.log.marks.is_empty());
    }
}

#[test]
fn l4s_packets_are_marked_with_k_times_p() {
    for (words, k) in [
        ("", 2.0),
        ("coupling_factor 3", 3.0),
        ("variant linux-2020", 2.0),
    ] {
        for p in [0.02, 0.2, 0.3] {
            let mut q = Fixed::new(words, p);
            assert_eq!(q.pass(N, Ect1, SHORT), N);
            let marks = q.marked(MarkCause::Coupled);
            assert!(near(marks, N, k * p), "{words} {p}: {marks}");
            assert_eq!(q.marked(MarkCause::Step), 0.0);
        }
    }
}

#[test]
fn mutant_unsquared_breaks_the_coupling() {
    let mut q = Fixed::new("", 0.2);
    q.queue.mutant = Some(Mutant::Unsquared);
    q.pass(N, Ect0, SHORT);
    assert!(!near(q.marked(MarkCause::Probability), N, 0.04));
}

#[test]
fn at_overload_classic_ecn_is_ignored_and_l4s_is_dropped_with_p_squared() {
    let mut q = Fixed::new("", 0.6);
    q.pass(N, Ect0, SHORT);
    assert!(near(q.dropped(DropCause::Overload), N, 0.36));
    assert!(q.log.marks.is_empty());

    let mut q = Fixed::new("", 0.6);
    let left = q.pass(N, Ect1, SHORT);
    assert!(near(q.dropped(DropCause::Overload), N, 0.36));
    // Whatever is not dropped is marked, but for the few that leave less than
    // two frames behind after a row of drops.
    let unmarked = f64::from(left) - q.marked(MarkCause::Coupled);
    assert!(
        (0.0..0.002 * f64::from(N)).contains(&unmarked),
        "{unmarked}"
    );
}

#[test]
fn with_overflow_l4s_packets_are_marked_and_never_dropped_before_the_limit() {
    let mut q = Fixed::new("overflow", 0.5);
    assert_eq!(q.pass(1000, Ect1, SHORT), 1000);
    assert_eq!(q.queue.counts().dropped, 0);
    assert!(near(q.marked(MarkCause::Coupled), 1000, 1.0 - 1e-9));
}

#[test]
fn pi_neither_marks_nor_drops_under_two_frames_of_backlog() {
    for words in ["dualpi2", "dualpi2 variant linux-2020"] {
        let mut b = Bench::new(words);
        let mut now = ms(0);
        // One packet at a time that waits for a second: p′ is at its most,
        // and the leaving packet leaves nothing behind.
        for _ in 0..40 {
            b.offer(now, 1, NotEct, FRAME);
            b.offer(now, 2, NotEct, FRAME);
            now += Duration::from_secs(1);
            b.tick_until(now);
            assert!(b.take(now).is_some());
            assert!(b.take(now).is_some());
        }
        assert!(b.queue.probability() > 0.5, "{}", b.queue.probability());
        assert_eq!(
            (b.queue.counts().marked, b.queue.counts().dropped),
            (0, 0),
            "{words}"
        );
    }
}

#[test]
fn ect1_and_ce_go_to_the_low_latency_band_and_any_ect_adds_ect0() {
    for (words, bands) in [("dualpi2", [0, 0, 1, 1]), ("dualpi2 any_ect", [0, 1, 1, 1])] {
        let mut b = Bench::new(words);
        for (i, ecn) in [NotEct, Ect0, Ect1, Ce].into_iter().enumerate() {
            b.offer(ms(1), i as u16, ecn, FRAME);
        }
        let mut found = [9; 4];
        while let Some(t) = b.take(ms(1)) {
            found[t.flow as usize] = t.band;
        }
        assert_eq!(found, bands, "{words}");
    }
}

#[test]
fn the_step_marks_above_one_millisecond_of_sojourn_at_dequeue() {
    let mut b = Bench::new("dualpi2");
    b.offer(ms(10), 1, Ect1, FRAME);
    assert_eq!(b.take(us(11_000)).unwrap().ecn, Ect1);
    b.offer(ms(20), 1, Ect1, FRAME);
    assert_eq!(b.take(Instant::from_nanos(21_000_001)).unwrap().ecn, Ce);
    assert_eq!(
        b.log.marks,
        [(Instant::from_nanos(21_000_001), 1, MarkCause::Step)]
    );
}

#[test]
fn the_step_in_packets_counts_those_left_behind() {
    let mut b = Bench::new("dualpi2 step_thresh 2p");
    (0..4).for_each(|_| assert!(b.offer(ms(1), 1, Ect1, FRAME).1));
    let found: Vec<_> = std::iter::from_fn(|| b.take(ms(1)))
        .map(|t| t.ecn)
        .collect();
    assert_eq!(found, [Ce, Ect1, Ect1, Ect1]);
}

/// Three packets at once, each leaving late: who is marked?
fn late_marks(words: &str) -> Vec<Ecn> {
    let mut b = Bench::new(words);
    (0..4).for_each(|_| assert!(b.offer(ms(10), 1, Ect1, FRAME).1));
    std::iter::from_fn(|| b.take(ms(13)))
        .map(|t| t.ecn)
        .collect()
}

#[test]
fn the_step_of_2020_spares_packets_that_found_fewer_than_two_waiting() {
    assert_eq!(
        late_marks("dualpi2 variant linux-2020"),
        [Ect1, Ect1, Ce, Ce]
    );
    assert_eq!(late_marks("dualpi2 min_qlen_step 2"), [Ect1, Ect1, Ce, Ce]);
    assert_eq!(late_marks("dualpi2"), [Ce; 4]);
}

#[test]
fn a_packet_marked_twice_is_reported_once() {
    let mut q = Fixed::new("", 0.5);
    q.pass(200, Ect1, Duration::from_millis(20));
    let mut ids: Vec<u64> = q.log.marks.iter().map(|m| m.1).collect();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all);
    assert_eq!(q.queue.counts().marked, all as u64);
}

#[test]
fn the_classic_queue_keeps_a_tenth_of_the_bytes_when_both_are_busy() {
    for (protection, share) in [(10, 0.1), (50, 0.5), (25, 0.25)] {
        let mut b = Bench::new(&format!(
            "dualpi2 classic_protection {protection}% step_thresh 4s target 4s"
        ));
        let mut classic = 0u32;
        for _ in 0..2_000 {
            for (flow, ecn, len) in [(1, Ect1, FRAME), (2, NotEct, 700)] {
                b.offer(ms(1), flow, ecn, len);
            }
        }
        let mut bytes = [0u64; 2];
        while b.queue.backlog().packets > 1_800 {
            let t = b.take(ms(1)).unwrap();
            let len = if t.band == 1 { FRAME } else { 700 };
            bytes[usize::from(t.band)] += u64::from(len);
            classic += u32::from(t.band == 0);
            // Keep both busy.
            if bytes[0] + bytes[1] > 2_000_000 {
                break;
            }
        }
        let found = bytes[0] as f64 / (bytes[0] + bytes[1]) as f64;
        assert!(
            (found - share).abs() < 0.02,
            "{protection}: {found} ({classic})"
        );
    }
}

#[test]
fn the_queue_of_greater_weight_goes_first_after_idleness() {
    let mut b = Bench::new("dualpi2");
    b.offer(ms(1), 1, NotEct, FRAME);
    b.offer(ms(1), 2, Ect1, FRAME);
    assert_eq!(b.take(ms(1)).unwrap().band, 1);
    let mut b = Bench::new("dualpi2 classic_protection 90%");
    b.offer(ms(1), 2, Ect1, FRAME);
    b.offer(ms(1), 1, NotEct, FRAME);
    assert_eq!(b.take(ms(1)).unwrap().band, 0);
}

#[test]
fn pi_is_fed_the_older_head_of_both_queues() {
    let mut b = Bench::new("dualpi2");
    b.offer(ms(0), 1, NotEct, FRAME);
    b.offer(ms(10), 1, NotEct, FRAME);
    b.offer(ms(12), 2, Ect1, FRAME);
    b.queue.tick(ms(40));
    // Head of C is 40 ms old: (25 ms·44 + 40 ms·879)/64, in 2⁻³².
    let want = ((25_000_000u64 * 44 + 40_000_000 * 879) / 64) as f64 / 4_294_967_296.0;
    assert_eq!(b.queue.probability(), want);
    // Head of L is older once C's first two are gone; L goes first, so fill L.
    let mut b = Bench::new("dualpi2");
    b.offer(ms(0), 2, Ect1, FRAME);
    b.offer(ms(10), 1, NotEct, FRAME);
    b.queue.tick(ms(40));
    assert_eq!(b.queue.probability(), want);
}

#[test]
fn mutant_newest_delay_feeds_pi_from_the_wrong_end() {
    let fed = |mutant| {
        let mut queue = DualPi2::new(
            DualPi2Config::default(),
            EntityId(7),
            ETHERNET,
            Rng::for_name(1, "queue"),
        );
        queue.mutant = mutant;
        let mut b = Bench::new("dualpi2");
        b.queue = Box::new(queue);
        b.offer(ms(0), 1, NotEct, FRAME);
        b.offer(ms(38), 1, NotEct, FRAME);
        b.queue.tick(ms(40));
        b.queue.probability()
    };
    let right = ((25_000_000u64 * 44 + 40_000_000 * 879) / 64) as f64 / 4_294_967_296.0;
    assert_eq!(fed(None), right);
    assert!(fed(Some(Mutant::NewestDelay)) < right / 10.0);
}

#[test]
fn the_rfc_steers_by_the_classic_queue_alone() {
    let mut b = Bench::new("dualpi2 variant rfc9332");
    b.offer(ms(0), 2, Ect1, FRAME);
    b.queue.tick(ms(40));
    assert_eq!(b.queue.probability(), 0.0);
}

#[test]
fn updates_come_each_tupdate_and_in_2020_from_500_ms_on() {
    let ticks = |words: &str| {
        let mut b = Bench::new(words);
        let mut at = Vec::new();
        while at.len() < 3 {
            let next = b.queue.next_tick().unwrap();
            b.queue.tick(next);
            at.push(next);
        }
        at
    };
    assert_eq!(ticks("dualpi2"), [ms(16), ms(32), ms(48)]);
    assert_eq!(
        ticks("dualpi2 variant linux-2020"),
        [ms(500), ms(516), ms(532)]
    );
    assert_eq!(ticks("dualpi2 variant rfc9332"), [ms(15), ms(30), ms(45)]);
    // Rounded up to whole jiffies.
    assert_eq!(
        ticks("dualpi2 variant linux-2020 tupdate 1500us"),
        [ms(500), ms(502), ms(504)]
    );
}

#[test]
fn the_ramp_runs_from_800_to_1200_microseconds() {
    assert_eq!(ramp(Duration::from_micros(800)), 0);
    assert_eq!(ramp(Duration::from_micros(900)), ONE / 4);
    assert_eq!(ramp(Duration::from_micros(1_000)), ONE / 2);
    assert_eq!(ramp(Duration::from_micros(1_200)), ONE);
    assert_eq!(ramp(Duration::from_secs(9)), ONE);
}

#[test]
fn recur_spreads_marks_evenly() {
    let mut count = 0;
    let hits: Vec<bool> = (0..16).map(|_| recur(&mut count, ONE / 4)).collect();
    let at: Vec<usize> = (0..16).filter(|i| hits[*i]).collect();
    // Above one, not at it: the first after the fourth.
    assert_eq!(at, [4, 8, 12]);
}

#[test]
fn the_rfc_marks_deterministically_with_the_greater_of_ramp_and_coupling() {
    let mut q = Fixed::new("variant rfc9332", 0.1);
    q.pass(1_000, Ect1, SHORT);
    let coupled = q.marked(MarkCause::Coupled);
    assert!((coupled - 200.0).abs() <= 2.0, "{coupled}");
    let mut q = Fixed::new("variant rfc9332", 0.1);
    q.pass(1_000, Ect1, Duration::from_micros(1_000));
    let native = q.marked(MarkCause::Step);
    assert!((native - 500.0).abs() <= 5.0, "{native}");
    let mut q = Fixed::new("variant rfc9332", 0.2);
    q.pass(1_000, Ect0, SHORT);
    let classic = q.marked(MarkCause::Probability);
    assert!((classic - 40.0).abs() <= 1.0, "{classic}");
}

#[test]
fn the_rfc_ramp_spares_a_queue_of_one_packet() {
    let mut b = Bench::new("dualpi2 variant rfc9332");
    for i in 0..20 {
        b.offer(ms(10 * i), 1, Ect1, FRAME);
        assert_eq!(b.take(ms(10 * i + 5)).unwrap().ecn, Ect1);
    }
}

#[test]
fn the_rfc_ends_classic_ecn_at_a_quarter_and_drops_l4s_when_coupling_saturates() {
    let mut q = Fixed::new("variant rfc9332", 0.5);
    q.pass(1_000, Ect0, SHORT);
    assert!((q.dropped(DropCause::Overload) - 250.0).abs() <= 4.0);
    let mut q = Fixed::new("variant rfc9332", 0.49);
    q.pass(1_000, Ect0, SHORT);
    assert_eq!(q.queue.counts().dropped, 0);
    let mut q = Fixed::new("variant rfc9332", 0.6);
    q.pass(1_000, Ect1, SHORT);
    assert!(q.dropped(DropCause::Overload) > 300.0);
}

#[test]
fn limits_are_packets_memory_or_250_ms() {
    let fill = |words: &str, len: u32| {
        let mut b = Bench::new(words);
        (0..20_000)
            .filter(|i| {
                b.offer(ms(1), 1, if i % 2 == 0 { Ect1 } else { NotEct }, len)
                    .1
            })
            .count()
    };
    assert_eq!(fill("dualpi2", 64), 10_000);
    assert_eq!(fill("dualpi2 variant linux-2020", FRAME), 10_000);
    assert_eq!(fill("dualpi2 limit 70", FRAME), 70);
    assert_eq!(fill("dualpi2 memlimit 15140", FRAME), 10);
    // 10 Mbit/s · 250 ms = 312500 bytes, less one frame kept free.
    assert_eq!(fill("dualpi2 variant rfc9332", FRAME), 206);
    let slow = LinkFacts {
        rate: Rate::from_bits(1_000),
        ..ETHERNET
    };
    let mut b = Bench::on("dualpi2 variant rfc9332", slow);
    assert!(b.offer(ms(1), 1, Ect1, FRAME).1);
}

#[test]
fn a_lower_limit_in_mid_run_drops_from_the_head_at_the_next_call() {
    let mut b = Bench::new("dualpi2");
    (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
    b.queue.change(ms(2), "dualpi2 limit 4").unwrap();
    assert_eq!(b.take(ms(2)).unwrap().id, 6);
    assert_eq!(b.log.drops.len(), 6);
    assert!(b.queue.change(ms(2), "variant rfc9332").is_err());
    assert!(b.queue.change(ms(2), "coupling_factor 0").is_err());
}

#[test]
fn drop_enqueue_decides_when_a_packet_comes() {
    let mut q = Fixed::new("drop_enqueue", 0.4);
    q.pass(5_000, NotEct, SHORT);
    assert!(near(q.dropped(DropCause::Probability), 5_000, 0.16));
}

#[test]
fn rtts_give_what_tc_derives_from_them() {
    let config: DualPi2Config = reading::fresh(narrows_units::Words::new("max_rtt 100ms")).unwrap();
    // typical = 100/6 ms, Tupdate = that, β = 0.3/0.1 = 3 Hz.
    assert_eq!(config.target, Duration::from_micros(16_666));
    assert_eq!(config.tupdate, Duration::from_micros(16_666));
    assert_eq!(config.beta, 3.0);
    assert_eq!(config.alpha, 42.0 / 256.0);
    // The greatest is six times the typical one.
    let read = |words: &str| -> DualPi2Config {
        reading::fresh(narrows_units::Words::new(words)).unwrap()
    };
    assert_eq!(read("typical_rtt 15ms"), read("max_rtt 90ms"));
    let words = narrows_units::Words::new("max_rtt 90ms typical_rtt 60ms");
    let c: DualPi2Config = reading::fresh(words).unwrap();
    assert_eq!(c.target, Duration::from_millis(60));
    assert_eq!(c.tupdate, Duration::from_millis(30));
}

#[test]
fn the_credit_moves_by_the_other_queues_weight_while_both_have_packets() {
    let frame = i64::from(FRAME);
    for (low, classic, credit, change) in [
        (1, 0, 0, 0),
        (1, 1, 0, 10 * frame),
        (1, 1, 1, -90 * frame),
        (0, 1, 0, 0),
    ] {
        let mut q = Fixed::new("", 0.0);
        (0..low).for_each(|_| q.offer(Ect1));
        (0..classic).for_each(|_| q.offer(NotEct));
        q.queue.credit = credit;
        assert!(q.take().is_some());
        assert_eq!(q.queue.credit - credit, change, "{low} {classic} {credit}");
    }
}

#[test]
fn a_lower_memory_limit_drops_what_exceeds_it_and_no_more() {
    // Room for three frames, and for one byte less.
    for (limit, first) in [(4_542, 7), (4_541, 8)] {
        let mut b = Bench::new("dualpi2");
        (0..10).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
        b.queue.change(ms(2), &format!("memlimit {limit}")).unwrap();
        assert_eq!(b.take(ms(2)).unwrap().id, first, "{limit}");
    }
}

#[test]
fn the_rfc_ends_classic_ecn_at_one_over_the_square_of_k() {
    // RFC 9332 Figure 4: p_Cmax = 1/k².
    for (k, below, above) in [(2, 0.49, 0.51), (3, 0.33, 0.34)] {
        for (p, is_marked) in [(below, true), (above, false)] {
            let words = format!("variant rfc9332 coupling_factor {k}");
            let mut q = Fixed::new(&words, p);
            q.pass(1_000, Ect0, SHORT);
            let marked = q.marked(MarkCause::Probability) > 0.0;
            let dropped = q.dropped(DropCause::Overload) > 0.0;
            assert_eq!((marked, dropped), (is_marked, !is_marked), "{k} {p}");
        }
    }
}

#[test]
fn a_draw_wins_up_to_the_probability_itself() {
    // `dualpi2_roll`: get_random_u32() <= prob.
    let q = || Fixed::new("", 0.0).queue;
    let draw = u64::from(q().rng.draw_u32());
    assert!(q().roll(draw));
    assert!(!q().roll(draw - 1));
}
