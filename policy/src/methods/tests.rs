//! The tables against the protocol that they describe, and against what real clients were seen to send.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Action, Delivery, EVENTS, METHODS, ParamKind, Row, all, all_events, event, method, parse};

const PROTOCOL: &str = include_str!("../../protocol/chromium-156.json");
const CLIENTS: &str = include_str!("../../protocol/clients.tsv");

/// A parameter as the protocol describes it: its path, and the name of its type (`string` or `Domain.Type`).
struct Described {
    path: String,
    kind: String,
    text: bool,
}

struct Protocol {
    domains: Vec<Value>,
    types: BTreeMap<String, Value>,
}

impl Protocol {
    fn read() -> Protocol {
        let mut protocol: Value = serde_json::from_str(PROTOCOL).unwrap();
        let Value::Array(domains) = protocol["domains"].take() else { panic!("no domains") };
        let mut types = BTreeMap::new();
        for domain in &domains {
            for kind in list(&domain["types"]) {
                types.insert(format!("{}.{}", text(&domain["domain"]), text(&kind["id"])), kind.clone());
            }
        }
        Protocol { domains, types }
    }

    /// (`Domain.name`, its parameters), of `commands` or `events`.
    fn all(&self, what: &str) -> Vec<(String, Vec<Described>)> {
        let mut found = Vec::new();
        for domain in &self.domains {
            let name = text(&domain["domain"]);
            for item in list(&domain[what]) {
                let mut params = Vec::new();
                for param in list(&item["parameters"]) {
                    self.describe(name, param, text(&param["name"]).to_owned(), &mut Vec::new(), &mut params);
                }
                found.push((format!("{name}.{}", text(&item["name"])), params));
            }
        }
        found
    }

    /// Follows references into objects and arrays; a type that contains itself is entered once.
    fn describe(&self, domain: &str, param: &Value, path: String, inside: &mut Vec<String>, out: &mut Vec<Described>) {
        if let Some(reference) = param["$ref"].as_str() {
            let name = match reference.contains('.') {
                true => reference.to_owned(),
                false => format!("{domain}.{reference}"),
            };
            let kind = &self.types[&name];
            let nested = kind["type"] == "array" || !list(&kind["properties"]).is_empty();
            if !nested {
                out.push(Described { path, text: is_free_text(kind), kind: name });
            } else if !inside.contains(&name) {
                let domain = name.split('.').next().unwrap().to_owned();
                inside.push(name);
                self.describe(&domain, kind, path, inside, out);
                inside.pop();
            }
        } else if param["type"] == "array" {
            self.describe(domain, &param["items"], path + "[]", inside, out);
        } else if param["type"] == "object" && !list(&param["properties"]).is_empty() {
            for property in list(&param["properties"]) {
                let path = format!("{path}.{}", text(&property["name"]));
                self.describe(domain, property, path, inside, out);
            }
        } else {
            let kind = text(&param["type"]).to_owned();
            out.push(Described { path, text: is_free_text(param), kind });
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn is_free_text(described: &Value) -> bool {
    described["type"] == "string" && described["enum"].is_null()
}

/// The kind that a parameter of this type needs.
fn owned_kind(kind: &str) -> Option<ParamKind> {
    Some(match kind {
        "Target.TargetID" => ParamKind::Target,
        "Page.FrameId" => ParamKind::Frame,
        "Target.SessionID" => ParamKind::Session,
        "Browser.BrowserContextID" => ParamKind::Context,
        "Browser.WindowID" => ParamKind::Window,
        "Runtime.ExecutionContextId" => ParamKind::World,
        "Runtime.RemoteObjectId" | "Debugger.CallFrameId" => ParamKind::Object,
        _ => return None,
    })
}

/// Whether a text can be a place or a name of something that others own, going by what it is called.
fn looks_like_a_place(path: &str) -> bool {
    const PARTS: [&str; 15] = [
        "url",
        "uri",
        "path",
        "file",
        "guid",
        "uuid",
        "origin",
        "host",
        "unique",
        "storagekey",
        "handle",
        "scope",
        "referrer",
        "proxy",
        "worldname",
    ];
    let leaf = path.rsplit('.').next().unwrap().to_ascii_lowercase();
    PARTS.iter().any(|part| leaf.contains(part)) || leaf.ends_with("contextname") || leaf.starts_with("stream")
}

fn is_sent(row: &Row) -> bool {
    let sent = |action| !matches!(action, Action::Refuse | Action::Absent);
    sent(row.on_page) || sent(row.on_root)
}

#[test]
fn every_row_can_be_read() {
    let (methods, errors) = parse::methods(METHODS);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(methods.len(), all().count(), "a method has two rows");
    let (events, errors) = parse::events(EVENTS);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(events.len(), all_events().count(), "an event has two rows");
}

#[test]
fn a_malformed_row_is_an_error() {
    for row in [
        "Page.navigate\tforward",
        "Page.navigate\tforward\tabsent\turl:url(navigate)\tnavigate\tHas a param to check.",
        "Page.navigate\tcheck\tabsent\t-\tnavigate\tHas none.",
        "Page.navigate\tcheck\tabsent\turl:url(fly)\tnavigate\tNo such verb.",
        "Page.navigate\tcheck\tabsent\turl\tnavigate\tNo kind.",
        "Page.navigate\tcheck\tabsent\turl:place\tnavigate\tNo such kind.",
        "Page.navigate\tallow\tabsent\t-\tnavigate\tNo such action.",
        "Page.navigate\tforward\tabsent\t-\tfly\tNo such verb.",
        "Page.navigate\tforward\tabsent\t-\tnavigate\tno sentence",
    ] {
        let (rows, errors) = parse::methods(row);
        assert_eq!((rows.len(), errors.len()), (0, 1), "{row}");
    }
    for row in ["Page.x\tdeliver\t-", "Page.x\tsend\t-\tNo.", "Page.x\tdeliver\tframeId:frame\tNobody looks."] {
        let (rows, errors) = parse::events(row);
        assert_eq!((rows.len(), errors.len()), (0, 1), "{row}");
    }
}

#[test]
fn every_method_of_the_protocol_has_a_row() {
    let protocol: BTreeSet<String> = Protocol::read().all("commands").into_iter().map(|(name, _)| name).collect();
    let table: BTreeSet<String> = all().map(|row| row.method.to_owned()).collect();
    assert_eq!(protocol, table);
    assert_eq!(table.len(), 674);
}

#[test]
fn every_event_of_the_protocol_has_a_row() {
    let protocol: BTreeSet<String> = Protocol::read().all("events").into_iter().map(|(name, _)| name).collect();
    let table: BTreeSet<String> = all_events().map(|row| row.event.to_owned()).collect();
    assert_eq!(protocol, table);
    assert_eq!(table.len(), 232);
}

#[test]
fn every_parameter_that_can_name_something_owned_is_in_its_row() {
    let mut missing = Vec::new();
    for (name, params) in Protocol::read().all("commands") {
        let row = method(&name).unwrap();
        if !is_sent(row) {
            continue;
        }
        for Described { path, kind, text } in params {
            let listed = row.params.iter().find(|param| param.path == path).map(|param| param.kind);
            let free = row.free.contains(&path.as_str());
            match owned_kind(&kind) {
                // Handles to objects may be free where nothing of their world can be reached through them.
                Some(ParamKind::Object) if free => {}
                Some(wanted) if listed == Some(wanted) => {}
                Some(wanted) => missing.push(format!("{name} {path}: {wanted:?}, not {listed:?}")),
                None if text && looks_like_a_place(&path) && listed.is_none() && !free => {
                    missing.push(format!("{name} {path} ({kind})"));
                }
                None => {}
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_listed_parameter_is_in_the_protocol() {
    let protocol = Protocol::read();
    let commands: BTreeMap<_, _> = protocol.all("commands").into_iter().collect();
    for row in all() {
        let known = |path: &str| commands[row.method].iter().any(|described| described.path == path);
        for path in row.params.iter().map(|param| param.path).chain(row.free.iter().copied()) {
            assert!(known(path), "{} has no {path}", row.method);
        }
    }
    let events: BTreeMap<_, _> = protocol.all("events").into_iter().collect();
    for row in all_events() {
        for param in &row.params {
            let described = events[row.event].iter().find(|described| described.path == param.path);
            let described = described.unwrap_or_else(|| panic!("{} has no {}", row.event, param.path));
            if let Some(kind) = owned_kind(&described.kind) {
                assert_eq!(param.kind, kind, "{} {}", row.event, param.path);
            }
        }
    }
}

/// An object of a world that the client may not enter is a way into it.
#[test]
fn no_event_hands_out_a_world_unseen() {
    for (name, params) in Protocol::read().all("events") {
        let row = event(&name).unwrap();
        let names_world = params.iter().any(|param| {
            matches!(owned_kind(&param.kind), Some(ParamKind::World)) && !param.path.contains("stackTrace")
        });
        assert!(!names_world || row.delivery != Delivery::Deliver, "{name}");
    }
}

#[test]
fn what_reaches_the_whole_browser_is_never_forwarded() {
    for row in all() {
        let domain = row.method.split('.').next().unwrap();
        let mediated = ["Target", "Browser", "Storage", "Tracing", "Extensions"].contains(&domain);
        assert!(!mediated || row.on_page != Action::Forward, "{} on a page session", row.method);
        let root_is_ours = matches!(row.on_root, Action::Answer | Action::Refuse | Action::Absent);
        assert!(root_is_ours, "{} on the browser's session", row.method);
    }
}

#[test]
fn what_runs_code_or_names_hosts_needs_a_verb() {
    for row in all().filter(|row| is_sent(row)) {
        let names_url = row.params.iter().any(|param| matches!(param.kind, ParamKind::Url(_)));
        assert!(!names_url || !row.verbs.is_empty(), "{}", row.method);
        let own_context = row.on_page == Action::OwnContext;
        assert!(!own_context || !row.verbs.is_empty(), "{}", row.method);
    }
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    for row in all().filter(|row| row.on_page == Action::Refuse || row.on_root == Action::Refuse) {
        if is_sent(row) {
            continue; // `decide` words the refusal on the other kind of session.
        }
        assert!(row.reason.contains(". "), "{}: {}", row.method, row.reason);
    }
}

/// What real clients send, and what becomes of it. A change here is a change of what they can do.
#[test]
fn what_clients_send_works_or_is_refused_for_a_reason() {
    let mut lines = 0;
    for line in CLIENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<_> = line.split('\t').collect();
        let [name, surface, outcome, _clients] = columns[..] else { panic!("{line}") };
        let row = method(name).unwrap_or_else(|| panic!("{name} has no row"));
        let action = match surface {
            "root" => row.on_root,
            "page" => row.on_page,
            other => panic!("unknown surface {other}"),
        };
        let becomes = match action {
            Action::Forward | Action::Check | Action::Answer => "works",
            Action::OwnContext => "isolated",
            Action::Refuse => "refused",
            Action::Absent => "absent",
        };
        assert_eq!(becomes, outcome, "{line}");
        lines += 1;
    }
    assert!(lines > 150, "only {lines} lines");
}
