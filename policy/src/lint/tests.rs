//! Each lint, found and not found.

use super::Severity;
use crate::{Date, Policy};

fn lints(rules: &str) -> Vec<String> {
    let text = format!("policy = 1\nname = \"p\"\ndefault = \"deny\"\n{rules}");
    let policy = Policy::parse(&text, "p.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    policy.lints(Date::new(2026, 11, 30).unwrap()).iter().map(ToString::to_string).collect()
}

fn rule(id: &str, effect: &str, verbs: &str, to: &str, more: &str) -> String {
    format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\nverbs = [{verbs}]\nto = {to}\n{more}\n")
}

fn allow(to: &str, more: &str) -> Vec<String> {
    lints(&rule("r", "allow", "\"navigate\"", to, more))
}

#[test]
fn a_sound_rule_has_no_findings() {
    for to in [
        "{ host = \"a.test\" }",
        "{ host = \"example.co.uk\", subdomains = true }",
        "{ host = \"github.io\" }",
        "{ ip = \"8.8.8.8\" }",
    ] {
        assert_eq!(allow(to, ""), [""; 0], "{to}");
    }
}

#[test]
fn public_suffixes_are_nobodys_site() {
    for suffix in ["com", "co.uk", "github.io", "vercel.app", "s3.amazonaws.com"] {
        for subdomains in ["true", "\"only\""] {
            let found = allow(&format!("{{ host = \"{suffix}\", subdomains = {subdomains} }}"), "");
            assert!(
                found[0].starts_with(&format!("p.toml:5:6: error: rule r: `{suffix}` is a public suffix")),
                "{found:?}"
            );
        }
    }
    let deny = rule("r", "deny", "\"navigate\"", "{ host = \"zip\", subdomains = true }", "");
    assert_eq!(lints(&deny), [""; 0], "nobody is let in by a denial");
}

#[test]
fn what_is_near_has_to_be_meant() {
    for to in [
        "{ ip = \"127.0.0.1\" }",
        "{ ip = \"10.20.0.0/16\" }",
        "{ ip = \"0.0.0.0\" }",
        "{ ip = \"fd00::/8\" }",
        "{ ip = \"172.0.0.0/8\" }",
        "{ host = \"localhost\" }",
        "{ host = \"app.localhost\" }",
        "{ host = \"10-0-0-1.nip.io\" }",
        "[{ host = \"a.test\" }, { host = \"lvh.me\", subdomains = true }]",
    ] {
        let found = allow(to, "");
        assert!(
            found[0].contains("error: rule r: `") && found[0].ends_with("add `local = true` if that is meant"),
            "{to}: {found:?}"
        );
        assert_eq!(allow(to, "local = true"), [""; 0], "{to}");
    }
    assert_eq!(
        allow("\"*\"", ""),
        ["p.toml:5:6: warning: rule r: it also opens this machine and the private network (https://127.0.0.1/): add \
          `local = true` if that is meant, or a rule that denies these addresses"]
    );
    assert_eq!(allow("\"*\"", "local = true"), [""; 0]);
}

#[test]
fn cookies_of_everybody_are_named_hosts_cookies() {
    let found = lints(&rule("r", "allow", "\"cookies.read\"", "\"*\"", "local = true"));
    assert_eq!(
        found,
        ["p.toml:5:6: error: rule r: it hands out the cookies of every host: name the hosts whose cookies are needed"]
    );
    assert_eq!(lints(&rule("r", "allow", "\"*\"", "\"*\"", "local = true")), [""; 0]);
}

#[test]
fn a_script_gets_around_denials_of_what_it_can_do() {
    let script = rule("s", "allow", "\"script\"", "{ host = \"a.test\", subdomains = true }", "");
    for (verb, still) in [
        ("input", "submit forms"),
        ("cookies.read", "read cookies"),
        ("cookies.write", "set cookies"),
        ("storage.read", "read localStorage"),
        ("storage.write", "write localStorage"),
    ] {
        for to in ["\"*\"", "{ host = \"x.a.test\" }", "{ host = \"test\", subdomains = true }"] {
            let found = lints(&format!("{script}{}", rule("d", "deny", &format!("\"{verb}\""), to, "")));
            let start = format!(
                "p.toml:5:6: error: rule s: it allows `script` where rule d (line 11) denies `{verb}`, and a script can still {still}"
            );
            assert!(found.len() == 1 && found[0].starts_with(&start), "{verb} {to}: {found:?}");
        }
    }
    for harmless in [
        rule("d", "deny", "\"input\"", "{ host = \"b.test\" }", ""),
        rule("d", "deny", "\"input\", \"script\"", "{ host = \"x.a.test\" }", ""),
        rule("d", "deny", "\"input\"", "\"*\"", "except = [{ host = \"a.test\", subdomains = true }]"),
        rule("d", "deny", "\"input\"", "\"*\"", "mode = \"monitor\""),
        rule("d", "deny", "\"download\"", "\"*\"", ""),
    ] {
        assert_eq!(lints(&format!("{script}{harmless}")), [""; 0], "{harmless}");
    }
}

#[test]
fn rules_that_do_nothing_are_told() {
    let deny = |lines: &str| rule("d", "deny", "\"view\"", "{ host = \"test\", subdomains = true }", lines);
    let narrow = rule("r", "allow", "\"navigate\"", "{ host = \"a.test\" }", "");
    assert_eq!(
        lints(&format!("{narrow}{}", deny(""))),
        ["p.toml:5:6: warning: rule r: it never matters: rule d (line 11) denies all of it"]
    );
    for lines in ["paths = [\"/a\"]", "mode = \"monitor\"", "methods = [\"POST\"]", "ports = [80]", "except = [\"/x\"]"]
    {
        let found = lints(&format!("{narrow}{}", deny(lines)));
        assert!(!found.iter().any(|lint| lint.contains("never matters")), "{lines}: {found:?}");
    }
    assert_eq!(
        allow("{ host = \"a.test\" }", "schemes = [\"data\"]"),
        ["p.toml:5:6: warning: rule r: it can never match: data URLs have no host; write `to = \"*\"`"]
    );
    let read = rule("r", "allow", "\"read\"", "{ host = \"a.test\" }", "methods = [\"GET\"]");
    assert_eq!(
        lints(&read),
        ["p.toml:5:6: warning: rule r: it never allows `read`, which is no HTTP request and so has no method"]
    );
    let adopt = rule("r", "allow", "\"adopt\"", "{ host = \"a.test\" }", "");
    assert_eq!(
        lints(&adopt),
        ["p.toml:7:9: warning: the rule never matters: this version has no way to take over a person's tab"]
    );
}

#[test]
fn confirmations_and_dates_are_told() {
    let with = |effect: &str, more: &str| lints(&rule("r", effect, "\"navigate\"", "{ host = \"a.test\" }", more));
    assert_eq!(
        with("confirm", ""),
        [
            "p.toml:5:6: warning: rule r: it asks for a confirmation, and this version has nobody to ask: until then it denies"
        ]
    );
    assert_eq!(with("allow", "expires = 2026-11-30"), [""; 0]);
    assert_eq!(
        with("allow", "expires = 2026-11-29"),
        ["p.toml:5:6: warning: rule r: it expired on 2026-11-29 and has no effect: remove it, or set another date"]
    );
    assert_eq!(
        with("deny", "expires = 2026-11-29"),
        [
            "p.toml:5:6: warning: rule r: it expired on 2026-11-29 and still denies, since denials do not lapse: remove it, or the date"
        ]
    );
}

#[test]
fn spellings_that_mislead_are_told() {
    for path in ["/a//b", "/a/./b", "/a/../b", "/a\\\\b", "/a%2fb", "/a%5Cb"] {
        let found = allow("{ host = \"a.test\" }", &format!("paths = [\"{path}\"]"));
        assert!(found[0].starts_with("p.toml:9:10: error: the path `/a"), "{path}: {found:?}");
    }
    for path in ["/a/b", "/a/", "/%61", "/ü", "/**", "**/x", "**.js", "/", "/a/*/c"] {
        assert_eq!(allow("{ host = \"a.test\" }", &format!("paths = [\"{path}\"]")), [""; 0], "{path}");
    }
    assert_eq!(
        allow("{ host = \"bücher.test\" }", ""),
        [
            "p.toml:8:15: warning: `bücher.test` is judged as `xn--bcher-kva.test`, which can look like another name: write that, \
          with the other in a comment"
        ]
    );
}

#[test]
fn the_policies_that_come_along_have_no_errors() {
    for text in [
        include_str!("../../../policies/default.toml"),
        include_str!("../../../policies/strict.toml"),
        include_str!("../../../policies/read-only.toml"),
        include_str!("../../../policies/10-support-desk.toml"),
        include_str!("../../../policies/attached-shared.toml"),
    ] {
        let policy = Policy::parse(text, "p.toml").unwrap();
        let lints = policy.lints(Date::EARLIEST);
        assert!(lints.iter().all(|lint| lint.severity == Severity::Warning), "{}: {lints:?}", policy.name());
        assert!(
            lints.iter().all(|lint| policy.name() == "support-desk" && lint.message.contains("confirmation")),
            "{lints:?}"
        );
    }
}
