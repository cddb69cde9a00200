//! The laws by which netem spreads a delay about its mean.

use std::fmt;

use narrows_units::Value;

/// How a jitter spreads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Evenly from −jitter to +jitter.
    #[default]
    Uniform,
    /// Normal with the jitter as its standard deviation.
    Normal,
    /// A Pareto tail of exponent 3, moved and scaled as iproute2's
    /// `pareto.dist` (`netem/pareto.c`).
    Pareto,
    /// A quarter normal, three quarters Pareto at the same quantile
    /// (iproute2 `netem/paretonormal.c`).
    ParetoNormal,
}

impl Distribution {
    const NAMES: [(&'static str, Self); 4] = [
        ("uniform", Self::Uniform),
        ("normal", Self::Normal),
        ("pareto", Self::Pareto),
        ("paretonormal", Self::ParetoNormal),
    ];

    /// The signed deviation, in nanoseconds, that the random `word` stands for
    /// at a jitter of `sigma` nanoseconds.
    pub(crate) fn deviation(self, word: u32, sigma: u64) -> i64 {
        if sigma == 0 {
            return 0;
        }
        let sigma = i128::from(sigma);
        let deviation = match self {
            Self::Uniform => ((i128::from(word) * 2 * sigma) >> 32) - sigma,
            Self::Normal => sigma * steps(normal_quantile, word) / SCALE,
            Self::Pareto => sigma * steps(pareto_quantile, word) / SCALE,
            Self::ParetoNormal => {
                let mixed = |u| 0.25 * normal_quantile(u) + 0.75 * pareto_quantile(u);
                sigma * steps(mixed, word) / SCALE
            }
        };
        i64::try_from(deviation).unwrap_or(i64::MAX)
    }
}

/// The `quantile` of `word` in steps of 1/8192 jitter, cut at ±32767 steps
/// as netem's tables are (four jitters). An integer, so that all machines
/// agree.
fn steps(quantile: impl Fn(f64) -> f64, word: u32) -> i128 {
    let u = (f64::from(word) + 0.5) / TWO_32;
    libm::rint(quantile(u) * SCALE as f64).clamp(-32_768.0, 32_767.0) as i128
}

/// netem's `NETEM_DIST_SCALE`: table steps in one jitter.
const SCALE: i128 = 8_192;

const TWO_32: f64 = 4_294_967_296.0;

/// Exponent 3; mean 1.5 taken off; scaled by 4/3 (iproute2 `netem/pareto.c`).
/// The tail is cut at four jitters before it is mixed, as there.
fn pareto_quantile(u: f64) -> f64 {
    let raw = 1.0 / libm::cbrt(1.0 - u) - 1.5;
    (raw * 4.0 / 3.0).min(32_767.0 / SCALE as f64)
}

/// The inverse of the standard normal distribution by Acklam's rational
/// approximation (relative error below 1.2 × 10⁻⁹).
fn normal_quantile(u: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    /// Where the approximation of the tails begins.
    const TAIL: f64 = 0.02425;
    let horner = |c: &[f64], x: f64| c.iter().fold(0.0, |sum, k| sum * x + k);
    let tail = |p: f64| {
        let q = (-2.0 * libm::log(p)).sqrt();
        horner(&C, q) / horner(&D, q)
    };
    if u < TAIL {
        tail(u)
    } else if u > 1.0 - TAIL {
        -tail(1.0 - u)
    } else {
        let q = u - 0.5;
        let r = q * q;
        q * horner(&A, r) / horner(&B, r)
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, law)| law == self);
        f.write_str(name.map_or("uniform", |(name, _)| name))
    }
}

impl Value for Distribution {
    const ALLOWED: &'static str = "uniform, normal, pareto or paretonormal";

    fn parse(word: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, law)| *law)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_quantile_inverts_the_distribution() {
        for i in 1..1000 {
            let u = f64::from(i) / 1000.0;
            let x = normal_quantile(u);
            let back = 0.5 + 0.5 * libm::erf(x / 2f64.sqrt());
            assert!((back - u).abs() < 1e-8, "{u} {back}");
        }
    }

    #[test]
    fn pareto_has_the_quantiles_of_exponent_three() {
        // P(X > x) = x⁻³ for the raw variable: at u = 7/8 it is 2.
        assert!((pareto_quantile(7.0 / 8.0) - (2.0 - 1.5) * 4.0 / 3.0).abs() < 1e-12);
        // The smallest value is (1 − 1.5)·4/3.
        assert!((pareto_quantile(0.0) + 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_ends_of_a_law_are_four_jitters_and_the_tail_of_a_mixture_is_cut_before() {
        // 32768 and 32767 steps of 1/8192.
        assert_eq!(Distribution::Normal.deviation(0, 1_000_000), -4_000_000);
        let highest = 32_767_000_000 / 8_192;
        for law in [
            Distribution::Normal,
            Distribution::Pareto,
            Distribution::ParetoNormal,
        ] {
            assert_eq!(law.deviation(u32::MAX, 1_000_000), highest, "{law}");
        }
        assert_eq!(pareto_quantile(0.995), 32_767.0 / 8_192.0);
        // The normal quantile of 0.995 is 2.5758.
        let word = (0.995 * TWO_32) as u32;
        let found = Distribution::ParetoNormal.deviation(word, 1_000_000);
        let expected = 2_575_829 / 4 + highest * 3 / 4;
        assert!((found - expected).abs() < 200, "{found} for {expected}");
    }

    #[test]
    fn deviations_stay_within_their_bounds() {
        let sigma = 1_000_000;
        for word in [0, 1, u32::MAX / 2, u32::MAX - 1, u32::MAX] {
            let uniform = Distribution::Uniform.deviation(word, sigma);
            assert!((-1_000_000..1_000_000).contains(&uniform));
            for law in [
                Distribution::Normal,
                Distribution::Pareto,
                Distribution::ParetoNormal,
            ] {
                assert!(law.deviation(word, sigma).abs() <= 4_000_000);
            }
        }
    }
}
