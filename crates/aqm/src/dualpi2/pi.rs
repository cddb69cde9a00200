//! The PI controllers of `dualpi2`: p′ += α·(q − target) + β·(q − q_prev), in
//! the fixed-point arithmetic of each variant.

use super::config::{DualPi2Config, Variant};

/// Probability 1 as Linux has it (`MAX_PROB`); 2³² − 1.
const MAX_PROBABILITY: u32 = u32::MAX;
/// 2³², the scale of probabilities.
pub(crate) const ONE: u64 = 1 << 32;
/// Linux divides the sum of its products by 2⁶ (`ALPHA_BETA_GRANULARITY`).
const LINUX_DIVISOR: u64 = 64;
/// The module of 2020 divided each product by 2⁷ − 1, which halves the gains
/// and rounds towards zero.
const LINUX_2020_DIVISOR: i64 = 127;

/// A PI controller and its state.
#[derive(Clone, Debug)]
pub(crate) struct Pi {
    variant: Variant,
    target: i64,
    alpha: u64,
    beta: u64,
    ceiling: u64,
    last: i64,
    /// p′ in units of 2⁻³².
    probability: u64,
}

/// Linux's gain: 2⁻³² per 64 ns, from 1/256 Hz as tc hands them over
/// (`dualpi2_scale_alpha_beta`).
fn linux_gain(hz: f64) -> u64 {
    let in_256ths = (hz as f32 * 256.0) as u32;
    ((u64::from(in_256ths) * u64::from(MAX_PROBABILITY)) >> 2) / 1_000_000_000
}

/// Gain of the RFC's law in nHz.
fn exact_gain(hz: f64) -> u64 {
    (hz * 1e9 + 0.5) as u64
}

impl Pi {
    pub fn new(config: &DualPi2Config) -> Self {
        let mut pi = Self {
            variant: config.variant,
            target: 0,
            alpha: 0,
            beta: 0,
            ceiling: 0,
            last: 0,
            probability: 0,
        };
        pi.configure(config);
        pi
    }

    /// Takes new parameters and keeps its state.
    pub fn configure(&mut self, config: &DualPi2Config) {
        let gain = match self.variant {
            Variant::Linux | Variant::Linux2020 => linux_gain,
            Variant::Rfc9332 => exact_gain,
        };
        self.alpha = gain(config.alpha);
        self.beta = gain(config.beta);
        self.target = config.target.as_nanos() as i64;
        self.ceiling = match self.variant {
            Variant::Rfc9332 => ONE,
            // Without drops at overload, L4S marking stops at 100 %.
            _ if !config.drop_overload => {
                u64::from(MAX_PROBABILITY / u32::from(config.coupling_factor))
            }
            _ => u64::from(MAX_PROBABILITY),
        };
    }

    /// p′ in units of 2⁻³².
    pub fn probability(&self) -> u64 {
        self.probability
    }

    #[cfg(test)]
    pub fn set_probability(&mut self, probability: u64) {
        self.probability = probability;
    }

    /// One update with the delay `delay_ns` of the queue's head.
    pub fn update(&mut self, delay_ns: u64) {
        let delay = delay_ns as i64;
        let (off, change) = (delay - self.target, delay - self.last);
        self.last = delay;
        let next = match self.variant {
            Variant::Linux => self.linux(off, change),
            Variant::Linux2020 => self.linux_2020(off, change),
            Variant::Rfc9332 => self.exact(off, change),
        };
        self.probability = next.min(self.ceiling);
    }

    /// The sum of both products, divided towards zero. As in Linux, what
    /// exceeds 32 bits after the division is cut off, so delays of seconds
    /// may wrap.
    fn linux(&self, off: i64, change: i64) -> u64 {
        let delta = off
            .wrapping_mul(self.alpha as i64)
            .wrapping_add(change.wrapping_mul(self.beta as i64));
        let step = (delta.unsigned_abs() / LINUX_DIVISOR) as u32;
        self.moved(delta.is_negative(), step)
    }

    /// Each product divided towards zero, then the sum.
    fn linux_2020(&self, off: i64, change: i64) -> u64 {
        let delta = off.wrapping_mul(self.alpha as i64) / LINUX_2020_DIVISOR
            + change.wrapping_mul(self.beta as i64) / LINUX_2020_DIVISOR;
        self.moved(delta.is_negative(), delta.unsigned_abs() as u32)
    }

    fn moved(&self, down: bool, step: u32) -> u64 {
        let old = self.probability as u32;
        u64::from(if down {
            old.saturating_sub(step)
        } else {
            old.saturating_add(step)
        })
    }

    /// RFC 9332 A.1 without rounding but that to 2⁻³².
    fn exact(&self, off: i64, change: i64) -> u64 {
        let product =
            i128::from(off) * i128::from(self.alpha) + i128::from(change) * i128::from(self.beta);
        // nHz · ns is 10⁻¹⁸.
        let delta = (product << 32) / 1_000_000_000_000_000_000;
        (i128::from(self.probability) + delta).clamp(0, i128::from(ONE)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_gains_are_those_of_linux() {
        // 41·(2³²−1)/4/10⁹ and 819·(2³²−1)/4/10⁹, rounded down.
        assert_eq!(linux_gain(41.0 / 256.0), 44);
        assert_eq!(linux_gain(819.0 / 256.0), 879);
        // 44/64 · 10⁹ / 2³² Hz.
        let hz: f64 = 44.0 / 64.0 * 1e9 / 4_294_967_296.0;
        assert!((hz - 0.16).abs() < 0.0005, "{hz}");
    }

    #[test]
    fn linux_adds_both_products_and_divides_once_by_64() {
        let mut pi = Pi::new(&DualPi2Config::of(Variant::Linux));
        pi.update(20 * MS);
        // (5 ms · 44 + 20 ms · 879) / 64.
        assert_eq!(pi.probability(), (5_000_000 * 44 + 20_000_000 * 879) / 64);
        let before = pi.probability();
        pi.update(10 * MS);
        // −(5 ms · 44 + 10 ms · 879) / 64, towards zero.
        let down = (5_000_000 * 44 + 10_000_000 * 879) / 64;
        assert_eq!(pi.probability(), before - down);
    }

    #[test]
    fn linux_2020_divides_each_product_by_127() {
        let mut pi = Pi::new(&DualPi2Config::of(Variant::Linux2020));
        pi.update(20 * MS);
        assert_eq!(
            pi.probability(),
            5_000_000 * 44 / 127 + 20_000_000 * 879 / 127
        );
        let before = pi.probability() as i64;
        pi.update(21_000_001);
        assert_eq!(
            pi.probability() as i64,
            before + 6_000_001 * 44 / 127 + 1_000_001 * 879 / 127
        );
        // Opposite signs are rounded separately.
        let before = pi.probability() as i64;
        pi.update(14_000_003);
        let want = before - 999_997 * 44 / 127 - 6_999_998 * 879 / 127;
        assert_eq!(pi.probability() as i64, want);
    }

    #[test]
    fn the_gain_of_2020_is_about_half() {
        let (mut new, mut old) = (
            Pi::new(&DualPi2Config::of(Variant::Linux)),
            Pi::new(&DualPi2Config::of(Variant::Linux2020)),
        );
        new.update(40 * MS);
        old.update(40 * MS);
        let ratio = new.probability() as f64 / old.probability() as f64;
        assert!((ratio - 127.0 / 64.0).abs() < 1e-6, "{ratio}");
    }

    #[test]
    fn the_rfc_law_is_exact() {
        let mut pi = Pi::new(&DualPi2Config::of(Variant::Rfc9332));
        pi.update(25 * MS);
        // 0.15·(25 − 15) ms + 3·25 ms = 0.0765.
        let p = pi.probability() as f64 / ONE as f64;
        assert!((p - 0.0765).abs() < 1e-9, "{p}");
        pi.update(10 * MS);
        let p = pi.probability() as f64 / ONE as f64;
        assert!(
            (p - (0.0765 - 0.15 * 0.005 - 3.0 * 0.015)).abs() < 1e-9,
            "{p}"
        );
    }

    #[test]
    fn without_drops_at_overload_coupled_marking_stops_at_one() {
        let config = DualPi2Config {
            drop_overload: false,
            ..DualPi2Config::of(Variant::Linux)
        };
        let mut pi = Pi::new(&config);
        (1..=60).for_each(|i| pi.update(i * 16 * MS));
        assert_eq!(pi.probability(), u64::from(u32::MAX / 2));
    }

    proptest! {
        #[test]
        fn p_stays_within_0_and_1_and_falls_when_the_queue_is_empty(
            variant in prop_oneof![
                Just(Variant::Linux), Just(Variant::Linux2020), Just(Variant::Rfc9332)
            ],
            delays in proptest::collection::vec(0u64..2_000_000_000, 1..200),
        ) {
            let mut pi = Pi::new(&DualPi2Config::of(variant));
            for delay in delays {
                pi.update(delay);
                prop_assert!(pi.probability() <= ONE);
            }
            pi.update(0);
            let mut last = pi.probability();
            for _ in 0..5_000 {
                pi.update(0);
                prop_assert!(pi.probability() <= last);
                last = pi.probability();
            }
            prop_assert_eq!(last, 0);
        }
    }
}
