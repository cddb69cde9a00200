//! The files of the page, if they were built into the program.

use std::path::Path;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::body;
use crate::error::{Answer, ApiError};

/// Name and content of each file of `web/dist`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// What stands in the place of a page that was not built.
const NONE: &str = "This narrows was built without the page.\n\n\
    `make web` builds the page (it takes npm) and a narrows that has it.\n\
    All that the page does is possible by HTTP: /api/v1/openapi.json describes it.\n";

/// Whether the page is there.
pub(crate) fn is_there() -> bool {
    find("index.html").is_some()
}

fn find(name: &str) -> Option<&'static [u8]> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, content)| *content)
}

/// What the ending of a file says of its content.
pub(crate) fn content_type(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json" | "map") => "application/json",
        Some("csv") => "text/csv; charset=utf-8",
        Some("txt" | "out" | "err" | "toml") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("pdf") => "application/pdf",
        Some("woff2") => "font/woff2",
        Some("gz") => "application/gzip",
        _ => "application/octet-stream",
    }
}

/// Gives the page.
pub(crate) async fn index() -> Response {
    match find("index.html") {
        Some(page) => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response(),
        None => (
            StatusCode::OK,
            [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            NONE,
        )
            .into_response(),
    }
}

/// Gives a file of the page.
pub(crate) async fn file(body::Path(name): body::Path<String>) -> Answer<Response> {
    // Browsers ask for it where a document names no icon, such as a file of a result.
    let name = match name.as_str() {
        "favicon.ico" => "icon.svg".to_owned(),
        _ => name,
    };
    let content = find(&name).ok_or_else(|| ApiError::not_found("such page"))?;
    let kind = content_type(Path::new(&name));
    Ok(([(header::CONTENT_TYPE, kind)], content).into_response())
}
