//! What the page loads of one session share.
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;
use longhaul_cache::{Cache, Partition};
use longhaul_codec::{Effort, MixMemory};
use longhaul_driver::Session;
use longhaul_http::acceleration::Accelerated;
use longhaul_page::{Destination, Viewport, jar::Sightings, predict::Templates};
use longhaul_protocol::session::{AcceleratedHosts, ImageLevel, Mixing, Preferences};
use longhaul_types::{BitRate, ContentHash, LinkProfile, PublicKey, UnixTime};
use url::Url;

use super::{counters::BundleCounters, mirror::Mirror};
use crate::{
    bases::{Bases, Offers, Subject},
    fetch::Failure,
    images::{Audience, Promised, Wish},
    session::Gateway,
    store::{Lookup, Stored},
};

/// A session, as far as bundles are concerned.
pub(crate) struct BundleContext {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Session,
    pub(crate) device: PublicKey,
    /// docs/protocol/session.md section 6.
    pub(crate) window_key: [u8; 32],
    pub(crate) mirror: Mirror,
    pub(crate) bases: Bases,
    profile: Option<LinkProfile>,
    templates: Mutex<Templates>,
    sightings: Mutex<Sightings>,
    preferences: Mutex<Preferences>,
    /// The set of dictionaries that the agent has; 0 for none.
    dictionaries: AtomicU32,
    /// Of which hosts the browser's HTTPS requests come as HTTP.
    accelerated: Mutex<Accelerated>,
    mixing: MixMemory,
    pictures: Promised,
}

impl BundleContext {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        session: Session,
        device: PublicKey,
        profile: Option<LinkProfile>,
        window_key: [u8; 32],
    ) -> Self {
        let cache = gateway.store.cache().cloned();
        let mirror = Mirror::new(cache.clone(), device);
        let bases = Bases::new(cache, Arc::clone(&gateway.base_memory));
        Self {
            gateway,
            session,
            device,
            window_key,
            mirror,
            bases,
            profile,
            templates: Mutex::default(),
            sightings: Mutex::default(),
            preferences: Mutex::default(),
            dictionaries: AtomicU32::new(0),
            accelerated: Mutex::default(),
            mixing: MixMemory::of_session(),
            pictures: Promised::default(),
        }
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.gateway.store.cache()
    }

    pub(crate) fn counters(&self) -> &BundleCounters {
        &self.gateway.bundles
    }

    /// The rate towards the agent, measured or else as the agent's user configured it.
    pub(crate) fn link_rate(&self) -> Option<BitRate> {
        let granted = self.session.stats().send_rate;
        if granted.as_bps() > 0 {
            Some(granted)
        } else {
            self.profile.map(|profile| profile.down)
        }
    }

    /// Memory for context mixing, if the agent takes that.
    fn mixing(&self) -> Option<MixMemory> {
        let accepted = lock(&self.preferences).mixing == Mixing::Accepted;
        accepted.then(|| self.mixing.clone())
    }

    /// What a body can be coded against, and by context mixing if there is nothing.
    pub(crate) async fn bases_for(&self, subject: Option<&Subject>, length: Option<u64>) -> Offers {
        if self.gateway.effort == Effort::Fixed {
            return Offers::default();
        }
        let offers = match subject {
            Some(subject) => {
                let link = self.link_rate();
                self.bases.offers(subject, length, link, &self.mirror).await
            }
            None => Offers::default(),
        };
        Offers {
            dictionaries: self.dictionaries.load(Ordering::Relaxed),
            mixing: self.mixing(),
            ..offers
        }
    }

    /// The agent has the dictionaries of this set.
    pub(crate) fn know_dictionaries(&self, set: u32) {
        self.dictionaries.store(set, Ordering::Relaxed);
    }

    /// The agent accelerates the HTTPS of these hosts.
    pub(crate) fn accelerates(&self, hosts: AcceleratedHosts) {
        *lock(&self.accelerated) = match hosts {
            AcceleratedHosts::Nothing => Accelerated::Nothing,
            AcceleratedHosts::Only(names) => Accelerated::Only(names),
            AcceleratedHosts::AllBut(names) => Accelerated::AllBut(names),
        };
    }

    /// Whether the browser's request for a URL comes by this session, and not through a tunnel.
    pub(crate) fn takes(&self, url: &Url) -> bool {
        url.scheme() != "https" || lock(&self.accelerated).contains(url.host_str().unwrap_or_default())
    }

    /// What the user's screen is like.
    pub(crate) fn prefer(&self, preferences: Preferences) {
        *lock(&self.preferences) = preferences;
    }

    pub(crate) fn viewport(&self) -> Viewport {
        let preferences = *lock(&self.preferences);
        Viewport {
            width: preferences.viewport_width.into(),
            height: preferences.viewport_height.into(),
            ratio_percent: preferences.pixel_ratio_percent.into(),
        }
    }

    /// Whether the user wants pictures unasked.
    pub(crate) fn shows_pictures(&self) -> bool {
        lock(&self.preferences).images != ImageLevel::Text
    }

    /// What is wanted of pictures.
    fn wish(&self) -> Wish {
        let preferences = *lock(&self.preferences);
        Wish::of(&preferences, self.link_rate(), self.gateway.effort)
    }

    /// Answers a request without body from the cache or the origin, as this device's user wants it.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn fetch(&self, lookup: Lookup) -> Result<Stored, Failure> {
        let (method, browser) = (lookup.parts.method.clone(), lookup.browser.clone());
        let audience = Displaying {
            context: self,
            partition: lookup.asker.partition(),
        };
        let stored = self.gateway.store.fetch(lookup).await?;
        let wish = self.wish();
        let images = &self.gateway.images;
        Ok(images.at(&wish, &audience, &method, &browser, stored).await)
    }

    /// Learns how the browser asks for objects.
    pub(crate) fn observe(&self, url: &Url, destination: Destination, request: &HeaderMap) {
        lock(&self.templates).observe(url, destination, request);
    }

    /// Where the browser sends its cookies.
    pub(crate) fn sightings(&self) -> MutexGuard<'_, Sightings> {
        lock(&self.sightings)
    }

    pub(crate) fn templates(&self) -> MutexGuard<'_, Templates> {
        lock(&self.templates)
    }
}

/// The session that a picture is for, as far as it concerns the site that displays it.
struct Displaying<'a> {
    context: &'a BundleContext,
    partition: Option<Partition>,
}

impl Audience for Displaying<'_> {
    fn device(&self) -> PublicKey {
        self.context.device
    }

    fn queued(&self) -> Duration {
        let stats = self.context.session.stats();
        let queued = stats.send_buffered.saturating_sub(stats.outstanding);
        let rate = self.context.link_rate().filter(|rate| rate.as_bps() > 0);
        rate.map_or(Duration::ZERO, |rate| queued / rate)
    }

    fn promised(&self) -> &Promised {
        &self.context.pictures
    }

    fn holds(&self, hash: &ContentHash) -> bool {
        self.context.mirror.holds(self.partition.as_ref(), hash)
    }
}

/// What the locks of bundles guard is whole between any two statements, so a panic elsewhere does no harm.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn now() -> UnixTime {
    // A clock before 1970 makes everything look old: nothing is reused then.
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
