//! Observed uses of a browser's cookies: they bound the paths of cookies, which the `Cookie` field does not
//! contain.
//!
//! docs/decisions/0019-cookies-that-a-prediction-may-send.md specifies and explains the rule.
use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
};

use http::{HeaderMap, header};
use longhaul_http::cookies;
use url::Url;

use super::{Browser, MAX_PAGE_COOKIES, Scope, default_path, domain, path_matches, set_cookie};

/// Observations of the paths of a browser's cookies in one session, by host, name and value: from its
/// requests, and from the responses to them.
///
/// Only keyed hashes of names and values are stored.
#[derive(Clone, Debug, Default)]
pub struct CookiePathObservations {
    hasher: RandomState,
    known: BTreeMap<u64, Known>,
    /// Oldest first.
    order: VecDeque<u64>,
}

/// Observations of the cookies of one host, name and value.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Paths that responses set.
    set: Vec<Vec<u8>>,
    /// The longest path that matches all targets to which the cookie was sent, except those that a path in
    /// `set` matches.
    seen: Option<Vec<u8>>,
}

/// Knowledge of the path of a cookie of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Exactly this path.
    Exact(Vec<u8>),
    /// This path or a shorter one: URLs below it receive the cookie, other URLs may receive it.
    AtMost(Vec<u8>),
}

impl Path {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Exact(path) | Self::AtMost(path) => path,
        }
    }
}

impl CookiePathObservations {
    /// Creates a record without observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a request that the browser itself sent.
    pub fn observe(&mut self, url: &Url, request: &HeaderMap) {
        let whole = cookies::joined(request).unwrap_or_default();
        let path = url.path().as_bytes();
        for (name, value) in cookies::pairs(&whole).take(MAX_PAGE_COOKIES) {
            let known = self.known(url, name, value);
            if known.set.iter().any(|set| path_matches(path, set)) {
                continue;
            }
            known.seen = Some(match known.seen.take() {
                Some(seen) => common(&seen, path),
                None => path.to_vec(),
            });
        }
    }

    /// Records a response to a request of the browser itself.
    pub fn observe_response(&mut self, url: &Url, response: &HeaderMap) {
        for field in response.get_all(header::SET_COOKIE).iter().take(MAX_PAGE_COOKIES) {
            let Some(set) = set_cookie::parse(field.as_bytes()) else {
                continue;
            };
            let host = url.host_str().unwrap_or_default();
            if domain(url, host, &set) == Scope::None {
                continue;
            }
            let path = set.path.map_or_else(|| default_path(url.path()), <[u8]>::to_vec);
            let known = self.known(url, set.name, set.value);
            known.set.retain(|other| *other != path);
            if known.set.len() >= MAX_SET {
                known.set.remove(0);
            }
            known.set.push(path);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    fn known(&mut self, url: &Url, name: &[u8], value: &[u8]) -> &mut Known {
        let key = self.key(url, name, value);
        if !self.known.contains_key(&key) {
            if self.order.len() >= MAX_KNOWN
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.known.entry(key).or_default()
    }

    fn key(&self, url: &Url, name: &[u8], value: &[u8]) -> u64 {
        let host = url.host_str().unwrap_or_default();
        self.hasher.hash_one((url.scheme(), host, name, value))
    }

    /// Returns the paths of the cookies of a request for `page`, in their order.
    pub(super) fn paths(&self, page: &Url, browser: Browser, pairs: &[(&[u8], &[u8])]) -> Vec<Path> {
        // Browsers send cookies with longer paths first (RFC 6265 section 5.4): a path is at most as long as
        // those before it.
        let is_ordered = matches!(browser, Browser::Chromium | Browser::Firefox);
        let mut longest = usize::MAX;
        let paths = pairs.iter().map(|(name, value)| {
            let mut path = self.path(page, name, value);
            if let (true, Path::AtMost(most)) = (is_ordered, &mut path) {
                shorten(most, longest);
            }
            longest = longest.min(path.as_bytes().len());
            path
        });
        paths.collect()
    }

    fn path(&self, page: &Url, name: &[u8], value: &[u8]) -> Path {
        if name.len() > HOST.len() && name[..HOST.len()].eq_ignore_ascii_case(HOST) {
            return Path::Exact(b"/".to_vec());
        }
        let own = page.path().as_bytes();
        let Some(known) = self.known.get(&self.key(page, name, value)) else {
            return Path::AtMost(own.to_vec());
        };
        let fitting = known.set.iter().filter(|set| path_matches(own, set));
        match (fitting.min_by_key(|set| set.len()), &known.seen) {
            (Some(set), _) => Path::Exact(set.clone()),
            (None, Some(seen)) => Path::AtMost(common(seen, own)),
            (None, None) => Path::AtMost(own.to_vec()),
        }
    }
}

/// Returns the longest cookie path that matches two paths; the first may be an earlier result.
fn common(one: &[u8], other: &[u8]) -> Vec<u8> {
    let equal = one
        .iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count();
    let fits = |length: usize| path_matches(one, &one[..length]) && path_matches(other, &one[..length]);
    let length = (1..=equal).rev().find(|length| fits(*length));
    length.map_or_else(|| b"/".to_vec(), |length| one[..length].to_vec())
}

/// Shortens a path to its longest parent path of at most `length` bytes.
fn shorten(path: &mut Vec<u8>, length: usize) {
    if path.len() > length {
        let shorter = (1..=length)
            .rev()
            .find(|length| path_matches(path, &path[..*length]));
        path.truncate(shorter.unwrap_or(1));
    }
}

/// Name prefix of cookies with path `/` (RFC 6265bis section 4.1.3.2).
const HOST: &[u8] = b"__Host-";
/// Maximum number of paths stored per host, name and value: no well-behaved site sets more.
const MAX_SET: usize = 4;
/// Maximum number of cookies recorded per session: those of about a hundred hosts, in about 1 MiB.
const MAX_KNOWN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_path_of_two_paths_ends_at_a_segment() {
        for (one, other, expected) in [
            ("/", "/", "/"),
            ("/~alice/", "/~mallory/", "/"),
            ("/a/b/c", "/a/b/d", "/a/b/"),
            ("/a/b", "/a/b/d", "/a/b"),
            ("/a/b/", "/a/b", "/a/b"),
            ("/ab", "/abc", "/"),
            ("/a/b", "/a/b", "/a/b"),
            ("/a", "*", "/"),
        ] {
            assert_eq!(
                common(one.as_bytes(), other.as_bytes()),
                expected.as_bytes(),
                "{one} {other}"
            );
        }
    }

    #[test]
    fn a_shortened_path_ends_at_a_segment() {
        for (path, length, expected) in [
            ("/a/b/c", 5, "/a/b/"),
            ("/a/b/c", 4, "/a/b"),
            ("/a/bcd", 4, "/a/"),
            ("/a/b/c", 1, "/"),
            ("/a/b/c", 0, "/"),
            ("/a/b/c", 9, "/a/b/c"),
        ] {
            let mut cut = path.as_bytes().to_vec();
            shorten(&mut cut, length);
            assert_eq!(cut, expected.as_bytes(), "{path} {length}");
        }
    }
}
