//! State shared by all sessions.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use longhaul_images::{ImageConversion, Images};
use parking_lot::{Mutex, MutexGuard};

use arc_swap::ArcSwap;
use longhaul_codec::{EffortPolicy, MemoryShares};
use longhaul_delivery::{EncodedCache, SessionEncoding};
use longhaul_driver::{EndpointCounters, QuicDrops};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginClient;
use longhaul_session::Announcement;
use longhaul_types::{PublicKey, Technique, Techniques};
use longhaul_webcache::{CacheRequest, CpuPool, GatewayResponse, WebCache};
use tokio::sync::watch;

use crate::{
    admin::{
        clientless_counters::ClientlessCounters,
        metrics::{LinkBytes, Metrics},
        page_load_counters::PageLoadCounters,
        session_ledger::SessionLedger,
    },
    admission::shared_keys::SharedKeys,
    association_slots::AssociationSlots,
    client::Client,
    config::{Config, PortSet},
    device_streams::DeviceStreams,
    drain::Drain,
    failure::Failure,
    lessons::Lessons,
    page_parsers::ParserPool,
    quota::{Quotas, reached::Reached},
    quota_limits::QuotaDefaults,
};

/// Settings that may change while the gateway runs.
#[derive(Debug)]
pub struct Rules {
    /// Ports that tunnels may reach.
    pub tunnel_ports: PortSet,
    /// Time of silence after which a tunnel ends.
    pub tunnel_idle: Duration,
    /// Ports that UDP associations may reach.
    pub udp_ports: PortSet,
    /// Time of silence after which an association ends.
    pub udp_idle: Duration,
    /// UDP associations of a device.
    pub associations_per_device: usize,
    /// Streams of a session that are served at the same time.
    pub streams_per_session: usize,
    /// Streams of a device that are served at the same time.
    pub streams_per_device: usize,
    /// Maximum wait for a slot within these stream limits.
    pub queue_timeout: Duration,
    /// Policy for the effort of compression.
    pub effort: EffortPolicy,
    /// The setting `public-address`, for invites.
    pub public_address: Option<String>,
    /// Quota of devices without one of their own.
    pub quota: QuotaDefaults,
}

impl Rules {
    /// The rules of these settings.
    pub fn of(config: &Config) -> Self {
        Self {
            tunnel_ports: config.tunnel.ports.clone(),
            tunnel_idle: config.tunnel.idle_timeout,
            udp_ports: config.tunnel.udp_ports.clone(),
            udp_idle: config.tunnel.udp_idle_timeout,
            associations_per_device: config.limits.associations_per_device,
            streams_per_session: config.limits.streams_per_session,
            streams_per_device: config.limits.streams_per_device,
            queue_timeout: config.limits.queue_timeout,
            effort: if config.without.contains(Technique::Coding) {
                EffortPolicy::Off
            } else {
                config.coding.effort
            },
            public_address: config.public_address.clone(),
            quota: config.quota,
        }
    }
}

/// State shared by all sessions.
pub struct Gateway {
    /// The client of origins.
    pub origin: OriginClient,
    /// The HTTP cache.
    pub store: WebCache,
    /// Counters of sessions, fetches and tunnels.
    pub metrics: Metrics,
    /// The open sessions and the activity of devices.
    pub ledger: Arc<SessionLedger>,
    /// Start of the gateway.
    pub started: SystemTime,
    /// Quotas of the devices.
    pub quotas: Arc<Quotas>,
    /// The end of the gateway when nothing is in progress.
    pub drain: Drain,
    /// Counters of handshakes.
    pub handshakes: watch::Receiver<EndpointCounters>,
    /// Counters of page loads.
    pub bundles: PageLoadCounters,
    /// Counters of the proxy for clients without an agent.
    pub clientless: Arc<ClientlessCounters>,
    /// Read anew for each stream; a stream keeps the rules with which it began.
    pub rules: ArcSwap<Rules>,
    /// TCP addresses of the gateway itself, which tunnels must not reach.
    pub own_ports: Vec<SocketAddr>,
    /// UDP addresses of the gateway itself, which associations must not reach.
    pub own_udp_ports: Vec<SocketAddr>,
    /// Threads of coders.
    pub cpu_pool: Arc<CpuPool>,
    /// Threads of the parsers of pages.
    pub parser_pool: Arc<ParserPool>,
    /// What ended page loads teach.
    pub lessons: Lessons,
    /// Encoded bodies.
    pub encoded_cache: Arc<EncodedCache>,
    /// Secret for the keys of requests' credentials.
    pub credentials: CredentialsSecret,
    /// Conversion of images.
    pub images: Images,
    /// Memory for delta bases in use.
    pub base_memory: MemoryShares,
    /// Memory for context mixing.
    pub mix_memory: MemoryShares,
    /// Stream slots of each device; an entry exists while the device has a session.
    pub devices: Mutex<BTreeMap<PublicKey, Arc<DeviceStreams>>>,
    /// The UDP associations of each device.
    pub association_slots: AssociationSlots,
    /// What every session learns of this gateway.
    pub announcement: watch::Sender<Announcement>,
    /// Packets of QUIC that were dropped on the port that it shares with sessions; `None` if it shares none.
    pub quic_drops: Option<QuicDrops>,
    /// Techniques that are switched off for measurements.
    pub without: Techniques,
    /// The newest agent of each device.
    pub shared_keys: SharedKeys,
}

impl Gateway {
    /// Encoding of the bodies of one session.
    pub fn encoding(&self, device: PublicKey, window_key: [u8; 32]) -> SessionEncoding {
        SessionEncoding {
            window_key,
            device,
            effort: self.rules.load().effort,
            cpu_pool: Arc::clone(&self.cpu_pool),
            encoded_cache: Arc::clone(&self.encoded_cache),
        }
    }

    /// Answers a request without a body from the cache or the origin, with images at the client's level.
    ///
    /// # Errors
    /// Returns the failure if there is no response.
    pub async fn fetch(
        &self,
        client: &impl Client,
        lookup: CacheRequest,
    ) -> Result<GatewayResponse, Failure> {
        let (method, browser) = (lookup.parts.method.clone(), lookup.browser.clone());
        let stored = self.store.fetch(lookup).await?;
        let effort = self.rules.load().effort;
        let wish = ImageConversion::of(&client.preferences(), client.link_rate(), effort);
        Ok(self.images.at(&wish, client, &method, &browser, stored).await)
    }

    /// Counts bytes of a client without an agent, if it is in the list of clients; returns its quota if that is used up.
    pub fn count_client(&self, client: &PublicKey, bytes: LinkBytes) -> Option<Reached> {
        if !self.quotas.is_client(client) {
            return None;
        }
        let now = SystemTime::now();
        let in_month = self.ledger.count_client(*client, bytes, now);
        let defaults = self.rules.load().quota;
        self.quotas.compare_client(client, in_month, defaults, now)
    }

    /// Stream slots of a device, or of a client without an agent.
    pub fn device_streams(&self, device: PublicKey) -> Arc<DeviceStreams> {
        let mut devices = self.devices();
        devices.retain(|_, streams| Arc::strong_count(streams) > 1);
        let streams = devices
            .entry(device)
            .or_insert_with(|| DeviceStreams::new(self.rules.load().streams_per_device));
        Arc::clone(streams)
    }

    /// Returns true if a request, tunnel or association of the device is in progress.
    pub fn has_requests(&self, device: &PublicKey) -> bool {
        self.devices()
            .get(device)
            .is_some_and(|streams| streams.is_used())
    }

    /// Replaces the settings that may change while the gateway runs.
    pub fn set_rules(&self, rules: Rules) {
        // The lock is held, so that no device gets the old number of slots afterwards.
        let devices = self.devices();
        let limit = rules.streams_per_device;
        self.rules.store(Arc::new(rules));
        for streams in devices.values() {
            streams.resize(limit);
        }
    }

    fn devices(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Arc<DeviceStreams>>> {
        // No code can panic while the guarded data is inconsistent.
        self.devices.lock()
    }
}
