//! Reading what a request brings: its body, bounded in length and in time, and the parts of its
//! address; what is refused is refused in JSON.

use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("the body is not what it should be: {error}");
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
        let read = read.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        Ok(Self(read.0))
    }
}

/// What stands behind `?`.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = extract::Query::from_request_parts(parts, state).await;
        let read = read.map_err(|error| ApiError::new(error.status(), error.body_text()))?;
        Ok(Self(read.0))
    }
}
