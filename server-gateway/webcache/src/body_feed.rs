//! Transfers the body of an origin fetch into its coalesced fetch: removes the content codings, and writes
//! the body to the cache.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use longhaul_cache::BodyWriter;
use longhaul_codec::ContentEnd;
use longhaul_origin::{BodyError, OriginBody};
use longhaul_types::ContentHash;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::{
    coalesced_fetch::CoalescedFetch,
    decoding::Decoding,
    device_hops::HopWatch,
    failure::BodyFault,
    overflow::{OverflowError, OverflowFile, OverflowPart},
    pending_storage::PendingStorage,
    spool::{Chunk, Room},
};

/// Maximum decoded bytes of a chunk.
const CHUNK: usize = 64 * 1024;
/// A body without readers is still fetched completely for the cache if its coded length is at most this (with
/// unknown length: if at most this much has arrived) ...
const FINISH: u64 = 1024 * 1024;
/// ... or if at least this share has arrived, so that the transfer is not wasted ...
const FINISH_SHARE: (u64, u64) = (4, 5);
/// ... but at most for this time.
const FINISH_WITHIN: Duration = Duration::from_secs(30);

/// A body between origin and coalesced fetch.
pub(super) struct Feed {
    coalesced: Arc<CoalescedFetch>,
    body: OriginBody,
    decoding: Option<Decoding>,
    /// Coded length as announced by the origin.
    coded_length: Option<u64>,
    coded: u64,
    decoded: u64,
    hasher: blake3::Hasher,
    writer: Option<BodyWriter>,
    pending: PendingStorage,
    /// Time until which the body is fetched although it has no reader.
    finish_until: Option<Instant>,
    hop: HopWatch,
    /// What the spool cannot hold while the hop is away.
    overflow: Option<Arc<OverflowFile>>,
}

/// Reasons for an incomplete body.
enum Broken {
    Fault(BodyFault),
    /// The body has no reader.
    Abandoned,
}

impl<F: Into<BodyFault>> From<F> for Broken {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl Feed {
    pub(super) fn new(
        coalesced: Arc<CoalescedFetch>,
        body: OriginBody,
        decoding: Option<Decoding>,
        coded_length: Option<u64>,
        writer: Option<BodyWriter>,
        pending: PendingStorage,
    ) -> Self {
        let device = *pending.identity.device();
        Self {
            hop: pending.inner.hops.watch(device),
            overflow: None,
            coalesced,
            body,
            decoding,
            coded_length,
            coded: 0,
            decoded: 0,
            hasher: blake3::Hasher::new(),
            writer,
            pending,
            finish_until: None,
        }
    }

    pub(super) async fn run(mut self) {
        match self.pump().await {
            Ok(()) => {}
            Err(Broken::Fault(fault)) => {
                debug!(%fault, "a body ended early");
                return self.coalesced.end(Err(fault));
            }
            Err(Broken::Abandoned) => return,
        }
        let chk = ContentHash::from_bytes(*self.hasher.finalize().as_bytes());
        let writer = self.writer.take();
        let _storing = writer.as_ref().map(|_| self.pending.announce());
        self.coalesced.end(Ok(chk));
        let Some(writer) = writer else { return };
        match writer.commit().await {
            Ok(stored) if stored == chk => self.pending.store(chk, self.coalesced.decoded()).await,
            // The cache stores each body under its actual hash, so nothing wrong is stored in either case.
            Ok(_) => debug!("a body was stored under another hash"),
            Err(error) => debug!(%error, "a body is not stored"),
        }
    }

    async fn pump(&mut self) -> Result<(), Broken> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = self.coalesced.unread(), if self.finish_until.is_none() => {
                    self.consider_finishing()?;
                    continue;
                }
                () = finish_time(self.finish_until) => {
                    self.give_up()?;
                    continue;
                }
            };
            match frame {
                Some(Ok(frame)) => {
                    // Trailers are not relayed.
                    if let Ok(data) = frame.into_data() {
                        self.coded += data.len() as u64;
                        self.pending.response.origin_size.received(data.len());
                        self.take(data).await?;
                    }
                    self.consider_finishing()?;
                }
                Some(Err(BodyError::Truncated)) if self.has_length_of_content() => return self.finish(),
                Some(Err(error)) => return Err(error.into()),
                None => return self.finish(),
            }
        }
    }

    /// Ends the body. One that is not certainly whole is not stored: a later response may be.
    fn finish(&mut self) -> Result<(), Broken> {
        if let Some(decoding) = &self.decoding
            && decoding.end()? == ContentEnd::Doubtful
        {
            self.writer = None;
        }
        Ok(())
    }

    /// True if the length that the origin announced is that of the decoded body, and all of it has arrived: some
    /// servers take the length before they code the body, and browsers forgive this.
    fn has_length_of_content(&self) -> bool {
        self.decoding.is_some() && self.coded_length == Some(self.decoded)
    }

    /// Continues without readers only if finishing the body is worth it.
    fn consider_finishing(&mut self) -> Result<(), Broken> {
        if self.coalesced.is_read() {
            self.finish_until = None;
        } else if self.writer.is_some() && self.is_worth_finishing() {
            self.finish_until
                .get_or_insert_with(|| Instant::now() + FINISH_WITHIN);
        } else {
            self.give_up()?;
        }
        Ok(())
    }

    fn is_worth_finishing(&self) -> bool {
        match self.coded_length {
            Some(length) => {
                let (share, of) = FINISH_SHARE;
                length <= FINISH || self.coded.saturating_mul(of) >= length.saturating_mul(share)
            }
            None => self.coded <= FINISH,
        }
    }

    fn give_up(&mut self) -> Result<(), Broken> {
        self.finish_until = None;
        if self.coalesced.abandon() {
            return Err(Broken::Abandoned);
        }
        Ok(())
    }

    async fn take(&mut self, mut data: Bytes) -> Result<(), Broken> {
        while let Some(decoding) = &mut self.decoding {
            let device = self.pending.identity.share();
            let cpu_pool = &self.pending.inner.cpu_pool;
            let (decoded, step) = decoding.step(&mut data, cpu_pool, device).await?;
            if !decoded.is_empty() {
                // Bytes decoded before a defect are valid.
                self.deliver(decoded.into()).await?;
            }
            if !step? {
                return Ok(());
            }
        }
        while !data.is_empty() {
            let chunk = data.split_to(data.len().min(CHUNK));
            self.deliver(chunk).await?;
        }
        Ok(())
    }

    async fn deliver(&mut self, chunk: Bytes) -> Result<(), Broken> {
        let kept = match self.coalesced.room(&mut self.hop).await {
            Room::Free => {
                // A file whose chunks were all read gives its space back.
                self.overflow.take_if(|file| Arc::strong_count(file) == 1);
                Chunk::Memory(chunk.clone())
            }
            Room::Full => match self.keep_on_disk(chunk.clone()).await {
                Ok(part) => Chunk::Disk(part),
                Err(error) => {
                    debug!(%error, "the origin waits until the device has taken more of a body");
                    while self.coalesced.room(&mut self.hop).await == Room::Full {
                        self.coalesced.demanded().await;
                    }
                    Chunk::Memory(chunk.clone())
                }
            },
        };
        self.hasher.update(&chunk);
        self.decoded += chunk.len() as u64;
        self.pending.response.origin_size.decoded(chunk.len());
        self.coalesced.push(kept, chunk.len());
        if let Some(writer) = &mut self.writer {
            writer.write(chunk).await;
        }
        Ok(())
    }

    /// Writes a chunk to the disk, so that the origin can go on sending.
    async fn keep_on_disk(&mut self, chunk: Bytes) -> Result<OverflowPart, OverflowError> {
        let file = self.overflow.take();
        let overflow = Arc::clone(&self.pending.inner.overflow);
        let device = *self.pending.identity.device();
        let written = tokio::task::spawn_blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(OverflowFile::create(overflow, device)?),
            };
            let part = file.append(&chunk)?;
            Ok::<_, OverflowError>((file, part))
        });
        let (file, part) = written.await.map_err(std::io::Error::other)??;
        self.overflow = Some(file);
        Ok(part)
    }
}

async fn finish_time(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
