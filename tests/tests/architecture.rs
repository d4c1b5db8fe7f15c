//! What may depend on what, what the pure crates may not contain, and that the table, its handlers and the policies agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use policy::Policy;
use policy::methods::{self, Action};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is below the workspace").to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below, in order.
fn sources(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![below.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_owned();
            if path.is_dir() && name != "target" && name != "node_modules" {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no Rust files below {}", below.display());
    found
}

/// The code that is compiled into the product, without comments: test modules stand at the end of their file, or in files
/// and folders of that name.
fn product_code(path: &Path) -> Option<String> {
    let is_test = path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs");
    if is_test {
        return None;
    }
    let text = read(path);
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    Some(code.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(String::new(), |mut all, line| {
        all.push_str(line);
        all.push('\n');
        all
    }))
}

/// Whether the words stand there by themselves: `fs::` is not in `offs::`.
fn contains_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let ends_open = word.ends_with(|c: char| !part_of_name(c));
        !before.is_some_and(part_of_name) && (ends_open || !after.is_some_and(part_of_name))
    })
}

fn dependencies(member: &str) -> BTreeSet<String> {
    let manifest: toml::Table = read(&root().join(member).join("Cargo.toml")).parse().expect("a manifest");
    let names = |section: &str| {
        let table = manifest.get(section).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        table.keys().cloned().collect::<Vec<_>>()
    };
    names("dependencies").into_iter().chain(names("build-dependencies")).collect()
}

#[test]
fn dependencies_point_one_way() {
    const CHAIN: [&str; 4] = ["ownership", "policy", "router", "cli"];
    for (place, member) in CHAIN.iter().enumerate() {
        for dependency in dependencies(member) {
            let Some(other) = CHAIN.iter().position(|name| *name == dependency) else { continue };
            assert!(other < place, "{member} depends on {dependency}: only those to its left in {CHAIN:?} are allowed");
        }
    }
}

/// A new dependency of a pure crate is a decision, so each one is named here.
#[test]
fn pure_crates_depend_on_little() {
    let allowed = BTreeMap::from([
        ("ownership", BTreeSet::from(["rustc-hash"])),
        ("policy", BTreeSet::from(["ownership", "psl", "ring", "rustc-hash", "toml", "url"])),
    ]);
    for (member, allowed) in allowed {
        for dependency in dependencies(member) {
            assert!(allowed.contains(dependency.as_str()), "{member} depends on {dependency}, which is not named here");
        }
    }
}

#[test]
fn pure_code_does_no_io_reads_no_clock_and_draws_no_ids() {
    const PURE: [&str; 4] = ["ownership/src", "policy/src", "router/src/engine", "router/src/wire"];
    // Of `std::net` the addresses are values like any other; the rest is I/O.
    const WORDS: [&str; 25] = [
        "tokio",
        "futures",
        "hyper",
        "axum",
        "async",
        ".await",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "fs::",
        "env::",
        "process::",
        "thread::",
        "std::io",
        "Instant::now",
        "SystemTime",
        "Mutex",
        "RwLock",
        "rand",
        "getrandom",
        "println!",
        "eprintln!",
        "tracing",
        "crate::server",
    ];
    let mut found = Vec::new();
    for path in PURE.iter().flat_map(|folder| sources(&root().join(folder))) {
        let Some(code) = product_code(&path) else { continue };
        for (line, text) in code.lines().enumerate() {
            for word in WORDS.iter().filter(|word| contains_word(text, word)) {
                found.push(format!("{}:{}: `{word}`", path.display(), line + 1));
            }
        }
    }
    assert!(found.is_empty(), "the pure crates have no I/O, no clock and no randomness:\n{}", found.join("\n"));
}

#[test]
fn the_scan_finds_what_it_looks_for() {
    assert!(contains_word("use std::{fs::File, io};", "fs::"));
    assert!(contains_word("let now = Instant::now();", "Instant::now"));
    assert!(contains_word("async fn x() {}", "async"));
    assert!(!contains_word("let offs::x", "fs::"));
    assert!(!contains_word("fn asynchronous()", "async"));
    assert!(!contains_word("operand", "rand"));
}

/// A row that promises an answer which nobody wrote is refused as unknown: closed, but not what the table says.
#[test]
fn every_answer_of_the_table_has_a_handler_and_the_reverse() {
    let promised: BTreeSet<&str> = methods::all()
        .filter(|row| row.on_page == Action::Answer || row.on_root == Action::Answer)
        .map(|row| row.method)
        .collect();
    let code = read(&root().join("router/src/engine/answers/mod.rs"));
    let arms = code.split("match row.method {").nth(1).expect("the match on the method");
    let arms = arms.split("method => ").next().expect("its last arm");
    // Left of each arrow: the methods that it handles.
    let handled: BTreeSet<&str> = arms
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| {
            text.split_once('.').is_some_and(|(domain, _)| domain.starts_with(|c: char| c.is_ascii_uppercase()))
        })
        .collect();
    let unhandled: Vec<_> = promised.difference(&handled).collect();
    let unpromised: Vec<_> = handled.difference(&promised).collect();
    assert!(unhandled.is_empty(), "the table says `answer`, and answers/mod.rs has no arm for: {unhandled:?}");
    assert!(
        unpromised.is_empty(),
        "answers/mod.rs has an arm, and the table does not say `answer` for: {unpromised:?}"
    );
}

#[test]
fn every_policy_passes_its_own_tests() {
    let folder = root().join("policies");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("policies/") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let policy = Policy::parse(&read(&path), &path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
        let failures: Vec<String> = policy.run_tests().iter().map(ToString::to_string).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        assert!(policy.test_count() > 0, "{} has no [[test]] of its own", path.display());
        seen += 1;
    }
    assert!(seen > 0, "there are no policies in {}", folder.display());
}

#[test]
fn nothing_is_left_undone() {
    // Put together, so that this file does not find itself.
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let mut found = Vec::new();
    for member in ["ownership", "policy", "router", "cli", "tests"] {
        for path in sources(&root().join(member)) {
            let text = read(&path);
            let hits = text.lines().enumerate().filter(|(_, line)| words.iter().any(|word| contains_word(line, word)));
            found.extend(hits.map(|(line, text)| format!("{}:{}: {}", path.display(), line + 1, text.trim())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
