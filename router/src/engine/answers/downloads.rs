//! What a client says about downloads. None of it reaches the browser but the cancelling of its own: there it would hold
//! for the person's tabs too, or for ever.

use std::path::PathBuf;

use serde_json::json;

use super::{Ask, Engine};
use crate::engine::calls::Learn;
use crate::engine::downloads::{DownloadWish, Wanted, is_playwrights_own};
use crate::engine::from_client::Judged;
use crate::engine::io::Naming;
use crate::engine::refusal::Refusal;

impl Engine {
    pub(super) fn set_download_behavior(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let (context, _) = self.meant_context(&ask)?;
        let wanted = wanted(&ask)?;
        let mut judged = Judged::default();
        if let Wanted::In { dir, .. } = &wanted
            && !is_playwrights_own(dir)
        {
            judged.write_paths.push(dir.to_string_lossy().into_owned());
        }
        let events = match ask.row.method {
            "Page.setDownloadBehavior" => None,
            _ => Some(ask.flag("eventsEnabled")?),
        };
        self.permit(ask.to, ask.row, ask.surface, &judged, ())?;
        let order = self.downloads.next_wish();
        if let Some(client) = self.clients.get_mut(&ask.to.client) {
            if let Some(context) = context {
                client.downloads.insert(context, DownloadWish { wanted, order });
            }
            // As in Chromium, a session that asks hears of all contexts that it can reach.
            match events {
                Some(true) => client.download_events.insert(ask.to.session),
                Some(false) => client.download_events.remove(&ask.to.session),
                None => false,
            };
        }
        self.done(ask.to)
    }

    pub(super) fn cancel_download(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let guid = ask.required("guid")?.to_owned();
        let download = self.check_download(ask.to.client, &guid)?;
        if let Some(context) = ask.text("browserContextId") {
            self.check_context(ask.to.client, context)?;
        }
        // Chromium finds it in its own context only, and most clients leave that out.
        let mut params = json!({"guid": guid});
        if let Some(context) = self.downloads.context(download) {
            params["browserContextId"] = json!(context.as_str());
        }
        self.send_on_root(&ask, &params, Learn::Nothing)
    }
}

fn wanted(ask: &Ask<'_>) -> Result<Wanted, Refusal> {
    let naming = match ask.required("behavior")? {
        "default" => return Ok(Wanted::Default),
        "deny" => return Ok(Wanted::Deny),
        "allow" => Naming::Suggested,
        "allowAndName" => Naming::Guid,
        _ => return Err(Refusal::invalid_params("behavior must be deny, allow, allowAndName or default")),
    };
    match &ask.params["downloadPath"] {
        serde_json::Value::String(dir) => Ok(Wanted::In { dir: PathBuf::from(dir), naming }),
        serde_json::Value::Null => Err(Refusal { code: -32602, message: "downloadPath not provided".to_owned() }),
        _ => Err(Refusal::invalid_params("downloadPath must be a string")),
    }
}
