//! The keys beyond the first ones: what they take, and what a wrong value is told.

use super::{HEAD, error, rule, rule_error};
use crate::{Included, Policy, Severity};

fn file_error(lines: &str) -> String {
    error(&format!("{HEAD}{lines}\n"))
}

#[test]
fn a_date_is_a_day_of_the_calendar() {
    let wanted = "a date without quotes, as in `expires = 2027-01-31`";
    for (value, message) in [
        ("\"2027-01-31\"", format!("`expires` has to be {wanted}, not a string")),
        ("2027-02-29", "the calendar has no day 2027-02-29".to_owned()),
        ("12:00:00", format!("`expires` has to be {wanted}: the rule holds through that day")),
        ("2027-01-31T12:00:00Z", format!("`expires` has to be {wanted}: the rule holds through that day")),
    ] {
        let found = rule_error(&format!("expires = {value}"));
        // TOML's own reader may know the calendar too.
        assert!(found == format!("p.toml:5:11: {message}") || found.contains("day"), "{found}");
    }
    assert!(Policy::parse(&rule("expires = 2028-02-29"), "p.toml").is_ok());
}

#[test]
fn modes_methods_and_conditions_are_checked() {
    assert_eq!(rule_error("mode = \"monitr\""), "p.toml:5:8: unknown mode `monitr`: did you mean `monitor`?");
    assert_eq!(file_error("mode = \"off\""), "p.toml:4:8: unknown mode `off`: the known ones are enforce, monitor");
    assert_eq!(
        rule_error("methods = [\"get\"]"),
        "p.toml:5:12: `get` is not a method of HTTP: write it in upper case, as in \"GET\""
    );
    assert_eq!(rule_error("local = 1"), "p.toml:5:9: `local` has to be true or false, not an integer");
    assert_eq!(
        rule_error("when = { }"),
        "p.toml:5:8: `when` needs `initiator`, for example `when = { initiator = { host = \"example.com\" } }`"
    );
    assert_eq!(
        rule_error("when = { initator = \"*\" }"),
        "p.toml:5:10: unknown key `initator` in `when`: did you mean `initiator`?"
    );
    assert_eq!(
        rule_error("when = { initiator = \"@x\" }"),
        "p.toml:5:22: there is no set `x`: define it as `[sets.x]` with `hosts = [...]`"
    );
}

#[test]
fn exceptions_are_hosts_sets_and_paths() {
    assert_eq!(
        rule_error("except = [\"a.test\"]"),
        "p.toml:5:11: `a.test` is not a bare host: write { host = \"a.test\" } for exactly this host, or { host = \"a.test\", \
         subdomains = true } for it and everything below"
    );
    assert_eq!(
        rule_error("except = [\"/a?b\"]"),
        "p.toml:5:11: `/a?b` holds a query or fragment, which are not judged: write the path alone"
    );
    assert_eq!(
        rule_error("except = [{ to = \"*\", path = [\"/a\"] }]"),
        "p.toml:5:23: unknown key `path` in an exception with `to`: did you mean `paths`?"
    );
    assert_eq!(
        rule_error("except = [{ host = \"a.test\", verbs = [] }]"),
        "p.toml:5:30: unknown key `verbs` in an exception: the known ones are host, ip, subdomains, paths"
    );
    assert_eq!(
        rule_error("except = []"),
        "p.toml:5:10: `except` is empty, so the rule could never match: name some, or leave the key out"
    );
}

#[test]
fn settings_are_typed() {
    assert_eq!(file_error("[limits]\ntab = 1"), "p.toml:5:1: unknown key `tab` in limits: did you mean `tabs`?");
    assert_eq!(
        file_error("[limits]\ntabs = 0"),
        "p.toml:5:8: `tabs` cannot be 0: write a number from 1 to 4294967295, or leave it out"
    );
    assert_eq!(
        file_error("[limits]\ndownload_mib = \"5\""),
        "p.toml:5:16: `download_mib` has to be a whole number, not a string"
    );
    for dir in ["srv", "./x", "/srv/../etc", ""] {
        assert_eq!(
            file_error(&format!("[files]\nread = [\"{dir}\"]")),
            format!("p.toml:5:9: `{dir}` is not an absolute path without `..`: write, for example, \"/srv/uploads\"")
        );
    }
    assert_eq!(
        file_error("[files]\nwrite = []"),
        "p.toml:5:9: `write` is empty: to grant nothing, deny the verb upload or download by a rule"
    );
    assert_eq!(
        file_error("[unenforceable]\nwebsockets = \"accept\""),
        "p.toml:5:1: unknown key `websockets` in unenforceable: did you mean `websocket`?"
    );
    assert_eq!(
        file_error("[unenforceable]\nwebrtc = \"tripwire\""),
        "p.toml:5:10: nothing tells when `webrtc` is used, so there is no tripwire for it: write \"refuse\" or \"accept\""
    );
    assert_eq!(
        file_error("[unenforceable]\nwebrtc = \"ignore\""),
        "p.toml:5:10: unknown value `ignore`: the known ones are refuse, tripwire, accept"
    );
}

#[test]
fn an_open_default_has_to_be_meant() {
    let text = "policy = 1\nname = \"x\"\ndefault = \"allow\"\n";
    let policy = Policy::parse(&format!("{text}allow_default = \"i-understand\"\n"), "p.toml").unwrap();
    assert_eq!(policy.lints(crate::Date::EARLIEST)[0].severity, Severity::Warning);
    assert!(Policy::parse(&format!("{text}mode = \"monitor\"\n"), "p.toml").is_ok());
    assert_eq!(
        error(&format!("{text}allow_default = true\n")),
        "p.toml:4:17: `allow_default` has to be a string in quotes, not true or false"
    );
    assert_eq!(
        error(&format!("{text}allow_default = \"yes\"\n")),
        "p.toml:4:17: `allow_default` can only be \"i-understand\", not \"yes\""
    );
}

fn with_included(include: &str, files: &[(&str, &str)]) -> Result<Policy, String> {
    let text = format!("{HEAD}include = {include}\n{}", rule("to = \"@desk\"").trim_start_matches(HEAD));
    let files: Vec<Included> =
        files.iter().map(|(file, text)| Included { file: (*file).to_owned(), text: (*text).to_owned() }).collect();
    Policy::parse_with(&text, "p.toml", &mut |pattern| match pattern {
        "broken" => Err("it is a directory".to_owned()),
        _ => Ok(files.clone()),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn sets_can_stand_in_files_of_their_own() {
    let set = "policy = 1\n[sets.desk]\nhosts = [{ host = \"a.test\" }]\n";
    let policy = with_included("[\"sets/*.toml\"]", &[("sets/desk.toml", set)]).unwrap();
    assert!(policy.judge(&crate::Question::new(crate::Verb::Read, "https://a.test/")).allowed());
    let fails = |include: &str, files: &[(&str, &str)]| with_included(include, files).unwrap_err();
    for bad in ["/etc/sets.toml", "../sets.toml", "https://a.test/sets.toml", "C:\\\\sets.toml", "a/../../b.toml", ""] {
        let message = fails(&format!("[\"{bad}\"]"), &[]);
        assert!(message.starts_with("p.toml:4:12: ") && message.contains("cannot be included"), "{message}");
    }
    assert_eq!(
        fails("[\"sets/*.toml\"]", &[]),
        "p.toml:4:12: `sets/*.toml` names no file: put one there, or remove it from `include`"
    );
    assert_eq!(fails("[\"broken\"]", &[]), "p.toml:4:12: `broken` cannot be included: it is a directory");
    assert_eq!(
        fails("[\"x\"]", &[("x.toml", "policy = 1\n[[rule]]\nid = \"a\"\n")]),
        "x.toml:2:3: unknown key `rule` in an included file, which has sets only: the known ones are policy, sets"
    );
    assert_eq!(fails("[\"x\"]", &[("x.toml", "policy = 2\n")]).split(": ").next(), Some("x.toml:1:10"));
    assert_eq!(
        fails("[\"x\"]", &[("x.toml", "[sets]\n")]),
        "x.toml:1:1: an included file, which has sets only needs `policy`, for example `policy = 1`"
    );
    assert_eq!(
        fails("[\"x\"]", &[("x.toml", set), ("y.toml", set)]),
        "y.toml:2:7: there is a set `desk` in an included file already: give this one another name"
    );
    assert_eq!(
        error(&format!("{HEAD}include = [\"x.toml\"]\n")),
        "p.toml:4:12: `x.toml` cannot be included: this policy is not read from a directory"
    );
}
