//! The encoded cache: stores coded results, so that the next device gets the same bytes with its own
//! session's window checks.
//!
//! It contains only bodies that the store may serve to every device, because the size on the hop and the time
//! to the first byte reveal that somebody received the body before; and only bodies encoded without base,
//! because a base belongs to one device. Coded bytes are bodies of the cache, within its maximum size, and a
//! record under the CHK of the decoded bytes refers to them. `popular` counts the requests, and `recode`
//! encodes popular bodies at the highest effort while the processor is idle.
mod counters;
mod popular;
mod recode;
mod recording;
mod stored_record;

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use longhaul_cache::{Cache, Cost, RecordKind};
use longhaul_codec::{
    BodyTraits, CodedBody, Coder, Coding, EffortPolicy, Load, MemoryReservation, MemoryShare, MemoryShares,
    choose, suits_mixing,
};
use longhaul_types::{ByteCount, ContentHash, PublicKey};
use longhaul_webcache::{Audience, CpuPool};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tracing::debug;

pub(crate) use self::recording::{Finished, Recorder};
use self::{
    counters::Counters,
    popular::PopularBodies,
    recording::NewEncoding,
    stored_record::{Record, StoredCoding},
};

/// Minimum length in bytes: encoding a smaller body takes less time than the lookup.
const SMALLEST: u64 = 2 * 1024;
/// Maximum length of a stored result: texts of several megabytes are rare, and reading their windows takes
/// longer than encoding them.
const MAX_CODED: ByteCount = ByteCount::mib(1);
/// Memory for all results that are in use or being recorded.
const MEMORY: ByteCount = ByteCount::mib(64);

/// The encoded cache of a gateway.
#[derive(Debug)]
pub struct EncodedCache {
    /// Nothing is stored without a cache.
    cache: Option<Cache>,
    cpu_pool: Arc<CpuPool>,
    memory: MemoryShares,
    popular: Mutex<PopularBodies>,
    /// Notified when a popular body waits for recoding.
    waiting: Notify,
    counters: Counters,
}

/// A body to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyToEncode<'a> {
    /// CHK of the body, if already known.
    pub(crate) chk: Option<ContentHash>,
    /// The device that gets the body, to which its memory is charged.
    pub(crate) device: PublicKey,
    pub(crate) audience: Audience,
    pub(crate) traits: BodyTraits<'a>,
    /// True if the agent accepts context mixing.
    pub(crate) takes_mixing: bool,
}

/// Result of the lookup for a body: an earlier encoding, and the permission to record a new one.
#[derive(Debug, Default)]
pub(crate) struct PriorEncoding {
    found: Option<Found>,
    /// `Some` if the encoding is to be recorded: its memory, of no bytes yet.
    recording: Option<MemoryReservation>,
}

/// A stored coded result.
#[derive(Debug)]
struct Found {
    body: CodedBody,
    coding: StoredCoding,
    memory: MemoryReservation,
}

impl PriorEncoding {
    /// The stored result with its memory, and the recorder of the new encoding under the session's
    /// window key.
    pub(crate) fn into_parts(
        self,
        key: [u8; 32],
    ) -> (Option<CodedBody>, Option<MemoryReservation>, Recorder) {
        let (body, coding, memory) = match self.found {
            Some(Found { body, coding, memory }) => (Some(body), Some(coding), Some(memory)),
            None => (None, None, None),
        };
        (body, memory, Recorder::new(key, coding, self.recording))
    }
}

impl EncodedCache {
    /// Creates the encoded cache; `cpu_pool` is the thread pool that checks results.
    pub fn new(cache: Option<Cache>, cpu_pool: Arc<CpuPool>) -> Arc<Self> {
        Arc::new(Self {
            cache,
            cpu_pool,
            memory: MemoryShares::new(MEMORY),
            popular: Mutex::default(),
            waiting: Notify::new(),
            counters: Counters::default(),
        })
    }

    /// Looks up the stored result of a body, and decides if a fresh encoding is to be recorded.
    pub(crate) async fn prior(&self, wanted: BodyToEncode<'_>) -> PriorEncoding {
        let is_small = wanted
            .traits
            .length
            .is_some_and(|length| length.bytes() < SMALLEST);
        let Some(cache) = self.cache.as_ref().filter(|_| !is_small) else {
            return PriorEncoding::default();
        };
        let is_fixed = wanted.traits.effort == EffortPolicy::Fixed;
        if is_fixed || wanted.audience != Audience::Everybody || !is_text_for_the_link(wanted.traits) {
            return PriorEncoding::default();
        }
        let memory = self.memory.of(wanted.device);
        let load = self.cpu_pool.load();
        let traits = BodyTraits {
            load,
            ..wanted.traits
        };
        let is_to_mix = wanted.takes_mixing && suits_mixing(traits);
        let mut found = None;
        if let Some(chk) = wanted.chk {
            if is_to_mix {
                found = find(cache, chk, traits, Coding::Mix, &memory).await;
            }
            if found.is_none() {
                found = find(cache, chk, traits, Coding::Brotli, &memory).await;
            }
        }
        // A Brotli result does not exclude recording a smaller context-mixed one.
        let best = if is_to_mix { Coding::Mix } else { Coding::Brotli };
        let is_best = found.as_ref().is_some_and(|found| found.coding.coding() == best);
        let recording = memory.reserve(0).filter(|_| !is_best);
        PriorEncoding { found, recording }
    }

    /// Handles a completely encoded body: counts it, and stores its result if it is worth it.
    pub(crate) fn finished(self: &Arc<Self>, device: &PublicKey, finished: Finished) {
        let Finished {
            hash, coder, outcome, ..
        } = finished;
        if !matches!(outcome, recording::Outcome::Replayed(_)) {
            self.counters.coded(coder);
        }
        match outcome {
            recording::Outcome::NotStored => {}
            recording::Outcome::Replayed(coder) => {
                self.counters.reused();
                self.requested(hash, device, coder);
            }
            recording::Outcome::New(None) => self.requested(hash, device, None),
            recording::Outcome::New(Some(new)) => {
                let (this, device) = (Arc::clone(self), *device);
                // A short task, which may outlive the session.
                tokio::spawn(async move {
                    let coder = new.coder;
                    let kept = this.check_and_store(hash, new).await;
                    this.requested(hash, &device, kept.then_some(coder));
                });
            }
        }
    }

    fn requested(&self, chk: ContentHash, device: &PublicKey, kept: Option<Coder>) {
        if self.popular().requested(chk, device, kept) {
            self.waiting.notify_one();
        }
    }

    /// Stores a result; returns true if a result of at least this effort is now stored.
    async fn check_and_store(&self, chk: ContentHash, new: NewEncoding) -> bool {
        let Some(cache) = &self.cache else { return false };
        let (coder, cost) = (new.coder, new.spent);
        // Decoding takes a hundredth of the encoding time and ensures that only correct results are stored.
        let checked = self.cpu_pool.run(None, move |_| new.check()).await;
        let Ok(Some((body, hash))) = checked else {
            return false;
        };
        if hash != chk {
            debug!("a stored encoding decodes to another body");
            return false;
        }
        self.store(cache, chk, body, coder, cost).await
    }

    async fn store(
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
            Some(before) if before.coding.serves(coder) => return true,
            // A higher effort does not always give a smaller result: keep the smaller data, and record the
            // higher effort.
            Some(before) if before.size <= record.size => {
                (record.data, record.size) = (before.data, before.size)
            }
            Some(_) | None => {
                let mut writer = cache.writer(Cost::measured(cost));
                writer.write(body.data().clone()).await;
                if let Err(error) = writer.commit().await {
                    debug!(%error, "an encoded body cannot be stored");
                    return false;
                }
            }
        }
        cache
            .put_record(
                RecordKind::Coded,
                &stored_record::key(&chk, coding),
                record.encode(),
            )
            .await;
        self.counters.kept();
        true
    }

    /// Adds the metrics of the cache and of its thread pool to a registry.
    pub fn register(&self, registry: &mut Registry) {
        self.counters.register(registry, &self.cpu_pool);
    }

    /// Memory of the results that are in use or being recorded.
    pub fn memory(&self) -> ByteCount {
        self.memory.used()
    }

    fn popular(&self) -> MutexGuard<'_, PopularBodies> {
        // No code can panic while the guarded data is inconsistent.
        self.popular.lock()
    }
}

async fn find(
    cache: &Cache,
    chk: ContentHash,
    traits: BodyTraits<'_>,
    coding: Coding,
    memory: &MemoryShare,
) -> Option<Found> {
    let record = read(cache, &chk, coding).await?;
    let wanted = choose(traits, &[]);
    if traits
        .length
        .is_some_and(|length| length.bytes() != record.length)
        || !record.coding.serves(wanted)
    {
        return None;
    }
    let memory = memory.reserve(record.size)?;
    // The cache verifies the body's hash and drops a damaged body.
    let data = cache.whole(record.data, MAX_CODED).await?;
    let body = CodedBody::parse(record.coding.coding(), data)?;
    (body.length() == record.length && record.coding.coding() == coding).then_some(Found {
        body,
        coding: record.coding,
        memory,
    })
}

async fn read(cache: &Cache, chk: &ContentHash, coding: Coding) -> Option<Record> {
    let record: Bytes = cache
        .record(RecordKind::Coded, &stored_record::key(chk, coding))
        .await?;
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
