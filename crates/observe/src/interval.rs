//! Intervals that hold the truth 95 times in 100.

/// An interval in the unit of its estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The 97.5 % quantile of the normal distribution.
const NORMAL_95: f64 = 1.959_963_985;

/// The 97.5 % quantile of Student's t with `df` degrees of freedom; 1 is used
/// for 0. Exact for 1 and 2, else the expansion of Abramowitz and Stegun
/// 26.7.5, within 0.5 % for 3 and closer above.
pub fn student_95(df: u32) -> f64 {
    let z = NORMAL_95;
    match df {
        0 | 1 => 12.706,
        2 => 4.303,
        _ => {
            let n = f64::from(df);
            let square = z * z;
            let g1 = z * (square + 1.0) / 4.0;
            let g2 = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
            let g3 = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
            let g4 = z
                * ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square
                    - 945.0)
                / 92_160.0;
            z + (g1 + (g2 + (g3 + g4 / n) / n) / n) / n
        }
    }
}

/// Wilson's score interval (Wilson 1927) for a share `p` of `n` trials, with
/// the quantile `t`. `n` need not be whole: it is an effective number of trials
/// where trials depend on each other (Korn and Graubard 1998).
pub(crate) fn wilson(p: f64, n: f64, t: f64) -> Interval {
    let p = p.clamp(0.0, 1.0);
    let n = n.max(1.0);
    let square = t * t;
    let centre = (p + square / (2.0 * n)) / (1.0 + square / n);
    let half = t / (1.0 + square / n) * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
    Interval {
        low: (centre - half).max(0.0),
        high: (centre + half).min(1.0),
    }
}

/// How far the mean of a series may be off, below and above, by consecutive batches
/// of it: the mean of each, and how many samples it is of. All are of `length` but
/// for the first, which may be shorter or longer. `n` is how many samples the whole
/// series has.
///
/// Student's t over batch means is right where these are independent and
/// symmetric. Round trips are neither where losses come in bursts: one queue or
/// one timeout lengthens many in a row, and none is shortened as much. So the
/// interval has the two corrections of Skart (Tafazzoli, Wilson, Lada and Steiger
/// 2011, "Performance of Skart: a skewness- and autoregression-adjusted
/// batch-means procedure"): the variance times (1 + r) / (1 - r) for a
/// correlation r of neighbouring batches, and the cube-root transformation of
/// Johnson and Hall (Hall 1992) for their skewness, which makes the side of the
/// long tail the longer one. Where r is not above zero by more than chance
/// makes it, it is taken as zero, so that independent samples are not judged
/// by it.
///
/// The mean of a batch of another length varies more or less by the square root
/// of that; how far it is off counts for as much less or more.
pub(crate) fn batch_reach(
    batches: impl Iterator<Item = (f64, f64)> + Clone,
    length: f64,
    n: f64,
) -> (f64, f64) {
    let k = batches.clone().count() as f64;
    let sum = batches.clone().map(|(mean, of)| mean * of).sum::<f64>();
    let mean = sum / batches.clone().map(|(_, of)| of).sum::<f64>();
    let off = batches.map(|(m, of)| (m - mean) * (of / length).sqrt());
    let squares = off.clone().map(|o| o * o).sum::<f64>();
    if squares <= 0.0 {
        return (0.0, 0.0);
    }
    let pairs = off.clone().zip(off.clone().skip(1));
    let neighbours: f64 = pairs.map(|(one, next)| one * next).sum();
    // Of independent batches it is -1/k on average, give or take 1/sqrt(k).
    let r = neighbours / squares;
    let r = if r > CHANCE / k.sqrt() { r } else { 0.0 };
    let inflation = (1.0 + r) / (1.0 - r);
    let variance = squares / (k - 1.0);
    let error = (variance * inflation * length / n).sqrt();
    // As many independent batches as these are worth.
    let worth = k / inflation;
    let t = student_95(((worth - 1.0) as u32).max(LEAST_FREEDOM));
    let cubes = off.map(|o| o * o * o).sum::<f64>();
    let skewness = k / ((k - 1.0) * (k - 2.0)) * cubes / (variance * variance.sqrt());
    let bend = skewness / (6.0 * worth.sqrt());
    (error * unbent(t, bend), -error * unbent(-t, bend))
}

/// Standard errors of a correlation of nothing above which a correlation of
/// batches is accepted: one batch in ten of independent ones exceeds it.
const CHANCE: f64 = 1.282;
/// Degrees of freedom that are granted to the most correlated batches.
const LEAST_FREEDOM: u32 = 3;

/// Hall's transformation (Hall 1992, "On the removal of skewness by
/// transformation"), inverted: the quantile of a mean whose standardised skewness
/// is 6 `bend`, for the quantile `t` of a symmetric one.
fn unbent(t: f64, bend: f64) -> f64 {
    if bend.abs() < 1e-6 {
        return t;
    }
    (libm::cbrt(1.0 + 6.0 * bend * (t - bend)) - 1.0) / (2.0 * bend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (df, t) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (5, 2.571),
            (10, 2.228),
            (31, 2.040),
        ] {
            assert!((student_95(df) - t).abs() < 0.005 * t, "{df}");
        }
    }

    #[test]
    fn wilsons_interval_is_that_of_a_worked_example() {
        // 10 of 100: 0.0552 to 0.1744.
        let i = wilson(0.1, 100.0, NORMAL_95);
        assert!((i.low - 0.0552).abs() < 1e-4 && (i.high - 0.1744).abs() < 1e-4);
        let none = wilson(0.0, 100.0, NORMAL_95);
        assert!(none.low == 0.0 && (none.high - 0.0370).abs() < 1e-4);
    }
}
