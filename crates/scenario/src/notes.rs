//! Words that mean something else than a reader may think.

use std::collections::BTreeSet;

use narrows_units::{Rate, Value as _, Words};

use crate::draft::Draft;
use crate::source::Spot;
use crate::tree::{Node, Value};

/// What netem takes a probability for.
const CHANCES: [&str; 5] = ["loss", "random", "duplicate", "corrupt", "reorder"];

/// What to know about `words`, those of an element or a flow, that are read as tc
/// reads them and may be meant otherwise: `Mbps` is megabytes per second, and a
/// probability is in percent with a sign and without.
pub fn notes(words: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let mut words = Words::new(words);
    let mut before = "";
    while let Some(word) = words.take() {
        let text = word.text;
        let bytes = text.to_ascii_lowercase().ends_with("bps");
        if let Some(rate) = Rate::parse(text).filter(|_| bytes) {
            let bits = &text[..text.len() - "ps".len()];
            notes.push(format!(
                "`{text}` is bytes per second, as tc reads it: {rate}. For bits write `{bits}it`"
            ));
        }
        let small = text.parse::<f64>().is_ok_and(|n| n > 0.0 && n < 1.0);
        if small && CHANCES.contains(&before) {
            notes.push(format!(
                "`{before} {text}` is {text} percent, as tc reads it; write `{before} {text}%` if \
                 so, `{before} {}%` for a share of {text}",
                percent(text)
            ));
        }
        before = text;
    }
    notes
}

/// `0.01` as a percentage, `1`: the decimal point moved by two digits.
fn percent(share: &str) -> String {
    let value = share.parse::<f64>().unwrap_or_default() * 100.0;
    let text = format!("{value:.7}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Draft {
    /// [`notes`] on all words in it, each once.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.all_notes().into_iter();
        notes.map(|(_, note)| note).collect()
    }

    /// The first `most` of them with line and column, both from 1, of the value that each is
    /// first about; and how many more there are.
    pub fn placed_notes(&self, most: usize) -> (Vec<PlacedNote>, usize) {
        let all = self.all_notes();
        let more = all.len().saturating_sub(most);
        let first = all.into_iter().take(most);
        let placed = first.map(|(spot, note)| (spot.line_and_column(), note));
        (placed.collect(), more)
    }

    fn all_notes(&self) -> Vec<Placed<'_>> {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        collect(&self.root, &mut all, &mut known);
        all
    }
}

/// Line and column, both from 1, of what a note is about; and the note.
pub type PlacedNote = ((usize, usize), String);

/// Keys whose values are prose.
const PROSE: [&str; 4] = ["name", "title", "about", "source"];

/// A note and where the value was written that it is about.
type Placed<'d> = (&'d Spot, String);

fn collect<'d>(node: &'d Node, all: &mut Vec<Placed<'d>>, known: &mut BTreeSet<String>) {
    let mut add = |words: &str| {
        for note in notes(words) {
            if known.insert(note.clone()) {
                all.push((&node.spot, note));
            }
        }
    };
    match &node.value {
        Value::Text(words) | Value::Raw(words) => add(words),
        Value::Element { layers, .. } => layers.iter().for_each(|words| add(words)),
        Value::List(list) => list.iter().for_each(|node| collect(node, all, known)),
        Value::Table(table) => table
            .0
            .iter()
            .filter(|(key, _)| !PROSE.contains(&key.name.as_str()))
            .for_each(|(_, node)| collect(node, all, known)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_bytes_and_chances_without_a_sign_are_noted_as_tc_reads_them() {
        let found = notes("rate 50Mbps queue fq_codel");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("400Mbit") && found[0].contains("`50Mbit`"),
            "{found:?}"
        );
        let found = notes("netem delay 10ms loss 0.01");
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("0.01 percent") && found[0].contains("`loss 1%`"),
            "{found:?}"
        );
        assert!(notes("netem loss random 0.3 duplicate 0.005").len() == 2);
        for plain in [
            "rate 50Mbit queue pie target 5ms alpha 0.125",
            "netem delay 10ms loss 1 duplicate 0.5% reorder 25%",
            "netem loss gemodel 1% 10%",
        ] {
            assert_eq!(notes(plain), [""; 0], "{plain}");
        }
    }

    #[test]
    fn a_scenario_has_each_note_once_and_none_of_what_is_prose() {
        let words = |words: &str| vec![words.to_owned()];
        let mut draft = Draft::from_words(&words("rate 1MBps"), &words("cubic")).expect("a draft");
        assert_eq!(draft.notes().len(), 1);
        draft.set("title=rate 3mbps").expect("a title");
        draft
            .set("link/access/up/bottleneck=rate 3Mbps")
            .expect("a rate");
        assert_eq!(draft.notes().len(), 2);
    }
}
