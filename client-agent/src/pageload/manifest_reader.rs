//! Reading of the manifest from its stream into the page load's entries.
use std::sync::Arc;

use bytes::BytesMut;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits};
use longhaul_driver::{ERROR_ABANDONED, StreamError};
use longhaul_session::{ManifestId, RecordReader};
use longhaul_types::ByteCount;
use tracing::{debug, warn};

use super::{manifest_entry::MAX_ENTRIES, page_load::PageLoad, page_state::ManifestProgress};
use crate::gateway::{ResponseStream, coding_of};

/// Maximum size of a manifest: the maximum number of entries, with header sections larger than those of most
/// responses.
const MAX_MANIFEST: ByteCount = ByteCount::kib(2 * MAX_ENTRIES as u64);

/// Errors that end the reading of a manifest. Records read before remain valid.
#[derive(Debug, thiserror::Error)]
enum ManifestError {
    #[error("its base is a manifest that is not stored")]
    UnknownBase,
    #[error("the session has no window key")]
    NoKey,
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(transparent)]
    Window(#[from] longhaul_codec::DecodeError),
    #[error(transparent)]
    Record(#[from] longhaul_session::EnvelopeError),
    #[error("its records are inconsistent or too many")]
    Nonsense,
    #[error("the page load has ended")]
    Over,
}

/// Reads a manifest to its end.
pub(super) async fn read(load: Arc<PageLoad>, base: Option<ManifestId>, stream: ResponseStream) {
    if !load.begin_manifest() {
        debug!("a page load got a second manifest");
        return;
    }
    let end = match records(&load, base, stream).await {
        Ok(complete) => complete,
        Err(error @ (ManifestError::Stream(_) | ManifestError::Over)) => {
            debug!(%error, "a manifest ended early");
            ManifestProgress::Broken
        }
        Err(error) => {
            warn!(%error, "a manifest cannot be read");
            load.counters.windows_bad.increment();
            ManifestProgress::Broken
        }
    };
    load.end_manifest(end);
}

async fn records(
    load: &PageLoad,
    base: Option<ManifestId>,
    mut stream: ResponseStream,
) -> Result<ManifestProgress, ManifestError> {
    let base = match base {
        None => &[][..],
        Some(id) => {
            let kept = load.base.as_ref().filter(|kept| kept.id() == id);
            kept.ok_or(ManifestError::UnknownBase)?.bytes()
        }
    };
    let body = stream
        .body()
        .await?
        .ok_or(StreamError::Cancelled(ERROR_ABANDONED))?;
    let key = load.session.window_key().ok_or(ManifestError::NoKey)?;
    let limits = BodyLimits {
        max_body: MAX_MANIFEST,
    };
    let mut decoder = BodyDecoder::with_base(key, coding_of(body.coding), limits, base);
    let mut reader = RecordReader::new();
    let mut whole = BytesMut::new();
    let mut changes = load.changes();
    loop {
        let bytes = tokio::select! {
            bytes = stream.read() => bytes?,
            () = load.until_over(&mut changes) => return Err(ManifestError::Over),
        };
        let Some(bytes) = bytes else {
            decoder.finish()?;
            return Ok(ManifestProgress::Complete(whole.freeze()));
        };
        load.record_progress();
        let mut wire = bytes.as_ref();
        loop {
            match decoder.next(&mut wire)? {
                BodyEvent::Window(window) => {
                    whole.extend_from_slice(&window);
                    reader.push(&window);
                    while let Some(record) = reader.next()? {
                        if !load.apply_record(record) {
                            return Err(ManifestError::Nonsense);
                        }
                    }
                }
                BodyEvent::End(_) => return Ok(ManifestProgress::Complete(whole.freeze())),
                BodyEvent::NeedInput => break,
            }
        }
    }
}
