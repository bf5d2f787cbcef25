//! Editions of a reference page, created when first needed.
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use http::Method;
use url::Url;

use super::{
    catalogue::{Published, Recipe},
    files::Files,
    site::{self, SIBLING, Site},
};
use crate::{Answer, Page, Scheme, page::Source};

/// An edition; the second one refers to the first, with which it shares most files.
pub(crate) struct Edition {
    recipe: &'static Recipe,
    previous: Option<Arc<Self>>,
    next: OnceLock<Arc<Self>>,
    site: OnceLock<Site>,
    sibling: OnceLock<Files>,
}

/// Number of editions of each page.
const EDITIONS: usize = 2;

impl Edition {
    pub(super) fn first(recipe: &'static Recipe) -> Self {
        Self::new(recipe, None)
    }

    fn new(recipe: &'static Recipe, previous: Option<Arc<Self>>) -> Self {
        Self {
            recipe,
            previous,
            next: OnceLock::new(),
            site: OnceLock::new(),
            sibling: OnceLock::new(),
        }
    }

    pub(crate) fn page(self: &Arc<Self>) -> Page {
        let source = Source::Reference(Arc::clone(self));
        Page::new(self.recipe.name, self.url(Scheme::Http), Vec::new(), source)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.recipe.name
    }

    pub(crate) fn published(&self) -> &'static Published {
        &self.recipe.published
    }

    pub(crate) fn number(&self) -> usize {
        self.previous.as_ref().map_or(1, |previous| previous.number() + 1)
    }

    pub(crate) fn next(self: &Arc<Self>) -> Option<Arc<Self>> {
        let make = || Arc::new(Self::new(self.recipe, Some(Arc::clone(self))));
        (self.number() < EDITIONS).then(|| Arc::clone(self.next.get_or_init(make)))
    }

    pub(crate) fn url(&self, scheme: Scheme) -> Url {
        self.at(scheme, "/")
    }

    pub(crate) fn sibling(&self, scheme: Scheme) -> Url {
        self.at(scheme, &format!("{SIBLING}index.html"))
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        let hosts: BTreeSet<String> = site::hosts(self.recipe).into_iter().collect();
        hosts.into_iter().collect()
    }

    pub(crate) fn urls(&self, scheme: Scheme) -> Vec<Url> {
        self.site().files.urls(scheme)
    }

    pub(crate) fn answer(&self, method: &Method, url: &Url) -> Option<Answer> {
        if url.path().starts_with(SIBLING) {
            return self.sibling_files().answer(method, url);
        }
        self.site().files.answer(method, url)
    }

    /// Returns the response of the page's own host if it has the objects of all hosts: their paths differ, and links
    /// in text name this host.
    pub(crate) fn answer_under_one_host(&self, method: &Method, url: &Url) -> Option<Answer> {
        let own = site::main_host(self.recipe);
        if url.host_str() != Some(own.as_str()) {
            return None;
        }
        let mut found = self.hosts().into_iter().filter_map(|host| {
            let mut elsewhere = url.clone();
            elsewhere.set_host(Some(&host)).ok()?;
            self.answer(method, &elsewhere)
        });
        let mut answer = found.next()?;
        if answer.is_text() {
            let mut text = String::from_utf8_lossy(&answer.body).into_owned();
            for host in self.hosts().iter().filter(|host| **host != own) {
                text = text.replace(&format!("//{host}/"), &format!("//{own}/"));
            }
            answer.body = text.into();
        }
        Some(answer)
    }

    pub(crate) fn prepare(&self) {
        self.sibling_files();
    }

    fn site(&self) -> &Site {
        self.site.get_or_init(|| match &self.previous {
            None => Site::first(self.recipe),
            Some(previous) => previous.site().next(),
        })
    }

    fn sibling_files(&self) -> &Files {
        self.sibling.get_or_init(|| self.site().sibling())
    }

    #[expect(
        clippy::expect_used,
        reason = "the names of the recipes are host names, which a test asserts"
    )]
    fn at(&self, scheme: Scheme, path: &str) -> Url {
        let text = format!("{}://{}{path}", scheme.as_str(), site::main_host(self.recipe));
        Url::parse(&text).expect("a URL")
    }
}
