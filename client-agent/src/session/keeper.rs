//! The task that keeps the session: dials at the start, again on loss, and publishes how things stand.
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_driver::{CloseReason, LinkState};
use longhaul_protocol::session::Message;
use longhaul_types::UnixTime;
use tokio::{
    net::lookup_host,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::{
    DemandCount, DownReason, GatewayConfig, GatewayState, Hop, View,
    hop::{Credentials, Pages},
    view::Ledger,
};

/// First pause between attempts; doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause while requests wait.
const PAUSE_WANTED: Duration = Duration::from_secs(3);
/// Longest pause while none does: an agent without gateway costs little, and is back soon.
const PAUSE_IDLE: Duration = Duration::from_secs(15);
/// Longest pause after a refusal, which only the operator can end.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// Longest look-up of the gateway's name. Resolvers ask again after 5 s.
const LOOKUP: Duration = Duration::from_secs(10);
/// Longest handshake with the only address, or the last one: a queue of 10 s in the link is not rare on GPRS.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// Longest handshake while other addresses are left; doubles with each round.
const HANDSHAKE_ONE_OF_MANY: Duration = Duration::from_secs(4);
/// A session that ends sooner than this is of no use.
const BRIEF: Duration = Duration::from_secs(5);
/// The same where the gateway has forgotten it: that is a restart, and the next session is as good as any, unless it restarts all
/// the time.
const BRIEF_RESET: Duration = Duration::from_secs(1);
/// More addresses of one name are not tried.
const MAX_ADDRESSES: usize = 8;

pub(super) struct Keeper {
    config: GatewayConfig,
    token: [u8; 32],
    stamp: Option<UnixTime>,
    view: watch::Sender<View>,
    demand: Arc<DemandCount>,
    ledger: Arc<Ledger>,
    /// Rounds since the gateway last answered.
    failures: u32,
}

/// How an attempt ended.
enum Outcome {
    /// The session was open, and is over.
    Served(CloseReason),
    Failed(DownReason),
}

impl Keeper {
    pub(super) fn new(
        config: GatewayConfig,
        view: watch::Sender<View>,
        demand: Arc<DemandCount>,
        ledger: Arc<Ledger>,
    ) -> Self {
        let token = config.state_dir.token(&config.invite);
        let stamp = config.state_dir.stamp();
        Self {
            config,
            token,
            stamp,
            view,
            demand,
            ledger,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let started = Instant::now();
            match self.round().await {
                Outcome::Served(reason) => {
                    info!(?reason, "the session ended; opening another one");
                    // Sessions that end as soon as they are open are dialled ever less often, too.
                    let is_reset = reason == CloseReason::Reset;
                    let brief = if is_reset { BRIEF_RESET } else { BRIEF };
                    self.failures = if started.elapsed() < brief {
                        self.failures + 1
                    } else {
                        0
                    };
                    self.leave(GatewayState::Connecting, Some(DownReason::Ended(reason)));
                }
                Outcome::Failed(reason) => {
                    if self.failures == 0 {
                        warn!("no session with the gateway: {reason}");
                    } else {
                        debug!("no session with the gateway: {reason}");
                    }
                    self.failures = self.failures.saturating_add(1);
                    self.leave(GatewayState::Down, Some(reason));
                }
            }
            self.pause().await;
        }
    }

    /// Looks the gateway's name up and tries its addresses.
    async fn round(&mut self) -> Outcome {
        let addresses = match self.look_up().await {
            Ok(addresses) => addresses,
            Err(reason) => return Outcome::Failed(reason),
        };
        let mut outcome = Outcome::Failed(DownReason::NameLookup("the name has no address".to_owned()));
        for (at, &address) in addresses.iter().enumerate() {
            let patience = if at + 1 == addresses.len() {
                HANDSHAKE
            } else {
                (HANDSHAKE_ONE_OF_MANY * 2u32.saturating_pow(self.failures.min(4))).min(HANDSHAKE)
            };
            outcome = self.attempt(address, patience).await;
            match &outcome {
                Outcome::Served(_) => break,
                Outcome::Failed(reason) if reason.is_final() => break,
                Outcome::Failed(_) => {}
            }
        }
        outcome
    }

    async fn look_up(&self) -> Result<Vec<SocketAddr>, DownReason> {
        let address = self.config.invite.address();
        if let Ok(literal) = address.parse() {
            return Ok(vec![literal]);
        }
        match timeout(LOOKUP, lookup_host(address)).await {
            Ok(Ok(addresses)) => Ok(addresses.take(MAX_ADDRESSES).collect()),
            Ok(Err(error)) => Err(DownReason::NameLookup(error.to_string())),
            Err(_) => Err(DownReason::NameLookup(
                "no answer from the name servers".to_owned(),
            )),
        }
    }

    /// One session: from the first datagram to its end.
    async fn attempt(&mut self, address: SocketAddr, patience: Duration) -> Outcome {
        let credentials = Credentials {
            token: self.token,
            last_stamp: self.stamp,
        };
        let pages = Pages {
            loads: self.config.loads.clone(),
            cache_state: self.config.store.state_id(),
            preferences: *self.config.preferences.borrow_and_update(),
            accelerated: self.config.https.told(),
        };
        let dialled = Hop::dial(&self.config.invite, address, credentials, self.config.link, pages);
        self.keep_stamp().await;
        let hop = match dialled {
            Ok(hop) => hop,
            Err(error) => return Outcome::Failed(DownReason::Local(error.to_string())),
        };
        self.view.send_modify(|view| view.hop = Some(Arc::clone(&hop)));
        let mut state = hop.session().state();
        let opened = timeout(patience, state.wait_for(|state| *state != LinkState::Connecting)).await;
        let outcome = match opened.map(|state| state.map(|state| state.clone())) {
            Err(_) => {
                hop.close("no answer");
                Outcome::Failed(DownReason::NoAnswer)
            }
            Ok(Ok(LinkState::Closed(reason))) => Outcome::Failed(down_reason(reason)),
            Ok(Ok(LinkState::Connecting | LinkState::Open | LinkState::Stalled)) => self.serve(&hop).await,
            Ok(Err(_)) => Outcome::Failed(DownReason::NoAnswer),
        };
        self.ledger.settle(&hop);
        outcome
    }

    /// Follows an open session to its end.
    async fn serve(&mut self, hop: &Arc<Hop>) -> Outcome {
        self.ledger.opened();
        let mut state = hop.session().state();
        let mut tokens = hop.session().tokens();
        let mut welcome = hop.watch_welcome();
        // Those that the session began with count as seen.
        let mut preferences = self.config.preferences.clone();
        let mut accelerated = self.config.https.changes();
        let token = *tokens.borrow_and_update();
        self.keep_token(token).await;
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Closed(reason) => {
                    let down = down_reason(reason.clone());
                    return if down.is_final() {
                        Outcome::Failed(down)
                    } else {
                        Outcome::Served(reason)
                    };
                }
                LinkState::Open => self.open(hop),
                LinkState::Stalled => self.stalled(),
                LinkState::Connecting => {}
            }
            tokio::select! {
                changed = state.changed() => if changed.is_err() {
                    return Outcome::Served(CloseReason::Reset);
                },
                Ok(()) = preferences.changed() => {
                    let now = *preferences.borrow_and_update();
                    hop.tell(Message::Preferences(now));
                }
                Ok(()) = accelerated.changed() => {
                    hop.tell(Message::AcceleratedHosts(self.config.https.told()));
                }
                Ok(()) = tokens.changed() => {
                    let token = *tokens.borrow_and_update();
                    self.keep_token(token).await;
                }
                Ok(()) = welcome.changed() => {
                    let version = welcome.borrow_and_update().as_ref().map(|welcome| welcome.version);
                    if version == Some(0) {
                        hop.close("no common version");
                        return Outcome::Failed(DownReason::Version);
                    }
                }
            }
        }
    }

    async fn keep_token(&mut self, token: Option<[u8; 32]>) {
        let Some(token) = token else {
            return;
        };
        self.token = token;
        let (state_dir, invite) = (self.config.state_dir.clone(), self.config.invite.clone());
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_token(&invite, &token)).await;
        if let Ok(Err(error)) = kept {
            // The next start costs a round trip more, no more than that.
            warn!("{error}");
        }
    }

    /// Notes the time of a dial, so that later ones have greater stamps even if the wall clock is set back.
    async fn keep_stamp(&mut self) {
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

    fn open(&self, hop: &Arc<Hop>) {
        let was = self.view.borrow().state;
        if was != GatewayState::Open {
            info!("the session with the gateway is open");
        }
        self.view.send_replace(View {
            state: GatewayState::Open,
            hop: Some(Arc::clone(hop)),
            silent_since: None,
            why: None,
            has_answered: true,
        });
    }

    fn stalled(&self) {
        info!("the gateway is silent; everything is kept until the link is back");
        self.view.send_modify(|view| {
            view.state = GatewayState::Stalled;
            view.silent_since.get_or_insert_with(Instant::now);
        });
    }

    /// There is no session.
    fn leave(&self, state: GatewayState, why: Option<DownReason>) {
        self.view.send_modify(|view| {
            view.state = state;
            view.hop = None;
            view.silent_since.get_or_insert_with(Instant::now);
            view.why = why;
        });
    }

    /// Waits before the next attempt, shorter when requests wait or come.
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

/// What the end of a session means: some ends are refusals that only the operator can change.
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
