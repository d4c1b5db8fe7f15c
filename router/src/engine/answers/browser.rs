//! `Browser.*` with small integers: windows of the task's own pages.

use ownership::id::TargetId;
use serde_json::{Value, json};

use super::{Ask, Engine};
use crate::engine::calls::Learn;
use crate::engine::from_client::{Addressee, Forward, Judged};
use crate::engine::refusal::Refusal;

impl Engine {
    pub(super) fn get_window_for_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let target = match (ask.text("targetId"), ask.addressee) {
            (Some(target), _) => self.check_target(ask.to.client, target)?,
            (None, Addressee::Session(session)) => {
                self.client_session(session).map(|session| session.page).ok_or_else(Refusal::unknown_target)?
            }
            (None, Addressee::Scope(_)) => {
                return Err(Refusal { code: -32000, message: "No web contents in the target".to_owned() });
            }
        };
        let page = self.ledger.page_of(target).unwrap_or(target);
        self.send_on_root(&ask, &json!({"targetId": page.as_str()}), Learn::Window(page))
    }

    /// Bounds of a window that a page of the task's is in. A window's id is a small integer: only one that was told to this
    /// task counts.
    pub(super) fn in_window(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let window =
            ask.params["windowId"].as_i64().ok_or_else(|| Refusal::invalid_params("windowId must be an integer"))?;
        self.check_window(ask.to.client, window)?;
        let state = ask.params["bounds"]["windowState"].as_str();
        if state.is_some_and(|state| state != "normal") {
            return Err(Refusal::ours(format!(
                "{} refused: minimizing, maximizing and fullscreen move the person's windows about; set left, top, width and height instead",
                ask.row.method
            )));
        }
        let params = ask.params.clone();
        self.send_on_root(&ask, &params, Learn::Nothing)
    }

    pub(super) fn send_on_root(&mut self, ask: &Ask<'_>, params: &Value, learn: Learn) -> Result<(), Refusal> {
        let params = params.to_string();
        let permitted = self.permit_forward(
            ask.to,
            ask.row,
            ask.surface,
            &Judged::default(),
            Forward { session: None, method: ask.row.method, params: &params },
        )?;
        self.forward(ask.to, permitted, learn);
        Ok(())
    }

    pub(in crate::engine) fn page_ids(&self, task: ownership::id::TaskId) -> Vec<TargetId> {
        let mut pages: Vec<TargetId> = self.ledger.pages(task).collect();
        pages.sort_unstable();
        pages
    }
}
