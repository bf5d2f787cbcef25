//! One session with the gateway: fetches and tunnels.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use bytes::Bytes;
use longhaul_codec::dictionary;
use longhaul_driver::{
    CarrierPlan, CloseReason, ConnectionStats, DialConfig, DialError, EarlyData, End, FirstStream,
    GatewayAddresses, LinkState, NetworkChange, OpenOptions, Priority, SendStream, Session, TransportConfig,
    dial_over,
};
use longhaul_protocol::connection::RateProbing;
use longhaul_session::{
    AcceleratedHosts, Announcement, CacheStateId, Dictionaries, ForgetId, Hello, LinkHint, Message,
    MirrorState, Preferences, Resume, SiteImages, TunnelOpen, TunnelSecurity, VersionRange, Welcome, encode,
};
use longhaul_types::{Invite, LinkProfile, Technique, Techniques, UnixTime};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    exchange::Exchange,
    incoming_streams,
    link_tracker::Start,
    page_streams::PageStreams,
    request_table::{BasePolicy, EncodeFetchError, FetchDraft, SharedRequests},
    traffic::Traffic,
};
use crate::session_serial::SessionSerial;

/// Maximum number of messages that wait for the control stream. Dropping further messages costs time or work,
/// never correctness: requests that depend on a dropped message time out and are sent as ordinary fetches.
const MAX_CONTROL_MESSAGES: usize = 1024;

/// One session. When it ends, its holders keep it and get errors from their exchanges.
#[derive(Debug)]
pub struct GatewaySession {
    serial: SessionSerial,
    transport: Session,
    requests: Arc<SharedRequests>,
    control_sender: mpsc::Sender<Message>,
    welcome: watch::Receiver<Option<Welcome>>,
    key_wanted: watch::Receiver<bool>,
    notice: watch::Receiver<Option<String>>,
    announcement: watch::Receiver<Option<Announcement>>,
    settled: AtomicBool,
    /// Requests may travel in early data.
    allows_early: bool,
}

/// Credentials of a device besides its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credentials {
    pub(super) token: [u8; 32],
    pub(super) last_stamp: Option<UnixTime>,
}

/// Data for page loads that a session needs.
#[derive(Debug)]
pub(super) struct SessionStart {
    /// Receiver of their streams.
    pub(super) streams: Arc<dyn PageStreams>,
    /// Cache state (docs/protocol/session.md section 7.2); `None` without a cache.
    pub(super) cache_state: Option<CacheStateId>,
    pub(super) preferences: Preferences,
    pub(super) accelerated: AcceleratedHosts,
    pub(super) site_images: SiteImages,
    /// How an unknown link is measured.
    pub(super) probing: RateProbing,
    /// The link profile is remembered, and the link may have changed since.
    pub(super) verify_profile: bool,
    /// Techniques that are switched off for measurements.
    pub(super) without: Techniques,
}

/// Time at which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendPhase {
    /// In early data, before the handshake is complete.
    EarlyData,
    /// In the open session.
    Open,
}

/// Errors of sending a fetch or tunnel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The session is over; nothing was sent.
    #[error("session lost: {0}")]
    Lost(CloseReason),
    /// The request's fields exceed the limits of the session.
    #[error("the request's header section is too large")]
    HeaderTooLarge,
    /// Too many requests wait already.
    #[error("too many requests wait for the session")]
    Busy,
}

impl GatewaySession {
    /// Waits until the gateway confirms the `Forget` with this number; returns false if the session ends
    /// first.
    pub async fn wait_for_forgotten(&self, id: ForgetId) -> bool {
        let mut forgotten = self.requests.forgotten();
        tokio::select! {
            done = forgotten.wait_for(|done| *done == Some(id)) => done.is_ok(),
            _ = self.closed() => false,
        }
    }

    /// Opens a session with the gateway at one of the addresses of `way`. Returns at once;
    /// [`GatewaySession::link_state`] shows the progress.
    ///
    /// # Errors
    /// This machine cannot send.
    pub(super) fn dial(
        invite: &Invite,
        way: Start,
        carriers: CarrierPlan,
        credentials: Credentials,
        start: SessionStart,
    ) -> Result<Arc<Self>, DialError> {
        let serial = SessionSerial::next();
        let allows_early = !start.without.contains(Technique::Early);
        let config = DialConfig {
            gateway_key: invite.gateway(),
            remote: way.address,
            secret: invite.device().clone(),
            token: Some(credentials.token),
            profile: way.profile,
            last_stamp: credentials.last_stamp,
            transport: TransportConfig {
                rate_probing: start.probing,
                verify_profile: start.verify_profile,
                ..TransportConfig::default()
            }
            .without(start.without),
        };
        let hello = FirstStream {
            options: options(
                Priority::CONTROL,
                if allows_early {
                    SendPhase::EarlyData
                } else {
                    SendPhase::Open
                },
            ),
            bytes: hello(way.profile, &start),
            end: End::Open,
        };
        let (transport, mut streams) = dial_over(config, &way.alternatives, vec![hello], carriers)?;
        let requests = Arc::new(SharedRequests::new(start.without));
        let (control_sender, control_messages) = mpsc::channel(MAX_CONTROL_MESSAGES);
        let (welcome_sender, welcome) = watch::channel(None);
        let (key_sender, key_wanted) = watch::channel(false);
        let (notice_sender, notice) = watch::channel(None);
        let (announcement_sender, announcement) = watch::channel(None);
        let incoming = incoming_streams::IncomingStreams {
            serial,
            requests: Arc::clone(&requests),
            welcome: welcome_sender,
            key_wanted: key_sender,
            notice: notice_sender,
            announcement: announcement_sender,
            pages: start.streams,
        };
        tokio::spawn(incoming_streams::read_streams(transport.clone(), incoming));
        tokio::spawn(incoming_streams::write_control(streams.pop(), control_messages));
        Ok(Arc::new(Self {
            serial,
            transport,
            requests,
            control_sender,
            welcome,
            key_wanted,
            notice,
            announcement,
            settled: AtomicBool::new(false),
            allows_early,
        }))
    }

    /// Assigns a number to the fetch and encodes it. [`GatewaySession::open_stream`] sends it.
    ///
    /// # Errors
    /// The session is over, or the fields are too large.
    pub fn encode_fetch(
        self: &Arc<Self>,
        upstream: &FetchDraft,
        resume: Option<Resume>,
        policy: BasePolicy,
    ) -> Result<(Exchange, Vec<u8>), SendError> {
        let (answer_sender, answer) = oneshot::channel();
        let mut table = self.requests.table();
        table.check_open().map_err(SendError::Lost)?;
        let (id, wire) = table
            .encode_fetch(upstream, resume, policy, answer_sender)
            .map_err(|error| match error {
                EncodeFetchError::Headers(_) | EncodeFetchError::Envelope(_) => SendError::HeaderTooLarge,
            })?;
        drop(table);
        Ok((
            Exchange {
                session: Arc::clone(self),
                id,
                answer,
                settled: false,
                _expectation: self.transport.expect_data(),
            },
            wire,
        ))
    }

    /// Assigns a number to a tunnel and encodes its `TunnelOpen`.
    ///
    /// # Errors
    /// The session is over, or the host is too long.
    pub fn encode_tunnel(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        security: TunnelSecurity,
    ) -> Result<(Exchange, Vec<u8>), SendError> {
        let (answer_sender, answer) = oneshot::channel();
        let id = self
            .requests
            .table()
            .register(answer_sender)
            .map_err(SendError::Lost)?;
        let exchange = Exchange {
            session: Arc::clone(self),
            id,
            answer,
            settled: false,
            _expectation: self.transport.expect_data(),
        };
        let mut wire = Vec::with_capacity(300);
        encode(
            &Message::TunnelOpen(TunnelOpen {
                id,
                host: host.to_owned(),
                port,
                security,
            }),
            &mut wire,
        )
        .map_err(|_| SendError::HeaderTooLarge)?;
        Ok((exchange, wire))
    }

    /// Opens a stream with its first bytes.
    ///
    /// # Errors
    /// The session is over; nothing was sent.
    pub async fn open_stream(
        &self,
        class: Priority,
        send_phase: SendPhase,
        first: Bytes,
        end: End,
    ) -> Result<SendStream, SendError> {
        self.transport
            .open(options(class, send_phase), first, end)
            .await
            .map_err(|error| match error {
                longhaul_driver::SessionError::Lost(reason) => SendError::Lost(reason),
                longhaul_driver::SessionError::Busy | _ => SendError::Busy,
            })
    }

    /// Returns true if requests may travel in early data.
    pub(super) const fn allows_early(&self) -> bool {
        self.allows_early
    }

    /// Number of the session in this process.
    pub const fn serial(&self) -> SessionSerial {
        self.serial
    }

    /// Sends a message on the control stream. The message is dropped if the session is over or too many
    /// messages wait.
    pub fn send_control(&self, message: Message) {
        let _dropped = self.control_sender.try_send(message);
    }

    /// State of the gateway's mirror; `None` before `Welcome`.
    pub fn mirror(&self) -> Option<MirrorState> {
        self.welcome.borrow().as_ref().map(|welcome| welcome.mirror)
    }

    /// Window key of this session, once the handshake is complete.
    pub fn window_key(&self) -> Option<[u8; 32]> {
        self.transport
            .exporter()
            .map(|secret| longhaul_session::window_key(&secret))
    }

    /// The state of the link.
    pub fn link_state(&self) -> LinkState {
        self.transport.state().borrow().clone()
    }

    /// Returns a receiver for changes of the link state.
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.transport.state()
    }

    /// The transport's counters and estimates.
    pub fn stats(&self) -> ConnectionStats {
        self.transport.stats()
    }

    /// The gateway's `Welcome`, if received.
    pub fn welcome(&self) -> Option<Welcome> {
        self.welcome.borrow().clone()
    }

    /// The gateway's newest `Notice` for the user, if there is one.
    pub fn notice(&self) -> Option<String> {
        self.notice.borrow().clone()
    }

    /// The requests that wait for their answers.
    pub(super) fn requests(&self) -> &SharedRequests {
        &self.requests
    }

    /// What the gateway announces of itself, once it has.
    pub(super) fn watch_announcement(&self) -> watch::Receiver<Option<Announcement>> {
        self.announcement.clone()
    }

    pub(super) const fn transport(&self) -> &Session {
        &self.transport
    }

    pub(super) fn watch_welcome(&self) -> watch::Receiver<Option<Welcome>> {
        self.welcome.clone()
    }

    /// Becomes true if the gateway wants the key of the one-time invite replaced.
    pub(super) fn watch_key_wanted(&self) -> watch::Receiver<bool> {
        self.key_wanted.clone()
    }

    /// How often UDP has carried less than another carrier: returns to UDP that were undone, and trials after which the
    /// session stayed on the other carrier.
    pub(super) fn worse_returns(&self) -> u64 {
        self.transport.worse_returns()
    }

    /// True while the session uses another carrier only to find out whether it carries more than UDP.
    pub(super) fn is_trying_link(&self) -> bool {
        self.transport.is_trying_link()
    }

    /// Permits such trials, or begins no more of them.
    pub(super) fn permit_trials(&self, is_permitted: bool) {
        self.transport.permit_trials(is_permitted);
    }

    /// Replaces the gateway's addresses for the session.
    pub(super) fn use_addresses(&self, addresses: GatewayAddresses) {
        self.transport.use_addresses(addresses);
    }

    /// Reports that this computer's attachment to the network has changed.
    pub(super) fn network_changed(&self, change: NetworkChange) {
        self.transport.network_changed(change);
    }

    pub(super) fn close(&self, reason: &str) {
        self.transport.close(0, reason);
    }

    pub(super) async fn closed(&self) -> CloseReason {
        self.transport.closed().await
    }

    /// True if the gateway reports what origins sent.
    pub fn reports_origins(&self) -> bool {
        self.requests.has_origin_reports()
    }

    /// Bytes of this session.
    pub(super) fn traffic(&self) -> Traffic {
        let stats = self.stats();
        Traffic {
            down: stats.bytes_received,
            up: stats.bytes_sent,
            sessions: 0,
            reported_down: if self.reports_origins() {
                stats.bytes_received
            } else {
                0
            },
        }
    }

    pub(super) fn mark_counted(&self) {
        self.settled.store(true, Relaxed);
    }

    pub(super) fn is_counted(&self) -> bool {
        self.settled.load(Relaxed)
    }
}

const fn options(class: Priority, send_phase: SendPhase) -> OpenOptions {
    let early = match send_phase {
        SendPhase::EarlyData => EarlyData::Allowed,
        SendPhase::Open => EarlyData::Forbidden,
    };
    OpenOptions {
        class,
        early,
        total: None,
    }
}

fn hello(link: Option<LinkProfile>, start: &SessionStart) -> Bytes {
    let hello = Hello {
        versions: VersionRange::OURS,
        software: concat!("longhaul-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
        link: link.map(|link| LinkHint {
            down_bps: link.down.as_bps(),
            up_bps: link.up.as_bps(),
            rtt_ms: u32::try_from(link.rtt.as_millis()).unwrap_or(u32::MAX),
        }),
        cache_state: start.cache_state,
        preferences: start.preferences,
    };
    let mut wire = Vec::with_capacity(64);
    // Messages of this size cannot exceed the envelope's limit.
    let dictionaries = Dictionaries {
        set: if start.without.contains(Technique::Dictionaries) {
            0
        } else {
            dictionary::NEWEST_SET
        },
    };
    let mut messages = vec![Message::Hello(hello), Message::Dictionaries(dictionaries)];
    // If the message is absent, no host is accelerated.
    if start.accelerated != AcceleratedHosts::Nothing {
        messages.push(Message::AcceleratedHosts(start.accelerated.clone()));
    }
    if start.site_images != SiteImages::default() {
        messages.push(Message::SiteImages(start.site_images.clone()));
    }
    for message in messages {
        let encoded = encode(&message, &mut wire);
        debug_assert!(encoded.is_ok());
    }
    Bytes::from(wire)
}
