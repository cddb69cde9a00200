//! Shapes that measured figures must have among themselves: comparisons of
//! the figures of named cells.

use std::fmt;

use narrows_units::WordError;

use super::arithmetic::{Arithmetic, Scanner, apply, number};
use super::{Cell, Metric};

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
    first: Term,
    rest: Vec<(Order, Term)>,
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

/// What a term comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// A cell was not run, or with too few seeds.
    NotRun,
    /// Its value, if there is one.
    Is(Option<f64>),
}

/// Seeds below which the share of intervals that hold the truth is not judged:
/// of 50 it has a standard error of 3 points where it should be 95.
const SEEDS_FOR_COVERAGE: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    /// A metric, by its index, of the cell with this name.
    Of(usize, String),
    /// Its amount without a sign.
    Abs(Box<Term>),
    /// `covered(TRUTH, LOW, HIGH)[CELL]`: the percentage of seeds in which the
    /// interval holds the mean of TRUTH over all seeds; with a fourth metric, each
    /// seed's TRUTH counts for as much as that says.
    Covered([usize; 3], Option<usize>, String),
    Two(Box<Term>, char, Box<Term>),
}

impl Condition {
    /// Reads a comparison over `metrics` of `cells`.
    ///
    /// # Errors
    /// If it is none, or names what is not there.
    pub(crate) fn parse(text: &str, metrics: &[Metric], cells: &[Cell]) -> Result<Self, WordError> {
        let mut reader = Reader {
            scanner: Scanner::new(text, "comparison"),
            metrics,
            cells,
        };
        let first = reader.sum(0)?;
        let mut rest = Vec::new();
        while let Some(order) = reader.order() {
            rest.push((order, reader.sum(0)?));
        }
        if rest.is_empty() || reader.scanner.next().is_some() {
            return Err(reader.scanner.wrong("`<`, `<=`, `>` or `>=`"));
        }
        Ok(Self {
            text: text.to_owned(),
            first,
            rest,
        })
    }

    /// Whether it holds, by what was measured.
    pub fn judge(&self, seen: &Seen<'_>) -> Held {
        let mut values = Vec::with_capacity(1 + self.rest.len());
        for term in std::iter::once(&self.first).chain(self.rest.iter().map(|(_, t)| t)) {
            match term.value(seen) {
                Figure::NotRun => return Held::NotRun,
                Figure::Is(value) => values.push(value),
            }
        }
        let holds = self
            .rest
            .iter()
            .zip(values.windows(2))
            .all(|((order, _), pair)| {
                let (Some(a), Some(b)) = (pair[0], pair[1]) else {
                    return false;
                };
                match order {
                    Order::Less => a < b,
                    Order::LessOrEqual => a <= b,
                    Order::Greater => a > b,
                    Order::GreaterOrEqual => a >= b,
                }
            });
        Held::Judged(holds, values)
    }

    /// The comparison with `values` in place of its terms: `65 <= 70.1 <= 76`.
    pub fn with(&self, values: &[Option<f64>]) -> String {
        let word = |value: Option<f64>| match value {
            // Rates of loss are small; round trips are told to the microsecond.
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

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}

impl Term {
    fn value(&self, seen: &Seen<'_>) -> Figure {
        match self {
            Self::Number(n) => Figure::Is(Some(*n)),
            Self::Of(metric, cell) => {
                seen(*metric, cell).map_or(Figure::NotRun, |m| Figure::Is(m.median))
            }
            Self::Abs(term) => match term.value(seen) {
                Figure::Is(value) => Figure::Is(value.map(f64::abs)),
                none => none,
            },
            Self::Covered(metrics, weight, cell) => {
                let [truth, low, high] = metrics.map(|m| seen(m, cell));
                let weight = weight.map(|m| seen(m, cell));
                match (truth, low, high, weight) {
                    (Some(truth), Some(low), Some(high), None) => {
                        covered(truth.by_seed, low.by_seed, high.by_seed, None)
                    }
                    (Some(truth), Some(low), Some(high), Some(Some(weight))) => covered(
                        truth.by_seed,
                        low.by_seed,
                        high.by_seed,
                        Some(weight.by_seed),
                    ),
                    _ => Figure::NotRun,
                }
            }
            Self::Two(left, op, right) => {
                let (Figure::Is(a), Figure::Is(b)) = (left.value(seen), right.value(seen)) else {
                    return Figure::NotRun;
                };
                let value = a.zip(b).map(|(a, b)| apply(a, *op, b));
                Figure::Is(value.filter(|v| v.is_finite()))
            }
        }
    }
}

/// The percentage of seeds whose interval holds the mean of all truths. A seed
/// without an interval does not hold it; one without a truth, as of a flow that
/// carries no marks because its SYN was lost, does not count.
///
/// `weight` is for rates: how many packets each is of. Where a flow that loses much
/// sends little, the mean of all flows' rates is more than the rate at which packets
/// are lost.
fn covered(
    truth: &[Option<f64>],
    low: &[Option<f64>],
    high: &[Option<f64>],
    weight: Option<&[Option<f64>]>,
) -> Figure {
    if truth.len() < SEEDS_FOR_COVERAGE {
        return Figure::NotRun;
    }
    let known: Vec<(f64, f64)> = (0..truth.len())
        .filter_map(|i| {
            let weight = weight.map_or(Some(1.0), |w| w.get(i).copied().flatten());
            Some((truth[i]?, weight.unwrap_or(0.0)))
        })
        .collect();
    let all: f64 = known.iter().map(|(_, weight)| weight).sum();
    if all <= 0.0 {
        return Figure::Is(None);
    }
    let mean = known.iter().map(|(t, weight)| t * weight).sum::<f64>() / all;
    let holds = |low: Option<f64>, high: Option<f64>| matches!((low, high), (Some(low), Some(high)) if low <= mean && mean <= high);
    let seeds = truth.iter().zip(low.iter().zip(high));
    let judged = seeds.filter(|(truth, _)| truth.is_some());
    let hits = judged
        .filter(|(_, (low, high))| holds(**low, **high))
        .count();
    Figure::Is(Some(100.0 * hits as f64 / known.len() as f64))
}

struct Reader<'a> {
    scanner: Scanner<'a>,
    metrics: &'a [Metric],
    cells: &'a [Cell],
}

impl<'a> Arithmetic<'a> for Reader<'a> {
    type Term = Term;

    fn scanner(&mut self) -> &mut Scanner<'a> {
        &mut self.scanner
    }

    fn two(left: Term, op: char, right: Term) -> Term {
        Term::Two(Box::new(left), op, Box::new(right))
    }

    fn term(&mut self, depth: usize) -> Result<Term, WordError> {
        const ALLOWED: &str =
            "a number, `METRIC[CELL]`, `abs(…)`, `covered(TRUTH, LOW, HIGH)[CELL]` or `(`";
        let word = self.scanner.word();
        let metric = self.metric_called(word);
        if metric.is_none() && number(word).is_none() && !["abs", "covered"].contains(&word) {
            return Err(self.scanner.wrong(ALLOWED));
        }
        self.scanner.skip(word.len());
        if ["abs", "covered"].contains(&word) && self.scanner.take_if(&['(']).is_some() {
            return if word == "abs" {
                Ok(Term::Abs(Box::new(self.bracketed(depth)?)))
            } else {
                self.covered()
            };
        }
        match (number(word), metric) {
            (Some(number), _) => Ok(Term::Number(number)),
            (None, Some(metric)) => Ok(Term::Of(metric, self.cell()?)),
            (None, None) => Err(self.scanner.wrong("`(`")),
        }
    }
}

impl Reader<'_> {
    fn order(&mut self) -> Option<Order> {
        let op = self.scanner.take_if(&['<', '>'])?;
        let equal = self.scanner.rest().starts_with('=');
        self.scanner.skip(usize::from(equal));
        Some(match (op, equal) {
            ('<', false) => Order::Less,
            ('<', true) => Order::LessOrEqual,
            (_, false) => Order::Greater,
            (_, true) => Order::GreaterOrEqual,
        })
    }

    fn metric_called(&self, word: &str) -> Option<usize> {
        self.metrics.iter().position(|m| m.name == word)
    }

    /// `TRUTH, LOW, HIGH)[CELL]`, or with `, WEIGHT` after HIGH.
    fn covered(&mut self) -> Result<Term, WordError> {
        let mut metrics = Vec::with_capacity(4);
        loop {
            let word = self.scanner.word();
            let Some(found) = self.metric_called(word) else {
                let allowed = "three metrics: the truth, and the interval's ends; or with a fourth, its weight";
                return Err(self.scanner.wrong(allowed));
            };
            self.scanner.skip(word.len());
            metrics.push(found);
            let (ends, allowed): (&[char], _) = match metrics.len() {
                1 | 2 => (&[','], "`,`"),
                3 => (&[',', ')'], "`)`, or `,` and a weight"),
                _ => (&[')'], "`)`"),
            };
            match self.scanner.take_if(ends) {
                Some(')') => break,
                Some(_) => {}
                None => return Err(self.scanner.wrong(allowed)),
            }
        }
        let weight = metrics.get(3).copied();
        let interval = [metrics[0], metrics[1], metrics[2]];
        Ok(Term::Covered(interval, weight, self.cell()?))
    }

    /// `[CELL]`.
    fn cell(&mut self) -> Result<String, WordError> {
        if self.scanner.take_if(&['[']).is_none() {
            return Err(self.scanner.wrong("`[` and the name of a cell"));
        }
        let known = |name: &str| self.cells.iter().any(|c| c.name == name);
        match self.scanner.rest().split_once(']') {
            Some((cell, _)) if known(cell.trim()) => {
                self.scanner.skip(cell.len() + 1);
                Ok(cell.trim().to_owned())
            }
            _ => Err(self.scanner.wrong("the name of a cell and `]`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Result<Condition, WordError> {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            title: None,
            unit: None,
            formula: super::super::Formula::Sum(super::super::Sum::Number(0.0)),
        };
        let plan = crate::Draft::from_words(&["rate 1Mbit".to_owned()], &["cubic".to_owned()])
            .and_then(|d| d.check())
            .expect("a plan");
        let cell = |name: &str| Cell {
            name: name.to_owned(),
            at: Vec::new(),
            plan: plan.clone(),
            published: Vec::new(),
        };
        let cells = [cell("base"), cell("0.1/spin")];
        Condition::parse(text, &[metric("mean_ms"), metric("sd")], &cells)
    }

    fn judged(text: &str) -> Held {
        condition(text).expect(text).judge(&|metric, cell| {
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
        })
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
        ] {
            assert!(condition(text).is_err(), "{text}");
        }
    }
}
