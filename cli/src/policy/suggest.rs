//! `policy suggest`: the narrowest rules for what an audit shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use url::{Host, Url};

use super::audit;
use super::{Report, import::quote};
use crate::exit::Failure;

/// What one rule speaks about: a rule for each, so that nobody allows one thing with another.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    host: String,
    scheme: String,
    /// `None`: the scheme's own.
    port: Option<u16>,
}

pub fn suggest(from: &Path) -> Result<Report, Failure> {
    let mut places: BTreeMap<Place, BTreeSet<&'static str>> = BTreeMap::new();
    let mut skipped: BTreeSet<String> = BTreeSet::new();
    for record in audit::read(from)?.into_iter().filter(|record| record.verdict != "allow") {
        match place(&record.url) {
            Some(place) => {
                places.entry(place).or_default().insert(record.verb);
            }
            None => {
                skipped.insert(record.url.split(':').next().unwrap_or_default().to_owned());
            }
        }
    }
    if places.is_empty() {
        return Err(Failure::new(
            "The audit holds no refusal by a policy at an http, https, ws or wss URL, so there is nothing to suggest.",
        ));
    }
    let mut text = String::from(
        "# Drafted from an audit: everything that was refused, or would have been. Part of it may have been refused for a\n\
         # reason: go over each rule, and remove those that nobody can explain. Rules are for whole hosts; add `paths`.\n\
         # Then run `tabwarden policy check` on it.\n\n\
         policy  = 1\nname    = \"suggested\"\ndefault = \"deny\"\n",
    );
    for scheme in &skipped {
        let _ = writeln!(text, "\n# left out: {} URLs, which lead out of the web", quote(scheme));
    }
    for (number, (place, verbs)) in places.iter().enumerate() {
        let verbs: Vec<String> = verbs.iter().map(|verb| quote(verb)).collect();
        let _ = write!(
            text,
            "\n[[rule]]\nid      = \"suggested-{}\"\neffect  = \"allow\"\nverbs   = [{}]\nto      = {}\nschemes = [{}]\n",
            number + 1,
            verbs.join(", "),
            place.host,
            quote(&place.scheme)
        );
        if let Some(port) = place.port {
            let _ = writeln!(text, "ports   = [{port}]");
        }
    }
    Ok(Report::of(text))
}

fn place(url: &str) -> Option<Place> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "ws" | "wss"))?;
    let host = match url.host()? {
        Host::Domain(name) => format!("{{ host = {} }}", quote(name.trim_end_matches('.'))),
        Host::Ipv4(ip) => format!("{{ ip = \"{ip}\" }}"),
        Host::Ipv6(ip) => format!("{{ ip = \"{}\" }}", std::net::IpAddr::from(ip).to_canonical()),
    };
    Some(Place { host, scheme: url.scheme().to_owned(), port: url.port() })
}
