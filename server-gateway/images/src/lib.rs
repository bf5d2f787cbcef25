//! Image transcoding: replaces images that a page displays by smaller ones at the level of the device's user.
//!
//! `conversion` is what the user requests, `transcodable` selects the responses, `transcode_policy` decides if a smaller image arrives earlier,
//! `break_even` ends the wait for one that does not, `transcode_speed` measures how long it takes,
//! `variant_records` stores the results, and `picture_workers` transcode in separate processes.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod break_even;
mod conversion;
pub mod picture_workers;
mod transcodable;
mod transcode_policy;
mod transcode_speed;
mod variant_records;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use longhaul_cache::{Cache, Cost};
use longhaul_codec::MemoryShares;
use longhaul_http::conditional::{is_not_modified, not_modified_fields};
use longhaul_transcode::{Header, Limits, Request, TranscodeEffort, inspect};
use longhaul_types::{BitRate, ByteCount, ContentHash, PublicKey};
use longhaul_webcache::{BodyReader, Content, CpuPool, GatewayResponse};
use prometheus_client::registry::Registry;
use tracing::debug;

pub use self::{conversion::ImageConversion, transcode_policy::HopReservations};
use self::{
    conversion::eased,
    picture_workers::{Made, PictureWorkers, Settings},
    transcode_policy::Pending,
    transcode_speed::TranscodeSpeed,
    variant_records::Transcoding,
};

/// Maximum size of an image that is transcoded: larger ones take too much time and memory.
const MAX_PICTURE: ByteCount = ByteCount::mib(16);
/// Memory of the images that are read completely for transcoding: four of the maximum size, or those of several pages.
/// Images that do not fit are sent as they arrive.
const IMAGE_MEMORY: ByteCount = ByteCount::mib(64);
/// Maximum wait for an image's end; a slower image is sent as it arrives.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Link rate from which the load of the moment decides which images are transcoded. An image whose original
/// the agent holds then stays original, which costs only its hash.
const FAST: BitRate = BitRate::kbps(4_000);
/// Minimum size in bytes of an image that is transcoded.
const SMALLEST: u64 = 200;

/// The session for which an image is transcoded.
pub trait ImageRecipient {
    /// The device: images of different devices take turns.
    fn device(&self) -> PublicKey;
    /// Rate towards the client, if it is known.
    fn link_rate(&self) -> Option<BitRate>;
    /// Time that the transport needs for the data already queued.
    fn queued(&self) -> Duration;
    /// Reservations of the hop for images already decided.
    fn promised(&self) -> &HopReservations;
    /// Returns true if the agent holds this body.
    fn holds(&self, hash: &ContentHash) -> bool;
}

/// The image transcoder of a gateway.
#[derive(Clone, Debug)]
pub struct Images {
    cache: Option<Cache>,
    cpu_pool: Arc<CpuPool>,
    workers: PictureWorkers,
    limits: Limits,
    image_memory: MemoryShares,
    pending: Arc<Pending>,
    speed: Arc<TranscodeSpeed>,
}

impl Images {
    /// Creates the transcoder. Images of more than `max_megapixels` megapixels are not transcoded.
    pub fn new(
        cache: Option<Cache>,
        cpu_pool: Arc<CpuPool>,
        max_megapixels: usize,
        workers: Settings,
    ) -> Self {
        Self {
            cache,
            limits: limits(max_megapixels, workers.memory),
            workers: PictureWorkers::new(workers),
            image_memory: MemoryShares::new(IMAGE_MEMORY),
            pending: Arc::default(),
            speed: Arc::default(),
            cpu_pool,
        }
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        self.workers.register(registry);
    }

    /// Memory of the images that are read completely.
    pub fn memory(&self) -> ByteCount {
        self.image_memory.used()
    }

    /// Returns the response for the agent, with a smaller image if the response is an image for display and
    /// the user's level allows it. `browser` contains the fields of the browser's request.
    pub async fn at(
        &self,
        conversion: &ImageConversion,
        recipient: &impl ImageRecipient,
        method: &Method,
        browser: &HeaderMap,
        stored: GatewayResponse,
    ) -> GatewayResponse {
        let Some(request) = conversion.request(self.limits) else {
            return stored;
        };
        if !transcodable::may_transcode(method, browser, stored.status, &stored.headers) {
            return stored;
        }
        let GatewayResponse {
            status,
            headers,
            content: Content::Body(body),
            response_context,
        } = stored
        else {
            return stored;
        };
        let (content, transcoding) = self.convert(request, conversion.link, recipient, body).await;
        let mut headers = headers;
        let (Transcoding::Variant(variant), Content::Body(body)) = (transcoding, &content) else {
            return GatewayResponse {
                status,
                headers,
                content,
                response_context,
            };
        };
        transcodable::describe_variant(&mut headers, variant, request.level, body.length());
        if is_not_modified(browser, StatusCode::OK, &headers) {
            return GatewayResponse {
                status: StatusCode::NOT_MODIFIED,
                headers: not_modified_fields(&headers),
                content: Content::None,
                response_context,
            };
        }
        GatewayResponse {
            status,
            headers,
            content,
            response_context,
        }
    }

    /// Returns the image's smaller variant, or the original.
    async fn convert(
        &self,
        request: Request,
        link: Option<BitRate>,
        recipient: &impl ImageRecipient,
        body: BodyReader,
    ) -> (Content, Transcoding) {
        let Some(original) = body.chk_when_complete(MAX_WAIT, MAX_PICTURE).await else {
            return (Content::Body(body), Transcoding::Original);
        };
        let length = body.length().unwrap_or(u64::MAX);
        if !(SMALLEST..=MAX_PICTURE.bytes()).contains(&length) {
            return (Content::Body(body), Transcoding::Original);
        }
        let is_fast = link.is_some_and(|link| link >= FAST);
        if request.effort == TranscodeEffort::Quick && is_fast && recipient.holds(&original) {
            return (Content::Body(body), Transcoding::Original);
        }
        let eased = eased(request, link, self.cpu_pool.load());
        for request in std::iter::once(request).chain(eased) {
            let Some(cache) = &self.cache else { break };
            match variant_records::recorded(cache, &original, &request).await {
                Some(Transcoding::Original) => return (Content::Body(body), Transcoding::Original),
                Some(Transcoding::Variant(chk)) => {
                    if let Some(stored) = cache.body(chk).await {
                        return (
                            Content::Body(BodyReader::of_stored(stored)),
                            Transcoding::Variant(chk),
                        );
                    }
                }
                None => {}
            }
        }
        let device = recipient.device();
        let Some(reservation) = self.image_memory.of(device).reserve(length) else {
            return (Content::Body(body), Transcoding::Original);
        };
        let Some(picture) = whole(body, length).await else {
            return (Content::None, Transcoding::Original);
        };
        let picture = reservation.hold(picture);
        let kept = |picture| {
            (
                Content::Body(BodyReader::of_bytes(picture, original)),
                Transcoding::Original,
            )
        };
        let request = eased.unwrap_or(request);
        let Ok(header) = inspect(&picture) else {
            self.record(&original, &request, Transcoding::Original).await;
            return kept(picture);
        };
        let now = Instant::now();
        let estimate = transcode_policy::work(&header);
        let work = if is_fast {
            self.speed.scaled(estimate, now)
        } else {
            estimate
        };
        let ready = self.pending.wait(&device, self.cpu_pool.cores()) + work;
        let reserved = recipient.promised().ahead(now);
        if let (TranscodeEffort::Quick, Some(rate)) = (request.effort, link.filter(|link| link.as_bps() > 0))
            && !transcode_policy::arrives_earlier(
                recipient.promised(),
                (ByteCount::new(length), rate),
                recipient.queued(),
                ready,
                now,
            )
        {
            return kept(picture);
        }
        let share = Pending::add(&self.pending, device, work);
        let images = self.clone();
        let job = picture.clone();
        let making = async move {
            let _share = share;
            images.work(device, &request, original, (job, header)).await
        };
        if request.effort != TranscodeEffort::Quick {
            return making.await;
        }
        let limit = break_even::reached(recipient, ByteCount::new(length), reserved);
        // Behind the limit the original is sent; the smaller image is finished for the next request.
        let made = break_even::within(limit, making).await;
        made.unwrap_or_else(|| kept(picture))
    }

    async fn work(
        &self,
        device: PublicKey,
        request: &Request,
        original: ContentHash,
        (picture, header): (Bytes, Header),
    ) -> (Content, Transcoding) {
        let kept = |picture: Bytes| {
            (
                Content::Body(BodyReader::of_bytes(picture, original)),
                Transcoding::Original,
            )
        };
        // Waiting images also count as load.
        let _job = self.cpu_pool.job();
        let begun = Instant::now();
        let quick = Request {
            effort: request.effort.min(TranscodeEffort::Quick),
            ..*request
        };
        // `TranscodeEffort::Standard` needs more memory for large images: if it does not fit, the lower effort may.
        let can = |request: &Request| self.workers.can(&picture, &header, request);
        let affordable = if can(request) || !can(&quick) {
            request
        } else {
            &quick
        };
        let made = self
            .workers
            .transcode(device, picture.clone(), &header, affordable);
        let (made, took) = made.await;
        if !took.is_zero() {
            self.speed
                .observe(transcode_policy::work(&header), took, Instant::now());
        }
        let smaller = match made {
            Made::Smaller(smaller) => smaller,
            Made::Kept => {
                self.record(&original, request, Transcoding::Original).await;
                return kept(picture);
            }
            Made::NotNow => return kept(picture),
        };
        let variant = ContentHash::of(&smaller);
        if let Some(cache) = &self.cache {
            // The transcoding time is the cost of the stored image.
            let mut writer = cache.writer(Cost::measured(begun.elapsed()));
            writer.write(smaller.clone()).await;
            if let Err(error) = writer.commit().await {
                debug!(%error, "a transcoded image cannot be stored");
            }
        }
        self.record(&original, request, Transcoding::Variant(variant))
            .await;
        (
            Content::Body(BodyReader::of_bytes(smaller, variant)),
            Transcoding::Variant(variant),
        )
    }

    async fn record(&self, original: &ContentHash, request: &Request, transcoding: Transcoding) {
        if let Some(cache) = &self.cache {
            variant_records::record(cache, original, request, transcoding).await;
        }
    }
}

/// Limits of transcoding from the configuration.
fn limits(max_megapixels: usize, memory: ByteCount) -> Limits {
    let pixels = max_megapixels as u64 * 1_000_000;
    Limits {
        pixels,
        // Frames are decoded one at a time, and only their changes are encoded.
        animation_pixels: pixels * 3 / 2,
        decode_bytes: memory.bytes(),
        ..Limits::default()
    }
}

/// Reads a complete body into memory; `None` on a fault.
async fn whole(mut body: BodyReader, length: u64) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(usize::try_from(length).ok()?);
    while let Some(chunk) = body.next().await {
        whole.extend_from_slice(&chunk.ok()?);
    }
    (whole.len() as u64 == length).then_some(whole)
}
