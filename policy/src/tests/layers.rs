//! Layers only narrow; the hash knows what decides and nothing else.

use std::sync::Arc;

use crate::{Date, LayerKind, Policies, Policy, Question, Verb, Verdict};

fn today() -> Date {
    Date::new(2026, 11, 30).unwrap()
}

fn policy(name: &str, rules: &[(&str, &str, &str)]) -> Arc<Policy> {
    let mut text = format!("policy = 1\nname = \"{name}\"\ndefault = \"deny\"\n");
    for (id, effect, to) in rules {
        text.push_str(&format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\nverbs = [\"*\"]\nto = {to}\n"));
    }
    Arc::new(Policy::parse(&text, &format!("{name}.toml")).unwrap())
}

fn allow(name: &str, to: &str) -> Arc<Policy> {
    policy(name, &[(&format!("{name}-allow"), "allow", to)])
}

fn verdict(policies: &Policies, url: &str) -> (Verdict, String) {
    let decision = policies.judge(&Question::new(Verb::Navigate, url));
    (decision.verdict, decision.rule.id.clone())
}

#[test]
fn the_strictest_layer_holds_whatever_their_order() {
    let admin = policy("admin", &[("a-all", "allow", "\"*\""), ("a-no", "deny", "{ host = \"no.test\" }")]);
    let server = policy("server", &[("s-all", "allow", "\"*\""), ("s-ask", "confirm", "{ host = \"ask.test\" }")]);
    let task = allow("task", "[{ host = \"no.test\" }, { host = \"ask.test\" }, { host = \"yes.test\" }]");
    let mut layers =
        [(LayerKind::Admin, vec![admin]), (LayerKind::Server, vec![server]), (LayerKind::Task, vec![task])];
    for _ in 0..3 {
        layers.rotate_left(1);
        let policies = Policies::layered(layers.to_vec(), today()).unwrap();
        assert_eq!(verdict(&policies, "https://no.test/"), (Verdict::Deny, "a-no".into()));
        assert_eq!(verdict(&policies, "https://ask.test/"), (Verdict::Confirm, "s-ask".into()));
        assert_eq!(verdict(&policies, "https://yes.test/").0, Verdict::Allow);
        assert_eq!(verdict(&policies, "https://other.test/"), (Verdict::Deny, "default".into()));
        assert!(!policies.allows_everywhere(Verb::Read));
    }
}

#[test]
fn the_files_of_one_layer_are_judged_together() {
    let files = vec![
        allow("one", "{ host = \"one.test\" }"),
        policy("two", &[("two", "allow", "{ host = \"two.test\" }"), ("not", "deny", "{ host = \"one.test\" }")]),
        allow("three", "{ host = \"three.test\" }"),
    ];
    let policies = Policies::layered(vec![(LayerKind::Server, files)], today()).unwrap();
    assert_eq!(verdict(&policies, "https://one.test/"), (Verdict::Deny, "not".into()));
    assert_eq!(verdict(&policies, "https://two.test/").0, Verdict::Allow);
    assert_eq!(verdict(&policies, "https://three.test/").0, Verdict::Allow);
}

#[test]
fn without_any_file_the_built_in_policy_holds() {
    for layers in [vec![], vec![(LayerKind::Admin, vec![]), (LayerKind::Task, vec![])]] {
        let policies = Policies::layered(layers, today()).unwrap();
        assert_eq!(policies.name(), "default");
        assert_eq!(verdict(&policies, "http://127.0.0.1:3000/").0, Verdict::Allow);
        assert_eq!(verdict(&policies, "file:///etc/passwd").0, Verdict::Deny);
        assert_eq!(policies.hash(), Policies::built_in().hash());
    }
}

#[test]
fn an_id_is_of_one_rule_only() {
    let layers = |second: Arc<Policy>| {
        vec![(LayerKind::Admin, vec![policy("one", &[("same", "allow", "\"*\"")])]), (LayerKind::Task, vec![second])]
    };
    let error =
        Policies::layered(layers(policy("two", &[("x", "deny", "\"*\""), ("same", "allow", "\"*\"")])), today());
    assert_eq!(
        error.unwrap_err().to_string(),
        "two.toml:10:1: the id `same` is already that of the rule in one.toml:5, and ids are unique over all files that are \
         loaded: give one of them another"
    );
    assert!(Policies::layered(layers(policy("one", &[("same", "allow", "\"*\"")])), today()).is_ok(), "the same file");
}

#[test]
fn the_hash_knows_what_decides_and_nothing_else() {
    let hash = |files: Vec<Arc<Policy>>| {
        Policies::layered(vec![(LayerKind::Server, files)], today()).unwrap().hash().to_owned()
    };
    let (a, b) = (allow("a", "{ host = \"a.test\" }"), allow("b", "{ host = \"b.test\" }"));
    let whole = hash(vec![a.clone(), b.clone()]);
    assert!(whole.starts_with("sha256:") && whole.len() == 71, "{whole}");
    assert_eq!(whole, hash(vec![b.clone(), a.clone()]));
    assert_ne!(whole, hash(vec![a.clone()]));
    assert_ne!(whole, hash(vec![a.clone(), allow("b", "{ host = \"b.test\", subdomains = true }")]));
    let other_layer = Policies::layered(vec![(LayerKind::Admin, vec![a, b])], today()).unwrap();
    assert_ne!(whole, other_layer.hash());
    let rules = [("x", "allow", "\"*\""), ("y", "deny", "[{ ip = \"::1\" }, { host = \"a.test\" }]")];
    let swapped = [("y", "deny", "[{ host = \"a.test\" }, { ip = \"::1\" }]"), ("x", "allow", "\"*\"")];
    assert_eq!(hash(vec![policy("p", &rules)]), hash(vec![policy("p", &swapped)]));
}

#[test]
fn a_task_for_some_hosts_only_narrows() {
    let narrowing = |hosts: &[&str], sites: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Policy::narrowing(&owned(hosts), &owned(sites), "task new").map(Arc::new)
    };
    let server = policy("server", &[("web", "allow", "\"*\""), ("no", "deny", "{ host = \"no.site.test\" }")]);
    let hosts = narrowing(&["Host.test", "127.0.0.1", "[::1]"], &["site.test"]).unwrap();
    let layers = vec![(LayerKind::Task, vec![server]), (LayerKind::Task, vec![hosts.clone()])];
    let policies = Policies::layered(layers, today()).unwrap();
    assert_eq!(policies.name(), "server");
    for url in ["https://host.test/", "https://site.test/x", "https://a.site.test/", "https://127.0.0.1/"] {
        assert_eq!(verdict(&policies, url).0, Verdict::Allow, "{url}");
    }
    // The server's `allow` means https on its own port, and no list of hosts makes that more.
    for url in
        ["https://a.host.test/", "https://no.site.test/", "https://x.test/", "http://host.test/", "https://127.0.0.2/"]
    {
        assert_eq!(verdict(&policies, url).0, Verdict::Deny, "{url}");
    }
    let decision = policies.judge(&Question::new(Verb::Read, "https://x.test/"));
    assert_eq!(
        decision.sentence("read of https://x.test/"),
        "tabwarden: read of https://x.test/ denied by rule task:hosts (task new): no rule allows it. Use what the task was \
         made for, or make one for these hosts too."
    );
    let alone = Policies::layered(vec![(LayerKind::Task, vec![hosts])], today()).unwrap();
    for url in ["http://host.test:8080/", "wss://a.site.test:1/", "http://[::1]:3/"] {
        assert_eq!(verdict(&alone, url).0, Verdict::Allow, "{url}");
    }
    for url in ["file:///x", "ftp://host.test/", "https://a.host.test/"] {
        assert_eq!(verdict(&alone, url).0, Verdict::Deny, "{url}");
    }
    for (hosts, sites, message) in [
        (
            &[][..],
            &["co.uk"][..],
            "task new: `co.uk` is a public suffix, below which anybody can have a name: allow a site below it, for example `example.co.uk`",
        ),
        (
            &[],
            &["github.io"],
            "task new: `github.io` is a public suffix, below which anybody can have a name: allow a site below it, for example `example.github.io`",
        ),
        (
            &["*.a.test"],
            &[],
            "task new: `*.a.test` is not a bare host: write { host = \"a.test\" } for exactly this host, or { host = \"a.test\", subdomains = true } for it and everything below",
        ),
        (&[], &[], "task new: no host is named: name those that the task needs"),
    ] {
        assert_eq!(narrowing(hosts, sites).unwrap_err().to_string(), message);
    }
    assert!(narrowing(&["github.io", "localhost"], &["localhost"]).is_ok());
}
