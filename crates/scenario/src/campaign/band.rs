//! How far a measured figure may lie from the published one.

use std::fmt;

use narrows_units::{Value as _, WordError, Words};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::document::{Grammar, grammar};
use crate::glob::Glob;

/// How far apart two figures may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// `5 points`: the difference is at most this, in the metric's own unit.
    Points(f64),
    /// `factor 1.6`: neither is more than this many times the other.
    Factor(f64),
    /// `odds factor 1.6`: the same for the odds x/(100−x) of two shares in
    /// percent. It judges where points cannot: beside a share of 3 %.
    Odds(f64),
    /// `25 percent or 1 points`: the difference is at most this part of the
    /// other figure, or at most that much in the metric's own unit. The points
    /// judge figures near zero, of which no percentage says anything.
    Percent(f64, f64),
}

const BANDS: &str = "`N points`, `N percent or N points`, `factor N` or `odds factor N`";

impl Band {
    /// Reads the words.
    ///
    /// # Errors
    /// If they are no band.
    pub(crate) fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        words.peek().ok_or_else(|| words.ended(BANDS))?;
        let odds = words.take_if("odds");
        let band = if words.take_if("factor") {
            let factor = words.checked_value("a factor of 1 or more", |f: &f64| *f >= 1.0)?;
            if odds {
                Self::Odds(factor)
            } else {
                Self::Factor(factor)
            }
        } else if odds {
            return Err(words.needed("`factor`")?.refused("`factor`"));
        } else {
            let number = difference(&mut words)?;
            if words.take_if("percent") {
                must(&mut words, "or")?;
                let points = difference(&mut words)?;
                must(&mut words, "points")?;
                Self::Percent(number, points)
            } else {
                must(&mut words, "points")?;
                Self::Points(number)
            }
        };
        words.finish("the end of the line")?;
        Ok(band)
    }

    /// Whether `measured` lies in the band around `published`.
    pub fn holds(&self, published: f64, measured: f64) -> bool {
        match *self {
            Self::Points(points) => (measured - published).abs() <= points + SLACK,
            Self::Factor(factor) => within_factor(published, measured, factor),
            Self::Percent(percent, points) => {
                let difference = (measured - published).abs();
                difference <= (percent / 100.0 * published.abs()).max(points) + SLACK
            }
            Self::Odds(factor) => within_factor(odds(published), odds(measured), factor),
        }
    }
}

impl Band {
    /// The least and the greatest measured figure in the band around `published`.
    pub fn around(&self, published: f64) -> (f64, f64) {
        let apart = |by: f64| (published - by, published + by);
        // No factor leads from a figure that is not above zero to another one.
        let factor = |at: f64, by: f64| {
            if at > 0.0 {
                (at / by, at * by)
            } else {
                (at, at)
            }
        };
        match *self {
            Self::Points(points) => apart(points),
            Self::Percent(percent, points) => {
                apart((percent / 100.0 * published.abs()).max(points))
            }
            Self::Factor(by) => factor(published, by),
            Self::Odds(by) => {
                let percent = |odds: f64| 100.0 * odds / (1.0 + odds);
                let (low, high) = factor(odds(published), by);
                (percent(low), percent(high))
            }
        }
    }
}

fn difference(words: &mut Words<'_>) -> Result<f64, WordError> {
    words.checked_value("a difference of 0 or more", |difference| *difference >= 0.0)
}

/// Takes `word`, which has to come next.
fn must(words: &mut Words<'_>, word: &str) -> Result<(), WordError> {
    if words.take_if(word) {
        return Ok(());
    }
    let allowed = format!("`{word}`");
    Err(words.needed(&allowed)?.refused(allowed))
}

/// Room for the last bit of a decimal.
const SLACK: f64 = 1e-9;

/// Neither may be zero or negative: no factor leads there.
fn within_factor(a: f64, b: f64, most: f64) -> bool {
    a > 0.0 && b > 0.0 && (a / b).max(b / a) <= most + SLACK
}

fn odds(percent: f64) -> f64 {
    percent / (100.0 - percent)
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(points) => write!(f, "±{points}"),
            Self::Percent(percent, points) => write!(f, "±{percent} % or ±{points}"),
            Self::Factor(factor) => write!(f, "{factor}×"),
            Self::Odds(factor) => write!(f, "odds {factor}×"),
        }
    }
}

/// Which two figures a tolerance holds together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// The published one and the measured one.
    #[default]
    Published,
    /// The simulator's and the live engine's, which `narrows compare` holds
    /// against each other.
    Engines,
    /// Those of the two cells of a `[pair]`, which `narrows compare` holds
    /// against each other on the live engine.
    Pair,
}

/// What a group of cells must reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// What it is called in tables; the pattern of its cells if it has no
    /// name.
    pub name: String,
    /// Which figures it is about.
    pub between: Between,
    /// The cells that it judges.
    pub cells: Glob,
    /// The metric, by its index in the campaign.
    pub metric: usize,
    /// A cell is inside if all of them hold. Between the cells of a pair they
    /// say which difference is too small to matter; without any, only one
    /// within the known side's own spread is.
    pub bands: Vec<Band>,
    /// `(21, 24)`: at least 21 of the group's 24 cells must be inside.
    pub at_least: (usize, usize),
    /// Why the band is as wide as it is.
    pub source: Option<String>,
}

/// How a group of cells did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Cells that were judged: those of the group that have both figures or
    /// a published one alone.
    pub judged: usize,
    /// Cells inside the band.
    pub inside: usize,
    /// Cells that must be.
    pub needed: usize,
    /// Names of the cells outside.
    pub outside: Vec<String>,
}

impl Judgement {
    /// Whether enough cells are inside.
    pub fn holds(&self) -> bool {
        self.inside >= self.needed
    }
}

impl Tolerance {
    /// The bands in words: `±5 and odds 1.6×`.
    pub fn bands_in_words(&self) -> String {
        let words: Vec<String> = self.bands.iter().map(Band::to_string).collect();
        words.join(" and ")
    }

    /// The least and the greatest measured figure that lies in all bands around
    /// `published`; `None` without a band.
    pub fn around(&self, published: f64) -> Option<(f64, f64)> {
        let bands = self.bands.iter().map(|b| b.around(published));
        bands.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
    }

    /// Whether `measured` lies in all bands around `published`.
    pub fn holds(&self, published: f64, measured: f64) -> bool {
        self.bands.iter().all(|b| b.holds(published, measured))
    }

    /// Judges cells of the group: (name, published, measured). A cell with
    /// nothing published is not judged; one with nothing measured is outside.
    ///
    /// Where only a part of the group was run, the number that may be outside
    /// shrinks in proportion, rounded down.
    pub fn judge<'a>(
        &self,
        cells: impl IntoIterator<Item = (&'a str, Option<f64>, Option<f64>)>,
    ) -> Judgement {
        let judged = cells.into_iter().filter_map(|(name, published, measured)| {
            let published = published?;
            Some((name, measured.is_some_and(|m| self.holds(published, m))))
        });
        self.count(judged)
    }

    /// Counts cells that were judged elsewhere: (name, whether it is inside).
    /// Those that the pattern does not fit are passed over.
    pub fn count<'a>(&self, cells: impl IntoIterator<Item = (&'a str, bool)>) -> Judgement {
        let mut judgement = Judgement {
            judged: 0,
            inside: 0,
            needed: 0,
            outside: Vec::new(),
        };
        for (name, inside) in cells {
            if !self.cells.matches(name) {
                continue;
            }
            judgement.judged += 1;
            if inside {
                judgement.inside += 1;
            } else {
                judgement.outside.push(name.to_owned());
            }
        }
        judgement.needed = self.needed(judgement.judged);
        judgement
    }

    /// How many of `judged` cells must be inside.
    pub fn needed(&self, judged: usize) -> usize {
        let (least, of) = self.at_least;
        let may_miss = of.saturating_sub(least) * judged.min(of) / of.max(1);
        judged - may_miss
    }
}

grammar!(Band, "a band in words");

/// `21 of 24`: how many of how many cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtLeast(pub(crate) usize, pub(crate) usize);

impl Grammar for AtLeast {
    const ALLOWED: &'static str = "`N of M`, such as `21 of 24`";

    fn read(line: &str) -> Result<Self, WordError> {
        let read = || {
            let (least, of) = line.split_once(" of ")?;
            let least = u32::parse(least.trim())?;
            let of = u32::parse(of.trim())?;
            (least <= of && of > 0).then_some(Self(least as usize, of as usize))
        };
        read().ok_or_else(|| crate::document::no_such(line, Self::ALLOWED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(bands: &[&str], least: &str) -> Tolerance {
        Tolerance {
            name: String::new(),
            between: Between::Published,
            cells: Glob::parse("*").expect("a pattern"),
            metric: 0,
            bands: bands
                .iter()
                .map(|b| Band::parse(b).expect("a band"))
                .collect(),
            at_least: AtLeast::read(least).map(|l| (l.0, l.1)).expect("N of M"),
            source: None,
        }
    }

    #[test]
    fn points_are_a_difference_and_factors_are_symmetric() {
        let points = Band::Points(5.0);
        assert!(points.holds(68.0, 73.0) && !points.holds(68.0, 73.01));
        let factor = Band::Factor(1.6);
        assert!(factor.holds(24.0, 15.0) && factor.holds(15.0, 24.0));
        assert!(!factor.holds(24.0, 14.9) && !factor.holds(24.0, 38.5));
        assert!(!factor.holds(24.0, 0.0) && !factor.holds(0.0, 24.0));
    }

    #[test]
    fn odds_judge_where_points_cannot() {
        // 160-10 prague-prague: 1.56 of 47.02 Mbit/s is a share of 3.3 %.
        let published = 3.3;
        assert!(Band::Points(5.0).holds(published, 0.1));
        assert!(!Band::Odds(1.6).holds(published, 0.1));
        assert!(Band::Odds(1.6).holds(published, 4.5));
    }

    #[test]
    fn percent_are_of_the_first_figure_and_points_judge_near_zero() {
        let band = Band::parse("25 percent or 1 points").expect("a band");
        assert!(band.holds(20.0, 25.0) && !band.holds(20.0, 25.1));
        assert!(band.holds(0.3, 1.3) && !band.holds(0.3, 1.31));
        assert_eq!(band.to_string(), "±25 % or ±1");
    }

    #[test]
    fn the_ends_of_a_band_lie_in_it_and_what_is_beyond_them_does_not() {
        let bands = [
            "5 points",
            "25 percent or 1 points",
            "factor 1.6",
            "odds factor 1.6",
        ];
        for words in bands {
            let band = Band::parse(words).expect("a band");
            for published in [0.4, 3.3, 50.0, 90.0] {
                let (low, high) = band.around(published);
                assert!(low < published && published < high, "{words}");
                let room = (high - low) * 1e-3;
                for inside in [low + room, high - room] {
                    assert!(
                        band.holds(published, inside),
                        "{words} {published} {inside}"
                    );
                }
                for outside in [low - room, high + room] {
                    assert!(
                        !band.holds(published, outside),
                        "{words} {published} {outside}"
                    );
                }
            }
        }
        // Of several bands the narrowest end counts.
        let both = tolerance(&["5 points", "factor 1.6"], "1 of 1");
        assert_eq!(both.around(3.2), Some((3.2 / 1.6, 3.2 * 1.6)));
        assert_eq!(both.around(50.0), Some((45.0, 55.0)));
    }

    #[test]
    fn a_group_needs_its_count_and_a_part_of_it_its_share() {
        let t = tolerance(&["5 points"], "21 of 24");
        assert_eq!(t.needed(24), 21);
        assert_eq!(t.needed(8), 7);
        assert_eq!(t.needed(7), 7);
        assert_eq!(t.needed(0), 0);
        let names: Vec<String> = (0..24).map(|n| format!("c{n}")).collect();
        let cells = |wrong: usize| {
            names.iter().enumerate().map(move |(n, name)| {
                let measured = if n < wrong { 60.0 } else { 50.0 };
                (name.as_str(), Some(50.0), Some(measured))
            })
        };
        assert!(t.judge(cells(3)).holds());
        let judgement = t.judge(cells(4));
        assert!(!judgement.holds());
        assert_eq!(
            (judgement.judged, judgement.inside, judgement.needed),
            (24, 20, 21)
        );
        assert_eq!(judgement.outside, ["c0", "c1", "c2", "c3"]);
    }

    #[test]
    fn a_cell_that_was_not_measured_is_outside() {
        let t = tolerance(&["5 points"], "1 of 1");
        assert!(!t.judge([("a", Some(1.0), None)]).holds());
        assert!(t.judge([("a", None, Some(1.0))]).holds());
    }

    #[test]
    fn what_is_no_band_is_refused() {
        for line in [
            "",
            "5",
            "25 percent",
            "25 percent or",
            "25 percent or -1 points",
            "25 percent and 1 points",
            "factor",
            "factor 0.5",
            "odds 2",
            "-1 points",
            "5 points x",
            "5 dB",
        ] {
            assert!(Band::parse(line).is_err(), "{line}");
        }
        for line in ["", "3", "25 of 24", "0 of 0", "a of b"] {
            assert!(AtLeast::read(line).is_err(), "{line}");
        }
    }
}
