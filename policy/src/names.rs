//! Addresses behind names and behind other addresses, as far as they can be read off: for rules that deny by `ip`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Public names, with everything below, that resolve to this machine. `localhost` is resolved by the browser itself.
const LOCAL_NAMES: [&str; 14] = [
    "localhost",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "lacolhost.com",
    "fuf.me",
    "localho.st",
    "local.gd",
    "localhost.direct",
    "traefik.me",
    "yoogle.com",
    "127-0-0-1.org.uk",
    "ip6-localhost",
    "ip6-loopback",
];

/// Services whose names resolve to the address that is written in them, in whatever way each of them reads it.
const ADDRESS_NAMES: [&str; 11] = [
    "nip.io",
    "sslip.io",
    "xip.io",
    "traefik.me",
    "backname.io",
    "local-ip.co",
    "local-ip.sh",
    "local-ip.medicmobile.org",
    "plex.direct",
    "rbndr.us",
    "1u.ms",
];

/// Whether a resolver may well give an address for which `wanted` holds. For ordinary names nothing is known: no.
pub(crate) fn may_resolve_to(name: &str, wanted: impl Fn(IpAddr) -> bool) -> bool {
    if LOCAL_NAMES.iter().any(|local| below(name, local).is_some()) && LOOPBACK.into_iter().any(&wanted) {
        return true;
    }
    let written = ADDRESS_NAMES.iter().find_map(|service| below(name, service));
    written.is_some_and(|written| addresses_in(written).into_iter().any(|ip| leads_to(ip, &wanted)))
}

/// Whether a connection to the address may end at one for which `wanted` holds: itself, an IPv4 address that a gateway
/// takes out of an IPv6 one, or this machine for the unspecified address.
pub(crate) fn leads_to(ip: IpAddr, wanted: impl Fn(IpAddr) -> bool) -> bool {
    if wanted(ip) {
        return true;
    }
    match ip {
        IpAddr::V4(ip) => ip.is_unspecified() && wanted(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => LOOPBACK.into_iter().any(wanted),
        IpAddr::V6(ip) => embedded(ip).is_some_and(|ip| wanted(ip.into())),
    }
}

/// This machine, the private network, and what is reachable on the same link only.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.octets()[0] == 0 || shared
        }
        IpAddr::V6(ip) => {
            let first = ip.segments()[0];
            ip.is_loopback() || ip.is_unspecified() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
        }
    }
}

/// What stands before the suffix; empty for the suffix itself.
fn below<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    match name.strip_suffix(suffix)? {
        "" => Some(""),
        rest => rest.strip_suffix('.'),
    }
}

/// NAT64 (64:ff9b::/96, 64:ff9b:1::/48), 6to4 (2002::/16) and IPv4-compatible (::/96) addresses.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = ip.to_bits();
    let low = Ipv4Addr::from_bits(bits as u32);
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] | [0x64, 0xff9b, 1, ..] | [0, 0, 0, 0, 0, 0, _, _] => Some(low),
        [0x2002, ..] => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        _ => None,
    }
}

/// Every address that somebody could read in the text: the services differ in which one they take.
fn addresses_in(text: &str) -> Vec<IpAddr> {
    let parts: Vec<&str> = text.split(['.', '-']).collect();
    let mut found: Vec<IpAddr> = parts.windows(4).filter_map(decimal).map(IpAddr::V4).collect();
    found.extend(parts.iter().filter_map(hexadecimal).map(IpAddr::V4));
    for label in text.split('.') {
        let parts: Vec<&str> = label.split('-').collect();
        for start in 0..parts.len() {
            for end in start + 1..=parts.len() {
                let written = parts.get(start..end).unwrap_or_default().join(":");
                found.extend(written.parse::<Ipv6Addr>().ok().map(|ip| IpAddr::V6(ip).to_canonical()));
            }
        }
    }
    found
}

fn decimal(parts: &[&str]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(parts) {
        let digits = !part.is_empty() && part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = digits.then(|| part.parse().ok())??;
    }
    Some(octets.into())
}

fn hexadecimal(part: &&str) -> Option<Ipv4Addr> {
    (part.len() == 8).then(|| u32::from_str_radix(part, 16).ok())?.map(Ipv4Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolves(name: &str, wanted: &str) -> bool {
        let wanted: IpAddr = wanted.parse().unwrap();
        may_resolve_to(name, |ip| ip == wanted)
    }

    #[test]
    fn addresses_are_read_off_names() {
        for (name, ip) in [
            ("10.0.0.1.nip.io", "10.0.0.1"),
            ("10-0-0-1.nip.io", "10.0.0.1"),
            ("app.10.0.0.1.nip.io", "10.0.0.1"),
            ("app-10-0-0-1.nip.io", "10.0.0.1"),
            ("a.b.app-10-0-0-1.sslip.io", "10.0.0.1"),
            ("10.0.0.1.www.sslip.io", "10.0.0.1"),
            ("0a000001.nip.io", "10.0.0.1"),
            ("x-y-0a000001.nip.io", "10.0.0.1"),
            ("7f000001.c0a80001.rbndr.us", "192.168.0.1"),
            ("make-1-2-3-4-rebind-127-0-0-1-rr.1u.ms", "127.0.0.1"),
            ("10-0-0-1.my.local-ip.co", "10.0.0.1"),
            ("10-0-0-1.0123456789abcdef.plex.direct", "10.0.0.1"),
            ("--1.sslip.io", "::1"),
            ("a.fd00--2.sslip.io", "fd00::2"),
            ("www-fd00--2.sslip.io", "fd00::2"),
            ("localhost", "127.0.0.1"),
            ("a.localhost", "::1"),
            ("localtest.me", "127.0.0.1"),
            ("x.lvh.me", "127.0.0.1"),
            ("0-0-0-0.nip.io", "127.0.0.1"),
        ] {
            assert!(resolves(name, ip), "{name}");
        }
    }

    #[test]
    fn of_other_names_nothing_is_known() {
        for (name, ip) in [
            ("10.0.0.1.example.com", "10.0.0.1"),
            ("10-0-0-1.evilnip.io", "10.0.0.1"),
            ("nip.io", "10.0.0.1"),
            ("256.0.0.1.nip.io", "256.0.0.1".replace("256", "255").as_str()),
            ("notlocalhost", "127.0.0.1"),
            ("localhost.example.com", "127.0.0.1"),
        ] {
            assert!(!resolves(name, ip), "{name}");
        }
    }

    #[test]
    fn addresses_lead_to_others() {
        let leads = |from: &str, to: &str| leads_to(from.parse().unwrap(), |ip| ip == to.parse::<IpAddr>().unwrap());
        for from in ["64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1", "2002:a00:1::", "::10.0.0.1"] {
            assert!(leads(from, "10.0.0.1"), "{from}");
        }
        assert!(leads("0.0.0.0", "127.0.0.1") && leads("::", "::1") && leads("::", "127.0.0.1"));
        assert!(!leads("2001:db8::a00:1", "10.0.0.1") && !leads("10.0.0.2", "10.0.0.1"));
    }

    #[test]
    fn local_is_what_is_near() {
        for ip in ["127.9.9.9", "10.0.0.1", "172.31.0.1", "192.168.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"] {
            assert!(is_local(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["::1", "::", "fd00::1", "fe80::1"] {
            assert!(is_local(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(!is_local(ip.parse().unwrap()), "{ip}");
        }
    }
}
