//! Answers over HTTP, above all those that say no: a status, a code for programs and one sentence for people.

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::ext::ReasonPhrase;

use crate::engine::io::{AdminError, AdminErrorKind};

/// As text, the sentence also in the status line: Playwright and Puppeteer show one or the other of a failed connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub status: StatusCode,
    /// snake_case; part of the API.
    pub code: &'static str,
    /// One sentence: what, why, what to do next. Holds no secret.
    pub message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, code, message: message.into() }
    }

    /// Names nothing: whoever has no token learns only that there is nothing here.
    pub fn nothing_here() -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "not_found", "Nothing is here.")
    }
}

impl From<AdminError> for Refusal {
    fn from(error: AdminError) -> Refusal {
        let (status, code) = match error.kind {
            AdminErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
            AdminErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            AdminErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            AdminErrorKind::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too_many_tasks"),
            AdminErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Refusal::new(status, code, error.message)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = plain(self.status, "text/plain; charset=utf-8", self.message.clone());
        // A reason phrase holds printable ASCII and tabs only; anything else leaves the standard phrase.
        if let Ok(reason) = ReasonPhrase::try_from(self.message.into_bytes()) {
            response.extensions_mut().insert(reason);
        }
        response
    }
}

/// The same as the API's error object.
#[derive(Debug)]
pub struct ApiRefusal(pub Refusal);

impl<T: Into<Refusal>> From<T> for ApiRefusal {
    fn from(refusal: T) -> ApiRefusal {
        ApiRefusal(refusal.into())
    }
}

impl IntoResponse for ApiRefusal {
    fn into_response(self) -> Response {
        let Refusal { status, code, message } = self.0;
        json(status, &serde_json::json!({"error": {"code": code, "message": message}}))
    }
}

pub fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    plain(status, "application/json; charset=utf-8", body.to_string())
}

pub fn plain(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Bodies hold tokens and pages' addresses.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
