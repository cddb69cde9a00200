//! The PI controllers of the fixed-link study: PIE's law with its scaled gains, and PI2's.

use narrows_units::Duration;

/// Probability 1.
pub(super) const ONE: u64 = 1 << 48;
/// Bursts that an idle queue lets pass (ns3-aqm-l4s `MaxBurstAllowance`; RFC 8033 §4.4).
const BURST_ALLOWANCE: Duration = Duration::from_millis(150);

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// Gains shrink as the probability does, two updates without delay let it decay, and
    /// bursts pass.
    Pie,
    /// None of this: the output is squared instead.
    Pi2,
}

/// What steers one queue.
#[derive(Clone, Debug)]
pub(super) struct Pi {
    pub law: Law,
    pub target: Duration,
    pub tupdate: Duration,
    /// Integral gain in nHz.
    pub alpha: u64,
    /// Proportional gain in nHz.
    pub beta: u64,
    last: Duration,
    burst: Duration,
    /// In units of 2⁻⁴⁸.
    pub probability: u64,
}

/// A gain in nHz.
fn gain(hz: f64) -> u64 {
    (hz * 1e9 + 0.5) as u64
}

impl Pi {
    pub fn new(law: Law, target: Duration, tupdate: Duration, alpha: f64, beta: f64) -> Self {
        Self {
            law,
            target,
            tupdate,
            alpha: gain(alpha),
            beta: gain(beta),
            last: Duration::ZERO,
            burst: Duration::ZERO,
            probability: 0,
        }
    }

    /// Takes the parameters of another and keeps its own state.
    pub fn take_parameters(&mut self, other: &Self) {
        *self = Self {
            last: self.last,
            burst: self.burst,
            probability: self.probability,
            ..other.clone()
        };
    }

    /// How much smaller a step is at this probability: 2 below 10 %, and four times that at
    /// each further power of ten (RFC 8033 §4.2), as powers of two.
    fn damping(&self) -> u32 {
        let mut shift = 0;
        let mut bound = ONE / 10;
        while self.probability < bound && shift < 11 {
            shift += if shift == 0 { 1 } else { 2 };
            bound /= 10;
        }
        shift
    }

    /// One update with the age of the oldest packet, nothing where none waits.
    pub fn update(&mut self, delay: Duration) {
        let ns = |d: Duration| i128::from(d.as_nanos());
        let product = (ns(delay) - ns(self.target)) * i128::from(self.alpha)
            + (ns(delay) - ns(self.last)) * i128::from(self.beta);
        // nHz · ns is 10⁻¹⁸.
        let mut step = (product << 48) / 1_000_000_000_000_000_000;
        if self.law == Law::Pie {
            step /= 1 << self.damping();
        }
        let mut next = i128::from(self.probability) + step;
        if self.law == Law::Pie && delay.is_zero() && self.last.is_zero() {
            next = next * 98 / 100;
        }
        self.probability = next.clamp(0, i128::from(ONE)) as u64;
        self.last = delay;
        self.burst = self.burst.saturating_sub(self.tupdate);
    }

    /// Whether the law lets packets alone, as one comes to a queue whose oldest has waited
    /// for `delay` and in which `waiting` packets are.
    pub fn is_calm(&mut self, delay: Duration, waiting: usize) -> bool {
        let half = self.target / 2;
        if self.probability == 0 && delay < half && self.last < half {
            self.burst = BURST_ALLOWANCE;
        }
        !self.burst.is_zero() || (self.last < half && self.probability < ONE / 5) || waiting <= 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn pi(law: Law, probability: f64) -> Pi {
        let mut pi = Pi::new(law, MS(15), MS(15), 0.125, 1.25);
        pi.probability = (probability * ONE as f64) as u64;
        pi
    }

    fn share(pi: &Pi) -> f64 {
        pi.probability as f64 / ONE as f64
    }

    #[test]
    fn pie_adds_alpha_and_beta_of_the_report() {
        let mut law = pi(Law::Pie, 0.2);
        law.last = MS(19);
        law.update(MS(20));
        // α(d − d_target) + β(d − d_last).
        assert!((share(&law) - (0.2 + 0.125 * 0.005 + 1.25 * 0.001)).abs() < 1e-9);
    }

    #[test]
    fn gains_shrink_as_the_probability_does() {
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
        for (p, divisor) in steps {
            let mut law = pi(Law::Pie, p);
            law.update(MS(20));
            let step = share(&law) - p;
            let full = 0.125 * 0.005 + 1.25 * 0.020;
            assert!((step - full / divisor).abs() < 1e-9, "{p}: {step}");
            let mut law = pi(Law::Pi2, p);
            law.update(MS(20));
            assert!((share(&law) - p - full).abs() < 1e-9);
        }
    }

    #[test]
    fn without_delay_pie_decays_and_pi2_falls_to_zero_and_no_further() {
        let mut law = pi(Law::Pie, 0.9);
        law.update(MS(0));
        assert!((share(&law) - (0.9 - 0.125 * 0.015) * 0.98).abs() < 1e-9);
        let mut law = pi(Law::Pi2, 0.001);
        law.update(MS(0));
        assert_eq!(law.probability, 0);
        law.update(MS(16));
        assert!(law.probability > 0);
    }

    #[test]
    fn bursts_of_150_ms_pass_after_the_queue_was_idle() {
        let mut law = pi(Law::Pie, 0.0);
        assert!(law.is_calm(MS(0), 10));
        for round in 1..=10 {
            law.update(MS(200));
            assert_eq!(law.is_calm(MS(200), 10), round < 10, "{round}");
        }
        // Three packets are the least that the law is for.
        assert!(law.is_calm(MS(200), 2));
        assert!(!law.is_calm(MS(200), 3));
    }

    #[test]
    fn below_half_the_target_and_a_fifth_packets_are_let_alone() {
        let mut law = pi(Law::Pie, 0.1);
        law.last = MS(7);
        assert!(law.is_calm(MS(30), 10));
        law.last = MS(8);
        assert!(!law.is_calm(MS(30), 10));
        let mut law = pi(Law::Pie, 0.3);
        law.last = MS(7);
        assert!(!law.is_calm(MS(30), 10));
    }

    #[test]
    fn an_idle_queue_is_one_that_is_below_half_the_target() {
        let half = Duration::from_nanos(7_500_000);
        let below = Duration::from_nanos(7_499_999);
        for (delay, last, passes) in [
            (below, below, true),
            (half, below, false),
            (below, half, false),
        ] {
            let mut law = pi(Law::Pie, 0.0);
            law.last = last;
            law.is_calm(delay, 10);
            assert_eq!(!law.burst.is_zero(), passes, "{delay} {last}");
        }
        for (probability, last, calm) in [
            (ONE / 5 - 1, below, true),
            (ONE / 5, below, false),
            (ONE / 5 - 1, half, false),
        ] {
            let mut law = pi(Law::Pie, 0.0);
            (law.probability, law.last) = (probability, last);
            assert_eq!(law.is_calm(MS(30), 10), calm, "{probability} {last}");
        }
    }

    #[test]
    fn new_parameters_leave_the_state_as_it_is() {
        let mut law = pi(Law::Pie, 0.3);
        (law.last, law.burst) = (MS(3), MS(40));
        law.take_parameters(&Pi::new(Law::Pie, MS(5), MS(8), 0.25, 2.5));
        assert_eq!((law.last, law.burst), (MS(3), MS(40)));
        assert!((share(&law) - 0.3).abs() < 1e-9);
        assert_eq!((law.target, law.tupdate), (MS(5), MS(8)));
        assert_eq!((law.alpha, law.beta), (250_000_000, 2_500_000_000));
    }
}
