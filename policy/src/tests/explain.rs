//! Explanations, word for word, and what is enforced where.

use std::sync::Arc;

use crate::{Date, LayerKind, Mode, Policies, Policy, Question, Unenforceable, Verb};

fn file(name: &str, text: &str) -> Arc<Policy> {
    let text = format!("policy = 1\nname = \"{name}\"\ndefault = \"deny\"\n{text}");
    Arc::new(Policy::parse(&text, &format!("{name}.toml")).unwrap_or_else(|error| panic!("{error}\n{text}")))
}

fn layered(layers: Vec<(LayerKind, Vec<Arc<Policy>>)>) -> Policies {
    Policies::layered(layers, Date::new(2026, 11, 30).unwrap()).unwrap()
}

const DESK: &str = r#"
[[rule]]
id = "pages"
effect = "allow"
verbs = ["navigate"]
to = { host = "desk.test" }
reason = "Tickets"
[[rule]]
id = "pages-too"
effect = "allow"
verbs = ["navigate"]
to = { host = "desk.test", subdomains = true }
[[rule]]
id = "net"
effect = "allow"
verbs = ["navigate"]
to = { ip = "10.0.0.0/8" }
[[rule]]
id = "port"
effect = "allow"
verbs = ["navigate"]
to = "*"
ports = [8080, 8081]
[[rule]]
id = "scheme"
effect = "allow"
verbs = ["navigate"]
to = "*"
schemes = ["http", "ftp"]
[[rule]]
id = "path"
effect = "allow"
verbs = ["navigate"]
to = "*"
paths = ["/a/*", "/b"]
[[rule]]
id = "method"
effect = "allow"
verbs = ["navigate"]
to = "*"
methods = ["POST"]
[[rule]]
id = "when"
effect = "allow"
verbs = ["navigate"]
to = "*"
when = { initiator = { host = "other.test" } }
[[rule]]
id = "old"
effect = "allow"
verbs = ["navigate"]
to = "*"
expires = 2026-11-29
[[rule]]
id = "except"
effect = "allow"
verbs = ["navigate"]
to = "*"
except = [{ host = "desk.test" }]
[[rule]]
id = "trial"
effect = "deny"
verbs = ["navigate"]
to = "*"
mode = "monitor"
[[rule]]
id = "reading"
effect = "deny"
verbs = ["read"]
to = "*"
"#;

#[test]
fn every_candidate_says_why() {
    let admin = file("admin", "[[rule]]\nid = \"all\"\neffect = \"allow\"\nverbs = [\"*\"]\nto = \"*\"\n");
    let policies = layered(vec![(LayerKind::Admin, vec![admin]), (LayerKind::Task, vec![file("desk", DESK)])]);
    let explanation = policies.explain(
        &Question::new(Verb::Navigate, "https://me@DESK.test.:443/%74/1?q#f")
            .with_method(Some("GET"))
            .on_behalf_of(Some("https://desk.test/")),
    );
    assert_eq!(
        explanation.to_string(),
        "allow
url      https://desk.test/t/1
by       all (admin.toml:5)
would be deny by trial (desk.toml:64), which is in monitor mode

layer admin (admin.toml): allow by all (admin.toml:5)
  allow   all (admin.toml:5): decides

layer task (desk.toml): allow by pages (desk.toml:6)
  allow   pages (desk.toml:6): decides
  allow   pages-too (desk.toml:12): matches, but pages says the same and comes first
  allow   net (desk.toml:17): host desk.test is not one of: 10.0.0.0/8
  allow   port (desk.toml:22): port 443 is not one of: 8080, 8081
  allow   scheme (desk.toml:28): scheme https is not one of: http, ftp
  allow   path (desk.toml:34): path /t/1 is not one of: /a/*, /b
  allow   method (desk.toml:40): method GET is not one of: POST
  allow   when (desk.toml:46): the initiator desk.test is not one of: other.test
  allow   old (desk.toml:52): expired on 2026-11-29
  allow   except (desk.toml:58): one of its exceptions holds
  deny    trial (desk.toml:64): matches, but is in monitor mode, which changes nothing
"
    );
}

#[test]
fn losers_and_the_unreadable_are_told() {
    let text = "[[rule]]\nid = \"yes\"\neffect = \"allow\"\nverbs = [\"read\"]\nto = \"*\"\npaths = [\"/a/*\"]\n\
                [[rule]]\nid = \"no\"\neffect = \"deny\"\nverbs = [\"read\"]\nto = \"*\"\nmethods = [\"POST\"]\n";
    let policies = layered(vec![(LayerKind::Server, vec![file("p", text)])]);
    let why = |question: Question<'_>| {
        let explanation = policies.explain(&question);
        assert_eq!(explanation.decision, policies.judge(&question));
        explanation.layers[0].candidates.iter().map(|candidate| candidate.why.clone()).collect::<Vec<_>>()
    };
    let read = |url| Question::new(Verb::Read, url);
    assert_eq!(why(read("https://a.test/a/1")), ["matches, but deny beats allow (no)", ""]);
    assert_eq!(
        why(read("https://a.test/a%2f1").with_method(Some("GET"))),
        ["path /a%2F1 is not in every way a server may read it one of: /a/*", "method GET is not one of: POST"]
    );
    assert_eq!(why(read("https://")), ["the URL cannot be read", "the URL cannot be read"]);
    assert_eq!(
        why(read("about:blank").created_by(Some("https://a.test/a/1")).with_method(Some("GET"))),
        ["", "method GET is not one of: POST"]
    );
    let by_maker = policies.explain(&read("about:blank").created_by(Some("https://b.test/")));
    assert!(
        by_maker
            .to_string()
            .starts_with("deny\nurl      about:blank\nmade by  https://b.test/, as which it is judged\n")
    );
    assert!(policies.explain(&read("%")).to_string().starts_with("deny\nurl      cannot be read\n"));
    let none = policies.explain(&Question::new(Verb::Popup, "https://a.test/\u{7f}%1b%07"));
    assert!(none.to_string().ends_with("deny by default (p.toml:3)\n  no rule names the verb\n"));
    assert!(!none.to_string().contains('\u{1b}'), "no terminal is steered");
}

const EVERYWHERE: &str = "to = \"*\"\nports = \"*\"\nschemes = [\"http\", \"https\", \"ws\", \"wss\"]\n";

fn open(name: &str, more: &str) -> Arc<Policy> {
    file(name, &format!("[[rule]]\nid = \"{name}\"\neffect = \"allow\"\nverbs = [\"*\"]\n{EVERYWHERE}{more}"))
}

fn deny(id: &str, verb: &str, to: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\neffect = \"deny\"\nverbs = [\"{verb}\"]\nto = {to}\n")
}

const MODES: [Mode; 4] = [
    Mode { launched: true, isolated: true },
    Mode { launched: true, isolated: false },
    Mode { launched: false, isolated: true },
    Mode { launched: false, isolated: false },
];

/// The channels that are denied and that nothing enforces.
fn open_channels(policies: &Policies, mode: Mode) -> Vec<&'static str> {
    let coverage = policies.coverage(mode).into_iter();
    coverage.filter(|channel| channel.denied && channel.enforced_by.is_none()).map(|channel| channel.name).collect()
}

#[test]
fn what_denies_nothing_starts_everywhere() {
    let policies = layered(vec![(LayerKind::Server, vec![open("all", &deny("d", "download", "\"*\""))])]);
    for mode in MODES {
        assert_eq!(policies.refuse_start(mode), None);
        assert_eq!(Policies::built_in().refuse_start(mode), None);
        assert!(policies.coverage(mode).iter().all(|channel| !channel.denied && channel.setting.is_none()));
    }
}

#[test]
fn each_denial_needs_its_channels() {
    let elsewhere = "{ host = \"no.test\" }";
    let attached = Mode { launched: false, isolated: false };
    let launched = Mode { launched: true, isolated: true };
    for (verb, to, expected) in [
        ("navigate", elsewhere, &["speculation"][..]),
        ("frame", elsewhere, &[]),
        ("websocket", elsewhere, &["websocket", "webrtc"]),
        ("subresource", elsewhere, &["webrtc", "speculation", "shared-worker", "browser-requests"]),
        ("worker", elsewhere, &["sw-update", "shared-worker"]),
        ("frame", "{ ip = \"10.0.0.0/8\" }", &["resolved-ip"]),
        ("script", elsewhere, &[]),
    ] {
        let policies = layered(vec![(LayerKind::Server, vec![open("all", &deny("d", verb, to))])]);
        assert_eq!(open_channels(&policies, attached), expected, "{verb}");
        let in_launched: Vec<&str> =
            expected.iter().copied().filter(|name| !matches!(*name, "speculation" | "shared-worker")).collect();
        assert_eq!(open_channels(&policies, launched), in_launched, "{verb}");
        assert_eq!(policies.refuse_start(attached).is_some(), !expected.is_empty(), "{verb}");
    }
}

#[test]
fn a_policy_says_what_it_wants_of_each() {
    let text = |settings: &str| {
        let rules = format!(
            "{}{}",
            deny("d", "websocket", "{ host = \"no.test\" }"),
            deny("n", "navigate", "{ host = \"no.test\" }")
        );
        layered(vec![(LayerKind::Server, vec![open("all", &format!("{rules}[unenforceable]\n{settings}"))])])
    };
    let attached = Mode { launched: false, isolated: false };
    let refusal = |settings: &str| text(settings).refuse_start(attached).map(|error| error.to_string());
    assert_eq!(
        refusal("webrtc = \"accept\"").unwrap(),
        "all.toml:3:1: the policy all denies what nothing can enforce in a browser that was running already, in the person's \
         profile: websocket, speculation; say for each under `[unenforceable]` whether the task is then refused or the channel \
         stays open, for example `websocket = \"accept\"`"
    );
    assert_eq!(
        refusal("webrtc = \"accept\"\nwebsocket = \"tripwire\"\nspeculation = \"refuse\"").unwrap(),
        "all.toml:3:1: the policy all refuses to be used where it cannot be enforced, and in a browser that was running \
         already, in the person's profile that is so for speculation; use it where these are enforced, or have its \
         `[unenforceable]` say \"accept\" for them"
    );
    let policies = text("webrtc = \"accept\"\nwebsocket = \"tripwire\"\nspeculation = \"refuse\"");
    let launched = Mode { launched: true, isolated: false };
    assert_eq!(policies.refuse_start(launched), None, "there, speculation is switched off");
    let coverage = policies.coverage(launched);
    let setting = |name: &str| coverage.iter().find(|channel| channel.name == name).unwrap().setting;
    assert_eq!(setting("websocket"), Some(Unenforceable::Tripwire));
    assert_eq!(setting("speculation"), None);
    assert_eq!(setting("documents"), None);
}

#[test]
fn what_one_layer_accepts_is_not_accepted_for_another() {
    let launched = Mode { launched: true, isolated: true };
    let silent = open("admin", &deny("d", "worker", "{ host = \"no.test\" }"));
    let accepts = "[unenforceable]\nsw-update = \"accept\"\nshared-worker = \"accept\"\nbrowser-requests = \"accept\"\nwebsocket = \"accept\"\nwebrtc = \"accept\"\nspeculation = \"accept\"\n";
    let lax = open("task", accepts);
    let policies = layered(vec![(LayerKind::Admin, vec![silent]), (LayerKind::Task, vec![lax.clone()])]);
    assert!(policies.refuse_start(launched).unwrap().to_string().starts_with("admin.toml:3:1: "));
    // Named hosts have no file to say it in.
    let hosts = Arc::new(Policy::narrowing(&["a.test".to_owned()], &[], "task new").unwrap());
    let policies = layered(vec![(LayerKind::Task, vec![lax]), (LayerKind::Task, vec![hosts.clone()])]);
    assert_eq!(policies.refuse_start(launched), None);
    let alone = layered(vec![(LayerKind::Task, vec![hosts])]);
    let refusal = alone.refuse_start(launched).unwrap().to_string();
    assert!(refusal.starts_with("task new: the policy task-hosts denies what nothing can enforce"), "{refusal}");
}
