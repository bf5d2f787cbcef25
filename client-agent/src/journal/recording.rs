//! The record of a request that is in progress.
use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, StatusCode, header};
use longhaul_codec::dictionary;
use longhaul_http::transcoded_image;
use longhaul_session::{Body, BodyCoding};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::record::{RequestFailure, RequestRecord, ResponseEnd, Source};
use crate::counters::PhaseExit;

/// Maximum length of the field that says what was changed.
const MAX_CHANGE: usize = 64;

/// Handle of a record; clones share it. Does nothing for a request that is not recorded.
#[derive(Clone, Debug)]
pub(crate) struct Recording(Option<Begun>);

#[derive(Clone, Debug)]
struct Begun {
    record: Arc<Mutex<RequestRecord>>,
    at: Instant,
    changed: watch::Sender<()>,
}

impl Recording {
    pub(super) const fn off() -> Self {
        Self(None)
    }

    pub(super) const fn of(
        record: Arc<Mutex<RequestRecord>>,
        at: Instant,
        changed: watch::Sender<()>,
    ) -> Self {
        Self(Some(Begun { record, at, changed }))
    }

    fn change(&self, change: impl FnOnce(&mut RequestRecord, u64)) {
        if let Some(begun) = &self.0 {
            let passed = u64::try_from(begun.at.elapsed().as_millis()).unwrap_or(u64::MAX);
            change(&mut begun.record.lock(), passed);
            begun.changed.send_replace(());
        }
    }

    /// The request left a phase.
    pub(crate) fn left(&self, exit: PhaseExit) {
        self.change(|record, passed| record.left(exit, passed));
    }

    /// The number of the page that the request belongs to, if it is recorded.
    #[cfg(test)]
    pub(super) fn page(&self) -> Option<u64> {
        self.0.as_ref().and_then(|begun| begun.record.lock().page)
    }

    /// The browser gets a response.
    pub(crate) fn answered(&self, status: StatusCode, fields: &HeaderMap) {
        let text = |name| fields.get(name).and_then(|value| value.to_str().ok());
        let media = text(header::CONTENT_TYPE.as_str()).and_then(|media| media.split(';').next());
        let changed = text(transcoded_image::FIELD);
        self.change(|record, passed| {
            record.status = Some(status.as_u16());
            record.answered_ms = Some(passed);
            record.media = media.unwrap_or_default().chars().take(MAX_CHANGE).collect();
            record.changed = changed.map(|changed| changed.chars().take(MAX_CHANGE).collect());
        });
    }

    /// There is no response but an error page.
    pub(crate) fn failed(&self, title: &str, whose: &str) {
        self.change(|record, _| {
            record.source = Source::Failed;
            record.failure = Some(RequestFailure {
                title: title.to_owned(),
                whose: whose.to_owned(),
            });
        });
    }

    /// The coding of the body on the hop.
    pub(crate) fn coded(&self, body: &Body) {
        let coding = match body.coding {
            BodyCoding::Identity => "identity",
            BodyCoding::Zstd => "zstd",
            BodyCoding::Brotli => "brotli",
            BodyCoding::Mix => "mix",
        };
        let base = body.base.map(|name| {
            if dictionary::knows(name.as_bytes()) {
                "dictionary"
            } else {
                "stored"
            }
        });
        self.change(|record, _| {
            record.coding = Some(Cow::Borrowed(coding));
            record.base = base.map(Cow::Borrowed);
        });
    }

    /// Bytes of the body on the hop so far.
    pub(crate) fn carried(&self, bytes: u64) {
        self.change(|record, _| record.hop_bytes = bytes);
    }

    /// Returns the recording of the response's body.
    pub(crate) fn of_body(&self) -> BodyRecording {
        BodyRecording {
            recording: self.clone(),
            bytes: 0,
        }
    }

    fn ended(&self, end: ResponseEnd, bytes: u64) {
        self.change(|record, passed| {
            record.end = end;
            record.bytes = bytes;
            record.ended_ms = Some(passed);
        });
    }
}

/// Records the body of a response on its way to the browser.
#[derive(Debug)]
pub(crate) struct BodyRecording {
    recording: Recording,
    bytes: u64,
}

impl BodyRecording {
    /// The browser got so many bytes.
    pub(crate) const fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The body ended.
    pub(crate) fn end(self, end: ResponseEnd) {
        self.recording.ended(end, self.bytes);
    }
}
