//! `GET /tasks/NAME/explain?verb=&url=&from=&method=`: what the policies in force say of one question, and why.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::{TaskName, invalid, no_such_task};
use crate::server::explain::{self, Asked};
use crate::server::handle::Handle;
use crate::server::refusal::{self, ApiRefusal};

pub async fn explain(
    State(handle): State<Handle>,
    TaskName(name): TaskName,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let asked = asked(query.as_deref().unwrap_or_default()).map_err(invalid)?;
    let Some(task) = handle.shared.registry.id_of(&name) else { return Err(no_such_task()) };
    let found = handle.shared.registry.each(|id, entry| (id == task).then(|| entry.policy.policies.clone()));
    let Some(policies) = found.into_iter().flatten().next() else { return Err(no_such_task()) };
    let explained = explain::explain(&policies, &asked).map_err(invalid)?;
    let mut answer = explained.json;
    answer["text"] = explained.text.into();
    Ok(refusal::json(StatusCode::OK, &answer))
}

fn asked(query: &str) -> Result<Asked, &'static str> {
    let (mut verb, mut url, mut from, mut method) = (None, None, None, None);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let place = match &*key {
            "verb" => &mut verb,
            "url" => &mut url,
            "from" => &mut from,
            "method" => &mut method,
            _ => return Err("The queries here are verb, url, from and method; leave the rest out."),
        };
        if place.replace(value.into_owned()).is_some() {
            return Err("Each of verb, url, from and method can be given once.");
        }
    }
    match (verb, url) {
        (Some(verb), Some(url)) => Ok(Asked { verb, url, from, method }),
        _ => Err("Both verb and url are needed, for example ?verb=navigate&url=https://example.com/."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_verb_and_a_url_and_each_is_asked_once() {
        let asked_of = asked("verb=navigate&url=https%3A%2F%2Fa.test%2F%3Fx%3D1&method=POST").unwrap();
        assert_eq!((asked_of.verb.as_str(), asked_of.url.as_str()), ("navigate", "https://a.test/?x=1"));
        assert_eq!((asked_of.from, asked_of.method.as_deref()), (None, Some("POST")));
        for bad in ["", "verb=navigate", "url=x", "verb=a&verb=b&url=x", "verb=a&url=x&other=1"] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }
}
