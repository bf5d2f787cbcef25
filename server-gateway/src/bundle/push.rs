//! Pushed bodies: each on its own stream, encoded like responses.
mod body;
mod coder;

use std::time::Duration;

use bytes::Bytes;
use longhaul_codec::{BodyEncoder, BodyTraits, Coder, EncodeError};
use longhaul_driver::{ERROR_ABANDONED, EarlyData, End, OpenOptions, Priority, SendStream};
use longhaul_session::{Body, BodyCoding, Message, Push, encode};
use longhaul_types::{ByteCount, ContentHash};
use longhaul_webcache::Audience;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

pub(crate) use self::body::{ArrivingDocument, PushBody};
use self::coder::PushCoder;
use super::{load::PageLoad, plan::BodyState};
use crate::{
    body::WindowCoding,
    delta_bases::DeltaCandidates,
    encoded_cache::{Wanted, WholeCoder},
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

/// First or repeated push of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    First,
    Again,
}

enum Step {
    Push(Bytes),
    Flush,
    Finish,
}

/// A push in progress.
struct Pushing<'a> {
    load: &'a PageLoad,
    entry: u32,
    /// `Some` between any two steps.
    coder: Option<PushCoder>,
    coding: Option<WindowCoding>,
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
pub(super) async fn push(load: &PageLoad, entry: u32, mut body: PushBody, class: watch::Receiver<u8>) {
    let _busy = load.context().gateway.cpu_pool.busy();
    let length = body.length();
    // A body that was parsed before its push is complete, so its hash is known.
    let chk = body.hash().or_else(|| load.plan().get(entry)?.hash);
    let turn = match &body {
        PushBody::Again(_) => Turn::Again,
        PushBody::Arriving(..) | PushBody::Document(_) => Turn::First,
    };
    let coder = match coder(load, entry, turn, chk, length).await {
        Ok(coder) => coder,
        Err(error) => {
            debug!(%error, "a push cannot be coded");
            load.plan().entry_searched(entry);
            return load.push_ended(entry, 0, BodyState::Broken);
        }
    };
    let mut pushing = Pushing {
        load,
        entry,
        coding: None,
        length,
        coder: Some(coder),
        class,
        stream: PushStream::default(),
        wire: Vec::new(),
        decoded: 0,
        sent: 0,
    };
    let ended = pushing.run(&mut body).await;
    let sent = pushing.sent;
    // For a document that was parsed during its push.
    load.plan().entry_searched(entry);
    if let (Ok(()), Some(hash)) = (ended, body.hash()) {
        load.plan().completed(entry, hash, pushing.decoded);
    }
    // Releases the body's slot at its source before the wait.
    drop(body);
    match ended {
        Ok(()) => {
            load.push_ended(entry, sent, BodyState::Sent);
            if pushing.acknowledged().await {
                load.context().counters().pushed();
                load.delivered(entry).await;
            } else {
                load.push_ended(entry, 0, BodyState::Broken);
            }
        }
        Err(broken) => {
            debug!(entry, ?broken, "a push broke off");
            load.push_ended(entry, sent, BodyState::Broken);
        }
    }
}

async fn coder(
    load: &PageLoad,
    entry: u32,
    turn: Turn,
    chk: Option<ContentHash>,
    length: Option<u64>,
) -> Result<PushCoder, EncodeError> {
    let context = load.context();
    let repeats = load.plan().get(entry).map_or(0, |entry| entry.repeats);
    if turn == Turn::Again && repeats > 1 {
        // The coder may have caused the damage of the earlier push, so use coding identity.
        let encoder = BodyEncoder::new(context.window_key, Coder::Identity, length.map(ByteCount::new))?;
        return Ok(PushCoder::Plain(Box::new(encoder)));
    }
    let (offers, audience) = match turn {
        Turn::First => {
            let subject = load.subject(entry);
            let offers = context.bases_for(subject.as_ref(), length).await;
            (offers, load.audience(entry))
        }
        Turn::Again => (DeltaCandidates::default(), Audience::Asker),
    };
    let media = load.content_type(entry);
    let traits = BodyTraits {
        content_type: media.as_deref(),
        length: length.map(ByteCount::new),
        link: context.link_rate(),
        load: context.gateway.cpu_pool.load(),
        effort: context.gateway.effort,
    };
    let wanted = Wanted {
        chk,
        audience,
        traits,
        takes_mixing: offers.mixing.is_some(),
    };
    let prior = context.gateway.coded.prior(wanted).await;
    let coder = WholeCoder::new(context.window_key, traits, offers, prior);
    Ok(PushCoder::Whole(Box::new(coder)))
}

impl Pushing<'_> {
    async fn run(&mut self, body: &mut PushBody) -> Result<(), Broken> {
        loop {
            let holds = self.coder.as_ref().is_some_and(PushCoder::holds);
            let next = if holds || !self.wire.is_empty() {
                match timeout(PAUSE, body.next(self.load, self.entry)).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.step(Step::Flush).await?;
                        self.send(End::Open).await?;
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
            if !self.load.grown(self.entry, self.decoded, chunk.len() as u64) {
                return Err(Broken::Withdrawn);
            }
            self.step(Step::Push(chunk)).await?;
            if self.wire.len() >= GATHER || (self.stream.0.is_some() && !self.wire.is_empty()) {
                self.send(End::Open).await?;
            }
        }
        self.length = Some(self.decoded);
        self.step(Step::Finish).await?;
        self.send(End::Finish).await
    }

    async fn step(&mut self, step: Step) -> Result<(), Broken> {
        let mut coder = self.coder.take().ok_or(Broken::Source)?;
        let is_heavy = match &step {
            Step::Push(chunk) => coder.push_is_heavy(chunk.len()),
            Step::Flush | Step::Finish => coder.flush_is_heavy(),
        };
        let mut wire = std::mem::take(&mut self.wire);
        let work = move |load| {
            coder.under(load);
            let coded = match step {
                Step::Push(chunk) => coder.push(&chunk, &mut wire),
                Step::Flush => coder.flush(&mut wire),
                Step::Finish => {
                    let (coded, finished) = coder.finish(&mut wire);
                    return (None, wire, coded, finished);
                }
            };
            (Some(coder), wire, coded, None)
        };
        let gateway = &self.load.context().gateway;
        let (coder, wire, coded, finished) = if is_heavy {
            let device = self.load.context().device;
            let ran = gateway.cpu_pool.run(Some(device), work).await;
            ran.map_err(|_| Broken::Source)?
        } else {
            work(gateway.cpu_pool.load())
        };
        (self.coder, self.wire) = (coder, wire);
        if let Some(finished) = finished {
            gateway.coded.finished(&self.load.context().device, finished);
        }
        self.coding = coded.map_err(|error| {
            debug!(%error, "a push cannot be coded on");
            Broken::Source
        })?;
        Ok(())
    }

    /// Sends the gathered bytes.
    async fn send(&mut self, end: End) -> Result<(), Broken> {
        if self.wire.is_empty() && end == End::Open {
            return Ok(());
        }
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
        let context = self.load.context();
        let mut first = Vec::new();
        let body = Body {
            coding: self.coding.map_or(BodyCoding::Identity, |coding| coding.coding),
            length: self.length,
            offset: 0,
            base: self.coding.and_then(|coding| coding.base),
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
