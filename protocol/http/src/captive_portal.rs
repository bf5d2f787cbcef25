//! Captive portals: the requests by which programs detect them, and the proof by which a gateway shows an agent that
//! none is in the way (docs/decisions/0039-captive-portals.md).
use std::fmt::Write as _;

use longhaul_types::PublicKey;

/// Requests that detect a captive portal.
static HOSTS: &str = include_str!("captive_portal_hosts.txt");

/// Length of the random number of a question.
pub const NONCE_LENGTH: usize = 16;

/// The entries: a host, and the only path if the host has other uses.
fn entries() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    let lines = HOSTS.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| match line.split_once(' ') {
            Some((host, path)) => (host, Some(path)),
            None => (line, None),
        })
}

/// True if a plain http request for `path`, with or without a query, of `host` (in lower case) detects a captive portal.
/// Through a gateway it would not detect one.
pub fn is_detection(host: &str, path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    entries().any(|(name, only)| name == host && only.is_none_or(|only| only == path))
}

/// The hosts that serve no other purpose.
pub fn hosts() -> impl Iterator<Item = &'static str> {
    entries().filter_map(|(host, only)| only.is_none().then_some(host))
}

/// Path of the question to a gateway; `/` and the nonce follow. It differs from the path of the gateway's carrier, which
/// nobody may learn from a plain http request.
pub fn path(gateway: &PublicKey) -> String {
    let key = blake3::derive_key("longhaul 1 portal path", gateway.as_bytes());
    format!("/{}", hex(&key[..16]))
}

/// Path of a question with this nonce.
pub fn question(gateway: &PublicKey, nonce: &[u8; NONCE_LENGTH]) -> String {
    format!("{}/{}", path(gateway), hex(nonce))
}

/// The gateway's answer to the question with the path `asked`; `None` if it is no question to this gateway.
pub fn answer_to(gateway: &PublicKey, asked: &str) -> Option<String> {
    let digits = asked.strip_prefix(&path(gateway))?.strip_prefix('/')?;
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 2 * NONCE_LENGTH || !digits.bytes().all(is_hex) {
        return None;
    }
    let mut nonce = [0; NONCE_LENGTH];
    for (byte, pair) in nonce.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(answer(gateway, &nonce))
}

/// The answer to a nonce: only who knows the gateway's public key, which no portal does, can compute it.
pub fn answer(gateway: &PublicKey, nonce: &[u8; NONCE_LENGTH]) -> String {
    let key = blake3::derive_key("longhaul 1 portal answer", gateway.as_bytes());
    blake3::keyed_hash(&key, nonce).to_hex().to_string()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string never fails.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longhaul_types::SecretKey;

    use super::*;

    #[test]
    fn detection_is_told_from_other_requests() {
        for (host, path) in [
            ("detectportal.firefox.com", "/success.txt?ipv4"),
            ("www.gstatic.com", "/generate_204"),
            ("www.gstatic.com", "/generate_204?x"),
            ("captive.apple.com", "/hotspot-detect.html"),
            ("network-test.debian.org", "/nm"),
        ] {
            assert!(is_detection(host, path), "{host}{path}");
        }
        for (host, path) in [
            ("www.gstatic.com", "/images/logo.png"),
            ("www.google.com", "/"),
            ("google.com", "/generate_204"),
            ("x.detectportal.firefox.com", "/"),
            ("", ""),
        ] {
            assert!(!is_detection(host, path), "{host}{path}");
        }
        assert!(hosts().any(|host| host == "captive.apple.com"));
        assert!(hosts().all(|host| host != "www.google.com"));
    }

    #[test]
    fn entries_are_plain_unique_and_have_a_source() {
        let mut seen = BTreeSet::new();
        for (host, path) in entries() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            assert!(host.chars().all(plain), "{host}");
            assert!(path.is_none_or(|path| path.starts_with('/')), "{host} {path:?}");
            assert!(seen.insert((host, path)), "{host} is listed twice");
        }
        for group in HOSTS.split("\n\n").skip(1) {
            assert!(group.starts_with('#'), "no source: {group}");
        }
    }

    #[test]
    fn only_the_gateways_key_answers_its_questions() {
        let [ours, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let asked = question(&ours, &[7; NONCE_LENGTH]);
        let expected = answer(&ours, &[7; NONCE_LENGTH]);
        assert_eq!(answer_to(&ours, &asked).as_deref(), Some(expected.as_str()));
        assert_eq!(answer_to(&other, &asked), None);
        assert_ne!(answer(&other, &[7; NONCE_LENGTH]), expected);
        assert_ne!(answer(&ours, &[8; NONCE_LENGTH]), expected);
        let upper = format!("{}/{}", path(&ours), "AB".repeat(NONCE_LENGTH));
        for wrong in [
            "",
            "/",
            &path(&ours),
            &asked[..asked.len() - 1],
            &format!("{asked}0"),
            &upper,
        ] {
            assert_eq!(answer_to(&ours, wrong), None, "{wrong}");
        }
    }
}
