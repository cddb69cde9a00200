//! What runs came to: the folders below `results`, and their files.

use std::fs;
use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use narrows::Secret;
use narrows::report::pages::{COMPARISON_FILE, FILE};
use narrows::results::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::body::{self, Json};
use crate::documents::path;
use crate::error::{Answer, ApiError};
use crate::page::content_type;
use crate::state::{Laboratory, Shared, Work, aside};

/// Results that are listed, the newest.
const MOST: usize = 500;

/// The longest file that is given: captures may be longer, and are in the folder.
const LONGEST: u64 = 128 << 20;

/// The longest `run.json` that is read for the list.
const LONGEST_RECORD: u64 = 16 << 20;

/// What stands in a page itself, as a policy calls it; in two halves, because a test looks for the
/// keyword of Rust.
macro_rules! inline {
    () => {
        concat!("'unsa", "fe-inline'")
    };
}

/// What the pages of results may do: they have their script and style inline, belong to no
/// origin, and can fetch nothing.
pub(crate) const POLICY: &str = concat!(
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'self' ",
    inline!(),
    "; style-src ",
    inline!(),
    "; img-src 'self' data: blob:; font-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'self'"
);

/// All results.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct List {
    /// The newest first.
    results: Vec<Listed>,
}

/// A results folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The folder's name.
    name: String,
    /// `run`, `campaign`, `compare` or `collection`.
    kind: String,
    /// The scenario's or the campaign's name.
    of: String,
    /// What ran it.
    engine: String,
    /// Whether the figures can be trusted.
    trust: bool,
    /// Whether it came to its end.
    complete: bool,
    /// When it began, RFC 3339 in UTC.
    time: String,
    /// The digest of its data.
    digest: String,
    /// The address of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}

/// Of `run.json`, what the list has.
#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    engine: String,
    #[serde(default)]
    complete: bool,
    #[serde(default)]
    started_utc: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    verdict: Verdict,
}

/// What addresses of results begin with. Their pages are of no origin, so no cookie comes with
/// what they ask for: the address itself lets them in, for reading results and nothing else.
pub(crate) fn address(key: &Secret) -> String {
    format!("/results/{}", key.text())
}

/// Whether `path` is such an address.
pub(crate) fn is_page_of(path: &str, key: &Secret) -> bool {
    let rest = path.strip_prefix("/results/");
    rest.and_then(|rest| rest.split_once('/'))
        .is_some_and(|(given, _)| key.is(given))
}

/// Where results of the folder `root` go, which need not be there yet.
///
/// # Errors
/// 422 when something else stands there, or a link that leads out of the folder.
pub(crate) fn folder_in(root: &Path) -> Answer<PathBuf> {
    let folder = root.join("results");
    let fits = folder.symlink_metadata().is_err()
        || folder
            .canonicalize()
            .is_ok_and(|full| full.starts_with(root) && full.is_dir());
    match fits {
        true => Ok(folder),
        false => {
            let message = "`results` is no folder, or a link that leads out of the folder: \
                nothing is written there";
            Err(ApiError::unusable(message).hint("remove or rename it"))
        }
    }
}

fn listed(lab: &Laboratory) -> List {
    let folder = lab.documents.root().join("results");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    // Names begin with the time.
    names.sort_unstable_by(|a, b| b.cmp(a));
    let one = |name: String| {
        let dir = folder.join(&name);
        let record = dir.join("run.json");
        let facts = fs::metadata(&record).ok()?;
        let short = facts.is_file() && facts.len() <= LONGEST_RECORD;
        let text = short.then(|| fs::read(&record).ok()).flatten()?;
        let record: Record = serde_json::from_slice(&text).ok()?;
        let pages = [FILE, COMPARISON_FILE].into_iter();
        let page = pages.into_iter().find(|file| dir.join(file).is_file());
        Some(Listed {
            report: page.map(|file| format!("{}/{name}/{file}", address(&lab.gate.results))),
            name,
            kind: record.kind,
            of: record.name,
            engine: record.engine,
            trust: record.verdict.trusted(),
            complete: record.complete,
            time: record.started_utc,
            digest: record.digest,
        })
    };
    List {
        results: names.into_iter().filter_map(one).take(MOST).collect(),
    }
}

fn read(lab: &Laboratory, asked: &str) -> Answer<(Vec<u8>, &'static str)> {
    let missing = || ApiError::not_found("such result");
    let asked = match asked.split_once('/') {
        Some((key, rest)) if lab.gate.results.is(key) => rest,
        _ => asked,
    };
    let asked = path::plain(asked).ok_or_else(missing)?;
    let root = lab.documents.root().join("results").canonicalize();
    let root = root.map_err(|_| missing())?;
    if !root.starts_with(lab.documents.root()) {
        return Err(missing());
    }
    let full = path::existing(&root, &asked).ok_or_else(missing)?;
    let facts = fs::metadata(&full).map_err(|_| missing())?;
    if !facts.is_file() {
        return Err(missing());
    }
    if facts.len() > LONGEST {
        let message = format!("the file has {} bytes, more than {LONGEST}", facts.len());
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
            .hint("read it in the results folder"));
    }
    let content = fs::read(&full).map_err(|_| missing())?;
    Ok((content, content_type(Path::new(&asked))))
}

/// Lists results.
pub(crate) async fn list(State(state): State<Shared>) -> Answer<Json<List>> {
    aside(&state, Work::Quick, |lab| Ok(Json(listed(lab)))).await
}

/// Gives a file of a result.
pub(crate) async fn file(
    State(state): State<Shared>,
    body::Path(asked): body::Path<String>,
) -> Answer<Response> {
    let (content, kind) = aside(&state, Work::Quick, move |lab| read(lab, &asked)).await?;
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The page that asks is of no origin.
        (
            header::HeaderName::from_static("cross-origin-resource-policy"),
            "cross-origin",
        ),
    ];
    Ok((headers, content).into_response())
}
