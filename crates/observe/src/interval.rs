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

/// The 97.5 % quantile of Student's t with `df` degrees of freedom; 1 stands
/// for 0. Exact for 1 and 2, else the expansion of Abramowitz and Stegun
/// 26.7.5, within 0.5 % for 3 and closer above.
pub fn student_95(df: u32) -> f64 {
    let z = NORMAL_95;
    match df {
        0 | 1 => 12.706,
        2 => 4.303,
        _ => {
            let n = f64::from(df);
            let g1 = (z.powi(3) + z) / 4.0;
            let g2 = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            let g3 = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
            let g4 = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
                - 1920.0 * z.powi(3)
                - 945.0 * z)
                / 92_160.0;
            z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3) + g4 / n.powi(4)
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
