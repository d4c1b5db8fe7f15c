//! Decisions on described commands, and their sentences.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Decision, Grants, Policies, Policy, Question, Request, Surface, Verb, Verdict, admit, decide, methods};

fn grants() -> Grants {
    Grants {
        read_dirs: vec![PathBuf::from("/srv/up")],
        write_dirs: vec![PathBuf::from("/srv/down")],
        temp_dir: PathBuf::from("/tmp"),
    }
}

fn request(method: &str, surface: Surface) -> Request<'static> {
    let row = methods::method(method).unwrap();
    Request { row, surface, shared_profile: false, urls: &[], read_paths: &[], write_paths: &[] }
}

fn judge(request: &Request<'_>) -> Decision {
    decide(&Policies::built_in(), &grants(), request)
}

fn sentence(request: &Request<'_>) -> String {
    judge(request).sentence(request.row.method)
}

/// The line of a row changes with every edit of the table.
fn without_line(text: &str) -> String {
    let (before, after) = text.split_once("methods.tsv:").unwrap();
    format!("{before}methods.tsv:N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn what_touches_only_the_page_is_allowed() {
    for surface in [Surface::Page, Surface::Child] {
        let decision = judge(&request("Runtime.evaluate", surface));
        assert!(decision.allowed());
        assert_eq!(decision.rule.id, "Runtime.evaluate");
        assert_eq!(admit(&decision, 7).map(|permitted| permitted.into_inner()), Some(7));
    }
}

#[test]
fn a_refusal_gives_no_permit() {
    let decision = judge(&request("Tracing.getCategories", Surface::Page));
    assert!(admit(&decision, 7).is_none());
}

#[test]
fn refusals_stand_alone() {
    assert_eq!(
        without_line(&sentence(&request("Tracing.getCategories", Surface::Root))),
        "tabwarden: Tracing.getCategories denied by rule Tracing.getCategories (methods.tsv:N): it is about every tab of the \
         browser, the person's included, and is not cut to a task. Use Tracing.start and Tracing.end, which are."
    );
    assert_eq!(
        without_line(&sentence(&request("Browser.close", Surface::Page))),
        "tabwarden: Browser.close denied by rule Browser.close (methods.tsv:N): from a page session it would end the whole \
         browser. Send it without a sessionId: it ends what this client made."
    );
    assert_eq!(
        without_line(&sentence(&request("Fetch.enable", Surface::Root))),
        "tabwarden: Fetch.enable denied by rule Fetch.enable (methods.tsv:N): on the browser's session it reaches beyond the \
         pages of the task. Send it with the sessionId of a page."
    );
    assert_eq!(
        without_line(&sentence(&request("Page.enable", Surface::Root))),
        "tabwarden: Page.enable denied by rule Page.enable (methods.tsv:N): this kind of session does not have the method. \
         Send it with the sessionId of a page."
    );
}

#[test]
fn every_refusal_is_a_sentence_with_advice() {
    for row in methods::all() {
        for surface in [Surface::Root, Surface::Page] {
            for shared_profile in [false, true] {
                let request = Request { shared_profile, ..request(row.method, surface) };
                let decision = judge(&request);
                let text = decision.sentence(row.method);
                assert!(text.ends_with('.') && !text.contains(".."), "{text}");
                assert!(decision.allowed() || text.matches(". ").count() >= 1, "{text}");
            }
        }
    }
}

#[test]
fn profile_wide_methods_need_a_context_of_their_own() {
    let mut cache = request("Network.clearBrowserCache", Surface::Page);
    assert!(judge(&cache).allowed());
    cache.shared_profile = true;
    assert_eq!(
        without_line(&sentence(&cache)),
        "tabwarden: Network.clearBrowserCache denied by rule Network.clearBrowserCache (methods.tsv:N): it empties the HTTP \
         cache of the whole browser context. This task works in the person's profile. Use a task with a browser \
         context of its own (`tabwarden task new NAME --context isolated`)."
    );
}

#[test]
fn every_url_has_to_be_allowed() {
    let with = |urls| Request { urls, ..request("Page.navigate", Surface::Page) };
    assert!(judge(&with(&[(Verb::Navigate, "https://example.com/")])).allowed());
    assert!(judge(&with(&[(Verb::Navigate, "data:text/html,x"), (Verb::Navigate, "about:blank")])).allowed());
    let refused = with(&[(Verb::Navigate, "https://example.com/"), (Verb::Navigate, "file:///etc/passwd")]);
    assert_eq!(
        judge(&refused).sentence("navigate to file:///etc/passwd"),
        "tabwarden: navigate to file:///etc/passwd denied by rule default (default.toml:9): no rule names the scheme `file`. \
         Use what the policy allows, or ask whoever keeps default.toml for an allow rule."
    );
}

#[test]
fn a_policy_rule_speaks_for_itself() {
    let text = "policy = 1\nname = \"x\"\ndefault = \"deny\"\n[[rule]]\nid = \"no-admin\"\neffect = \"deny\"\nverbs = [\"*\"]\n\
                to = \"*\"\nreason = \"Account changes need a person.\"\n";
    let decision =
        Policy::parse(text, "10-desk.toml").unwrap().judge(&Question::new(Verb::Navigate, "https://x.test/"));
    assert_eq!(
        decision.sentence("navigate to https://x.test/"),
        "tabwarden: navigate to https://x.test/ denied by rule no-admin (10-desk.toml:5): Account changes need a person. Use \
         what the policy allows, or ask whoever keeps the policy file to change it."
    );
    let confirm = text.replace("effect = \"deny\"", "effect = \"confirm\"");
    let decision =
        Policy::parse(&confirm, "10-desk.toml").unwrap().judge(&Question::new(Verb::Navigate, "https://x.test/"));
    assert_eq!(decision.verdict, Verdict::Confirm);
    assert!(admit(&decision, ()).is_none());
    assert_eq!(
        decision.sentence("navigate to https://x.test/"),
        "tabwarden: navigate to https://x.test/ denied by rule no-admin (10-desk.toml:5): Account changes need a person; a \
         person has to confirm it, and this version has nobody to ask. Use what is allowed without confirmation, or ask \
         whoever keeps the policy file for an allow rule."
    );
}

#[test]
fn a_confirmation_is_not_outvoted_by_an_allow() {
    let text = "policy = 1\nname = \"x\"\ndefault = \"deny\"\n[[rule]]\nid = \"a\"\neffect = \"allow\"\nverbs = [\"*\"]\n\
                to = { host = \"a.test\" }\n[[rule]]\nid = \"c\"\neffect = \"confirm\"\nverbs = [\"*\"]\nto = { host = \"c.test\" }\n";
    let policy = Policy::parse(text, "x.toml").unwrap();
    let urls = [(Verb::Navigate, "https://c.test/"), (Verb::Navigate, "https://a.test/")];
    let request = Request { urls: &urls, ..request("Page.navigate", Surface::Page) };
    assert_eq!(decide(&Policies::from(Arc::new(policy)), &grants(), &request).verdict, Verdict::Confirm);
}

#[test]
fn files_are_read_below_granted_directories_only() {
    let reads = |path: &'static str| {
        let paths = [path];
        judge(&Request { read_paths: &paths, ..request("DOM.setFileInputFiles", Surface::Page) }).allowed()
    };
    for path in ["/srv/up/a.txt", "/srv/up", "/srv/up/b/c.txt", "/srv//up/./a.txt"] {
        assert!(reads(path), "{path}");
    }
    for path in [
        "/etc/passwd",
        "/srv/upper/a",
        "/srv/up/../../etc/passwd",
        "srv/up/a",
        "",
        ".",
        "a.txt",
        "/srv/up/a\0b",
        "/srv/down/a",
        "/",
        "file:///srv/up/a",
        "~/a",
        "/tmp/playwright-artifacts-1/a",
        "/WORK/up/a",
    ] {
        assert!(!reads(path), "{path:?}");
    }
}

#[test]
fn downloads_are_written_below_granted_directories_and_playwright_artifacts() {
    let writes = |path: &'static str| {
        let paths = [path];
        judge(&Request { write_paths: &paths, ..request("Browser.setDownloadBehavior", Surface::Root) }).allowed()
    };
    for path in ["/srv/down", "/srv/down/x", "/tmp/playwright-artifacts-AbC", "/tmp/playwright-artifacts-1/x"] {
        assert!(writes(path), "{path}");
    }
    for path in [
        "/tmp",
        "/tmp/x",
        "/tmp/x/playwright-artifacts-1",
        "/tmp/playwright-artifacts-1/../x",
        "/srv/up",
        "/",
        "",
        "playwright-artifacts-1",
        "/home/playwright-artifacts-1",
    ] {
        assert!(!writes(path), "{path:?}");
    }
}

#[test]
fn without_grants_no_path_is_allowed() {
    let empty =
        Grants { read_dirs: vec![PathBuf::new()], write_dirs: vec![PathBuf::from(".")], temp_dir: PathBuf::new() };
    let paths = ["/etc/passwd", "playwright-artifacts-1", "/playwright-artifacts-1"];
    for path in &paths {
        let path = std::slice::from_ref(path);
        let read = Request { read_paths: path, ..request("DOM.setFileInputFiles", Surface::Page) };
        let write = Request { write_paths: path, ..request("Page.setDownloadBehavior", Surface::Page) };
        assert!(!decide(&Policies::built_in(), &empty, &read).allowed(), "{path:?}");
        assert!(!decide(&Policies::built_in(), &empty, &write).allowed(), "{path:?}");
    }
}

#[test]
fn a_refused_path_names_the_flag() {
    let request = Request { read_paths: &["/etc/passwd"], ..request("DOM.setFileInputFiles", Surface::Page) };
    assert_eq!(
        without_line(&judge(&request).sentence("upload of \"/etc/passwd\"")),
        "tabwarden: upload of \"/etc/passwd\" denied by rule DOM.setFileInputFiles (methods.tsv:N): the file \"/etc/passwd\" \
         lies below no directory that this server may read for clients. Name it by its absolute path without `..`, and start \
         the server with --grant-read DIR for a directory above it."
    );
}
