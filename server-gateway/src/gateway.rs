//! State shared by all sessions.
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use longhaul_codec::EffortPolicy;
use longhaul_delivery::{EncodedCache, SessionEncoding};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginClient;
use longhaul_types::PublicKey;
use longhaul_webcache::{CpuPool, WebCache};
use tokio::sync::Semaphore;

use crate::{admin::metrics::Metrics, config::PortSet, images::Images, pageload::counters::PageLoadCounters};

/// State shared by all sessions.
pub(crate) struct Gateway {
    pub(crate) origin: OriginClient,
    pub(crate) store: WebCache,
    pub(crate) metrics: Metrics,
    pub(crate) bundles: PageLoadCounters,
    pub(crate) tunnel_ports: PortSet,
    pub(crate) tunnel_idle: Duration,
    /// TCP addresses of the gateway itself, which tunnels must not reach.
    pub(crate) own_ports: Vec<SocketAddr>,
    pub(crate) streams_per_session: usize,
    pub(crate) streams_per_device: usize,
    /// Maximum wait for a slot within these stream limits.
    pub(crate) queue_timeout: Duration,
    /// Policy for the effort of compression.
    pub(crate) effort: EffortPolicy,
    pub(crate) cpu_pool: Arc<CpuPool>,
    pub(crate) encoded_cache: Arc<EncodedCache>,
    /// Secret for the keys of requests' credentials.
    pub(crate) credentials: CredentialsSecret,
    pub(crate) images: Images,
    /// Memory for delta bases in use, in KiB.
    pub(crate) base_memory: Arc<Semaphore>,
    /// Stream slots of each device; an entry exists while the device has a session.
    pub(crate) devices: Mutex<BTreeMap<PublicKey, Arc<Semaphore>>>,
}

impl Gateway {
    /// Encoding of the bodies of one session.
    pub(crate) fn encoding(&self, device: PublicKey, window_key: [u8; 32]) -> SessionEncoding {
        SessionEncoding {
            window_key,
            device,
            effort: self.effort,
            cpu_pool: Arc::clone(&self.cpu_pool),
            encoded_cache: Arc::clone(&self.encoded_cache),
        }
    }

    /// Stream slots of a device.
    pub(crate) fn device_streams(&self, device: PublicKey) -> Arc<Semaphore> {
        // No code can panic while the guarded data is inconsistent.
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|_, streams| Arc::strong_count(streams) > 1);
        let streams = devices
            .entry(device)
            .or_insert_with(|| Arc::new(Semaphore::new(self.streams_per_device)));
        Arc::clone(streams)
    }
}
