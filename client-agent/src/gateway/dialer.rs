//! The task that keeps the session open: dials at the start and after a loss, and publishes the state.
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_driver::{CloseReason, LinkState};
use longhaul_session::{Message, Preferences};
use longhaul_types::{Invite, LinkProfile, UnixTime};
use tokio::{
    net::lookup_host,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    demand::WaitingRequests,
    gateway_session::{Credentials, GatewaySession, SessionStart},
    page_streams::PageStreams,
    state::{DownReason, GatewayState, SessionSnapshot},
    traffic::TrafficTotals,
};
use crate::{https::Https, state_dir::StateDir, store::Store};

/// Configuration of the gateway session.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Gateway and device.
    pub invite: Invite,
    /// Link profile of the hop, if configured.
    pub link: Option<LinkProfile>,
    /// The user's preferences, with changes.
    pub preferences: watch::Receiver<Preferences>,
    /// State of accelerated HTTPS.
    pub https: Https,
    /// Directory in which the newest token is stored.
    pub state_dir: StateDir,
    /// The cache, of which the gateway keeps a mirror.
    pub store: Store,
    /// Receiver of the streams of page loads.
    pub page_streams: Arc<dyn PageStreams>,
}

/// First pause between attempts; it doubles after each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause while requests wait.
const PAUSE_WANTED: Duration = Duration::from_secs(3);
/// Maximum pause while no request waits: short enough to reconnect soon, long enough to cost little.
const PAUSE_IDLE: Duration = Duration::from_secs(15);
/// Maximum pause after a refusal, which only the operator can resolve.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// Timeout of the lookup of the gateway's name. Resolvers repeat a query after 5 s.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshake timeout for the only or last address: a queue of 10 s in the link is not rare on GPRS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);
/// Handshake timeout while other addresses remain; it doubles with each round.
const HANDSHAKE_TIMEOUT_BEFORE_OTHERS: Duration = Duration::from_secs(4);
/// Minimum duration of a useful session: one that ends sooner counts as a failed attempt.
const MIN_USEFUL_SESSION: Duration = Duration::from_secs(5);
/// Minimum duration of a session that ends with RESET. A RESET means that the gateway restarted, so the next
/// session is useful, unless the gateway restarts all the time.
const MIN_USEFUL_BEFORE_RESET: Duration = Duration::from_secs(1);
/// Maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

pub(super) struct Dialer {
    config: GatewayConfig,
    token: [u8; 32],
    stamp: Option<UnixTime>,
    view: watch::Sender<SessionSnapshot>,
    demand: Arc<WaitingRequests>,
    traffic_totals: Arc<TrafficTotals>,
    /// Rounds since the gateway last answered.
    failures: u32,
}

/// Result of an attempt.
enum AttemptOutcome {
    /// The session was open and has ended.
    Served(CloseReason),
    Failed(DownReason),
}

impl Dialer {
    pub(super) fn new(
        config: GatewayConfig,
        view: watch::Sender<SessionSnapshot>,
        demand: Arc<WaitingRequests>,
        traffic_totals: Arc<TrafficTotals>,
    ) -> Self {
        let token = config.state_dir.token(&config.invite);
        let stamp = config.state_dir.stamp();
        Self {
            config,
            token,
            stamp,
            view,
            demand,
            traffic_totals,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let started = Instant::now();
            match self.try_addresses().await {
                AttemptOutcome::Served(reason) => {
                    info!(?reason, "the session ended; opening another one");
                    // Pauses also grow if sessions end soon after they open.
                    let is_reset = reason == CloseReason::Reset;
                    let brief = if is_reset {
                        MIN_USEFUL_BEFORE_RESET
                    } else {
                        MIN_USEFUL_SESSION
                    };
                    self.failures = if started.elapsed() < brief {
                        self.failures + 1
                    } else {
                        0
                    };
                    self.publish_no_session(GatewayState::Connecting, Some(DownReason::Ended(reason)));
                }
                AttemptOutcome::Failed(reason) => {
                    if self.failures == 0 {
                        warn!("no session with the gateway: {reason}");
                    } else {
                        debug!("no session with the gateway: {reason}");
                    }
                    self.failures = self.failures.saturating_add(1);
                    self.publish_no_session(GatewayState::Down, Some(reason));
                }
            }
            self.pause().await;
        }
    }

    /// Looks up the gateway's name and tries its addresses.
    async fn try_addresses(&mut self) -> AttemptOutcome {
        let addresses = match self.look_up().await {
            Ok(addresses) => addresses,
            Err(reason) => return AttemptOutcome::Failed(reason),
        };
        let mut outcome =
            AttemptOutcome::Failed(DownReason::NameLookup("the name has no address".to_owned()));
        for (at, &address) in addresses.iter().enumerate() {
            let patience = if at + 1 == addresses.len() {
                HANDSHAKE_TIMEOUT
            } else {
                (HANDSHAKE_TIMEOUT_BEFORE_OTHERS * 2u32.saturating_pow(self.failures.min(4)))
                    .min(HANDSHAKE_TIMEOUT)
            };
            outcome = self.run_attempt(address, patience).await;
            match &outcome {
                AttemptOutcome::Served(_) => break,
                AttemptOutcome::Failed(reason) if reason.is_final() => break,
                AttemptOutcome::Failed(_) => {}
            }
        }
        outcome
    }

    async fn look_up(&self) -> Result<Vec<SocketAddr>, DownReason> {
        let address = self.config.invite.address();
        if let Ok(literal) = address.parse() {
            return Ok(vec![literal]);
        }
        match timeout(LOOKUP_TIMEOUT, lookup_host(address)).await {
            Ok(Ok(addresses)) => Ok(addresses.take(MAX_ADDRESSES).collect()),
            Ok(Err(error)) => Err(DownReason::NameLookup(error.to_string())),
            Err(_) => Err(DownReason::NameLookup(
                "no answer from the name servers".to_owned(),
            )),
        }
    }

    /// Runs one session, from the first datagram to its end.
    async fn run_attempt(&mut self, address: SocketAddr, patience: Duration) -> AttemptOutcome {
        let credentials = Credentials {
            token: self.token,
            last_stamp: self.stamp,
        };
        let pages = SessionStart {
            streams: Arc::clone(&self.config.page_streams),
            cache_state: self.config.store.state_id(),
            preferences: *self.config.preferences.borrow_and_update(),
            accelerated: self.config.https.accelerated_hosts(),
        };
        let dialled =
            GatewaySession::dial(&self.config.invite, address, credentials, self.config.link, pages);
        self.store_stamp().await;
        let session = match dialled {
            Ok(session) => session,
            Err(error) => return AttemptOutcome::Failed(DownReason::Local(error.to_string())),
        };
        self.view
            .send_modify(|view| view.session = Some(Arc::clone(&session)));
        let mut state = session.transport().state();
        let opened = timeout(patience, state.wait_for(|state| *state != LinkState::Connecting)).await;
        let outcome = match opened.map(|state| state.map(|state| state.clone())) {
            Err(_) => {
                session.close("no answer");
                AttemptOutcome::Failed(DownReason::NoAnswer)
            }
            Ok(Ok(LinkState::Closed(reason))) => AttemptOutcome::Failed(down_reason(reason)),
            Ok(Ok(LinkState::Connecting | LinkState::Open | LinkState::Stalled)) => {
                self.run_session(&session).await
            }
            Ok(Err(_)) => AttemptOutcome::Failed(DownReason::NoAnswer),
        };
        self.traffic_totals.add_closed(&session);
        outcome
    }

    /// Serves an open session until its end.
    async fn run_session(&mut self, session: &Arc<GatewaySession>) -> AttemptOutcome {
        self.traffic_totals.count_opened();
        let mut state = session.transport().state();
        let mut tokens = session.transport().tokens();
        let mut welcome = session.watch_welcome();
        // The values with which the session began count as seen.
        let mut preferences = self.config.preferences.clone();
        let mut accelerated = self.config.https.changes();
        let token = *tokens.borrow_and_update();
        self.store_token(token).await;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Closed(reason) => {
                    let down = down_reason(reason.clone());
                    return if down.is_final() {
                        AttemptOutcome::Failed(down)
                    } else {
                        AttemptOutcome::Served(reason)
                    };
                }
                LinkState::Open => self.publish_open(session),
                LinkState::Stalled => self.publish_stalled(),
                LinkState::Connecting => {}
            }
            tokio::select! {
                changed = state.changed() => if changed.is_err() {
                    return AttemptOutcome::Served(CloseReason::Reset);
                },
                Ok(()) = preferences.changed() => {
                    let now = *preferences.borrow_and_update();
                    session.send_control(Message::Preferences(now));
                }
                Ok(()) = accelerated.changed() => {
                    session.send_control(Message::AcceleratedHosts(self.config.https.accelerated_hosts()));
                }
                Ok(()) = tokens.changed() => {
                    let token = *tokens.borrow_and_update();
                    self.store_token(token).await;
                }
                Ok(()) = welcome.changed() => {
                    let version = welcome.borrow_and_update().as_ref().map(|welcome| welcome.version);
                    if version == Some(0) {
                        session.close("no common version");
                        return AttemptOutcome::Failed(DownReason::Version);
                    }
                }
            }
        }
    }

    async fn store_token(&mut self, token: Option<[u8; 32]>) {
        let Some(token) = token else {
            return;
        };
        self.token = token;
        let (state_dir, invite) = (self.config.state_dir.clone(), self.config.invite.clone());
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_token(&invite, &token)).await;
        if let Ok(Err(error)) = kept {
            // Without the stored token the next start takes one more round trip, nothing else.
            warn!("{error}");
        }
    }

    /// Stores the time of a dial, so that later dials have greater stamps even if the wall clock is set back.
    async fn store_stamp(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stamp = self
            .stamp
            .map_or_else(|| UnixTime::new(now), |last| last.max(UnixTime::new(now)));
        self.stamp = Some(stamp + Duration::from_millis(1));
        let state_dir = self.config.state_dir.clone();
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_stamp(stamp)).await;
        if let Ok(Err(error)) = kept {
            warn!("{error}");
        }
    }

    fn publish_open(&self, session: &Arc<GatewaySession>) {
        let was = self.view.borrow().state;
        if was != GatewayState::Open {
            info!("the session with the gateway is open");
        }
        self.view.send_replace(SessionSnapshot {
            state: GatewayState::Open,
            session: Some(Arc::clone(session)),
            silent_since: None,
            why: None,
            has_answered: true,
        });
    }

    fn publish_stalled(&self) {
        info!("the gateway is silent; requests wait until it answers again");
        self.view.send_modify(|view| {
            view.state = GatewayState::Stalled;
            view.silent_since.get_or_insert_with(Instant::now);
        });
    }

    /// Publishes that there is no session.
    fn publish_no_session(&self, state: GatewayState, why: Option<DownReason>) {
        self.view.send_modify(|view| {
            view.state = state;
            view.session = None;
            view.silent_since.get_or_insert_with(Instant::now);
            view.why = why;
        });
    }

    /// Waits before the next attempt; the pause is shorter if requests wait or arrive.
    async fn pause(&self) {
        let grown = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(10));
        let refused = self.view.borrow().why.as_ref().is_some_and(DownReason::is_final);
        let short = grown.min(PAUSE_WANTED);
        let long = grown.min(if refused { PAUSE_REFUSED } else { PAUSE_IDLE });
        let arrived = self.demand.arrived.notified();
        let started = Instant::now();
        sleep(short).await;
        if self.demand.waiting.load(Relaxed) > 0 && !refused {
            return;
        }
        tokio::select! {
            () = sleep(long.saturating_sub(started.elapsed())) => {}
            () = arrived => {}
        }
    }
}

/// Converts the end of a session: some reasons are refusals that only the operator can resolve.
fn down_reason(reason: CloseReason) -> DownReason {
    /// docs/protocol/transport.md section 7.4.
    const DEVICE_REVOKED: u64 = 4;
    match reason {
        CloseReason::Refused(_)
        | CloseReason::PeerClosed {
            error: DEVICE_REVOKED,
            ..
        } => DownReason::Refused(reason),
        CloseReason::VersionMismatch(_) => DownReason::Version,
        CloseReason::TimedOut => DownReason::NoAnswer,
        CloseReason::Reset
        | CloseReason::PeerClosed { .. }
        | CloseReason::Local { .. }
        | CloseReason::PeerViolation { .. }
        | CloseReason::Replaced => DownReason::Ended(reason),
    }
}
