//! State shared by the page loads of one session.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longhaul_gateway_core::{
    admin::page_load_counters::PageLoadCounters, client::Client, failure::Failure, gateway::Gateway,
    observed_requests::ObservedRequests, origin_reports::OriginReports,
};
use longhaul_images::{HopReservations, ImageRecipient};
use parking_lot::{Mutex, MutexGuard};

use http::HeaderMap;
use longhaul_cache::{Cache, Partition};
use longhaul_codec::{EffortPolicy, MIX_SESSION_MEMORY, MemoryShare};
use longhaul_delivery::{DeltaBases, DeltaCandidates, DeltaKey, Mirror};
use longhaul_driver::Session;
use longhaul_http::{acceleration::Accelerated, site::names_above};
use longhaul_page::{Destination, Viewport};
use longhaul_session::{AcceleratedHosts, FAILURE_RECORDS, ImageLevel, Mixing, Preferences, SiteImages};
use longhaul_types::{BitRate, ContentHash, LinkProfile, PublicKey, Technique};
use longhaul_webcache::{CacheRequest, GatewayResponse};
use url::Url;

/// Maximum number of names in `AcceleratedHosts` that are searched for each object; agents list 256. With more, no host
/// counts as accelerated: their objects are not pushed.
const MAX_HOSTS: usize = 4_096;

/// Maximum number of names in `SiteImages`; agents list 256. With more, the level of `Preferences` applies everywhere.
const MAX_SITE_LEVELS: usize = 1_024;

/// A session as the page bundles use it.
pub struct PageLoadContext {
    /// State of all sessions.
    pub gateway: Arc<Gateway>,
    /// The session.
    pub session: Session,
    /// Its device.
    pub device: PublicKey,
    /// Secret for window checks; see docs/protocol/session.md section 6.
    pub window_key: [u8; 32],
    /// The bodies that the agent holds.
    pub mirror: Mirror,
    /// Bases for coding, from the agent's bodies.
    pub bases: DeltaBases,
    /// Reports of what origins sent.
    pub origin_reports: Arc<OriginReports>,
    profile: Option<LinkProfile>,
    /// No other lock is taken while one of these two is held.
    observed: Mutex<ObservedRequests>,
    settings: Mutex<AgentSettings>,
    mixing: MemoryShare,
    pictures: HopReservations,
}

/// The agent's settings, from its messages.
#[derive(Default)]
struct AgentSettings {
    /// Session version that both ends agreed upon; 0 before `Hello`.
    version: u16,
    preferences: Preferences,
    /// Image levels of the pages of some names.
    site_images: BTreeMap<String, ImageLevel>,
    /// Number of the agent's dictionary set; 0 for none.
    dictionaries: u32,
    /// Hosts whose HTTPS the agent accelerates.
    accelerated: Accelerated,
}

impl PageLoadContext {
    /// The state of a new session.
    pub fn new(
        gateway: Arc<Gateway>,
        session: Session,
        device: PublicKey,
        profile: Option<LinkProfile>,
        window_key: [u8; 32],
    ) -> Self {
        let cache = gateway.store.cache().cloned();
        let mirror = Mirror::new(cache.clone(), device);
        let bases = DeltaBases::new(cache, gateway.base_memory.of(device));
        let mixing = gateway.mix_memory.of(device).at_most(MIX_SESSION_MEMORY);
        Self {
            gateway,
            session,
            device,
            window_key,
            mirror,
            bases,
            origin_reports: Arc::default(),
            profile,
            observed: Mutex::default(),
            settings: Mutex::default(),
            mixing,
            pictures: HopReservations::default(),
        }
    }

    /// The gateway's cache, if it is on.
    pub fn cache(&self) -> Option<&Cache> {
        self.gateway.store.cache()
    }

    /// Returns true if this technique is switched off for measurements.
    fn is_without(&self, technique: Technique) -> bool {
        self.gateway.without.contains(technique)
    }

    /// Returns true if the agent holds the body and received it for this partition, so that it need not be sent.
    pub fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool {
        !self.is_without(Technique::Chk) && self.mirror.holds(partition, hash)
    }

    /// The cache of learned plans.
    pub fn learned_plans(&self) -> Option<&Cache> {
        self.cache().filter(|_| !self.is_without(Technique::Learned))
    }

    /// Counters of page loads.
    pub fn counters(&self) -> &PageLoadCounters {
        &self.gateway.bundles
    }

    /// Rate towards the agent: the agent's estimate, else that of the configured link profile. `None` while the link is
    /// unknown: the rate at which the transport starts then is no property of the link.
    pub fn link_rate(&self) -> Option<BitRate> {
        let known = self.session.stats().link_rate.filter(|rate| rate.as_bps() > 0);
        known.or_else(|| self.profile.map(|profile| profile.down))
    }

    /// Memory for context mixing, if the agent accepts it.
    fn mixing(&self) -> Option<MemoryShare> {
        let accepted = self.settings.lock().preferences.mixing == Mixing::Accepted;
        let accepted = accepted && !self.is_without(Technique::Mixing);
        accepted.then(|| self.mixing.clone())
    }

    /// Candidate bases of a body, with the dictionaries and context mixing that the agent accepts.
    pub async fn bases_for(&self, subject: Option<&DeltaKey>, length: Option<u64>) -> DeltaCandidates {
        if self.gateway.rules.load().effort == EffortPolicy::Fixed {
            return DeltaCandidates::default();
        }
        let offers = match subject.filter(|_| !self.is_without(Technique::Delta)) {
            Some(subject) => {
                let link = self.link_rate();
                self.bases.offers(subject, length, link, &self.mirror).await
            }
            None => DeltaCandidates::default(),
        };
        let dictionaries = self.settings.lock().dictionaries;
        let is_without = self.is_without(Technique::Dictionaries);
        DeltaCandidates {
            dictionaries: if is_without { 0 } else { dictionaries },
            mixing: self.mixing(),
            ..offers
        }
    }

    /// Sets the agent's dictionary set.
    pub fn know_dictionaries(&self, set: u32) {
        self.settings.lock().dictionaries = set;
    }

    /// Sets the hosts whose HTTPS the agent accelerates.
    pub fn accelerates(&self, hosts: AcceleratedHosts) {
        self.settings.lock().accelerated = match hosts {
            AcceleratedHosts::Only(names) | AcceleratedHosts::AllBut(names) if names.len() > MAX_HOSTS => {
                Accelerated::Nothing
            }
            AcceleratedHosts::Nothing => Accelerated::Nothing,
            AcceleratedHosts::Only(names) => Accelerated::Only(names),
            AcceleratedHosts::AllBut(names) => Accelerated::AllBut(names),
        };
    }

    /// Returns true if the browser's request for a URL arrives through this session and not through a tunnel.
    pub fn takes(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        url.scheme() != "https" || self.settings.lock().accelerated.contains(host)
    }

    /// Sets the session version that both ends agreed upon.
    pub fn agree(&self, version: u16) {
        self.settings.lock().version = version;
    }

    /// Returns true if the agent knows the records of failures.
    pub fn tells_failures(&self) -> bool {
        self.settings.lock().version >= FAILURE_RECORDS
    }

    /// Sets the user's preferences.
    pub fn prefer(&self, preferences: Preferences) {
        self.settings.lock().preferences = preferences;
    }

    /// The size at which the agent's browser displays pages.
    pub fn viewport(&self) -> Viewport {
        let preferences = self.settings.lock().preferences;
        Viewport {
            width: preferences.viewport_width.into(),
            height: preferences.viewport_height.into(),
            ratio_percent: preferences.pixel_ratio_percent.into(),
        }
    }

    /// Sets the image levels of the pages of some names.
    pub fn prefer_for_sites(&self, images: SiteImages) {
        let levels = Some(images.levels).filter(|levels| levels.len() <= MAX_SITE_LEVELS);
        self.settings.lock().site_images = levels.into_iter().flatten().collect();
    }

    /// The user's preferences for a page of this host.
    fn preferences_for(&self, page_host: Option<&str>) -> Preferences {
        let settings = self.settings.lock();
        let is_known = !settings.site_images.is_empty();
        let mut names = page_host.filter(|_| is_known).into_iter().flat_map(names_above);
        let level = names.find_map(|name| settings.site_images.get(name).copied());
        Preferences {
            images: level.unwrap_or(settings.preferences.images),
            ..settings.preferences
        }
    }

    /// Returns true unless the image level of pages of this host is text.
    pub fn shows_pictures(&self, page_host: Option<&str>) -> bool {
        self.preferences_for(page_host).images != ImageLevel::Text
    }

    /// Answers a request without a body from the cache or the origin, with images at the user's level.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub async fn fetch(&self, lookup: CacheRequest) -> Result<GatewayResponse, Failure> {
        let url = lookup.parts.uri.to_string();
        let page_host = lookup.identity.context().page_host(&url);
        let client = Displaying {
            context: self,
            preferences: self.preferences_for(page_host),
            partition: lookup.identity.partition(),
        };
        self.gateway.fetch(&client, lookup).await
    }

    /// Learns the fields of the browser's requests for objects.
    pub fn observe(&self, url: &Url, destination: Destination, request: &HeaderMap) {
        self.observed().templates.observe(url, destination, request);
    }

    /// The browser's requests in this session.
    pub fn observed(&self) -> MutexGuard<'_, ObservedRequests> {
        self.observed.lock()
    }
}

/// The session of a request, with the preferences and the partition of the page that displays it.
struct Displaying<'a> {
    context: &'a PageLoadContext,
    preferences: Preferences,
    partition: Option<Partition>,
}

impl ImageRecipient for Displaying<'_> {
    fn device(&self) -> PublicKey {
        self.context.device
    }

    fn link_rate(&self) -> Option<BitRate> {
        self.context.link_rate()
    }

    fn queued(&self) -> Duration {
        let stats = self.context.session.stats();
        let queued = stats.send_buffered.saturating_sub(stats.outstanding);
        let rate = self.context.link_rate().filter(|rate| rate.as_bps() > 0);
        rate.map_or(Duration::ZERO, |rate| queued / rate)
    }

    fn promised(&self) -> &HopReservations {
        &self.context.pictures
    }

    fn holds(&self, hash: &ContentHash) -> bool {
        self.context.holds(self.partition.as_ref(), hash)
    }
}

impl Client for Displaying<'_> {
    fn preferences(&self) -> Preferences {
        self.preferences
    }
}
