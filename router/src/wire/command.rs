//! A client's frame, read as strictly as Chromium reads it: what Chromium would refuse is refused here with its words, and
//! what it reads differently from other parsers (duplicate keys, big ids) never gets through.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A command of a client's. `params` is valid JSON and an object when it is there.
#[derive(Debug)]
pub struct Command<'a> {
    pub id: i32,
    pub method: Cow<'a, str>,
    pub session: Option<Cow<'a, str>>,
    pub params: Option<&'a RawValue>,
}

/// Why a frame is no command. `id` is known for some kinds only, as in Chromium, whose words these are.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed {
    pub id: Option<i32>,
    pub code: i32,
    pub message: String,
}

#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    session: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    stranger: bool,
    duplicate: bool,
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            let value = map.next_value::<&'de RawValue>()?;
            let slot = match &*key.0 {
                "id" => &mut envelope.id,
                "method" => &mut envelope.method,
                "sessionId" => &mut envelope.session,
                "params" => &mut envelope.params,
                _ => {
                    envelope.stranger = true;
                    continue;
                }
            };
            // Chromium refuses the whole message; which of the two it would have taken must never matter.
            match slot {
                Some(_) => envelope.duplicate = true,
                None => *slot = Some(value),
            }
        }
        Ok(envelope)
    }
}

/// A key, borrowed unless it has escapes (`"\u0069d"` is `id` to Chromium too).
struct Key<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Key<'de>, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    // Most strings have no escapes and can be borrowed as they stand.
    if let Some(inner) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        return serde_json::from_str::<String>(text).ok().map(Cow::Owned);
    }
    None
}

/// An int32; Chromium also takes `11.0`, and nothing larger, no string and no fraction.
fn integer(raw: &RawValue) -> Option<i32> {
    let text = raw.get();
    if let Ok(number) = text.parse::<i32>() {
        return Some(number);
    }
    let number = text.parse::<f64>().ok()?;
    let within = number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX);
    (within && number.fract() == 0.0).then_some(number as i32)
}

pub fn parse_command(text: &str) -> Result<Command<'_>, Malformed> {
    let invalid = |id, message: &str| Malformed { id, code: -32600, message: message.to_owned() };
    let not_json = |error: serde_json::Error| Malformed { id: None, code: -32700, message: format!("JSON: {error}") };

    let first = text.trim_start_matches([' ', '\t', '\r', '\n']).as_bytes().first();
    if first != Some(&b'{') {
        serde_json::from_str::<&RawValue>(text).map_err(not_json)?;
        return Err(invalid(None, "Message must be an object"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let envelope = deserializer
        .deserialize_map(EnvelopeVisitor)
        .and_then(|envelope| deserializer.end().map(|()| envelope))
        .map_err(not_json)?;

    let id = envelope.id.and_then(integer);
    if envelope.duplicate {
        return Err(not_json(serde_json::Error::custom("duplicate map key")).with_id(id));
    }
    let Some(id) = id else {
        return Err(invalid(None, "Message must have integer 'id' property"));
    };
    let method = envelope
        .method
        .and_then(string)
        .filter(|method| !method.is_empty())
        .ok_or_else(|| invalid(Some(id), "Message must have string 'method' property"))?;
    let session = match envelope.session {
        None => None,
        Some(raw) => {
            Some(string(raw).ok_or_else(|| invalid(Some(id), "Message may have string 'sessionId' property"))?)
        }
    };
    if envelope.stranger {
        return Err(invalid(Some(id), "Message has property other than 'id', 'method', 'sessionId', 'params'"));
    }
    let params = envelope.params.filter(|params| params.get() != "null");
    if params.is_some_and(|params| !params.get().starts_with('{')) {
        return Err(Malformed { id: Some(id), code: -32602, message: "Invalid parameters".to_owned() });
    }
    if let Some(what) = params.and_then(|params| unreadable(params.get())) {
        return Err(Malformed { id: Some(id), code: -32700, message: format!("JSON: {what}") });
    }
    // An empty session id is the root, as in Chromium.
    let session = session.filter(|session| !session.is_empty());
    Ok(Command { id, method, session, params })
}

/// Chromium gives up at 300 levels and at numbers beyond a double, and then answers without the id: its client would wait
/// for ever. (Nesting is cut well before, where our own parser's limit is.)
const DEEPEST: usize = 100;

fn unreadable(params: &str) -> Option<&'static str> {
    let bytes = params.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > DEEPEST {
                    return Some("stack limit exceeded");
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
                let end = bytes[at..].iter().position(|byte| !number(byte)).map_or(bytes.len(), |end| at + end);
                if params[at..end].parse::<f64>().is_ok_and(f64::is_infinite) {
                    return Some("invalid number");
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Params as a value. A lone surrogate, which Chromium accepts and no Rust string can hold, becomes U+FFFD.
pub fn read_lossy(text: &str) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| match text.contains("\\u") {
        true => serde_json::from_str(&without_lone_surrogates(text)),
        false => Err(error),
    })
}

fn without_lone_surrogates(text: &str) -> String {
    let code = |at: usize| {
        let digits = text.get(at + 2..at + 6).filter(|_| text[at..].starts_with("\\u"))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut read = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let escape = at + found;
        read.push_str(&text[at..escape]);
        let (width, lone) = match code(escape) {
            Some(0xD800..=0xDBFF) if matches!(code(escape + 6), Some(0xDC00..=0xDFFF)) => (12, false),
            Some(0xD800..=0xDFFF) => (6, true),
            Some(_) => (6, false),
            None => (2, false),
        };
        let end = (escape + width).min(text.len());
        match (lone, text.get(escape..end)) {
            (false, Some(whole)) => read.push_str(whole),
            _ => read.push_str("\\ufffd"),
        }
        at = end;
    }
    read.push_str(text.get(at..).unwrap_or_default());
    read
}

impl Malformed {
    fn with_id(mut self, id: Option<i32>) -> Malformed {
        self.id = id;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (Option<i32>, i32, String) {
        let malformed = parse_command(text).unwrap_err();
        (malformed.id, malformed.code, malformed.message)
    }

    #[test]
    fn a_command_is_its_parts() {
        let command =
            parse_command(r#" {"id":7,"sessionId":"S1","method":"Page.navigate","params":{"url":"x"}} "#).unwrap();
        assert_eq!((command.id, &*command.method, command.session.as_deref()), (7, "Page.navigate", Some("S1")));
        assert_eq!(command.params.unwrap().get(), r#"{"url":"x"}"#);
    }

    #[test]
    fn ids_are_read_as_chromium_reads_them() {
        assert_eq!(parse_command(r#"{"id":11.0,"method":"X.y"}"#).unwrap().id, 11);
        assert_eq!(parse_command(r#"{"id":-3,"method":"X.y"}"#).unwrap().id, -3);
        for id in ["\"a\"", "3000000000", "1.5", "null", "[]", "1e99"] {
            let (id, code, message) = error(&format!(r#"{{"id":{id},"method":"X.y"}}"#));
            assert_eq!((id, code, message.as_str()), (None, -32600, "Message must have integer 'id' property"));
        }
    }

    #[test]
    fn what_chromium_refuses_is_refused_in_its_words() {
        let table = [
            ("[]", None, -32600, "Message must be an object"),
            ("\"x\"", None, -32600, "Message must be an object"),
            ("{}", None, -32600, "Message must have integer 'id' property"),
            (r#"{"id":1}"#, Some(1), -32600, "Message must have string 'method' property"),
            (r#"{"id":1,"method":""}"#, Some(1), -32600, "Message must have string 'method' property"),
            (r#"{"id":5,"method":3}"#, Some(5), -32600, "Message must have string 'method' property"),
            (
                r#"{"id":7,"method":"X.y","sessionId":5}"#,
                Some(7),
                -32600,
                "Message may have string 'sessionId' property",
            ),
            (
                r#"{"id":9,"method":"X.y","jsonrpc":"2.0"}"#,
                Some(9),
                -32600,
                "Message has property other than 'id', 'method', 'sessionId', 'params'",
            ),
            (r#"{"id":6,"method":"X.y","params":[]}"#, Some(6), -32602, "Invalid parameters"),
        ];
        for (text, id, code, message) in table {
            assert_eq!(error(text), (id, code, message.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        for text in
            ["", "{", "{\"id\":1,}", "{\"id\":1}x", "/**/{\"id\":1}", "{\"id\":NaN}", "\u{feff}{\"id\":1}", "nul"]
        {
            assert_eq!(error(text).1, -32700, "{text:?}");
        }
    }

    #[test]
    fn what_chromium_would_never_answer_is_answered_here() {
        let deep = format!(r#"{{"id":1,"method":"X.y","params":{{"a":{}{}}}}}"#, "[".repeat(400), "]".repeat(400));
        assert_eq!(error(&deep), (Some(1), -32700, "JSON: stack limit exceeded".to_owned()));
        let huge = r#"{"id":1,"method":"X.y","params":{"a":1e999}}"#;
        assert_eq!(error(huge), (Some(1), -32700, "JSON: invalid number".to_owned()));
        let text = r#"{"id":1,"method":"X.y","params":{"a":"[[[1e999","b":-1.5e3}}"#;
        assert!(parse_command(text).is_ok());
    }

    #[test]
    fn a_lone_surrogate_is_read_as_a_replacement() {
        let read = |text: &str| read_lossy(text).unwrap()["a"].as_str().unwrap().to_owned();
        assert_eq!(read(r#"{"a":"x\ud800y"}"#), "x\u{fffd}y");
        assert_eq!(read(r#"{"a":"\ud83d\ude00\\ud800"}"#), "\u{1f600}\\ud800");
        assert_eq!(read(r#"{"a":"\udc00\ud800\n\u0041é"}"#), "\u{fffd}\u{fffd}\nAé");
        assert!(read_lossy(r#"{"a":"\u"#).is_err());
    }

    #[test]
    fn duplicate_envelope_keys_are_refused_however_they_are_spelt() {
        assert_eq!(error(r#"{"id":1,"id":2,"method":"X.y"}"#).1, -32700);
        assert_eq!(error(r#"{"id":1,"method":"X.y","\u006dethod":"Browser.close"}"#).1, -32700);
    }
}
