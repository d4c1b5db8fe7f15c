//! What the commands print, and how they end.

use std::fs;
use std::path::{Path, PathBuf};

use ::policy::{ChannelName, Date, Policy, Verb};
use serde_json::Value;
use tempfile::TempDir;

use super::args::{ExplainArgs, ImportFrom};
use super::{Report, check, diff, explain, import, new, schema, suggest};
use crate::args::ServerArgs;
use crate::exit::{Exit, Failure};

const HEAD: &str = "policy = 1\nname = \"p\"\ndefault = \"deny\"\n";
const ACCEPTS: &str = "[unenforceable]\nwebsocket = \"accept\"\nwebrtc = \"accept\"\nspeculation = \"accept\"\nsw-update = \"accept\"\n\
                       shared-worker = \"accept\"\nbrowser-requests = \"accept\"\n";
const RULE: &str = "[[rule]]\nid = \"r\"\neffect = \"allow\"\nverbs = [\"navigate\"]\nto = { host = \"a.test\" }\n";
const TEST: &str = "[[test]]\nverb = \"navigate\"\nurl = \"https://a.test/\"\nexpect = \"allow\"\n";

struct Dir(TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The text without the directory, which is another one each time.
    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn today() -> Date {
    Date::new(2026, 11, 30).unwrap()
}

fn policies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policies")
}

/// The exit code and what was printed.
fn checked(dir: &Dir, strict: bool, files: &[PathBuf]) -> (i32, String) {
    match check::check(files, strict, today()) {
        Ok(Report { text, failure }) => {
            let failed = failure.map(|failure| (failure.exit as i32, format!("-- {}\n", failure.message)));
            let (exit, message) = failed.unwrap_or_default();
            (exit, dir.plain(&format!("{text}{message}")))
        }
        Err(Failure { exit, message }) => (exit as i32, dir.plain(&message)),
    }
}

#[test]
fn a_sound_file_passes() {
    let dir = Dir::new();
    let file = dir.file("p.toml", &format!("{HEAD}{RULE}{ACCEPTS}{TEST}"));
    assert_eq!(checked(&dir, true, &[file]), (0, "1 file, 1 test: 0 errors, 0 warnings\n".to_owned()));
    assert_eq!(checked(&dir, false, &[policies()]).0, 0);
    assert_eq!(checked(&dir, false, &[dir.0.path().to_owned()]).0, 0);
    // What `serve` would refuse however the browser is run.
    let silent = dir.file("silent.toml", &format!("{HEAD}{RULE}{TEST}"));
    let (exit, text) = checked(&dir, false, &[silent]);
    assert!(exit == 0 && text.contains("warning: no task starts with it: the policy"), "{text}");
}

#[test]
fn a_file_that_is_no_policy_is_shown_with_its_place() {
    let dir = Dir::new();
    let file = dir.file("p.toml", &format!("{HEAD}\t[[rule]]\nidd = \"x\"\n"));
    assert_eq!(
        checked(&dir, false, &[file]),
        (
            2,
            "p.toml:5:1: error: unknown key `idd` in a rule: did you mean `id`?\n    5 | idd = \"x\"\n      | ^\n\
             -- The policy is not to be used as it is (1 file, 0 tests: 1 error, 0 warnings).\n"
                .to_owned()
        )
    );
    let (exit, message) = checked(&dir, false, &[dir.0.path().join("none.toml")]);
    assert_eq!((exit, message.starts_with("none.toml cannot be read (")), (2, true), "{message}");
    let empty = dir.0.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(checked(&dir, false, &[empty]).0, 2);
}

#[test]
fn findings_tests_and_ids_are_told() {
    let dir = Dir::new();
    let warning = dir.file("w.toml", &format!("{HEAD}{}", RULE.replace("allow", "confirm")));
    let (exit, text) = checked(&dir, false, std::slice::from_ref(&warning));
    assert_eq!(exit, 0);
    assert!(
        text.starts_with("w.toml:5:6: warning: rule r: it asks for a confirmation")
            && text.contains("    5 | id = \"r\"\n      |      ^\n"),
        "{text}"
    );
    assert_eq!(checked(&dir, true, &[warning]).0, 1);
    let error =
        dir.file("e.toml", &format!("{HEAD}{}", RULE.replace("{ host = \"a.test\" }", "{ host = \"localhost\" }")));
    assert_eq!(checked(&dir, false, &[error]).0, 1);
    let failing = dir.file("f.toml", &format!("{HEAD}{RULE}{}", TEST.replace("allow", "deny")));
    let (exit, text) = checked(&dir, false, std::slice::from_ref(&failing));
    assert_eq!(exit, 1);
    assert!(
        text.starts_with(
            "f.toml:10: error: navigate https://a.test/ was expected to be deny, but is allow by rule r (f.toml:5)\n"
        ),
        "{text}"
    );
    let tested = check::test(&[failing]).unwrap();
    assert_eq!(tested.failure, Some(Failure { exit: Exit::Failure, message: "1 of 1 test failed.".to_owned() }));
    let [one, two] = ["1.toml", "2.toml"].map(|name| dir.file(name, &format!("{HEAD}{RULE}{TEST}")));
    let (exit, text) = checked(&dir, false, &[one.clone(), two]);
    assert_eq!(exit, 1);
    assert!(text.contains("2.toml:5:1: error: the id `r` is already that of the rule in 1.toml:5"), "{text}");
    assert_eq!(check::test(&[one]).unwrap().text, "0 of 1 test failed\n");
}

#[test]
fn sets_are_included_from_below() {
    let dir = Dir::new();
    dir.file("sets/desk.toml", "policy = 1\n[sets.desk]\nhosts = [{ host = \"a.test\" }]\n");
    let text = format!(
        "{HEAD}include = [\"sets/*.toml\"]\n{}{ACCEPTS}{TEST}",
        RULE.replace("{ host = \"a.test\" }", "\"@desk\"")
    );
    let file = dir.file("p.toml", &text);
    assert_eq!(
        checked(&dir, true, std::slice::from_ref(&file)),
        (0, "1 file, 1 test: 0 errors, 0 warnings\n".to_owned())
    );
    dir.file("sets/desk.toml", "policy = 1\n[sets.desk]\nhots = []\n");
    let (exit, text) = checked(&dir, true, &[file]);
    assert_eq!((exit, text.starts_with("sets/desk.toml:3:1: error: unknown key `hots`")), (2, true), "{text}");
}

fn server_args(json: bool) -> ServerArgs {
    ServerArgs { server: None, admin_token_file: None, json }
}

fn ask(verb: &str, url: &str) -> ExplainArgs {
    ExplainArgs {
        verb: verb.into(),
        url: url.into(),
        from: None,
        method: None,
        policy: Vec::new(),
        task: None,
        server: server_args(false),
    }
}

#[test]
fn an_answer_begins_with_the_verdict() {
    let line = |args: &ExplainArgs| {
        explain::explain(args, today()).map(|report| report.text.lines().next().unwrap_or_default().to_owned())
    };
    let desk = policies().join("10-support-desk.toml");
    let at_desk = |verb: &str, url: &str| ExplainArgs { policy: vec![desk.clone()], ..ask(verb, url) };
    assert_eq!(line(&ask("navigate", "http://localhost:3000/")).unwrap(), "allow");
    assert_eq!(line(&ask("navigate", "no url")).unwrap(), "deny");
    assert_eq!(line(&at_desk("navigate", "https://desk.example.com/t/refund")).unwrap(), "confirm");
    let part = at_desk("subresource", "https://cdn.test/a.js");
    assert_eq!(line(&part).unwrap(), "deny");
    let from = |from: &str| ExplainArgs {
        from: Some(from.into()),
        policy: vec![desk.clone()],
        ..ask("subresource", "https://cdn.test/a.js")
    };
    assert_eq!(line(&from("https://desk.example.com/")).unwrap(), "allow");
    assert_eq!(line(&from("https://evil.test/")).unwrap(), "deny");
    let data = ExplainArgs {
        from: Some("https://evil.test/".into()),
        policy: vec![desk.clone()],
        ..ask("navigate", "data:,x")
    };
    assert_eq!(line(&data).unwrap(), "deny");
    assert_eq!(line(&at_desk("navigate", "data:,x")).unwrap(), "allow");
    let read_only = policies().join("read-only.toml");
    let with = |method: Option<&str>| ExplainArgs {
        method: method.map(Into::into),
        policy: vec![read_only.clone()],
        ..ask("navigate", "https://a.test/")
    };
    assert_eq!(line(&with(None)).unwrap(), "allow");
    assert_eq!(line(&with(Some("POST"))).unwrap(), "deny");
    for bad in [
        ask("navigat", "https://a.test/"),
        with(Some("post")),
        with(Some("")),
        ExplainArgs { policy: vec!["none.toml".into()], ..ask("read", "x") },
    ] {
        assert_eq!(line(&bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
    }
}

#[test]
fn an_answer_in_json_says_the_same() {
    let args = ExplainArgs {
        server: server_args(true),
        policy: vec![policies().join("10-support-desk.toml")],
        ..ask("navigate", "https://desk.example.com/admin/x?q")
    };
    let value: Value = serde_json::from_str(&explain::explain(&args, today()).unwrap().text).unwrap();
    assert_eq!(value["verdict"], "deny");
    assert_eq!(value["url"], "https://desk.example.com/admin/x");
    assert_eq!(value["rule"]["id"], "desk-no-admin");
    assert_eq!(value["layers"][0]["candidates"][0]["why"], "matches, but deny beats allow (desk-no-admin)");
    assert!(value["policy_hash"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn the_starter_is_sound() {
    let text = new::starter("my-desk").unwrap().text;
    let policy = Policy::parse(&text, "my-desk.toml").unwrap();
    assert_eq!(policy.name(), "my-desk");
    assert_eq!(policy.run_tests(), []);
    assert!(policy.test_count() >= 4 && policy.lints(today()).is_empty(), "{:?}", policy.lints(today()));
    for bad in ["", "A", "a b", "a\"", "../a"] {
        assert_eq!(new::starter(bad).unwrap_err().exit, Exit::Usage, "{bad}");
    }
}

/// The schema knows the keys that the reader knows: each that it lists is known there, and those of our policies are listed.
#[test]
fn the_schema_agrees_with_the_reader() {
    let schema: Value = serde_json::from_str(schema::SCHEMA).unwrap();
    let verbs: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
    let listed: Vec<&str> =
        schema["$defs"]["verb"]["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(listed, verbs);
    let keys = |pointer: &str| {
        let properties = schema.pointer(pointer).and_then(|it| it["properties"].as_object()).unwrap();
        properties.keys().cloned().collect::<Vec<_>>()
    };
    let mut channels = keys("/properties/unenforceable");
    let mut known = ChannelName::ALL.map(|channel| channel.as_str().to_owned()).to_vec();
    channels.sort();
    known.sort();
    assert_eq!(channels, known);
    // A key that is known and mistyped is no unknown key, and the message of an unknown one lists those that are.
    for (pointer, before) in [
        ("", ""),
        ("/$defs/rule", "[[rule]]\n"),
        ("/$defs/test", "[[test]]\n"),
        ("/properties/limits", "[limits]\n"),
        ("/properties/files", "[files]\n"),
    ] {
        let error = Policy::parse(&format!("{HEAD}{before}quuxquuxquux = 1\n"), "p.toml").unwrap_err().message;
        let (_, list) = error.split_once("the known ones are ").unwrap_or_else(|| panic!("{error}"));
        let mut of_reader: Vec<&str> = list.split(", ").collect();
        let mut of_schema = keys(pointer);
        of_reader.sort_unstable();
        of_schema.sort();
        assert_eq!(of_schema, of_reader, "{pointer}");
    }
}

fn imported(from: ImportFrom, json: &str) -> Result<String, Failure> {
    let dir = Dir::new();
    import::import(from, &dir.file("x.json", json)).map(|report| report.text)
}

fn verdict(text: &str, url: &str) -> &'static str {
    let policy = Policy::parse(text, "imported.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    policy.judge(&::policy::Question::new(Verb::Navigate, url)).verdict.as_str()
}

#[test]
fn chromes_lists_become_rules_and_exceptions() {
    let text = imported(
        ImportFrom::Chrome,
        r#"{"URLBlocklist": ["example.com", ".exact.test", "https://port.test:8443/foo", "video.test/watch?v=1", "bad host", "*.x"],
            "URLAllowlist": ["docs.example.com", "example.com/ok", "http://only.example.com", "b.test?x=1"]}"#,
    )
    .unwrap();
    for (url, expected) in [
        ("https://other.test/", "allow"),
        ("http://other.test:8080/", "allow"),
        ("https://example.com/", "deny"),
        ("https://a.example.com/", "deny"),
        ("https://docs.example.com/", "allow"),
        ("https://example.com/ok/1", "allow"),
        ("https://only.example.com/", "deny"),
        ("http://only.example.com/", "deny"),
        ("https://exact.test/", "deny"),
        ("https://a.exact.test/", "allow"),
        ("https://port.test:8443/foobar", "deny"),
        ("https://port.test/foo", "allow"),
        ("https://video.test/watch?v=2", "deny"),
        ("file:///etc/passwd", "deny"),
    ] {
        assert_eq!(verdict(&text, url), expected, "{url}\n{text}");
    }
    for note in [
        "# note: Chrome allows what is in no list, and there is no such default here: this rule opens the web\n",
        "# note: `http://only.example.com` stays denied by `example.com`: exceptions have no scheme and no port",
        "# note: `video.test/watch?v=1`: queries are not judged here, so it is blocked with every query\n",
        "# note: `b.test?x=1` is left out",
        "# note: `bad host` is left out: `bad host` is no host\n",
        "# note: `*.x` is left out",
    ] {
        assert!(text.contains(note), "{note}\n{text}");
    }
    let closed = imported(ImportFrom::Chrome, r#"{"URLBlocklist": ["*"], "URLAllowlist": ["a.test"]}"#).unwrap();
    for (url, expected) in [("https://a.test/", "allow"), ("http://x.a.test:81/", "allow"), ("https://b.test/", "deny")]
    {
        assert_eq!(verdict(&closed, url), expected, "{url}");
    }
}

#[test]
fn agent_browsers_lists_become_rules() {
    let text = imported(
        ImportFrom::AgentBrowser,
        r#"{"allowedDomains": "a.test, *.b.test,x/y", "default": "deny", "allow": ["navigate", "foo"], "deny": ["download"]}"#,
    )
    .unwrap();
    for (url, expected) in [
        ("https://a.test/", "allow"),
        ("https://x.a.test/", "deny"),
        ("https://b.test/", "allow"),
        ("https://x.b.test/", "allow"),
        ("https://c.test/", "deny"),
    ] {
        assert_eq!(verdict(&text, url), expected, "{url}\n{text}");
    }
    for note in
        ["# note: `x/y` is left out", "# note: allow `foo`: there is no such verb here", "# note: deny `download`"]
    {
        assert!(text.contains(note), "{note}\n{text}");
    }
    let open = imported(ImportFrom::AgentBrowser, r#"{"default": "allow", "confirm": ["eval"]}"#).unwrap();
    assert_eq!(verdict(&open, "https://c.test/"), "allow");
}

#[test]
fn what_cannot_be_imported_is_bad_input() {
    for (from, json) in [
        (ImportFrom::Chrome, "{"),
        (ImportFrom::Chrome, "{}"),
        (ImportFrom::Chrome, r#"{"URLBlocklist": 1}"#),
        (ImportFrom::Chrome, r#"{"URLBlocklist": [1]}"#),
        (ImportFrom::AgentBrowser, "[]"),
        (ImportFrom::AgentBrowser, r#"{"allowedDomains": []}"#),
    ] {
        assert_eq!(imported(from, json).unwrap_err().exit, Exit::Usage, "{json}");
    }
    let nasty =
        imported(ImportFrom::Chrome, r#"{"URLBlocklist": ["a\"]\n[[rule]]\nid = \"x\"", "ok.test/\"\\\u0007"]}"#)
            .unwrap();
    assert_eq!(verdict(&nasty, "https://other.test/"), "allow");
}

const AUDIT: &str = r#"{"time":"t","id":"a-1","task":"one","client":1,"method":"Page.navigate","verb":"navigate","object":"https://a.test/x","verdict":"deny","enforced":true,"rule":{"id":"default","file":"p.toml","line":3},"reason":"no rule allows it","policy_hash":"sha256:0"}
{"time":"t","task":"one","client":null,"method":null,"verb":"subresource","object":"http://127.0.0.1:8080/a.js","verdict":"deny","enforced":false,"rule":{},"reason":"","policy_hash":""}

{"time":"t","task":"one","method":"Page.navigate","verb":"navigate","object":"https://a.test/x","verdict":"deny"}
{"time":"t","task":"one","method":"Tracing.start","verb":null,"object":"Tracing.start","verdict":"deny"}
{"time":"t","task":"one","method":"Page.navigate","verb":"navigate","object":"file:///etc/passwd","verdict":"deny"}
"#;

#[test]
fn a_draft_allows_what_was_refused_and_no_more() {
    let dir = Dir::new();
    let text = suggest::suggest(&dir.file("audit", AUDIT)).unwrap().text;
    let policy = Policy::parse(&text, "s.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let verdict = |verb, url| policy.judge(&::policy::Question::new(verb, url)).verdict.as_str();
    assert_eq!(verdict(Verb::Navigate, "https://a.test/y"), "allow");
    assert_eq!(verdict(Verb::Subresource, "http://127.0.0.1:8080/b.js"), "allow");
    for (verb, url) in [
        (Verb::Navigate, "http://a.test/x"),
        (Verb::Navigate, "https://x.a.test/"),
        (Verb::Read, "https://a.test/x"),
        (Verb::Navigate, "http://127.0.0.1:8080/"),
        (Verb::Subresource, "http://127.0.0.1/"),
        (Verb::Navigate, "file:///etc/passwd"),
    ] {
        assert_eq!(verdict(verb, url), "deny", "{verb} {url}\n{text}");
    }
    assert!(text.contains("# left out: \"file\" URLs"), "{text}");
    assert_eq!(suggest::suggest(&dir.file("none", "\n")).unwrap_err().exit, Exit::Failure);
    let error = suggest::suggest(&dir.file("bad", "{\"verb\":1}\n")).unwrap_err();
    assert!(error.exit == Exit::Usage && error.message.contains("bad:1: this is no audit record"), "{}", error.message);
}

#[test]
fn differences_are_of_past_decisions() {
    let dir = Dir::new();
    let old = dir.file("old.toml", HEAD);
    let new = dir.file("new.toml", &format!("{HEAD}{RULE}"));
    let audit = dir.file("audit", AUDIT);
    assert_eq!(
        diff::diff(&old, &new, &audit, today()).unwrap().text,
        "navigate https://a.test/x: deny by default -> allow by r (2 times)\n2 of 4 decisions would be others\n"
    );
    assert_eq!(diff::diff(&new, &new, &audit, today()).unwrap().text, "0 of 4 decisions would be others\n");
    assert_eq!(diff::diff(&old, &audit, &audit, today()).unwrap_err().exit, Exit::Usage);
}
