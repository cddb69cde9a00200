//! What a metric is: a figure of the run's summary, or a sum over metrics
//! that were named before it.

use narrows_units::WordError;

use super::expression::{Expression, Reader};

/// A metric and how it comes about.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// `share1_pct`.
    pub name: String,
    /// What it is called on pages and plots, if the file says so.
    pub title: Option<String>,
    /// Its unit, if the file says so; empty for what has none.
    pub unit: Option<String>,
    /// Where its value is from.
    pub formula: Formula,
}

/// Where a metric's value is from.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// `COLUMN of ENTITY`: a figure of the summary, such as `goodput_mbit of
    /// flow/prague`, `sojourn_ms.p99 of link/access/up/bottleneck` or `jain of
    /// run`.
    Figure {
        /// `goodput_mbit`.
        column: String,
        /// `flow/prague`, or `run` for figures of the whole.
        entity: String,
    },
    /// `100 * rate1_mbit / (rate1_mbit + rate2_mbit)`: over metrics that come
    /// before it.
    Sum(Expression),
}

impl Formula {
    /// Reads a formula; `known` are the metrics before it.
    ///
    /// # Errors
    /// If it is neither a figure nor a sum.
    pub(crate) fn parse(text: &str, known: &[Metric]) -> Result<Self, WordError> {
        if let Some((column, entity)) = text.split_once(" of ") {
            let (column, entity) = (column.trim(), entity.trim());
            let word = |w: &str| !w.is_empty() && !w.contains(char::is_whitespace);
            if !word(column) || !word(entity) {
                let allowed = "a figure such as `goodput_mbit of flow/prague`";
                return Err(WordError::new(0..text.len(), format!("`{text}`"), allowed));
            }
            return Ok(Self::Figure {
                column: column.to_owned(),
                entity: entity.to_owned(),
            });
        }
        Reader::formula(text, known).map(Self::Sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Vec<Metric> {
        ["a", "b"]
            .iter()
            .map(|name| Metric {
                name: (*name).to_owned(),
                title: None,
                unit: None,
                formula: Formula::Figure {
                    column: "x".to_owned(),
                    entity: "y".to_owned(),
                },
            })
            .collect()
    }

    fn value(text: &str, values: &[Option<f64>]) -> Option<f64> {
        match Formula::parse(text, &metrics()) {
            Ok(Formula::Sum(sum)) => sum.of_metrics(values),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn sums_follow_the_rules_of_arithmetic() {
        let at = [Some(6.0), Some(2.0)];
        assert_eq!(value("100 * a / (a + b)", &at), Some(75.0));
        assert_eq!(value("a - b - 1", &at), Some(3.0));
        assert_eq!(value("a-b*2", &at), Some(2.0));
        assert_eq!(value("abs(b - a) / 2", &at), Some(2.0));
    }

    #[test]
    fn a_missing_metric_and_a_zero_divisor_give_nothing() {
        assert_eq!(value("a / b", &[Some(1.0), Some(0.0)]), None);
        assert_eq!(value("a / b", &[Some(1.0), None]), None);
    }

    #[test]
    fn what_is_no_formula_is_refused_where_it_is_wrong() {
        for (text, at) in [
            ("a +", 3),
            ("a c", 2),
            ("(a", 2),
            ("c", 0),
            ("", 0),
            ("a **b", 3),
        ] {
            let error = Formula::parse(text, &metrics()).expect_err(text);
            assert_eq!(error.span.start, at, "{text}");
        }
        assert!(Formula::parse(&"(".repeat(100_000), &metrics()).is_err());
        assert!(Formula::parse("goodput of a b", &metrics()).is_err());
    }
}
