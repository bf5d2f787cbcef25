//! Sources of pushed bodies.
use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_page::{Discovery, LiteralUrls, Reference};
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;
use url::Url;

/// A body to push.
pub(crate) enum PushBody {
    /// From the origin or the cache: the chunks already read, and the rest.
    Arriving(VecDeque<Bytes>, Option<BodyReader>),
    /// An HTML document that is parsed while it arrives: references are announced before the bytes that
    /// contain them.
    Document(Box<ArrivingDocument>),
    /// A repeated push, from the cache or the origin: without base, and with coding identity from the second
    /// repetition.
    Again(BodyReader),
}

/// A document that arrives from the origin.
pub(crate) struct ArrivingDocument {
    pub(super) reader: BodyReader,
    /// `Some` until the end.
    pub(super) discovery: Option<Discovery>,
    /// References that are not planned yet.
    pub(super) found: Vec<Reference>,
    pub(super) literals: DocumentLiterals,
    /// URLs that stand in the document, and that are not planned yet.
    pub(super) found_literals: Vec<Url>,
    /// A parsed chunk that is withheld while its references are announced.
    pub(super) announcing: Option<Bytes>,
}

impl ArrivingDocument {
    pub(crate) const fn new(reader: BodyReader, discovery: Discovery, literals: DocumentLiterals) -> Self {
        Self {
            reader,
            discovery: Some(discovery),
            found: Vec::new(),
            literals,
            found_literals: Vec::new(),
            announcing: None,
        }
    }
}

/// The URLs that stand in a document; those of frames are not searched.
pub(crate) struct DocumentLiterals(Option<LiteralUrls>);

impl DocumentLiterals {
    /// Of the document of the page at this URL.
    pub(crate) fn of_page(page: &Url) -> Self {
        Self(Some(LiteralUrls::new(page)))
    }

    /// Of a frame's document.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn write(&mut self, chunk: &[u8]) -> Vec<Url> {
        self.0
            .as_mut()
            .map(|literals| literals.write(chunk))
            .unwrap_or_default()
    }
}

impl PushBody {
    pub(super) fn hash(&self) -> Option<ContentHash> {
        match self {
            Self::Arriving(_, rest) => rest.as_ref()?.chk(),
            Self::Document(document) => document.reader.chk(),
            Self::Again(body) => body.chk(),
        }
    }

    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Arriving(first, None) => Some(first.iter().map(|chunk| chunk.len() as u64).sum()),
            Self::Arriving(_, Some(rest)) => rest.length(),
            Self::Document(document) => document.reader.length(),
            Self::Again(body) => body.length(),
        }
    }
}
