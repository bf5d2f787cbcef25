//! Longhaul's session: the product's protocol and driver, with the link profile that the agent would have.
mod carriers;
mod client;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;

use longhaul_driver::{
    DeviceStatus, EarlyData, End, EpochKeys, LinkState, ListenConfig, Listener, OpenOptions, Priority,
    RecvStream, Session, StreamError, TransportConfig,
};
use longhaul_types::{ByteCount, LinkProfile, PublicKey, SecretKey, UnixTime};
use tokio::task::JoinSet;

pub(crate) use carriers::UsedCarriers;
pub(crate) use client::LonghaulClient;

use carriers::{CarrierListeners, CarrierPorts};

use crate::{
    error::{ServeError, TransferError},
    exchange::{Body, Length, Order, REQUEST, Request},
};

/// Maximum number of devices that the server admits: an experiment has at most two clients.
const DEVICES: usize = 4;
/// Lifetime of the tokens: longer than any experiment.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Minimum send buffer of a response.
const MIN_SEND_BUFFER: ByteCount = ByteCount::kib(64);
/// Maximum number of stalls recorded per session; an outage causes one or two.
const MAX_STALLS: usize = 1000;

/// Enrolment data of a device.
#[derive(Clone)]
pub(crate) struct Device {
    secret: SecretKey,
    token: [u8; 32],
}

/// Data that clients need to use a server.
#[derive(Clone)]
pub(crate) struct Enrolment {
    gateway: PublicKey,
    devices: Vec<Device>,
    ports: CarrierPorts,
}

/// A server's listener with its carriers.
pub(crate) struct Listeners {
    udp: Listener,
    carriers: CarrierListeners,
}

impl Listeners {
    /// Address of UDP.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.udp.local_addr()
    }
}

/// Times at which a session detected that no packets arrive.
pub(crate) type Stalls = Arc<Mutex<Vec<Instant>>>;

/// Sessions that a server accepted.
#[derive(Clone, Default)]
pub(crate) struct Accepted {
    pub(crate) sessions: Arc<Mutex<Vec<Session>>>,
    pub(crate) stalls: Stalls,
}

fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns the send buffer of a response, which a gateway keeps until acknowledgement: sixteen times the data
/// in flight, so that it never limits. Not more, because the driver updates a sender's counters when half of
/// a full buffer has been acknowledged.
fn send_buffer(profile: LinkProfile) -> ByteCount {
    let under_way = (profile.down * profile.rtt).bytes();
    let most = TransportConfig::gateway().send_buffer.bytes();
    ByteCount::new(under_way.saturating_mul(16).clamp(MIN_SEND_BUFFER.bytes(), most))
}

/// Listens as a gateway does, with devices enrolled for this run.
pub(crate) async fn listen(
    address: SocketAddr,
    profile: Option<LinkProfile>,
) -> Result<(Listeners, Enrolment), ServeError> {
    let mut transport = TransportConfig::gateway();
    if let Some(profile) = profile {
        transport.send_buffer = send_buffer(profile);
    }
    let secret = SecretKey::from_bytes(random()?);
    let epoch = EpochKeys {
        epoch: 1,
        key: random()?,
    };
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let mut devices = Vec::with_capacity(DEVICES);
    for _ in 0..DEVICES {
        let secret = SecretKey::from_bytes(random()?);
        let [a, b, c, d, ..] = random()?;
        let token = epoch.mint(&secret.public(), [a, b, c, d], UnixTime::new(now + TOKEN_LIFE));
        devices.push(Device { secret, token });
    }
    let carriers = CarrierListeners::bind(address, secret.public()).await?;
    let enrolment = Enrolment {
        gateway: secret.public(),
        devices,
        ports: carriers.ports(),
    };
    let admitted: BTreeMap<_, _> = enrolment
        .devices
        .iter()
        .map(|device| (device.secret.public(), DeviceStatus::Admitted))
        .collect();
    let listener = longhaul_driver::listen(ListenConfig {
        listen: address,
        also: Vec::new(),
        secret,
        epoch,
        reset_secret: random()?,
        transport,
        max_sessions: DEVICES * 2,
        devices: admitted,
    })?;
    let listeners = Listeners {
        udp: listener,
        carriers,
    };
    Ok((listeners, enrolment))
}

/// Accepts sessions; never returns. Dropping it ends all sessions.
pub(crate) async fn serve(listeners: Listeners, accepted: Accepted) {
    let Listeners {
        udp: mut listener,
        carriers,
    } = listeners;
    let mut tasks = JoinSet::new();
    tasks.spawn(carriers.run(listener.links()));
    while let Some(incoming) = listener.accept().await {
        let session = incoming.session;
        // Bounded by the listener's limit of sessions; an experiment opens few.
        accepted.sessions.lock().push(session.clone());
        tasks.spawn(note_stalls(session.clone(), accepted.stalls.clone()));
        tasks.spawn(answer_all(session));
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer_all(session: Session) {
    let mut tasks = JoinSet::new();
    while let Ok(request) = session.accept().await {
        let session = session.clone();
        tasks.spawn(async move {
            if let Err(error) = answer(session, request).await {
                tracing::debug!(%error, "response ended");
            }
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer(session: Session, mut stream: RecvStream) -> Result<(), TransferError> {
    let mut request = Vec::with_capacity(REQUEST);
    while let Some(bytes) = stream.read().await? {
        if request.len() + bytes.len() > REQUEST {
            break;
        }
        request.extend_from_slice(&bytes);
    }
    let Some(request) = Request::decode(&request) else {
        return Err(StreamError::Finished.into());
    };
    let mut body = Body::of(request).peekable();
    let first = body.next().unwrap_or_default();
    let end = if body.peek().is_none() {
        End::Finish
    } else {
        End::Open
    };
    let mut response = session.open(options_of(request.order), first, end).await?;
    for piece in body {
        response.write(piece).await?;
    }
    Ok(response.finish().await?)
}

fn options_of(order: Order) -> OpenOptions {
    OpenOptions {
        class: Priority::new(order.class),
        early: EarlyData::Allowed,
        total: match order.length {
            Length::Bytes(bytes) => Some(bytes),
            Length::Endless => None,
        },
    }
}

async fn note_stalls(session: Session, stalls: Stalls) {
    let mut state = session.state();
    // The session must end when its users have dropped it, so this task keeps no handle.
    drop(session);
    while state.changed().await.is_ok() {
        let state = state.borrow_and_update().clone();
        match state {
            LinkState::Stalled => {
                let mut stalls = stalls.lock();
                if stalls.len() < MAX_STALLS {
                    stalls.push(Instant::now());
                }
            }
            LinkState::Closed(_) => return,
            LinkState::Connecting | LinkState::Open => {}
        }
    }
}
