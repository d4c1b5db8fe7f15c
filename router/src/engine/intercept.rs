//! A client's own interception: what it is told of, and what it may fulfil.

use ownership::id::SessionId;
use policy::Verb;
use serde_json::json;
use serde_json::value::RawValue;

use super::Engine;
use super::calls::Purpose;
use super::refusal::Refusal;
use super::requests::is_document;
use super::state::Cause;
use crate::wire::value_of;

/// The one parameter of interception that matters here; a duplicate of it is an error.
#[derive(serde::Deserialize)]
struct PausedRequest {
    #[serde(rename = "requestId")]
    request_id: String,
}

impl Engine {
    /// A pause of a client's own interception. What the client makes up for a forbidden document would have that document's
    /// origin, cookies and storage, and the root's `Fetch` never sees a request that is fulfilled: failed before it is told.
    pub(super) fn client_request_paused(&mut self, session: SessionId, params: Option<&RawValue>, raw: &str) {
        if raw.contains("\"Document\"") && self.fail_forbidden_document(session, params) {
            return;
        }
        let told = params.and_then(|params| serde_json::from_str::<PausedRequest>(params.get()).ok());
        if let (Some(told), Some(session)) = (told, self.client_session_mut(session)) {
            session.told_requests.insert(told.request_id);
        }
        self.deliver_network(session, "Fetch.requestPaused", raw);
    }

    /// Ids of paused requests can be guessed (`interception-job-3.0`), and one that was not told may be of a forbidden
    /// document: only what was told can be fulfilled, and only once.
    pub(super) fn settle_paused(&mut self, session: SessionId, method: &str, raw: &str) -> Result<(), Refusal> {
        let settles = matches!(
            method,
            "Fetch.fulfillRequest" | "Fetch.continueRequest" | "Fetch.failRequest" | "Fetch.continueResponse"
        );
        if !settles {
            return Ok(());
        }
        let named =
            serde_json::from_str::<PausedRequest>(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        let told =
            self.client_session_mut(session).is_some_and(|session| session.told_requests.remove(&named.request_id));
        match told || method != "Fetch.fulfillRequest" {
            true => Ok(()),
            false => Err(Refusal::unknown_paused_request()),
        }
    }

    fn fail_forbidden_document(&mut self, session: SessionId, params: Option<&RawValue>) -> bool {
        let params = value_of(params);
        let Some(page) = self.client_session(session).map(|session| session.page) else { return true };
        let Some(task) = self.ledger.owner(page) else { return true };
        let (request, url) = (params["requestId"].as_str(), params["request"]["url"].as_str());
        let (Some(request), Some(url)) = (request, url) else { return true };
        let verb = if self.is_main_frame(page, &params) { Verb::Navigate } else { Verb::Frame };
        if !is_document(&params) {
            return false;
        }
        let Some(judged) = self.forbids(task, verb, url, Some(Cause::Page)) else { return false };
        let params = json!({"requestId": request, "errorReason": "BlockedByClient"});
        self.own(Some(session), "Fetch.failRequest", &params, Purpose::Nothing);
        self.blocked(page, &judged);
        true
    }
}
