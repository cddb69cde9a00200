//! What there is to run with.

use axum::extract::State;
use narrows::EngineName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::Json;
use crate::error::Answer;
use crate::page;
use crate::state::{Shared, Work, aside};

/// What this server is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct About {
    /// The version of Narrows.
    version: &'static str,
    /// The folder of documents.
    folder: String,
    /// Engines.
    engines: Vec<EngineAbout>,
    /// Whether the page was built into the program.
    page: bool,
}

/// An engine.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EngineAbout {
    /// `sim`, `live` or `kernel`.
    name: &'static str,
    /// Whether this process can run anything on it.
    available: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Whether its runs can be paused, slowed down and changed.
    pace: bool,
}

/// An engine, as a request names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineWord {
    /// The simulator.
    #[default]
    Sim,
    /// Real stacks, of this machine.
    Live,
    /// Real stacks of a kernel in virtual time.
    Kernel,
}

impl From<EngineWord> for EngineName {
    fn from(word: EngineWord) -> Self {
        match word {
            EngineWord::Sim => Self::Sim,
            EngineWord::Live => Self::Live,
            EngineWord::Kernel => Self::Kernel,
        }
    }
}

/// Says what this server is.
pub(crate) async fn about(State(state): State<Shared>) -> Answer<Json<About>> {
    aside(&state, Work::Quick, |lab| {
        let engine = |name: EngineName| {
            let why = name.hindrance();
            EngineAbout {
                name: name.word(),
                available: why.is_none(),
                why,
                pace: name == EngineName::Sim,
            }
        };
        Ok(Json(About {
            version: env!("CARGO_PKG_VERSION"),
            folder: lab.documents.root().display().to_string(),
            engines: EngineName::ALL.into_iter().map(engine).collect(),
            page: page::is_there(),
        }))
    })
    .await
}
