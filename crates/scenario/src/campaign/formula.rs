//! What a metric is: a figure of the run's summary, or a sum over other metrics, which may
//! stand before or after it.

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
    /// `100 * rate1_mbit / (rate1_mbit + rate2_mbit)`: over other metrics.
    Sum(Expression),
}

/// The values of `metrics`, by their order. `known(index)` is the value of one that is not
/// worked out of others; `None` for one that its formula gives.
pub(super) fn values(
    metrics: &[Metric],
    known: &mut dyn FnMut(usize) -> Option<Option<f64>>,
) -> Vec<Option<f64>> {
    let mut values: Vec<Option<Option<f64>>> = (0..metrics.len()).map(known).collect();
    for index in in_order(metrics) {
        if let (None, Formula::Sum(sum)) = (values[index], &metrics[index].formula) {
            let others: Vec<_> = values.iter().map(|value| value.flatten()).collect();
            values[index] = Some(sum.of_metrics(&others));
        }
    }
    values.into_iter().map(Option::flatten).collect()
}

/// The metrics by their indices, each after those that its formula needs, as far as that goes:
/// those that need themselves are left out.
fn in_order(metrics: &[Metric]) -> Vec<usize> {
    let needs = |index: usize| match &metrics[index].formula {
        Formula::Figure { .. } => Vec::new(),
        Formula::Sum(sum) => sum.metrics(),
    };
    let mut order = Vec::with_capacity(metrics.len());
    let mut done = vec![false; metrics.len()];
    loop {
        let ready = (0..metrics.len())
            .find(|index| !done[*index] && needs(*index).iter().all(|need| done[*need]));
        match ready {
            Some(index) => {
                done[index] = true;
                order.push(index);
            }
            None => return order,
        }
    }
}

/// The first metric that is worked out of itself, by its index: `None` where all have a value.
pub(super) fn circular(metrics: &[Metric]) -> Option<usize> {
    let order = in_order(metrics);
    let left_out = |index: &usize| !order.contains(index);
    // Of those that only need such a one, the one that needs itself is meant.
    let circle = |from: &usize| {
        let mut open = vec![*from];
        let mut seen = Vec::new();
        while let Some(index) = open.pop() {
            if let Formula::Sum(sum) = &metrics[index].formula {
                let fresh = sum.metrics().into_iter().filter(|m| !seen.contains(m));
                let fresh: Vec<_> = fresh.collect();
                seen.extend(&fresh);
                open.extend(fresh);
            }
        }
        seen.contains(from)
    };
    (0..metrics.len()).filter(left_out).find(circle)
}

/// How a figure is written.
const FIGURE: &str = "a figure such as `goodput_mbit of flow/prague`";

/// How names of what has figures begin.
const ENTITIES: [&str; 7] = [
    "flow/", "window/", "link/", "queue/", "probe/", "mark/", "observe/",
];

impl Formula {
    /// Reads a formula; `known` are all metrics.
    ///
    /// # Errors
    /// If it is neither a figure nor a sum.
    pub(crate) fn parse(text: &str, known: &[Metric]) -> Result<Self, WordError> {
        if let Some((column, entity)) = text.split_once(" of ") {
            let (column, entity) = (column.trim(), entity.trim());
            let word = |w: &str| !w.is_empty() && !w.contains(char::is_whitespace);
            if !word(column) || !word(entity) {
                return Err(WordError::new(0..text.len(), format!("`{text}`"), FIGURE));
            }
            return Ok(Self::Figure {
                column: column.to_owned(),
                entity: entity.to_owned(),
            });
        }
        let is_figure = ENTITIES.iter().any(|kind| text.starts_with(kind));
        Reader::formula(text, known)
            .map(Self::Sum)
            .map_err(|error| match is_figure {
                true => WordError::new(0..text.len(), format!("`{text}`"), FIGURE)
                    .with_help("a figure is written `METRIC of ENTITY`"),
                false => error,
            })
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
    fn metrics_are_worked_out_in_whichever_order_they_are_written() {
        let metric = |name: &str, formula| Metric {
            name: name.to_owned(),
            title: None,
            unit: None,
            formula,
        };
        let figure = || Formula::Figure {
            column: "x".to_owned(),
            entity: "y".to_owned(),
        };
        let names = ["share", "sum", "a", "b"].map(|name| metric(name, figure()));
        let sum = |text: &str| Formula::parse(text, &names).expect(text);
        let all = [
            metric("share", sum("100 * a / sum")),
            metric("sum", sum("a + b")),
            metric("a", figure()),
            metric("b", figure()),
        ];
        assert_eq!(circular(&all), None);
        let mut known = |index: usize| (index > 1).then_some(Some(index as f64));
        let got = values(&all, &mut known);
        assert_eq!(got, [Some(40.0), Some(5.0), Some(2.0), Some(3.0)]);
        // A published column goes before the formula.
        let mut known = |index: usize| (index > 0).then_some(Some(8.0));
        assert_eq!(values(&all, &mut known)[..2], [Some(100.0), Some(8.0)]);
    }

    #[test]
    fn a_metric_that_is_worked_out_of_itself_is_found() {
        let figure = || Formula::Sum(Expression::Number(1.0));
        let metric = |name: &str, formula| Metric {
            name: name.to_owned(),
            title: None,
            unit: None,
            formula,
        };
        let names = ["far", "a", "b", "c"].map(|name| metric(name, figure()));
        let of = |texts: [&str; 4]| {
            let formula = |text: &str| Formula::parse(text, &names).expect(text);
            let all = ["far", "a", "b", "c"].iter().zip(texts);
            let all: Vec<_> = all
                .map(|(name, text)| metric(name, formula(text)))
                .collect();
            circular(&all)
        };
        assert_eq!(of(["a", "b + 1", "c", "2"]), None);
        assert_eq!(of(["a", "b + 1", "c", "abs(a)"]), Some(1));
        assert_eq!(of(["far", "1", "2", "3"]), Some(0));
        assert_eq!(of(["1", "2", "c", "c"]), Some(3));
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
