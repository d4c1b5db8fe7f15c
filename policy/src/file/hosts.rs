//! Hosts in a policy file: typed, so that nobody has to guess what a dot or a star means.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;

use toml::de::{DeTable, DeValue};
use url::Host;

use super::read::check_version;
use super::table::{Keys, Table, Value, array, full_array, mistyped, table, text};
use super::{Includes, Result, Source};
use crate::Severity;
use crate::pattern::HostPattern;
use crate::rules::{Included, To};

pub(super) type Sets = BTreeMap<String, Vec<HostPattern>>;

const SETS: Keys = Keys { what: "a set", known: &["hosts"], later: &[] };
const INCLUDED: Keys = Keys { what: "an included file, which has sets only", known: &["policy", "sets"], later: &[] };
const HOST: Keys = Keys { what: "a host", known: &["host", "ip", "subdomains"], later: &[] };
pub(super) const HOST_EXCEPTION: Keys =
    Keys { what: "an exception", known: &["host", "ip", "subdomains", "paths"], later: &[] };
pub(super) const EXCEPTION: Keys = Keys { what: "an exception with `to`", known: &["to", "paths"], later: &[] };

/// Of the file and of the files that it includes.
pub(super) fn sets(
    source: Source<'_>,
    value: Option<&Value<'_>>,
    include: Option<&Value<'_>>,
    includes: &mut Includes<'_>,
) -> Result<Sets> {
    let mut sets = Sets::new();
    if let Some(include) = include {
        for value in array(source, include, "include")? {
            let (pattern, span) = text(source, value, "include")?;
            for included in included_files(source, pattern, span, includes)? {
                let inner = Source { file: &included.file, text: &included.text, findings: source.findings };
                read_included(inner, &mut sets)?;
            }
        }
    }
    own_sets(source, value, &mut sets)?;
    Ok(sets)
}

fn included_files(
    source: Source<'_>,
    pattern: &str,
    span: Range<usize>,
    includes: &mut Includes<'_>,
) -> Result<Vec<Included>> {
    let leads_out = pattern.split('/').any(|part| part == "..");
    if pattern.is_empty() || pattern.starts_with('/') || pattern.contains([':', '\\']) || leads_out {
        let message = format!(
            "`{pattern}` cannot be included: write a path below the directory of this file, as in \"sets/*.toml\"; nothing is fetched from elsewhere"
        );
        return Err(source.error(span, message));
    }
    match includes(pattern) {
        Ok(files) if files.is_empty() => {
            Err(source.error(span, format!("`{pattern}` names no file: put one there, or remove it from `include`")))
        }
        Ok(files) => Ok(files),
        Err(why) => Err(source.error(span, format!("`{pattern}` cannot be included: {why}"))),
    }
}

fn read_included(source: Source<'_>, sets: &mut Sets) -> Result<()> {
    let document = source.document()?;
    let document = document.get_ref();
    if let Some(version) = document.get("policy") {
        check_version(source, version)?;
    }
    let fields = Table::read(source, document, 0..0, &INCLUDED)?;
    fields.need("policy", "policy = 1")?;
    own_sets(source, fields.get("sets"), sets)
}

/// `[sets.NAME] hosts = [...]`
fn own_sets(source: Source<'_>, value: Option<&Value<'_>>, sets: &mut Sets) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    for (name, set) in table(source, value, "sets")? {
        let what = format!("sets.{}", name.get_ref());
        let fields = Table::read(source, table(source, set, &what)?, name.span(), &SETS)?;
        let hosts = array(source, fields.need("hosts", "hosts = [{ host = \"example.com\" }]")?, "hosts")?;
        let hosts = hosts.iter().map(|value| one(source, value, &HOST)).collect::<Result<_>>()?;
        if sets.insert(name.get_ref().clone().into_owned(), hosts).is_some() {
            let message =
                format!("there is a set `{}` in an included file already: give this one another name", name.get_ref());
            return Err(source.error(name.span(), message));
        }
    }
    Ok(())
}

/// The `to` of a rule: `"*"`, `"@set"`, a host, or an array of sets and hosts.
pub(super) fn to(source: Source<'_>, value: &Value<'_>, key: &str, sets: &Sets) -> Result<To> {
    match value.get_ref() {
        DeValue::String(text) if text == "*" => Ok(To::Anywhere),
        DeValue::Array(_) => {
            let mut hosts = Vec::new();
            for value in full_array(source, value, key, "\"*\"")? {
                member(source, value, key, sets, &mut hosts)?;
            }
            Ok(To::Hosts(hosts))
        }
        _ => {
            let mut hosts = Vec::new();
            member(source, value, key, sets, &mut hosts)?;
            Ok(To::Hosts(hosts))
        }
    }
}

fn member(source: Source<'_>, value: &Value<'_>, key: &str, sets: &Sets, hosts: &mut Vec<HostPattern>) -> Result<()> {
    match value.get_ref() {
        DeValue::Table(_) => hosts.push(one(source, value, &HOST)?),
        DeValue::String(text) => match text.strip_prefix('@') {
            Some(name) => match sets.get(name) {
                Some(set) => hosts.extend_from_slice(set),
                None => return Err(source.error(value.span(), no_such_set(name, sets))),
            },
            None if text == "*" => {
                return Err(source.error(value.span(), "`\"*\"` already means everywhere: write `to = \"*\"` alone"));
            }
            None => return Err(source.error(value.span(), both_readings(text))),
        },
        other => return Err(mistyped(source, value, key, "\"*\", \"@set\" or { host = \"...\" }", other)),
    }
    Ok(())
}

fn no_such_set(name: &str, sets: &Sets) -> String {
    let known: Vec<&str> = sets.keys().map(String::as_str).collect();
    match known.is_empty() {
        true => format!("there is no set `{name}`: define it as `[sets.{name}]` with `hosts = [...]`"),
        false => format!("there is no set `{name}`{}", super::table::suggestion(name, &known)),
    }
}

/// `{ host = ... , subdomains = ... }` or `{ ip = ... }`
pub(super) fn one(source: Source<'_>, value: &Value<'_>, keys: &Keys) -> Result<HostPattern> {
    let DeValue::Table(host) = value.get_ref() else {
        return match value.get_ref() {
            DeValue::String(text) => Err(source.error(value.span(), both_readings(text))),
            other => Err(mistyped(source, value, "hosts", "an array of { host = \"...\" } or { ip = \"...\" }", other)),
        };
    };
    let host: &DeTable<'_> = host;
    let fields = Table::read(source, host, value.span(), keys)?;
    match (fields.get("host"), fields.get("ip")) {
        (Some(host), None) => {
            let (name, span) = text(source, host, "host")?;
            let name = host_name(source, name, span)?;
            subdomains(source, fields.get("subdomains"), name)
        }
        (None, Some(ip)) => {
            if let Some(subdomains) = fields.get("subdomains") {
                return Err(source.error(subdomains.span(), "an `ip` has no subdomains: remove the key"));
            }
            let (address, span) = text(source, ip, "ip")?;
            network(source, address, span)
        }
        _ => {
            Err(source
                .error(value.span(), "a host needs either `host` or `ip`, for example { host = \"example.com\" }"))
        }
    }
}

fn subdomains(source: Source<'_>, value: Option<&Value<'_>>, name: String) -> Result<HostPattern> {
    let Some(value) = value else { return Ok(HostPattern::Exact(name)) };
    match value.get_ref() {
        DeValue::Boolean(true) => Ok(HostPattern::WithSubdomains(name)),
        DeValue::Boolean(false) => Ok(HostPattern::Exact(name)),
        DeValue::String(text) if text == "only" => Ok(HostPattern::SubdomainsOnly(name)),
        other => Err(mistyped(source, value, "subdomains", "true, false or \"only\"", other)),
    }
}

/// A bare host as the URL parser would give it: lower-case A-labels.
pub(super) fn host_name(source: Source<'_>, name: &str, span: Range<usize>) -> Result<String> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    if name.contains(['*', '/', ':', '@', '?', '#', '\\', '%']) && !name.starts_with('[') || bare.starts_with('.') {
        return Err(source.error(span, both_readings(name)));
    }
    match Host::parse(bare) {
        Ok(Host::Domain(domain)) if domain.split('.').all(|label| !label.is_empty()) => {
            if !name.is_ascii() {
                let message = format!(
                    "`{name}` is judged as `{domain}`, which can look like another name: write that, with the other in a comment"
                );
                source.find(span, Severity::Warning, message);
            }
            Ok(domain)
        }
        Ok(Host::Domain(_)) => Err(source.error(span, format!("`{name}` has an empty label: remove the extra dot"))),
        Ok(Host::Ipv4(ip)) => {
            Err(source.error(span, format!("`{name}` is an address, not a name: write {{ ip = \"{ip}\" }}")))
        }
        Ok(Host::Ipv6(ip)) => {
            Err(source.error(span, format!("`{name}` is an address, not a name: write {{ ip = \"{ip}\" }}")))
        }
        Err(error) => Err(source.error(span, format!("`{name}` is not a host ({error}): write the bare name"))),
    }
}

/// The two things that a decorated host can mean, each as it is written here.
fn both_readings(text: &str) -> String {
    let bare = text.rsplit_once("://").map_or(text, |(_, rest)| rest);
    let bare = bare.rsplit_once('@').map_or(bare, |(_, host)| host);
    let bare = bare.split(['/', '?', '#', ':', '\\']).next().unwrap_or_default();
    let bare = bare.trim_start_matches(['*', '.']).trim_end_matches('.');
    if bare.is_empty() {
        return format!("`{text}` is not a host: write {{ host = \"example.com\" }}");
    }
    let mut message = format!(
        "`{text}` is not a bare host: write {{ host = \"{bare}\" }} for exactly this host, or {{ host = \"{bare}\", \
         subdomains = true }} for it and everything below"
    );
    if text.contains("://") || text.contains('/') {
        message.push_str("; schemes, ports and paths are keys of the rule");
    }
    message
}

/// `10.20.0.0/16`, `127.0.0.1`, `::1`
pub(super) fn network(source: Source<'_>, text: &str, span: Range<usize>) -> Result<HostPattern> {
    let wrong = |message: String| Err(source.error(span.clone(), message));
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return wrong(format!(
            "`{text}` is not an address or network: write, for example, \"10.20.0.0/16\" or \"::1\""
        ));
    };
    if address.to_canonical() != address {
        let plain = address.to_canonical();
        return wrong(format!("`{text}` is an IPv4 address in IPv6's clothes, judged as IPv4: write \"{plain}\""));
    }
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => bits,
        Some(digits) => match digits.parse::<u8>() {
            Ok(prefix) if prefix <= bits && digits.bytes().all(|byte| byte.is_ascii_digit()) => prefix,
            _ => return wrong(format!("`/{digits}` is not a prefix length: write a number from 0 to {bits}")),
        },
    };
    let network = mask(address, prefix);
    if network != address {
        return wrong(format!("`{text}` has bits set beyond its prefix: write \"{network}/{prefix}\""));
    }
    Ok(HostPattern::Network { address, prefix })
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    }
}
