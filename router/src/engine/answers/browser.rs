//! `Browser.*` with small integers and paths: windows and downloads of the task's own pages.

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

    fn send_on_root(&mut self, ask: &Ask<'_>, params: &Value, learn: Learn) -> Result<(), Refusal> {
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

    /// Never the profile's: in a shared task it is answered, because Playwright does not connect without, and does nothing.
    pub(super) fn set_download_behavior(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let (context, is_own) = self.meant_context(&ask)?;
        let (Some(context), true) = (context, is_own) else {
            self.odd(
                "downloads",
                "a client of a shared task set a download behaviour: answered, and not applied to the profile"
                    .to_owned(),
            );
            return self.done(ask.to);
        };
        let events = ask.params["eventsEnabled"].as_bool().unwrap_or(false);
        let behavior = ask.required("behavior")?.to_owned();
        let mut params = json!({"behavior": behavior, "browserContextId": context.as_str(), "eventsEnabled": events});
        let mut judged = Judged { shared_profile: Some(false), ..Judged::default() };
        if let Some(path) = ask.text("downloadPath") {
            params["downloadPath"] = json!(path);
            judged.write_paths.push(path.to_owned());
        }
        let params = params.to_string();
        let permitted = self.permit_forward(
            ask.to,
            ask.row,
            ask.surface,
            &judged,
            Forward {
                session: None,
                // `Page.setDownloadBehavior` is the same thing without a context, which would be everybody's.
                method: "Browser.setDownloadBehavior",
                params: &params,
            },
        )?;
        if let Some(client) = self.clients.get_mut(&ask.to.client) {
            client.set_downloads.insert(context);
            match events {
                true => client.download_events.insert(context),
                false => client.download_events.remove(&context),
            };
        }
        self.forward(ask.to, permitted, Learn::Nothing);
        Ok(())
    }

    pub(super) fn cancel_download(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let guid = ask.required("guid")?.to_owned();
        self.check_download(ask.to.client, &guid)?;
        let (context, is_own) = self.meant_context(&ask)?;
        let mut params = json!({"guid": guid});
        if let (Some(context), true) = (context, is_own) {
            params["browserContextId"] = json!(context.as_str());
        }
        self.send_on_root(&ask, &params, Learn::Nothing)
    }

    pub(in crate::engine) fn page_ids(&self, task: ownership::id::TaskId) -> Vec<TargetId> {
        let mut pages: Vec<TargetId> = self.ledger.pages(task).collect();
        pages.sort_unstable();
        pages
    }
}
