//! The arithmetic of RED: what tc derives from the user's words, and the
//! average and the draw of Linux (include/net/red.h v6.17; iproute2
//! tc/tc_red.c).

use narrows_units::{Draw, Duration, Instant, Rate, Rng};

/// Probability 1 % in units of 2⁻³² (`RED_ONE_PERCENT`, rounded).
const ONE_PERCENT: u32 = (((1u64 << 32) + 50) / 100) as u32;
/// max_p is steered from 1 % to 50 %: Floyd, Gummadi and Shenker, "Adaptive
/// RED" (2001).
const MAX_P_LEAST: u32 = ONE_PERCENT;
const MAX_P_MOST: u32 = 50 * ONE_PERCENT;
/// Cells of the table of idle damping (`RED_STAB_SIZE`).
pub(super) const CELLS: usize = 256;
/// Greatest shift that the table holds.
const DEEPEST: f64 = 31.0;
/// tc's clock against microseconds: it computes the table in ticks of 64 ns,
/// while the kernel looks it up in microseconds, so the average decays 15.6
/// times slower than RED's paper has it. Kept, as Linux behaves so.
const TICKS_PER_US: f64 = 15.625;

/// What tc hands to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Derived {
    /// Weight of a new sample: 2^−w_log.
    pub w_log: u32,
    /// Width of a cell of idle time: 2^cell_log µs.
    pub cell_log: u32,
    /// Shift of the average per cell of idle time.
    pub damping: [u8; CELLS],
}

/// Floyd's rule for the weight: the least W with
/// burst + 1 − min/avpkt ≤ (1 − (1 − W)^burst)/W.
///
/// `None` if the burst is below min/avpkt packets or there is no such weight.
pub(super) fn weight_log(min: u32, burst: u32, avpkt: u32) -> Option<u32> {
    let room = f64::from(burst) + 1.0 - f64::from(min) / f64::from(avpkt);
    if room < 1.0 {
        return None;
    }
    (1..32).find(|log| {
        let w = 1.0 / f64::from(1u32 << log);
        room <= (1.0 - libm::pow(1.0 - w, f64::from(burst))) / w
    })
}

/// The least P_log for which (probability/range)·2^P_log exceeds 1 (`tc_red_eval_P`);
/// `None` if there is none below 32.
pub(super) fn probability_log(range: u32, probability: f64) -> Option<u32> {
    (0..32).find(|log| probability / f64::from(range) * f64::from(1u32 << log) > 1.0)
}

/// max_p in units of 2⁻³².
pub(super) fn max_p(probability: f64) -> u32 {
    (probability * 4_294_967_296.0) as u32
}

/// (1 − W)^(t/t_packet) as shifts, per cell of idle time.
fn damping(w_log: u32, avpkt: u32, bandwidth: Rate) -> Option<(u32, [u8; CELLS])> {
    let bytes_per_s = bandwidth.as_bytes().max(1) as f64;
    let packet_ticks = libm::ceil(f64::from(avpkt) / bytes_per_s * 1e6 * TICKS_PER_US);
    let per_tick = -libm::log(1.0 - 1.0 / f64::from(1u32 << w_log)) / packet_ticks;
    let longest = DEEPEST / per_tick;
    let cell_log = (0..32).find(|log| longest / f64::from(1u32 << log) < 512.0)?;
    let mut table = [0; CELLS];
    for (i, cell) in table.iter_mut().enumerate().skip(1) {
        let shift = ((i as u64) << cell_log) as f64 * per_tick;
        *cell = shift.min(DEEPEST) as u8;
    }
    table[CELLS - 1] = DEEPEST as u8;
    Some((cell_log, table))
}

impl Derived {
    /// Derives everything, or nothing if tc would refuse.
    pub fn of(min: u32, burst: u32, avpkt: u32, bandwidth: Rate) -> Option<Self> {
        let w_log = weight_log(min, burst, avpkt)?;
        let (cell_log, damping) = damping(w_log, avpkt, bandwidth)?;
        Some(Self {
            w_log,
            cell_log,
            damping,
        })
    }
}

/// What RED says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It passes.
    Pass,
    /// Chosen by chance between the thresholds.
    Early,
    /// The average is at or above the maximum.
    Forced,
}

/// Parameters and state of the averaging and the draw.
#[derive(Clone, Debug)]
pub(super) struct Red {
    derived: Derived,
    min: u64,
    max: u64,
    range: u32,
    /// max_p, 2⁻³².
    pub max_p: u32,
    /// max_p/range, at least 1.
    slope: u32,
    /// The average in bytes, times 2^w_log.
    average: u64,
    /// Packets since the last draw; −1 below the minimum.
    count: i64,
    draw: u32,
    idle_since: Option<Instant>,
}

impl Red {
    pub fn new(derived: Derived, min: u32, max: u32, probability: f64) -> Self {
        let max_p = max_p(probability);
        let range = max - min;
        Self {
            min: u64::from(min) << derived.w_log,
            max: u64::from(max) << derived.w_log,
            derived,
            range,
            max_p,
            slope: (max_p / range).max(1),
            average: 0,
            count: -1,
            draw: 0,
            idle_since: Some(Instant::ZERO),
        }
    }

    #[cfg(test)]
    pub fn average(&self) -> u64 {
        self.average >> self.derived.w_log
    }

    /// RED's probability before the correction for spacing: from 0 at the
    /// minimum to max_p at the maximum, 1 from there on.
    pub fn probability(&self) -> f64 {
        if self.average >= self.max {
            return 1.0;
        }
        let above = self.average.saturating_sub(self.min) as f64;
        above / (self.max - self.min) as f64 * f64::from(self.max_p) / 4_294_967_296.0
    }

    /// The queue has run empty.
    pub fn idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Set up in mid-run: an empty queue is idle from `now` on.
    pub fn restart(&mut self, now: Instant, empty: bool) {
        self.idle_since = empty.then_some(now);
    }

    fn after_idle(&self, idle: Duration) -> u64 {
        let longest = (CELLS as u64 - 1) << self.derived.cell_log;
        let idle_us = idle.as_micros().min(longest);
        let cell = (idle_us >> self.derived.cell_log) as usize % CELLS;
        let shift = self.derived.damping[cell];
        if shift > 0 {
            return self.average >> shift;
        }
        // The first part of the exponential by a line, to a half at most.
        let loss = (u128::from(self.average) * u128::from(idle_us)) >> self.derived.cell_log;
        let half = self.average >> 1;
        self.average - u64::try_from(loss).unwrap_or(half).min(half)
    }

    /// A packet comes to a queue of `backlog` bytes.
    pub fn arrive(&mut self, now: Instant, backlog: u64, rng: &mut Rng) -> Action {
        self.average = match self.idle_since.take() {
            Some(since) => self.after_idle(now.since(since)),
            // avg += W·(backlog − avg), the point of avg at w_log.
            None => self.average + backlog - (self.average >> self.derived.w_log),
        };
        if self.average < self.min {
            self.count = -1;
            return Action::Pass;
        }
        if self.average >= self.max {
            self.count = -1;
            return Action::Forced;
        }
        self.count += 1;
        if self.count > 0 {
            let above = (self.average - self.min) >> self.derived.w_log;
            if above.saturating_mul(self.count as u64) >= u64::from(self.draw) {
                self.count = 0;
                self.draw = rng.draw_u32() / self.slope;
                return Action::Early;
            }
        } else {
            self.draw = rng.draw_u32() / self.slope;
        }
        Action::Pass
    }

    /// Adaptive RED, each 500 ms: max_p towards an average between 40 % and
    /// 60 % of the range; up by at most 1 % or a quarter of itself, down by a
    /// tenth.
    pub fn adapt(&mut self, now: Instant) {
        let average = match self.idle_since {
            Some(since) => self.after_idle(now.since(since)),
            None => self.average,
        } >> self.derived.w_log;
        let min = self.min >> self.derived.w_log;
        let fifth = u64::from(self.range / 5);
        if average > min + 3 * fifth && self.max_p <= MAX_P_MOST {
            self.max_p += ONE_PERCENT.min(self.max_p / 4);
        } else if average < min + 2 * fifth && self.max_p >= MAX_P_LEAST {
            self.max_p = self.max_p / 10 * 9;
        }
        // Rounded to the nearest, where set-up rounds down.
        let rounded = (u64::from(self.max_p) + u64::from(self.range / 2)) / u64::from(self.range);
        self.slope = (rounded as u32).max(1);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn weights_are_those_of_the_table_in_floyds_note() {
        // th_min/S = 32: W = 2⁻⁵ allows 57 packets, 2⁻⁷ allows 101. The table
        // rounds 33, 35 and 39 up, so the first rows are taken one below.
        let rows = [(2, 34), (3, 38), (4, 46), (5, 57), (6, 75), (7, 101)];
        for (log, burst) in rows {
            assert_eq!(weight_log(32_000, burst, 1_000), Some(log), "{burst}");
            assert_eq!(weight_log(32_000, burst + 1, 1_000), Some(log + 1));
        }
        // A burst of min/avpkt packets is the least (`tc_red_eval_ewma`).
        assert_eq!(weight_log(32_000, 32, 1_000), Some(1));
        assert_eq!(weight_log(32_000, 31, 1_000), None);
    }

    #[test]
    fn damping_is_the_law_of_idle_time_in_shifts() {
        let bandwidth = Rate::from_mbit(10);
        let derived = Derived::of(33_333, 55, 1_000, bandwidth).unwrap();
        let w = 1.0 / f64::from(1u32 << derived.w_log);
        let packet_ticks = 1_000.0 / 1_250_000.0 * 1e6 * TICKS_PER_US;
        for (i, shift) in derived.damping.iter().enumerate().take(255) {
            let idle = ((i as u64) << derived.cell_log) as f64;
            let want = -libm::log(1.0 - w) * idle / packet_ticks;
            assert!(
                (f64::from(*shift) - want).abs() <= 1.0,
                "{i}: {shift} {want}"
            );
        }
        assert_eq!(derived.damping[255], 31);
    }

    fn red(probability: f64) -> Red {
        let derived = Derived::of(30_000, 50, 1_000, Rate::from_mbit(10)).unwrap();
        Red::new(derived, 30_000, 90_000, probability)
    }

    #[test]
    fn the_average_is_exponentially_weighted() {
        let mut red = red(0.02);
        let mut rng = Rng::for_name(1, "q");
        let w = 1.0 / f64::from(1u32 << red.derived.w_log);
        red.arrive(Instant::ZERO, 0, &mut rng);
        let mut want = 0.0;
        for i in 0..400u64 {
            let backlog = 1_000 * (i % 50);
            red.arrive(Instant::ZERO, backlog, &mut rng);
            want += w * (backlog as f64 - want);
            assert!((red.average() as f64 - want).abs() < 4.0, "{i}");
        }
    }

    #[test]
    fn between_the_thresholds_drops_are_spread_evenly() {
        // Uniform over 1..2/p_b: mean gap about 1/(2·p_b) + 1/2 … 1/p_b.
        let mut red = red(0.1);
        let mut rng = Rng::for_name(1, "q");
        red.arrive(Instant::ZERO, 0, &mut rng);
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 60_000, &mut rng);
        }
        assert!((red.probability() - 0.05).abs() < 0.001);
        let (mut gap, mut gaps) = (0, Vec::new());
        for _ in 0..100_000 {
            gap += 1;
            match red.arrive(Instant::ZERO, 60_000, &mut rng) {
                Action::Early => gaps.push(std::mem::take(&mut gap)),
                action => assert_eq!(action, Action::Pass),
            }
        }
        // X uniform in 1..1/p_b, Floyd and Jacobson (1993) §7.
        assert!(gaps.iter().all(|g| (1..=21).contains(g)));
        let mean = f64::from(gaps.iter().sum::<i32>()) / gaps.len() as f64;
        assert!((mean - 10.5).abs() < 0.4, "{mean}");
    }

    #[test]
    fn from_the_maximum_on_every_packet_is_chosen() {
        let mut red = red(0.02);
        let mut rng = Rng::for_name(1, "q");
        red.arrive(Instant::ZERO, 0, &mut rng);
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 91_000, &mut rng);
        }
        assert_eq!(red.arrive(Instant::ZERO, 91_000, &mut rng), Action::Forced);
        assert_eq!(red.probability(), 1.0);
    }

    #[test]
    fn idle_time_damps_the_average() {
        let mut red = red(0.02);
        let mut rng = Rng::for_name(1, "q");
        red.arrive(Instant::ZERO, 0, &mut rng);
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 60_000, &mut rng);
        }
        let busy = red.average();
        let mut short = red.clone();
        short.idle(Instant::ZERO);
        short.arrive(Instant::from_nanos(1_000), 0, &mut rng);
        assert!(short.average() <= busy && short.average() > busy / 2);
        red.idle(Instant::ZERO);
        red.arrive(Instant::from_nanos(60_000_000_000), 0, &mut rng);
        assert_eq!(red.average(), 0);
    }

    #[test]
    fn max_p_stays_at_the_edges_of_the_middle_fifth_of_the_range() {
        // 40 % and 60 % of the range of 60000 above the minimum of 30000.
        for (average, moves) in [
            (53_999, Ordering::Less),
            (54_000, Ordering::Equal),
            (66_000, Ordering::Equal),
            (66_001, Ordering::Greater),
        ] {
            let mut red = red(0.02);
            let before = red.max_p;
            (red.average, red.idle_since) = (average << red.derived.w_log, None);
            red.adapt(Instant::ZERO);
            assert_eq!(red.max_p.cmp(&before), moves, "{average}");
        }
    }

    #[test]
    fn p_log_is_the_first_shift_by_which_the_slope_exceeds_one() {
        // 0.5/64·2⁷ is 1 and does not exceed it.
        assert_eq!(probability_log(64, 0.5), Some(8));
        assert_eq!(probability_log(63, 0.5), Some(7));
        assert_eq!(probability_log(u32::MAX, 0.01), None);
    }

    #[test]
    fn max_p_is_steered_between_1_and_50_percent() {
        let mut red = red(0.02);
        let mut rng = Rng::for_name(1, "q");
        red.arrive(Instant::ZERO, 0, &mut rng);
        let share = |red: &Red| f64::from(red.max_p) / 4_294_967_296.0;
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 80_000, &mut rng);
        }
        red.adapt(Instant::ZERO);
        // min(1 %, a quarter of 2 %).
        assert!((share(&red) - 0.025).abs() < 1e-6);
        (0..100).for_each(|_| red.adapt(Instant::ZERO));
        assert!((0.5..0.511).contains(&share(&red)), "{}", share(&red));
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 40_000, &mut rng);
        }
        let before = share(&red);
        red.adapt(Instant::ZERO);
        assert!((share(&red) - 0.9 * before).abs() < 1e-6);
        (0..100).for_each(|_| red.adapt(Instant::ZERO));
        assert!((0.009..0.010_001).contains(&share(&red)), "{}", share(&red));
        // Between 40 % and 60 % of the range nothing moves.
        for _ in 0..5_000 {
            red.arrive(Instant::ZERO, 60_000, &mut rng);
        }
        let before = red.max_p;
        red.adapt(Instant::ZERO);
        assert_eq!(red.max_p, before);
    }

    #[test]
    fn the_slope_is_rounded_to_the_nearest_once_it_adapts() {
        // `red_adaptative_algo`: DIV_ROUND_CLOSEST, and at least 1. The range is 60000 bytes.
        for (max_p, slope) in [
            (60_000 * 1_431 + 29_999, 1_431),
            (60_000 * 1_431 + 30_000, 1_432),
            (60_000 * 1_431 + 59_999, 1_432),
            (29_999, 1),
        ] {
            let mut red = red(0.02);
            // In the middle of the range, where max_p stays.
            (red.average, red.idle_since) = (60_000 << red.derived.w_log, None);
            red.max_p = max_p;
            red.adapt(Instant::ZERO);
            assert_eq!((red.max_p, red.slope), (max_p, slope));
        }
    }
}
