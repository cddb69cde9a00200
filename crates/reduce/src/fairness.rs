//! Fairness of a set of rates.

/// Jain's index (Jain, Chiu, Hawe 1984, DEC-TR-301): (Σx)² / (n·Σx²), 1 when
/// all are equal, 1/n when one has everything; `None` for no rates or only
/// zeros.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_rates_give_the_published_index() {
        // heistp/l4s-tests, S1 at 50 Mbit/s: 12.65 and 34.57 have 0.823.
        assert_eq!(format!("{:.3}", jain(&[12.65, 34.57]).unwrap()), "0.823");
        assert_eq!(format!("{:.3}", jain(&[1.56, 45.46]).unwrap()), "0.534");
    }

    proptest! {
        #[test]
        fn the_index_is_between_one_share_and_one_and_ignores_scale(
            rates in proptest::collection::vec(0.001f64..1000.0, 1..20),
            scale in 0.01f64..100.0,
        ) {
            let index = jain(&rates).unwrap();
            prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / rates.len() as f64 - 1e-9);
            let scaled: Vec<f64> = rates.iter().map(|x| x * scale).collect();
            prop_assert!((jain(&scaled).unwrap() - index).abs() < 1e-9);
        }
    }

    #[test]
    fn no_rate_has_no_index() {
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
