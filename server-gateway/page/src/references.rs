//! References of a document or page, one per URL.
use std::collections::BTreeMap;

use url::Url;

use crate::{CrossOrigin, Destination, Reference};

/// Maximum number of references per document, including its `srcdoc` frames: several times the number of the
/// largest pages.
pub const MAX_REFERENCES: usize = 5000;
/// Maximum length of the URLs of all references together: twenty times that of the largest pages.
const MAX_URLS: usize = 4 * 1024 * 1024;

/// References by URL. Several references to one URL merge into one, with the stronger importance, its
/// destination, and the greater certainty.
#[derive(Clone, Debug)]
pub struct References {
    list: Vec<Reference>,
    by_url: BTreeMap<Url, usize>,
    limit: usize,
    /// Length of all URLs.
    length: usize,
}

/// Result of adding a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The reference is the first to its URL and has this index.
    New(usize),
    /// The reference changed importance, certainty or destination of the reference with this index.
    Stronger(usize),
    /// The reference with this index covers the added one.
    Known(usize),
    /// The collection is full.
    Full,
}

impl References {
    /// Creates an empty collection for at most `limit` references.
    pub const fn new(limit: usize) -> Self {
        Self {
            list: Vec::new(),
            by_url: BTreeMap::new(),
            limit,
            length: 0,
        }
    }

    /// Adds a reference.
    pub fn add(&mut self, reference: &Reference) -> Added {
        if let Some(&index) = self.by_url.get(&reference.url) {
            let Some(known) = self.list.get_mut(index) else {
                return Added::Known(index);
            };
            let before = known.clone();
            merge(known, reference);
            return if *known == before {
                Added::Known(index)
            } else {
                Added::Stronger(index)
            };
        }
        let length = self.length + reference.url.as_str().len();
        if self.list.len() >= self.limit || length > MAX_URLS {
            return Added::Full;
        }
        self.length = length;
        let index = self.list.len();
        self.by_url.insert(reference.url.clone(), index);
        self.list.push(reference.clone());
        Added::New(index)
    }

    /// Returns the reference with this index.
    pub fn get(&self, index: usize) -> Option<&Reference> {
        self.list.get(index)
    }

    /// Returns the index of the reference to this URL.
    pub fn index_of(&self, url: &Url) -> Option<usize> {
        self.by_url.get(url).copied()
    }

    /// All references, in the order in which their URLs were first added.
    pub fn as_slice(&self) -> &[Reference] {
        &self.list
    }

    /// Returns the number of references.
    pub const fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if the collection contains no reference.
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

fn merge(known: &mut Reference, other: &Reference) {
    // Only active style sheets are searched for references, so an inactive reference must not hide an active
    // one.
    let applies = (known.destination, other.destination) == (Destination::InactiveStyle, Destination::Style);
    if other.importance < known.importance || applies {
        known.destination = other.destination;
        known.importance = known.importance.min(other.importance);
        known.nonce.clone_from(&other.nonce);
        known.integrity.clone_from(&other.integrity);
        // The prediction must match the browser's first request, so a known mode stays unless it is `None`.
        if known.cross_origin == CrossOrigin::None {
            known.cross_origin = other.cross_origin;
        }
    }
    if known.destination == other.destination {
        // For example, a preload without nonce precedes the script that has a nonce.
        known.nonce = known.nonce.take().or_else(|| other.nonce.clone());
        known.integrity = known.integrity.take().or_else(|| other.integrity.clone());
    }
    known.certainty = known.certainty.min(other.certainty);
    known.credentials = known.credentials.min(other.credentials);
    known.sandbox = known.sandbox.and(other.sandbox);
    known.is_inline_background &= other.is_inline_background;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Certainty, Importance};

    #[test]
    fn a_url_has_one_entry_with_its_highest_importance() {
        let url = |path: &str| Url::parse("http://a.test/").unwrap().join(path).unwrap();
        let mut references = References::new(2);
        let image = Reference::new(url("x"), Destination::Image);
        assert_eq!(references.add(&image), Added::New(0));
        assert_eq!(references.add(&image), Added::Known(0));
        let script = Reference::new(url("x"), Destination::Script);
        assert_eq!(references.add(&script), Added::Stronger(0));
        assert_eq!(references.add(&image), Added::Known(0));
        assert_eq!(references.as_slice(), [script]);

        let inactive = Reference::new(url("s"), Destination::InactiveStyle);
        let lazy = Reference::new(url("s"), Destination::Style).with_importance(Importance::Lazy);
        assert_eq!(references.add(&inactive), Added::New(1));
        assert_eq!(references.add(&lazy), Added::Stronger(1));
        assert_eq!(references.get(1).unwrap().destination, Destination::Style);
        assert_eq!(
            references.add(&Reference::new(url("y"), Destination::Image)),
            Added::Full
        );
        assert_eq!((references.len(), references.index_of(&url("s"))), (2, Some(1)));
    }

    #[test]
    fn certainty_only_grows() {
        let url = Url::parse("http://a.test/").unwrap();
        let mut references = References::new(1);
        let sure = Reference::new(url, Destination::Image);
        let likely = sure.clone().with_certainty(Certainty::Likely);
        references.add(&likely);
        assert_eq!(references.add(&sure), Added::Stronger(0));
        assert_eq!(references.add(&likely), Added::Known(0));
    }
}
