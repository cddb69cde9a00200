//! Where an axis has ticks, and their labels.

use super::thin::digits;

/// Ticks of a logarithmic axis: 1, 2 and 5 of each decade, over many decades
/// only 1, within one more.
pub fn logarithmic(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (libm::floor(libm::log10(from)), libm::ceil(libm::log10(to)));
    let steps: &[f64] = match to / from {
        wide if wide > 1e3 => &[1.0],
        narrow if narrow < 10.0 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        _ => &[1.0, 2.0, 5.0],
    };
    (first as i32..=last as i32)
        .flat_map(|decade| steps.iter().map(move |step| (decade, step)))
        .map(|(decade, step)| digits(step * libm::pow(10.0, f64::from(decade)), 3))
        .filter(|tick| (from..=to).contains(tick))
        .collect()
}

/// A tick's value without needless digits, for an axis `span` long.
pub fn text(value: f64, span: f64) -> String {
    let value = if value.abs() < span * 1e-9 {
        0.0
    } else {
        value
    };
    let magnitude = value.abs();
    if magnitude >= 1e6 {
        return format!("{}M", trim(value / 1e6, 2));
    }
    if magnitude >= 1e4 {
        return format!("{}k", trim(value / 1e3, 1));
    }
    let places = if span >= 20.0 {
        1
    } else if span >= 0.2 {
        2
    } else {
        4
    };
    trim(value, places)
}

/// `value` with at most `places` decimals and no trailing zeros.
fn trim(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_has_ticks_over_any_stretch() {
        assert_eq!(logarithmic(12.0, 72.0), [15.0, 20.0, 30.0, 50.0, 70.0]);
        assert_eq!(logarithmic(0.02, 0.5), [0.02, 0.05, 0.1, 0.2, 0.5]);
        assert_eq!(logarithmic(0.001, 30.0), [0.001, 0.01, 0.1, 1.0, 10.0]);
    }

    #[test]
    fn ticks_have_no_needless_digits() {
        assert_eq!(text(20.0, 100.0), "20");
        assert_eq!(text(0.30000000000000004, 1.0), "0.3");
        assert_eq!(text(-1e-17, 1.0), "0");
        assert_eq!(text(15_000.0, 1e5), "15k");
        assert_eq!(text(2_500_000.0, 1e7), "2.5M");
    }
}
