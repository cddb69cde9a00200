//! Cells of the store that campaigns keep their runs in: listed, and drawn when they are asked for.
//! Nothing is written.

use std::time::SystemTime;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use narrows::report::pages::{RunPage, run_html};
use narrows::results::rfc3339;
use narrows::results::store::{Found, Store};
use schemars::JsonSchema;
use serde::Serialize;

use crate::body::{Json, Path};
use crate::error::{Answer, ApiError};
use crate::results::POLICY;
use crate::state::{Laboratory, Shared, Work, aside};

/// Cells that are listed, the newest: a store may have a million.
const MOST: usize = 200;

/// What is in the store.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Cells {
    /// Where it is; none where there is no store.
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// How many cells it has.
    all: usize,
    /// Those that were written or taken last, at most 200, the newest first.
    cells: Vec<Cell>,
}

/// A run in the store.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cell {
    /// The name of its folder: the digest of all that decides about it.
    name: String,
    /// The name of its scenario; of a campaign's cell with that of the campaign.
    of: String,
    /// What ran it.
    engine: String,
    /// Its seed.
    seed: u64,
    /// The version of Narrows.
    version: String,
    /// Whether it has series; if not, its summary alone.
    series: bool,
    /// Bytes of its files.
    bytes: u64,
    /// When it was written or taken last, RFC 3339 in UTC.
    time: String,
    /// The address of its page.
    report: String,
}

impl From<Found> for Cell {
    fn from(found: Found) -> Self {
        let key = &found.key;
        Self {
            of: key.scenario().to_owned(),
            engine: key.engine.clone(),
            seed: key.seed,
            version: key.version.clone(),
            series: key.series_ns > 0,
            bytes: found.bytes,
            time: rfc3339(found.used.max(SystemTime::UNIX_EPOCH)),
            report: format!("/api/v1/store/{}", found.name),
            name: found.name,
        }
    }
}

/// The store, if there is one. Which version's cells would be taken from it does not matter.
fn store(lab: &Laboratory) -> Option<Store> {
    Store::existing(lab.store.clone()?, String::new()).ok()
}

/// Lists what is in the store.
pub(crate) async fn list(State(state): State<Shared>) -> Answer<Json<Cells>> {
    aside(&state, Work::Store, |lab| {
        let Some(store) = store(lab) else {
            return Ok(Json(Cells::default()));
        };
        let (found, all) = store.newest(MOST).map_err(ApiError::internal)?;
        Ok(Json(Cells {
            folder: Some(store.dir().display().to_string()),
            all,
            cells: found.into_iter().map(Cell::from).collect(),
        }))
    })
    .await
}

/// Draws the page of a cell.
pub(crate) async fn page(
    State(state): State<Shared>,
    Path(name): Path<String>,
) -> Answer<Response> {
    let drawn = aside(&state, Work::Store, move |lab| {
        let missing = || ApiError::not_found("such cell");
        let run = store(lab).ok_or_else(missing)?.read(&name);
        let run = run.map_err(|why| missing().hint(why))?;
        Ok(run_html(&run, &RunPage::default()))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    Ok((headers, drawn.await?).into_response())
}
