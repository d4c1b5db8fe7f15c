//! What the keys of a rule do to a verdict.

use std::sync::Arc;

use crate::{Date, Decision, LayerKind, Policies, Policy, Question, Verb, Verdict};

fn parse(text: &str) -> Policy {
    let text = format!("policy = 1\nname = \"x\"\ndefault = \"deny\"\n{text}");
    Policy::parse(&text, "x.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn rule(id: &str, effect: &str, lines: &str) -> String {
    let to = if lines.starts_with("to =") { "" } else { "to = \"*\"\n" };
    format!("[[rule]]\nid = \"{id}\"\neffect = \"{effect}\"\nverbs = [\"*\"]\n{to}{lines}\n")
}

fn on(text: &str, day: (u16, u8, u8)) -> Policies {
    let today = Date::new(day.0, day.1, day.2).unwrap();
    Policies::layered(vec![(LayerKind::Server, vec![Arc::new(parse(text))])], today).unwrap()
}

fn ask(text: &str, question: Question<'_>) -> Verdict {
    on(text, (2026, 11, 30)).judge(&question).verdict
}

fn at(url: &str) -> Question<'_> {
    Question::new(Verb::Subresource, url)
}

#[test]
fn exceptions_take_away_from_their_rule_alone() {
    let allow = rule("web", "allow", "");
    let deny = rule("no", "deny", "to = { host = \"a.test\" }\nexcept = [\"/ok/**\", { host = \"b.test\" }]");
    let text = format!("{allow}{deny}");
    for url in ["https://a.test/ok/x", "https://c.test/"] {
        assert_eq!(ask(&text, at(url)), Verdict::Allow, "{url}");
    }
    // A server may read the second as `/admin`: an exception to a denial has to match both readings.
    for url in ["https://a.test/", "https://a.test/ok/..%2f..%2fadmin", "https://a.test/ok"] {
        assert_eq!(ask(&text, at(url)), Verdict::Deny, "{url}");
    }
    let text = rule(
        "web",
        "allow",
        "except = [{ host = \"a.test\", paths = [\"/x/**\"] }, { to = \"*\", paths = [\"/never\"] }, { ip = \"10.0.0.0/8\" }]",
    );
    for url in ["https://a.test/", "https://b.test/x/1", "https://11.0.0.1/"] {
        assert_eq!(ask(&text, at(url)), Verdict::Allow, "{url}");
    }
    for url in ["https://a.test/x/1", "https://a.test/y%2f..%2fx/1", "https://b.test/never", "https://10-0-0-1.nip.io/"]
    {
        assert_eq!(ask(&text, at(url)), Verdict::Deny, "{url}");
    }
}

#[test]
fn denied_addresses_are_denied_under_names_and_allowed_ones_are_not_allowed() {
    let deny = format!("{}{}", rule("web", "allow", ""), rule("no", "deny", "to = { ip = \"127.0.0.0/8\" }"));
    let allow = rule("yes", "allow", "to = { ip = \"127.0.0.0/8\" }");
    assert_eq!(ask(&allow, at("https://127.0.0.1/")), Verdict::Allow);
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "localhost",
        "a.localhost",
        "127-0-0-1.nip.io",
        "0.0.0.0",
        "lvh.me",
    ] {
        let url = format!("https://{host}/");
        assert_eq!(ask(&deny, at(&url)), Verdict::Deny, "{host}");
    }
    for host in ["localhost", "127-0-0-1.nip.io", "lvh.me", "0.0.0.0", "[64:ff9b::7f00:1]"] {
        let url = format!("https://{host}/");
        assert_eq!(ask(&allow, at(&url)), Verdict::Deny, "{host}");
    }
    assert_eq!(ask(&deny, at("https://128-0-0-1.nip.io/")), Verdict::Allow);
}

#[test]
fn methods_that_are_not_known_are_denied() {
    let read_only = rule("read", "allow", "methods = [\"GET\", \"HEAD\"]");
    let no_post = format!("{}{}", rule("web", "allow", ""), rule("no", "deny", "methods = [\"POST\"]"));
    for text in [&read_only, &no_post] {
        let verdict = |method| ask(text, at("https://a.test/").with_method(method));
        assert_eq!(verdict(Some("GET")), Verdict::Allow);
        assert_eq!(verdict(Some("POST")), Verdict::Deny);
        assert_eq!(verdict(None), Verdict::Deny);
    }
    assert_eq!(ask(&read_only, at("https://a.test/").with_method(Some("get"))), Verdict::Deny);
}

#[test]
fn a_document_on_whose_behalf_it_happens_has_to_be_known() {
    let allow = rule("cdn", "allow", "when = { initiator = { host = \"desk.test\" } }");
    let deny = format!(
        "{}{}",
        rule("web", "allow", ""),
        rule("no", "deny", "when = { initiator = { host = \"desk.test\" } }")
    );
    let verdict = |text: &str, initiator| ask(text, at("https://cdn.test/").on_behalf_of(initiator));
    assert_eq!(verdict(&allow, Some("https://desk.test/x")), Verdict::Allow);
    assert_eq!(verdict(&deny, Some("https://desk.test/x")), Verdict::Deny);
    assert_eq!(verdict(&allow, Some("https://other.test/")), Verdict::Deny);
    assert_eq!(verdict(&deny, Some("https://other.test/")), Verdict::Allow);
    for unknown in [None, Some("about:blank"), Some("data:,"), Some("%"), Some("blob:null/1")] {
        assert_eq!(verdict(&allow, unknown), Verdict::Deny, "{unknown:?}");
        assert_eq!(verdict(&deny, unknown), Verdict::Deny, "{unknown:?}");
    }
    assert_eq!(verdict(&allow, Some("blob:https://desk.test/1")), Verdict::Allow);
}

#[test]
fn allow_and_confirm_lapse_and_deny_does_not() {
    let text = |effect: &str| rule("r", effect, "expires = 2026-11-30");
    let verdict = |text: &str, day| on(text, day).judge(&at("https://a.test/")).verdict;
    let (last, after) = ((2026, 11, 30), (2026, 12, 1));
    assert_eq!((verdict(&text("allow"), last), verdict(&text("allow"), after)), (Verdict::Allow, Verdict::Deny));
    let web = rule("web", "allow", "");
    let confirm = format!("{web}{}", text("confirm"));
    assert_eq!((verdict(&confirm, last), verdict(&confirm, after)), (Verdict::Confirm, Verdict::Allow));
    let deny = format!("{web}{}", text("deny"));
    assert_eq!((verdict(&deny, last), verdict(&deny, after)), (Verdict::Deny, Verdict::Deny));
    assert_eq!(
        on(&text("allow"), last).on(Date::new(2027, 1, 1).unwrap()).judge(&at("https://a.test/")).verdict,
        Verdict::Deny
    );
    let without_a_date = Policies::from(Arc::new(parse(&text("allow"))));
    assert!(!without_a_date.judge(&at("https://a.test/")).allowed());
    let everywhere = "ports = \"*\"\nschemes = [\"http\", \"https\", \"ws\", \"wss\"]\nexpires = 2026-11-30";
    let everywhere = rule("r", "allow", everywhere);
    assert!(
        on(&everywhere, last).allows_everywhere(Verb::Read) && !on(&everywhere, after).allows_everywhere(Verb::Read)
    );
}

#[test]
fn what_is_in_monitor_mode_changes_nothing_and_is_told() {
    let everywhere = rule("web", "allow", "ports = \"*\"\nschemes = [\"http\", \"https\", \"ws\", \"wss\"]");
    let rule_on_trial = format!("{everywhere}{}", rule("no", "deny", "to = { host = \"a.test\" }\nmode = \"monitor\""));
    let policies = on(&rule_on_trial, (2026, 11, 30));
    let decision = policies.judge(&at("https://a.test/"));
    assert!(decision.allowed());
    let would: Decision = *decision.would.expect("what it would have been");
    assert_eq!((would.verdict, would.rule.id.as_str()), (Verdict::Deny, "no"));
    assert_eq!(policies.judge(&at("https://b.test/")).would, None);
    assert!(!policies.allows_everywhere(Verb::Read), "a gate is needed to tell");

    let file_on_trial = format!("mode = \"monitor\"\n{}", rule("only", "allow", "to = { host = \"a.test\" }"));
    let policies = on(&file_on_trial, (2026, 11, 30));
    assert!(policies.judge(&at("https://a.test/")).would.is_none());
    let decision = policies.judge(&at("https://b.test/"));
    assert_eq!((decision.verdict, decision.rule.id.as_str()), (Verdict::Allow, "web"), "the built-in default holds");
    assert_eq!(decision.would.map(|would| would.verdict), Some(Verdict::Deny));
    assert!(!policies.judge(&at("file:///etc/passwd")).allowed());
    assert!(!policies.allows_everywhere(Verb::Read));
}

#[test]
fn an_open_default_opens_the_web_and_nothing_else() {
    let text = "policy = 1\nname = \"x\"\ndefault = \"allow\"\nallow_default = \"i-understand\"\n";
    let no = "[[rule]]\nid = \"no\"\neffect = \"deny\"\nverbs = [\"read\"]\nto = { host = \"a.test\" }\n";
    let policies = Policies::from(Arc::new(Policy::parse(&format!("{text}{no}"), "x.toml").unwrap()));
    let verdict = |url: &str| policies.judge(&Question::new(Verb::Read, url)).verdict;
    assert_eq!(verdict("http://b.test:8080/"), Verdict::Allow);
    for url in ["https://a.test/", "file:///x", "chrome://settings/", "data:,x", "%"] {
        assert_eq!(verdict(url), Verdict::Deny, "{url}");
    }
    assert!(policies.allows_everywhere(Verb::Navigate) && !policies.allows_everywhere(Verb::Read));
}

#[test]
fn the_lowest_limit_and_the_common_directories_hold() {
    let file = |name: &str, text: &str| {
        let text = format!("policy = 1\nname = \"{name}\"\ndefault = \"deny\"\n{text}");
        Arc::new(Policy::parse(&text, &format!("{name}.toml")).unwrap())
    };
    let admin = file("admin", "[limits]\ntabs = 5\ndownload_mib = 50\n[files]\nread = [\"/srv\", \"/data/in\"]\n");
    let task = file(
        "task",
        "[limits]\ntabs = 9\nnavigations_per_min = 60\ndownload_mib = 10\n[files]\nread = [\"/srv/a\", \"/data\", \"/etc\"]\nwrite = [\"/out\"]\n",
    );
    let layers = vec![(LayerKind::Admin, vec![admin]), (LayerKind::Task, vec![task])];
    let policies = Policies::layered(layers, Date::EARLIEST).unwrap();
    let limits = policies.limits();
    let told = |limit: Option<crate::Limit>| limit.map(|limit| (limit.value, limit.rule.to_string()));
    assert_eq!(told(limits.tabs), Some((5, "limits.tabs (admin.toml:5)".into())));
    assert_eq!(told(limits.download_mib), Some((10, "limits.download_mib (task.toml:7)".into())));
    assert_eq!(told(limits.navigations_per_min), Some((60, "limits.navigations_per_min (task.toml:6)".into())));
    assert_eq!(policies.read_dirs(), Some(vec!["/srv/a".into(), "/data/in".into()]));
    assert_eq!(policies.write_dirs(), Some(vec!["/out".into()]));
    assert_eq!(Policies::built_in().read_dirs(), None);
}
