//! One session of a device: starts a task for each stream, bounded in number.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use longhaul_codec::Effort;
use longhaul_delivery::{EncodedCache, SessionEncoding};
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, RecvStream, Session};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_origin::OriginClient;
use longhaul_session::{FailureReason, HeaderSets, Message};
use longhaul_types::{DeviceId, LinkProfile, PublicKey};
use longhaul_webcache::{CpuPool, WebCache};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinSet,
    time::timeout,
};
use tracing::{Instrument as _, debug, info, info_span, warn};

use crate::{
    bundle::{BundleContext, BundleCounters, Bundles},
    config::PortSet,
    control,
    fetch::{self, Failure, PageLoads},
    images::Images,
    incoming::{Incoming, IncomingError},
    logins::Logins,
    metrics::Metrics,
    tunnel,
};

/// Number of the agent's control stream.
const AGENT_CONTROL: u64 = 0;
/// Maximum number of cancellations that arrived before their fetch; a session has no more streams than this
/// by default.
const MAX_OVERTAKING: usize = 256;

/// State shared by all sessions.
pub(crate) struct Gateway {
    pub(crate) origin: OriginClient,
    pub(crate) store: WebCache,
    pub(crate) metrics: Metrics,
    pub(crate) bundles: BundleCounters,
    pub(crate) tunnel_ports: PortSet,
    pub(crate) tunnel_idle: Duration,
    /// TCP addresses of the gateway itself, which tunnels must not reach.
    pub(crate) own_ports: Vec<SocketAddr>,
    pub(crate) streams_per_session: usize,
    pub(crate) streams_per_device: usize,
    /// Maximum wait for a slot within these stream limits.
    pub(crate) queue_timeout: Duration,
    /// Policy for the effort of compression.
    pub(crate) effort: Effort,
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

    fn device_streams(&self, device: PublicKey) -> Arc<Semaphore> {
        let mut devices = lock(&self.devices);
        devices.retain(|_, streams| Arc::strong_count(streams) > 1);
        let streams = devices
            .entry(device)
            .or_insert_with(|| Arc::new(Semaphore::new(self.streams_per_device)));
        Arc::clone(streams)
    }
}

/// State shared by the tasks of one session.
pub(crate) struct SessionContext {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Session,
    pub(crate) device: PublicKey,
    pub(crate) profile: Option<LinkProfile>,
    /// Secret for window checks; see docs/protocol/session.md section 6.
    pub(crate) window_key: [u8; 32],
    request_sets: Mutex<HeaderSets>,
    response_sets: Mutex<HeaderSets>,
    cancels: Mutex<Cancels>,
    pub(crate) logins: Logins,
    /// The session's page loads, as the interface for fetches.
    pub(crate) loads: Arc<dyn PageLoads>,
    /// The session's page loads, as the interface for control messages.
    pub(crate) bundles: Arc<Bundles>,
}

impl SessionContext {
    pub(crate) fn request_sets(&self) -> MutexGuard<'_, HeaderSets> {
        lock(&self.request_sets)
    }

    pub(crate) fn response_sets(&self) -> MutexGuard<'_, HeaderSets> {
        lock(&self.response_sets)
    }

    /// Registers a fetch or tunnel for cancellation; `None` if its number is in use.
    pub(crate) fn register(&self, id: u64) -> Option<Registration<'_>> {
        let cancelled = lock(&self.cancels).register(id)?;
        Some(Registration {
            context: self,
            id,
            cancelled,
        })
    }

    /// Cancels a fetch and its page load, or a tunnel. The fetch or tunnel may not have arrived yet.
    pub(crate) fn cancel(&self, id: u64) {
        self.bundles.cancel(id);
        lock(&self.cancels).cancel(id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code can panic while the guarded data is inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registration of an active fetch or tunnel.
pub(crate) struct Registration<'a> {
    context: &'a SessionContext,
    id: u64,
    cancelled: oneshot::Receiver<()>,
}

impl Registration<'_> {
    /// Waits until the agent cancels the fetch or tunnel.
    pub(crate) async fn cancelled(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        lock(&self.context.cancels).running.remove(&self.id);
    }
}

#[derive(Debug, Default)]
struct Cancels {
    running: BTreeMap<u64, oneshot::Sender<()>>,
    /// Numbers cancelled before their fetch arrived, because streams arrive independently.
    overtaking: BTreeSet<u64>,
}

impl Cancels {
    fn register(&mut self, id: u64) -> Option<oneshot::Receiver<()>> {
        if self.running.contains_key(&id) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if self.overtaking.remove(&id) {
            // The receiver still exists.
            let _sent = sender.send(());
        } else {
            self.running.insert(id, sender);
        }
        Some(receiver)
    }

    fn cancel(&mut self, id: u64) {
        match self.running.remove(&id) {
            Some(sender) => {
                // If the fetch ends at this moment, nothing is lost.
                let _ended = sender.send(());
            }
            // The fetch has ended, or has not arrived yet.
            None => {
                self.overtaking.insert(id);
                if self.overtaking.len() > MAX_OVERTAKING {
                    self.overtaking.pop_first();
                }
            }
        }
    }
}

/// Serves a session until it ends.
pub(crate) async fn serve(gateway: Arc<Gateway>, incoming: longhaul_driver::Incoming) {
    let longhaul_driver::Incoming {
        session,
        device,
        profile,
    } = incoming;
    let span = info_span!("session", device = %DeviceId::of(&device));
    run(gateway, session, device, profile).instrument(span).await;
}

async fn run(gateway: Arc<Gateway>, session: Session, device: PublicKey, profile: Option<LinkProfile>) {
    let Some(exporter) = session.exporter() else {
        // The transport has its keys before it hands over a session; without them no window check could be
        // computed.
        warn!("a session came without its keys");
        return session.close(control::ERROR_INTERNAL, "no keys");
    };
    let device_streams = gateway.device_streams(device);
    let window_key = longhaul_session::window_key(&exporter);
    let bundles = BundleContext::new(Arc::clone(&gateway), session.clone(), device, profile, window_key);
    let bundles = Arc::new(Bundles::new(bundles));
    let context = Arc::new(SessionContext {
        window_key,
        gateway,
        session: session.clone(),
        device,
        profile,
        request_sets: Mutex::new(HeaderSets::new()),
        response_sets: Mutex::new(HeaderSets::new()),
        cancels: Mutex::new(Cancels::default()),
        logins: Logins::default(),
        loads: Arc::clone(&bundles) as Arc<dyn PageLoads>,
        bundles,
    });
    let _open = context.gateway.metrics.session();
    info!("session open");
    // Before any response: the gateway's first stream is its control stream.
    let options = OpenOptions {
        class: Priority::CONTROL,
        early: EarlyData::Allowed,
        total: None,
    };
    let Ok(control) = session.open(options, bytes::Bytes::new(), End::Open).await else {
        return;
    };
    let mut control = Some(control);
    let mut tasks = JoinSet::new();
    let places = StreamPlaces {
        session: Arc::new(Semaphore::new(context.gateway.streams_per_session)),
        device: device_streams,
    };
    // As many streams again may wait for a slot, so that they receive a timely refusal; plus the control
    // stream.
    let limit = 2 * context.gateway.streams_per_session + 1;
    loop {
        tokio::select! {
            stream = session.accept(), if tasks.len() < limit => match stream {
                Ok(stream) if stream.id().0 == AGENT_CONTROL => {
                    if let Some(answer) = control.take() {
                        let task = control::serve(Arc::clone(&context), Incoming::new(stream), answer);
                        tasks.spawn(task.in_current_span());
                    }
                }
                Ok(stream) => {
                    let task = serve_stream(Arc::clone(&context), stream, places.clone());
                    tasks.spawn(task.in_current_span());
                }
                Err(_) => break,
            },
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && error.is_panic() {
                    warn!("a request's task ended in a panic");
                }
            }
            _ = session.closed() => break,
        }
    }
    let reason = session.closed().await;
    context.bundles.clear();
    info!(%reason, "session closed");
}

/// Stream slots of a session and its device.
#[derive(Clone)]
struct StreamPlaces {
    session: Arc<Semaphore>,
    device: Arc<Semaphore>,
}

impl StreamPlaces {
    /// Acquires a slot of both; `None` on timeout.
    async fn acquire(&self, limit: Duration) -> Option<[OwnedSemaphorePermit; 2]> {
        let both = async {
            let session = Arc::clone(&self.session).acquire_owned().await.ok()?;
            let device = Arc::clone(&self.device).acquire_owned().await.ok()?;
            Some([session, device])
        };
        timeout(limit, both).await.ok().flatten()
    }
}

/// Fails a request because the device's own requests occupy all its slots.
async fn refuse(context: &SessionContext, message: &Message) {
    let detail = "this device has as many requests under way as one device may; none of them ended in time";
    let failure = Failure::new(FailureReason::Overloaded, detail);
    if let Message::Fetch(refused) = message {
        fetch::refuse(context, refused, failure).await;
    } else if let Message::TunnelOpen(refused) = message {
        tunnel::fail(context, refused.id, failure).await;
    }
}

async fn serve_stream(context: Arc<SessionContext>, stream: RecvStream, places: StreamPlaces) {
    let mut incoming = Incoming::new(stream);
    let message = match incoming.message().await {
        Ok(Some(message)) => message,
        Ok(None) | Err(IncomingError::Broken(_)) => return,
        Err(IncomingError::Malformed(error)) => {
            debug!(%error, "a stream begins with no message");
            return incoming.refuse();
        }
    };
    let Some(_places) = places.acquire(context.gateway.queue_timeout).await else {
        return refuse(&context, &message).await;
    };
    match message {
        Message::Fetch(fetch) => Box::pin(fetch::serve(context, fetch, incoming)).await,
        Message::TunnelOpen(open) => Box::pin(tunnel::serve(context, open, incoming)).await,
        Message::Hello(_)
        | Message::Welcome(_)
        | Message::Head(_)
        | Message::Body(_)
        | Message::Failed(_)
        | Message::Cancel(_)
        | Message::TunnelAccept(_)
        | Message::TunnelFailed(_)
        | Message::Notice(_)
        | Message::Manifest(_)
        | Message::Push(_)
        | Message::Promised(_)
        | Message::Want(_)
        | Message::Ask(_)
        | Message::Used(_)
        | Message::Evicted(_)
        | Message::Holding(_)
        | Message::Preferences(_)
        | Message::Dictionaries(_)
        | Message::AcceleratedHosts(_)
        | Message::Forget(_)
        | Message::Forgotten(_) => {
            debug!("a stream begins with a message that does not begin one");
            incoming.refuse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellations_reach_what_runs_and_what_comes_late() {
        let mut cancels = Cancels::default();
        let mut running = cancels.register(1).unwrap();
        assert!(cancels.register(1).is_none(), "in use");
        cancels.cancel(1);
        assert_eq!(running.try_recv(), Ok(()));
        cancels.cancel(5);
        assert_eq!(cancels.register(5).unwrap().try_recv(), Ok(()));
        for id in 10..10_000 {
            cancels.cancel(id);
        }
        assert_eq!(cancels.overtaking.len(), MAX_OVERTAKING);
        assert_eq!(cancels.register(9_999).unwrap().try_recv(), Ok(()));
    }
}
