//! Ids in parameters: each one that the table names is looked up in the ledger before anything is sent, and what is not the
//! client's gets the answer that a thing which never existed would get.

use ownership::Relation;
use ownership::id::{ClientId, ClientSessionId, ContextId, DownloadId, FrameId, SessionId, TargetId, TaskId, WindowId};
use policy::methods::{Param, ParamKind, Row};
use serde_json::Value;

use super::Engine;
use super::calls::ReplyTo;
use super::from_client::Judged;
use super::refusal::Refusal;
use super::state::Session;
use super::storage::Naming;

/// True in one build only, whose hostile client must get through: it shows that the test can fail.
pub const UNCHECKED: bool = cfg!(feature = "control-without-checks");

/// The values at a path like `files[]` or `a.b`; a part that is missing gives none.
pub(super) fn values_at<'v>(params: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![params];
    for part in path.split('.') {
        let (name, each) = match part.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (part, false),
        };
        found = found
            .into_iter()
            .filter_map(|value| value.get(name))
            .flat_map(|value| match (each, value) {
                (true, Value::Array(values)) => values.iter().collect(),
                _ => vec![value],
            })
            .filter(|value| !value.is_null())
            .collect();
    }
    found
}

/// The same ones, in the same order, to be replaced.
pub(super) fn values_at_mut<'v>(params: &'v mut Value, path: &str) -> Vec<&'v mut Value> {
    let mut found = vec![params];
    for part in path.split('.') {
        let (name, each) = match part.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (part, false),
        };
        found = found
            .into_iter()
            .filter_map(|value| value.get_mut(name))
            .flat_map(|value| match (each, value) {
                (true, Value::Array(values)) => values.iter_mut().collect(),
                (_, value) => vec![value],
            })
            .filter(|value| !value.is_null())
            .collect();
    }
    found
}

impl Engine {
    /// Looks at every parameter that the row names. `session`: `None` on the root.
    pub(super) fn check_params(
        &self,
        to: ReplyTo,
        session: Option<SessionId>,
        row: &'static Row,
        params: &Value,
    ) -> Result<Judged, Refusal> {
        let mut judged = Judged::default();
        for param in row.params.iter() {
            for value in values_at(params, param.path) {
                self.check_param(to, session, row, param, value, &mut judged)?;
            }
        }
        // A page of the task's in a context that a client of it made is not in the shared profile.
        let context =
            session.and_then(|session| self.client_session(session)).and_then(|s| self.ledger.context_of(s.page));
        if let Some(context) = context {
            judged.shared_profile = Some(self.ledger.owner_of_context(context).is_none());
        }
        Ok(judged)
    }

    fn check_param(
        &self,
        to: ReplyTo,
        session: Option<SessionId>,
        row: &'static Row,
        param: &Param,
        value: &Value,
        judged: &mut Judged,
    ) -> Result<(), Refusal> {
        let path = param.path;
        let text = || value.as_str().ok_or_else(|| Refusal::invalid_params(&format!("{path} must be a string")));
        let number = || value.as_i64().ok_or_else(|| Refusal::invalid_params(&format!("{path} must be an integer")));
        match param.kind {
            ParamKind::Target => self.check_target(to.client, text()?).map(|_| ()),
            ParamKind::Frame => {
                self.check_frame(session, text()?)?;
                judged.frame = FrameId::new(text()?);
                Ok(())
            }
            ParamKind::Context => self.check_context(to.client, text()?).map(|_| ()),
            ParamKind::Session => self.check_session(to.client, text()?),
            ParamKind::Window => self.check_window(to.client, number()?),
            ParamKind::Download => self.check_download(to.client, text()?).map(|_| ()),
            ParamKind::World => {
                self.check_world(session, number()?)?;
                judged.frame = self.frame_of_world(session, number()?);
                Ok(())
            }
            ParamKind::UniqueWorld => {
                let world = self.check_unique_world(session, text()?)?;
                judged.frame = self.frame_of_world(session, world);
                Ok(())
            }
            ParamKind::Object => {
                self.check_object(session, text()?)?;
                judged.frame = world_of_handle(text()?).and_then(|world| self.frame_of_world(session, world));
                Ok(())
            }
            ParamKind::NonNegative => match value.as_f64() {
                Some(number) if number >= 0.0 => Ok(()),
                _ => Err(Refusal::invalid_params(&format!("{path} must be a number that is not negative"))),
            },
            ParamKind::Url(verb) => {
                judged.urls.push((verb, text()?.to_owned()));
                Ok(())
            }
            ParamKind::Origin => self.check_storage(session, row, Naming::Origin, text()?, judged),
            ParamKind::StorageKey => self.check_storage(session, row, Naming::StorageKey, text()?, judged),
            ParamKind::ReadPaths => {
                judged.read_paths.push(text()?.to_owned());
                Ok(())
            }
            ParamKind::WritePath => {
                judged.write_paths.push(text()?.to_owned());
                Ok(())
            }
        }
    }

    pub(super) fn check_target(&self, client: ClientId, text: &str) -> Result<TargetId, Refusal> {
        let task = self.task_of(client).ok_or_else(Refusal::unknown_target)?;
        let target = TargetId::new(text).ok_or_else(Refusal::unknown_target)?;
        match self.ledger.target(task, target) {
            _ if UNCHECKED => Ok(target),
            Relation::Owned => Ok(target),
            Relation::Gone => Err(Refusal::target_gone()),
            Relation::Foreign | Relation::Unknown => Err(Refusal::unknown_target()),
        }
    }

    fn check_frame(&self, session: Option<SessionId>, text: &str) -> Result<(), Refusal> {
        let page = session.and_then(|session| self.client_session(session)).map(|session| session.page);
        let frame = FrameId::new(text);
        match page.zip(frame).map(|(page, frame)| self.ledger.frame(page, frame)) {
            Some(Relation::Owned) => Ok(()),
            Some(_) if UNCHECKED => Ok(()),
            _ => Err(Refusal::unknown_frame()),
        }
    }

    pub(super) fn check_context(&self, client: ClientId, text: &str) -> Result<ContextId, Refusal> {
        let unknown = || Refusal::unknown_context(text);
        let task = self.task_of(client).ok_or_else(unknown)?;
        let context = ContextId::new(text).ok_or_else(unknown)?;
        let is_default = self.context_of_task(task) == Some(context);
        match self.ledger.context(task, context) {
            Relation::Owned => Ok(context),
            _ if UNCHECKED => Ok(context),
            // A shared task's default context is the profile's; clients learn its id from their own pages.
            _ if is_default => Ok(context),
            _ => Err(unknown()),
        }
    }

    fn check_session(&self, client: ClientId, text: &str) -> Result<(), Refusal> {
        let known = ClientSessionId::new(text).is_some_and(|session| {
            self.clients.get(&client).is_some_and(|client| client.sessions.contains_key(&session))
        });
        if known { Ok(()) } else { Err(Refusal::unknown_session()) }
    }

    pub(super) fn check_window(&self, client: ClientId, window: i64) -> Result<(), Refusal> {
        let task = self.task_of(client).ok_or_else(Refusal::unknown_window)?;
        match self.ledger.window(task, WindowId(window)) {
            Relation::Owned => Ok(()),
            _ => Err(Refusal::unknown_window()),
        }
    }

    pub(super) fn check_download(&self, client: ClientId, text: &str) -> Result<DownloadId, Refusal> {
        let task = self.task_of(client).ok_or_else(Refusal::unknown_download)?;
        let download = DownloadId::new(text).ok_or_else(Refusal::unknown_download)?;
        match self.ledger.download(task, download) {
            Relation::Owned => Ok(download),
            _ => Err(Refusal::unknown_download()),
        }
    }

    /// Execution contexts are told on each session; one that the client saw on another of its sessions on the same target
    /// is as good.
    fn check_world(&self, session: Option<SessionId>, world: i64) -> Result<(), Refusal> {
        match self.sessions_beside(session).any(|session| session.worlds.contains_key(&world)) {
            true => Ok(()),
            false => Err(Refusal::unknown_world()),
        }
    }

    fn check_unique_world(&self, session: Option<SessionId>, world: &str) -> Result<i64, Refusal> {
        let mut beside = self.sessions_beside(session);
        let known = beside.find_map(|session| session.unique_worlds.get(world).copied());
        known.ok_or_else(Refusal::unknown_unique_world)
    }

    fn frame_of_world(&self, session: Option<SessionId>, world: i64) -> Option<FrameId> {
        self.sessions_beside(session).find_map(|session| session.worlds.get(&world)?.frame)
    }

    /// A handle names its execution context (`<isolate>.<context>.<number>`). One that leads into an extension's world is
    /// refused; any other that the client did not get from Chromium is nothing to Chromium either.
    fn check_object(&self, session: Option<SessionId>, handle: &str) -> Result<(), Refusal> {
        let hidden = world_of_handle(handle)
            .is_some_and(|world| self.sessions_beside(session).any(|session| session.hidden_worlds.contains(&world)));
        if hidden { Err(Refusal::unknown_world()) } else { Ok(()) }
    }

    pub(super) fn sessions_beside(
        &self,
        session: Option<SessionId>,
    ) -> impl Iterator<Item = &super::state::ClientSession> {
        let session = session.and_then(|session| self.client_session(session));
        let client = session.map(|session| session.client);
        session
            .and_then(|session| self.targets.get(&session.target))
            .into_iter()
            .flat_map(|target| target.sessions.iter())
            .filter_map(|id| self.client_session(*id))
            .filter(move |other| Some(other.client) == client)
    }

    /// A session of another task's client or of ours. (The ids by which clients know them mean nothing to Chromium.)
    fn is_strangers_session(&self, task: TaskId, id: &str) -> bool {
        SessionId::new(id).and_then(|id| self.sessions.get(&id)).is_some_and(|session| match session {
            Session::Guard { .. } => true,
            Session::Client(session) => self.task_of(session.client) != Some(task),
        })
    }

    /// A browser context of the person's: the profile, or one that a target was seen in.
    fn is_strangers_context(&self, task: TaskId, id: &str) -> bool {
        let Some(context) = ContextId::new(id) else { return false };
        let known = Some(context) == self.browser.default_context || self.seen_contexts.contains(&context);
        known && self.ledger.owner_of_context(context) != Some(task) && self.context_of_task(task) != Some(context)
    }

    /// Whatever else a command carries: the id of something foreign does not leave this process for this client, wherever in
    /// a string it stands. Behind the table, so that a parameter which a newer Chromium adds is no way around it.
    pub(super) fn refuse_foreign_ids(&self, client: ClientId, raw: &str) -> Result<(), Refusal> {
        let Some(task) = self.task_of(client).filter(|_| !UNCHECKED) else { return Ok(()) };
        let foreign = |text: &str| self.names_foreign(task, text);
        if foreign(raw) {
            return Err(Refusal::unknown_target());
        }
        // With escapes the text of a string is not what stands there.
        if raw.contains("\\u") && foreign(&with_ascii_escapes_read(raw)) {
            return Err(Refusal::unknown_target());
        }
        Ok(())
    }

    pub(super) fn names_foreign(&self, task: TaskId, text: &str) -> bool {
        names_any(text, |id| {
            self.ledger.names_foreign(task, id)
                || self.is_strangers_context(task, id)
                || self.is_strangers_session(task, id)
        })
    }
}

/// Hex digits in a row, up to which an id is looked for at each place.
const LONGEST_WORD: usize = 1024;

/// Ids are 32 hex digits or a dashed guid of 36: only what has these lengths is looked up.
fn names_any(text: &str, is: impl Fn(&str) -> bool) -> bool {
    let bytes = text.as_bytes();
    let part_of_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
    let mut start = 0;
    while start + 32 <= bytes.len() {
        // From the right, so that most text is passed over 32 bytes at a time.
        match bytes[start..start + 32].iter().rposition(|byte| !part_of_id(byte)) {
            Some(at) => start += at + 1,
            None => {
                let end = bytes[start..].iter().position(|byte| !part_of_id(byte)).map_or(bytes.len(), |at| start + at);
                // An id may stand beside other hex digits. (In long runs, which are data, only a whole word counts.)
                let places = if end - start <= LONGEST_WORD { start..=end - 32 } else { start..=start };
                let at = |place: usize, len: usize| text.get(place..place + len).is_some_and(&is);
                if places.into_iter().any(|place| at(place, 32) || (place + 36 <= end && at(place, 36))) {
                    return true;
                }
                start = end;
            }
        }
    }
    false
}

/// A handle is `<isolate>.<execution context>.<number>`.
pub(super) fn world_of_handle(handle: &str) -> Option<i64> {
    handle.split('.').nth(1)?.parse().ok()
}

/// The text with its `\\u00xx` escapes read; ids are ASCII, so any other character may stand for what it likes. (A JSON parser
/// would give up at a lone surrogate, which Chromium accepts.)
fn with_ascii_escapes_read(text: &str) -> String {
    let mut read = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        read.push_str(&rest[..at]);
        let digits = rest.get(at + 2..at + 6).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                read.push(char::from_u32(code).filter(char::is_ascii).unwrap_or(' '));
                rest = &rest[at + 6..];
            }
            None => {
                read.push(' ');
                rest = &rest[at + 2..];
            }
        }
    }
    read.push_str(rest);
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_reach_into_objects_and_arrays() {
        let params = json!({"a": {"b": [1, 2]}, "files": ["x", "y"], "list": [{"id": 5}, {}], "none": null});
        assert_eq!(values_at(&params, "files[]"), [&json!("x"), &json!("y")]);
        assert_eq!(values_at(&params, "a.b[]"), [&json!(1), &json!(2)]);
        assert_eq!(values_at(&params, "list[].id"), [&json!(5)]);
        assert!(values_at(&params, "none").is_empty());
        assert!(values_at(&params, "a.c.d").is_empty());
    }

    #[test]
    fn what_was_judged_is_what_is_replaced() {
        let mut params = json!({"data": {"files": ["x", null, "y"]}, "other": ["x"]});
        let judged: Vec<Value> = values_at(&params, "data.files[]").into_iter().cloned().collect();
        let replaced: Vec<Value> = values_at_mut(&mut params, "data.files[]").into_iter().map(|v| v.take()).collect();
        assert_eq!(judged, replaced);
        assert_eq!(params, json!({"data": {"files": [null, null, null]}, "other": ["x"]}));
    }

    #[test]
    fn ids_are_found_in_any_text() {
        let id = "0123456789ABCDEF0123456789ABCDEF";
        let guid = "0a8a6a1c-0000-4000-8000-000000000001";
        let found = |text: &str| names_any(text, |word| word == id || word == guid);
        for text in [
            id,
            guid,
            &format!("x{id}"),
            &format!("{{\\\"a\\\":\\\"{id}\\\"}}"),
            &format!("é{guid}é{id}"),
            &format!("{id}x"),
            &format!("{id}0"),
            &format!("0{id}"),
            &with_ascii_escapes_read(&format!("\\ud800 \\u0030{}", &id[1..])),
        ] {
            assert!(found(text), "{text}");
        }
        for text in ["", "0123", &id[1..], &"z".repeat(100)] {
            assert!(!found(text), "{text}");
        }
    }

    #[test]
    fn a_value_where_a_list_should_be_is_checked_too() {
        assert_eq!(values_at(&json!({"files": "x"}), "files[]"), [&json!("x")]);
    }
}
