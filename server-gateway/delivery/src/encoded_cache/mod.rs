//! The encoded cache: stores coded results, so that the next device gets the same bytes with its own
//! session's window checks.
//!
//! It contains only bodies that the store may serve to every device, because the size on the hop and the time
//! to the first byte reveal that somebody received the body before; and only bodies encoded without base,
//! because a base belongs to one device. Coded bytes are bodies of the cache, within its maximum size, and a
//! record under the CHK of the decoded bytes refers to them. `popular` counts the requests, and `recode`
//! encodes popular bodies at the highest effort while the processor is idle.
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
use longhaul_webcache::{Audience, CpuPool};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tracing::debug;

pub(crate) use self::coder::{Finished, WholeCoder};
use self::{
    coder::Made,
    counters::Counters,
    popular::Popular,
    record::{Means, Record},
};

/// Minimum length in bytes: encoding a smaller body takes less time than the lookup.
const SMALLEST: u64 = 2 * 1024;
/// Maximum length of a stored result: texts of several megabytes are rare, and reading their windows takes
/// longer than encoding them.
const MAX_CODED: ByteCount = ByteCount::mib(1);
/// Memory for all results that are in use or being recorded, in KiB.
const MEMORY: usize = 64 * 1024;

/// The encoded cache of a gateway.
#[derive(Debug)]
pub(crate) struct Coded {
    /// Nothing is stored without a cache.
    cache: Option<Cache>,
    cpu_pool: Arc<CpuPool>,
    memory: Arc<Semaphore>,
    popular: Mutex<Popular>,
    /// Notified when a popular body waits for recoding.
    waiting: Notify,
    counters: Counters,
}

/// A body to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// CHK of the body, if already known.
    pub(crate) chk: Option<ContentHash>,
    pub(crate) audience: Audience,
    pub(crate) traits: BodyTraits<'a>,
    /// True if the agent accepts context mixing.
    pub(crate) takes_mixing: bool,
}

/// Result of the lookup for a body.
#[derive(Debug, Default)]
pub(crate) struct Prior {
    found: Option<Found>,
    /// `Some` if the encoding is to be recorded: the memory budget.
    recording: Option<Arc<Semaphore>>,
}

/// A stored coded result.
#[derive(Debug)]
struct Found {
    body: CodedBody,
    means: Means,
    memory: OwnedSemaphorePermit,
}

impl Coded {
    pub(crate) fn new(cache: Option<Cache>, cpu_pool: Arc<CpuPool>) -> Arc<Self> {
        Arc::new(Self {
            cache,
            cpu_pool,
            memory: Arc::new(Semaphore::new(MEMORY)),
            popular: Mutex::default(),
            waiting: Notify::new(),
            counters: Counters::default(),
        })
    }

    /// Looks up the stored result of a body, and decides if a fresh encoding is to be recorded.
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
        let load = self.cpu_pool.load();
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
        // A Brotli result does not exclude recording a smaller context-mixed one.
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
        // The cache verifies the body's hash and drops a damaged body.
        let data = cache.whole(record.data, MAX_CODED).await?;
        let body = CodedBody::parse(record.means.coding(), data)?;
        (body.length() == record.length && record.means.coding() == coding).then_some(Found {
            body,
            means: record.means,
            memory,
        })
    }

    /// Handles a completely encoded body: counts it, and stores its result if it is worth it.
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
                // A short task, which may outlive the session.
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

    /// Stores a result; returns true if a result of at least this effort is now stored.
    async fn keep(&self, chk: ContentHash, made: Made) -> bool {
        let Some(cache) = &self.cache else { return false };
        let (coder, cost) = (made.coder, made.spent);
        // Decoding takes a hundredth of the encoding time and ensures that only correct results are stored.
        let checked = self.cpu_pool.run(None, move |_| made.check()).await;
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
            // A higher effort does not always give a smaller result: keep the smaller data, and record the
            // higher effort.
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

    /// Renders the text form of the counters.
    pub(crate) fn render(&self) -> String {
        self.counters.render(&self.cpu_pool)
    }

    fn popular(&self) -> MutexGuard<'_, Popular> {
        // No code can panic while the guarded data is inconsistent.
        self.popular.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(cache: &Cache, chk: &ContentHash, coding: Coding) -> Option<Record> {
    let record: Bytes = cache.record(RecordKind::Coded, &record::key(chk, coding)).await?;
    Record::decode(&record)
}

/// Returns true if Brotli suits the link while the processor is idle. On faster links the chosen effort takes
/// no longer than a lookup, and Brotli could make a slow device's decoder the bottleneck.
fn is_text_for_the_link(traits: BodyTraits<'_>) -> bool {
    let free = BodyTraits {
        load: Load::NONE,
        ..traits
    };
    choose(free, &[]).coding() == Coding::Brotli
}

#[cfg(test)]
mod tests;
