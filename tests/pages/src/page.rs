//! One page of the benchmark.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use http::Method;
use url::Url;

use crate::{Answer, ideal::ObjectSize, recorded, reference, rename::Renames};

/// A page with everything that it loads, of one edition. Cheap to clone.
///
/// Content of a generated page is made when it is first asked for; [`Page::prepare`] does so beforehand.
#[derive(Clone)]
pub struct Page {
    name: Arc<str>,
    url: Url,
    blocked: Arc<[String]>,
    source: Source,
    replay: Replay,
    renames: Renames,
    sizes: Arc<Mutex<BTreeMap<Url, Option<ObjectSize>>>>,
}

#[derive(Clone)]
pub(crate) enum Source {
    Reference(Arc<reference::Edition>),
    Recorded(recorded::Edition),
}

/// The scheme under which a generated page is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// Under which scheme the load of a recorded page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// The one that it was recorded under.
    #[default]
    AsRecorded,
    /// `http`, so that a proxy sees the page's requests. What the page itself names by `https` stays as it is; fields that
    /// have browsers change to https are left away (`Strict-Transport-Security`, `upgrade-insecure-requests`).
    Http,
}

/// Where a page comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Generated from what a paper says about a page.
    Reference,
    /// Recorded from the web.
    Recorded,
}

/// What there is of a page, all bodies in identity coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where the page comes from.
    pub provenance: Provenance,
    /// Objects: those that the page loads if it is generated, all successful `GET`s of the file if it is recorded.
    pub objects: usize,
    /// Hosts that the objects are on.
    pub hosts: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes of the HTML, style sheets, scripts and other text.
    pub text_bytes: u64,
    /// Bytes of the images.
    pub image_bytes: u64,
    /// Bytes of the largest object.
    pub largest: u64,
    /// Only the HTML was recorded: good for compression and delta encoding, not for page load times.
    pub html_only: bool,
}

impl Page {
    pub(crate) fn new(name: &str, url: Url, blocked: Vec<String>, source: Source) -> Self {
        Self {
            name: name.into(),
            url,
            blocked: blocked.into(),
            source,
            replay: Replay::AsRecorded,
            renames: Renames::default(),
            sizes: Arc::default(),
        }
    }

    /// Its name, as in the results: all editions have the same.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its load begins.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What its hosts answer; `None` for what is not there (404).
    ///
    /// `HEAD` is answered as `GET`, body included, which the server leaves away. Generated pages answer either scheme.
    pub fn answer(&self, method: &Method, url: &Url) -> Option<Answer> {
        match &self.source {
            Source::Reference(edition) => edition.answer(method, url),
            Source::Recorded(edition) => {
                let answer = edition.answer(method, &self.renames.original(url))?;
                Some(self.adapted(url, answer))
            }
        }
    }

    fn adapted(&self, url: &Url, mut answer: Answer) -> Answer {
        if self.replay == Replay::Http {
            answer.stay_on_http();
        }
        if self.renames.is_empty() {
            answer
        } else {
            self.renames.answer(url, answer)
        }
    }

    /// The hosts that it answers for, sorted: names, a port only where it is not the scheme's own.
    pub fn hosts(&self) -> Vec<String> {
        match &self.source {
            Source::Reference(edition) => edition.hosts(),
            Source::Recorded(edition) => {
                let mut hosts: BTreeSet<String> = edition.hosts().into_iter().collect();
                hosts.extend(self.other_names(hosts.iter()));
                hosts.into_iter().collect()
            }
        }
    }

    fn other_names<'a>(&self, hosts: impl Iterator<Item = &'a String>) -> Vec<String> {
        hosts.filter_map(|host| self.renames.host(host)).collect()
    }

    /// Hosts that must not resolve: advertising and logs whose requests nobody can have recorded.
    pub fn blocked_hosts(&self) -> &[String] {
        &self.blocked
    }

    /// URLs of all objects of the page (generated) or of the file (recorded: every successful `GET`), each once.
    /// A generated page's [`Page::sibling`] and what only that loads are not among them.
    pub fn objects(&self) -> Vec<Url> {
        match &self.source {
            Source::Reference(edition) => edition.urls(self.scheme()),
            Source::Recorded(edition) => edition.urls(),
        }
    }

    /// Measures what there is of the page.
    pub fn facts(&self) -> Facts {
        let mut facts = Facts {
            provenance: match self.source {
                Source::Reference(_) => Provenance::Reference,
                Source::Recorded(_) => Provenance::Recorded,
            },
            objects: 0,
            hosts: 0,
            bytes: 0,
            text_bytes: 0,
            image_bytes: 0,
            largest: 0,
            html_only: match &self.source {
                Source::Reference(_) => false,
                Source::Recorded(edition) => edition.html_only(),
            },
        };
        let mut hosts = BTreeSet::new();
        for url in self.objects() {
            let Some(answer) = self.answer(&Method::GET, &url) else {
                continue;
            };
            let length = answer.decoded().map_or(answer.body.len(), |body| body.len());
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            facts.objects += 1;
            facts.bytes += length;
            facts.largest = facts.largest.max(length);
            if answer.is_text() {
                facts.text_bytes += length;
            } else if answer.media_type().starts_with("image/") {
                facts.image_bytes += length;
            }
            hosts.extend(url.host_str().map(str::to_owned));
        }
        facts.hosts = hosts.len();
        facts
    }

    /// What the paper says about the page, if it is generated from a paper.
    pub fn published(&self) -> Option<&'static reference::Published> {
        match &self.source {
            Source::Reference(edition) => Some(edition.published()),
            Source::Recorded(_) => None,
        }
    }

    /// Whether only HTML was recorded, so that the page is of no use for load times.
    pub fn html_only(&self) -> bool {
        match &self.source {
            Source::Reference(_) => false,
            Source::Recorded(edition) => edition.html_only(),
        }
    }

    /// Which edition this is, from 1.
    pub fn edition(&self) -> usize {
        match &self.source {
            Source::Reference(edition) => edition.number(),
            Source::Recorded(edition) => edition.number(),
        }
    }

    /// The page as it was some time later: the same URLs, of which some answer differently, and some new ones.
    pub fn next_edition(&self) -> Option<Self> {
        match &self.source {
            Source::Reference(edition) => Some(edition.next()?.page().with_scheme(self.scheme())),
            Source::Recorded(edition) => {
                let next = edition.next()?.page(&self.name);
                Some(next.adopting(self))
            }
        }
    }

    /// Another page of the same site, which this page answers too: same templates, style sheets and logo, another text
    /// and some other images.
    ///
    /// Recordings have one only if just HTML was recorded: in others, further documents are frames.
    pub fn sibling(&self) -> Option<Url> {
        match &self.source {
            Source::Reference(edition) => Some(edition.sibling(self.scheme())),
            Source::Recorded(edition) => Some(self.replayed_url(edition.sibling()?)),
        }
    }

    /// A recorded page whose load begins under another scheme. The answers are the same: a recording serves either scheme,
    /// but for redirects to the scheme that was asked for. A page that is not to be had so, and a generated one, stays as
    /// it is.
    #[must_use]
    pub fn replayed(&self, replay: Replay) -> Self {
        let mut page = self.clone();
        page.replay = replay;
        page.adopting(&page)
    }

    /// A recorded page of which these domains have other names, equally long: its hosts answer under both, and its answers
    /// name the others. For browsers that know a site and insist on https. A generated page stays as it is.
    #[must_use]
    pub fn renamed(&self, domains: &BTreeSet<String>) -> Self {
        let mut page = self.clone();
        page.renames = Renames::of(domains);
        page.adopting(&page)
    }

    /// The same page replayed as `other` is.
    fn adopting(&self, other: &Self) -> Self {
        let mut page = self.clone();
        if let Source::Recorded(edition) = &self.source {
            page.replay = other.replay;
            page.renames = Renames::clone(&other.renames).emptied();
            page.sizes = Arc::default();
            page.url = page.replayed_url(edition.url().clone());
            let blocked: BTreeSet<String> = self.blocked.iter().cloned().collect();
            let others = page.other_names(blocked.iter());
            page.blocked = blocked.into_iter().chain(others).collect();
        } else {
            page.replay = Replay::AsRecorded;
            page.renames = Renames::default();
        }
        page
    }

    fn replayed_url(&self, url: Url) -> Url {
        let url = self.renames.url(&url);
        let mut plain = url.clone();
        let asked = self.replay == Replay::Http && plain.set_scheme(Scheme::Http.as_str()).is_ok();
        if asked && self.answer(&Method::GET, &plain).is_some() {
            plain
        } else {
            url
        }
    }

    /// The page served under `scheme`. Links of generated pages name no scheme, so their content is the same. A
    /// recorded page stays as it is.
    #[must_use]
    pub fn with_scheme(&self, scheme: Scheme) -> Self {
        let mut page = self.clone();
        if let Source::Reference(edition) = &self.source {
            page.url = edition.url(scheme);
            page.sizes = Arc::default();
        }
        page
    }

    /// Makes the content of a generated page, its sibling included, so that no later call takes long.
    pub fn prepare(&self) {
        if let Source::Reference(edition) = &self.source {
            edition.prepare();
        }
    }

    pub(crate) fn remembered_size(
        &self,
        url: &Url,
        measure: impl FnOnce() -> Option<ObjectSize>,
    ) -> Option<ObjectSize> {
        let sizes = || self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sizes().get(url) {
            return *known;
        }
        let measured = measure();
        // What is unknown is not remembered: the URLs of misses have no bound.
        if measured.is_some() {
            sizes().insert(url.clone(), measured);
        }
        measured
    }

    fn scheme(&self) -> Scheme {
        if self.url.scheme() == "https" {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = formatter.debug_struct("Page");
        page.field("name", &self.name)
            .field("url", &self.url.as_str())
            .field("edition", &self.edition())
            .finish_non_exhaustive()
    }
}

impl Scheme {
    /// `http` or `https`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}
