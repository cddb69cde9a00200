//! What a campaign shows, in sentences whose figures are those of its cells.

use narrows_units::WordError;

use super::expression::{Expression, Reader, Value};
use super::shape::of_each_cell;
use super::{Cell, Metric, Seen, document};
use crate::document::{At, Places};
use crate::refusal::{Refusal, one_of};

/// A key finding.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyFinding {
    /// It, in a line.
    pub title: String,
    /// How grave it is, as measured.
    pub severity: Sentence,
    /// Under which conditions.
    pub when: Option<Sentence>,
    /// What cures it.
    pub cure: Option<Sentence>,
    /// The checks and tolerances by which it holds, by their names.
    pub checks: Vec<String>,
}

/// A text with figures in it: `{ratio[*]}` is what was measured in those cells, from the
/// least to the greatest, `{published ratio[*]}` what is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Words(String),
    /// Expressions, one for each cell.
    Figures {
        published: bool,
        of: Vec<Expression>,
    },
}

/// Before an expression over published figures.
const PUBLISHED: &str = "published ";

impl KeyFinding {
    pub(super) fn read(
        table: &At<document::KeyFinding>,
        places: &Places,
        metrics: &[Metric],
        cells: &[Cell],
        checks: &[&str],
    ) -> Result<Self, Refusal> {
        let sentence = |at: &At<String>| {
            Sentence::parse(at, metrics, cells).map_err(|error| places.refused_words(at, error))
        };
        let title = places.required(table, "title", &table.title, "what was found, in a line")?;
        let allowed = "a sentence with measured figures, `{METRIC[CELL]}`";
        let severity = places.required(table, "severity", &table.severity, allowed)?;
        let mut named = Vec::new();
        for at in table.checks.iter() {
            if !checks.contains(&at.as_str()) {
                let known = || checks.iter().copied();
                return Err(places.refuse(at, one_of(known())).did_you_mean(at, known()));
            }
            named.push(at.to_string());
        }
        if named.is_empty() {
            let allowed = "the name of a check or a tolerance by which it holds";
            return Err(places.missing(table, "checks", allowed));
        }
        Ok(Self {
            title: title.to_string(),
            severity: sentence(severity)?,
            when: table.when.as_ref().map(sentence).transpose()?,
            cure: table.cure.as_ref().map(sentence).transpose()?,
            checks: named,
        })
    }
}

impl Sentence {
    fn parse(text: &str, metrics: &[Metric], cells: &[Cell]) -> Result<Self, WordError> {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(opened) = text[at..].find('{').map(|place| at + place) {
            let closed = closing(text, opened).ok_or_else(|| {
                WordError::new(
                    opened..text.len(),
                    "a `{` without its `}`",
                    "`{METRIC[CELL]}`",
                )
            })?;
            parts.push(Part::Words(text[at..opened].to_owned()));
            let inside = &text[opened + 1..closed];
            let figures = inside.strip_prefix(PUBLISHED);
            let whole = |error: WordError| WordError {
                span: opened..closed + 1,
                ..error
            };
            let of = of_each_cell(figures.unwrap_or(inside), cells, &mut |text| {
                Reader::value(text, metrics, cells)
            });
            parts.push(Part::Figures {
                published: figures.is_some(),
                of: of.map_err(whole)?,
            });
            at = closed + 1;
        }
        parts.push(Part::Words(text[at..].to_owned()));
        Ok(Self(parts))
    }

    /// The sentence with its figures, by what was `measured` and what is `published`, a dash
    /// for one that a cell has not got; `None` if it is about a cell that was not run.
    pub fn filled(&self, measured: &Seen<'_>, published: &Seen<'_>) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Words(words) => Some(words.clone()),
            Part::Figures {
                published: is_published,
                of,
            } => match is_published {
                true => range(of, published),
                false => range(of, measured),
            },
        };
        self.0.iter().map(part).collect()
    }
}

/// Where the bracket that opens at `opened` is closed; a pattern has brackets of its own.
fn closing(text: &str, opened: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, letter) in text[opened..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(opened + place),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The least and the greatest value; `None` if a cell was not run.
fn range(of: &[Expression], seen: &Seen<'_>) -> Option<String> {
    let mut ends: Option<(f64, f64)> = None;
    for expression in of {
        match expression.value(seen) {
            Value::Is(Some(v)) => {
                ends = Some(ends.map_or((v, v), |(low, high)| (low.min(v), high.max(v))));
            }
            Value::Is(None) => {}
            Value::NotRun => return None,
        }
    }
    let Some((low, high)) = ends else {
        return Some("–".to_owned());
    };
    let (low, high) = (said(low), said(high));
    Some(match low == high {
        true => low,
        false => format!("{low} to {high}"),
    })
}

/// A figure in a sentence: three digits, without zeros behind the point.
fn said(value: f64) -> String {
    let decimals = match value.abs() {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text.strip_prefix('-') {
        Some("0") => "0".to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::samples::{campaign_of, measured};
    use super::*;

    fn filled(text: &str) -> Result<Option<String>, WordError> {
        let (metrics, cells) = campaign_of();
        let sentence = Sentence::parse(text, &metrics, &cells)?;
        Ok(sentence.filled(&measured, &|metric, cell| {
            let mut seen = measured(metric, cell)?;
            seen.median = seen.median.map(|v| v * 2.0);
            Some(seen)
        }))
    }

    #[test]
    fn a_sentence_has_the_range_over_the_cells_of_a_pattern() {
        for (text, expected) in [
            ("no figure.", "no figure."),
            ("{mean_ms[base]} ms", "70 ms"),
            ("from {mean_ms[*]}.", "from −20 to 70."),
            ("{mean_ms[{base,0.1/spin}]}", "−20 to 70"),
            ("{published mean_ms[base]} published", "140 published"),
            ("{100 * mean_ms[base] / 3}", "2333"),
            ("{mean_ms[base] / 3}; {1 / 3}", "23.3; 0.333"),
            ("{sd[base]} ms", "– ms"),
        ] {
            assert_eq!(filled(text).expect(text).as_deref(), Some(expected));
        }
        for text in ["{sd[0.1/spin]}", "{mean_ms[*]}, {sd[*]}"] {
            assert_eq!(filled(text).expect(text), None, "{text}");
        }
    }

    #[test]
    fn what_a_sentence_cannot_be_filled_with_is_refused() {
        for (text, at) in [
            ("a {mean_ms[base", 2..15),
            ("a {mean_ms}", 2..11),
            ("a {mean_ms[far]}", 2..16),
            ("a {mean_ms[x*]}", 2..15),
            ("a {}", 2..4),
            ("{mean_ms[base] < 3}", 0..19),
        ] {
            assert_eq!(filled(text).expect_err(text).span, at, "{text}");
        }
    }
}
