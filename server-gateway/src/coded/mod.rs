//! What bodies were coded to is kept: the next device gets the same bytes under its own session's hashes.
//!
//! Only bodies that the store may serve to every device, for the size on the hop and the time to the first byte would
//! tell that somebody else had a body before; and only those without base, which are one device's. Coded bytes are kept
//! as bodies of the cache, under its quota, and found by a record under the CHK of what they decode to. `popular` counts
//! who takes what, and `recode` codes what many take as hard as it can be, while there is nothing else to do.
mod coder;
mod counters;
mod popular;
mod recode;
mod record;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use longhaul_cache::{Cache, Cost, RecordKind};
use longhaul_codec::{BodyTraits, CodedBody, Coder, Coding, Effort, Load, choose, suits_mixing};
use longhaul_types::{ByteCount, ContentHash, PublicKey};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::debug;

pub(crate) use self::coder::{Finished, WholeCoder};
use self::{
    coder::Made,
    counters::Counters,
    popular::Popular,
    record::{Means, Record},
};
use crate::computing::Computing;

/// Coding less takes less time than to find the result.
const SMALLEST: u64 = 2 * 1024;
/// Longer results are not kept: texts of several megabytes are rare, and their windows come slower than they are coded.
const MAX_CODED: ByteCount = ByteCount::mib(1);
/// Memory for all results that are in use or being made at a time, in KiB.
const MEMORY: usize = 64 * 1024;

/// The kept results of a gateway.
#[derive(Debug)]
pub(crate) struct Coded {
    /// Nothing is kept without one.
    cache: Option<Cache>,
    computing: Arc<Computing>,
    memory: Arc<Semaphore>,
    popular: Mutex<Popular>,
    /// Something popular waits to be recoded.
    waiting: Notify,
    counters: Counters,
}

/// A body that is to be coded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// If it is known yet.
    pub(crate) chk: Option<ContentHash>,
    pub(crate) audience: Audience,
    pub(crate) traits: BodyTraits<'a>,
    /// Whether the agent takes context mixing.
    pub(crate) takes_mixing: bool,
}

/// Who may get a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Any device that asks for it.
    Everybody,
    /// Only who asked for it.
    Asker,
}

/// What is known for the coding of a body.
#[derive(Debug, Default)]
pub(crate) struct Prior {
    found: Option<Found>,
    /// Where the result is to be kept: the memory for it.
    recording: Option<Arc<Semaphore>>,
}

/// A kept result.
#[derive(Debug)]
struct Found {
    body: CodedBody,
    means: Means,
    memory: OwnedSemaphorePermit,
}

impl Coded {
    pub(crate) fn new(cache: Option<Cache>, computing: Arc<Computing>) -> Arc<Self> {
        Arc::new(Self {
            cache,
            computing,
            memory: Arc::new(Semaphore::new(MEMORY)),
            popular: Mutex::default(),
            waiting: Notify::new(),
            counters: Counters::default(),
        })
    }

    /// What a body was coded to before, if that serves, or else whether what it will be coded to is to be kept.
    pub(crate) async fn prior(&self, wanted: Wanted<'_>) -> Prior {
        let is_small = wanted
            .traits
            .length
            .is_some_and(|length| length.bytes() < SMALLEST);
        let Some(cache) = self.cache.as_ref().filter(|_| !is_small) else {
            return Prior::default();
        };
        let is_fixed = wanted.traits.effort == Effort::Fixed;
        if is_fixed || wanted.audience == Audience::Asker || !is_text_for_the_link(wanted.traits) {
            return Prior::default();
        }
        let load = self.computing.load();
        let traits = BodyTraits {
            load,
            ..wanted.traits
        };
        let is_to_mix = wanted.takes_mixing && suits_mixing(traits);
        let mut found = None;
        if let Some(chk) = wanted.chk {
            if is_to_mix {
                found = self.find(cache, chk, traits, Coding::Mix).await;
            }
            if found.is_none() {
                found = self.find(cache, chk, traits, Coding::Brotli).await;
            }
        }
        // What has been coded by Brotli may still become smaller.
        let best = if is_to_mix { Coding::Mix } else { Coding::Brotli };
        let is_best = found.as_ref().is_some_and(|found| found.means.coding() == best);
        let recording = (!is_best).then(|| Arc::clone(&self.memory));
        Prior { found, recording }
    }

    async fn find(
        &self,
        cache: &Cache,
        chk: ContentHash,
        traits: BodyTraits<'_>,
        coding: Coding,
    ) -> Option<Found> {
        let record = read(cache, &chk, coding).await?;
        let wanted = choose(traits, &[]);
        if traits
            .length
            .is_some_and(|length| length.bytes() != record.length)
            || !record.means.serves(wanted)
        {
            return None;
        }
        let permits = u32::try_from(record.size / 1024 + 1).ok()?;
        let memory = Arc::clone(&self.memory).try_acquire_many_owned(permits).ok()?;
        // The cache compares it with its hash, and drops it if it is damaged.
        let data = cache.whole(record.data, MAX_CODED).await?;
        let body = CodedBody::parse(record.means.coding(), data)?;
        (body.length() == record.length && record.means.coding() == coding).then_some(Found {
            body,
            means: record.means,
            memory,
        })
    }

    /// A body has been coded to its end for a device. Its result is kept if it is worth it.
    pub(crate) fn finished(self: &Arc<Self>, device: &PublicKey, finished: Finished) {
        let Finished {
            hash, coder, outcome, ..
        } = finished;
        if !matches!(outcome, coder::Outcome::Replayed(_)) {
            self.counters.coded(coder);
        }
        match outcome {
            coder::Outcome::Apart => {}
            coder::Outcome::Replayed(coder) => {
                self.counters.reused();
                self.taken(hash, device, coder);
            }
            coder::Outcome::Anew(None) => self.taken(hash, device, None),
            coder::Outcome::Anew(Some(made)) => {
                let (this, device) = (Arc::clone(self), *device);
                // Ends in a moment, whether or not the session does.
                tokio::spawn(async move {
                    let coder = made.coder;
                    let kept = this.keep(hash, made).await;
                    this.taken(hash, &device, kept.then_some(coder));
                });
            }
        }
    }

    fn taken(&self, chk: ContentHash, device: &PublicKey, kept: Option<Coder>) {
        if self.popular().taken(chk, device, kept) {
            self.waiting.notify_one();
        }
    }

    /// Keeps a result; whether there is one of this effort now.
    async fn keep(&self, chk: ContentHash, made: Made) -> bool {
        let Some(cache) = &self.cache else { return false };
        let (coder, cost) = (made.coder, made.spent);
        // Decoding takes a hundredth of what coding took, and nothing that is wrong is kept.
        let checked = self.computing.run(None, move |_| made.check()).await;
        let Ok(Some((body, hash))) = checked else {
            return false;
        };
        if hash != chk {
            debug!("a coded body decodes to another one");
            return false;
        }
        self.put(cache, chk, body, coder, cost).await
    }

    async fn put(
        &self,
        cache: &Cache,
        chk: ContentHash,
        body: CodedBody,
        coder: Coder,
        cost: Duration,
    ) -> bool {
        let Some(mut record) = Record::of(&body, coder).filter(|record| record.size <= MAX_CODED.bytes())
        else {
            return false;
        };
        let coding = body.coding();
        let before = match read(cache, &chk, coding).await {
            Some(before) if cache.has(before.data).await => Some(before),
            Some(_) | None => None,
        };
        match before {
            Some(before) if before.means.serves(coder) => return true,
            // More effort does not always make it smaller, and then no more is to be had.
            Some(before) if before.size <= record.size => {
                (record.data, record.size) = (before.data, before.size)
            }
            Some(_) | None => {
                let mut writer = cache.writer(Cost::measured(cost));
                writer.write(body.data().clone()).await;
                if let Err(error) = writer.commit().await {
                    debug!(%error, "a coded body is not kept");
                    return false;
                }
            }
        }
        cache
            .put_record(RecordKind::Coded, &record::key(&chk, coding), record.encode())
            .await;
        self.counters.kept();
        true
    }

    /// The text form of the counters.
    pub(crate) fn render(&self) -> String {
        self.counters.render(&self.computing)
    }

    fn popular(&self) -> MutexGuard<'_, Popular> {
        // What the lock guards is whole between any two statements.
        self.popular.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(cache: &Cache, chk: &ContentHash, coding: Coding) -> Option<Record> {
    let record: Bytes = cache.record(RecordKind::Coded, &record::key(chk, coding)).await?;
    Record::decode(&record)
}

/// Whether Brotli is right for the link while the processor is free. On faster ones an effort is chosen that takes no
/// longer than the finding of a result, and a slow device's decoder should not be what holds up the page.
fn is_text_for_the_link(traits: BodyTraits<'_>) -> bool {
    let free = BodyTraits {
        load: Load::NONE,
        ..traits
    };
    choose(free, &[]).coding() == Coding::Brotli
}

#[cfg(test)]
mod tests;
