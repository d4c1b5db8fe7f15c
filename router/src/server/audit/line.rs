//! One decision → one line of JSON.

use std::borrow::Cow;

use serde::Serialize;
use url::Url;

use crate::engine::io::Audit;
use crate::server::time;

/// URLs may have megabytes, and what tells them apart stands at their beginning.
const MAX_OBJECT: usize = 2048;
/// A client may call a method what it likes.
const MAX_METHOD: usize = 128;
const MAX_REASON: usize = 2048;

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    task: &'a str,
    client: Option<u64>,
    /// `null`: a load that no command asked for.
    method: Option<Cow<'a, str>>,
    verb: Option<&'static str>,
    object: Cow<'a, str>,
    verdict: &'static str,
    enforced: bool,
    rule: Rule<'a>,
    reason: Cow<'a, str>,
    policy_hash: &'a str,
}

#[derive(Serialize)]
struct Rule<'a> {
    id: &'a str,
    file: &'a str,
    line: u32,
}

/// Without the line feed. `queries`: addresses keep their query and fragment.
pub fn render(audit: &Audit, ms: u64, queries: bool) -> Result<String, serde_json::Error> {
    let line = Line {
        time: time::rfc3339_ms(ms),
        id: &audit.id,
        task: &audit.task_name,
        client: audit.client.map(|client| client.0),
        method: (!audit.method.is_empty()).then(|| cut((&audit.method).into(), MAX_METHOD)),
        verb: audit.verb.map(policy::Verb::as_str),
        object: cut(object(&audit.object, queries), MAX_OBJECT),
        verdict: audit.verdict.as_str(),
        enforced: audit.enforced,
        rule: Rule { id: &audit.rule.id, file: &audit.rule.file, line: audit.rule.line },
        reason: cut(reason(&audit.reason, queries), MAX_REASON),
        policy_hash: &audit.policy_hash,
    };
    Ok(escape(serde_json::to_string(&line)?))
}

/// JSON escapes the control characters of ASCII only. The others, line separators and those that turn the direction of
/// writing would let a page choose what a person reads in a terminal. They can only stand inside of strings.
pub fn escape(json: String) -> String {
    if !json.contains(is_unprintable) {
        return json;
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_unprintable(c) {
            let mut units = [0; 2];
            text.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether a terminal or an editor could take the character for something else than a letter.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn cut(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text;
    }
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= most).last().unwrap_or_default();
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

/// An address as it may be kept. Passwords never are; a query is often one, and the inside of `data:` is page content.
fn object(text: &str, queries: bool) -> Cow<'_, str> {
    let Ok(mut url) = Url::parse(text) else { return unreadable(text, queries) };
    // Fails for what has no host, and that has no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if !queries {
        if matches!(url.scheme(), "data" | "javascript") {
            return Cow::Owned(format!("{}:…", url.scheme()));
        }
        url.set_query(None);
        url.set_fragment(None);
    }
    Cow::Owned(url.into())
}

/// What is no URL: a path of this machine, a name, or an address that nobody understood.
fn unreadable(text: &str, queries: bool) -> Cow<'_, str> {
    if text.starts_with('/') {
        return Cow::Borrowed(text);
    }
    let text = match text.find(['?', '#']).filter(|_| !queries) {
        Some(end) => text.get(..end).unwrap_or_default(),
        None => text,
    };
    let Some((scheme, rest)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let authority = rest.split(['/', '\\']).next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => Cow::Owned(format!("{scheme}://{}", rest.get(user.len() + 1..).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// A reason may quote the address of the document that something is judged by.
fn reason(text: &str, queries: bool) -> Cow<'_, str> {
    let is_address = |word: &str| word.contains("://") || word.starts_with("data:") || word.starts_with("javascript:");
    if queries || !text.split(' ').any(is_address) {
        return Cow::Borrowed(text);
    }
    let words = text.split(' ').map(|word| if is_address(word) { object(word, false) } else { word.into() });
    Cow::Owned(words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::audit::tests::denied;

    #[test]
    fn a_line_has_every_field_and_nothing_can_break_it() {
        let mut audit = denied("a-1", "https://x.test/\u{2028}\u{85}\u{7f}\u{202e}");
        audit.reason = "one\ntwo\r\u{1b}[31m\u{2029}three\u{e0041}".into();
        audit.method = "Page.\nnavigate".into();
        let line = render(&audit, 1_709_164_799_007, false).unwrap();
        assert!(!line.contains(is_unprintable), "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["reason"], "one\ntwo\r\u{1b}[31m\u{2029}three\u{e0041}", "nothing is lost");
        let expected = serde_json::json!({
            "time": "2024-02-28T23:59:59.007Z", "id": "a-1", "task": "one", "client": 3, "method": "Page.\nnavigate",
            "verb": "navigate", "object": value["object"], "verdict": "deny", "enforced": true,
            "rule": {"id": "no", "file": "p.toml", "line": 4}, "reason": value["reason"], "policy_hash": "sha256:00"
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn secrets_of_addresses_are_not_kept() {
        for (given, kept) in [
            ("https://u:p@x.test/a?token=1#f", "https://x.test/a"),
            ("data:text/html,secret?x", "data:…"),
            ("javascript:secret()", "javascript:…"),
            ("view-source:https://x.test/a?token=1", "view-source:https://x.test/a"),
            ("blob:https://x.test/0b6e", "blob:https://x.test/0b6e"),
            ("http://u:p@[x/a?token=1", "http://[x/a"),
            ("about:blank#secret", "about:blank"),
            ("/srv/a?b#c", "/srv/a?b#c"),
            ("session of ?x", "session of "),
        ] {
            assert_eq!(object(given, false), kept, "{given}");
        }
        assert_eq!(object("https://u:p@x.test/a?q#f", true), "https://x.test/a?q#f");
        assert_eq!(
            reason("a `data:` document is judged as https://x.test/?token=1, which made it", false),
            "a `data:` document is judged as https://x.test/ which made it"
        );
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let long = cut("é".repeat(2000).into(), MAX_OBJECT);
        assert!(long.len() <= MAX_OBJECT + "…".len() && long.ends_with("é…"));
        assert_eq!(cut("é".into(), 2), "é");
        assert_eq!(cut("éé".into(), 3), "é…");
    }
}
