//! Shapes that measured figures must have among themselves: comparisons of
//! the figures of named cells.

use narrows_units::WordError;

use super::expression::{Expression, Order, Reader, Value};
use super::{Cell, Metric};
use crate::glob::Glob;

/// A named check over measured figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// `AC1`.
    pub id: String,
    /// What it says, in a line.
    pub text: String,
    /// It holds if all of them do.
    pub conditions: Vec<Condition>,
    /// Whether the campaign fails where it does not hold; otherwise it is
    /// reported.
    pub gate: bool,
    /// Why it is so, or why a figure misses it.
    pub source: Option<String>,
}

/// A chain of comparisons, `65 <= mean_ms[base] <= 76`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As the file spells it.
    pub text: String,
    first: Expression,
    rest: Vec<(Order, Expression)>,
}

/// What a condition comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// A cell that it names was not run.
    NotRun,
    /// Whether it holds, and the values that were compared; `None` where a cell
    /// has no such figure.
    Judged(bool, Vec<Option<f64>>),
}

/// What was measured of one metric in a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured<'a> {
    /// The median over the seeds, if any has one.
    pub median: Option<f64>,
    /// Each seed's own.
    pub by_seed: &'a [Option<f64>],
}

/// What was measured of a metric, by its index, in the cell of a name; `None`
/// if the cell was not run.
pub type Seen<'a> = dyn Fn(usize, &str) -> Option<Measured<'a>> + 'a;

impl Condition {
    /// Reads a comparison over `metrics` of `cells`.
    ///
    /// # Errors
    /// If it is none, or names what is not there.
    pub(crate) fn parse(text: &str, metrics: &[Metric], cells: &[Cell]) -> Result<Self, WordError> {
        let (first, rest) = Reader::comparison(text, metrics, cells)?;
        Ok(Self {
            text: text.to_owned(),
            first,
            rest,
        })
    }

    /// Reads a comparison that may name cells by a pattern, `late_pct[*/pid] <= 2`: one
    /// for each cell that the pattern fits. A comparison has one pattern, which may be in
    /// several places.
    ///
    /// # Errors
    /// If it is none, names what is not there, or has a pattern that fits no cell.
    pub(crate) fn parse_all(
        text: &str,
        metrics: &[Metric],
        cells: &[Cell],
    ) -> Result<Vec<Self>, WordError> {
        of_each_cell(text, cells, &mut |text| Self::parse(text, metrics, cells))
    }

    /// The figures that are compared: metrics by their index in the campaign, with their
    /// cells, each once.
    pub fn figures(&self) -> Vec<(usize, &str)> {
        let mut found = Vec::new();
        self.first.figures(&mut found);
        for (_, side) in &self.rest {
            side.figures(&mut found);
        }
        found
    }

    /// Whether it holds, by what was measured.
    pub fn judge(&self, seen: &Seen<'_>) -> Held {
        let mut values = Vec::with_capacity(1 + self.rest.len());
        for side in std::iter::once(&self.first).chain(self.rest.iter().map(|(_, side)| side)) {
            match side.value(seen) {
                Value::NotRun => return Held::NotRun,
                Value::Is(value) => values.push(value),
            }
        }
        let orders = self.rest.iter().map(|(order, _)| order);
        let holds = orders
            .zip(values.windows(2))
            .all(|(order, pair)| matches!(pair, [Some(a), Some(b)] if order.holds(*a, *b)));
        Held::Judged(holds, values)
    }

    /// The comparison with `values` in place of its terms: `65 <= 70.1 <= 76`.
    pub fn with(&self, values: &[Option<f64>]) -> String {
        let word = |value: Option<f64>| match value {
            // Rates of loss are small; round trips are given to the microsecond.
            Some(v) if v.abs() < 0.1 => format!("{}", (v * 1e6).round() / 1e6),
            Some(v) => format!("{}", (v * 1e3).round() / 1e3),
            None => "nothing".to_owned(),
        };
        let mut line = word(values.first().copied().flatten());
        for ((order, _), value) in self.rest.iter().zip(values.iter().skip(1)) {
            line.push_str(&format!(" {order} {}", word(*value)));
        }
        line
    }
}

/// What `read` makes of `text` for each cell that the pattern in it fits, with the cell's name
/// in all places of the pattern; of a text without a pattern once.
///
/// # Errors
/// Those of `read`, and if the pattern is none or fits no cell.
pub(super) fn of_each_cell<T>(
    text: &str,
    cells: &[Cell],
    read: &mut dyn FnMut(&str) -> Result<T, WordError>,
) -> Result<Vec<T>, WordError> {
    let Some((at, pattern)) = pattern_in(text) else {
        return read(text).map(|one| vec![one]);
    };
    let refused = |allowed: &str| {
        let found = format!("the pattern `{pattern}`");
        WordError::new(at..at + pattern.len(), found, allowed)
    };
    let glob = Glob::parse(pattern).map_err(|_| refused("a `}` for each `{`"))?;
    let fit = cells.iter().filter(|cell| glob.matches(&cell.name));
    let in_place = format!("[{pattern}]");
    let all = fit
        .map(|cell| read(&text.replace(&in_place, &format!("[{}]", cell.name))))
        .collect::<Result<Vec<_>, _>>()?;
    match all.is_empty() {
        true => Err(refused("a pattern that fits the name of a cell")),
        false => Ok(all),
    }
}

/// The first pattern among the names of cells, and where it is.
fn pattern_in(text: &str) -> Option<(usize, &str)> {
    let opened = text.match_indices('[');
    let names = opened.filter_map(|(at, _)| {
        let (name, _) = text[at + 1..].split_once(']')?;
        Some((at + 1, name))
    });
    let mut names = names.filter(|(_, name)| name.contains(['*', '?', '{']));
    names.next()
}

#[cfg(test)]
pub(super) mod samples {
    use super::super::Formula;
    use super::*;

    /// Two metrics and two cells.
    pub(in super::super) fn campaign_of() -> ([Metric; 2], [Cell; 2]) {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            title: None,
            unit: None,
            formula: Formula::Sum(Expression::Number(0.0)),
        };
        let plan = crate::Draft::from_words(&["rate 1Mbit".to_owned()], &["cubic".to_owned()])
            .and_then(|d| d.check())
            .expect("a plan");
        let cell = |name: &str| Cell {
            name: name.to_owned(),
            at: Vec::new(),
            plan: plan.clone(),
            expected: Vec::new(),
            published: Vec::new(),
        };
        let cells = [cell("base"), cell("0.1/spin")];
        ([metric("mean_ms"), metric("sd")], cells)
    }

    /// What was measured there; `sd` of the second cell was not run, that of the first has no
    /// value.
    pub(in super::super) fn measured(metric: usize, cell: &str) -> Option<Measured<'static>> {
        let median = match (metric, cell) {
            (0, "base") => Some(70.0),
            (0, _) => Some(-20.0),
            (_, "base") => None,
            _ => return None,
        };
        Some(Measured {
            median,
            by_seed: &[],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Result<Condition, WordError> {
        conditions(text).map(|mut all| all.remove(0))
    }

    fn conditions(text: &str) -> Result<Vec<Condition>, WordError> {
        let (metrics, cells) = samples::campaign_of();
        Condition::parse_all(text, &metrics, &cells)
    }

    fn judged(text: &str) -> Held {
        condition(text).expect(text).judge(&samples::measured)
    }

    #[test]
    fn coverage_is_of_the_mean_of_all_truths_and_needs_many_seeds() {
        let condition = condition("covered(mean_ms, sd, mean_ms)[base] <= 98").expect("one");
        let truth: Vec<Option<f64>> = (0..100).map(|i| Some(f64::from(i % 2))).collect();
        // The truth is 0.5; it is held where the lower end is below and the
        // seed's own value, which is the upper one here, above.
        let low: Vec<Option<f64>> = (0..100).map(|i| (i != 1).then_some(0.2)).collect();
        let judge = |n: usize| {
            condition.judge(&|metric, _| {
                Some(Measured {
                    median: None,
                    by_seed: if metric == 0 { &truth[..n] } else { &low[..n] },
                })
            })
        };
        assert_eq!(judge(49), Held::NotRun);
        let expected = Held::Judged(true, vec![Some(49.0), Some(98.0)]);
        assert_eq!(judge(100), expected);
    }

    #[test]
    fn figures_of_all_seeds_are_compared_as_well() {
        let seeds = [Some(4.0), None, Some(-1.0), Some(3.0)];
        let judge = |text: &str| {
            condition(text).expect(text).judge(&|_, _| {
                Some(Measured {
                    median: Some(3.0),
                    by_seed: &seeds,
                })
            })
        };
        for (statistic, value) in [
            ("mean", 2.0),
            ("least", -1.0),
            ("greatest", 4.0),
            ("deviation", 7.0f64.sqrt()),
        ] {
            // A seed without the figure fails: it is not known that it would hold.
            let text = format!("{statistic}(sd)[base] < 9");
            let expected = Held::Judged(false, vec![None, Some(9.0)]);
            assert_eq!(judge(&text), expected, "{text}");
            let complete: Vec<_> = seeds.iter().copied().filter(Option::is_some).collect();
            let held = condition(&text).expect(&text).judge(&|_, _| {
                Some(Measured {
                    median: None,
                    by_seed: &complete,
                })
            });
            let Held::Judged(true, values) = held else {
                panic!("{text}: {held:?}")
            };
            assert!(
                (values[0].unwrap() - value).abs() < 1e-9,
                "{text}: {values:?}"
            );
        }
    }

    #[test]
    fn a_pattern_makes_a_comparison_for_each_cell_that_it_fits() {
        let texts = |text: &str| -> Vec<String> {
            let all = conditions(text).expect(text);
            all.into_iter().map(|c| c.text).collect()
        };
        assert_eq!(texts("1 < sd[*a*]"), ["1 < sd[base]"]);
        assert_eq!(
            texts("sd[{base,*/spin}] < greatest(mean_ms)[{base,*/spin}]"),
            [
                "sd[base] < greatest(mean_ms)[base]",
                "sd[0.1/spin] < greatest(mean_ms)[0.1/spin]"
            ]
        );
        let error = conditions("1 < sd[x*]").expect_err("no cell");
        assert_eq!(error.span, 7..9);
    }

    #[test]
    fn a_rate_counts_for_as_many_packets_as_it_is_of() {
        let condition = condition("covered(mean_ms, sd, mean_ms, sd)[base] < 98").expect("one");
        // The mean of the rates is 1.0; of the packets behind them 0.4 were lost.
        let truth: Vec<Option<f64>> = (0..100).map(|i| Some(f64::from(i % 2) * 2.0)).collect();
        let weight: Vec<Option<f64>> = (0..100)
            .map(|i| Some(if i % 2 == 0 { 0.4 } else { 0.1 }))
            .collect();
        let measured = |by_seed| Measured {
            median: None,
            by_seed,
        };
        // The lower end is the weight: 0.4 or 0.1; the upper one the truth.
        let held = condition
            .judge(&|metric, _| Some(measured(if metric == 0 { &truth[..] } else { &weight[..] })));
        assert_eq!(held, Held::Judged(true, vec![Some(50.0), Some(98.0)]));
    }

    #[test]
    fn chains_hold_where_every_neighbour_does() {
        let holds = |text: &str| matches!(judged(text), Held::Judged(true, _));
        assert!(holds("65 <= mean_ms[base] <= 76"));
        assert!(!holds("65 <= mean_ms[base] <= 69"));
        assert!(holds("mean_ms[base] > mean_ms[0.1/spin] > 0 - 21"));
        assert!(holds(
            "abs(mean_ms[0.1/spin] + 1) < (mean_ms[base] - 50) * 2 / 2"
        ));
        assert!(!holds("70 < mean_ms[base]"));
    }

    #[test]
    fn what_was_not_measured_fails_and_what_was_not_run_is_not_judged() {
        assert_eq!(judged("1 < sd[0.1/spin]"), Held::NotRun);
        assert_eq!(
            judged("1 < sd[base]"),
            Held::Judged(false, vec![Some(1.0), None])
        );
    }

    #[test]
    fn what_is_no_comparison_is_refused() {
        for text in [
            "",
            "1",
            "1 <",
            "x[base] < 1",
            "mean_ms < 1",
            "mean_ms[far] < 1",
            "mean_ms[base < 1",
            "1 < (2",
            "1 < 2 3",
            "1 = 2",
            "covered(mean_ms, sd)[base] > 1",
            "covered(mean_ms, sd, x)[base] > 1",
            "covered(mean_ms, sd, sd) > 1",
            "mean(sd) > 1",
            "mean(x)[base] > 1",
            "greatest(sd, sd)[base] > 1",
            "sd[{base] > 1",
        ] {
            assert!(condition(text).is_err(), "{text}");
        }
    }
}
