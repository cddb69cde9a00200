//! What a request is refused with.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use narrows::Error;
use narrows::scenario::Refusal;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) body: Box<Refused>,
    /// Further members of the answer.
    pub(crate) more: Option<Value>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Refused {
    /// What was wrong, and what is allowed.
    pub(crate) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// The line of the text, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// The column, from 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    /// The name of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

/// What a handler gives.
pub(crate) type Answer<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            body: Box::new(Refused {
                message: message.into(),
                ..Refused::default()
            }),
            more: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.body.hint = Some(hint.into());
        self
    }

    pub(crate) fn with(mut self, more: Value) -> Self {
        self.more = Some(more);
        self
    }

    pub(crate) fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {what}"))
    }

    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// A panic or a lost thread: a mistake of ours.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Self {
        let place = refusal.line_and_column();
        Self {
            message: refusal.to_string(),
            hint: refusal.advice().map(str::to_owned),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
            key: Some(refusal.key().to_owned()).filter(|key| !key.is_empty()),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            body: Box::new((&refusal).into()),
            more: None,
        }
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match &error {
            error if error.is_of_rights() => StatusCode::FORBIDDEN,
            error if error.is_refusal() => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": *self.body });
        if let (Value::Object(body), Some(Value::Object(more))) = (&mut body, self.more) {
            body.extend(more);
        }
        (self.status, axum::Json(body)).into_response()
    }
}
