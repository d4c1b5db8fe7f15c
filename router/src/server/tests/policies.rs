//! Policy files through the API: which hold for a task, and what becomes of it when they are read anew.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::call;
use super::*;
use crate::server::policies::{Source, Trigger};

/// Directories for the administrator and for names, and one file of the server's.
struct Places {
    _dir: TempDir,
    admin: PathBuf,
    named: PathBuf,
    server: PathBuf,
}

fn places() -> (Places, Settings) {
    let dir = tempfile::tempdir().unwrap();
    let [admin, named] = ["admin", "named"].map(|name| dir.path().join(name));
    for inner in [&admin, &named] {
        fs::create_dir(inner).unwrap();
        fs::set_permissions(inner, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = dir.path().join("server.toml");
    write(&server, "of-server", "example.com");
    let files = PolicyFiles::new(vec![server.clone()], Some(named.clone())).with_admin_dir(&admin);
    (Places { _dir: dir, admin, named, server }, Settings { policies: files, ..settings() })
}

/// A policy of this name that allows one host.
fn write(path: &Path, name: &str, host: &str) {
    let text = format!(
        "policy = 1\nname = \"{name}\"\ndefault = \"deny\"\n[unenforceable]\nwebsocket = \"accept\"\nwebrtc = \"accept\"\n\
        sw-update = \"accept\"\nshared-worker = \"accept\"\nbrowser-requests = \"accept\"\n[[rule]]\nid = \"{name}-1\"\neffect = \"allow\"\n\
        verbs = [\"*\"]\nto = {{ host = \"{host}\" }}\n"
    );
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

async fn show(world: &World, name: &str) -> Value {
    let (code, task) = call(world, "GET", &format!("/tasks/{name}"), "").await;
    assert_eq!(code, 200, "{task}");
    task["enforcement"].clone()
}

async fn last_reload(world: &World) -> Value {
    call(world, "GET", "/status", "").await.1["policies"]["last_reload"].clone()
}

/// Layers and names of what holds.
fn files(enforcement: &Value) -> Vec<String> {
    let files = enforcement["files"].as_array().unwrap();
    files.iter().map(|file| format!("{} {}", file["layer"].as_str().unwrap(), file["name"].as_str().unwrap())).collect()
}

#[test]
fn a_task_has_the_layers_of_the_administrator_the_server_and_its_own() {
    let (places, settings) = places();
    write(&places.admin.join("a.toml"), "of-admin", "example.com");
    write(&places.named.join("mine.toml"), "of-task", "example.com");
    with_world(settings, |world| async move {
        assert_eq!(files(&show(&world, "one").await), ["admin of-admin", "server of-server", "task default"]);
        let wanted = r#"{"name":"two","policy":"mine","allow":{"hosts":["example.com"]}}"#;
        assert_eq!(call(&world, "POST", "/tasks", wanted).await.0, 201);
        let two = show(&world, "two").await;
        assert_eq!(files(&two), ["admin of-admin", "server of-server", "task of-task", "task task-hosts"]);
        let (_, status) = call(&world, "GET", "/status", "").await;
        assert_eq!(status["task_policies"][1]["hash"], two["hash"]);
        assert_eq!(status["task_policies"][1]["task"], "two");
        drop(places);
    });
}

#[test]
fn a_reload_reaches_running_tasks_and_new_ones() {
    let (places, settings) = places();
    with_world(settings, |world| async move {
        let before = show(&world, "one").await;
        write(&places.server, "of-server", "example.net");
        write(&places.admin.join("a.toml"), "of-admin", "example.net");
        assert_eq!(call(&world, "POST", "/reload", "").await, (200, json!({"tasks": 1, "released_pages": 0})));
        let after = show(&world, "one").await;
        assert_eq!(files(&after), ["admin of-admin", "server of-server", "task default"]);
        assert_ne!(before["hash"], after["hash"]);
        // The engine has what is shown.
        let AdminReply::Task(task) = world.handle.ask(AdminCommand::TaskShow("one".into())).await.unwrap() else {
            panic!("no task")
        };
        assert_eq!(after["hash"], task.policy_hash);
        let new = world.handle.new_task(plan("two", TaskPolicy::default()), None).await.unwrap();
        assert_eq!(after["hash"], new.info.policy_hash);
        let last = last_reload(&world).await;
        assert_eq!((&last["by"], &last["ok"], &last["error"]), (&json!("command"), &json!(true), &Value::Null));
    });
}

/// Of a file.
type Change<'a> = &'a dyn Fn();

#[test]
fn whatever_is_wrong_everything_stays_as_it_was_and_is_said() {
    let (places, settings) = places();
    with_world(settings, |world| async move {
        let own = places.named.join("own.toml");
        write(&own, "of-task", "example.com");
        let policy = TaskPolicy { source: Source::Named("own".into()), allow: None };
        world.handle.new_task(plan("two", policy), None).await.unwrap();
        let before = [show(&world, "one").await, show(&world, "two").await];
        let admin = places.admin.join("a.toml");
        let break_and_mend: [(&str, Change, Change); 5] = [
            (
                "server.toml:3:11: ",
                &|| fs::write(&places.server, "policy = 1\nname = \"x\"\ndefault = \"allow\"").unwrap(),
                &|| write(&places.server, "of-server", "example.com"),
            ),
            ("server.toml:1:1: the file is empty", &|| fs::write(&places.server, "").unwrap(), &|| {
                write(&places.server, "of-server", "example.com")
            }),
            ("own.toml is not there", &|| fs::remove_file(&own).unwrap(), &|| write(&own, "of-task", "example.com")),
            (
                "its group may write to",
                &|| {
                    write(&admin, "of-admin", "example.com");
                    fs::set_permissions(&admin, fs::Permissions::from_mode(0o664)).unwrap();
                },
                &|| fs::remove_file(&admin).unwrap(),
            ),
            ("is already that of the rule in", &|| write(&admin, "of-server", "example.net"), &|| {
                fs::remove_file(&admin).unwrap()
            }),
        ];
        for (said, break_it, mend_it) in break_and_mend {
            break_it();
            let (code, answer) = call(&world, "POST", "/reload", "").await;
            let message = answer["error"]["message"].as_str().unwrap();
            assert_eq!((code, &answer["error"]["code"]), (409, &json!("policies_kept")));
            assert!(message.starts_with("The policies stay as they were: ") && message.contains(said), "{message}");
            let last = last_reload(&world).await;
            assert!(last["ok"] == false && last["error"].as_str().unwrap().contains(said), "{last}");
            assert_eq!([show(&world, "one").await, show(&world, "two").await], before, "{said}");
            mend_it();
            assert_eq!(call(&world, "POST", "/reload", "").await.0, 200, "{said}");
            assert_eq!(last_reload(&world).await["ok"], true);
        }
    });
}

#[test]
fn a_changed_file_is_noticed_without_being_told() {
    let (places, settings) = places();
    with_world(settings, |world| async move {
        let before = show(&world, "one").await;
        write(&places.admin.join("a.toml"), "of-admin", "example.com");
        let mut last = last_reload(&world).await;
        while last["by"] != "watch" {
            tokio::time::sleep(Duration::from_millis(50)).await;
            last = last_reload(&world).await;
        }
        assert_eq!(last["ok"], true);
        assert_ne!(show(&world, "one").await["hash"], before["hash"]);
    });
}

#[test]
fn a_task_that_is_made_during_a_reload_has_what_holds_after_it() {
    let (places, settings) = places();
    with_world(settings, |world| async move {
        write(&places.server, "of-server", "example.net");
        let (made, reloaded) = futures_util::future::join(
            world.handle.new_task(plan("two", TaskPolicy::default()), None),
            world.handle.reload(Trigger::Signal),
        )
        .await;
        assert!(made.is_ok() && reloaded.is_ok());
        assert_eq!(show(&world, "one").await["hash"], show(&world, "two").await["hash"]);
    });
}

#[test]
fn a_wrong_file_stops_the_start() {
    let (places, settings) = places();
    fs::set_permissions(&places.server, fs::Permissions::from_mode(0o666)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let admin = Tokens::new().unwrap().draw().unwrap();
        let said = Server::bind(settings, &admin).await.err().unwrap();
        assert!(said.contains("server.toml") && said.contains("`chmod o-w "), "{said}");
    });
}
