//! Names that only a local network has, and never the public DNS.

/// Suffixes of such names: multicast DNS (RFC 6762), this computer (RFC 6761), home networks (RFC 8375), private use (reserved
/// by ICANN), and what routers use although nobody reserved it, and nobody can register.
pub const SUFFIXES: [&str; 6] = ["home", "home.arpa", "internal", "lan", "local", "localhost"];

/// Returns true for a host that the local network names: one label, or one of [`SUFFIXES`]. Nobody outside of that network can
/// own such a name.
pub fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_below = |suffix: &&str| {
        let above = name.strip_suffix(*suffix);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    };
    !name.is_empty() && (!name.contains(['.', ':']) || SUFFIXES.iter().any(is_below))
}

/// Returns the domains that the network tells this computer to search names in, from the text of `/etc/resolv.conf`
/// (resolv.conf(5)). Public suffixes, such as `com`, are left out: they would lead too many hosts past the proxy.
pub fn search_domains(resolv_conf: &str) -> Vec<String> {
    let mut domains = Vec::new();
    for line in resolv_conf.lines() {
        let mut words = line.split_ascii_whitespace();
        if matches!(words.next(), Some("search" | "domain")) {
            // The last of these lines counts.
            domains = words.filter_map(search_domain).take(MAX_DOMAINS).collect();
        }
    }
    domains
}

/// Number of domains that are used: as many as older C libraries use.
const MAX_DOMAINS: usize = 6;

fn search_domain(word: &str) -> Option<String> {
    let name = word.strip_suffix('.').unwrap_or(word).to_ascii_lowercase();
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let is_site = name.contains('.') && !crate::site::is_public_suffix(&name);
    (is_name && name.len() <= 253 && is_site).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_local_networks_are_known_by_their_form() {
        for name in [
            "printer",
            "PRINTER.",
            "printer.local",
            "nas.Home.Arpa.",
            "a.b.lan",
            "localhost",
            "x.localhost",
            "local",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "a.test",
            "local.test",
            "notlocal.test",
            "alocal.",
            "::1",
            "127.0.0.1",
        ] {
            assert_eq!(is_local_name(name), name == "alocal.", "{name}");
        }
    }

    #[test]
    fn the_networks_search_domains_are_read() {
        let of = |text: &str| search_domains(text).join(" ");
        assert_eq!(
            of("# x\nnameserver 1.1.1.1\nsearch fritz.box Corp.Example.ORG.\n"),
            "fritz.box corp.example.org"
        );
        assert_eq!(of("search a.test\ndomain b.test\n"), "b.test");
        // Too much of the Internet, and no name.
        assert_eq!(of("search com co.uk a\"b.test . x.test"), "x.test");
        assert_eq!(of("options ndots:1\nsearch\n"), "");
    }
}
