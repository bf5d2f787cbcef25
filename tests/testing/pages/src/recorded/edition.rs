//! One edition of a recorded page.
use std::{collections::BTreeSet, path::Path, sync::Arc};

use http::Method;
use longhaul_replay::warc::{Exchange, Recording};
use url::Url;

use super::{FolderError, index::Index};
use crate::{Answer, Page, page::Source};

/// Contents of one file.
pub(super) struct State {
    recording: Recording,
    url: Url,
    blocked: Vec<String>,
}

impl State {
    /// Reads `file`. The index's URL of the page is used only if it was recorded.
    pub(super) fn open(file: &Path, index: &Index) -> Result<Self, FolderError> {
        let recording = Recording::open(file).map_err(|error| FolderError::Warc {
            file: file.to_owned(),
            error,
        })?;
        let entry = index.entry(&stem(file));
        let named = entry
            .url
            .filter(|url| recording.answer(&Method::GET, url).is_some());
        let Some(url) = named.or_else(|| recording.main_page().cloned()) else {
            return Err(FolderError::NoPage {
                file: file.to_owned(),
            });
        };
        Ok(Self {
            recording,
            url,
            blocked: entry.blocked,
        })
    }

    /// Successful responses to `GET`, each URL once.
    fn objects(&self) -> impl Iterator<Item = &Exchange> {
        let mut seen = BTreeSet::new();
        self.recording.exchanges().iter().filter(move |exchange| {
            exchange.method == Method::GET
                && exchange.response.status.is_success()
                && seen.insert(exchange.url.clone())
        })
    }
}

/// Returns the file's name without `.warc` and `.gz`, as in the index.
fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".warc").unwrap_or(name).to_owned()
}

/// One of the editions of a page, oldest first.
#[derive(Clone)]
pub(crate) struct Edition {
    states: Arc<[State]>,
    at: usize,
}

impl Edition {
    pub(super) fn first(states: Vec<State>) -> Self {
        Self {
            states: states.into(),
            at: 0,
        }
    }

    // `at` is below the length: every page has a file, and `next` checks.
    fn state(&self) -> &State {
        &self.states[self.at]
    }

    pub(crate) fn page(&self, name: &str) -> Page {
        let state = self.state();
        let source = Source::Recorded(self.clone());
        Page::new(name, state.url.clone(), state.blocked.clone(), source)
    }

    /// URL at which its load begins, as recorded.
    pub(crate) fn url(&self) -> &Url {
        &self.state().url
    }

    pub(crate) fn number(&self) -> usize {
        self.at + 1
    }

    pub(crate) fn next(&self) -> Option<Self> {
        (self.at + 1 < self.states.len()).then(|| Self {
            states: Arc::clone(&self.states),
            at: self.at + 1,
        })
    }

    pub(crate) fn answer(&self, method: &Method, url: &Url) -> Option<Answer> {
        let exchange = self.state().recording.answer(method, url)?;
        let response = &exchange.response;
        Some(Answer {
            status: response.status,
            headers: response.headers.clone(),
            body: response.body.clone(),
        })
    }

    pub(crate) fn hosts(&self) -> Vec<String> {
        let state = self.state();
        let blocked = |host: &String| state.blocked.contains(host);
        let hosts: BTreeSet<String> = state
            .recording
            .exchanges()
            .iter()
            .filter_map(|exchange| authority(&exchange.url))
            .collect();
        hosts.into_iter().filter(|host| !blocked(host)).collect()
    }

    pub(crate) fn urls(&self) -> Vec<Url> {
        let objects = self.state().objects();
        objects.map(|exchange| exchange.url.clone()).collect()
    }

    pub(crate) fn html_only(&self) -> bool {
        let mut objects = self.state().objects();
        objects.all(|exchange| exchange.response.media_type() == "text/html")
    }

    /// Returns the first other HTML document of the page's host.
    pub(crate) fn sibling(&self) -> Option<Url> {
        if !self.html_only() {
            return None;
        }
        let state = self.state();
        let mut objects = state.objects();
        let other = objects.find(|exchange| {
            exchange.url.host() == state.url.host() && exchange.url.path() != state.url.path()
        });
        other.map(|exchange| exchange.url.clone())
    }
}

fn authority(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(
        url.port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
    )
}
