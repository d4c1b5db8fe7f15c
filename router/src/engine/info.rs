//! `Target.TargetInfo` and `Target.TargetFilter`: read from the browser and from clients, and written for clients.

use ownership::id::{ContextId, FrameId, TargetId};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the engine keeps of a target. Only these fields reach a client.
#[derive(Clone, Debug)]
pub struct TargetInfo {
    pub id: TargetId,
    pub kind: String,
    pub subtype: Option<String>,
    pub title: String,
    pub url: String,
    pub opener: Option<TargetId>,
    pub opener_frame: Option<FrameId>,
    pub can_access_opener: bool,
    pub context: Option<ContextId>,
    pub parent: Option<TargetId>,
    pub parent_frame: Option<FrameId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    target_id: String,
    r#type: String,
    #[serde(default)]
    subtype: Option<String>,
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    opener_id: Option<String>,
    #[serde(default)]
    opener_frame_id: Option<String>,
    #[serde(default)]
    can_access_opener: bool,
    #[serde(default)]
    browser_context_id: Option<String>,
    #[serde(default)]
    parent_id: Option<String>,
    #[serde(default)]
    parent_frame_id: Option<String>,
}

impl TargetInfo {
    /// `None` when it is not a target info that we can work with; it is then as if it had not come.
    pub fn read(value: &Value) -> Option<TargetInfo> {
        let wire = Wire::deserialize(value).ok()?;
        Some(TargetInfo {
            id: TargetId::new(&wire.target_id)?,
            kind: wire.r#type,
            subtype: wire.subtype,
            title: wire.title,
            url: wire.url,
            opener: wire.opener_id.as_deref().and_then(TargetId::new),
            opener_frame: wire.opener_frame_id.as_deref().and_then(FrameId::new),
            can_access_opener: wire.can_access_opener,
            context: wire.browser_context_id.as_deref().and_then(ContextId::new),
            parent: wire.parent_id.as_deref().and_then(TargetId::new),
            parent_frame: wire.parent_frame_id.as_deref().and_then(FrameId::new),
        })
    }

    /// For a client; `opener_visible`: whether the opener is a page of the same task's.
    pub fn write(&self, attached: bool, opener_visible: bool) -> Value {
        let mut info = json!({
            "targetId": self.id.as_str(),
            "type": self.kind,
            "title": self.title,
            "url": self.url,
            "attached": attached,
            "canAccessOpener": self.can_access_opener && opener_visible,
        });
        let mut set = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                info[key] = json!(value);
            }
        };
        set("browserContextId", self.context.as_ref().map(ContextId::as_str));
        set("subtype", self.subtype.as_deref());
        set("parentId", self.parent.as_ref().map(TargetId::as_str));
        set("parentFrameId", self.parent_frame.as_ref().map(FrameId::as_str));
        if opener_visible {
            set("openerId", self.opener.as_ref().map(TargetId::as_str));
            set("openerFrameId", self.opener_frame.as_ref().map(FrameId::as_str));
        }
        info
    }
}

/// First match decides; no match excludes. The default is everything but `browser` and `tab`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Vec<(Option<String>, bool)>);

impl Default for Filter {
    fn default() -> Filter {
        Filter(vec![(Some("browser".into()), true), (Some("tab".into()), true), (None, false)])
    }
}

impl Filter {
    /// `None` for what Chromium would refuse to read.
    pub fn read(value: Option<&Value>) -> Option<Filter> {
        let Some(value) = value else { return Some(Filter::default()) };
        let mut entries = Vec::new();
        for entry in value.as_array()? {
            let entry = entry.as_object()?;
            let kind = match entry.get("type") {
                None => None,
                Some(kind) => Some(kind.as_str()?.to_owned()),
            };
            let exclude = match entry.get("exclude") {
                None => false,
                Some(exclude) => exclude.as_bool()?,
            };
            entries.push((kind, exclude));
        }
        Some(Filter(entries))
    }

    pub fn includes(&self, kind: &str) -> bool {
        self.0
            .iter()
            .find(|(entry, _)| entry.as_deref().is_none_or(|entry| entry == kind))
            .is_some_and(|(_, exclude)| !exclude)
    }

    /// Whether a page would be shown: one flat shape serves those who ask for `tab` targets instead of pages too
    /// (Puppeteer excludes `page` on the root and expects the pages below tabs, but takes them from the root).
    pub fn includes_pages(&self) -> bool {
        self.includes("page") || self.includes("tab")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_first_match_first() {
        let puppeteer = Filter::read(Some(&json!([{"type": "page", "exclude": true}, {}]))).unwrap();
        assert!(!puppeteer.includes("page"));
        assert!(puppeteer.includes_pages());
        assert!(puppeteer.includes("service_worker"));
        let pages = Filter::read(Some(&json!([{"type": "page"}]))).unwrap();
        assert!(pages.includes_pages() && !pages.includes("iframe"));
        assert!(Filter::default().includes("iframe") && !Filter::default().includes("browser"));
        assert_eq!(Filter::read(Some(&json!([5]))), None);
    }

    #[test]
    fn an_opener_that_is_not_the_tasks_is_not_told() {
        let value = json!({"targetId":"T","type":"page","title":"","url":"u","attached":true,"canAccessOpener":true,
            "openerId":"O","openerFrameId":"O","browserContextId":"C"});
        let info = TargetInfo::read(&value).unwrap();
        assert_eq!(info.write(false, false).get("openerId"), None);
        assert_eq!(info.write(false, false)["canAccessOpener"], false);
        assert_eq!(info.write(false, true)["openerId"], "O");
    }
}
