//! Removal of the content codings of one body, in the memory that its device may use.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use longhaul_codec::{
    ContentDecoder, ContentDecodingError, ContentDecodingLimits, ContentEnd, Load, MemoryShare, MemoryShares,
    OriginCoding,
};
use longhaul_types::{ByteCount, PublicKey};
use tokio::{sync::Notify, time::timeout};

use super::{cpu_pool::CpuPool, failure::BodyFault};

/// Memory of all decoders. Half of it, for one device, holds the windows of six bodies at the largest, and those of
/// hundreds of usual bodies: a window grows with the decoded part of its body.
const MEMORY: ByteCount = ByteCount::mib(192);
/// A body waits for at most this time while the decoders of its device have half of the device's memory.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Maximum input that is decoded on the event loop; more is decoded in the thread pool.
const LIGHT: usize = 1024;
/// Maximum number of further steps for the output of one input on the event loop, each of at most 64 KiB: a short input may
/// decode to megabytes.
const LIGHT_STEPS: u32 = 4;

/// Memory of the decoders of all devices.
pub(super) struct DecoderMemory {
    shares: MemoryShares,
    /// Notified when a body ends.
    freed: Notify,
}

/// The decoder of a body.
pub(super) struct Decoding {
    memory: Arc<DecoderMemory>,
    share: MemoryShare,
    codings: Vec<OriginCoding>,
    /// `None` before the first byte, and during a step.
    decoder: Option<ContentDecoder>,
    /// Number of steps so far that left output of the same input for the next one.
    unfinished: u32,
}

/// What a step decoded, and whether another step must follow before new input.
pub(super) type Decoded = (Vec<u8>, Result<bool, ContentDecodingError>);

impl DecoderMemory {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            shares: MemoryShares::new(MEMORY),
            freed: Notify::new(),
        })
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> ByteCount {
        self.shares.used()
    }

    /// Waits until the device uses less than half of what it may use.
    async fn wait(&self, share: &MemoryShare) {
        let room = async {
            loop {
                let freed = self.freed.notified();
                if !share.is_half_used() {
                    return;
                }
                freed.await;
            }
        };
        // Afterwards the body takes what is left, and ends if that does not suffice.
        let _late = timeout(MAX_WAIT, room).await;
    }
}

impl Decoding {
    /// `codings` in the order of `Content-Encoding`.
    pub(super) fn new(memory: &Arc<DecoderMemory>, device: PublicKey, codings: Vec<OriginCoding>) -> Self {
        Self {
            share: memory.shares.of(device),
            memory: Arc::clone(memory),
            codings,
            decoder: None,
            unfinished: 0,
        }
    }

    /// Decodes a part of `data`, and removes it.
    pub(super) async fn step(
        &mut self,
        data: &mut Bytes,
        cpu_pool: &Arc<CpuPool>,
        device: PublicKey,
    ) -> Result<Decoded, BodyFault> {
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => self.begin().await?,
        };
        let mut input = std::mem::take(data);
        let is_heavy = input.len() > LIGHT || self.unfinished > LIGHT_STEPS;
        let step = move |_| {
            let mut decoded = Vec::new();
            let step = decoder.push(&input, &mut decoded).map(|step| {
                let _used = input.split_to(step.consumed);
                step.more
            });
            (decoder, input, decoded, step)
        };
        let (decoder, rest, decoded, step) = if is_heavy {
            let ran = cpu_pool.run(Some(device), step).await;
            ran.map_err(|_| BodyFault::Interrupted)?
        } else {
            step(Load::NONE)
        };
        self.decoder = Some(decoder);
        self.unfinished = if step == Ok(true) { self.unfinished + 1 } else { 0 };
        *data = rest;
        Ok((decoded, step))
    }

    async fn begin(&self) -> Result<ContentDecoder, ContentDecodingError> {
        self.memory.wait(&self.share).await;
        ContentDecoder::new(&self.codings, ContentDecodingLimits::default(), Some(&self.share))
    }

    /// Ends the input.
    ///
    /// # Errors
    /// An earlier step failed.
    pub(super) fn end(&self) -> Result<ContentEnd, ContentDecodingError> {
        self.decoder
            .as_ref()
            .map_or(Ok(ContentEnd::Whole), ContentDecoder::finish)
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        self.decoder = None;
        self.memory.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_while_its_device_has_much_in_use() {
        let memory = DecoderMemory::new();
        let device = |byte| PublicKey::from_bytes([byte; 32]);
        let of = |byte| Decoding::new(&memory, device(byte), vec![OriginCoding::Gzip]);
        let much = memory.shares.of(device(1)).reserve(90 << 20).unwrap();
        let (waiting, other) = (of(1), of(2));
        let mut begun = Box::pin(waiting.begin());
        assert!((&mut begun).now_or_never().is_none());
        assert!(other.begin().now_or_never().unwrap().is_ok());
        drop(much);
        drop(other);
        assert!(begun.now_or_never().unwrap().is_ok());

        let much = memory.shares.of(device(1)).reserve(90 << 20).unwrap();
        let since = Instant::now();
        assert!(waiting.begin().await.is_ok());
        assert_eq!(since.elapsed(), MAX_WAIT);
        drop(much);
        assert_eq!(memory.used(), ByteCount::new(0));
    }
}
