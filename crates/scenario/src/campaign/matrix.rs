//! The axes of a campaign, and the words that they fill in.

use std::collections::BTreeMap;

use super::document::Campaign;
use crate::campaign::Axis;
use crate::document::{At, Filling, Places};
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::clipped;

/// More cells than anyone has the time for.
const MOST_CELLS: usize = 10_000;

/// Values that name further values; a deeper nest is a circle.
const DEEPEST: usize = 8;

/// An axis with what each of its values fills in.
pub(super) struct AxisValues {
    pub(super) axis: Axis,
    /// For each value: its own name under the axis's, and what it defines.
    pub(super) words: Vec<Words>,
}

/// What `{name}` is replaced by.
pub(super) type Words = BTreeMap<String, String>;

/// Reads `[axis]`.
pub(super) fn axes(campaign: &At<Campaign>, places: &Places) -> Result<Vec<AxisValues>, Refusal> {
    const ALLOWED: &str = "at least one axis, such as `cc = [\"cubic\", \"prague\"]`";
    let given = places.required(campaign, "axis", &campaign.axis, ALLOWED)?;
    let mut axes: Vec<AxisValues> = Vec::new();
    for (name, at) in given.iter() {
        let mut axis = Axis {
            name: name.clone(),
            values: Vec::new(),
        };
        let mut all = Vec::new();
        for (value, fills) in &at.0 {
            if axis.values.contains(value) {
                let found = format!("`{value}` for the second time");
                return Err(places.found(at, found, "each value once"));
            }
            let mut words: Words = fills.iter().map(filled_in).collect();
            words.entry(name.clone()).or_insert_with(|| value.clone());
            for other in &axes {
                if let Some(word) = words.keys().find(|word| other.gives(word)) {
                    let found = format!("`{{{word}}}`, which `axis/{}` gives too", other.axis.name);
                    return Err(places.found(at, found, "a name of its own"));
                }
            }
            axis.values.push(value.clone());
            all.push(words);
        }
        if all.is_empty() {
            let found = "no value, so that the matrix has no cell";
            return Err(places.found(at, found, "at least one value"));
        }
        axes.push(AxisValues { axis, words: all });
    }
    let cells = axes
        .iter()
        .try_fold(1usize, |n, axis| n.checked_mul(axis.words.len()))
        .filter(|n| *n <= MOST_CELLS);
    if axes.is_empty() {
        return Err(places.missing(campaign, "axis", ALLOWED));
    }
    match cells {
        Some(_) => Ok(axes),
        None => {
            let found = "a matrix of too many cells";
            Err(places.found(given, found, format!("at most {MOST_CELLS}")))
        }
    }
}

/// Reads `[words]`: words that are the same in every cell.
pub(super) fn common(
    campaign: &Campaign,
    places: &Places,
    axes: &[AxisValues],
) -> Result<Words, Refusal> {
    for (word, at) in &campaign.words {
        if let Some(AxisValues { axis, .. }) = axes.iter().find(|axis| axis.gives(word)) {
            let found = format!("`{word}`, which `axis/{}` gives too", axis.name);
            return Err(places.found(at, found, "a name of its own"));
        }
    }
    Ok(campaign.words.iter().map(filled_in).collect())
}

fn filled_in((word, filling): (&String, &At<Filling>)) -> (String, String) {
    (word.clone(), filling.0.clone())
}

impl AxisValues {
    /// Whether one of its values gives a meaning to `word`.
    fn gives(&self, word: &str) -> bool {
        self.words.iter().any(|words| words.contains_key(word))
    }
}

/// All combinations, the last axis running fastest: the index of the value on
/// each axis.
pub(super) fn combinations(axes: &[AxisValues]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |before, axis| {
        before
            .iter()
            .flat_map(|at| {
                (0..axis.words.len()).map(move |value| {
                    let mut at = at.clone();
                    at.push(value);
                    at
                })
            })
            .collect()
    })
}

/// The values of all words in the cell at `at`.
pub(super) fn words_at(axes: &[AxisValues], at: &[usize]) -> Words {
    axes.iter()
        .zip(at)
        .flat_map(|(axis, value)| axis.words[*value].clone())
        .collect()
}

/// A string in which `{name}` is replaced by a word of the cell.
pub(super) struct Template<'a> {
    pub(super) text: &'a str,
    pub(super) spot: &'a Spot,
    pub(super) key: String,
}

impl<'a> Template<'a> {
    /// The string at `at`.
    pub(super) fn of(at: &'a At<String>, places: &'a Places) -> Self {
        Self {
            text: at,
            spot: places.spot(at),
            key: places.key(at).to_owned(),
        }
    }

    /// The text with all words filled in.
    ///
    /// # Errors
    /// If a word is not known.
    pub(super) fn fill(&self, words: &Words) -> Result<String, Refusal> {
        self.filled(self.text, words, 0)
    }

    /// Whether there is something to fill in.
    pub(super) fn has_words(&self) -> bool {
        self.text.contains('{')
    }

    fn filled(&self, text: &str, words: &Words, depth: usize) -> Result<String, Refusal> {
        let refuse = |found: String, allowed: String| {
            Refusal::at(self.spot, self.key.as_str(), found, allowed)
        };
        if depth > DEEPEST {
            let found = format!("`{}`, which names itself", clipped(text));
            return Err(refuse(found, "words that end somewhere".to_owned()));
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            let Some(close) = rest[open..].find('}') else {
                let found = format!("`{}`", clipped(&rest[open..]));
                return Err(refuse(found, "a `}` for each `{`".to_owned()));
            };
            let name = &rest[open + 1..open + close];
            let known = || words.keys().map(String::as_str);
            let word = words.get(name).ok_or_else(|| {
                let found = format!("the unknown word `{{{}}}`", clipped(name));
                refuse(found, one_of(known())).did_you_mean(name, known())
            })?;
            filled.push_str(&self.filled(word, words, depth + 1)?);
            if filled.len() > crate::tree::LONGEST_FILE {
                let found = "words that fill in too much".to_owned();
                return Err(refuse(found, "a line".to_owned()));
            }
            rest = &rest[open + close + 1..];
        }
        filled.push_str(rest);
        Ok(filled)
    }
}
