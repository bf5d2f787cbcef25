//! Public words: which words of the URLs that a page's scripts requested stand in bodies that any visitor of the page
//! gets.
//!
//! A URL that consists of such words reveals nothing of the device's user but that somebody requested it. A word is a
//! maximal run of letters and digits, byte for byte.
use std::collections::{BTreeMap, BTreeSet};

use longhaul_gateway_core::body_words::{BodyWords, Token, in_whole_words, names, words};
use url::{Position, Url};

use super::publicity::is_identifying;

/// Visitors that get a body byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyAudience {
    /// All: the gateway shares the body between devices.
    Everybody,
    /// Those who ask without credentials, as the gateway did for this page load. The body may contain words that the
    /// origin made for this visit, such as a session's number. They may be told only to visitors that get the same bytes.
    ThisVisit,
}

/// Where a word was found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    is_public: bool,
    /// Bodies that contain it, if it could identify somebody: a bit for each of the first 64.
    bodies: u64,
}

/// Words of URLs, and those of them that were found in public bodies.
#[derive(Debug, Default)]
pub(crate) struct PublicWords {
    words: BTreeMap<Vec<u8>, Found>,
    /// True if the host was found.
    hosts: BTreeMap<Vec<u8>, bool>,
    /// Words of this visit's cookies, which are not public wherever they stand.
    secrets: BTreeSet<Vec<u8>>,
}

impl PublicWords {
    /// Creates the search for the words and hosts of these URLs. `cookies` are the values of the cookies that the
    /// browser got in this page load.
    pub(crate) fn of<'a>(
        urls: impl IntoIterator<Item = &'a Url>,
        cookies: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Self {
        let mut search = Self::default();
        for url in urls {
            let words = words_of(url).map(|word| (word.to_vec(), Found::default()));
            search.words.extend(words);
            let host = url.host_str().map(|host| (host.as_bytes().to_vec(), false));
            search.hosts.extend(host);
        }
        for cookie in cookies {
            let words = words(cookie.as_ref()).map(<[u8]>::to_vec);
            search.secrets.extend(words);
        }
        search
    }

    /// True if no further body can add anything.
    pub(crate) fn is_complete(&self) -> bool {
        self.words.values().all(|found| found.is_public) && self.hosts.values().all(|found| *found)
    }

    /// Searches a part of the body with this number. `rest` is the end of the part before, which the call replaces; empty
    /// at the start of the body.
    pub(crate) fn search(&mut self, body: (usize, BodyAudience), part: &[u8], rest: &mut Vec<u8>) {
        in_whole_words(part, rest, |text| self.search_all(body, text));
    }

    /// Searches the end of the body with this number.
    pub(crate) fn search_all(&mut self, (number, audience): (usize, BodyAudience), text: &[u8]) {
        let bit = u32::try_from(number)
            .ok()
            .and_then(|number| 1_u64.checked_shl(number));
        for word in words(text) {
            let Some(found) = self.words.get_mut(word) else {
                continue;
            };
            if audience == BodyAudience::Everybody || !is_identifying(word) {
                found.is_public = true;
            } else {
                found.bodies |= bit.unwrap_or(0);
            }
        }
        for name in names(text) {
            if let Some(found) = self.hosts.get_mut(name) {
                *found = true;
            }
        }
    }

    /// Searches the words of bodies that no cache stores, which were made for this visit.
    pub(crate) fn search_words(&mut self, bodies: &BodyWords) {
        for (word, found) in &mut self.words {
            found.is_public |= !is_identifying(word) && bodies.contains(Token::Word(word));
        }
        for (host, found) in &mut self.hosts {
            *found |= bodies.contains(Token::Name(host));
        }
    }

    /// True if public bodies contain all words of a URL, and no cookie of this visit contains one that could identify
    /// somebody.
    pub(crate) fn contains(&self, url: &Url) -> bool {
        words_of(url).all(|word| self.is_public(word))
    }

    /// The number of a body that contains all words of a URL that are not public otherwise, and that are not those of a
    /// cookie of this visit.
    pub(crate) fn body_with(&self, url: &Url) -> Option<usize> {
        let mut bodies = u64::MAX;
        for word in words_of(url).filter(|word| !self.is_public(word)) {
            let found = self.words.get(word).filter(|_| !self.is_of_cookie(word))?;
            bodies &= found.bodies;
        }
        (bodies != 0).then(|| bodies.trailing_zeros() as usize)
    }

    fn is_public(&self, word: &[u8]) -> bool {
        !self.is_of_cookie(word) && self.words.get(word).is_some_and(|found| found.is_public)
    }

    fn is_of_cookie(&self, word: &[u8]) -> bool {
        self.secrets.contains(word) && word.len() >= MIN_SECRET
    }

    /// True if a public body contains the host.
    pub(crate) fn contains_host(&self, host: &str) -> bool {
        self.hosts.get(host.as_bytes()).is_some_and(|found| *found)
    }
}

/// Shorter words occur in cookies by chance, such as `en` and `1`.
const MIN_SECRET: usize = 3;

/// Words of the path and the query of a URL.
fn words_of(url: &Url) -> impl Iterator<Item = &[u8]> {
    words(url[Position::BeforePath..Position::AfterQuery].as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    fn url(text: &str) -> Url {
        Url::parse("http://a.test/").unwrap().join(text).unwrap()
    }

    fn search_bodies(search: &mut PublicWords, bodies: &[(BodyAudience, &[&str])]) {
        for (number, (audience, parts)) in bodies.iter().enumerate() {
            let mut rest = Vec::new();
            for part in *parts {
                search.search((number, *audience), part.as_bytes(), &mut rest);
            }
            search.search_all((number, *audience), &rest);
        }
    }

    fn search<'a>(urls: &'a [Url], cookies: &[&str], bodies: &[(BodyAudience, &[&str])]) -> Vec<&'a str> {
        let mut search = PublicWords::of(urls, cookies);
        search_bodies(&mut search, bodies);
        let public = urls.iter().filter(|url| search.contains(url));
        public.map(Url::as_str).collect()
    }

    #[test]
    fn urls_of_words_that_stand_in_bodies_are_public() {
        let urls = ["/api/v2/votes.json?page=3", "/api/v2/alice.json", "/"].map(url);
        let script: &[&str] = &[
            "get('/api/v2/' + name + '.js",
            "on'); votes",
            "(); load({page: 3})",
        ];
        let found = search(&urls, &NONE, &[(BodyAudience::ThisVisit, script)]);
        assert_eq!(
            found,
            ["http://a.test/api/v2/votes.json?page=3", "http://a.test/"]
        );
        // Parts of words are not words.
        assert_eq!(
            search(
                &[url("/vote")],
                &NONE,
                &[(BodyAudience::Everybody, &["votes vot", "e1"])]
            ),
            NONE
        );
    }

    #[test]
    fn words_that_an_origin_makes_for_a_visit_count_only_in_shared_bodies() {
        let chunk = [url("/js/9f86d081884c.js")];
        let script: &[&str] = &["import('/js/9f86d081884c.js')"];
        assert_eq!(search(&chunk, &NONE, &[(BodyAudience::ThisVisit, script)]), NONE);
        let found = search(&chunk, &NONE, &[(BodyAudience::Everybody, script)]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn words_that_could_identify_somebody_are_those_of_one_body() {
        let [chunk, other, split, cookie] = [
            "/js/9f86d081884c.js",
            "/js/other.js",
            "/js/9f86d081884c/ab12cd34ef.js",
            "/js/user12345678abcdef.js",
        ]
        .map(url);
        let urls = [chunk.clone(), other.clone(), split.clone(), cookie.clone()];
        let mut search = PublicWords::of(&urls, ["id=user12345678abcdef"]);
        let bodies: [(BodyAudience, &[&str]); 3] = [
            (BodyAudience::ThisVisit, &["js nothing"]),
            (BodyAudience::ThisVisit, &["9f86d0", "81884c user12345678abcdef"]),
            (BodyAudience::ThisVisit, &["ab12cd34ef"]),
        ];
        search_bodies(&mut search, &bodies);
        assert!(!search.contains(&chunk));
        assert_eq!(search.body_with(&chunk), Some(1));
        for url in [other, split, cookie] {
            assert_eq!(search.body_with(&url), None, "{url}");
        }
    }

    #[test]
    fn words_of_cookies_are_not_public() {
        let urls = ["/u/carol.png", "/lang/en.js"].map(url);
        let body: &[&str] = &["u carol png lang en js"];
        let found = search(&urls, &["name=carol&l=en"], &[(BodyAudience::Everybody, body)]);
        assert_eq!(found, ["http://a.test/lang/en.js"]);
    }

    #[test]
    fn hosts_are_found_whole() {
        let urls = [url("https://cdn.b.test/x"), url("http://b.test/x")];
        let mut search = PublicWords::of(&urls, NONE);
        let mut rest = Vec::new();
        for part in ["load(\"https:\\/\\/cdn.", "b.test\\/\" + name)"] {
            search.search((0, BodyAudience::ThisVisit), part.as_bytes(), &mut rest);
        }
        assert!(search.contains_host("cdn.b.test") && !search.contains_host("b.test"));
        assert!(!search.is_complete());
    }

    #[test]
    fn long_runs_without_words_take_no_memory() {
        let mut search = PublicWords::of(&[url("/x")], NONE);
        let mut rest = Vec::new();
        for _ in 0..100 {
            search.search((0, BodyAudience::Everybody), &[b'a'; 1000], &mut rest);
            assert!(rest.len() <= longhaul_gateway_core::body_words::MAX_WORD);
        }
    }
}
