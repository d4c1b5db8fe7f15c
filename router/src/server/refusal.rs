//! Answers that say no over HTTP: a status, a code for programs and one sentence for people.

use bytes::Bytes;
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Response, StatusCode};

pub type Reply = Response<Full<Bytes>>;

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

    /// As text, the sentence also in the status line: Playwright and Puppeteer show one or the other of a failed
    /// connect.
    pub fn into_text(self) -> Reply {
        let mut response = plain(self.status, "text/plain; charset=utf-8", self.message.clone());
        // A reason phrase holds printable ASCII and tabs only; anything else leaves the standard phrase.
        if let Ok(reason) = ReasonPhrase::try_from(self.message.into_bytes()) {
            response.extensions_mut().insert(reason);
        }
        response
    }

    /// As the API's error object.
    pub fn into_json(self) -> Reply {
        let body = serde_json::json!({"error": {"code": self.code, "message": self.message}});
        plain(self.status, "application/json; charset=utf-8", body.to_string())
    }
}

pub fn json(status: StatusCode, body: &serde_json::Value) -> Reply {
    plain(status, "application/json; charset=utf-8", body.to_string())
}

pub fn plain(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    // Bodies hold tokens and pages' addresses.
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    response
}
