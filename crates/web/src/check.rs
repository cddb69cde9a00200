//! What is wrong with a text, and what it is about.

use axum::extract::State;
use narrows::results::folder::digest_of_bytes;
use narrows::scenario::{BoxRules, FileKind, Loaded, Outline, PlacedNote, Plan, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::Json;
use crate::documents::Documents;
use crate::error::Answer;
use crate::state::{Shared, Work, aside};

/// Tables and elements of a text that is checked: names are looked up among all others, and the
/// ways of flows among all links, so that the time grows with the square.
const MOST: usize = 5_000;

/// Cells of a campaign times the tables and elements of each.
const MOST_OF_CELLS: usize = 500_000;

/// Notes that are listed.
const MOST_NOTES: usize = 100;

/// A text to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Text {
    /// All of it.
    pub(crate) text: String,
    /// The document that it is a state of: files that it names are beside that one.
    #[serde(default)]
    pub(crate) document: Option<String>,
}

/// What a check found.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// Errors, then notes; a text without errors can be run.
    pub(crate) findings: Vec<Finding>,
    /// What it is about, for drawing: nodes, links, flows and other tables with their lines. Also
    /// of a text with errors, if it is TOML.
    #[schemars(with = "Option<serde_json::Value>")]
    pub(crate) graph: Option<Outline>,
    /// How long a run lasts, in seconds of the network's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_s: Option<f64>,
    /// Runs of a campaign: its cells with one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cells: Option<usize>,
    /// Boxes by rules of a scenario without errors: their rules, by which hits are numbered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) boxes: Vec<BoxRules>,
    /// Programs that a run starts.
    pub(crate) programs: Vec<Program>,
    /// What a job has to say to start them; empty if there are none.
    pub(crate) programs_digest: String,
}

/// Something that was found in a text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Finding {
    /// `error` or `note`.
    severity: &'static str,
    /// The line, from 1.
    line: usize,
    /// The column, from 1, in characters.
    column: usize,
    /// The name of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// What the value belongs to: `flow/prague`, `link/access`.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
    /// What was found, and what is allowed.
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// A program that a run starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Program {
    /// The host that it runs in.
    host: String,
    /// The program and its arguments.
    argv: Vec<String>,
}

impl From<&Refusal> for Finding {
    fn from(refusal: &Refusal) -> Self {
        let (line, column) = refusal.line_and_column().unwrap_or((1, 1));
        let key = Some(refusal.key()).filter(|key| !key.is_empty());
        let entity = key.and_then(|key| {
            let mut parts = key.splitn(3, '/');
            Some(format!("{}/{}", parts.next()?, parts.next()?))
        });
        Self {
            severity: "error",
            line,
            column,
            key: key.map(str::to_owned),
            entity,
            message: refusal.to_string(),
            hint: refusal.advice().map(str::to_owned),
        }
    }
}

impl Checked {
    /// Of a text.
    pub(crate) fn of(documents: &Documents, text: &Text) -> Answer<Self> {
        let id = text.document.as_ref().map(|id| documents.id(id));
        let loaded = documents.draft(id.transpose()?.as_ref(), &text.text);
        let mut checked = Self::default();
        if let Err(refusal) = checked.check(&loaded) {
            checked.findings.insert(0, (&refusal).into());
        }
        Ok(checked)
    }

    fn check(&mut self, loaded: &Loaded) -> Result<(), Refusal> {
        self.graph = Some(Outline::read(&loaded.name, &loaded.bytes)?);
        are_few(loaded)?;
        match loaded.kind()? {
            FileKind::Scenario => {
                let draft = loaded.draft()?;
                self.notes(draft.placed_notes(MOST_NOTES));
                let plan = draft.check()?;
                self.duration_s = Some(plan.duration.as_secs_f64());
                self.boxes = plan.rules_of_boxes();
                self.runs(&[&plan]);
            }
            FileKind::Campaign => {
                let campaign = loaded.campaign(&[])?;
                let plans: Vec<&Plan> = campaign.cells.iter().map(|cell| &cell.plan).collect();
                self.cells = Some(plans.len());
                self.duration_s = plans.first().map(|plan| plan.duration.as_secs_f64());
                self.runs(&plans);
            }
            FileKind::Collection => {
                loaded.collection()?;
            }
        }
        Ok(())
    }

    fn notes(&mut self, (mut notes, more): (Vec<PlacedNote>, usize)) {
        if let (Some((place, _)), 1..) = (notes.last(), more) {
            notes.push((
                *place,
                format!("and {more} further notes, which are not listed"),
            ));
        }
        for ((line, column), message) in notes {
            self.findings.push(Finding {
                severity: "note",
                line,
                column,
                key: None,
                entity: None,
                message,
                hint: None,
            });
        }
    }

    fn runs(&mut self, plans: &[&Plan]) {
        self.programs = programs(plans);
        self.programs_digest = agreed(&self.programs);
    }
}

/// Refuses what a check would go through for longer than others should wait.
pub(crate) fn are_few(loaded: &Loaded) -> Result<(), Refusal> {
    let (size, cells) = loaded.size()?;
    let refuse = |found, allowed| {
        Err(Refusal::new("", found, allowed)
            .with_help("`narrows run` and `narrows campaign` have no such bound"))
    };
    if size > MOST {
        let found = format!("{size} tables and elements");
        return refuse(found, format!("at most {MOST} in the page"));
    }
    if size.saturating_mul(cells) > MOST_OF_CELLS {
        let found = format!("{cells} cells of {size} tables and elements each");
        return refuse(
            found,
            format!("at most {MOST_OF_CELLS} together in the page"),
        );
    }
    Ok(())
}

/// The programs that runs of `plans` start, each once.
pub(crate) fn programs(plans: &[&Plan]) -> Vec<Program> {
    let mut programs = Vec::new();
    for plan in plans {
        for command in &plan.commands {
            let program = Program {
                host: plan.host(command.host).name.clone(),
                argv: command.arguments(plan),
            };
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
    }
    programs
}

/// What stands for exactly these programs; empty for none.
pub(crate) fn agreed(programs: &[Program]) -> String {
    if programs.is_empty() {
        return String::new();
    }
    digest_of_bytes(&serde_json::to_vec(programs).unwrap_or_default())
}

/// Checks a text.
pub(crate) async fn check(
    State(state): State<Shared>,
    Json(text): Json<Text>,
) -> Answer<Json<Checked>> {
    aside(&state, Work::Text, move |lab| {
        Checked::of(&lab.documents, &text).map(Json)
    })
    .await
}

#[cfg(test)]
mod tests {
    use narrows::scenario::catalog;

    use super::*;

    #[test]
    fn the_page_checks_all_that_is_in_the_catalogue() {
        for entry in catalog::entries() {
            let size = Loaded::from(entry).size().expect("TOML");
            assert!(
                are_few(&Loaded::from(entry)).is_ok(),
                "{}: {size:?}",
                entry.name
            );
        }
    }

    #[test]
    fn a_text_of_too_many_tables_is_refused_before_they_are_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let documents = Documents::of(folder.path()).expect("a folder");
        let check = |text: String| {
            let document = None;
            Checked::of(&documents, &Text { text, document }).expect("an answer")
        };
        // Two ends and a way between them: what is wrong, if anything, is that there are so many.
        let chain = |links: usize| {
            let link = |n| {
                format!(
                    "[[link]]\nname = \"l{n}\"\nends = [\"n{n}\", \"n{}\"]\n",
                    n + 1
                )
            };
            let links: String = (0..links).map(link).collect();
            format!(
                "version = 1\nname = \"x\"\nduration = \"1s\"\n{links}[[flow]]\nname = \"f\"\n\
                 from = \"n0\"\nto = \"n9\"\ncc = \"cubic\"\n"
            )
        };
        assert!(check(chain(4_000)).findings.is_empty());
        let refused = check(chain(MOST));
        let message = &refused.findings[0].message;
        assert!(message.contains("at most 5000 in the page"), "{message}");
        assert!(refused.graph.is_some(), "it is drawn all the same");
        let axis = |name: &str| {
            let values: Vec<String> = (0..1_000).map(|n| format!("\"{n}\"")).collect();
            format!("{name} = [{}]\n", values.join(","))
        };
        let campaign = format!(
            "version = 1\nkind = \"campaign\"\nname = \"c\"\ncell = \"{{a}}{{b}}\"\n\
             [[scenario.link]]\nends = [\"a\", \"b\"]\n[axis]\n{}{}",
            axis("a"),
            axis("b")
        );
        let message = &check(campaign).findings[0].message;
        assert!(message.contains("1000000 cells"), "{message}");
    }

    #[test]
    fn notes_are_listed_up_to_a_number_and_the_others_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let documents = Documents::of(folder.path()).expect("a folder");
        let words: Vec<String> = (0..250).map(|n| format!("\"rate {n}.5Mbps\"")).collect();
        let text = format!("version = 1\nnote = [{}]", words.join(", "));
        let document = None;
        let checked = Checked::of(&documents, &Text { text, document }).expect("an answer");
        let notes = checked.findings.iter().filter(|f| f.severity == "note");
        let notes: Vec<_> = notes.map(|finding| &finding.message).collect();
        assert_eq!(notes.len(), MOST_NOTES + 1);
        assert!(notes[MOST_NOTES].contains("150 further"), "{notes:?}");
    }
}
