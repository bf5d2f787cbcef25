//! Sites under other names, for browsers with a built-in list of names.
//!
//! Browsers contain a list of sites that they load only over https, whatever the scheme of a link (HSTS
//! preloading). Such a site can be replayed over http only under another name.
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{HeaderValue, header};
use mbrotli::{Compressor, EncoderConfig, Quality};
use url::Url;

use crate::{Answer, answer::gzip};

/// Maximum number of cached responses: creating one again takes an origin milliseconds, and queries can vary
/// without bound.
const MAX_KEPT: usize = 4096;
/// Quality with which servers compress on the fly.
const BROTLI_QUALITY: Quality = Quality::Q5;

/// Returns the registrable domain of a host, approximated without the public suffix list: the last two
/// labels, or three below suffixes such as `com.cn` and `co.uk`.
pub fn site(host: &str) -> &str {
    let dots: Vec<usize> = host.rmatch_indices('.').map(|(at, _)| at).take(3).collect();
    let (Some(top), Some(second)) = (dots.first(), dots.get(1)) else {
        return host;
    };
    let is_register = host.len() - top == 3 && top - second <= 4;
    match (is_register, dots.get(2)) {
        (true, Some(third)) => host.get(third + 1..).unwrap_or(host),
        (true, None) => host,
        (false, _) => host.get(second + 1..).unwrap_or(host),
    }
}

/// Returns the other name: of equal length, and not of a real site. The last label is reversed.
fn alias(name: &str) -> String {
    let (rest, label) = name.rsplit_once('.').unwrap_or(("", name));
    let mut backwards: String = label.chars().rev().collect();
    if backwards == label {
        backwards = "q".repeat(label.len());
    }
    format!("{rest}.{backwards}")
}

/// Domains that have another name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Renames {
    /// Original names, with the other names.
    domains: Arc<BTreeMap<String, String>>,
    kept: Arc<Mutex<BTreeMap<Url, Answer>>>,
}

impl Renames {
    pub(crate) fn of(domains: &BTreeSet<String>) -> Self {
        let domains = domains.iter().map(|domain| (domain.clone(), alias(domain)));
        Self {
            domains: Arc::new(domains.collect()),
            kept: Arc::default(),
        }
    }

    /// Returns the same names without cached responses, for another edition.
    pub(crate) fn emptied(self) -> Self {
        Self {
            domains: self.domains,
            kept: Arc::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Returns the other name of a host, with its port, if it has one.
    pub(crate) fn host(&self, host: &str) -> Option<String> {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, _)) => (name, host.get(name.len()..).unwrap_or_default()),
            None => (host, ""),
        };
        let renamed = self
            .domains
            .iter()
            .find_map(|(own, other)| swapped(name, own, other));
        renamed.map(|name| name + port)
    }

    /// Returns a URL with the other name of its host.
    pub(crate) fn url(&self, url: &Url) -> Url {
        let host = url.host_str().and_then(|host| self.host(host));
        with_host(url, host)
    }

    /// Returns the recorded URL. Its path and query may contain names, too, because they come from the
    /// renamed text.
    pub(crate) fn original<'u>(&self, url: &'u Url) -> Cow<'u, Url> {
        let own = replaced(
            url.as_str().as_bytes(),
            self.domains.iter().map(|(own, other)| (other, own)),
        );
        let own = own.and_then(|own| Url::parse(std::str::from_utf8(&own).ok()?).ok());
        own.map_or(Cow::Borrowed(url), Cow::Owned)
    }

    /// Returns a response with the other names in its fields and its text, in its original coding.
    pub(crate) fn answer(&self, url: &Url, answer: Answer) -> Answer {
        let kept = || self.kept.lock();
        if let Some(kept) = kept().get(url) {
            return kept.clone();
        }
        let renamed = self.renamed(answer);
        let mut kept = kept();
        if kept.len() < MAX_KEPT {
            kept.insert(url.clone(), renamed.clone());
        }
        renamed
    }

    fn renamed(&self, mut answer: Answer) -> Answer {
        for value in answer.headers.values_mut() {
            if let Some(bytes) = replaced(value.as_bytes(), self.domains.iter())
                && let Ok(changed) = HeaderValue::from_bytes(&bytes)
            {
                *value = changed;
            }
        }
        if !answer.is_text() {
            return answer;
        }
        let Ok(text) = answer.decoded() else {
            return answer;
        };
        let Some(changed) = replaced(&text, self.domains.iter()) else {
            return answer;
        };
        let coding = answer.headers.get(header::CONTENT_ENCODING);
        let coding = coding
            .and_then(|coding| coding.to_str().ok())
            .unwrap_or("identity");
        let coded = match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(gzip(&changed).into()),
            "br" => brotli(&changed),
            _ => None,
        };
        if coded.is_none() && coding != "identity" {
            answer.headers.remove(header::CONTENT_ENCODING);
        }
        answer.body = coded.unwrap_or_else(|| changed.into());
        answer
    }
}

/// Replaces the first name of each pair by the second, which has the same length; `None` if the text contains
/// none of them.
fn replaced<'a>(text: &[u8], names: impl Iterator<Item = (&'a String, &'a String)>) -> Option<Vec<u8>> {
    let mut changed = None;
    for (from, to) in names {
        let from = from.as_bytes();
        let mut at = 0;
        while let Some(found) = find(text, from, at) {
            at = found + from.len();
            if stands_alone(text, found, at) {
                let changed = changed.get_or_insert_with(|| text.to_vec());
                if let Some(place) = changed.get_mut(found..at) {
                    place.copy_from_slice(to.as_bytes());
                }
            }
        }
    }
    changed
}

/// Replaces the domain `from` of `name` by `to`; `None` if `name` does not belong to that domain.
fn swapped(name: &str, from: &str, to: &str) -> Option<String> {
    let rest = name.strip_suffix(from)?;
    (rest.is_empty() || rest.ends_with('.')).then(|| format!("{rest}{to}"))
}

fn with_host(url: &Url, host: Option<String>) -> Url {
    let mut changed = url.clone();
    match host {
        Some(host) if changed.set_host(Some(&host)).is_ok() => changed,
        _ => url.clone(),
    }
}

fn find(text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let first = *wanted.first()?;
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        at += rest.iter().position(|byte| *byte == first)?;
        if text.get(at..)?.starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns true if the domain at `from..to` is not part of a longer name: `notexample.org`, `example.org.uk`.
fn stands_alone(text: &[u8], from: usize, to: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let before = from.checked_sub(1).and_then(|at| text.get(at));
    // The end of an escaped `/`, as in `https%3A%2F%2Fexample.org` and in strings of scripts.
    let escaped = [&b"%2f"[..], b"\\u002f", b"\\x2f"].iter().any(|slash| {
        let start = from.checked_sub(slash.len());
        let before = start.and_then(|start| text.get(start..from));
        before.is_some_and(|before| before.eq_ignore_ascii_case(slash))
    });
    let after = text.get(to);
    let longer = after == Some(&b'.') && word(text.get(to + 1));
    (escaped || !word(before)) && !word(after) && !longer
}

/// Returns `None` if the memory is insufficient.
fn brotli(text: &[u8]) -> Option<Bytes> {
    let mut coder = Compressor::new(EncoderConfig::default().with_quality(BROTLI_QUALITY)).ok()?;
    coder.compress(text).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;

    fn renames(domains: &[&str]) -> Renames {
        Renames::of(&domains.iter().map(|domain| (*domain).to_owned()).collect())
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn the_registrable_domain_is_derived_from_the_host() {
        for (host, expected) in [
            ("en.wikipedia.org", "wikipedia.org"),
            ("wikipedia.org", "wikipedia.org"),
            ("www.sina.com.cn", "sina.com.cn"),
            ("sina.com.cn", "sina.com.cn"),
            ("a.b.co.uk", "b.co.uk"),
            ("vk.com", "vk.com"),
            ("www.spiegel.de", "spiegel.de"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(site(host), expected, "{host}");
        }
    }

    #[test]
    fn renaming_is_reversible() {
        let renames = renames(&["wikipedia.org", "aa.aa"]);
        assert_eq!(
            renames.host("en.wikipedia.org:81").as_deref(),
            Some("en.wikipedia.gro:81")
        );
        assert_eq!(renames.host("notwikipedia.org"), None);
        assert_eq!(renames.host("aa.aa").as_deref(), Some("aa.qq"));
        let there = renames.url(&url("http://en.wikipedia.org/a?b"));
        assert_eq!(there.as_str(), "http://en.wikipedia.gro/a?b");
        assert_eq!(renames.original(&there).as_str(), "http://en.wikipedia.org/a?b");
        let named = url("http://cdn.wikipedia.gro/en.wikipedia.gro/a?u=http%3A%2F%2Fwikipedia.gro&v=aa.qq");
        assert_eq!(
            renames.original(&named).as_str(),
            "http://cdn.wikipedia.org/en.wikipedia.org/a?u=http%3A%2F%2Fwikipedia.org&v=aa.aa",
            "renamed text contains names in paths and queries"
        );
        assert_eq!(
            renames.original(&url("http://x.test/")).as_str(),
            "http://x.test/"
        );
    }

    #[test]
    fn text_and_fields_are_renamed_and_keep_their_coding() {
        let text = "<a href=//en.wikipedia.org/x>notwikipedia.org wikipedia.org.uk u=https%3A%2F%2Fwikipedia.org '\\u002Fwikipedia.org'</a>";
        let expected = text
            .replace("en.wikipedia.org/", "en.wikipedia.gro/")
            .replace("Fwikipedia.org", "Fwikipedia.gro");
        let renames = renames(&["wikipedia.org"]);
        for (coding, body) in [
            ("gzip", gzip(text.as_bytes())),
            ("br", brotli(text.as_bytes()).unwrap().to_vec()),
            ("identity", text.as_bytes().to_vec()),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html"));
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
            headers.insert(
                header::SET_COOKIE,
                HeaderValue::from_static("a=1; domain=.wikipedia.org"),
            );
            let answer = Answer {
                status: StatusCode::OK,
                headers,
                body: body.into(),
            };
            let renamed = renames.answer(&url(&format!("http://x.test/{coding}")), answer);
            assert_eq!(renamed.decoded().unwrap(), expected.as_bytes(), "{coding}");
            assert_eq!(renamed.headers[header::CONTENT_ENCODING], coding);
            assert_eq!(renamed.headers[header::SET_COOKIE], "a=1; domain=.wikipedia.gro");
        }
    }
}
