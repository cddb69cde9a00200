//! Expressions over metrics: what a formula, a comparison and each side of it
//! are read with and worked out by.
//!
//! ```text
//! chain   = sum { ( "<" | "<=" | ">" | ">=" ) sum }
//! sum     = product { ( "+" | "-" ) product }
//! product = term { ( "*" | "/" ) term }
//! term    = number | metric | "(" sum ")" | "abs(" sum ")"
//!         | "covered(" metric "," metric "," metric [ "," metric ] ")" cell
//!         | ( "mean" | "least" | "greatest" | "deviation" ) "(" metric ")" cell
//! metric  = name                 in a formula: another metric
//!         | name cell            in a comparison: of one cell
//! cell    = "[" name "]"
//! ```

use std::fmt;

use narrows_units::WordError;

use super::{Cell, Measured, Metric, Seen};

/// Deeper brackets than anyone needs.
const DEEPEST: usize = 32;

/// Seeds below which the share of intervals that hold the truth is not judged:
/// of 50 it has a standard error of 3 points where it should be 95.
const SEEDS_FOR_COVERAGE: usize = 50;

/// Arithmetic over metrics, by their index in the campaign.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A metric of a cell; in a formula that of the cell which is measured,
    /// whose name is empty here.
    Metric(usize, String),
    /// An amount without its sign.
    Abs(Box<Expression>),
    /// `covered(TRUTH, LOW, HIGH)[CELL]`: the percentage of seeds in which the
    /// interval holds the mean of TRUTH over all seeds; with a fourth metric, each
    /// seed's TRUTH counts for as much as that says.
    Covered([usize; 3], Option<usize>, String),
    /// `mean(METRIC)[CELL]`: over the seeds; nothing where a seed has no such figure.
    OverSeeds(Statistic, usize, String),
    /// Two of them, with one of `+ - * /` between.
    Two(Box<Expression>, char, Box<Expression>),
}

/// What the figures of all seeds come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// Their mean.
    Mean,
    /// The least of them.
    Least,
    /// The greatest of them.
    Greatest,
    /// Their standard deviation; the divisor is one less than their number.
    Deviation,
}

impl Statistic {
    fn called(word: &str) -> Option<Self> {
        Some(match word {
            "mean" => Self::Mean,
            "least" => Self::Least,
            "greatest" => Self::Greatest,
            "deviation" => Self::Deviation,
            _ => return None,
        })
    }

    fn of(self, figures: &[f64]) -> Option<f64> {
        let n = figures.len() as f64;
        let mean = figures.iter().sum::<f64>() / n;
        let squares = || figures.iter().map(|f| (f - mean) * (f - mean)).sum::<f64>();
        let value = match self {
            Self::Mean => mean,
            Self::Least => figures.iter().copied().reduce(f64::min)?,
            Self::Greatest => figures.iter().copied().reduce(f64::max)?,
            Self::Deviation => (squares() / (n - 1.0)).sqrt(),
        };
        Some(value).filter(|v| v.is_finite())
    }
}

/// How two sides of a comparison stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    pub(super) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Less => a < b,
            Self::LessOrEqual => a <= b,
            Self::Greater => a > b,
            Self::GreaterOrEqual => a >= b,
        }
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

/// What an expression comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A cell was not run, or with too few seeds.
    NotRun,
    /// Its value, if there is one: none where a metric has none or a divisor
    /// is zero.
    Is(Option<f64>),
}

impl Expression {
    /// Adds the figures that it is worked out of to `found`: metrics by index, with their
    /// cells.
    pub(super) fn figures<'a>(&'a self, found: &mut Vec<(usize, &'a str)>) {
        let mut add = |metric: usize, cell: &'a str| {
            if !found.contains(&(metric, cell)) {
                found.push((metric, cell));
            }
        };
        match self {
            Self::Number(_) => {}
            Self::Metric(metric, cell) | Self::OverSeeds(_, metric, cell) => add(*metric, cell),
            Self::Covered(interval, weight, cell) => {
                interval.iter().chain(weight).for_each(|m| add(*m, cell));
            }
            Self::Abs(inner) => inner.figures(found),
            Self::Two(a, _, b) => {
                a.figures(found);
                b.figures(found);
            }
        }
    }

    /// The metrics that a formula needs, by index.
    pub(super) fn metrics(&self) -> Vec<usize> {
        let mut figures = Vec::new();
        self.figures(&mut figures);
        figures.into_iter().map(|(metric, _)| metric).collect()
    }

    /// Its value, by what was measured.
    pub(super) fn value(&self, seen: &Seen<'_>) -> Value {
        match self {
            Self::Number(n) => Value::Is(Some(*n)),
            Self::Metric(metric, cell) => {
                seen(*metric, cell).map_or(Value::NotRun, |m| Value::Is(m.median))
            }
            Self::Abs(inner) => match inner.value(seen) {
                Value::Is(value) => Value::Is(value.map(f64::abs)),
                Value::NotRun => Value::NotRun,
            },
            Self::Covered(interval, weight, cell) => {
                let by_seed = |metric| seen(metric, cell).map(|m: Measured<'_>| m.by_seed);
                match (interval.map(by_seed), weight.map(by_seed)) {
                    (_, Some(None)) => Value::NotRun,
                    ([Some(truth), Some(low), Some(high)], weight) => {
                        covered(truth, low, high, weight.flatten())
                    }
                    _ => Value::NotRun,
                }
            }
            Self::OverSeeds(statistic, metric, cell) => {
                seen(*metric, cell).map_or(Value::NotRun, |m| {
                    let all: Option<Vec<f64>> = m.by_seed.iter().copied().collect();
                    Value::Is(all.and_then(|figures| statistic.of(&figures)))
                })
            }
            Self::Two(left, op, right) => {
                let (Value::Is(a), Value::Is(b)) = (left.value(seen), right.value(seen)) else {
                    return Value::NotRun;
                };
                let value = a.zip(b).map(|(a, b)| match op {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                });
                Value::Is(value.filter(|v| v.is_finite()))
            }
        }
    }

    /// The value of a formula, by the values of the metrics.
    pub fn of_metrics(&self, metrics: &[Option<f64>]) -> Option<f64> {
        let seen = |metric: usize, _: &str| {
            Some(Measured {
                median: metrics.get(metric).copied().flatten(),
                by_seed: &[],
            })
        };
        match self.value(&seen) {
            Value::Is(value) => value,
            Value::NotRun => None,
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
) -> Value {
    if truth.len() < SEEDS_FOR_COVERAGE {
        return Value::NotRun;
    }
    let known: Vec<(f64, f64)> = (0..truth.len())
        .filter_map(|i| {
            let weight = weight.map_or(Some(1.0), |w| w.get(i).copied().flatten());
            Some((truth[i]?, weight.unwrap_or(0.0)))
        })
        .collect();
    let all: f64 = known.iter().map(|(_, weight)| weight).sum();
    if all <= 0.0 {
        return Value::Is(None);
    }
    let mean = known.iter().map(|(t, weight)| t * weight).sum::<f64>() / all;
    let seeds = truth.iter().zip(low.iter().zip(high));
    let judged = seeds.filter(|(truth, _)| truth.is_some());
    let hits = judged
        .filter(|(_, ends)| matches!(ends, (Some(l), Some(h)) if *l <= mean && mean <= *h))
        .count();
    Value::Is(Some(100.0 * hits as f64 / known.len() as f64))
}

/// Reads an expression.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    metrics: &'a [Metric],
    /// The cells that a comparison may name; a formula names none.
    cells: Option<&'a [Cell]>,
}

impl<'a> Reader<'a> {
    /// A formula over `metrics`.
    ///
    /// # Errors
    /// If `text` is none, or names what is not there.
    pub(super) fn formula(text: &'a str, metrics: &'a [Metric]) -> Result<Expression, WordError> {
        Self::whole(text, metrics, None, "formula")
    }

    /// One side of a comparison by itself.
    ///
    /// # Errors
    /// If `text` is none, or names what is not there.
    pub(super) fn value(
        text: &'a str,
        metrics: &'a [Metric],
        cells: &'a [Cell],
    ) -> Result<Expression, WordError> {
        Self::whole(text, metrics, Some(cells), "figure")
    }

    /// An expression that is the whole of `text`, a `what`.
    fn whole(
        text: &'a str,
        metrics: &'a [Metric],
        cells: Option<&'a [Cell]>,
        what: &str,
    ) -> Result<Expression, WordError> {
        let mut reader = Self {
            text,
            at: 0,
            metrics,
            cells,
        };
        let sum = reader.sum(0)?;
        match reader.next() {
            None => Ok(sum),
            Some(_) => Err(reader.wrong(&format!("`+`, `-`, `*`, `/` or the end of the {what}"))),
        }
    }

    /// A chain of comparisons over `metrics` of `cells`: its first side, and
    /// the others with what precedes them.
    ///
    /// # Errors
    /// If `text` is none, or names what is not there.
    pub(super) fn comparison(
        text: &'a str,
        metrics: &'a [Metric],
        cells: &'a [Cell],
    ) -> Result<(Expression, Vec<(Order, Expression)>), WordError> {
        let (at, cells) = (0, Some(cells));
        let mut reader = Self {
            text,
            at,
            metrics,
            cells,
        };
        let first = reader.sum(0)?;
        let mut rest = Vec::new();
        while let Some(order) = reader.order() {
            rest.push((order, reader.sum(0)?));
        }
        if rest.is_empty() || reader.next().is_some() {
            return Err(reader.wrong("`<`, `<=`, `>` or `>=`"));
        }
        Ok((first, rest))
    }

    /// The next letter that is no space, which stays.
    fn next(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes the next letter if it is one of `letters`.
    fn take_if(&mut self, letters: &[char]) -> Option<char> {
        let letter = self.next().filter(|c| letters.contains(c))?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// The letters, digits, `_` and `.` that come next, which stay.
    fn word(&mut self) -> &'a str {
        self.next();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// The error for what was found here, where `allowed` is expected.
    fn wrong(&mut self, allowed: &str) -> WordError {
        let what = self.cells.map_or("formula", |_| "comparison");
        let found = match self.next() {
            None => format!("the end of the {what}"),
            Some(_) => format!("`{}`", crate::tree::clipped(self.rest())),
        };
        WordError::new(self.at..self.text.len(), found, allowed)
    }

    fn order(&mut self) -> Option<Order> {
        let op = self.take_if(&['<', '>'])?;
        let equal = self.rest().starts_with('=');
        self.at += usize::from(equal);
        Some(match (op, equal) {
            ('<', false) => Order::Less,
            ('<', true) => Order::LessOrEqual,
            (_, false) => Order::Greater,
            (_, true) => Order::GreaterOrEqual,
        })
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, WordError> {
        let mut left = self.product(depth)?;
        while let Some(op) = self.take_if(&['+', '-']) {
            left = Expression::Two(left.into(), op, self.product(depth)?.into());
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<Expression, WordError> {
        let mut left = self.term(depth)?;
        while let Some(op) = self.take_if(&['*', '/']) {
            left = Expression::Two(left.into(), op, self.term(depth)?.into());
        }
        Ok(left)
    }

    /// A sum and its closing bracket; the opening one is taken.
    fn bracketed(&mut self, depth: usize) -> Result<Expression, WordError> {
        if depth == DEEPEST {
            return Err(self.wrong("fewer brackets"));
        }
        let inner = self.sum(depth + 1)?;
        match self.take_if(&[')']) {
            Some(_) => Ok(inner),
            None => Err(self.wrong("`)`")),
        }
    }

    fn term(&mut self, depth: usize) -> Result<Expression, WordError> {
        if self.take_if(&['(']).is_some() {
            return self.bracketed(depth);
        }
        let (start, word) = (self.at, self.word());
        let called = self.rest()[word.len()..].trim_start().starts_with('(');
        self.at += word.len();
        match word {
            "abs" if self.take_if(&['(']).is_some() => {
                return Ok(Expression::Abs(self.bracketed(depth)?.into()));
            }
            "covered" if called && self.cells.is_some() => {
                self.take_if(&['(']);
                return self.covered();
            }
            _ => {}
        }
        if let (Some(statistic), true) = (Statistic::called(word), called && self.cells.is_some()) {
            self.take_if(&['(']);
            return self.over_seeds(statistic);
        }
        if let Some(number) = number(word) {
            return Ok(Expression::Number(number));
        }
        match self.metric_called(word) {
            Some(metric) => Ok(Expression::Metric(metric, self.cell()?)),
            None => {
                self.at = start;
                Err(self.wrong(match self.cells {
                    None => "a number, a metric, `abs(…)` or `(`",
                    Some(_) => {
                        "a number, `METRIC[CELL]`, `abs(…)`, `mean(METRIC)[CELL]`, `covered(TRUTH, LOW, HIGH)[CELL]` or `(`"
                    }
                }))
            }
        }
    }

    fn metric_called(&self, word: &str) -> Option<usize> {
        self.metrics.iter().position(|m| m.name == word)
    }

    /// `TRUTH, LOW, HIGH)[CELL]`, or with `, WEIGHT` after HIGH.
    fn covered(&mut self) -> Result<Expression, WordError> {
        let mut metrics = Vec::with_capacity(4);
        loop {
            let word = self.word();
            let Some(found) = self.metric_called(word) else {
                let allowed = "three metrics: the truth, and the interval's ends; or with a fourth, its weight";
                return Err(self.wrong(allowed));
            };
            self.at += word.len();
            metrics.push(found);
            let (ends, allowed): (&[char], _) = match metrics.len() {
                1 | 2 => (&[','], "`,`"),
                3 => (&[',', ')'], "`)`, or `,` and a weight"),
                _ => (&[')'], "`)`"),
            };
            match self.take_if(ends) {
                Some(')') => break,
                Some(_) => {}
                None => return Err(self.wrong(allowed)),
            }
        }
        let weight = metrics.get(3).copied();
        let interval = [metrics[0], metrics[1], metrics[2]];
        Ok(Expression::Covered(interval, weight, self.cell()?))
    }

    /// `METRIC)[CELL]`.
    fn over_seeds(&mut self, statistic: Statistic) -> Result<Expression, WordError> {
        let word = self.word();
        let Some(metric) = self.metric_called(word) else {
            return Err(self.wrong("a metric"));
        };
        self.at += word.len();
        match self.take_if(&[')']) {
            Some(_) => Ok(Expression::OverSeeds(statistic, metric, self.cell()?)),
            None => Err(self.wrong("`)`")),
        }
    }

    /// `[CELL]` in a comparison; nothing in a formula.
    fn cell(&mut self) -> Result<String, WordError> {
        let Some(cells) = self.cells else {
            return Ok(String::new());
        };
        if self.take_if(&['[']).is_none() {
            return Err(self.wrong("`[` and the name of a cell"));
        }
        let known = |name: &str| cells.iter().any(|c| c.name == name);
        match self.rest().split_once(']') {
            Some((cell, _)) if known(cell.trim()) => {
                self.at += cell.len() + 1;
                Ok(cell.trim().to_owned())
            }
            _ => Err(self.wrong("the name of a cell and `]`")),
        }
    }
}

/// The number that `word` is.
fn number(word: &str) -> Option<f64> {
    let digit = word.starts_with(|c: char| c.is_ascii_digit());
    word.parse().ok().filter(|_| digit)
}
