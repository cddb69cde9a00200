//! The boxes of a plan that do what rules say, and their rules at each time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::parts::ElementSpec;
use crate::plan::Plan;

/// A box by rules.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BoxRules {
    /// Its full name, `link/access/fw`.
    pub name: String,
    /// Where its rules stand: `words`, `ready` or `file`.
    pub source: &'static str,
    /// Its rules from the beginning on, and from each change on.
    pub times: Vec<RulesFrom>,
}

/// The rules of a box from some time on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RulesFrom {
    /// In seconds of the run.
    pub from_s: f64,
    /// The first rules, at most 256.
    pub rules: Vec<String>,
    /// How many there are.
    pub all: usize,
}

impl Plan {
    /// The boxes that do what rules say, in the order of their links.
    pub fn rules_of_boxes(&self) -> Vec<BoxRules> {
        let mut boxes: Vec<BoxRules> = Vec::new();
        for element in self.elements() {
            let ElementSpec::Mmb(spec) = &element.spec else {
                continue;
            };
            // One box stands in both directions.
            if boxes.iter().any(|known| known.name == element.name) {
                continue;
            }
            let mut changes: Vec<_> = self.changes.iter().collect();
            changes.retain(|change| change.target == element.name);
            changes.sort_by_key(|change| change.at);
            let starts = changes.iter().map(|change| change.at.as_secs_f64());
            let words = changes.iter().map(|change| change.words.as_str());
            let lists = spec.rules(words);
            let times = std::iter::once(0.0).chain(starts).zip(lists);
            boxes.push(BoxRules {
                name: element.name.clone(),
                source: spec.source(),
                times: times
                    .map(|(from_s, list)| RulesFrom {
                        from_s,
                        rules: list.first,
                        all: list.all,
                    })
                    .collect(),
            });
        }
        boxes
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::Draft;

    #[test]
    fn a_box_of_both_directions_is_one_and_has_its_rules_at_each_time() {
        let link = ["rate 10Mbit".to_owned()];
        let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).expect("a draft");
        draft.set("duration=3s").expect("a duration");
        assert_eq!(draft.check().expect("a plan").rules_of_boxes(), []);
        let text = r#"
version = 1
name = "x"
duration = "3s"
[[link]]
name = "a"
ends = ["client", "server"]
up = ["rate 1Mbit", "fw: mmb udp-block"]
down = ["fw: mmb udp-block"]
[[flow]]
name = "f"
from = "client"
to = "server"
cc = "cubic"
[[change]]
at = "2s"
target = "link/a/fw"
to = "flush"
[[change]]
at = "1s"
target = "link/a/fw"
to = "add all accept"
"#;
        let loaded = crate::Loaded::of_text("x.toml", text, Path::new("."), Path::new("."));
        let plan = loaded.draft().and_then(|draft| draft.check());
        let boxes = plan.expect("a plan").rules_of_boxes();
        let [fw] = &boxes[..] else {
            panic!("{boxes:?}")
        };
        assert_eq!((fw.name.as_str(), fw.source), ("link/a/fw", "ready"));
        let times: Vec<_> = fw.times.iter().map(|t| (t.from_s, t.all)).collect();
        assert_eq!(times, [(0.0, 2), (1.0, 3), (2.0, 0)]);
        assert_eq!(fw.times[1].rules[2], "add all accept");
    }
}
