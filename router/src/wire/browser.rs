//! A frame of Chromium's. Its serializer is trusted to write JSON, but not to write what we expect: whatever does not
//! read as a message is [`Garbage`] and goes nowhere.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug)]
pub enum BrowserMessage<'a> {
    Response { id: i32, session: Option<Cow<'a, str>>, outcome: Outcome<'a> },
    Event { method: Cow<'a, str>, session: Option<Cow<'a, str>>, params: Option<&'a RawValue> },
}

#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    Result(&'a RawValue),
    /// The whole error object, `code`, `message` and perhaps `data`.
    Error(&'a RawValue),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Garbage {
    pub reason: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<i32>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "sessionId")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

pub fn parse_browser_message(text: &str) -> Result<BrowserMessage<'_>, Garbage> {
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| Garbage { reason: format!("not a protocol message: {error}") })?;
    match envelope {
        Envelope { id: Some(id), error: Some(error), session, .. } => {
            Ok(BrowserMessage::Response { id, session, outcome: Outcome::Error(error) })
        }
        Envelope { id: Some(id), result: Some(result), session, .. } => {
            Ok(BrowserMessage::Response { id, session, outcome: Outcome::Result(result) })
        }
        Envelope { id: None, method: Some(method), session, params, .. } => {
            Ok(BrowserMessage::Event { method, session, params })
        }
        _ => Err(Garbage { reason: "neither a response nor an event".to_owned() }),
    }
}

/// Params or a result of the browser's, `Null` where there are none or they cannot be read. Titles and the like come with lone
/// surrogates, because a page may make them.
pub fn value_of(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| super::read_lossy(raw.get()).ok()).unwrap_or_default()
}

impl Outcome<'_> {
    /// The result; `Null` for an error.
    pub fn result(&self) -> Value {
        match self {
            Outcome::Result(result) => value_of(Some(result)),
            Outcome::Error(_) => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_errors_and_events_are_told_apart() {
        assert!(matches!(
            parse_browser_message(r#"{"id":1,"result":{},"sessionId":"S"}"#).unwrap(),
            BrowserMessage::Response { id: 1, session: Some(_), outcome: Outcome::Result(_) }
        ));
        assert!(matches!(
            parse_browser_message(r#"{"id":1,"error":{"code":-1,"message":"x"}}"#).unwrap(),
            BrowserMessage::Response { id: 1, session: None, outcome: Outcome::Error(_) }
        ));
        assert!(matches!(
            parse_browser_message(r#"{"method":"A.b","params":{}}"#).unwrap(),
            BrowserMessage::Event { .. }
        ));
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        for text in [
            "",
            "{",
            "null",
            "[]",
            "{}",
            "{\"id\":1}",
            "{\"id\":\"x\",\"result\":{}}",
            "{\"id\":99999999999,\"result\":{}}",
        ] {
            assert!(parse_browser_message(text).is_err(), "{text}");
        }
    }
}
