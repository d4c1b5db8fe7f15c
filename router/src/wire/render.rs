//! Messages as text. Method names come from the table and ids from us or from Chromium, so only free text is escaped.

use std::fmt::Write;

/// A command to the browser. `params` must be a JSON object.
pub fn render_command(id: i32, method: &str, session: Option<&str>, params: &str) -> String {
    let mut text = String::with_capacity(params.len() + method.len() + 96);
    let _ = write!(text, r#"{{"id":{id},"method":"{method}","params":{params}"#);
    close(text, session)
}

pub fn render_result(id: i32, session: Option<&str>, result: &str) -> String {
    let mut text = String::with_capacity(result.len() + 80);
    let _ = write!(text, r#"{{"id":{id},"result":{result}"#);
    close(text, session)
}

/// `error` must be a JSON object with `code` and `message`. Without an id only where Chromium answers without one.
pub fn render_error(id: Option<i32>, session: Option<&str>, error: &str) -> String {
    let mut text = String::with_capacity(error.len() + 80);
    text.push('{');
    if let Some(id) = id {
        let _ = write!(text, r#""id":{id},"#);
    }
    let _ = write!(text, r#""error":{error}"#);
    close(text, session)
}

pub fn render_event(method: &str, session: Option<&str>, params: &str) -> String {
    let mut text = String::with_capacity(params.len() + method.len() + 80);
    let _ = write!(text, r#"{{"method":"{method}","params":{params}"#);
    close(text, session)
}

fn close(mut text: String, session: Option<&str>) -> String {
    match session {
        Some(session) => {
            let _ = write!(text, r#","sessionId":"{session}"}}"#);
        }
        None => text.push('}'),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_command;

    #[test]
    fn what_is_rendered_parses_to_the_same() {
        let text = render_command(7, "Page.navigate", Some("S"), r#"{"url":"a\"b"}"#);
        let command = parse_command(&text).unwrap();
        assert_eq!((command.id, &*command.method, command.session.as_deref()), (7, "Page.navigate", Some("S")));
        assert_eq!(command.params.unwrap().get(), r#"{"url":"a\"b"}"#);
    }
}
