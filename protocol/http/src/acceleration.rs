//! Hosts whose HTTPS is accelerated: the user's setting and the built-in exclusions.

use crate::captive_portal;

/// Names that are excluded unless the user lists them.
static EXCLUSIONS: &str = include_str!("exclusions.txt");

/// The hosts whose HTTPS the gateway may read to accelerate it. Names are in lower case and include their
/// subdomains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Accelerated {
    /// No host.
    #[default]
    Nothing,
    /// The listed hosts.
    Only(Vec<String>),
    /// All hosts except the listed ones and the built-in exclusions.
    AllBut(Vec<String>),
}

impl Accelerated {
    /// True if `host`, in lower case, is accelerated.
    pub fn contains(&self, host: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Only(names) => is_listed(host, names),
            Self::AllBut(names) => !is_listed(host, names) && !is_excluded(host),
        }
    }
}

/// True if `host` is one of `names` or a subdomain of one.
pub fn is_listed(host: &str, names: &[String]) -> bool {
    names.iter().any(|name| is_below(host, name))
}

fn is_below(host: &str, name: &str) -> bool {
    let above = host.strip_suffix(name);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// True if `host` is below a built-in exclusion.
pub fn is_excluded(host: &str) -> bool {
    let lines = EXCLUSIONS.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .any(|name| is_below(host, name))
        // What detects a captive portal has to see the network, not the gateway.
        || captive_portal::hosts().any(|name| name == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_name_includes_its_subdomains() {
        let only = Accelerated::Only(vec!["site.test".to_owned()]);
        for (host, wanted) in [
            ("site.test", true),
            ("www.site.test", true),
            ("notsite.test", false),
            ("test", false),
        ] {
            assert_eq!(only.contains(host), wanted, "{host}");
        }
        assert!(!Accelerated::Nothing.contains("site.test"));
    }

    #[test]
    fn programs_that_check_certificates_themselves_are_excluded() {
        let all = Accelerated::AllBut(Vec::new());
        for (group, host) in [
            ("settings", "firefox.settings.services.mozilla.com"),
            ("add-ons", "addons.mozilla.org"),
            ("add-ons", "clients2.googleusercontent.com"),
            ("plugins", "ciscobinary.openh264.org"),
            ("updates", "aus5.mozilla.org"),
            ("safe browsing", "safebrowsing.googleapis.com"),
            ("safe browsing", "shavar.services.mozilla.com"),
            ("certificate status", "e8.o.lencr.org"),
            ("package archives", "deb.debian.org"),
            ("package archives", "de.archive.ubuntu.com"),
            ("package archives", "index.crates.io"),
            ("snap", "canonical-bos01.cdn.snapcraftcontent.com"),
            ("flatpak", "dl.flathub.org"),
            ("captive portals", "detectportal.firefox.com"),
            ("captive portals", "connectivitycheck.gstatic.com"),
        ] {
            assert!(!all.contains(host), "{group}: {host}");
        }
        // The same organisations' pages for people.
        for host in [
            "www.mozilla.org",
            "www.debian.org",
            "ubuntu.com",
            "snapcraft.io",
            "www.npmjs.com",
            "docs.google.com",
            "fully.qualified.test.",
        ] {
            assert!(all.contains(host), "{host}");
        }
    }

    #[test]
    fn each_excluded_name_is_listed_once_and_under_a_reason() {
        let mut seen = std::collections::BTreeSet::new();
        let mut has_reason = false;
        for line in EXCLUSIONS.lines() {
            if line.is_empty() {
                has_reason = false;
            } else if line.starts_with('#') {
                has_reason = true;
            } else {
                assert!(has_reason, "{line} has no heading");
                assert!(seen.insert(line), "{line} is listed twice");
            }
        }
    }

    #[test]
    fn private_addresses_are_excluded_unless_listed() {
        let all = Accelerated::AllBut(vec!["mine.test".to_owned()]);
        for host in [
            "irs.gov",
            "www.paypal.com",
            "my.bank",
            "accounts.google.com",
            "at.mine.test",
        ] {
            assert!(!all.contains(host), "{host}");
        }
        for host in [
            "en.wikipedia.org",
            "google.com",
            "government.test",
            "riverbank.com",
        ] {
            assert!(all.contains(host), "{host}");
        }
        assert!(Accelerated::Only(vec!["paypal.com".to_owned()]).contains("www.paypal.com"));
        for line in EXCLUSIONS.lines().filter(|line| !line.starts_with('#')) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            assert!(line.chars().all(plain), "{line}");
        }
    }
}
