//! The task that keeps the session open: dials at the start and after a loss, and publishes the state.
mod attempt;
mod credentials;
mod lookups;
mod moves;
mod pauses;

use std::{sync::Arc, time::Duration};

use longhaul_carriers::LinkAttempt;
use longhaul_driver::{CloseReason, LinkState};
use longhaul_session::{Message, Preferences, SiteImages};
use longhaul_types::{Invite, LinkProfile, Techniques, UnixTime};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tracing::{debug, info};

use self::lookups::GatewayLookup;
use super::{
    announced::Announced,
    carriers::{CarrierSettings, Carriers},
    demand::WaitingRequests,
    device_identity::DeviceIdentity,
    gateway_session::GatewaySession,
    link_tracker::LinkTracker,
    new_start::network_opened,
    observation::{Look, looked, until},
    page_streams::PageStreams,
    portal::PortalSettings,
    reachability::{self, FIRST_LOOK, NEXT_LOOK},
    state::{Enrolment, GatewayState, SessionSnapshot},
    takeovers::Takeovers,
    traffic::TrafficTotals,
};
use crate::{
    https::Https,
    networks::{Metered, NetworkMemory},
    rules::SiteRules,
    state_dir::StateDir,
    store::Store,
    trouble::{Diagnosis, Trouble},
};

/// Configuration of the gateway session.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Gateway and device.
    pub invite: Invite,
    /// Link profile of the hop, if configured.
    pub link: Option<LinkProfile>,
    /// Carriers that the session may use.
    pub carrier: CarrierSettings,
    /// Whether the link is measured by as few bytes as possible.
    pub metered: Metered,
    /// What is remembered about networks.
    pub networks: NetworkMemory,
    /// How captive portals are looked for.
    pub portal: PortalSettings,
    /// The user's preferences, with changes.
    pub preferences: watch::Receiver<Preferences>,
    /// The user's rules for sites, of which the gateway learns the image levels.
    pub rules: SiteRules,
    /// State of accelerated HTTPS.
    pub https: Https,
    /// Directory in which the newest token is stored.
    pub state_dir: StateDir,
    /// The cache, of which the gateway keeps a mirror.
    pub store: Store,
    /// Receiver of the streams of page loads.
    pub page_streams: Arc<dyn PageStreams>,
    /// Techniques that are switched off for measurements.
    pub without: Techniques,
}

/// Minimum duration of a useful session: one that ends sooner counts as a failed attempt.
const MIN_USEFUL_SESSION: Duration = Duration::from_secs(5);
/// Minimum duration of a session that ends with RESET. A RESET means that the gateway restarted, so the next
/// session is useful, unless the gateway restarts all the time.
const MIN_USEFUL_BEFORE_RESET: Duration = Duration::from_secs(1);

pub(super) struct Dialer {
    pub(super) config: GatewayConfig,
    /// What the gateway has announced of itself.
    announced: Announced,
    identity: DeviceIdentity,
    /// The newest enrolment, whose invite `move_to` puts into `config`.
    newest: watch::Receiver<Enrolment>,
    enrolment: u64,
    token: [u8; 32],
    stamp: Option<UnixTime>,
    pub(super) view: watch::Sender<SessionSnapshot>,
    demand: Arc<WaitingRequests>,
    pub(super) traffic_totals: Arc<TrafficTotals>,
    pub(super) diagnosis: Diagnosis,
    /// Rounds since the gateway last answered.
    pub(super) failures: u32,
    takeovers: Takeovers,
    link: LinkTracker,
    /// The image levels of sites that the gateway of the current session knows.
    site_images: SiteImages,
    /// Carriers of the current attempt.
    pub(super) over: Carriers,
    /// What becomes of the attempts to open a link.
    pub(super) attempts: watch::Receiver<LinkAttempt>,
    /// What the newest of them has shown.
    pub(super) link_trouble: Option<Trouble>,
    /// Notified when a captive portal is gone.
    retry: Arc<Notify>,
    /// Becomes true when the agent stops.
    stopping: watch::Receiver<bool>,
}

/// Result of an attempt.
enum AttemptOutcome {
    /// The session was open and has ended.
    Served(CloseReason),
    Failed(Trouble),
}

impl Dialer {
    pub(super) fn new(
        config: GatewayConfig,
        announced: Announced,
        newest: watch::Receiver<Enrolment>,
        view: watch::Sender<SessionSnapshot>,
        demand: Arc<WaitingRequests>,
        traffic_totals: Arc<TrafficTotals>,
        retry: Arc<Notify>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let identity = DeviceIdentity::load(config.invite.clone(), &config.state_dir);
        let token = config.state_dir.token(identity.invite());
        let stamp = config.state_dir.stamp();
        let link = LinkTracker::new(config.networks.clone(), config.link, config.metered);
        Self {
            config,
            announced,
            identity,
            newest,
            enrolment: 0,
            token,
            stamp,
            view,
            demand,
            traffic_totals,
            diagnosis: Diagnosis::default(),
            failures: 0,
            takeovers: Takeovers::default(),
            link,
            site_images: SiteImages::default(),
            over: Carriers::default(),
            attempts: watch::channel(LinkAttempt::Pending).1,
            link_trouble: None,
            retry,
            stopping,
        }
    }

    /// Runs until the agent stops.
    pub(super) async fn run(mut self) {
        let mut newest = self.newest.clone();
        let mut stopping = self.stopping.clone();
        let (retry, view) = (Arc::clone(&self.retry), self.view.clone());
        loop {
            let changed = tokio::select! {
                biased;
                () = stopped(&mut stopping) => return self.record_link().await,
                Ok(()) = newest.changed() => true,
                () = network_opened(&retry, &view) => {
                    self.start_over();
                    false
                }
                () = self.run_round() => false,
            };
            if changed {
                self.record_link().await;
                let enrolment = newest.borrow_and_update().clone();
                self.move_to(enrolment);
            }
        }
    }

    /// Records what the published session has found out about the link.
    async fn record_link(&mut self) {
        let session = self.view.borrow().session.clone();
        if let Some(session) = session {
            self.link.record(&session.stats()).await;
        }
    }

    /// Opens a session, serves it to its end, and waits until the next one may be opened. May be dropped at
    /// every point; [`Self::move_to`] then ends the session.
    async fn run_round(&mut self) {
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
                let trouble = Trouble::of_close(reason, self.config.carrier.tried());
                self.diagnosis.found(Instant::now(), trouble);
                self.publish_no_session(GatewayState::Connecting);
            }
            AttemptOutcome::Failed(Trouble::TakenOver) => {
                self.note(Trouble::TakenOver);
                self.takeovers.record(started.elapsed());
                self.failures = 0;
                self.publish_no_session(GatewayState::Down);
                return self.pause_after_takeover().await;
            }
            AttemptOutcome::Failed(trouble) if trouble.is_refused_key() && self.identity.try_other_key() => {
                self.token = self.config.state_dir.token(self.identity.invite());
                self.publish_no_session(GatewayState::Connecting);
                return;
            }
            AttemptOutcome::Failed(trouble) => {
                debug!("no session with the gateway: {trouble}");
                self.note(trouble);
                self.failures = self.failures.saturating_add(1);
                self.publish_no_session(GatewayState::Down);
            }
        }
        self.pause().await;
    }

    /// Ends the session and continues with another invite.
    fn move_to(&mut self, Enrolment { number, invite }: Enrolment) {
        info!("this device is enrolled anew; the agent opens a session with the new invite");
        let session = self.view.borrow().session.clone();
        if let Some(session) = session {
            if !session.is_counted() {
                self.traffic_totals.add_closed(&session);
            }
            session.close("the device is enrolled anew");
        }
        self.identity = DeviceIdentity::load(invite.clone(), &self.config.state_dir);
        self.token = self.config.state_dir.token(self.identity.invite());
        self.config.invite = invite;
        self.diagnosis = Diagnosis::default();
        self.enrolment = number;
        self.failures = 0;
        self.takeovers = Takeovers::default();
        self.view
            .send_replace(SessionSnapshot::starting(number, self.link.knowledge));
    }

    /// Serves an open session until its end.
    async fn run_session(&mut self, session: &Arc<GatewaySession>) -> AttemptOutcome {
        self.traffic_totals.count_opened();
        let is_udp_expected = self.over.has_udp_beside_others();
        self.link.opened(session, is_udp_expected).await;
        let mut state = session.transport().state();
        let mut tokens = session.transport().tokens();
        let mut welcome = session.watch_welcome();
        let mut key_wanted = session.watch_key_wanted();
        // The values with which the session began count as seen.
        let mut preferences = self.config.preferences.clone();
        let mut accelerated = self.config.https.changes();
        let mut rules = self.config.rules.changes();
        // They may have changed during the handshake.
        self.tell_site_images(session);
        // A difference of the clocks is published together with the open session: it is no reason for which there
        // is none.
        let token = *tokens.borrow_and_update();
        self.store_token(token).await;
        let mut look: Option<Look> = None;
        let mut looks = 0;
        let mut lookup = GatewayLookup::default();
        let mut attempts = self.attempts.clone();
        let mut announcement = session.watch_announcement();
        let mut certificates = self.config.carrier.certificates.watch();
        loop {
            if self.config.carrier.refuses(session) {
                session.close("TLS is intercepted");
                return AttemptOutcome::Failed(Trouble::Intercepted);
            }
            let now = state.borrow_and_update().clone();
            match now {
                LinkState::Closed(reason) => {
                    let trouble = Trouble::of_close(reason.clone(), self.config.carrier.tried());
                    return if trouble.is_refusal() {
                        AttemptOutcome::Failed(trouble)
                    } else {
                        AttemptOutcome::Served(reason)
                    };
                }
                LinkState::Open => {
                    self.publish_open(session);
                    (look, looks) = (None, 0);
                }
                LinkState::Stalled if look.is_none() => {
                    self.publish_stalled();
                    look = self.look_from(session, FIRST_LOOK);
                }
                LinkState::Stalled | LinkState::Connecting => {}
            }
            let (silence, is_stalled) = (self.diagnosis.poll_timeout(), look.is_some());
            tokio::select! {
                found = looked(&mut look) => {
                    look = self.look_from(session, NEXT_LOOK);
                    // A route to the gateway is no evidence against what the attempts to open a link have shown.
                    if found.is_some() || session.stats().remote.is_some() {
                        self.note_look(found);
                    }
                    looks += 1;
                    self.look_for_gateway(&mut lookup, looks);
                }
                wake = self.link.next_wake(session, is_stalled) => {
                    if self.look_at_network(session, &mut lookup, wake).await {
                        attempts = self.attempts.clone();
                    }
                }
                (reason, found) = lookup.done() => {
                    if self.use_lookup(session, &mut lookup, reason, found).await {
                        attempts = self.attempts.clone();
                    }
                }
                Ok(()) = announcement.changed() => self.use_ports(session).await,
                () = until(silence) => self.note_silence(),
                Ok(()) = attempts.changed() => self.note_attempt(),
                Ok(()) = certificates.changed() => {}
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
                Ok(()) = rules.changed() => {
                    self.tell_site_images(session);
                }
                Ok(()) = tokens.changed() => {
                    let token = *tokens.borrow_and_update();
                    self.store_token(token).await;
                    self.publish_trouble();
                }
                Ok(()) = key_wanted.changed() => self.replace_key(session).await,
                Ok(()) = welcome.changed() => {
                    let version = welcome.borrow_and_update().as_ref().map(|welcome| welcome.version);
                    if version == Some(None) {
                        session.close("no common version");
                        return AttemptOutcome::Failed(Trouble::VersionMismatch("session messages".to_owned()));
                    }
                }
            }
        }
    }

    /// Tells the gateway the image levels of sites, if they have changed.
    fn tell_site_images(&mut self, session: &GatewaySession) {
        let levels = self.config.rules.image_levels();
        if levels != self.site_images.levels {
            self.site_images = SiteImages { levels };
            session.send_control(Message::SiteImages(self.site_images.clone()));
        }
    }

    fn publish_open(&mut self, session: &Arc<GatewaySession>) {
        self.identity.note_open();
        self.diagnosis.answered();
        let was = self.view.borrow().state;
        if was != GatewayState::Open {
            info!("the session with the gateway is open");
        }
        self.view.send_replace(SessionSnapshot {
            state: GatewayState::Open,
            session: Some(Arc::clone(session)),
            silent_since: None,
            portal: None,
            trouble: self.diagnosis.current().cloned(),
            has_answered: true,
            enrolment: self.enrolment,
            link: self.link.knowledge,
        });
    }

    /// A look for the reason of a stall: at the address of the session, or for a route to the gateway if the session uses a
    /// link, which says nothing about UDP.
    fn look_from(&self, session: &GatewaySession, pause: Duration) -> Option<Look> {
        if let Some(remote) = session.stats().remote {
            return Some(Box::pin(reachability::look(remote, pause)));
        }
        let gateway = *self.link.addresses.all.first()?;
        Some(Box::pin(reachability::look_for_route(gateway, pause)))
    }

    fn publish_stalled(&mut self) {
        self.diagnosis.expect_answer(Instant::now());
        info!("the gateway is silent; requests wait until it answers again");
        self.view.send_modify(|view| {
            view.state = GatewayState::Stalled;
            view.silent_since.get_or_insert_with(Instant::now);
        });
        self.note_attempt();
    }

    /// Publishes that there is no session.
    pub(super) fn publish_no_session(&self, state: GatewayState) {
        self.view.send_modify(|view| {
            view.state = state;
            view.session = None;
            view.silent_since.get_or_insert_with(Instant::now);
            view.trouble = self.diagnosis.current().cloned();
        });
    }
}

/// Waits until the agent stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Without a sender there is no agent any more.
    let _stopped = stopping.wait_for(|stopping| *stopping).await;
}
