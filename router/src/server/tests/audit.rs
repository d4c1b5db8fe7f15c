//! The audit through the driver: in the file before the client is told, and given by the API.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::Message;

use super::api::call;
use super::*;

/// Has the engine make these decisions for the first task; they are written when this is over.
pub(super) async fn decide(world: &World, ids: &[&str]) {
    let mut socket = clients::connect(world).await;
    for id in ids {
        socket.feed(Message::text(format!("audit {id}"))).await.unwrap();
    }
    socket.send(Message::text("echo")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("echo"));
}

#[test]
fn decisions_stand_in_the_file_and_the_api_gives_the_same() {
    with_world(settings(), |world| async move {
        decide(&world, &["a-1", "a-2", "a-3"]).await;
        let (_, state) = call(&world, "GET", "/status", "").await;
        assert_eq!((&state["audit"]["written"], &state["audit"]["lost"]), (&json!(3), &json!(0)));
        let file = std::fs::read_to_string(state["audit"]["file"].as_str().unwrap()).unwrap();
        let lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| &line["id"]).collect::<Vec<_>>(), ["a-1", "a-2", "a-3"]);
        assert!(lines.iter().all(|line| line["object"] == "https://x.test/"), "{file}");
        let all = call(&world, "GET", "/tasks/one/decisions", "").await;
        assert_eq!(all, (200, json!({"decisions": lines, "gap": false})));
        let later = call(&world, "GET", "/tasks/one/decisions?since=a-2", "").await;
        assert_eq!(later, (200, json!({"decisions": lines[2..], "gap": false})));
        let at = lines[0]["time"].as_str().unwrap();
        assert_eq!(call(&world, "GET", &format!("/tasks/one/decisions?since={at}"), "").await, all);
        let (_, lost) = call(&world, "GET", "/tasks/one/decisions?since=a-0", "").await;
        assert_eq!(lost, json!({"decisions": lines, "gap": true}));
    });
}

#[test]
fn with_queries_whole_addresses_are_kept() {
    let mut settings = settings();
    settings.audit.queries = true;
    with_world(settings, |world| async move {
        decide(&world, &["a-1"]).await;
        let (_, answer) = call(&world, "GET", "/tasks/one/decisions", "").await;
        assert_eq!(answer["decisions"][0]["object"], "https://x.test/?q");
    });
}

#[test]
fn a_task_that_has_ended_is_not_remembered() {
    with_world(settings(), |world| async move {
        decide(&world, &["a-1"]).await;
        assert_eq!(call(&world, "DELETE", "/tasks/one", "").await.0, 204);
        assert_eq!(call(&world, "GET", "/tasks/one/decisions", "").await.0, 404);
    });
}
