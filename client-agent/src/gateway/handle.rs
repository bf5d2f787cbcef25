//! The handle of the gateway for requests.
use std::{sync::Arc, time::Duration};

use longhaul_driver::LinkState;
use longhaul_service::{LivenessProbe, liveness_probe};
use longhaul_types::{Invite, PublicKey};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    announced::Announced,
    demand::{WaitingRequest, WaitingRequests},
    dialer::{Dialer, GatewayConfig},
    eviction_reports,
    gateway_session::{GatewaySession, SendPhase},
    portal::PortalWatch,
    state::{Enrolment, LinkKnowledge, SessionSnapshot},
    traffic::{Traffic, TrafficTotals},
};
use crate::trouble::LoginPage;

/// Handle of the gateway for requests. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Gateway {
    view: watch::Receiver<SessionSnapshot>,
    demand: Arc<WaitingRequests>,
    traffic_totals: Arc<TrafficTotals>,
    enrolment: watch::Sender<Enrolment>,
    task: Arc<DialerTask>,
    stopping: watch::Sender<bool>,
    /// Host of the network's login page that the user lets the agent reach although nothing goes direct, and since when the
    /// page has been in the way: the permission ends with it.
    permitted_login: watch::Sender<Option<(String, Instant)>>,
    /// Tasks that end with the last handle.
    _followers: Arc<JoinSet<()>>,
    probe: LivenessProbe,
}

/// The state of the session that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredSessionState {
    /// The request may be sent in early data: a session whose handshake is in progress suffices.
    EarlyData,
    /// The handshake must be complete.
    Open,
}

#[derive(Debug)]
struct DialerTask(tokio::task::JoinHandle<()>);

impl Drop for DialerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gateway {
    /// Starts the task that keeps the session open.
    pub fn start(config: GatewayConfig) -> Self {
        let enrolment = watch::Sender::new(Enrolment {
            number: 0,
            invite: config.invite.clone(),
        });
        let demand = Arc::new(WaitingRequests::default());
        let traffic_totals = Arc::new(TrafficTotals::default());
        let eviction_reports = config.store.eviction_reports();
        let stopping = watch::Sender::new(false);
        let link = LinkKnowledge::of_profile(config.link, None);
        let (sender, view) = watch::channel(SessionSnapshot::starting(0, link));
        let retry = Arc::new(Notify::new());
        let announced = Announced::load(
            config.state_dir.clone(),
            config.invite.gateway(),
            config.carrier.certificates.clone(),
        );
        let followers = follow(&config, &announced, &sender, &enrolment, &retry);
        let dialer = Dialer::new(
            config,
            announced,
            enrolment.subscribe(),
            sender,
            Arc::clone(&demand),
            Arc::clone(&traffic_totals),
            retry,
            stopping.subscribe(),
        );
        let (probe, probed) = liveness_probe();
        let task = Arc::new(DialerTask(tokio::spawn(probed.during(dialer.run()))));
        if let Some(eviction_reports) = eviction_reports {
            tokio::spawn(eviction_reports::send(eviction_reports, view.clone()));
        }
        Self {
            view,
            demand,
            traffic_totals,
            enrolment,
            task,
            stopping,
            permitted_login: watch::Sender::new(None),
            _followers: Arc::new(followers),
            probe,
        }
    }

    /// Completes when the task that keeps the session open, and the task that runs the session if there is
    /// one, have answered.
    pub async fn answered(&self) {
        self.probe.answered().await;
        let session = self.view.borrow().session.clone();
        if let Some(session) = session {
            session.transport().probe_liveness().await;
        }
    }

    /// Completes when the task that keeps the session open has ended.
    pub async fn ended(&self) {
        self.probe.ended().await;
    }

    /// Returns the current state.
    pub fn view(&self) -> SessionSnapshot {
        self.view.borrow().clone()
    }

    /// Returns a receiver for changes of the state.
    pub fn watch(&self) -> watch::Receiver<SessionSnapshot> {
        self.view.clone()
    }

    /// The gateway's public key.
    pub fn key(&self) -> PublicKey {
        self.enrolment.borrow().invite.gateway()
    }

    /// Replaces the invite: the session ends, and the agent opens one with the gateway and the device key of
    /// the new invite. Returns the number that [`SessionSnapshot::enrolment`] then has; `None` if the invite is
    /// the one in use.
    pub fn enrol(&self, invite: Invite) -> Option<u64> {
        let line = invite.to_line();
        let is_new = self.enrolment.send_if_modified(|current| {
            let is_new = current.invite.to_line() != line;
            if is_new {
                current.number += 1;
                current.invite = invite;
            }
            is_new
        });
        is_new.then(|| self.enrolment.borrow().number)
    }

    /// Traffic on the hop in all sessions since the start.
    pub fn traffic(&self) -> Traffic {
        self.traffic_totals.traffic(self.view.borrow().session.as_deref())
    }

    /// Registers a waiting request until the returned guard is dropped: while requests wait, the task dials
    /// more often.
    pub fn demand(&self) -> WaitingRequest {
        WaitingRequests::register(&self.demand)
    }

    /// Returns a session that `required_state` can use now, if there is one.
    pub fn usable_session(
        &self,
        required_state: RequiredSessionState,
    ) -> Option<(Arc<GatewaySession>, SendPhase)> {
        find(&self.view.borrow(), required_state)
    }

    /// Waits for a session that `required_state` can use. Cancel safe.
    pub async fn wait_for_session(
        &self,
        required_state: RequiredSessionState,
    ) -> (Arc<GatewaySession>, SendPhase) {
        let mut view = self.view.clone();
        loop {
            let found = find(&view.borrow_and_update(), required_state);
            if let Some(found) = found {
                return found;
            }
            if view.changed().await.is_err() {
                // The session task ends only with the agent.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the gateway has been silent for `time` without interruption. Cancel safe.
    pub async fn silent_for(&self, time: Duration) {
        let mut view = self.view.clone();
        loop {
            let since = view.borrow_and_update().silent_since;
            let due = async {
                match since {
                    Some(since) => sleep_until(since + time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => return,
                changed = view.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
        }
    }

    /// Waits until a login page of the network is in the way that meets a condition. Cancel safe.
    pub async fn until_login_page(&self, is_meant: impl Fn(&LoginPage) -> bool) {
        let mut view = self.view.clone();
        let mut permitted = self.permitted_login.subscribe();
        loop {
            // The condition may ask for the permitted host.
            permitted.mark_unchanged();
            let page = view.borrow_and_update().login_page().cloned();
            if page.as_ref().is_some_and(&is_meant) {
                return;
            }
            tokio::select! {
                changed = view.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
                _ = permitted.changed() => {}
            }
        }
    }

    /// Lets the agent reach the host that shows the network's login page; returns the host, or `None` if the network has
    /// named none.
    pub fn permit_login_page(&self) -> Option<String> {
        let view = self.view();
        let (host, since) = (view.login_page()?.host()?.to_owned(), view.portal.as_ref()?.since);
        self.permitted_login.send_replace(Some((host.clone(), since)));
        Some(host)
    }

    /// Returns true if the user lets the agent reach this host of a login page.
    pub fn is_login_permitted(&self, host: &str) -> bool {
        let view = self.view();
        let permitted = self.permitted_login.borrow();
        permitted
            .as_ref()
            .zip(view.portal.as_ref())
            .is_some_and(|((permitted, since), portal)| permitted == host && *since == portal.since)
    }

    /// Waits until a request that has waited since `started` must fail: the gateway refuses this device, has
    /// no common version, or has been silent for too long. A gateway that has answered in this run gets more
    /// time: an outage of the link suspends requests and does not fail them. Cancel safe.
    pub async fn until_unavailable(&self, started: Instant) {
        let mut view = self.view.clone();
        loop {
            let until = {
                let view = view.borrow_and_update();
                let refused = view.is_refused();
                let patience = if view.has_answered {
                    OUTAGE_TIMEOUT
                } else {
                    FIRST_ANSWER_TIMEOUT
                };
                match view.silent_since {
                    Some(since) if refused => since + REFUSAL_TIMEOUT,
                    Some(_) | None => started + patience,
                }
            };
            tokio::select! {
                () = sleep_until(until) => return,
                changed = view.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
            }
        }
    }

    /// Waits until the gateway has refused this device for some time. Cancel safe.
    pub async fn until_refused(&self) {
        let mut view = self.view.clone();
        loop {
            let refused = view.wait_for(SessionSnapshot::is_refused).await.is_ok();
            if !refused {
                std::future::pending::<()>().await;
            }
            let admitted = view.wait_for(|view| !view.is_refused());
            if tokio::time::timeout(REFUSAL_TIMEOUT, admitted).await.is_err() {
                return;
            }
        }
    }

    /// Closes the session and waits until its CLOSE is sent.
    pub async fn close(&self) {
        let session = self.view.borrow().session.clone();
        // The task records what the session has found out about the link.
        self.stopping.send_replace(true);
        let _recorded = tokio::time::timeout(RECORD_TIME, self.ended()).await;
        self.task.0.abort();
        if let Some(session) = session {
            session.close("the agent stops");
            let _ended = tokio::time::timeout(CLOSE_TIME, session.closed()).await;
        }
    }
}

/// Starts the tasks that follow the session's state: what the gateway announces, and captive portals.
fn follow(
    config: &GatewayConfig,
    announced: &Announced,
    view: &watch::Sender<SessionSnapshot>,
    enrolment: &watch::Sender<Enrolment>,
    retry: &Arc<Notify>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(announced.clone().follow(view.subscribe(), enrolment.subscribe()));
    // Where an HTTP proxy is the way out, it answers plain requests in its own way.
    if config.carrier.proxy.is_none() {
        let portal = PortalWatch {
            settings: config.portal.clone(),
            view: view.clone(),
            enrolment: enrolment.subscribe(),
            announced: announced.clone(),
            retry: Arc::clone(retry),
        };
        tasks.spawn(portal.run());
    }
    tasks
}

/// Wait of a request for a gateway that has answered before, if no direct fallback applies. Longer than
/// outages when the user changes cells or passes through tunnels, shorter than browsers wait for a head (5
/// min).
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for which a refusal may be temporary: a running gateway takes a second to notice a newly admitted
/// device, and the task dials again 0.5, 1 and 2 s after a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Wait of a request for a gateway that has not answered since the start.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time for writing a small file at the end.
const RECORD_TIME: Duration = Duration::from_millis(500);
/// Maximum time for closing a session.
const CLOSE_TIME: Duration = Duration::from_millis(500);

fn find(
    view: &SessionSnapshot,
    required_state: RequiredSessionState,
) -> Option<(Arc<GatewaySession>, SendPhase)> {
    let session = view.session.as_ref()?;
    match (session.link_state(), required_state) {
        (LinkState::Open, _) => Some((Arc::clone(session), SendPhase::Open)),
        (LinkState::Connecting, RequiredSessionState::EarlyData) if session.allows_early() => {
            Some((Arc::clone(session), SendPhase::EarlyData))
        }
        (LinkState::Connecting | LinkState::Stalled | LinkState::Closed(_), _) => None,
    }
}
