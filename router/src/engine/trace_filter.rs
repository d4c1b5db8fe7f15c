//! What of a trace is a task's. A trace records every tab. An event stays when the frames that it names are the task's, or,
//! in a browser context of the task's own, when its process is one of that context's renderers: Chromium shares renderers
//! between sites and tabs, and never between browser contexts. Everything else is dropped, and pictures always.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::read_lossy;

/// Text that is kept, at most; of what comes later the trace says that it was lost.
const MOST_BYTES: usize = 256 << 20;

pub const SCREENSHOTS: &str = "disabled-by-default-devtools.screenshot";
/// By its events frames are told, so it is recorded always.
pub const FRAMES: &str = "disabled-by-default-devtools.timeline";

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    pid: i64,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

/// One that is kept, or may be.
struct Kept {
    pid: i64,
    /// `None`: it depends on its process.
    sure: bool,
    /// Only beside events of its process.
    metadata: bool,
    text: String,
}

/// How the filter asks about what an event names.
pub struct Owner<'a> {
    pub is_own_frame: &'a dyn Fn(&str) -> bool,
    pub names_foreign: &'a dyn Fn(&str) -> bool,
}

#[derive(Default)]
pub struct Sieve {
    kept: Vec<Kept>,
    bytes: usize,
    lost: bool,
    renderers: FxHashSet<i64>,
    /// Processes in which a frame of the task's was named.
    with_own_frames: FxHashSet<i64>,
}

impl Sieve {
    /// One `Tracing.dataCollected`. `by_process`: the task has a browser context of its own.
    pub fn take(&mut self, params: &RawValue, owner: &Owner<'_>, by_process: bool) {
        #[derive(Deserialize)]
        struct Collected<'a> {
            #[serde(borrow)]
            value: Vec<&'a RawValue>,
        }
        let Ok(collected) = serde_json::from_str::<Collected<'_>>(params.get()) else {
            self.lost = true;
            return;
        };
        for raw in collected.value {
            // What cannot be read is nobody's.
            if let Ok(event) = serde_json::from_str::<Event<'_>>(raw.get()) {
                self.sift(raw.get(), &event, owner, by_process);
            }
        }
    }

    fn sift(&mut self, raw: &str, event: &Event<'_>, owner: &Owner<'_>, by_process: bool) {
        if event.cat.contains("screenshot") || event.name.eq_ignore_ascii_case("screenshot") {
            return;
        }
        let args = event.args.map_or("{}", RawValue::get);
        if event.ph == "M" {
            return self.sift_metadata(raw, event, args);
        }
        if event.name == "TracingStartedInBrowser" {
            return self.keep(event.pid, true, false, with_own_frames_only(raw, owner));
        }
        let frames = if args.contains("rame\"") { frames_named(args) } else { Vec::new() };
        let own = !frames.is_empty() && frames.iter().all(|frame| (owner.is_own_frame)(frame));
        let foreign = (!frames.is_empty() && !own) || (owner.names_foreign)(raw);
        if own && !foreign {
            self.with_own_frames.insert(event.pid);
            return self.keep(event.pid, true, false, raw.to_owned());
        }
        if by_process && !foreign {
            self.keep(event.pid, false, false, raw.to_owned());
        }
    }

    /// Names of processes and threads. Labels of processes are titles of tabs.
    fn sift_metadata(&mut self, raw: &str, event: &Event<'_>, args: &str) {
        if event.name == "process_name" && args.contains("\"Renderer\"") {
            self.renderers.insert(event.pid);
        }
        if matches!(&*event.name, "process_name" | "thread_name" | "process_sort_index" | "thread_sort_index") {
            self.keep(event.pid, false, true, raw.to_owned());
        }
    }

    fn keep(&mut self, pid: i64, sure: bool, metadata: bool, text: String) {
        if self.bytes + text.len() > MOST_BYTES {
            self.lost = true;
            return;
        }
        self.bytes += text.len();
        self.kept.push(Kept { pid, sure, metadata, text });
    }

    /// The events that are the task's, and whether some were lost.
    pub fn finish(self, by_process: bool) -> (Vec<String>, bool) {
        let is_own = |pid: i64| by_process && self.renderers.contains(&pid) && self.with_own_frames.contains(&pid);
        let told: FxHashSet<i64> = self
            .kept
            .iter()
            .filter(|kept| !kept.metadata && (kept.sure || is_own(kept.pid)))
            .map(|kept| kept.pid)
            .collect();
        let stays = |kept: &Kept| match kept.metadata {
            true => told.contains(&kept.pid),
            false => kept.sure || is_own(kept.pid),
        };
        let events = self.kept.iter().filter(|kept| stays(kept)).map(|kept| kept.text.clone()).collect();
        (events, self.lost)
    }
}

/// Ids that stand as a `frame` or `frameId`, at any depth.
fn frames_named(args: &str) -> Vec<String> {
    let Ok(args) = read_lossy(args) else { return vec![String::new()] };
    let (mut found, mut open) = (Vec::new(), vec![&args]);
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match (key.as_str(), value) {
                        ("frame" | "frameId", Value::String(id)) => found.push(id.clone()),
                        (_, value) => open.push(value),
                    }
                }
            }
            Value::Array(values) => open.extend(values),
            _ => {}
        }
    }
    found
}

/// The event that begins a trace lists the frames of its page, those included that it has had.
fn with_own_frames_only(raw: &str, owner: &Owner<'_>) -> String {
    let mut event = read_lossy(raw).unwrap_or_default();
    if let Some(Value::Array(frames)) = event.pointer_mut("/args/data/frames") {
        frames.retain(|frame| {
            frame["frame"].as_str().is_some_and(owner.is_own_frame) && !(owner.names_foreign)(&frame.to_string())
        });
    }
    event.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sift(events: &Value, by_process: bool) -> Vec<String> {
        let mut sieve = Sieve::default();
        let params = serde_json::value::to_raw_value(&json!({"value": events})).unwrap();
        let owner = Owner { is_own_frame: &|frame| frame == "OWN", names_foreign: &|text| text.contains("FOREIGN") };
        sieve.take(&params, &owner, by_process);
        let names = |text: &String| serde_json::from_str::<Value>(text).unwrap()["name"].as_str().unwrap().to_owned();
        sieve.finish(by_process).0.iter().map(names).collect()
    }

    fn trace() -> Value {
        json!([
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "Renderer"}},
            {"name": "process_labels", "ph": "M", "pid": 1, "args": {"labels": "a title"}},
            {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "Renderer"}},
            {"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "Browser"}},
            {"name": "own", "cat": "x", "ph": "X", "pid": 1, "args": {"data": {"frame": "OWN"}}},
            {"name": "bare", "cat": "x", "ph": "X", "pid": 1, "args": {}},
            {"name": "mixed", "cat": "x", "ph": "X", "pid": 1, "args": {"data": [{"frame": "OWN"}, {"frameId": "FOREIGN"}]}},
            {"name": "another's", "cat": "x", "ph": "X", "pid": 1, "args": {"frame": "OTHER"}},
            {"name": "id", "cat": "x", "ph": "X", "pid": 1, "args": {"url": "FOREIGN"}},
            {"name": "bare elsewhere", "cat": "x", "ph": "X", "pid": 2, "args": {}},
            {"name": "own in the browser", "cat": "x", "ph": "I", "pid": 3, "args": {"frame": "OWN"}},
            {"name": "bare in the browser", "cat": "x", "ph": "X", "pid": 3, "args": {}},
            {"name": "Screenshot", "cat": "disabled-by-default-devtools.screenshot", "ph": "O", "pid": 3, "args": {"frame": "OWN"}},
            "nonsense",
        ])
    }

    #[test]
    fn in_the_profile_an_event_is_the_tasks_by_its_frames_alone() {
        assert_eq!(sift(&trace(), false), ["process_name", "process_name", "own", "own in the browser"]);
    }

    #[test]
    fn in_an_own_context_a_renderer_with_an_own_frame_is_the_tasks() {
        assert_eq!(sift(&trace(), true), ["process_name", "process_name", "own", "bare", "own in the browser"]);
    }

    #[test]
    fn the_frames_of_the_beginning_are_the_tasks() {
        let mut sieve = Sieve::default();
        let event = json!({"name": "TracingStartedInBrowser", "cat": FRAMES, "ph": "I", "pid": 3,
            "args": {"data": {"frames": [{"frame": "OWN", "url": "u"}, {"frame": "OTHER", "url": "secret"}]}}});
        let params = serde_json::value::to_raw_value(&json!({"value": [event]})).unwrap();
        let owner = Owner { is_own_frame: &|frame| frame == "OWN", names_foreign: &|_| false };
        sieve.take(&params, &owner, false);
        let (events, lost) = sieve.finish(false);
        assert!(events.len() == 1 && events[0].contains("OWN") && !events[0].contains("secret") && !lost);
    }
}
