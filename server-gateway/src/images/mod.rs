//! The lossy lane: pictures that a page displays, at the level that the device's user asks for.
//!
//! `lane` says which responses are in it, `sooner` whether a smaller picture would be, `variant` remembers what became of a picture, `originals` bounds the
//! memory of those that wait, and `picture_workers` make the variants, in processes of their own.
mod lane;
mod originals;
mod sooner;
mod variant;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use longhaul_cache::{Cache, Cost};
use longhaul_codec::{Effort as CodingEffort, Load};
use longhaul_http::conditional::{is_not_modified, not_modified_fields};
use longhaul_protocol::session::{self, Preferences};
use longhaul_transcode::{Effort, Header, ImageLevel, Limits, Request, Viewport, inspect};
use longhaul_types::{BitRate, ByteCount, ContentHash, PublicKey};
use tracing::debug;

pub(crate) use self::sooner::Promised;
use self::{originals::Originals, sooner::Pending, variant::Fate};
use crate::{
    computing::Computing,
    config::PicturesConfig,
    picture_workers::{Made, Patience, PictureWorkers, Settings},
    store::{BodyReader, Content, Stored},
};

/// Pictures above this go as they are: they would take too long and too much memory.
const MAX_PICTURE: ByteCount = ByteCount::mib(16);
/// How long a picture's end is awaited; on a slower origin it goes as it comes.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// From this rate on it depends on the moment which pictures become smaller. One that the agent holds as it is then stays so,
/// which costs its hash.
const FAST: BitRate = BitRate::kbps(4_000);
/// Below this rate the twentieth that a measured picture saves is worth the computing, which takes most of a second for a
/// page's pictures: on umts-384 that made pages later than it saved.
const SLOW: BitRate = BitRate::kbps(100);
/// Fewer bytes are not worth it.
const SMALLEST: u64 = 200;

/// What a device's user wants of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) level: ImageLevel,
    pub(crate) viewport: Viewport,
    /// The rate towards the agent, where it is known.
    pub(crate) link: Option<BitRate>,
    /// What the operator lets decide.
    pub(crate) effort: CodingEffort,
}

/// The session that a picture is for.
pub(crate) trait Audience {
    /// Its device: pictures of different devices are made smaller by turns.
    fn device(&self) -> PublicKey;
    /// What the transport has to send before anything new.
    fn queued(&self) -> Duration;
    /// Pictures that have been decided on.
    fn promised(&self) -> &Promised;
    /// Whether the agent has this body.
    fn holds(&self, hash: &ContentHash) -> bool;
}

/// Makes pictures smaller.
#[derive(Clone, Debug)]
pub(crate) struct Images {
    cache: Option<Cache>,
    computing: Arc<Computing>,
    workers: PictureWorkers,
    limits: Limits,
    originals: Originals,
    pending: Arc<Pending>,
}

impl Wish {
    pub(crate) fn of(preferences: &Preferences, link: Option<BitRate>, effort: CodingEffort) -> Self {
        Self {
            level: match preferences.images {
                session::ImageLevel::High => ImageLevel::High,
                session::ImageLevel::Medium => ImageLevel::Medium,
                // At the level of text a picture is loaded only if the user wants to see it, then as it is.
                session::ImageLevel::Original | session::ImageLevel::Text => ImageLevel::Original,
                session::ImageLevel::Low => ImageLevel::Low,
            },
            viewport: Viewport {
                width: preferences.viewport_width.into(),
                height: preferences.viewport_height.into(),
                ratio_percent: preferences.pixel_ratio_percent.into(),
            },
            link,
            effort,
        }
    }

    /// What is asked for of a picture; `None`: nothing.
    fn request(&self, limits: Limits) -> Option<Request> {
        self.level.target()?;
        let effort = match (self.effort, self.link) {
            (CodingEffort::Fixed, _) => Effort::Fixed,
            (CodingEffort::Link, Some(link)) if link < SLOW => Effort::Standard,
            (CodingEffort::Link, Some(_) | None) => Effort::Quick,
        };
        Some(Request {
            level: self.level,
            viewport: self.viewport,
            effort,
            limits,
        })
    }
}

/// The same with less effort, where the processor is so busy that the computing takes longer than it saves.
fn eased(request: Request, link: Option<BitRate>, load: Load) -> Option<Request> {
    let dear = link.is_some_and(|link| load.as_if_free(link) >= SLOW);
    (request.effort == Effort::Standard && dear).then_some(Request {
        effort: Effort::Quick,
        ..request
    })
}

impl Images {
    pub(crate) fn new(cache: Option<Cache>, computing: Arc<Computing>, config: &PicturesConfig) -> Self {
        Self {
            cache,
            workers: PictureWorkers::new(Settings {
                memory: config.memory,
                workers: config.workers,
                program: config.program.clone(),
                patience: Patience::default(),
            }),
            limits: limits(config),
            originals: Originals::default(),
            pending: Arc::default(),
            computing,
        }
    }

    /// The text form of what is counted (Prometheus).
    pub(crate) fn render(&self) -> String {
        self.workers.render()
    }

    /// The response as it goes to the agent: another picture, if this is one and the user wants it smaller. `browser` are
    /// the fields of the browser's request.
    pub(crate) async fn at(
        &self,
        wish: &Wish,
        audience: &impl Audience,
        method: &Method,
        browser: &HeaderMap,
        stored: Stored,
    ) -> Stored {
        let Some(request) = wish.request(self.limits) else {
            return stored;
        };
        if !lane::is_lossy(method, browser, stored.status, &stored.headers) {
            return stored;
        }
        let Stored {
            status,
            headers,
            content: Content::Body(body),
            facts,
        } = stored
        else {
            return stored;
        };
        let (content, fate) = self.make(request, wish.link, audience, body).await;
        let mut headers = headers;
        let (Fate::Variant(variant), Content::Body(body)) = (fate, &content) else {
            return Stored {
                status,
                headers,
                content,
                facts,
            };
        };
        lane::rename(&mut headers, variant, request.level, body.length());
        if is_not_modified(browser, StatusCode::OK, &headers) {
            return Stored {
                status: StatusCode::NOT_MODIFIED,
                headers: not_modified_fields(&headers),
                content: Content::None,
                facts,
            };
        }
        Stored {
            status,
            headers,
            content,
            facts,
        }
    }

    /// The picture's smaller variant, or the picture itself.
    async fn make(
        &self,
        request: Request,
        link: Option<BitRate>,
        audience: &impl Audience,
        body: BodyReader,
    ) -> (Content, Fate) {
        let Some(original) = body.chk_when_complete(MAX_WAIT, MAX_PICTURE).await else {
            return (Content::Body(body), Fate::Kept);
        };
        let length = body.length().unwrap_or(u64::MAX);
        if !(SMALLEST..=MAX_PICTURE.bytes()).contains(&length) {
            return (Content::Body(body), Fate::Kept);
        }
        let is_fast = link.is_some_and(|link| link >= FAST);
        if request.effort == Effort::Quick && is_fast && audience.holds(&original) {
            return (Content::Body(body), Fate::Kept);
        }
        let eased = eased(request, link, self.computing.load());
        for request in std::iter::once(request).chain(eased) {
            let Some(cache) = &self.cache else { break };
            match variant::known(cache, &original, &request).await {
                Some(Fate::Kept) => return (Content::Body(body), Fate::Kept),
                Some(Fate::Variant(chk)) => {
                    if let Some(stored) = cache.body(chk).await {
                        return (Content::Body(BodyReader::of_stored(stored)), Fate::Variant(chk));
                    }
                }
                None => {}
            }
        }
        let device = audience.device();
        let Some(room) = self.originals.room(device, length) else {
            return (Content::Body(body), Fate::Kept);
        };
        let Some(picture) = whole(body, length).await else {
            return (Content::None, Fate::Kept);
        };
        let picture = room.hold(picture);
        let kept = |picture| (Content::Body(BodyReader::of_bytes(picture, original)), Fate::Kept);
        let request = eased.unwrap_or(request);
        let Ok(header) = inspect(&picture) else {
            self.remember(&original, &request, Fate::Kept).await;
            return kept(picture);
        };
        let work = sooner::work(&header);
        let ready = self.pending.wait(&device, self.computing.cores()) + work;
        if let (Effort::Quick, Some(rate)) = (request.effort, link.filter(|link| link.as_bps() > 0))
            && !sooner::is_sooner(
                audience.promised(),
                (ByteCount::new(length), rate),
                audience.queued(),
                ready,
                Instant::now(),
            )
        {
            return kept(picture);
        }
        let _share = self.pending.add(device, work);
        self.work(device, &request, original, (picture, header)).await
    }

    async fn work(
        &self,
        device: PublicKey,
        request: &Request,
        original: ContentHash,
        (picture, header): (Bytes, Header),
    ) -> (Content, Fate) {
        let kept = |picture: Bytes| (Content::Body(BodyReader::of_bytes(picture, original)), Fate::Kept);
        // Pictures that wait are load, too.
        let _job = self.computing.job();
        let begun = Instant::now();
        let quick = Request {
            effort: request.effort.min(Effort::Quick),
            ..*request
        };
        // Measuring a large picture takes memory, too: less effort is better than none.
        let can = |request: &Request| self.workers.can(&picture, &header, request);
        let affordable = if can(request) || !can(&quick) {
            request
        } else {
            &quick
        };
        let made = self
            .workers
            .transcode(device, picture.clone(), &header, affordable);
        let smaller = match made.await {
            Made::Smaller(smaller) => smaller,
            Made::Kept => {
                self.remember(&original, request, Fate::Kept).await;
                return kept(picture);
            }
            Made::NotNow => return kept(picture),
        };
        let variant = ContentHash::of(&smaller);
        if let Some(cache) = &self.cache {
            // What took long to make is dear.
            let mut writer = cache.writer(Cost::measured(begun.elapsed()));
            writer.write(smaller.clone()).await;
            if let Err(error) = writer.commit().await {
                debug!(%error, "a smaller picture is not kept");
            }
        }
        self.remember(&original, request, Fate::Variant(variant)).await;
        (
            Content::Body(BodyReader::of_bytes(smaller, variant)),
            Fate::Variant(variant),
        )
    }

    async fn remember(&self, original: &ContentHash, request: &Request, fate: Fate) {
        if let Some(cache) = &self.cache {
            variant::remember(cache, original, request, fate).await;
        }
    }
}

/// What a picture may cost.
fn limits(config: &PicturesConfig) -> Limits {
    let pixels = config.max_megapixels as u64 * 1_000_000;
    Limits {
        pixels,
        // Frames are decoded one after the other, and coded as what changes.
        animation_pixels: pixels * 3 / 2,
        decode_bytes: config.memory.bytes(),
        ..Limits::default()
    }
}

/// All of a body that is complete.
async fn whole(mut body: BodyReader, length: u64) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(usize::try_from(length).ok()?);
    while let Some(chunk) = body.next().await {
        whole.extend_from_slice(&chunk.ok()?);
    }
    (whole.len() as u64 == length).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_effort_is_the_same_on_every_link() {
        let effort = |kbps, effort| {
            let wish = Wish {
                level: ImageLevel::Medium,
                viewport: Viewport::default(),
                link: Some(BitRate::kbps(kbps)),
                effort,
            };
            wish.request(Limits::default()).map(|request| request.effort)
        };
        assert_eq!(
            [40, 384, 12_000].map(|kbps| effort(kbps, CodingEffort::Link)),
            [Some(Effort::Standard), Some(Effort::Quick), Some(Effort::Quick)]
        );
        assert_eq!(
            [40, 384, 12_000].map(|kbps| effort(kbps, CodingEffort::Fixed)),
            [Some(Effort::Fixed); 3]
        );
    }

    #[test]
    fn pictures_take_less_effort_when_the_processor_is_busy() {
        let standard = Request {
            effort: Effort::Standard,
            ..Request::default()
        };
        let link = Some(BitRate::kbps(40));
        assert_eq!(eased(standard, link, Load::of(2, 2)), None);
        let eased_by = |jobs| eased(standard, link, Load::of(jobs, 2)).map(|request| request.effort);
        assert_eq!(eased_by(4), None);
        assert_eq!(eased_by(5), Some(Effort::Quick));
        let quick = Request {
            effort: Effort::Quick,
            ..standard
        };
        assert_eq!(eased(quick, link, Load::of(100, 2)), None);
    }
}
