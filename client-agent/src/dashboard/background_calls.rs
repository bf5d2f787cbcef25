//! Hosts that browsers and systems call by themselves. Their failures are listed apart: nobody opened a page.

/// Names, each with its subdomains.
const NAMES: [&str; 24] = [
    // Chromium and Chrome: updates, safe browsing, settings, models.
    "clients1.google.com",
    "clients2.google.com",
    "clients4.google.com",
    "clients6.google.com",
    "clientservices.googleapis.com",
    "content-autofill.googleapis.com",
    "mtalk.google.com",
    "optimizationguide-pa.googleapis.com",
    "safebrowsing.google.com",
    "safebrowsing.googleapis.com",
    "safebrowsingohttpgateway.googleapis.com",
    "sb-ssl.google.com",
    "update.googleapis.com",
    "gvt1.com",
    // Firefox: settings, push, telemetry, updates, tracking protection.
    "services.mozilla.com",
    "telemetry.mozilla.org",
    "aus5.mozilla.org",
    "cdn.mozilla.net",
    "ciscobinary.openh264.org",
    // Edge.
    "edge.microsoft.com",
    "config.edge.skype.com",
    "smartscreen.microsoft.com",
    // Certificate status.
    "o.lencr.org",
    "ocsp.digicert.com",
];

/// True if browsers or systems call a host by themselves.
pub(super) fn is_background(host: &str) -> bool {
    longhaul_http::site::names_above(host).any(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_pages_are_no_background() {
        for host in [
            "update.googleapis.com",
            "e8.o.lencr.org",
            "push.services.mozilla.com",
        ] {
            assert!(is_background(host), "{host}");
        }
        for host in ["www.google.com", "site.test", "googleapis.com", "notgvt1.com", ""] {
            assert!(!is_background(host), "{host}");
        }
    }
}
