//! One session with the gateway: fetches and tunnels.
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use longhaul_codec::dictionary;
use longhaul_driver::{
    CloseReason, ConnectionStats, DialConfig, DialError, EarlyData, End, Expectation, FirstStream, LinkState,
    OpenOptions, Priority, RecvStream, SendStream, Session, StreamError, TransportConfig, dial,
};
use longhaul_session::{
    AcceleratedHosts, Body, BodyCoding, BodyPlace, Cancel, Dictionaries, FailureReason, HeaderField, Hello,
    LinkHint, Message, MessageReader, MirrorState, Preferences, ReadEvent, Resume, TunnelOpen,
    TunnelSecurity, VersionRange, Welcome, encode,
};
use longhaul_types::{Invite, LinkProfile, UnixTime};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    BasePolicy, FetchDraft, Traffic, inbound,
    request_table::{CodeError, RequestTable},
};
use crate::pageload::Loads;

/// Maximum number of messages that wait for the control stream. Dropping further messages costs time or work,
/// never correctness: requests that depend on a dropped message time out and are sent as ordinary fetches.
const CONTROLS: usize = 1024;

/// One session. When it ends, its holders keep it and get errors from their exchanges.
#[derive(Debug)]
pub struct GatewaySession {
    /// Number of the session in this process.
    serial: u64,
    session: Session,
    shared: Arc<Shared>,
    controls: mpsc::Sender<Message>,
    welcome: watch::Receiver<Option<Welcome>>,
    settled: AtomicBool,
}

/// State that the stream reader and the requests share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    book: Mutex<RequestTable>,
    /// The number of the last `Forget` that the gateway confirmed.
    forgotten: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn book(&self) -> MutexGuard<'_, RequestTable> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the gateway confirmed a `Forget`.
    pub(super) fn forgotten(&self, id: u64) {
        self.forgotten.send_replace(id);
    }
}

/// Credentials of a device besides its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credentials {
    pub(super) token: [u8; 32],
    pub(super) last_stamp: Option<UnixTime>,
}

/// Data for page loads that a session needs.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) loads: Loads,
    /// Cache state (docs/protocol/session.md section 7.2); zero without a cache.
    pub(super) cache_state: u64,
    pub(super) preferences: Preferences,
    pub(super) accelerated: AcceleratedHosts,
}

/// Time at which a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// In early data, before the handshake is complete.
    Early,
    /// In the open session.
    Open,
}

/// Errors of sending a fetch or tunnel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HopError {
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

/// The gateway's answer.
#[derive(Debug)]
pub enum Arrival {
    /// The head of a response.
    Head {
        /// The status code.
        status: u16,
        /// The fields.
        fields: Vec<HeaderField>,
        /// The place of the body.
        body: BodyPlace,
        /// The CHK of the decoded body, if known in advance.
        content_hash: Option<[u8; 32]>,
        /// The rest of the stream.
        stream: ResponseStream,
    },
    /// There is no response, or no tunnel.
    Failed {
        /// The reason.
        reason: FailureReason,
        /// Details.
        detail: String,
    },
    /// The tunnel's host is connected.
    Tunnel(ResponseStream),
    /// An entry of a manifest matches the request.
    Promised {
        /// The page load.
        page: u64,
        /// The number of the entry in its manifest.
        entry: u32,
    },
    /// The gateway's answer is malformed.
    Malformed,
}

/// A stream from the gateway, after its first message.
#[derive(Debug)]
pub struct ResponseStream {
    reader: MessageReader,
    stream: RecvStream,
    _expectation: Expectation,
}

impl ResponseStream {
    pub(super) const fn new(reader: MessageReader, stream: RecvStream, expectation: Expectation) -> Self {
        Self {
            reader,
            stream,
            _expectation: expectation,
        }
    }

    /// Returns the `Body` message. Cancel safe.
    ///
    /// # Errors
    /// The stream ended, or contains another message.
    pub async fn body(&mut self) -> Result<Body, StreamError> {
        loop {
            match self.reader.next() {
                Ok(ReadEvent::Message(Message::Body(body))) => return Ok(body),
                Ok(ReadEvent::Message(_)) | Err(_) => {
                    self.stream.stop(longhaul_driver::ERROR_ABANDONED);
                    return Err(StreamError::Cancelled(longhaul_driver::ERROR_ABANDONED));
                }
                Ok(ReadEvent::Incomplete) => match self.stream.read().await? {
                    Some(bytes) => self.reader.push(&bytes),
                    None => return Err(StreamError::Cancelled(longhaul_driver::ERROR_ABANDONED)),
                },
            }
        }
    }

    /// Returns the next raw bytes after the messages; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// The stream was cancelled, or the session is lost.
    pub async fn read(&mut self) -> Result<Option<Bytes>, StreamError> {
        let held = self.reader.take_rest();
        if held.is_empty() {
            self.stream.read().await
        } else {
            Ok(Some(held))
        }
    }
}

/// A fetch or tunnel that waits for its answer. Dropping it before the answer cancels it.
#[derive(Debug)]
pub struct Exchange {
    hop: Arc<GatewaySession>,
    id: u64,
    arrival: oneshot::Receiver<Arrival>,
    settled: bool,
    _expectation: Expectation,
}

impl Exchange {
    /// Waits for the answer. Cancel safe.
    ///
    /// # Errors
    /// The session was lost first.
    pub async fn arrival(&mut self) -> Result<Arrival, CloseReason> {
        let arrival = (&mut self.arrival).await;
        self.settled = true;
        match arrival {
            Ok(arrival) => Ok(arrival),
            Err(_) => Err(self.hop.shared.book().open().err().unwrap_or(CloseReason::Reset)),
        }
    }

    /// The session.
    pub const fn hop(&self) -> &Arc<GatewaySession> {
        &self.hop
    }

    /// The number of the fetch or tunnel.
    pub const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.settled {
            self.hop.shared.book().take(self.id);
            self.hop.tell(Message::Cancel(Cancel { fetch: self.id }));
        }
    }
}

impl GatewaySession {
    /// Waits until the gateway confirms the `Forget` with this number; returns false if the session ends
    /// first.
    pub async fn forgotten(&self, id: u64) -> bool {
        let mut forgotten = self.shared.forgotten.subscribe();
        tokio::select! {
            done = forgotten.wait_for(|done| *done == id) => done.is_ok(),
            _ = self.closed() => false,
        }
    }

    /// Opens a session with the gateway at `remote`. Returns at once; [`GatewaySession::link_state`] shows the progress.
    ///
    /// # Errors
    /// This machine cannot send to `remote`.
    pub(super) fn dial(
        invite: &Invite,
        remote: SocketAddr,
        credentials: Credentials,
        link: Option<LinkProfile>,
        pages: Pages,
    ) -> Result<Arc<Self>, DialError> {
        /// The number of the next session of this process.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let serial = NEXT.fetch_add(1, Relaxed);
        let config = DialConfig {
            gateway_key: invite.gateway(),
            remote,
            secret: invite.device().clone(),
            token: Some(credentials.token),
            profile: link,
            last_stamp: credentials.last_stamp,
            transport: TransportConfig::default(),
        };
        let hello = FirstStream {
            options: options(Priority::CONTROL, Timing::Early),
            bytes: hello(link, &pages),
            end: End::Open,
        };
        let (session, mut streams) = dial(config, vec![hello])?;
        let shared = Arc::new(Shared::default());
        let (controls, to_tell) = mpsc::channel(CONTROLS);
        let (welcome_sender, welcome) = watch::channel(None);
        let inbound = inbound::Inbound {
            serial,
            shared: Arc::clone(&shared),
            welcome: welcome_sender,
            loads: pages.loads,
        };
        tokio::spawn(inbound::read_streams(session.clone(), inbound));
        tokio::spawn(inbound::write_control(streams.pop(), to_tell));
        Ok(Arc::new(Self {
            serial,
            session,
            shared,
            controls,
            welcome,
            settled: AtomicBool::new(false),
        }))
    }

    /// Assigns a number to the fetch and encodes it. [`GatewaySession::open`] sends it.
    ///
    /// # Errors
    /// The session is over, or the fields are too large.
    pub fn code(
        self: &Arc<Self>,
        upstream: &FetchDraft,
        resume: Option<Resume>,
        policy: BasePolicy,
    ) -> Result<(Exchange, Vec<u8>), HopError> {
        let (answer, arrival) = oneshot::channel();
        let mut book = self.shared.book();
        book.open().map_err(HopError::Lost)?;
        let (id, wire) = book
            .code(upstream, resume, policy, answer)
            .map_err(|error| match error {
                CodeError::Headers(_) | CodeError::Envelope(_) => HopError::HeaderTooLarge,
            })?;
        drop(book);
        Ok((
            Exchange {
                hop: Arc::clone(self),
                id,
                arrival,
                settled: false,
                _expectation: self.session.expect_data(),
            },
            wire,
        ))
    }

    /// Assigns a number to a tunnel and encodes its `TunnelOpen`.
    ///
    /// # Errors
    /// The session is over, or the host is too long.
    pub fn code_tunnel(
        self: &Arc<Self>,
        host: &str,
        port: u16,
        security: TunnelSecurity,
    ) -> Result<(Exchange, Vec<u8>), HopError> {
        let (answer, arrival) = oneshot::channel();
        let id = self.shared.book().register(answer).map_err(HopError::Lost)?;
        let exchange = Exchange {
            hop: Arc::clone(self),
            id,
            arrival,
            settled: false,
            _expectation: self.session.expect_data(),
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
        .map_err(|_| HopError::HeaderTooLarge)?;
        Ok((exchange, wire))
    }

    /// Opens a stream with its first bytes.
    ///
    /// # Errors
    /// The session is over; nothing was sent.
    pub async fn open(
        &self,
        class: Priority,
        timing: Timing,
        first: Bytes,
        end: End,
    ) -> Result<SendStream, HopError> {
        self.session
            .open(options(class, timing), first, end)
            .await
            .map_err(|error| match error {
                longhaul_driver::SessionError::Lost(reason) => HopError::Lost(reason),
                longhaul_driver::SessionError::Busy | _ => HopError::Busy,
            })
    }

    /// Number of the session in this process.
    pub const fn serial(&self) -> u64 {
        self.serial
    }

    /// Sends a message on the control stream. The message is dropped if the session is over or too many
    /// messages wait.
    pub fn tell(&self, message: Message) {
        let _dropped = self.controls.try_send(message);
    }

    /// State of the gateway's mirror; `None` before `Welcome`.
    pub fn mirror(&self) -> Option<MirrorState> {
        self.welcome.borrow().as_ref().map(|welcome| welcome.mirror)
    }

    /// Window key of this session, once the handshake is complete.
    pub fn window_key(&self) -> Option<[u8; 32]> {
        self.session
            .exporter()
            .map(|secret| longhaul_session::window_key(&secret))
    }

    /// The state of the link.
    pub fn link_state(&self) -> LinkState {
        self.session.state().borrow().clone()
    }

    /// Returns a receiver for changes of the link state.
    pub fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.session.state()
    }

    /// The transport's counters and estimates.
    pub fn stats(&self) -> ConnectionStats {
        self.session.stats()
    }

    /// The gateway's `Welcome`, if received.
    pub fn welcome(&self) -> Option<Welcome> {
        self.welcome.borrow().clone()
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn watch_welcome(&self) -> watch::Receiver<Option<Welcome>> {
        self.welcome.clone()
    }

    pub(super) fn close(&self, reason: &str) {
        self.session.close(0, reason);
    }

    pub(super) async fn closed(&self) -> CloseReason {
        self.session.closed().await
    }

    /// Bytes of this session.
    pub(super) fn traffic(&self) -> Traffic {
        let stats = self.stats();
        Traffic {
            down: stats.bytes_received,
            up: stats.bytes_sent,
            sessions: 0,
        }
    }

    pub(super) fn mark_settled(&self) {
        self.settled.store(true, Relaxed);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Relaxed)
    }
}

const fn options(class: Priority, timing: Timing) -> OpenOptions {
    let early = match timing {
        Timing::Early => EarlyData::Allowed,
        Timing::Open => EarlyData::Forbidden,
    };
    OpenOptions {
        class,
        early,
        total: None,
    }
}

fn hello(link: Option<LinkProfile>, pages: &Pages) -> Bytes {
    let hello = Hello {
        versions: VersionRange::OURS,
        software: concat!("longhaul-agent/", env!("CARGO_PKG_VERSION")).to_owned(),
        link: link.map(|link| LinkHint {
            down_bps: link.down.as_bps(),
            up_bps: link.up.as_bps(),
            rtt_ms: u32::try_from(link.rtt.as_millis()).unwrap_or(u32::MAX),
        }),
        cache_state: pages.cache_state,
        preferences: pages.preferences,
    };
    let mut wire = Vec::with_capacity(64);
    // Messages of this size cannot exceed the envelope's limit.
    let dictionaries = Dictionaries {
        set: dictionary::NEWEST_SET,
    };
    let mut messages = vec![Message::Hello(hello), Message::Dictionaries(dictionaries)];
    // If the message is absent, no host is accelerated.
    if pages.accelerated != AcceleratedHosts::Nothing {
        messages.push(Message::AcceleratedHosts(pages.accelerated.clone()));
    }
    for message in messages {
        let encoded = encode(&message, &mut wire);
        debug_assert!(encoded.is_ok());
    }
    Bytes::from(wire)
}

/// Converts a coding of the session's messages to the codec's type.
pub(crate) const fn coding_of(coding: BodyCoding) -> longhaul_codec::Coding {
    match coding {
        BodyCoding::Identity => longhaul_codec::Coding::Identity,
        BodyCoding::Zstd => longhaul_codec::Coding::Zstd,
        BodyCoding::Brotli => longhaul_codec::Coding::Brotli,
        BodyCoding::Mix => longhaul_codec::Coding::Mix,
    }
}

/// Converts a coding of the codec to the session's type.
pub(crate) const fn body_coding_of(coding: longhaul_codec::Coding) -> BodyCoding {
    match coding {
        longhaul_codec::Coding::Identity => BodyCoding::Identity,
        longhaul_codec::Coding::Zstd => BodyCoding::Zstd,
        longhaul_codec::Coding::Brotli => BodyCoding::Brotli,
        longhaul_codec::Coding::Mix => BodyCoding::Mix,
    }
}
