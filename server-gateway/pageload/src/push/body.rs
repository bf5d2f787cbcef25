//! Reading of pushed bodies.
use bytes::Bytes;
use longhaul_gateway_core::page_parsers::Found;
use longhaul_session::EntryId;
use tracing::debug;

use super::{Broken, PageLoad};
use crate::push_body::{ArrivingDocument, PushBody};

impl ArrivingDocument {
    async fn next(&mut self, load: &PageLoad, entry: EntryId) -> Option<Result<Bytes, Broken>> {
        let chunk = match &self.announcing {
            Some(chunk) => chunk.clone(),
            None => match self.reader.next().await {
                Some(Ok(chunk)) => {
                    // Stored, because this future may be dropped while the chunk is parsed or the manifest written.
                    self.is_parsed = false;
                    self.announcing.insert(chunk).clone()
                }
                Some(Err(error)) => {
                    debug!(%error, "a document to be pushed ended early");
                    return Some(Err(Broken::Source));
                }
                None => {
                    self.found.references.extend(self.parser.end().await);
                    load.plan_found(&mut self.found.references, entry).await;
                    return None;
                }
            },
        };
        if !self.is_parsed {
            let Found { references, literals } = self.parser.write(&chunk).await;
            self.found.references.extend(references);
            self.found.literals.extend(literals);
            self.is_parsed = true;
        }
        load.plan_found(&mut self.found.references, entry).await;
        load.plan_literals(&mut self.found.literals, entry).await;
        load.flush().await;
        self.announcing.take().map(Ok)
    }
}

impl PushBody {
    /// Returns the next chunk. Cancel safe.
    pub(super) async fn next(&mut self, load: &PageLoad, entry: EntryId) -> Option<Result<Bytes, Broken>> {
        match self {
            Self::Document(document) => document.next(load, entry).await,
            Self::Arriving(first, rest) => {
                if let Some(chunk) = first.pop_front() {
                    return Some(Ok(chunk));
                }
                let chunk = rest.as_mut()?.next().await?;
                Some(chunk.map_err(|error| {
                    debug!(%error, "a body to be pushed ended early");
                    Broken::Source
                }))
            }
            Self::Again(body) => {
                let chunk = body.next().await?;
                Some(chunk.map_err(|_| Broken::Source))
            }
        }
    }
}
