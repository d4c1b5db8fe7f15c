//! The API against its own document: each route and field that it names is there, and no other.

use serde_json::{Value, json};

use super::*;
use crate::server::api::{OPENAPI, table};
use crate::server::task_files::Finished;

pub(super) async fn call(world: &World, method: &str, path: &str, body_text: &str) -> (u16, Value) {
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body_text}",
        world.port,
        world.admin.reveal(),
        body_text.len()
    );
    let answer = world.raw(&request).await;
    (status(&answer), serde_json::from_str(body(&answer)).unwrap_or_default())
}

/// Checks value against schema, as far as this document goes: no field may be missing, and none be unknown.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        return check(document, &document.pointer(&reference[1..]).unwrap().clone(), value, at);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let option = options.iter().find(|option| (option["type"] == "null") == value.is_null()).unwrap();
        return check(document, option, value, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits =
        schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind));
    assert!(fits, "{at}: {kind} instead of {}", schema["type"]);
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(allowed.contains(value), "{at}: {value}");
    }
    for item in value.as_array().into_iter().flatten() {
        check(document, &schema["items"], item, &format!("{at}[]"));
    }
    if let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(fields.contains_key(required.as_str().unwrap()), "{at} lacks {required}");
        }
        for (name, field) in fields {
            let inner = properties.get(name).unwrap_or_else(|| panic!("{at}.{name} is not in the document"));
            check(document, inner, field, &format!("{at}.{name}"));
        }
    }
}

fn check_answer(document: &Value, path: &str, method: &str, answer: &(u16, Value)) {
    let response = &document["paths"][path][method]["responses"][answer.0.to_string()];
    assert!(response.is_object(), "{method} {path} → {} is not in the document: {}", answer.0, answer.1);
    let schema = &response["content"]["application/json"]["schema"];
    match schema {
        Value::Null => assert_eq!(answer.1, Value::Null),
        schema => check(document, schema, &answer.1, &format!("{method} {path}")),
    }
}

#[test]
fn every_route_of_the_document_answers_with_its_fields() {
    with_world(settings(), |world| async move {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let everything = r#"{"name":"two","context":"shared","policy":"open","idle_ttl_s":60,"labels":{"a":"b"},"open":"https://x.test/","allow":{"hosts":["x.test"],"sites":[]}}"#;
        let sent: Value = serde_json::from_str(everything).unwrap();
        check(&document, &json!({"$ref": "#/components/schemas/TaskRequest"}), &sent, "request");
        let properties = document["components"]["schemas"]["TaskRequest"]["properties"].as_object().unwrap();
        assert_eq!(properties.len(), sent.as_object().unwrap().len(), "the request above names every field");
        let file = tempfile::NamedTempFile::new().unwrap();
        let finished = Finished { path: file.path().to_owned(), suggested: "x".into() };
        world.handle.shared.files.finish("two", "guid", finished);
        super::audit::decide(&world, &["a-1"]).await;
        let calls = [
            ("post", "/tasks", "/tasks", everything, 201),
            ("post", "/tasks", "/tasks", "", 201),
            ("post", "/tasks", "/tasks", everything, 409),
            ("post", "/tasks", "/tasks", "{", 400),
            ("get", "/tasks", "/tasks", "", 200),
            ("get", "/tasks/{name}", "/tasks/two", "", 200),
            ("get", "/tasks/{name}", "/tasks/none", "", 404),
            ("get", "/tasks/{name}/decisions", "/tasks/one/decisions", "", 200),
            ("get", "/tasks/{name}/decisions", "/tasks/one/decisions?since=a-2", "", 200),
            ("get", "/tasks/{name}/decisions", "/tasks/one/decisions?since=1h", "", 400),
            ("get", "/tasks/{name}/decisions", "/tasks/none/decisions", "", 404),
            ("post", "/tasks/{name}/token", "/tasks/two/token", "", 200),
            ("post", "/tasks/{name}/token", "/tasks/none/token", "", 404),
            ("get", "/tasks/{name}/files/{guid}", "/tasks/two/files/guid", "", 200),
            ("get", "/tasks/{name}/files/{guid}", "/tasks/two/files/none", "", 404),
            ("get", "/tasks/{name}/files/{guid}", "/tasks/none/files/guid", "", 404),
            ("delete", "/tasks/{name}", "/tasks/two?keep_pages=true", "", 204),
            ("get", "/tasks/{name}/files/{guid}", "/tasks/two/files/guid", "", 404),
            ("delete", "/tasks/{name}", "/tasks/two", "", 204),
            ("delete", "/tasks/{name}", "/tasks/two?x", "", 400),
            ("get", "/status", "/status", "", 200),
            ("post", "/reload", "/reload", "", 200),
            ("get", "/tasks/{name}/explain", "/tasks/one/explain?verb=navigate&url=https://x.test/", "", 200),
            ("get", "/tasks/{name}/explain", "/tasks/one/explain?verb=stare&url=x", "", 400),
            ("get", "/openapi.json", "/openapi.json", "", 200),
        ];
        for (method, path, real, sent, expected) in calls {
            let answer = call(&world, &method.to_uppercase(), real, sent).await;
            assert_eq!(answer.0, expected, "{method} {real}: {}", answer.1);
            check_answer(&document, path, method, &answer);
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                assert!(calls.iter().any(|call| call.0 == method && call.1 == path), "{method} {path} was not tried");
            }
        }
    });
}

#[test]
fn every_route_stands_in_the_document_with_its_methods_and_no_others() {
    with_world(settings(), |world| async move {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let documented: Vec<&str> = document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut served = table().map(|(path, _)| path);
        served.sort_unstable();
        assert_eq!(served.as_slice(), documented);
        for path in served {
            for method in ["get", "post", "put", "patch", "delete", "options", "trace"] {
                let real = path.replace("{name}", "none").replace("{guid}", "none");
                for real in [real.clone(), format!("{real}/")] {
                    let (code, _) = call(&world, &method.to_uppercase(), &real, "").await;
                    assert_eq!(code == 405, document["paths"][path][method].is_null(), "{method} {real}: {code}");
                }
            }
        }
    });
}

#[test]
fn a_new_task_is_told_where_it_is_and_the_token_opens_it() {
    with_world(settings(), |world| async move {
        let (code, task) = call(&world, "POST", "/tasks", r#"{"name":"two"}"#).await;
        assert_eq!(
            (code, &task["state"], &task["context"], &task["idle_ttl_s"]),
            (201, &json!("active"), &json!("isolated"), &json!(3600))
        );
        let token = task["token"].as_str().unwrap();
        assert_eq!(task["http_url"], format!("http://127.0.0.1:{}/t/{token}", world.port));
        assert_eq!(task["ws_url"], format!("ws://127.0.0.1:{}/t/{token}/devtools/browser/tabwarden", world.port));
        assert!(task["note"].as_str().unwrap().contains("without the profile's logins"));
        assert_eq!(status(&world.get(&format!("/t/{token}/json/version")).await), 200);
        let (_, forever) = call(&world, "POST", "/tasks", r#"{"idle_ttl_s":null,"context":"shared"}"#).await;
        assert_eq!((&forever["expires_at"], &forever["note"]), (&Value::Null, &Value::Null));
    });
}

#[test]
fn what_is_not_understood_is_refused_with_a_sentence() {
    with_world(settings(), |world| async move {
        for wrong in [
            r#"{"nam":"x"}"#,
            r#"{"name":"../x"}"#,
            r#"{"name":""}"#,
            r#"{"name":1}"#,
            r#"{"context":"other"}"#,
            r#"{"policy":"../default"}"#,
            r#"{"policy":"/etc/passwd"}"#,
            r#"{"policy":"default.toml"}"#,
            r#"{"policy":"missing"}"#,
            r#"{"allow":{}}"#,
            r#"{"allow":{"hosts":["https://x.test/"]}}"#,
            r#"{"allow":{"sites":["co.uk"]}}"#,
            r#"{"allow":{"host":["x.test"]}}"#,
            r#"{"idle_ttl_s":0}"#,
            r#"{"idle_ttl_s":-1}"#,
            r#"{"idle_ttl_s":1e30}"#,
            r#"{"idle_ttl_s":18446744073709551615}"#,
            r#"{"labels":{"a":1}}"#,
            "[]",
            "null",
            "\u{0}",
        ] {
            let (code, answer) = call(&world, "POST", "/tasks", wrong).await;
            assert_eq!((code, &answer["error"]["code"]), (400, &json!("invalid")), "{wrong}");
            assert!(answer["error"]["message"].as_str().unwrap().len() > 20, "{answer}");
        }
        let (code, answer) = call(&world, "POST", "/tasks", &format!("\"{}\"", "x".repeat(70 << 10))).await;
        assert_eq!(code, 400, "{answer}");
        for (method, path, expected) in [
            ("PUT", "/tasks", 405),
            ("POST", "/status", 405),
            ("GET", "/nothing", 404),
            ("GET", "/tasks/a/b/c", 404),
            ("GET", "/tasks/%ff", 404),
            ("DELETE", "/tasks/%ff", 204),
            ("GET", "", 404),
        ] {
            assert_eq!(call(&world, method, path, "").await.0, expected, "{method} {path}");
        }
    });
}

#[test]
fn while_the_browser_is_awaited_tasks_are_unavailable_and_status_says_why() {
    with_world(settings(), |world| async move {
        world.handle.set_waiting("waiting for your approval in Chrome");
        assert_eq!(call(&world, "POST", "/tasks", "").await.0, 503);
        let (code, answer) = call(&world, "GET", "/status", "").await;
        assert_eq!(
            (code, &answer["state"], &answer["note"]),
            (200, &json!("waiting"), &json!("waiting for your approval in Chrome"))
        );
    });
}

#[test]
fn a_download_is_served_as_an_attachment_to_the_admin_and_to_its_task_only() {
    with_world(settings(), |world| async move {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "<script>alert(1)</script>").unwrap();
        let files = &world.handle.shared.files;
        files.finish("one", "guid", Finished { path: path.clone(), suggested: "ü.html".into() });
        files.finish("two", "other", Finished { path: path.clone(), suggested: "x".into() });
        let answer = world.get(&world.path("/files/guid")).await;
        assert_eq!((status(&answer), body(&answer)), (200, "<script>alert(1)</script>"));
        for header in [
            "content-type: application/octet-stream",
            "x-content-type-options: nosniff",
            "content-security-policy: sandbox; default-src 'none'",
            "content-disposition: attachment; filename=\"_.html\"; filename*=utf-8''%c3%bc.html",
            "cache-control: no-store",
        ] {
            assert!(answer.to_ascii_lowercase().contains(header), "{header} is not in {answer}");
        }
        // Another task's, one that is not there, and paths that would lead elsewhere.
        for path in ["other", "none", "..%2f..%2fetc%2fpasswd", "%ff", "", "guid/x"] {
            assert_eq!(status(&world.get(&world.path(&format!("/files/{path}"))).await), 404, "{path}");
        }
        assert_eq!(status(&world.get("/api/v1/tasks/one/files/guid").await), 401);
        assert_eq!(call(&world, "GET", "/tasks/one/files/guid", "").await.0, 200);
        assert_eq!(call(&world, "GET", "/tasks/one/files/other", "").await.0, 404);
        // Something else in its place is not served.
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(status(&world.get(&world.path("/files/guid")).await), 404);
    });
}
