//! What a wrong policy file is told, word for word, and that no input makes the reader panic.

use crate::{Policy, Question, Verb, Verdict};

mod keys;

const HEAD: &str = "policy = 1\nname = \"x\"\ndefault = \"deny\"\n";

fn error(text: &str) -> String {
    Policy::parse(text, "p.toml").expect_err(text).to_string()
}

/// The error of a file whose only rule (from line 4) has these lines beside the usual ones.
fn rule_error(lines: &str) -> String {
    error(&rule(lines))
}

fn rule(lines: &str) -> String {
    let mut text = format!("{HEAD}[[rule]]\n{lines}\n");
    for (key, line) in
        [("id", "id = \"r\""), ("effect", "effect = \"allow\""), ("verbs", "verbs = [\"view\"]"), ("to", "to = \"*\"")]
    {
        if !lines.lines().any(|given| given.starts_with(&format!("{key} "))) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn to_error(to: &str) -> String {
    rule_error(&format!("to = {to}"))
}

#[test]
fn the_head_is_complete_and_of_this_version() {
    assert_eq!(error(""), "p.toml:1:1: the file is empty: a policy begins with `policy = 1` and `default = \"deny\"`");
    assert_eq!(error("name = \"x\"\n"), "p.toml:1:1: a policy needs `policy`, for example `policy = 1`");
    assert_eq!(
        error("policy = 1\ndefault = \"deny\""),
        "p.toml:1:1: a policy needs `name`, for example `name = \"support-desk\"`"
    );
    assert_eq!(
        error("policy = 1\nname = \"x\""),
        "p.toml:1:1: a policy needs `default`, for example `default = \"deny\"`"
    );
    assert_eq!(
        error("name = 3\npolicy = 2\nwhatever = 1"),
        "p.toml:2:10: format version 2 is unknown: this version of Tabwarden reads `policy = 1`"
    );
    assert_eq!(error("policy = \"1\""), "p.toml:1:10: `policy` has to be the format version 1, not a string");
    assert_eq!(error("policy = 1\nname = 1"), "p.toml:2:8: `name` has to be a string in quotes, not an integer");
    assert_eq!(error("policy = 1\nname = \"\""), "p.toml:2:8: `name` is empty: give the policy a name");
    assert_eq!(
        error("policy = 1\nname = \"x\"\ndefault = \"allow\""),
        "p.toml:3:11: `default` can only be \"deny\", not \"allow\": allow by rules what may happen, or add \
         `allow_default = \"i-understand\"`"
    );
    assert_eq!(
        error("policy = 1\nname = \"x\"\ndefault = \"ask\""),
        "p.toml:3:11: `default` can only be \"deny\", not \"ask\": allow by rules what may happen"
    );
}

#[test]
fn what_is_no_toml_has_a_place() {
    assert_eq!(error("policy = 1\nname = \n"), "p.toml:2:8: string values must be quoted, expected literal string");
    assert_eq!(error("policy = 1\npolicy = 1\n"), "p.toml:2:1: duplicate key");
    assert_eq!(error("policy = 1\nname = \"é\" ö"), "p.toml:2:12: unexpected key or value, expected newline, `#`");
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_spelling() {
    assert_eq!(
        error(&format!("{HEAD}rules = []")),
        "p.toml:4:1: unknown key `rules` in a policy: did you mean `rule`?"
    );
    assert_eq!(rule_error("port = [80]"), "p.toml:5:1: unknown key `port` in a rule: did you mean `ports`?");
    assert_eq!(
        rule_error("shcemes = [\"http\"]"),
        "p.toml:5:1: unknown key `shcemes` in a rule: did you mean `schemes`?"
    );
    assert_eq!(
        rule_error("quux = 1"),
        "p.toml:5:1: unknown key `quux` in a rule: the known ones are id, effect, verbs, to, except, schemes, \
         ports, paths, methods, when, mode, expires, local, reason"
    );
    assert_eq!(to_error("{ hots = \"a.test\" }"), "p.toml:5:8: unknown key `hots` in a host: did you mean `host`?");
    assert_eq!(
        error(&format!("{HEAD}[sets.a]\nhost = []")),
        "p.toml:5:1: unknown key `host` in a set: did you mean `hosts`?"
    );
    assert_eq!(
        error(&format!("{HEAD}[[test]]\nverb = \"read\"\nurl = \"a\"\nexpects = \"deny\"")),
        "p.toml:7:1: unknown key `expects` in a test: did you mean `expect`?"
    );
}

#[test]
fn what_comes_later_is_refused_by_name() {
    let later = |key: &str| format!("`{key}` is not supported by this version of Tabwarden: remove it");
    assert_eq!(error(&format!("{HEAD}[hardening]")), format!("p.toml:4:2: {}", later("hardening")));
    let limits = error(&format!("{HEAD}[limits]\nidle_release = \"30m\""));
    assert_eq!(limits, format!("p.toml:5:1: {}", later("idle_release")));
}

#[test]
fn a_rule_is_complete() {
    assert_eq!(
        error(&format!("{HEAD}[[rule]]\neffect = \"allow\"")),
        "p.toml:4:1: a rule needs `id`, for example `id = \"read-desk\"`"
    );
    assert_eq!(
        error(&format!("{HEAD}[[rule]]\nid = \"r\"\neffect = \"allow\"\nto = \"*\"")),
        "p.toml:4:1: a rule needs `verbs`, for example `verbs = [\"view\"]`"
    );
    assert_eq!(rule_error("id = \"a b\""), "p.toml:5:6: `a b` is not an id: use letters, digits, `-`, `_` and `.`");
    assert_eq!(
        rule_error("id = \"default\""),
        "p.toml:5:6: `default` is the id of the file's default: give the rule another one"
    );
    assert_eq!(rule_error("effect = \"alow\""), "p.toml:5:10: unknown effect `alow`: did you mean `allow`?");
    assert_eq!(
        error(&format!("{HEAD}[rule]\nid = \"a\"")),
        "p.toml:4:1: `rule` has to be an array of tables (`[[rule]]`), not a table"
    );
}

#[test]
fn ids_are_unique() {
    let rule = "[[rule]]\nid = \"a\"\neffect = \"allow\"\nverbs = [\"read\"]\nto = \"*\"\n";
    assert_eq!(
        error(&format!("{HEAD}{rule}{rule}")),
        "p.toml:10:6: the id `a` is already that of the rule in line 5: give this one another"
    );
}

#[test]
fn verbs_are_a_closed_list() {
    assert_eq!(rule_error("verbs = [\"navigat\"]"), "p.toml:5:10: unknown verb `navigat`: did you mean `navigate`?");
    assert_eq!(
        rule_error("verbs = [\"cookie.read\"]"),
        "p.toml:5:10: unknown verb `cookie.read`: did you mean `cookies.read`?"
    );
    assert_eq!(rule_error("verbs = \"*\""), "p.toml:5:9: `verbs` has to be an array, not a string");
    assert_eq!(
        rule_error("verbs = []"),
        "p.toml:5:9: `verbs` is empty, so the rule could never match: name some, or \"*\""
    );
}

#[test]
fn a_host_is_bare() {
    let both = |text: &str| {
        format!(
            "p.toml:5:15: `{text}` is not a bare host: write {{ host = \"a.test\" }} for exactly this host, or {{ host = \"a.test\", \
             subdomains = true }} for it and everything below"
        )
    };
    for text in [".a.test", "*.a.test", "*a.test", "a.test:443", "x@a.test", "a.test?x"] {
        assert_eq!(to_error(&format!("{{ host = \"{text}\" }}")), both(text));
    }
    for text in ["https://a.test", "a.test/x", "https://u:p@a.test:8/x?y#z", "*://*.a.test/*"] {
        let expected = format!("{}; schemes, ports and paths are keys of the rule", both(text));
        assert_eq!(to_error(&format!("{{ host = \"{text}\" }}")), expected);
    }
    assert_eq!(
        to_error("\"a.test\""),
        "p.toml:5:6: `a.test` is not a bare host: write { host = \"a.test\" } for exactly this host, or { host = \"a.test\", \
         subdomains = true } for it and everything below"
    );
    assert_eq!(to_error("{ host = \"*\" }"), "p.toml:5:15: `*` is not a host: write { host = \"example.com\" }");
    assert_eq!(to_error("{ host = \"a..test\" }"), "p.toml:5:15: `a..test` has an empty label: remove the extra dot");
    assert_eq!(
        to_error("{ host = \"127.1\" }"),
        "p.toml:5:15: `127.1` is an address, not a name: write { ip = \"127.0.0.1\" }"
    );
    assert_eq!(
        to_error("{ host = \"[::1]\" }"),
        "p.toml:5:15: `[::1]` is an address, not a name: write { ip = \"::1\" }"
    );
    assert_eq!(
        to_error("{ host = \"a b\" }"),
        "p.toml:5:15: `a b` is not a host (invalid international domain name): write the bare name"
    );
    assert_eq!(
        to_error("{ host = \"a.test\", subdomains = \"all\" }"),
        "p.toml:5:38: `subdomains` has to be true, false or \"only\", not a string"
    );
    assert_eq!(
        to_error("{ }"),
        "p.toml:5:6: a host needs either `host` or `ip`, for example { host = \"example.com\" }"
    );
    assert_eq!(
        to_error("{ host = \"a.test\", ip = \"::1\" }"),
        "p.toml:5:6: a host needs either `host` or `ip`, for example { host = \"example.com\" }"
    );
}

#[test]
fn an_address_is_an_address() {
    let ip = |text: &str| to_error(&format!("{{ ip = \"{text}\" }}"));
    assert_eq!(
        ip("a.test"),
        "p.toml:5:13: `a.test` is not an address or network: write, for example, \"10.20.0.0/16\" or \"::1\""
    );
    assert_eq!(ip("10.0.0.0/33"), "p.toml:5:13: `/33` is not a prefix length: write a number from 0 to 32");
    assert_eq!(ip("::/+8"), "p.toml:5:13: `/+8` is not a prefix length: write a number from 0 to 128");
    assert_eq!(
        ip("10.20.1.0/16"),
        "p.toml:5:13: `10.20.1.0/16` has bits set beyond its prefix: write \"10.20.0.0/16\""
    );
    assert_eq!(
        ip("::ffff:10.0.0.1"),
        "p.toml:5:13: `::ffff:10.0.0.1` is an IPv4 address in IPv6's clothes, judged as IPv4: write \"10.0.0.1\""
    );
    assert_eq!(
        to_error("{ ip = \"::1\", subdomains = true }"),
        "p.toml:5:33: an `ip` has no subdomains: remove the key"
    );
    for all in ["0.0.0.0/0", "::/0", "255.255.255.255/32", "10.0.0.1/32"] {
        assert!(Policy::parse(&rule(&format!("to = {{ ip = \"{all}\" }}")), "p.toml").is_ok(), "{all}");
    }
}

#[test]
fn sets_exist() {
    assert_eq!(
        to_error("\"@desk\""),
        "p.toml:5:6: there is no set `desk`: define it as `[sets.desk]` with `hosts = [...]`"
    );
    let text = format!("{}[sets.helpdesk]\nhosts = [{{ host = \"a.test\" }}]\n", rule("to = [\"@helpdsk\"]"));
    assert_eq!(error(&text), "p.toml:5:7: there is no set `helpdsk`: did you mean `helpdesk`?");
    assert_eq!(to_error("[\"*\"]"), "p.toml:5:7: `\"*\"` already means everywhere: write `to = \"*\"` alone");
    assert_eq!(to_error("3"), "p.toml:5:6: `to` has to be \"*\", \"@set\" or { host = \"...\" }, not an integer");
    assert_eq!(to_error("[]"), "p.toml:5:6: `to` is empty, so the rule could never match: name some, or \"*\"");
    assert_eq!(
        error(&format!("{HEAD}[sets.a]\nhosts = [\"a.test\"]")),
        "p.toml:5:10: `a.test` is not a bare host: write { host = \"a.test\" } for exactly this host, or { host = \"a.test\", \
         subdomains = true } for it and everything below"
    );
    assert_eq!(
        error(&format!("{HEAD}[sets.a]")),
        "p.toml:4:7: a set needs `hosts`, for example `hosts = [{ host = \"example.com\" }]`"
    );
}

#[test]
fn schemes_ports_and_paths_are_checked() {
    assert_eq!(
        rule_error("schemes = [\"https:\"]"),
        "p.toml:5:12: `https:` is not a scheme: write it in lower case and without a colon, as in \"https\""
    );
    assert_eq!(
        rule_error("schemes = [\"blob\"]"),
        "p.toml:5:12: a `blob:` URL is judged by the origin inside it: name that origin's scheme"
    );
    for port in ["0", "65536", "-1"] {
        let expected = format!("p.toml:5:10: {port} is not a port: write a number from 1 to 65535");
        assert_eq!(rule_error(&format!("ports = [{port}]")), expected);
    }
    assert_eq!(
        rule_error("ports = [\"80\"]"),
        "p.toml:5:10: `ports` has to be \"*\" or an array of numbers, not a string"
    );
    assert_eq!(
        rule_error("paths = [\"admin/**\"]"),
        "p.toml:5:10: the path `admin/**` has to begin with `/`, or with `**` for any beginning"
    );
    assert_eq!(
        rule_error("paths = [\"/a?b\"]"),
        "p.toml:5:10: `/a?b` holds a query or fragment, which are not judged: write the path alone"
    );
    assert_eq!(
        rule_error("paths = [\"/***\"]"),
        "p.toml:5:10: `/***` has three stars: `*` stops at `/`, `**` does not"
    );
}

#[test]
fn the_embedded_tests_run() {
    let test = |expect: &str, rule: &str| {
        format!(
            "{}[[test]]\nverb = \"read\"\nurl = \"https://a.test/\"\nexpect = \"{expect}\"\nrule = \"{rule}\"\n",
            self::rule("")
        )
    };
    assert_eq!(Policy::parse(&test("allow", "r"), "p.toml").unwrap().run_tests(), []);
    let failures = Policy::parse(&test("deny", "q"), "p.toml").unwrap().run_tests();
    assert_eq!(
        failures[0].to_string(),
        "p.toml:11: read https://a.test/ was expected to be deny by rule q, but is allow by rule r (p.toml:6)"
    );
    assert_eq!(Policy::parse(&test("allow", "q"), "p.toml").unwrap().run_tests().len(), 1);
}

#[test]
fn groups_are_their_verbs() {
    let verdict = |group: &str, verb| {
        let text = rule(&format!("verbs = [\"{group}\"]"));
        Policy::parse(&text, "p.toml").unwrap().judge(&Question::new(verb, "https://a.test/")).verdict
    };
    for verb in Verb::ALL {
        let expected = |group: &[Verb]| if group.contains(verb) { Verdict::Allow } else { Verdict::Deny };
        assert_eq!(verdict("view", *verb), expected(crate::verb::VIEW), "{verb}");
        assert_eq!(verdict("use", *verb), expected(crate::verb::USE), "{verb}");
        assert_eq!(verdict("*", *verb), Verdict::Allow, "{verb}");
        assert_eq!(verdict(verb.as_str(), *verb), Verdict::Allow, "{verb}");
    }
    assert!(crate::verb::VIEW.iter().all(|verb| crate::verb::USE.contains(verb)));
}

/// A small xorshift: the same bytes on every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    let whole = include_str!("../../../../policies/default.toml");
    let alphabet: Vec<char> = "[]{}\"'=,.#\n\r\t @*/:-+0129abz_\\\u{0}é\u{feff}\u{1f600}".chars().collect();
    let mut noise = Noise(0x7ab3_a4de);
    for _ in 0..3000 {
        let mut text: Vec<char> = match noise.below(3) {
            0 => Vec::new(),
            1 => rule("to = { host = \"a.test\" }\npaths = [\"/a/*\"]\nports = [80]").chars().collect(),
            _ => whole.chars().collect(),
        };
        for _ in 0..noise.below(40) + 1 {
            let at = noise.below(text.len() + 1);
            let character = alphabet[noise.below(alphabet.len())];
            match noise.below(3) {
                0 if at < text.len() => text[at] = character,
                1 if at < text.len() => drop(text.remove(at)),
                _ => text.insert(at, character),
            }
        }
        let text: String = text.into_iter().collect();
        match Policy::parse(&text, "p.toml") {
            Ok(policy) => drop(policy.run_tests()),
            Err(error) => assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty()),
        }
    }
}

#[test]
fn no_bytes_make_the_judge_panic() {
    let policy = Policy::built_in();
    let mut noise = Noise(0x5eed);
    let starts = ["", "http://", "https://a.test/", "blob:", "about:", "data:", "http://[", "chrome://", "file://"];
    for _ in 0..20_000 {
        let mut bytes = starts[noise.below(starts.len())].as_bytes().to_vec();
        bytes.extend((0..noise.below(24)).map(|_| noise.below(256) as u8));
        let url = String::from_utf8_lossy(&bytes);
        let decision = policy.judge(&Question::new(Verb::Navigate, &url).created_by(Some(&url)));
        assert!(decision.sentence("x").ends_with('.'));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for open in ["[", "{a="] {
        let text = format!("{HEAD}rule = {}", open.repeat(100_000));
        assert!(Policy::parse(&text, "p.toml").is_err());
    }
}
