//! The encoding of one body for the agent, on the event loop or in the thread pool.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_codec::{BodyTraits, EffortPolicy, EncodeError, Load};
use longhaul_types::{BitRate, ByteCount, ContentHash, PublicKey};
use longhaul_webcache::{Audience, CpuPool};

use super::{
    body_coder::{BodyCoder, CodeError, Progress},
    delta_bases::DeltaCandidates,
    encoded_cache::{BodyToEncode, EncodedCache},
    window_coding::WindowCoding,
};

/// Encoding of the bodies of one session.
#[derive(Clone, Debug)]
pub struct SessionEncoding {
    /// Secret for window checks; see docs/protocol/session.md section 6.
    pub window_key: [u8; 32],
    /// Device of the session: the thread pool is shared fairly between devices.
    pub device: PublicKey,
    /// Policy for the effort of compression.
    pub effort: EffortPolicy,
    /// Thread pool that encodes.
    pub cpu_pool: Arc<CpuPool>,
    /// Encoded bodies that every device may get.
    pub encoded_cache: Arc<EncodedCache>,
}

impl SessionEncoding {
    /// Properties of a body that decide its coder, under the current load.
    pub fn traits<'a>(
        &self,
        content_type: Option<&'a str>,
        length: Option<u64>,
        link: Option<BitRate>,
    ) -> BodyTraits<'a> {
        BodyTraits {
            content_type,
            length: length.map(ByteCount::new),
            link,
            load: self.cpu_pool.load(),
            effort: self.effort,
        }
    }

    /// Creates the pipeline of a body from offset 0. `chk` is the CHK of the body, if it is known.
    pub async fn whole(
        &self,
        chk: Option<ContentHash>,
        audience: Audience,
        traits: BodyTraits<'_>,
        candidates: DeltaCandidates,
    ) -> BodyPipeline {
        let body = BodyToEncode {
            chk,
            device: self.device,
            audience,
            traits,
            takes_mixing: candidates.mixing.is_some(),
        };
        let prior = self.encoded_cache.prior(body).await;
        let coder = BodyCoder::whole(self.window_key, traits, audience, candidates, prior);
        self.pipeline(coder)
    }

    /// Creates the pipeline of a body that is sent with coding identity from offset `skip`.
    ///
    /// # Errors
    /// The encoder cannot be created.
    pub fn identity(&self, length: Option<u64>, skip: u64) -> Result<BodyPipeline, EncodeError> {
        let length = length.map(ByteCount::new);
        Ok(self.pipeline(BodyCoder::identity(self.window_key, length, skip)?))
    }

    fn pipeline(&self, coder: BodyCoder) -> BodyPipeline {
        BodyPipeline {
            coder: Some(coder),
            finished: None,
            session: self.clone(),
        }
    }
}

/// Encodes one body into windows; long steps run in the thread pool.
pub struct BodyPipeline {
    /// `Some` between any two steps before the end.
    coder: Option<BodyCoder>,
    /// Coding of the completely encoded body.
    finished: Option<WindowCoding>,
    session: SessionEncoding,
}

impl BodyPipeline {
    /// Coding of the windows, once it is chosen; `None` after an error.
    pub fn coding(&self) -> Option<WindowCoding> {
        match &self.coder {
            Some(coder) => coder.coding(),
            None => self.finished,
        }
    }

    /// Number of decoded bytes so far, until the end.
    pub fn decoded(&self) -> u64 {
        self.coder.as_ref().map_or(0, BodyCoder::decoded)
    }

    /// Returns true if bytes are pending that [`Self::flush`] would write.
    pub fn holds(&self) -> bool {
        self.coder.as_ref().is_some_and(BodyCoder::holds)
    }

    /// Sets the current processor load for steps on the event loop. Steps in the thread pool do so
    /// themselves.
    pub fn update_load(&mut self) {
        if let Some(coder) = &mut self.coder {
            coder.set_load(self.session.cpu_pool.load());
        }
    }

    /// Encodes up to 64 KiB of `input` and appends complete windows to `wire`.
    ///
    /// # Errors
    /// A coder failed; the body cannot continue.
    pub async fn encode(&mut self, input: &mut Bytes, wire: &mut Vec<u8>) -> Result<Progress, CodeError> {
        self.run(input, wire, BodyCoder::step).await
    }

    /// Appends the pending bytes as a window.
    ///
    /// # Errors
    /// A coder failed; the body cannot continue.
    pub async fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), CodeError> {
        let flush = |coder: &mut BodyCoder, _: &mut Bytes, wire: &mut Vec<u8>| coder.flush(wire);
        self.run(&mut Bytes::new(), wire, flush).await
    }

    /// Returns an error if the body ended before the offset at which it begins.
    ///
    /// # Errors
    /// [`CodeError::Shorter`].
    pub fn check_complete(&self) -> Result<(), CodeError> {
        self.coder.as_ref().map_or(Ok(()), BodyCoder::check_complete)
    }

    /// Appends the last window, and stores the result in the encoded cache if other devices may get it.
    ///
    /// # Errors
    /// A coder failed, or the body is too short.
    pub async fn finish(&mut self, wire: &mut Vec<u8>) -> Result<(), CodeError> {
        let coder = self.coder.take().ok_or(CodeError::Interrupted)?;
        let is_heavy = coder.is_heavy(0);
        let mut own_wire = std::mem::take(wire);
        let work = move |load: Load| {
            let mut coder = coder;
            coder.set_load(load);
            (coder.finish(&mut own_wire), own_wire)
        };
        let SessionEncoding {
            cpu_pool,
            device,
            encoded_cache,
            ..
        } = &self.session;
        let (encoded, own_wire) = if is_heavy {
            let ran = cpu_pool.run(Some(*device), work).await;
            ran.map_err(|_| CodeError::Interrupted)?
        } else {
            work(cpu_pool.load())
        };
        *wire = own_wire;
        let (coding, finished) = encoded?;
        if let Some(finished) = finished {
            encoded_cache.finished(device, finished);
        }
        self.finished = Some(coding);
        Ok(())
    }

    async fn run<T: Send + 'static>(
        &mut self,
        input: &mut Bytes,
        wire: &mut Vec<u8>,
        step: impl FnOnce(&mut BodyCoder, &mut Bytes, &mut Vec<u8>) -> Result<T, CodeError> + Send + 'static,
    ) -> Result<T, CodeError> {
        let mut coder = self.coder.take().ok_or(CodeError::Interrupted)?;
        if !coder.is_heavy(input.len()) {
            let outcome = step(&mut coder, input, wire);
            self.coder = Some(coder);
            return outcome;
        }
        let (mut own_input, mut own_wire) = (std::mem::take(input), std::mem::take(wire));
        let device = Some(self.session.device);
        let ran = self.session.cpu_pool.run(device, move |load| {
            coder.set_load(load);
            let outcome = step(&mut coder, &mut own_input, &mut own_wire);
            (coder, own_input, own_wire, outcome)
        });
        let (coder, own_input, own_wire, outcome) = ran.await.map_err(|_| CodeError::Interrupted)?;
        self.coder = Some(coder);
        (*input, *wire) = (own_input, own_wire);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding};
    use longhaul_session::BodyCoding;

    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn session() -> SessionEncoding {
        let cpu_pool = CpuPool::new(1);
        SessionEncoding {
            window_key: KEY,
            device: PublicKey::from_bytes([1; 32]),
            effort: EffortPolicy::ByLink,
            encoded_cache: EncodedCache::new(None, Arc::clone(&cpu_pool)),
            cpu_pool,
        }
    }

    async fn encode(mut pipeline: BodyPipeline, body: &[u8]) -> Result<(BodyCoding, Vec<u8>), CodeError> {
        let (mut input, mut wire) = (Bytes::copy_from_slice(body), Vec::new());
        while pipeline.encode(&mut input, &mut wire).await? == Progress::More {}
        pipeline.finish(&mut wire).await?;
        assert!(!pipeline.holds());
        Ok((pipeline.coding().unwrap().coding, wire))
    }

    fn decode(coding: Coding, mut wire: &[u8]) -> Vec<u8> {
        let mut decoder = BodyDecoder::new(KEY, coding, BodyLimits::default());
        let mut body = Vec::new();
        while let BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
            body.extend_from_slice(&window);
        }
        body
    }

    #[tokio::test]
    async fn a_body_is_encoded_in_the_thread_pool_and_on_the_event_loop() {
        let session = session();
        let link = Some(BitRate::kbps(384));
        let body = b"some words of a page ".repeat(20_000);
        for length in [100, body.len()] {
            let traits = session.traits(Some("text/html"), Some(length as u64), link);
            let candidates = DeltaCandidates::default();
            let pipeline = session
                .whole(None, Audience::RequestingDevice, traits, candidates)
                .await;
            assert_eq!(pipeline.coding(), None);
            let (coding, wire) = encode(pipeline, &body[..length]).await.unwrap();
            assert_eq!(coding, BodyCoding::Brotli);
            assert!(decode(Coding::Brotli, &wire) == body[..length]);
        }
        assert!(session.cpu_pool.spent() > std::time::Duration::ZERO);
    }

    #[tokio::test]
    async fn a_body_that_is_shorter_than_its_offset_is_an_error() {
        let session = session();
        let (coding, wire) = encode(session.identity(Some(5), 0).unwrap(), b"hello")
            .await
            .unwrap();
        assert_eq!(coding, BodyCoding::Identity);
        assert_eq!(decode(Coding::Identity, &wire), b"hello");
        let rest = session.identity(None, 9).unwrap();
        assert_eq!(encode(rest, b"hello").await.err(), Some(CodeError::Shorter));
    }

    #[tokio::test]
    async fn the_end_before_the_offset_is_noticed_before_the_end_is_sent() {
        let session = session();
        let mut rest = session.identity(None, 3).unwrap();
        assert_eq!(rest.check_complete(), Err(CodeError::Shorter));
        let mut wire = Vec::new();
        rest.encode(&mut Bytes::from_static(b"abc"), &mut wire)
            .await
            .unwrap();
        assert_eq!(rest.check_complete(), Ok(()));
        rest.finish(&mut wire).await.unwrap();
        assert_eq!(rest.coding(), Some(WindowCoding::IDENTITY));
    }

    #[tokio::test]
    async fn a_body_is_described_by_its_type_length_link_and_effort() {
        let session = session();
        let link = Some(BitRate::kbps(384));
        let traits = session.traits(Some("text/css"), Some(7), link);
        assert_eq!((traits.content_type, traits.link), (Some("text/css"), link));
        assert_eq!(traits.length, Some(ByteCount::new(7)));
        assert_eq!(traits.effort, EffortPolicy::ByLink);
    }
}
