//! Reading what a request brings: its body, bounded in length and in time, and the parts of its
//! address; what is refused is refused in JSON.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::documents::clipped;
use crate::error::ApiError;

/// The longest body: a document of a megabyte, escaped, with what is around it.
const LONGEST: usize = 4 << 20;

/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body in JSON, of a request or of an answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let too_long = || {
            let message = format!("the body is longer than {LONGEST} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        let body = request.into_body();
        // What says its length need not be waited for.
        if body.size_hint().lower() > LONGEST as u64 {
            return Err(too_long());
        }
        let body = Limited::new(body, LONGEST).collect();
        let bytes = match tokio::time::timeout(PATIENCE, body).await {
            Err(_) => {
                let message = format!("the body did not come within {} s", PATIENCE.as_secs());
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message));
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(too_long()),
            Ok(Err(error)) => {
                let message = format!("the body ended early: {error}");
                return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
            }
            Ok(Ok(body)) => body.to_bytes(),
        };
        let value = serde_json::from_slice(&bytes).map_err(|error: serde_json::Error| {
            let message = format!("the body: {}", in_words(&error.to_string()));
            ApiError::new(StatusCode::BAD_REQUEST, message)
                .hint("/api/v1/openapi.json describes it")
        })?;
        Ok(Self(value))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// Parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Path::from_request_parts(parts, state).await;
        let read = read.map_err(|error| {
            let message = match &error {
                PathRejection::FailedToDeserializePathParams(error) => match error.kind() {
                    ErrorKind::ParseErrorAtIndex { value, .. }
                    | ErrorKind::ParseErrorAtKey { value, .. }
                    | ErrorKind::ParseError { value, .. } => {
                        format!(
                            "the address: found `{}`; allowed: a whole number",
                            clipped(value)
                        )
                    }
                    _ => "the address: found what is no text in UTF-8; allowed: UTF-8".to_owned(),
                },
                _ => "there is nothing at this address".to_owned(),
            };
            ApiError::new(error.status(), message)
        })?;
        Ok(Self(read.0))
    }
}

/// What stands behind `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Query::from_request_parts(parts, state).await;
        let read = read.map_err(|error| {
            // The deserializer's own error: the outer one puts a sentence about the query before it.
            let why = std::error::Error::source(&error).map(ToString::to_string);
            let why = why.unwrap_or_else(|| error.body_text());
            ApiError::new(error.status(), format!("the address: {}", in_words(&why)))
                .hint("/api/v1/openapi.json describes it")
        })?;
        Ok(Self(read.0))
    }
}

/// What a deserializer says, in the words of all other refusals.
fn in_words(error: &str) -> String {
    // Of JSON, where it is stands behind it.
    let (error, place) = match error.rsplit_once(" at line ") {
        Some((error, place)) => (
            error,
            format!(" (line {})", place.replace(" column", ", column")),
        ),
        None => (error, String::new()),
    };
    let known = |rest: &str| match rest.split_once(", expected ") {
        Some((found, allowed)) => {
            let allowed = allowed.trim_start_matches("one of ");
            (found.to_owned(), allowed.to_owned())
        }
        None => (rest.to_owned(), "no key".to_owned()),
    };
    let found = |found: &str, allowed: &str| format!("found {found}; allowed: {allowed}{place}");
    if let Some(rest) = error.strip_prefix("missing field ") {
        return format!("{rest} is missing{place}");
    }
    if let Some(rest) = error.strip_prefix("duplicate field ") {
        return format!("{rest} is given twice{place}");
    }
    if let Some(rest) = error.strip_prefix("unknown field ") {
        let (key, allowed) = known(rest);
        return found(&format!("the unknown key {key}"), &allowed);
    }
    if let Some(rest) = error.strip_prefix("unknown variant ") {
        let (word, allowed) = known(rest);
        return found(&word, &allowed);
    }
    let wrong = ["invalid type: ", "invalid value: ", "invalid length "];
    if let Some(rest) = wrong.iter().find_map(|begin| error.strip_prefix(begin)) {
        let (what, allowed) = known(rest);
        return found(&what, type_in_words(&allowed));
    }
    match error {
        "invalid float literal" => found("what is no number", "a number"),
        "invalid digit found in string" => found("what is no whole number", "a whole number"),
        _ => format!("{error}{place}"),
    }
}

/// A type of Rust in words.
fn type_in_words(name: &str) -> &str {
    match name {
        "f64" | "f32" => "a number",
        "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number from 0 on",
        "i64" | "i32" => "a whole number",
        "a boolean" => "`true` or `false`",
        "a sequence" => "a list",
        "a map" => "an object",
        name if name.starts_with("struct ") => "an object",
        name if name.contains("enum ") => "an object or a word",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_deserializer_refuses_is_said_in_the_words_of_other_refusals() {
        for (error, words) in [
            ("missing field `text`", "`text` is missing"),
            ("duplicate field `at_s`", "`at_s` is given twice"),
            (
                "unknown field `x`, expected one of `text`, `document` at line 1 column 4",
                "found the unknown key `x`; allowed: `text`, `document` (line 1, column 4)",
            ),
            (
                "unknown variant `go`, expected `run` or `compare`",
                "found `go`; allowed: `run` or `compare`",
            ),
            (
                "invalid type: string \"x\", expected f64 at line 2 column 9",
                "found string \"x\"; allowed: a number (line 2, column 9)",
            ),
            (
                "expected value at line 1 column 1",
                "expected value (line 1, column 1)",
            ),
        ] {
            assert_eq!(in_words(error), words);
        }
    }
}
