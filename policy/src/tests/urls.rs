//! URLs that were bypasses of one tool or another, each with its verdict.

use crate::{Policy, Question, Verb, Verdict};

/// One host over https, with its subdomains elsewhere, some addresses, and a denied path.
const POLICY: &str = r#"
policy = 1
name = "test"
default = "deny"

[[rule]]
id = "good"
effect = "allow"
verbs = ["navigate"]
to = { host = "good.test" }

[[rule]]
id = "below"
effect = "allow"
verbs = ["navigate"]
to = [{ host = "below.test", subdomains = "only" }, { host = "site.test", subdomains = true }]

[[rule]]
id = "addresses"
effect = "allow"
verbs = ["navigate"]
to = [{ ip = "10.20.0.0/16" }, { ip = "127.0.0.1" }, { ip = "fd00::/8" }]
schemes = ["http"]
ports = [80, 3000]

[[rule]]
id = "ask"
effect = "confirm"
verbs = ["navigate"]
to = { host = "good.test" }
paths = ["/pay/*"]

[[rule]]
id = "no-admin"
effect = "deny"
verbs = ["*"]
to = "*"
paths = ["/admin", "/admin/**"]
reason = "Account changes need a person"

[[rule]]
id = "shelf"
effect = "allow"
verbs = ["navigate"]
to = { host = "shelf.test" }
paths = ["/t/*", "/b%20c", "/ü"]

[[rule]]
id = "open-settings"
effect = "allow"
verbs = ["navigate"]
to = "*"
schemes = ["chrome"]
paths = ["/version/**", "/"]
"#;

fn verdict(url: &str) -> (Verdict, String) {
    let policy = Policy::parse(POLICY, "test.toml").unwrap();
    let decision = policy.judge(&Question::new(Verb::Navigate, url));
    (decision.verdict, decision.rule.id.clone())
}

#[track_caller]
fn check(expected: Verdict, urls: &[&str]) {
    for url in urls {
        let (verdict, rule) = verdict(url);
        assert_eq!(verdict, expected, "{url:?} by {rule}");
    }
}

#[test]
fn every_spelling_of_an_allowed_host_is_allowed() {
    check(
        Verdict::Allow,
        &[
            "https://good.test/",
            "HTTPS://GOOD.TEST",
            "https://good.test./",
            "https://good.test:443/",
            "https://good.test:0443/",
            "https://evil.test@good.test/",
            "https://evil.test:x@good.test/#@evil.test",
            "https:good.test",
            "https:/good.test/x",
            "https:\\\\good.test\\x",
            " https://good.test/ ",
            "https://go\tod.te\nst/",
            "https://%67ood.test/",
            "https://ｇｏｏｄ．ｔｅｓｔ/",
            "https://good。test/",
            "https://go\u{ad}od.test/",
            "blob:https://good.test/6f0e",
            "https://a.below.test/",
            "https://a.b.below.test./",
            "https://site.test/",
            "https://a.site.test/",
        ],
    );
}

#[test]
fn what_only_looks_like_an_allowed_host_is_denied() {
    check(
        Verdict::Deny,
        &[
            "https://good:x@evil.test/",
            "https://good.test@evil.test/",
            "https://good.test%40evil.test/",
            "https://good.test.evil.test/",
            "https://evilgood.test/",
            "https://good.test-evil.test/",
            "https://good.test%2eevil.test/",
            "https://evil.test/good.test",
            "https://evil.test?https://good.test/",
            "https://evil.test#good.test",
            "https://a.good.test/",
            "https://below.test/",
            "https://xsite.test/",
            "https://g00d.test/",
            "https://gооd.test/", // Cyrillic
            "https://xn--gd-mmcc.test/",
        ],
    );
}

#[test]
fn a_backslash_ends_the_host_as_in_a_browser() {
    // Browsers read `\` as `/`: the host is good.test, and the rest is a path.
    assert_eq!(verdict("https://good.test\\@evil.test/").0, Verdict::Allow);
}

#[test]
fn empty_labels_are_denied() {
    check(
        Verdict::Deny,
        &["https://good.test../", "https://good..test/", "https://./", "https://../", "https://.good.test/"],
    );
}

#[test]
fn other_schemes_and_ports_are_denied() {
    check(
        Verdict::Deny,
        &[
            "http://good.test/",
            "https://good.test:8443/",
            "https://good.test:80/",
            "ws://good.test/",
            "wss://good.test/",
            "ftp://good.test/",
            "file://good.test/",
            "view-source:https://good.test/",
            "filesystem:https://good.test/temporary/x",
            "javascript:location='https://good.test/'",
            "devtools://good.test/",
            "chrome-extension://good.test/",
            "chrome-untrusted://good.test/",
            "isolated-app://good.test/",
            "mailto:a@good.test",
            "intent://good.test/#Intent;scheme=https;end",
        ],
    );
}

#[test]
fn a_scheme_that_a_rule_names_is_judged_by_it() {
    assert_eq!(verdict("chrome://version/"), (Verdict::Allow, "open-settings".to_owned()));
    assert_eq!(verdict("chrome://settings/passwords"), (Verdict::Deny, "default".to_owned()));
}

#[test]
fn every_spelling_of_an_address_is_that_address() {
    check(
        Verdict::Allow,
        &[
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://127.0.0.1./",
            "http://１２７.0.0.1/",
            "http://%31%32%37.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[0:0:0:0:0:ffff:127.0.0.1]:3000/",
            "http://10.20.255.1:3000/",
            "http://[fdff::1]/",
        ],
    );
    check(
        Verdict::Deny,
        &[
            "http://127.0.0.2/",
            "http://10.21.0.1/",
            "http://10.20.0.1:8080/",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1]/",
            "http://[::1]/",
            "http://127.0.0.1.nip.io/",
            "http://256.0.0.1/",
            "http://127.0.0.1:0/",
            "http://localhost/",
        ],
    );
}

#[test]
fn the_strictest_matching_rule_holds() {
    assert_eq!(verdict("https://good.test/pay/now"), (Verdict::Confirm, "ask".to_owned()));
    assert_eq!(verdict("https://good.test/pay/now/then"), (Verdict::Allow, "good".to_owned()));
    assert_eq!(verdict("https://good.test/admin/pay/now"), (Verdict::Deny, "no-admin".to_owned()));
}

#[test]
fn a_denied_path_is_denied_in_every_reading() {
    for path in [
        "admin",
        "admin/",
        "admin/x/y",
        "x/../admin",
        "./admin",
        "%61dmin/x",
        "admin%2Fx",
        "%2e%2e/admin",
        "x/%2E%2E/admin",
        "/admin/x",
        "//admin",
        "x/..%2fadmin/y",
        "x%2f..%2fadmin",
        "%5cadmin/x",
        "admin\\x",
        ".//admin/x",
        "a/.%2e/admin",
    ] {
        let url = format!("https://good.test/{path}");
        assert_eq!(verdict(&url), (Verdict::Deny, "no-admin".to_owned()), "{url}");
    }
    check(
        Verdict::Allow,
        &["https://good.test/administration", "https://good.test/x/admin", "https://good.test/?/admin/"],
    );
}

#[test]
fn an_allowed_path_has_to_be_allowed_in_every_reading() {
    check(
        Verdict::Allow,
        &[
            "https://shelf.test/t/1",
            "https://shelf.test/t/",
            "https://shelf.test/%74/1?x#y",
            "https://shelf.test/b%20c",
            "https://shelf.test/b c",
            "https://shelf.test/ü",
            "https://shelf.test/%c3%bc",
        ],
    );
    check(
        Verdict::Deny,
        &[
            "https://shelf.test/t",
            "https://shelf.test/t/1/2",
            "https://shelf.test/t/..%2f..%2fx",
            "https://shelf.test/t/%2e%2e%2fx",
            "https://shelf.test/t/1%2f2",
            "https://shelf.test/t/%2e%2e/x",
            "https://shelf.test/T/1",
        ],
    );
}

#[test]
fn what_is_no_url_is_denied() {
    for url in [
        "",
        " ",
        "good.test",
        "//good.test/",
        "/x",
        "https://",
        "https:///",
        "https://[",
        "https://good.test:99999/",
        "https://good test/",
        "https://%zz/",
        "https://good.test\0.evil.test/",
        "https://\u{fffe}/",
        "http://[::ffff:1.2.3]/",
        ":",
        "blob:",
        "blob:good.test/1",
        "blob:blob:https://good.test/1",
        "https://a\u{0}b",
        "https://%00/",
        "https://<good.test>/",
    ] {
        assert_eq!(verdict(url), (Verdict::Deny, "default".to_owned()), "{url:?}");
    }
}

#[test]
fn a_tower_of_blobs_costs_no_stack() {
    assert_eq!(verdict(&format!("{}https://good.test/", "blob:".repeat(1_000_000))).0, Verdict::Deny);
}

#[test]
fn documents_without_an_origin_of_their_own_are_judged_by_their_creator() {
    let policy = Policy::parse(POLICY, "test.toml").unwrap();
    let judge = |url: &str, creator| policy.judge(&Question::new(Verb::Navigate, url).created_by(creator));
    for url in [
        "data:text/html,x",
        "DATA:,",
        "about:blank",
        "about:blank#x",
        "about:blank?x",
        "about:srcdoc",
        "blob:null/6f0e",
    ] {
        assert!(judge(url, Some("task")).allowed(), "{url}");
        assert!(judge(url, Some("https://good.test/x")).allowed(), "{url}");
        for creator in [None, Some("https://evil.test/"), Some("about:blank"), Some("data:,"), Some("tasks"), Some("")]
        {
            let decision = judge(url, creator);
            assert_eq!(decision.verdict, Verdict::Deny, "{url} by {creator:?}");
            assert_ne!(decision.reason, "", "{url} by {creator:?}");
        }
    }
    for url in
        ["about:settings", "about:BLANK", "about:blank/", "about:", "blob:https://evil.test/1", "https://evil.test/"]
    {
        assert!(!judge(url, Some("task")).allowed(), "{url}");
    }
}

#[test]
fn a_rule_may_name_the_scheme_data() {
    let text = "policy = 1\nname = \"x\"\ndefault = \"deny\"\n[[rule]]\nid = \"no-data\"\neffect = \"deny\"\n\
                verbs = [\"navigate\"]\nto = \"*\"\nschemes = [\"data\"]\n";
    let policy = Policy::parse(text, "x.toml").unwrap();
    assert!(!policy.judge(&Question::new(Verb::Navigate, "data:,x").created_by(Some("task"))).allowed());
    assert!(policy.judge(&Question::new(Verb::Navigate, "about:blank").created_by(Some("task"))).allowed());
}

#[test]
fn the_built_in_policy_passes_its_own_tests() {
    let policy = Policy::built_in();
    assert_eq!(policy.name(), "default");
    assert_eq!(policy.run_tests(), []);
    assert!(policy.test_count() >= 16);
    for verb in Verb::ALL {
        assert!(policy.judge(&Question::new(*verb, "http://10.0.0.1:8080/")).allowed(), "{verb}");
        assert!(!policy.judge(&Question::new(*verb, "file:///etc/passwd")).allowed(), "{verb}");
    }
}
