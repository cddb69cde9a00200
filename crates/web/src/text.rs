//! Changing and completing a text.

use std::sync::OnceLock;

use axum::extract::State;
use narrows::scenario::{Completion, Edit, Vocabulary, complete, edited, vocabulary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::Json;
use crate::check::{Checked, Text};
use crate::documents::LONGEST;
use crate::error::{Answer, ApiError};
use crate::state::{Shared, Work, aside};

/// Changes of a request.
const MOST_EDITS: usize = 1000;

/// A text and what is to change in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edits {
    /// All of it.
    text: String,
    /// The document that it is a state of.
    #[serde(default)]
    document: Option<String>,
    /// One after the other.
    edits: Vec<Edit>,
}

/// A changed text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Edited {
    /// All of it.
    text: String,
    /// What was taken out because what it was about is gone, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    along: Vec<String>,
    /// What a check of it found.
    #[serde(flatten)]
    checked: Checked,
}

/// A place in a text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    /// All of it.
    text: String,
    /// The document that it is a state of.
    #[serde(default)]
    #[allow(dead_code)] // What can stand somewhere depends on no file beside it.
    document: Option<String>,
    /// The line, from 1.
    line: usize,
    /// The column, from 1, in characters.
    column: usize,
}

/// What can stand there.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Completions {
    /// How many bytes before the place are what is typed so far: what is inserted replaces them.
    typed: usize,
    /// What can stand there.
    items: Vec<Completion>,
}

/// The vocabulary, made when it is first asked for.
fn vocabulary_once() -> &'static Vocabulary {
    static WORDS: OnceLock<Vocabulary> = OnceLock::new();
    WORDS.get_or_init(vocabulary)
}

fn short(text: &str) -> Answer<()> {
    match text.len() as u64 <= LONGEST {
        true => Ok(()),
        false => Err(ApiError::unusable(format!(
            "a document has at most {LONGEST} bytes"
        ))),
    }
}

/// Changes a text.
pub(crate) async fn edit(
    State(state): State<Shared>,
    Json(edits): Json<Edits>,
) -> Answer<Json<Edited>> {
    aside(&state, Work::Text, move |lab| {
        short(&edits.text)?;
        if edits.edits.len() > MOST_EDITS {
            return Err(ApiError::unusable(format!(
                "at most {MOST_EDITS} edits at a time"
            )));
        }
        let made = edited(&edits.text, &edits.edits);
        let (text, along) = made.map_err(|error| ApiError::unusable(error.to_string()))?;
        let document = edits.document;
        let text = Text { text, document };
        let checked = Checked::of(&lab.documents, &text)?;
        Ok(Json(Edited {
            text: text.text,
            along,
            checked,
        }))
    })
    .await
}

/// Completes one.
pub(crate) async fn completions(
    State(state): State<Shared>,
    Json(written): Json<Written>,
) -> Answer<Json<Completions>> {
    aside(&state, Work::Text, move |_| {
        short(&written.text)?;
        let (typed, items) = complete(
            vocabulary_once(),
            &written.text,
            written.line,
            written.column,
        );
        Ok(Json(Completions { typed, items }))
    })
    .await
}

/// Gives all that may be written.
pub(crate) async fn words(State(state): State<Shared>) -> Answer<Json<&'static Vocabulary>> {
    aside(&state, Work::Quick, |_| Ok(Json(vocabulary_once()))).await
}
