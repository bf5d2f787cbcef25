//! Pushed bodies: each on its own stream, encoded like responses.
mod body;

use std::time::Duration;

use bytes::Bytes;
use longhaul_codec::EncodeError;
use longhaul_delivery::{BodyPipeline, CodeError, DeltaCandidates, Progress};
use longhaul_driver::{ERROR_ABANDONED, EarlyData, End, OpenOptions, Priority, SendStream};
use longhaul_gateway_core::origin_reports::ResponseCount;
use longhaul_session::{Body, BodyCoding, EntryId, Message, Push, encode};
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    load::PageLoad,
    plan::{PushAttempt, PushProgress, PushedResponse},
    push_body::PushBody,
};

/// Coded bytes that are sent together. A body that fits in this size opens its stream with its length, so
/// that the scheduler can send the shortest body first.
const GATHER: usize = 48 * 1024;
/// Silence of the origin after which the bytes received so far are flushed.
const PAUSE: Duration = Duration::from_millis(20);

/// Errors that end a push early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// The agent stopped the stream, or the session is lost.
    Gone,
    /// The body was truncated, or cannot be encoded.
    Source,
    /// The body exceeded its limit.
    Withdrawn,
}

impl From<CodeError> for Broken {
    fn from(error: CodeError) -> Self {
        debug!(%error, "the encoding of a push failed");
        Self::Source
    }
}

/// A push in progress.
struct Pushing<'a> {
    load: &'a PageLoad,
    entry: EntryId,
    pipeline: BodyPipeline,
    /// `None` once everything is counted.
    count: Option<ResponseCount>,
    class: watch::Receiver<u8>,
    stream: PushStream,
    wire: Vec<u8>,
    length: Option<u64>,
    decoded: u64,
    sent: u64,
}

/// Stream that is cancelled on drop unless the agent has acknowledged all of it.
#[derive(Default)]
struct PushStream(Option<SendStream>);

impl Drop for PushStream {
    fn drop(&mut self) {
        if let Some(stream) = &mut self.0 {
            stream.cancel(ERROR_ABANDONED);
        }
    }
}

/// Pushes an entry's body and waits until the agent has acknowledged all of it.
pub(super) async fn push(load: &PageLoad, attempt: PushAttempt) {
    let _busy = load.context().gateway.cpu_pool.busy();
    let PushAttempt {
        entry,
        repeats,
        mut body,
        class,
        mut response,
    } = attempt;
    let length = body.length();
    // A body that was parsed before its push is complete, so its hash is known.
    response.hash = body.hash().or(response.hash);
    let reports = &load.context().origin_reports;
    let count = reports.response(response.origin_size.clone(), response.replaced);
    let pipeline = match pipeline(load, repeats, length, response).await {
        Ok(pipeline) => pipeline,
        Err(error) => {
            debug!(%error, "the encoding of a push cannot start");
            load.entry_searched(entry).await;
            return load.pushed(entry, repeats, 0, PushProgress::Broken).await;
        }
    };
    let mut pushing = Pushing {
        load,
        entry,
        length,
        pipeline,
        count: Some(count),
        class,
        stream: PushStream::default(),
        wire: Vec::new(),
        decoded: 0,
        sent: 0,
    };
    let evictions = load.context().mirror.evictions();
    let ended = pushing.run(&mut body).await;
    pushing.count = None;
    let sent = pushing.sent;
    // For a document that was parsed during its push.
    load.entry_searched(entry).await;
    if let (Ok(()), Some(hash)) = (ended, body.hash()) {
        load.completed(entry, hash, pushing.decoded).await;
    }
    // Releases the body's slot at its source before the wait.
    drop(body);
    match ended {
        Ok(()) => {
            load.pushed(entry, repeats, sent, PushProgress::Sent).await;
            if pushing.acknowledged().await {
                load.context().counters().pushed();
                load.delivered(entry, repeats, evictions).await;
            } else {
                load.pushed(entry, repeats, 0, PushProgress::Broken).await;
            }
        }
        Err(broken) => {
            debug!(%entry, ?broken, "a push ended early");
            load.pushed(entry, repeats, sent, PushProgress::Broken).await;
        }
    }
}

async fn pipeline(
    load: &PageLoad,
    repeats: u8,
    length: Option<u64>,
    response: PushedResponse,
) -> Result<BodyPipeline, EncodeError> {
    let context = load.context();
    let encoding = context.gateway.encoding(context.device, context.window_key);
    let (candidates, audience) = match repeats {
        0 => {
            let candidates = context.bases_for(response.delta_key.as_ref(), length).await;
            (candidates, response.audience)
        }
        1 => (DeltaCandidates::default(), response.audience.only_requesting()),
        // The coder may have caused the damage of the earlier push, so use coding identity.
        2.. => {
            return encoding.identity(length, 0);
        }
    };
    let content_type = response.content_type.as_deref();
    let traits = encoding.traits(content_type, length, context.link_rate());
    Ok(encoding.whole(response.hash, audience, traits, candidates).await)
}

impl Pushing<'_> {
    async fn run(&mut self, body: &mut PushBody) -> Result<(), Broken> {
        loop {
            let next = if self.pipeline.holds() || !self.wire.is_empty() {
                match timeout(PAUSE, body.next(self.load, self.entry)).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.flush().await?;
                        continue;
                    }
                }
            } else {
                tokio::select! {
                    next = body.next(self.load, self.entry) => next,
                    () = stopped(&mut self.stream) => return Err(Broken::Gone),
                }
            };
            let Some(chunk) = next else { break };
            let chunk = chunk?;
            self.decoded += chunk.len() as u64;
            let by = chunk.len() as u64;
            if !self.load.grown(self.entry, self.decoded, by).await {
                return Err(Broken::Withdrawn);
            }
            self.encode(chunk).await?;
            if self.wire.len() >= GATHER || (self.stream.0.is_some() && !self.wire.is_empty()) {
                self.send(End::Open).await?;
            }
        }
        self.length = Some(self.decoded);
        self.pipeline.finish(&mut self.wire).await?;
        self.send(End::Finish).await?;
        if let Some(count) = &mut self.count {
            count.complete();
        }
        Ok(())
    }

    async fn encode(&mut self, mut chunk: Bytes) -> Result<(), Broken> {
        loop {
            self.pipeline.update_load();
            let progress = self.pipeline.encode(&mut chunk, &mut self.wire).await?;
            if progress == Progress::Done {
                return Ok(());
            }
        }
    }

    async fn flush(&mut self) -> Result<(), Broken> {
        self.pipeline.update_load();
        self.pipeline.flush(&mut self.wire).await?;
        self.send(End::Open).await
    }

    /// Counts the gathered bytes.
    fn count_body(&mut self) {
        let base = self.pipeline.coding().and_then(|coding| coding.base);
        if let Some(count) = &mut self.count {
            count.body(base.as_ref(), self.wire.len(), self.decoded);
        }
    }

    /// Sends the gathered bytes.
    async fn send(&mut self, end: End) -> Result<(), Broken> {
        if self.wire.is_empty() && end == End::Open {
            return Ok(());
        }
        self.count_body();
        let Some(stream) = &mut self.stream.0 else {
            return self.open(end).await;
        };
        if self.class.has_changed().unwrap_or(false) {
            let class = *self.class.borrow_and_update();
            stream
                .set_priority(Priority::new(class))
                .await
                .map_err(|_| Broken::Gone)?;
        }
        let chunk = Bytes::from(std::mem::take(&mut self.wire));
        self.sent += chunk.len() as u64;
        self.load.context().counters().pushing(chunk.len());
        if end == End::Finish {
            stream.announce(self.sent).await.map_err(|_| Broken::Gone)?;
        }
        stream.write(chunk).await.map_err(|_| Broken::Gone)?;
        if end == End::Finish {
            stream.finish().await.map_err(|_| Broken::Gone)?;
        }
        Ok(())
    }

    async fn open(&mut self, end: End) -> Result<(), Broken> {
        let mut first = Vec::new();
        let coding = self.pipeline.coding();
        let body = Body {
            coding: coding.map_or(BodyCoding::Identity, |coding| coding.coding),
            length: self.length,
            offset: 0,
            base: coding.and_then(|coding| coding.base),
        };
        let push = Push {
            page: self.load.id(),
            entry: self.entry,
        };
        // Fixed-size fields: these messages always fit.
        let _fits = encode(&Message::Push(push), &mut first);
        let _fits = encode(&Message::Body(body), &mut first);
        first.append(&mut self.wire);
        self.sent = first.len() as u64;
        let context = self.load.context();
        context.counters().pushing(first.len());
        let options = OpenOptions {
            class: Priority::new(*self.class.borrow_and_update()),
            early: EarlyData::Allowed,
            total: (end == End::Finish).then_some(self.sent),
        };
        // The head precedes its body: write the pending records of the manifest first.
        self.load.flush().await;
        let stream = context.session.open(options, first.into(), end).await;
        self.stream.0 = Some(stream.map_err(|_| Broken::Gone)?);
        Ok(())
    }

    /// Waits until the agent has acknowledged everything; returns false if the stream was stopped or lost.
    async fn acknowledged(&mut self) -> bool {
        let Some(stream) = &mut self.stream.0 else {
            return false;
        };
        loop {
            tokio::select! {
                delivered = stream.delivered() => {
                    // Nothing is left to cancel.
                    self.stream.0 = None;
                    return delivered.is_ok();
                }
                Ok(()) = self.class.changed() => {
                    let class = *self.class.borrow_and_update();
                    if stream.set_priority(Priority::new(class)).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }
}

/// Waits until the agent stops the stream; pends forever before the stream is open.
async fn stopped(stream: &mut PushStream) {
    match &mut stream.0 {
        Some(stream) => {
            stream.stopped().await;
        }
        None => std::future::pending().await,
    }
}
