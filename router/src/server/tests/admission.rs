//! The front door, byte by byte: what a library would tidy up must be refused as it was sent.

use super::*;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn every_route(world: &World) -> Vec<(&'static str, String, String)> {
    let admin = format!("Authorization: Bearer {}\r\n", world.admin.reveal());
    let mut routes = vec![
        ("GET", "/".to_owned(), String::new()),
        ("GET", "/healthz".to_owned(), String::new()),
        ("GET", "/readyz".to_owned(), String::new()),
        ("GET", "/json/version".to_owned(), format!("Authorization: Bearer {}\r\n", world.token.reveal())),
        ("GET", "/api/v1/status".to_owned(), admin.clone()),
        ("GET", "/api/v1/openapi.json".to_owned(), admin.clone()),
        ("POST", "/api/v1/tasks".to_owned(), admin),
    ];
    for rest in ["/json/version", "/json/version/", "/json/list", "/json"] {
        routes.push(("GET", world.path(rest), String::new()));
    }
    routes.push(("GET", world.path("/devtools/browser/x"), UPGRADE.to_owned()));
    routes
}

#[test]
fn a_wrong_host_is_refused_on_every_route_with_a_valid_token() {
    with_world(settings(), |world| async move {
        for (method, path, headers) in every_route(&world) {
            for host in [
                "evil.test:9333",
                "127.0.0.1.evil.test",
                "localhost.evil.test",
                "",
                "localhost.",
                "EVIL.TEST",
                "LOCALHOST",
                "0x7f.1",
                "user@localhost",
                "localhost, evil.test",
            ] {
                let answer = world.raw(&format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")).await;
                assert_eq!(status(&answer), 403, "{path} {host:?}: {answer}");
            }
        }
    });
}

#[test]
fn two_hosts_no_host_and_a_whole_url_are_refused_on_every_route() {
    with_world(settings(), |world| async move {
        for (method, path, headers) in every_route(&world) {
            for request in [
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n{headers}\r\n"),
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n{headers}\r\n"),
                format!("{method} {path} HTTP/1.1\r\n{headers}\r\n"),
                format!("{method} {path} HTTP/1.0\r\n{headers}\r\n"),
                format!("{method} http://localhost{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"),
                format!("{method} http://evil.test{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"),
                format!("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"),
            ] {
                let answer = world.raw(&request).await;
                assert_eq!(status(&answer), 403, "{request}{answer}");
            }
        }
    });
}

#[test]
fn any_origin_is_refused_on_every_route_with_a_valid_token() {
    with_world(settings(), |world| async move {
        for (method, path, headers) in every_route(&world) {
            for origin in [
                "https://evil.test",
                "null",
                "file://",
                "http://localhost",
                "chrome-extension://abc",
                "",
                "https://app.example.evil.test",
                "https://app.example\r\nOrigin: https://app.example",
            ] {
                let answer = world
                    .raw(&format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n{headers}\r\n"))
                    .await;
                assert_eq!(status(&answer), 403, "{path} {origin:?}: {answer}");
                assert!(!answer.to_ascii_lowercase().contains("access-control"), "{answer}");
            }
        }
    });
}

#[test]
fn good_hosts_and_allowed_origins_come_in() {
    with_world(settings(), |world| async move {
        for host in ["127.0.0.1", "localhost:1", "a.localhost", "[::1]:9333", "192.168.0.1:80", "tabs.example"] {
            let answer =
                world.raw(&format!("GET {} HTTP/1.1\r\nHost: {host}\r\n\r\n", world.path("/json/version"))).await;
            assert_eq!(status(&answer), 200, "{host}: {answer}");
            let socket = format!("\"webSocketDebuggerUrl\":\"ws://{host}{}", world.path("/devtools/browser/"));
            assert!(body(&answer).contains(&socket), "{answer}");
        }
        let path = world.path("/devtools/browser/x");
        let answer = world
            .raw(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n{UPGRADE}\r\n"))
            .await;
        assert_eq!(status(&answer), 101, "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("extensions"), "{answer}");
    });
}

#[test]
fn without_a_token_there_is_nothing_and_with_a_wrong_one_no_entry() {
    with_world(settings(), |world| async move {
        for path in
            ["/", "/json/version", "/json", "/json/list", "/devtools/browser/x", "/devtools/browser", "/t", "/x"]
        {
            let answer = world.get(path).await;
            assert_eq!(status(&answer), 404, "{path}: {answer}");
            assert_eq!(body(&answer), "Nothing is here.");
        }
        let wrong = "0".repeat(32);
        for path in [
            format!("/t/{wrong}/json/version"),
            "/t//json/version".into(),
            "/t/../json".into(),
            format!("/t/{}/json/version", world.admin.reveal()),
            format!("/t/{}x/json", world.token.reveal()),
            format!("/t/{wrong}"),
            format!("/t/{wrong}/"),
            format!("/t/{wrong}/healthz"),
            format!("/t/%{:x}{}/json", world.token.reveal().as_bytes()[0], &world.token.reveal()[1..]),
        ] {
            assert_eq!(status(&world.get(&path).await), 401, "{path}");
        }
        for rest in [
            "",
            "/",
            "/x",
            "/healthz",
            "/api/v1/tasks",
            "/devtools/browser",
            "/devtools/browser/",
            "//json",
            "/json/version/x",
        ] {
            let answer = world.get(&world.path(rest)).await;
            assert_eq!(status(&answer), 404, "{rest}: {answer}");
            assert!(body(&answer).starts_with("This task has nothing at this path"), "{answer}");
        }
        // Forwarded addresses prove nothing.
        let answer = world.raw("GET /json/version HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: localhost\r\n\r\n").await;
        assert_eq!(status(&answer), 404);
        for path in ["/api/v1/tasks", "/api/v1/status", "/api/v1/openapi.json", "/api/v1", "/api/v1/nothing"] {
            assert_eq!(status(&world.get(path).await), 401, "{path}");
            // A path ends up in logs and histories, so it does not carry the admin token.
            assert_eq!(status(&world.get(&format!("/t/{}{path}", world.admin.reveal())).await), 401, "{path}");
            let task = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
                world.token.reveal()
            );
            assert_eq!(status(&world.raw(&task).await), 401, "{path}");
        }
    });
}

#[test]
fn health_needs_no_token_and_tells_nothing() {
    with_world(settings(), |world| async move {
        assert_eq!(body(&world.get("/healthz").await), "ok\n");
        assert_eq!(body(&world.get("/readyz").await), "ready\n");
        world.handle.set_waiting("a person");
        let answer = world.get("/readyz").await;
        assert_eq!((status(&answer), body(&answer)), (503, "not ready\n"));
    });
}

#[test]
fn the_header_carries_the_token_too_and_two_different_ones_are_refused() {
    with_world(settings(), |world| async move {
        let (token, admin) = (world.token.reveal(), world.admin.reveal());
        let request = |path: &str, headers: String| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        let answer = world.raw(&request("/json/version", format!("Authorization: bearer {token}\r\n"))).await;
        assert_eq!(status(&answer), 200);
        assert!(!answer.contains(token), "what came by header is not put into a URL: {answer}");
        for headers in [
            format!("Authorization: Bearer {admin}\r\n"),
            format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"),
        ] {
            assert_eq!(status(&world.raw(&request(&world.path("/json/version"), headers)).await), 401);
        }
        let same =
            world.raw(&request(&world.path("/json/version"), format!("Authorization: Bearer {token}\r\n"))).await;
        assert_eq!(status(&same), 200);
        let basic = world.raw(&request(&world.path("/json/version"), "Authorization: Basic eDp5\r\n".into())).await;
        assert_eq!(status(&basic), 200);
    });
}

#[test]
fn a_refusal_says_its_sentence_in_the_body_and_in_the_status_line() {
    with_world(settings(), |world| async move {
        world.handle.set_waiting("Tabwarden is waiting for your approval in Chrome.");
        let answer = world.get(&world.path("/json/version/")).await;
        assert!(answer.starts_with("HTTP/1.1 503 Tabwarden is waiting for your approval in Chrome.\r\n"), "{answer}");
        let path = world.path("/devtools/browser/x");
        let answer = world.raw(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n")).await;
        assert_eq!((status(&answer), body(&answer)), (503, "Tabwarden is waiting for your approval in Chrome."));
    });
}

#[test]
fn behind_a_proxy_the_public_address_is_told() {
    let mut settings = settings();
    settings.public_url = url::Url::parse("https://tabs.example/sub/").ok();
    with_world(settings, |world| async move {
        let answer = world.get(&world.path("/json/version")).await;
        let socket = format!("\"wss://tabs.example/sub/t/{}/devtools/browser/", world.token.reveal());
        assert!(body(&answer).contains(&socket), "{answer}");
    });
}

#[test]
fn discovery_has_the_shape_of_chromiums() {
    with_world(settings(), |world| async move {
        let version: serde_json::Value =
            serde_json::from_str(body(&world.get(&world.path("/json/version")).await)).unwrap();
        let keys: Vec<&str> = version.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            ["Browser", "Protocol-Version", "User-Agent", "V8-Version", "WebKit-Version", "webSocketDebuggerUrl"]
        );
        for path in ["/json", "/json/", "/json/list", "/json/list/"] {
            let list: serde_json::Value = serde_json::from_str(body(&world.get(&world.path(path)).await)).unwrap();
            assert_eq!(
                list,
                serde_json::json!([{"description": "", "id": "T1", "title": "t", "type": "page", "url": "about:blank"}])
            );
        }
        let post = world
            .raw(&format!(
                "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                world.path("/json/version")
            ))
            .await;
        assert_eq!(status(&post), 405);
    });
}
