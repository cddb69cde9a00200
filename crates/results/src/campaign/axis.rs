//! Values of a campaign's axes as numbers.

use narrows_units::{Duration, Rate, Value as _};

use super::AxisResult;

/// The values of an axis as numbers of one kind, and the kind's unit: plain numbers,
/// percentages, times in ms or rates in Mbit/s. `None` where one is no number, or two are
/// the same one.
pub fn numbers(values: &[String]) -> Option<(Vec<f64>, &'static str)> {
    let all = |read: &dyn Fn(&str) -> Option<f64>| -> Option<Vec<f64>> {
        values.iter().map(|v| read(v)).collect()
    };
    let plain = |v: &str| v.parse::<f64>().ok().filter(|v| v.is_finite());
    let percent = |v: &str| plain(v.strip_suffix('%')?);
    let millis = |v: &str| Some(Duration::parse(v)?.as_millis_f64());
    let mbit = |v: &str| Some(Rate::parse(v)?.as_mbit_f64());
    let found = all(&plain)
        .map(|numbers| (numbers, ""))
        .or_else(|| Some((all(&percent)?, "%")))
        .or_else(|| Some((all(&millis)?, "ms")))
        .or_else(|| Some((all(&mbit)?, "Mbit/s")))?;
    let mut sorted = found.0.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    (sorted.len() == found.0.len()).then_some(found)
}

impl AxisResult {
    /// The axis as a column: its name, which ends with the unit of its numbers, and the
    /// number of each value; no numbers where values are names.
    pub fn column(&self) -> (String, Option<Vec<f64>>) {
        let Some((numbers, unit)) = numbers(&self.values) else {
            return (self.name.clone(), None);
        };
        let ending = match unit {
            "%" => "_pct",
            "ms" => "_ms",
            "Mbit/s" => "_mbit",
            _ => "",
        };
        let name = self.name.strip_suffix(ending).unwrap_or(&self.name);
        (format!("{name}{ending}"), Some(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_numbers_is_a_column_with_its_unit() {
        let of = |name: &str, values: &[&str]| {
            let values = values.iter().map(|v| (*v).to_owned()).collect();
            let name = name.to_owned();
            AxisResult { name, values }.column()
        };
        assert_eq!(
            of("rate", &["500kbit", "1Gbit"]),
            ("rate_mbit".to_owned(), Some(vec![0.5, 1000.0]))
        );
        assert_eq!(
            of("rtt_ms", &["20ms", "1s"]),
            ("rtt_ms".to_owned(), Some(vec![20.0, 1000.0]))
        );
        assert_eq!(
            of("rtt", &["20ms", "1s"]),
            ("rtt_ms".to_owned(), Some(vec![20.0, 1000.0]))
        );
        assert_eq!(
            of("loss", &["0.5%", "2%"]),
            ("loss_pct".to_owned(), Some(vec![0.5, 2.0]))
        );
        assert_eq!(of("n", &["1", "2"]).0, "n");
        assert_eq!(of("rtt", &["10-10", "20-10"]), ("rtt".to_owned(), None));
    }
}
