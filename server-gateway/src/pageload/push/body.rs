//! Reading of pushed bodies.
use bytes::Bytes;
use longhaul_session::EntryId;
use tracing::debug;

use super::{Broken, PageLoad};
use crate::pageload::push_body::{ArrivingDocument, PushBody};

impl ArrivingDocument {
    async fn next(&mut self, load: &PageLoad, entry: EntryId) -> Option<Result<Bytes, Broken>> {
        if self.announcing.is_none() {
            let chunk = match self.reader.next().await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => {
                    debug!(%error, "a document to be pushed ended early");
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
            self.found_literals.extend(self.literals.write(&chunk));
            // Stored, because this future may be dropped while the manifest is written.
            self.announcing = Some(chunk);
        }
        load.plan_found(&mut self.found, entry).await;
        load.plan_literals(&mut self.found_literals, entry).await;
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
