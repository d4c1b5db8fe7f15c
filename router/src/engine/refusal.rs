//! What a client is told when it does not get what it asked for: Chromium's own words for things that do not exist for
//! it, and one sentence of ours for what the policy or the table refuses.

use serde_json::json;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub message: String,
}

impl Refusal {
    fn new(code: i32, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    pub fn render(&self) -> String {
        json!({"code": self.code, "message": self.message}).to_string()
    }

    /// Refusals of ours are kept for `task show`; Chromium's own answers to a slip of the client's are not.
    pub fn is_noteworthy(&self) -> bool {
        self.message.starts_with("tabwarden: ") || self.message == UNKNOWN_TARGET
    }

    /// `id`: of its record in the audit.
    pub fn denied(sentence: &str, id: Option<&str>) -> Refusal {
        match id {
            Some(id) => Refusal::new(-32000, format!("{sentence} [{id}]")),
            None => Refusal::new(-32000, sentence),
        }
    }

    pub fn ours(message: impl std::fmt::Display) -> Refusal {
        Refusal::new(-32000, format!("tabwarden: {message}"))
    }

    /// A target of somebody else's, or none at all: the same answer, so that ids cannot be probed.
    pub fn unknown_target() -> Refusal {
        Refusal::new(-32000, UNKNOWN_TARGET)
    }

    /// A target that was the task's and is gone: Chromium's words.
    pub fn target_gone() -> Refusal {
        Refusal::new(-32602, "No target with given id found")
    }

    pub fn unknown_session() -> Refusal {
        Refusal::new(-32001, "Session with given id not found.")
    }

    pub fn no_such_child_session() -> Refusal {
        Refusal::new(-32602, "No session with given id")
    }

    pub fn unknown_context(id: &str) -> Refusal {
        Refusal::new(-32000, format!("Failed to find browser context with id {id}"))
    }

    pub fn unknown_frame() -> Refusal {
        Refusal::new(-32000, "No frame with given id found")
    }

    pub fn unknown_world() -> Refusal {
        Refusal::new(-32000, "Cannot find context with specified id")
    }

    pub fn unknown_unique_world() -> Refusal {
        Refusal::new(-32602, "uniqueContextId not found")
    }

    pub fn unknown_paused_request() -> Refusal {
        Refusal::new(-32602, "Invalid InterceptionId.")
    }

    pub fn no_script(id: &str) -> Refusal {
        Refusal::new(-32000, format!("No script for id: {id}"))
    }

    pub fn unknown_window() -> Refusal {
        Refusal::new(-32000, "Browser window not found")
    }

    pub fn unknown_download() -> Refusal {
        Refusal::new(-32602, "No download item found for the given GUID")
    }

    pub fn method_not_found(method: &str) -> Refusal {
        Refusal::new(-32601, format!("'{method}' wasn't found"))
    }

    pub fn invalid_params(what: &str) -> Refusal {
        Refusal::new(-32602, format!("Invalid parameters: {what}"))
    }

    /// Chromium's words, for which Playwright's users look.
    pub fn invalid_url() -> Refusal {
        Refusal::new(-32000, "Cannot navigate to invalid URL")
    }

    pub fn not_allowed() -> Refusal {
        Refusal::new(-32000, "Not allowed")
    }

    pub fn too_large() -> Refusal {
        Refusal::ours(
            "this command is larger than 64 MiB, and larger ones make Chromium drop every client's connection; send less at once",
        )
    }

    pub fn browser_lost() -> Refusal {
        Refusal::ours(
            "the browser is gone, so the outcome of this command is unknown; connect again once `tabwarden serve` runs anew",
        )
    }
}

const UNKNOWN_TARGET: &str = "Unknown targetId";
