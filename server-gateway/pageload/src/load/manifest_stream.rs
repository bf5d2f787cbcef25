//! The manifest's stream as the task of a page load uses it: writes run beside the task's other work, one at
//! a time.
use std::future::pending;

use futures_util::future::BoxFuture;
use longhaul_session::Record;
use longhaul_types::BitRate;
use tokio::sync::oneshot;

use crate::{context::PageLoadContext, manifest::ManifestWriter, plan::Plan};

/// The manifest of a page load, and the tasks that wait for its records to be written.
pub(super) struct ManifestStream {
    state: State,
    /// Flushes of records that no write contains yet.
    waiting: Vec<oneshot::Sender<()>>,
}

enum State {
    Open(Box<ManifestWriter>),
    /// A write is in progress.
    Writing {
        write: BoxFuture<'static, Written>,
        /// Flushes of the records that it contains.
        flushed: Vec<oneshot::Sender<()>>,
    },
    /// The manifest has ended, or the agent has stopped it.
    Ended {
        /// Decoded bytes of the complete manifest.
        decoded: Option<Vec<u8>>,
    },
}

/// Result of a write.
enum Written {
    Records {
        writer: Box<ManifestWriter>,
        entries: u64,
        bytes: usize,
    },
    Ended {
        decoded: Option<Vec<u8>>,
    },
}

impl ManifestStream {
    pub(super) fn new(writer: ManifestWriter) -> Self {
        Self {
            state: State::Open(Box::new(writer)),
            waiting: Vec::new(),
        }
    }

    pub(super) const fn is_writing(&self) -> bool {
        matches!(self.state, State::Writing { .. })
    }

    /// Decoded bytes of the manifest, once it is complete.
    pub(super) fn decoded(&self) -> Option<&[u8]> {
        match &self.state {
            State::Ended { decoded } => decoded.as_deref(),
            State::Open(_) | State::Writing { .. } => None,
        }
    }

    /// Returns true once the manifest has ended, or the agent has stopped it.
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// Requests a write of all records so far.
    pub(super) fn flush(&mut self, done: oneshot::Sender<()>) {
        self.waiting.push(done);
    }

    /// Returns true if a task waits for a write.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Starts the write of all records so far, unless another write is in progress.
    pub(super) fn write(&mut self, plan: &mut Plan, context: &PageLoadContext) {
        if self.is_writing() {
            return;
        }
        let records = plan.take_records();
        let flushed = std::mem::take(&mut self.waiting);
        if records.is_empty() {
            return complete(flushed);
        }
        let ended = State::Ended { decoded: None };
        self.state = match std::mem::replace(&mut self.state, ended) {
            State::Open(writer) => State::Writing {
                write: write(writer, records, context.window_key, context.link_rate()),
                flushed,
            },
            state @ (State::Writing { .. } | State::Ended { .. }) => {
                complete(flushed);
                state
            }
        };
    }

    /// Starts the write of the manifest's end. All records must be written.
    pub(super) fn finish(&mut self) {
        let ended = State::Ended { decoded: None };
        self.state = match std::mem::replace(&mut self.state, ended) {
            State::Open(writer) => State::Writing {
                write: Box::pin(async move {
                    let decoded = writer.finish().await.ok().flatten();
                    Written::Ended { decoded }
                }),
                flushed: Vec::new(),
            },
            state @ (State::Writing { .. } | State::Ended { .. }) => state,
        };
    }

    /// Waits for the end of the write in progress; pends forever without one. Cancel safe.
    pub(super) async fn written(&mut self, context: &PageLoadContext) {
        let State::Writing { write, flushed } = &mut self.state else {
            return pending().await;
        };
        let written = write.await;
        complete(std::mem::take(flushed));
        self.state = match written {
            Written::Records {
                writer,
                entries,
                bytes,
            } => {
                context.counters().manifest(entries, bytes);
                context.origin_reports.heads_sent(bytes as u64);
                State::Open(writer)
            }
            Written::Ended { decoded } => State::Ended { decoded },
        };
    }
}

fn complete(flushed: Vec<oneshot::Sender<()>>) {
    for done in flushed {
        // The task that waited may have been cancelled.
        let _cancelled = done.send(());
    }
}

fn write(
    mut writer: Box<ManifestWriter>,
    records: Vec<Record>,
    key: [u8; 32],
    link: Option<BitRate>,
) -> BoxFuture<'static, Written> {
    let entries = records.iter().filter(|record| matches!(record, Record::Entry(_)));
    let entries = entries.count() as u64;
    Box::pin(async move {
        match writer.write(&records, key, link).await {
            Ok(bytes) => Written::Records {
                writer,
                entries,
                bytes,
            },
            Err(_) => Written::Ended { decoded: None },
        }
    })
}
