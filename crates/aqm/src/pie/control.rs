//! The arithmetic of PIE as Linux computes it (include/net/pie.h,
//! net/sched/sch_pie.c v6.17).

use narrows_units::{Duration, Instant, Rng};

use super::PieConfig;

/// Probability 1: 56 bits (`MAX_PROB`).
pub(crate) const MAX_PROBABILITY: u64 = u64::MAX >> 8;
/// Linux's scheduling clock: nanoseconds shifted right by this
/// (`PSCHED_SHIFT`), so 64 ns.
const CLOCK_SHIFT: u32 = 6;
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> CLOCK_SHIFT;
/// Bursts that an idle queue lets pass, RFC 8033 §4.4.
const BURST_ALLOWANCE: u64 = ticks(Duration::from_millis(150));
/// Above this delay probability rises by another 2 % per update (Linux;
/// RFC 8033 §5.1 leaves the value to implementations).
const HIGH_DELAY: u64 = ticks(Duration::from_millis(250));
/// Bytes that the drain rate is measured over (`QUEUE_THRESHOLD`), RFC 8033
/// §5.2.
const MEASURE_BYTES: u64 = 16_384;
/// Fraction bits of the measured drain rate (`PIE_SCALE`).
const RATE_SHIFT: u32 = 8;

const fn ticks(t: Duration) -> u64 {
    t.as_nanos() >> CLOCK_SHIFT
}

fn clock(now: Instant) -> u64 {
    now.as_nanos() >> CLOCK_SHIFT
}

/// State of the controller; times in units of 64 ns.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    pub probability: u64,
    pub delay: u64,
    delay_old: u64,
    pub burst: u64,
    /// When a packet last left, or the measuring of the rate began.
    last_dequeue: Option<u64>,
    /// Bytes that left since then, while the rate is being measured.
    measured: Option<u64>,
    /// Bytes per 64 ns · 2⁸.
    drain_rate: u64,
    /// Probability gathered since the last drop.
    pub accumulated: u64,
}

impl Pie {
    pub fn new() -> Self {
        Self {
            probability: 0,
            delay: 0,
            delay_old: 0,
            burst: BURST_ALLOWANCE,
            last_dequeue: None,
            measured: None,
            drain_rate: 0,
            accumulated: 0,
        }
    }

    /// Starts measuring anew; delay and probability stay.
    fn restart(&mut self) {
        *self = Self {
            probability: self.probability,
            delay: self.delay,
            delay_old: self.delay_old,
            ..Self::new()
        };
    }

    /// Whether a packet of `length` bytes that comes to a queue of `backlog`
    /// bytes is to be dropped or marked, RFC 8033 §4.1, §5.4 (spacing).
    pub fn drops(
        &mut self,
        config: &PieConfig,
        backlog: u64,
        length: u32,
        frame: u32,
        rng: &mut Rng,
    ) -> bool {
        if self.burst > 0 {
            return false;
        }
        let calm = self.delay < ticks(config.target) / 2;
        if calm && self.probability < MAX_PROBABILITY / 5 {
            return false;
        }
        if backlog < 2 * u64::from(frame) {
            return false;
        }
        let probability = if config.bytemode && length <= frame {
            u64::from(length) * (self.probability / u64::from(frame))
        } else {
            self.probability
        };
        self.accumulated = if probability == 0 {
            0
        } else {
            self.accumulated.wrapping_add(probability)
        };
        // Not sooner than 0.85 and not later than 8.5 expected drops after
        // the last. As in Linux, the latter leaves the sum as it is, and only
        // a drop clears it, not a mark.
        if self.accumulated < MAX_PROBABILITY / 100 * 85 {
            return false;
        }
        if self.accumulated >= MAX_PROBABILITY / 2 * 17 {
            return true;
        }
        if rng.draw_u64() >> 8 < probability {
            self.accumulated = 0;
            return true;
        }
        false
    }

    /// A packet of `length` bytes leaves that has waited since `entered`;
    /// `backlog` bytes are left behind.
    pub fn dequeued(
        &mut self,
        config: &PieConfig,
        now: Instant,
        entered: Instant,
        backlog: u64,
        length: u32,
    ) {
        let time = clock(now);
        let spent = if config.dq_rate_estimator {
            let Some(spent) = self.measure(time, backlog, length) else {
                return;
            };
            spent
        } else {
            let spent = self.last_dequeue.map_or(0, |last| time - last);
            self.last_dequeue = Some(time);
            self.delay = if backlog == 0 {
                0
            } else {
                time - clock(entered)
            };
            spent
        };
        self.burst = self.burst.saturating_sub(spent);
    }

    /// RFC 8033 §5.2: the drain rate over each 16 KiB of a busy queue; gives
    /// the time of a measurement that has just ended.
    fn measure(&mut self, time: u64, backlog: u64, length: u32) -> Option<u64> {
        if backlog >= MEASURE_BYTES && self.measured.is_none() {
            self.last_dequeue = Some(time);
            self.measured = Some(0);
        }
        let bytes = self.measured? + u64::from(length);
        self.measured = Some(bytes);
        if bytes < MEASURE_BYTES {
            return None;
        }
        let spent = time - self.last_dequeue.unwrap_or(time);
        if spent == 0 {
            return None;
        }
        let rate = (bytes << RATE_SHIFT) / spent;
        self.drain_rate = if self.drain_rate == 0 {
            rate
        } else {
            self.drain_rate - (self.drain_rate >> 3) + (rate >> 3)
        };
        if backlog < MEASURE_BYTES {
            self.measured = None;
        } else {
            self.measured = Some(0);
            self.last_dequeue = Some(time);
        }
        Some(spent)
    }

    /// The periodic update, RFC 8033 §4.2 with §5.
    pub fn update(&mut self, config: &PieConfig, backlog: u64) {
        let (delay, old) = if config.dq_rate_estimator {
            self.delay_old = self.delay;
            let delay = (backlog << RATE_SHIFT).checked_div(self.drain_rate);
            (delay.unwrap_or(0), self.delay)
        } else {
            (self.delay, self.delay_old)
        };
        // No delay but some backlog: too little to judge.
        let mut may_decay = delay != 0 || backlog == 0;

        let (alpha, beta) = self.gains(config);
        let target = ticks(config.target);
        let product = |gain: u64, from: u64| (gain as i64).wrapping_mul(delay as i64 - from as i64);
        let mut delta = product(alpha, target).wrapping_add(product(beta, old));
        // Never more than 2 % up in a step where it is 10 % already.
        let two_percent = (MAX_PROBABILITY / 50) as i64;
        if delta > two_percent && self.probability >= MAX_PROBABILITY / 10 {
            delta = (MAX_PROBABILITY / 100 * 2) as i64;
        }
        if delay > HIGH_DELAY {
            delta = delta.wrapping_add(two_percent);
        }
        self.probability = match self.probability.checked_add_signed(delta) {
            Some(next) => next,
            None if delta.is_negative() => 0,
            // Linux bounds at 64 bits, not at MAX_PROB: a probability above 1
            // drops everything all the same.
            None => {
                may_decay = false;
                MAX_PROBABILITY
            }
        };
        // Two updates without delay: exponential decay, RFC 8033 §5.
        if delay == 0 && old == 0 && may_decay {
            self.probability -= self.probability / 64;
        }
        self.delay = delay;
        let half = target / 2;
        if delay < half
            && self.delay_old < half
            && self.probability == 0
            && (!config.dq_rate_estimator || self.drain_rate > 0)
        {
            self.restart();
        }
        if !config.dq_rate_estimator {
            self.delay_old = delay;
        }
    }

    /// α and β per 64 ns, scaled down while the probability is low, RFC 8033
    /// §5.3: halved below 10 %, and quartered at each further power of ten.
    fn gains(&self, config: &PieConfig) -> (u64, u64) {
        let per_tick = MAX_PROBABILITY / TICKS_PER_SECOND;
        let mut shift = 0;
        if self.probability < MAX_PROBABILITY / 10 {
            shift = 1;
            let mut power = 100;
            while self.probability < MAX_PROBABILITY / power && power <= 1_000_000 {
                shift += 2;
                power *= 10;
            }
        }
        let scaled = |gain: u32| ((u64::from(gain) * per_tick) >> 4) >> shift;
        (scaled(config.alpha), scaled(config.beta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_probability(p: f64) -> Pie {
        Pie {
            probability: (p * MAX_PROBABILITY as f64) as u64,
            burst: 0,
            ..Pie::new()
        }
    }

    fn share(probability: u64) -> f64 {
        probability as f64 / MAX_PROBABILITY as f64
    }

    const MS: u64 = 1_000_000 >> CLOCK_SHIFT;

    #[test]
    fn the_update_is_alpha_and_beta_of_rfc_8033_at_high_probability() {
        let mut pie = with_probability(0.2);
        (pie.delay, pie.delay_old) = (20 * MS, 19 * MS);
        pie.update(&PieConfig::default(), 50_000);
        // 0.125·(20−15) ms + 1.25·(20−19) ms in Hz.
        let want = 0.2 + 0.125 * 0.005 + 1.25 * 0.001;
        assert!(
            (share(pie.probability) - want).abs() < 1e-8,
            "{}",
            share(pie.probability)
        );
    }

    #[test]
    fn gains_shrink_as_the_probability_does() {
        // RFC 8033 §5.3 (§4.2): ÷2 under 10 %, ÷8 under 1 %, ÷32 under 0.1 %,
        // ÷128, ÷512, ÷2048.
        let steps = [
            (0.5, 1.0),
            (0.05, 2.0),
            (0.005, 8.0),
            (0.000_5, 32.0),
            (0.000_05, 128.0),
            (0.000_005, 512.0),
            (0.000_000_5, 2_048.0),
            (0.0, 2_048.0),
        ];
        let full = with_probability(0.5).gains(&PieConfig::default());
        for (p, divisor) in steps {
            let (alpha, beta) = with_probability(p).gains(&PieConfig::default());
            assert!(
                (full.0 as f64 / alpha as f64 / divisor - 1.0).abs() < 0.01,
                "{p}"
            );
            assert!(
                (full.1 as f64 / beta as f64 / divisor - 1.0).abs() < 0.01,
                "{p}"
            );
        }
        // Under a bound, and not at it.
        for (parts, divisor) in [(10, 1), (100, 2), (1_000, 8)] {
            let pie = Pie {
                probability: MAX_PROBABILITY / parts,
                ..Pie::new()
            };
            let (alpha, _) = pie.gains(&PieConfig::default());
            assert_eq!(alpha, full.0 / divisor, "1/{parts}");
        }
    }

    #[test]
    fn one_step_adds_at_most_2_percent_from_10_percent_on() {
        let mut pie = with_probability(0.3);
        (pie.delay, pie.delay_old) = (200 * MS, 0);
        pie.update(&PieConfig::default(), 50_000);
        assert!((share(pie.probability) - 0.32).abs() < 1e-6);
    }

    #[test]
    fn delays_above_250_ms_add_another_2_percent() {
        let mut pie = with_probability(0.3);
        (pie.delay, pie.delay_old) = (260 * MS, 260 * MS);
        pie.update(&PieConfig::default(), 50_000);
        assert!((share(pie.probability) - 0.34).abs() < 1e-6);
    }

    #[test]
    fn without_delay_the_probability_decays_by_a_64th() {
        let mut pie = with_probability(0.3);
        pie.update(&PieConfig::default(), 0);
        let after_pi = 0.3 - 0.125 * 0.015;
        assert!((share(pie.probability) - after_pi * 63.0 / 64.0).abs() < 1e-6);
    }

    #[test]
    fn the_probability_goes_to_zero_and_not_below_and_restores_the_allowance() {
        let mut pie = with_probability(0.01);
        for _ in 0..2_000 {
            pie.update(&PieConfig::default(), 0);
        }
        assert_eq!(pie.probability, 0);
        assert_eq!(pie.burst, BURST_ALLOWANCE);
    }

    #[test]
    fn the_burst_allowance_lasts_150_ms_of_sending() {
        let mut pie = Pie::new();
        let config = PieConfig::default();
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        pie.dequeued(&config, at(1_000), at(900), 9_000, 1514);
        assert_eq!(pie.burst, BURST_ALLOWANCE);
        pie.dequeued(&config, at(1_149), at(900), 9_000, 1514);
        assert!(pie.burst > 0);
        pie.dequeued(&config, at(1_150), at(900), 9_000, 1514);
        assert_eq!(pie.burst, 0);
    }

    #[test]
    fn nothing_is_dropped_in_a_burst_a_calm_or_a_short_queue() {
        let mut rng = Rng::for_name(1, "q");
        let config = PieConfig::default();
        let mut certain =
            |pie: &mut Pie, backlog| pie.drops(&config, backlog, 1514, 1514, &mut rng);
        let angry = || Pie {
            delay: 20 * MS,
            accumulated: MAX_PROBABILITY,
            ..with_probability(1.0)
        };
        assert!(certain(&mut angry(), 50_000));
        let mut pie = angry();
        pie.burst = 1;
        assert!(!certain(&mut pie, 50_000));
        assert!(!certain(&mut angry(), 2 * 1514 - 1));
        let mut pie = Pie {
            delay: 7 * MS,
            accumulated: MAX_PROBABILITY,
            ..with_probability(0.19)
        };
        assert!((0..1_000).all(|_| !certain(&mut pie, 50_000)));
    }

    #[test]
    fn drops_are_spaced_between_0_85_and_8_5_expected_intervals() {
        let mut rng = Rng::for_name(1, "q");
        let config = PieConfig::default();
        let mut pie = Pie {
            delay: 20 * MS,
            ..with_probability(0.02)
        };
        let (mut gap, mut gaps) = (0u32, Vec::new());
        for _ in 0..200_000 {
            gap += 1;
            if pie.drops(&config, 50_000, 1514, 1514, &mut rng) {
                // The queue clears the sum at a drop.
                pie.accumulated = 0;
                gaps.push(gap);
                gap = 0;
            }
        }
        // 0.85/0.02 = 42.5 and 8.5/0.02 = 425 packets, plus one for rounding.
        assert!(gaps.iter().all(|g| (43..=426).contains(g)));
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        // The draws begin at packet 43 with p = 1/50 each.
        assert!((mean - 92.0).abs() < 4.0, "{mean}");
    }

    #[test]
    fn bytemode_scales_the_probability_by_the_packet_size() {
        let mut rng = Rng::for_name(1, "q");
        let config = PieConfig {
            bytemode: true,
            ..PieConfig::default()
        };
        let mut pie = Pie {
            delay: 20 * MS,
            ..with_probability(0.5)
        };
        pie.drops(&config, 50_000, 757, 1514, &mut rng);
        assert!((share(pie.accumulated) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn the_rate_estimator_divides_the_backlog_by_the_drain_rate() {
        let config = PieConfig {
            dq_rate_estimator: true,
            ..PieConfig::default()
        };
        let mut pie = Pie::new();
        // 1514 bytes per millisecond.
        for ms in 0..40u64 {
            let at = Instant::from_nanos(ms * 1_000_000);
            pie.dequeued(&config, at, Instant::ZERO, 60_560, 1514);
        }
        pie.update(&config, 60_560);
        let delay_ms = (pie.delay << CLOCK_SHIFT) as f64 / 1e6;
        // 11 packets are counted per 10 ms or more; the rate is 8-bit.
        assert!((33.0..=42.0).contains(&delay_ms), "{delay_ms}");
    }

    #[test]
    fn each_safeguard_ends_at_its_bound() {
        // `pie_drop_early`: below half the target while below a fifth, below two frames.
        let half = ticks(Duration::from_millis(15)) / 2;
        let fifth = MAX_PROBABILITY / 5;
        for (delay, probability, backlog, drops) in [
            (half - 1, fifth - 1, 50_000, false),
            (half, fifth - 1, 50_000, true),
            (half - 1, fifth, 50_000, true),
            (half, fifth, 3_028, true),
            (half, fifth, 3_027, false),
        ] {
            let mut pie = Pie {
                delay,
                probability,
                burst: 0,
                // 8.5 expected drops have passed: one is due.
                accumulated: MAX_PROBABILITY / 2 * 17,
                ..Pie::new()
            };
            let (config, mut rng) = (PieConfig::default(), Rng::for_name(1, "q"));
            let found = pie.drops(&config, backlog, 1514, 1514, &mut rng);
            assert_eq!(found, drops, "{delay} {probability} {backlog}");
        }
    }

    #[test]
    fn the_law_starts_anew_once_both_delays_are_below_half_the_target() {
        let half = ticks(Duration::from_millis(15)) / 2;
        let usual = PieConfig::default();
        let estimates = PieConfig {
            dq_rate_estimator: true,
            ..usual.clone()
        };
        for (config, delay, delay_old, drain_rate, anew) in [
            (&usual, half - 1, half - 1, 0, true),
            (&usual, half, half - 1, 0, false),
            (&usual, half - 1, half, 0, false),
            (&estimates, 0, 0, 0, false),
            (&estimates, 0, 0, 1, true),
        ] {
            let mut pie = Pie {
                delay,
                delay_old,
                drain_rate,
                burst: 0,
                ..Pie::new()
            };
            pie.update(config, 0);
            assert_eq!(pie.probability, 0);
            assert_eq!(pie.burst == BURST_ALLOWANCE, anew, "{delay} {delay_old}");
        }
    }

    #[test]
    fn a_new_start_keeps_delays_and_probability() {
        // `pie_vars_init` leaves them as they are.
        let mut pie = Pie {
            probability: 5,
            delay: 7,
            delay_old: 9,
            burst: 1,
            last_dequeue: Some(2),
            measured: Some(3),
            drain_rate: 4,
            accumulated: 6,
        };
        pie.restart();
        assert_eq!((pie.probability, pie.delay, pie.delay_old), (5, 7, 9));
        assert_eq!((pie.burst, pie.accumulated), (BURST_ALLOWANCE, 0));
        assert_eq!((pie.measured, pie.drain_rate), (None, 0));
    }

    #[test]
    fn bytemode_scales_packets_up_to_a_full_frame() {
        let config = PieConfig {
            bytemode: true,
            ..PieConfig::default()
        };
        // Not a multiple of the frame, so that scaling leaves its trace.
        let probability = MAX_PROBABILITY / 1_514 / 2 * 1_514 + 1;
        for (length, gathered) in [(1_514, probability - 1), (1_515, probability)] {
            let mut pie = Pie {
                delay: 20 * MS,
                probability,
                burst: 0,
                ..Pie::new()
            };
            pie.drops(&config, 50_000, length, 1_514, &mut Rng::for_name(1, "q"));
            assert_eq!(pie.accumulated, gathered, "{length}");
        }
    }

    #[test]
    fn a_draw_counts_from_0_85_expected_drops_on_and_wins_below_the_probability() {
        let draw = Rng::for_name(1, "q").draw_u64() >> 8;
        let least = MAX_PROBABILITY / 100 * 85;
        for (probability, gathered, drops) in [
            (draw + 1, least, true),
            (draw + 1, least - 1, false),
            (draw, least, false),
        ] {
            let mut pie = Pie {
                delay: 20 * MS,
                probability,
                burst: 0,
                accumulated: gathered - probability,
                ..Pie::new()
            };
            let (config, mut rng) = (PieConfig::default(), Rng::for_name(1, "q"));
            let found = pie.drops(&config, 50_000, 1514, 1514, &mut rng);
            assert_eq!(found, drops, "{probability} {gathered}");
            // A drop by chance clears the sum.
            assert_eq!(pie.accumulated, if drops { 0 } else { gathered });
        }
    }

    #[test]
    fn beyond_64_bits_the_probability_is_1() {
        let mut pie = Pie {
            probability: u64::MAX,
            delay: 20 * MS,
            delay_old: 19 * MS,
            ..Pie::new()
        };
        pie.update(&PieConfig::default(), 50_000);
        assert_eq!(pie.probability, MAX_PROBABILITY);
    }
}
