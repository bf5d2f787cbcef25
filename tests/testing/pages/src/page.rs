//! A page of the benchmark.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;

use http::Method;
use url::Url;

use crate::{Answer, ideal::ObjectSize, recorded, reference, rename::Renames};

/// One edition of a page with all of its objects. Cheap to clone.
///
/// The content of a generated page is created when it is first needed; [`Page::prepare`] creates it in
/// advance.
#[derive(Clone)]
pub struct Page {
    name: Arc<str>,
    url: Url,
    blocked: Arc<[String]>,
    source: Source,
    replay: Replay,
    renames: Renames,
    hosting: PageHosts,
    sizes: Arc<Mutex<BTreeMap<Url, Option<ObjectSize>>>>,
}

/// Hosts of a generated page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PageHosts {
    /// As described.
    #[default]
    Own,
    /// The page's own host has all objects.
    One,
}

#[derive(Clone)]
pub(crate) enum Source {
    Reference(Arc<reference::Edition>),
    Recorded(recorded::Edition),
}

/// Scheme under which a generated page is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// Scheme under which the load of a recorded page begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// The recorded scheme.
    #[default]
    AsRecorded,
    /// `http`, so that a proxy sees the page's requests. Links to `https` in the page are unchanged; fields
    /// that make browsers change to https are removed (`Strict-Transport-Security`,
    /// `upgrade-insecure-requests`).
    Http,
}

/// Source of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Generated from a paper's description of a page.
    Reference,
    /// Recorded from the web.
    Recorded,
}

/// Statistics of a page, with all bodies in identity coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Source of the page.
    pub provenance: Provenance,
    /// Objects: those that the page loads if it is generated, all successful `GET`s of the file if it is
    /// recorded.
    pub objects: usize,
    /// Number of hosts of the objects.
    pub hosts: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes of HTML, style sheets, scripts and other text.
    pub text_bytes: u64,
    /// Bytes of the images.
    pub image_bytes: u64,
    /// Bytes of the largest object.
    pub largest: u64,
    /// True if only the HTML was recorded: suitable for measurements of compression and delta encoding, not
    /// of page load times.
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
            hosting: PageHosts::Own,
            sizes: Arc::default(),
        }
    }

    /// Name in the results, equal for all editions.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// URL at which its load begins.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the response of its hosts; `None` if there is none (404).
    ///
    /// `HEAD` is answered as `GET`, with the body, which the server omits. Generated pages answer under
    /// either scheme.
    pub fn answer(&self, method: &Method, url: &Url) -> Option<Answer> {
        match &self.source {
            Source::Reference(edition) if self.hosting == PageHosts::One => {
                edition.answer_under_one_host(method, url)
            }
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

    /// Returns the hosts that it answers for, sorted: names, with a port only if it is not the scheme's
    /// default.
    pub fn hosts(&self) -> Vec<String> {
        match &self.source {
            Source::Reference(_) if self.hosting == PageHosts::One => {
                self.url.host_str().map(str::to_owned).into_iter().collect()
            }
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

    /// Hosts that must not resolve: advertising and logs, whose requests cannot be recorded.
    pub fn blocked_hosts(&self) -> &[String] {
        &self.blocked
    }

    /// Returns the URLs of all objects of the page (generated) or of the file (recorded: every successful
    /// `GET`), each once. A generated page's [`Page::sibling`] and the objects that only the sibling loads
    /// are excluded.
    pub fn objects(&self) -> Vec<Url> {
        match &self.source {
            Source::Reference(edition) => {
                let mut urls = edition.urls(self.scheme());
                if self.hosting == PageHosts::One {
                    for url in &mut urls {
                        let _same_scheme = url.set_host(self.url.host_str());
                    }
                }
                urls
            }
            Source::Recorded(edition) => edition.urls(),
        }
    }

    /// Computes the statistics of the page.
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

    /// Returns the paper's data about the page, if it is generated from a paper.
    pub fn published(&self) -> Option<&'static reference::Published> {
        match &self.source {
            Source::Reference(edition) => Some(edition.published()),
            Source::Recorded(_) => None,
        }
    }

    /// Returns true if only HTML was recorded, so that the page cannot be used for load times.
    pub fn html_only(&self) -> bool {
        match &self.source {
            Source::Reference(_) => false,
            Source::Recorded(edition) => edition.html_only(),
        }
    }

    /// Number of this edition, from 1.
    pub fn edition(&self) -> usize {
        match &self.source {
            Source::Reference(edition) => edition.number(),
            Source::Recorded(edition) => edition.number(),
        }
    }

    /// Returns the page as of some time later: with the same URLs, some of them with other responses, and
    /// some new ones.
    pub fn next_edition(&self) -> Option<Self> {
        match &self.source {
            Source::Reference(edition) => {
                let mut next = edition.next()?.page().with_scheme(self.scheme());
                next.hosting = self.hosting;
                Some(next)
            }
            Source::Recorded(edition) => {
                let next = edition.next()?.page(&self.name);
                Some(next.adopting(self))
            }
        }
    }

    /// Returns another page of the same site, which this page also answers: with the same templates, style
    /// sheets and logo, other text and some other images.
    ///
    /// Recordings have one only if just HTML was recorded: in others, further documents are frames.
    pub fn sibling(&self) -> Option<Url> {
        match &self.source {
            Source::Reference(edition) => Some(edition.sibling(self.scheme())),
            Source::Recorded(edition) => Some(self.replayed_url(edition.sibling()?)),
        }
    }

    /// Returns a recorded page whose load begins under another scheme. The responses are the same: a
    /// recording serves either scheme, except for redirects to the requested scheme. A page that is not
    /// available under that scheme, and a generated page, are returned unchanged.
    #[must_use]
    pub fn replayed(&self, replay: Replay) -> Self {
        let mut page = self.clone();
        page.replay = replay;
        page.adopting(&page)
    }

    /// Returns a recorded page in which these domains have other names of equal length: its hosts answer
    /// under both names, and its responses contain the other ones. For browsers that load a known site only
    /// over https. A generated page is returned unchanged.
    #[must_use]
    pub fn renamed(&self, domains: &BTreeSet<String>) -> Self {
        let mut page = self.clone();
        page.renames = Renames::of(domains);
        page.adopting(&page)
    }

    /// Returns the same page with the replay options of `other`.
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

    /// Returns the page served under `scheme`. Links of generated pages contain no scheme, so their content
    /// is the same. A recorded page is returned unchanged.
    #[must_use]
    pub fn with_scheme(&self, scheme: Scheme) -> Self {
        let mut page = self.clone();
        if let Source::Reference(edition) = &self.source {
            page.url = edition.url(scheme);
            page.sizes = Arc::default();
        }
        page
    }

    /// Returns a generated page all objects of which are under its own host, as a proxy that rewrites URLs makes
    /// it. A recorded page is returned unchanged: its scripts make addresses of their own.
    #[must_use]
    pub fn under_one_host(&self) -> Self {
        let mut page = self.clone();
        if matches!(self.source, Source::Reference(_)) {
            page.hosting = PageHosts::One;
            page.sizes = Arc::default();
        }
        page
    }

    /// Creates the content of a generated page, including its sibling, so that later calls are fast.
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
        let sizes = || self.sizes.lock();
        if let Some(known) = sizes().get(url) {
            return *known;
        }
        let measured = measure();
        // Unknown URLs are not cached: their number has no bound.
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
