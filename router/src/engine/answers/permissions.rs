//! Permissions: in a context of the task's own as Chromium does it. In the person's profile only for origins where the task's
//! pages have been, and undone when the client goes.

use ownership::id::{ClientId, ContextId};
use policy::Verb;
use serde_json::{Value, json};

use super::{Ask, Engine};
use crate::engine::calls::{Learn, Purpose};
use crate::engine::from_client::{Forward, Judged};
use crate::engine::refusal::Refusal;
use crate::engine::sites::not_been_there;

/// More than any client sets; each is sent again when another client's are undone.
const MOST_OVERRIDES: usize = 500;

/// A command by which a client has changed a permission in the profile.
#[derive(Clone, Debug)]
pub struct PermissionOverride {
    client: ClientId,
    method: &'static str,
    params: Value,
}

impl Engine {
    pub(super) fn permissions(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let (context, is_own) = self.meant_context(&ask)?;
        let Some(context) = context else { return Err(Refusal::not_allowed()) };
        match is_own {
            true => self.own_permissions(ask, context),
            false if ask.row.method == "Browser.resetPermissions" => self.reset_own_overrides(&ask, context),
            false => self.override_in_profile(ask, context),
        }
    }

    fn own_permissions(&mut self, ask: Ask<'_>, context: ContextId) -> Result<(), Refusal> {
        let judged = self.judge_origins(&ask, false)?;
        if let Some(client) = self.clients.get_mut(&ask.to.client) {
            client.set_permissions.insert(context);
        }
        self.send_permissions(&ask, context, &judged)
    }

    fn override_in_profile(&mut self, ask: Ask<'_>, context: ContextId) -> Result<(), Refusal> {
        if ask.text("origin").is_none_or(str::is_empty) {
            return Err(Refusal::ours(format!(
                "{} refused: this task shares the person's profile, and without an origin it would reach every site in it; name an origin where a page of the task has been, or use an isolated task",
                ask.row.method
            )));
        }
        let judged = self.judge_origins(&ask, true)?;
        let client = ask.to.client;
        if self.permission_overrides.iter().filter(|set| set.client == client).count() >= MOST_OVERRIDES {
            return Err(Refusal::ours(format!(
                "{} refused: this client has set {MOST_OVERRIDES} permissions in the person's profile already; undo them with Browser.resetPermissions first",
                ask.row.method
            )));
        }
        self.send_permissions(&ask, context, &judged)?;
        let params = with_context(ask.params.take(), context);
        // Said again it is one override still, and the newest.
        self.permission_overrides
            .retain(|set| set.client != client || set.method != ask.row.method || set.params != params);
        self.permission_overrides.push(PermissionOverride { client, method: ask.row.method, params });
        Ok(())
    }

    fn send_permissions(&mut self, ask: &Ask<'_>, context: ContextId, judged: &Judged) -> Result<(), Refusal> {
        let params = with_context(ask.params.clone(), context).to_string();
        let command = Forward { session: None, method: ask.row.method, params: &params };
        let permitted = self.permit_forward(ask.to, ask.row, ask.surface, judged, command)?;
        self.forward(ask.to, permitted, Learn::Nothing);
        Ok(())
    }

    /// The origins that a command names. With none it is about all of them.
    fn judge_origins(&self, ask: &Ask<'_>, shared: bool) -> Result<Judged, Refusal> {
        let task = self.task_of(ask.to.client).ok_or_else(Refusal::not_allowed)?;
        let mut judged = Judged { shared_profile: Some(shared), ..Judged::default() };
        for key in ["origin", "embeddedOrigin"] {
            let origin = match &ask.params[key] {
                Value::Null => continue,
                Value::String(origin) if origin.is_empty() => continue,
                Value::String(origin) => origin,
                _ => return Err(Refusal::invalid_params(&format!("{key} must be a string"))),
            };
            let been_there =
                self.sites_of(task).is_some_and(|sites| sites.has_origin(origin.strip_suffix('/').unwrap_or(origin)));
            if shared && !been_there {
                let what = format!("permissions of {:?}", origin.escape_debug().to_string());
                return Err(not_been_there(ask.row, &what));
            }
            judged.urls.push((Verb::Permissions, origin.clone()));
        }
        let takes_away = ask.row.method == "Browser.resetPermissions";
        if judged.urls.is_empty() && !takes_away && !self.is_unlimited(task, Verb::Permissions) {
            return Err(Refusal::ours(format!(
                "{} refused: without an origin it would reach every site, and the policy of this task does not allow `permissions` everywhere; name an origin",
                ask.row.method
            )));
        }
        Ok(judged)
    }

    /// Chromium can only undo all of a context's at once: what others have set there is set again behind it.
    fn reset_own_overrides(&mut self, ask: &Ask<'_>, context: ContextId) -> Result<(), Refusal> {
        let judged = Judged { shared_profile: Some(true), ..Judged::default() };
        if !self.forget_overrides(ask.to.client) {
            self.permit(ask.to, ask.row, ask.surface, &judged, ())?;
            return self.done(ask.to);
        }
        let params = json!({"browserContextId": context.as_str()}).to_string();
        let command = Forward { session: None, method: ask.row.method, params: &params };
        let permitted = self.permit_forward(ask.to, ask.row, ask.surface, &judged, command)?;
        self.forward(ask.to, permitted, Learn::Nothing);
        self.set_overrides_again();
        Ok(())
    }

    /// The client has gone, by whatever end.
    pub(in crate::engine) fn undo_overrides(&mut self, client: ClientId) {
        let Some(context) = self.browser.default_context.filter(|_| self.forget_overrides(client)) else { return };
        let params = json!({"browserContextId": context.as_str()});
        self.own(None, "Browser.resetPermissions", &params, Purpose::Nothing);
        self.set_overrides_again();
    }

    /// Whether there were any.
    fn forget_overrides(&mut self, client: ClientId) -> bool {
        let before = self.permission_overrides.len();
        self.permission_overrides.retain(|set| set.client != client);
        self.permission_overrides.len() < before
    }

    fn set_overrides_again(&mut self) {
        for PermissionOverride { method, params, .. } in self.permission_overrides.clone() {
            self.own(None, method, &params, Purpose::Nothing);
        }
    }
}

fn with_context(mut params: Value, context: ContextId) -> Value {
    if let Some(params) = params.as_object_mut() {
        params.insert("browserContextId".into(), json!(context.as_str()));
    }
    params
}
