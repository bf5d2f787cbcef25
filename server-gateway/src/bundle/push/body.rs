//! Sources of pushed bodies.
use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_page::{Discovery, Reference};
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;
use tracing::debug;

use super::{Broken, PageLoad};

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
    reader: BodyReader,
    /// `Some` until the end.
    discovery: Option<Discovery>,
    /// References that are not planned yet.
    found: Vec<Reference>,
    /// A parsed chunk that is withheld while its references are announced.
    announcing: Option<Bytes>,
}

impl ArrivingDocument {
    pub(crate) const fn new(reader: BodyReader, discovery: Discovery) -> Self {
        Self {
            reader,
            discovery: Some(discovery),
            found: Vec::new(),
            announcing: None,
        }
    }

    async fn next(&mut self, load: &PageLoad, entry: u32) -> Option<Result<Bytes, Broken>> {
        if self.announcing.is_none() {
            let chunk = match self.reader.next().await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => {
                    debug!(%error, "a document to be pushed broke off");
                    return Some(Err(Broken::Source));
                }
                None => {
                    if let Some(discovery) = self.discovery.take() {
                        self.found.extend(discovery.finish());
                    }
                    load.plan_found(&mut self.found, entry).await;
                    return None;
                }
            };
            if let Some(discovery) = &mut self.discovery {
                self.found.extend(discovery.write(&chunk));
            }
            // Stored, because this future may be dropped while the manifest is written.
            self.announcing = Some(chunk);
        }
        load.plan_found(&mut self.found, entry).await;
        load.flush().await;
        self.announcing.take().map(Ok)
    }
}

impl PushBody {
    /// Returns the next chunk. Cancel safe.
    pub(super) async fn next(&mut self, load: &PageLoad, entry: u32) -> Option<Result<Bytes, Broken>> {
        match self {
            Self::Document(document) => document.next(load, entry).await,
            Self::Arriving(first, rest) => {
                if let Some(chunk) = first.pop_front() {
                    return Some(Ok(chunk));
                }
                let chunk = rest.as_mut()?.next().await?;
                Some(chunk.map_err(|error| {
                    debug!(%error, "a body to be pushed broke off");
                    Broken::Source
                }))
            }
            Self::Again(body) => {
                let chunk = body.next().await?;
                Some(chunk.map_err(|_| Broken::Source))
            }
        }
    }

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
