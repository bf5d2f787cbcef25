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
    use longhaul_codec::{ContentCoding, ContentEncoder};
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

    fn gzip(body: &[u8]) -> Bytes {
        let mut coded = Vec::new();
        let coding = ContentCoding::Gzip { padding: 0 };
        let mut encoder = ContentEncoder::new(coding, None).unwrap();
        encoder.encode(body, &mut coded).unwrap();
        encoder.finish(&mut coded).unwrap();
        coded.into()
    }

    /// Bytes that do not compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    const DEVICE: PublicKey = PublicKey::from_bytes([1; 32]);

    #[tokio::test]
    async fn long_inputs_are_decoded_in_the_thread_pool() {
        let memory = DecoderMemory::new();
        let coded = gzip(&noise(4 * LIGHT));
        for (length, is_heavy) in [
            (LIGHT - 1, false),
            (LIGHT, false),
            (LIGHT + 1, true),
            (2 * LIGHT, true),
        ] {
            let cpu_pool = CpuPool::new(1);
            let mut decoding = Decoding::new(&memory, DEVICE, vec![OriginCoding::Gzip]);
            let mut data = coded.slice(..length);
            assert!(decoding.step(&mut data, &cpu_pool, DEVICE).await.is_ok());
            assert_eq!(cpu_pool.spent() > Duration::ZERO, is_heavy, "{length}");
            assert!(memory.used() > ByteCount::new(0));
        }
        assert_eq!(memory.used(), ByteCount::new(0));
    }

    #[tokio::test]
    async fn a_short_input_with_much_output_goes_on_in_the_thread_pool() {
        let memory = DecoderMemory::new();
        let cpu_pool = CpuPool::new(1);
        let mut decoding = Decoding::new(&memory, DEVICE, vec![OriginCoding::Gzip, OriginCoding::Gzip]);
        let body = vec![0; 1 << 20];
        let mut data = gzip(&gzip(&body));
        assert!(data.len() < LIGHT);
        let mut decoded = Vec::new();
        for number in 1.. {
            let (part, step) = decoding.step(&mut data, &cpu_pool, DEVICE).await.unwrap();
            decoded.extend(part);
            assert_eq!(
                cpu_pool.spent() > Duration::ZERO,
                number > LIGHT_STEPS + 1,
                "{number}"
            );
            if !step.unwrap() {
                break;
            }
        }
        assert_eq!(decoded, body);
        assert_eq!(decoding.unfinished, 0);
        assert_eq!(decoding.end(), Ok(ContentEnd::Whole));
    }
}
