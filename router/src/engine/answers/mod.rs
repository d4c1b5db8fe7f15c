//! Commands that never reach the browser as they came: the synthetic browser's own answers, and scoped forms of what
//! would otherwise reach the whole profile.

mod browser;
mod contexts;
mod cookies;
mod downloads;
mod permissions;
mod target;
mod traces;

pub use permissions::PermissionOverride;

use policy::Surface;
use policy::methods::Row;
use serde_json::Value;

use super::Engine;
use super::calls::ReplyTo;
use super::from_client::Addressee;
use super::refusal::Refusal;

/// A command to answer: where it came from, and its parameters.
pub(super) struct Ask<'a> {
    pub to: ReplyTo,
    pub addressee: Addressee,
    pub row: &'static Row,
    pub surface: Surface,
    pub params: &'a mut Value,
}

impl Ask<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.params[key].as_str()
    }

    fn required(&self, key: &str) -> Result<&str, Refusal> {
        self.text(key).ok_or_else(|| Refusal::invalid_params(&format!("{key} must be a string")))
    }

    /// Absent is false, as for Chromium; anything but a boolean is an error.
    fn flag(&self, key: &str) -> Result<bool, Refusal> {
        match &self.params[key] {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            _ => Err(Refusal::invalid_params(&format!("{key} must be a boolean"))),
        }
    }

    fn required_flag(&self, key: &str) -> Result<bool, Refusal> {
        match &self.params[key] {
            Value::Bool(flag) => Ok(*flag),
            _ => Err(Refusal::invalid_params(&format!("{key} must be a boolean"))),
        }
    }
}

impl Engine {
    pub(super) fn answer(
        &mut self,
        to: ReplyTo,
        addressee: Addressee,
        row: &'static Row,
        surface: Surface,
        params: &mut Value,
    ) -> Result<(), Refusal> {
        let ask = Ask { to, addressee, row, surface, params };
        match row.method {
            "Target.setAutoAttach" => self.set_auto_attach(ask),
            "Target.setDiscoverTargets" => self.set_discover_targets(ask),
            "Target.getTargets" => self.get_targets(ask),
            "Target.getTargetInfo" => self.get_target_info(ask),
            "Target.attachToTarget" => self.attach_to_target(ask),
            "Target.attachToBrowserTarget" => self.attach_to_browser_target(ask),
            "Target.detachFromTarget" => self.detach_from_target(ask),
            "Target.createTarget" => self.create_target(ask),
            "Target.closeTarget" => self.close_target(ask),
            // Bringing something to the front would take the person's place. The page does not notice: it has the focus
            // that emulation gives it.
            "Target.activateTarget" => {
                self.check_target(to.client, ask.required("targetId")?)?;
                self.done(to)
            }
            "Page.bringToFront" => self.done(to),
            "Target.createBrowserContext" => self.create_browser_context(ask),
            "Target.disposeBrowserContext" => self.dispose_browser_context(ask),
            "Target.getBrowserContexts" => self.get_browser_contexts(ask),
            "Runtime.runIfWaitingForDebugger" => self.run_if_waiting(ask),
            "Browser.getVersion" => {
                let version = self.browser.version.clone();
                self.result(to, &version);
                Ok(())
            }
            "Browser.close" => self.close_browser(ask),
            "Browser.setDownloadBehavior" | "Page.setDownloadBehavior" => self.set_download_behavior(ask),
            "Browser.cancelDownload" => self.cancel_download(ask),
            "Browser.grantPermissions" | "Browser.resetPermissions" | "Browser.setPermission" => self.permissions(ask),
            "Tracing.start" => self.start_tracing(ask),
            "Tracing.end" => self.end_tracing(ask),
            "IO.read" => self.read_stream(ask),
            "IO.close" => self.close_stream(ask),
            "Network.getCookies" | "Network.getAllCookies" | "Storage.getCookies" => self.read_cookies(ask),
            "Network.setCookie" | "Network.setCookies" | "Storage.setCookies" => self.set_cookies(ask),
            "Network.deleteCookies" => self.delete_cookies(ask),
            "Network.clearBrowserCookies" | "Storage.clearCookies" => self.clear_cookies(ask),
            "Browser.getWindowForTarget" => self.get_window_for_target(ask),
            "Browser.getWindowBounds" | "Browser.setWindowBounds" | "Browser.setContentsSize" => self.in_window(ask),
            // The table promises an answer that nobody wrote (a test walks all such rows): closed, not open.
            method => Err(Refusal::method_not_found(method)),
        }
    }

    fn done(&mut self, to: ReplyTo) -> Result<(), Refusal> {
        self.result(to, "{}");
        Ok(())
    }
}
