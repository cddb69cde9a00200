//! The axes of a campaign, and the words that they fill in.

use std::collections::BTreeMap;

use crate::campaign::Axis;
use crate::fields::Fields;
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::{Node, Value, clipped};

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

/// What `{name}` stands for.
pub(super) type Words = BTreeMap<String, String>;

/// Reads `[axis]`.
pub(super) fn axes(top: &Fields<'_>) -> Result<Vec<AxisValues>, Refusal> {
    const ALLOWED: &str = "at least one axis, such as `cc = [\"cubic\", \"prague\"]`";
    let Some(node) = top.get("axis") else {
        return Err(top.missing("axis", ALLOWED));
    };
    let fields = Fields::any(node, "axis")?;
    let mut axes: Vec<AxisValues> = Vec::new();
    for (key, node) in fields.entries() {
        let axis = axis(&key.name, node)?;
        if axis.words.is_empty() {
            let found = "no value, so that the matrix has no cell";
            return Err(Refusal::at(
                &key.spot,
                format!("axis/{}", key.name),
                found,
                "at least one value",
            ));
        }
        for words in &axis.words {
            for other in &axes {
                let twice = words
                    .keys()
                    .find(|k| other.words.iter().any(|w| w.contains_key(*k)));
                if let Some(word) = twice {
                    return Err(Refusal::at(
                        &key.spot,
                        format!("axis/{}", key.name),
                        format!("`{{{word}}}`, which `axis/{}` gives too", other.axis.name),
                        "a name of its own",
                    ));
                }
            }
        }
        axes.push(axis);
    }
    let cells = axes
        .iter()
        .try_fold(1usize, |n, axis| n.checked_mul(axis.words.len()))
        .filter(|n| *n <= MOST_CELLS);
    match (axes.is_empty(), cells) {
        (true, _) => Err(fields.missing("axis", ALLOWED)),
        (_, None) => {
            let found = "a matrix of too many cells";
            Err(Refusal::at(
                &node.spot,
                "axis",
                found,
                format!("at most {MOST_CELLS}"),
            ))
        }
        _ => Ok(axes),
    }
}

/// Reads `[words]`: what stands for the same in every cell.
pub(super) fn common(top: &Fields<'_>, axes: &[AxisValues]) -> Result<Words, Refusal> {
    let mut words = Words::new();
    let Some(node) = top.get("words") else {
        return Ok(words);
    };
    let fields = Fields::any(node, "words")?;
    for (key, node) in fields.entries() {
        let taken = |axis: &&AxisValues| axis.words.iter().any(|w| w.contains_key(&key.name));
        if let Some(axis) = axes.iter().find(taken) {
            let found = format!("`{}`, which `axis/{}` gives too", key.name, axis.axis.name);
            return Err(Refusal::at(&key.spot, "words", found, "a name of its own"));
        }
        let text = as_word(node).ok_or_else(|| {
            Refusal::at(&node.spot, "words", node.describe(), "a string or a number")
        })?;
        words.insert(key.name.clone(), text);
    }
    Ok(words)
}

fn axis(name: &str, node: &Node) -> Result<AxisValues, Refusal> {
    let path = format!("axis/{name}");
    let mut values = Vec::new();
    let mut all_words = Vec::new();
    let mut push = |value: &str, mut words: Words, spot: &Spot| {
        if values.iter().any(|v| v == value) {
            let found = format!("`{value}` for the second time");
            return Err(Refusal::at(spot, path.as_str(), found, "each value once"));
        }
        words
            .entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
        values.push(value.to_owned());
        all_words.push(words);
        Ok(())
    };
    match &node.value {
        Value::List(list) => {
            for node in list {
                let value = as_word(node).ok_or_else(|| {
                    Refusal::at(
                        &node.spot,
                        path.as_str(),
                        node.describe(),
                        "the name of a value",
                    )
                })?;
                push(&value, Words::new(), &node.spot)?;
            }
        }
        Value::Table(table) => {
            for (key, node) in &table.0 {
                let fields = Fields::any(node, &format!("{path}/{}", key.name))?;
                let mut words = Words::new();
                for (word, node) in fields.entries() {
                    let text = as_word(node)
                        .ok_or_else(|| fields.refuse(&word.name, "a string or a number"))?;
                    words.insert(word.name.clone(), text);
                }
                push(&key.name, words, &key.spot)?;
            }
        }
        _ => {
            let allowed = "a list of values, or a table of values and the words that they fill in";
            return Err(Refusal::at(&node.spot, path, node.describe(), allowed));
        }
    }
    Ok(AxisValues {
        axis: Axis {
            name: name.to_owned(),
            values,
        },
        words: all_words,
    })
}

/// A string or a number as a word to fill in.
fn as_word(node: &Node) -> Option<String> {
    match &node.value {
        Value::Whole(n) => Some(n.to_string()),
        Value::Float(n) => Some(n.to_string()),
        _ => node.as_text().map(str::to_owned),
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

/// What all words stand for in the cell at `at`.
pub(super) fn words_at(axes: &[AxisValues], at: &[usize]) -> Words {
    axes.iter()
        .zip(at)
        .flat_map(|(axis, value)| axis.words[*value].clone())
        .collect()
}

/// A string in which `{name}` stands for a word of the cell.
pub(super) struct Template<'a> {
    pub(super) text: &'a str,
    pub(super) spot: &'a Spot,
    pub(super) key: String,
}

impl Template<'_> {
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
        if depth > DEEPEST {
            let found = format!("`{}`, which names itself", clipped(text));
            return Err(Refusal::at(
                self.spot,
                self.key.as_str(),
                found,
                "words that end somewhere",
            ));
        }
        let mut filled = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            filled.push_str(&rest[..open]);
            let Some(close) = rest[open..].find('}') else {
                let found = format!("`{}`", clipped(&rest[open..]));
                return Err(Refusal::at(
                    self.spot,
                    self.key.as_str(),
                    found,
                    "a `}` for each `{`",
                ));
            };
            let name = &rest[open + 1..open + close];
            let word = words.get(name).ok_or_else(|| {
                Refusal::at(
                    self.spot,
                    self.key.as_str(),
                    format!("the unknown word `{{{}}}`", clipped(name)),
                    one_of(words.keys().map(String::as_str)),
                )
                .did_you_mean(name, words.keys().map(String::as_str))
            })?;
            filled.push_str(&self.filled(word, words, depth + 1)?);
            if filled.len() > crate::tree::LONGEST_FILE {
                let found = "words that fill in too much";
                return Err(Refusal::at(self.spot, self.key.as_str(), found, "a line"));
            }
            rest = &rest[open + close + 1..];
        }
        filled.push_str(rest);
        Ok(filled)
    }
}
