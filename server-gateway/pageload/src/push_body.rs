//! Sources of pushed bodies.
use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_gateway_core::page_parsers::{DocumentParser, Found};
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;

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
    pub(super) parser: DocumentParser,
    /// A chunk that is withheld until its references are announced, and whether it is parsed.
    pub(super) announcing: Option<Bytes>,
    pub(super) is_parsed: bool,
    /// What is not planned yet.
    pub(super) found: Found,
}

impl ArrivingDocument {
    pub(crate) fn new(reader: BodyReader, parser: DocumentParser) -> Self {
        Self {
            reader,
            parser,
            announcing: None,
            is_parsed: false,
            found: Found::default(),
        }
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
