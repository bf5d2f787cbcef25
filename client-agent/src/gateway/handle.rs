//! The handle of the gateway for requests.
use std::{sync::Arc, time::Duration};

use longhaul_driver::LinkState;
use longhaul_types::PublicKey;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    demand::{Demand, DemandCount},
    dialer::{Dialer, GatewayConfig},
    eviction_reports,
    gateway_session::{GatewaySession, Timing},
    state::{DownReason, View},
    traffic::{Ledger, Traffic},
};

/// Handle of the gateway for requests. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Gateway {
    view: watch::Receiver<View>,
    demand: Arc<DemandCount>,
    ledger: Arc<Ledger>,
    key: PublicKey,
    task: Arc<DialerTask>,
}

/// The state of the session that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The request may be sent in early data: a session whose handshake is in progress suffices.
    Early,
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
        let key = config.invite.gateway();
        let demand = Arc::new(DemandCount::default());
        let ledger = Arc::new(Ledger::default());
        let losses = config.store.losses();
        let (sender, view) = watch::channel(View::starting());
        let dialer = Dialer::new(config, sender, Arc::clone(&demand), Arc::clone(&ledger));
        let task = Arc::new(DialerTask(tokio::spawn(dialer.run())));
        if let Some(losses) = losses {
            tokio::spawn(eviction_reports::send(losses, view.clone()));
        }
        Self {
            view,
            demand,
            ledger,
            key,
            task,
        }
    }

    /// Returns the current state.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Returns a receiver for changes of the state.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The gateway's public key.
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// Traffic on the hop in all sessions since the start.
    pub fn traffic(&self) -> Traffic {
        self.ledger.traffic(self.view.borrow().hop.as_deref())
    }

    /// Registers a waiting request until the returned guard is dropped: while requests wait, the task dials
    /// more often.
    pub fn demand(&self) -> Demand {
        DemandCount::register(&self.demand)
    }

    /// Returns a session that `need` can use now, if there is one.
    pub fn usable_now(&self, need: Need) -> Option<(Arc<GatewaySession>, Timing)> {
        find(&self.view.borrow(), need)
    }

    /// Waits for a session that `need` can use. Cancel safe.
    pub async fn usable(&self, need: Need) -> (Arc<GatewaySession>, Timing) {
        let mut view = self.view.clone();
        loop {
            let found = find(&view.borrow_and_update(), need);
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

    /// Waits until a request that has waited since `started` must fail: the gateway refuses this device, has
    /// no common version, or has been silent for too long. A gateway that has answered in this run gets more
    /// time: an outage of the link suspends requests and does not fail them. Cancel safe.
    pub async fn hopeless(&self, started: Instant) {
        let mut view = self.view.clone();
        loop {
            let until = {
                let view = view.borrow_and_update();
                let refused = view.why.as_ref().is_some_and(DownReason::is_final);
                let patience = if view.has_answered {
                    PATIENCE_OUTAGE
                } else {
                    PATIENCE_UNKNOWN
                };
                match view.silent_since {
                    Some(since) if refused => since + PATIENCE_REFUSED,
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

    /// Closes the session and waits until its CLOSE is sent.
    pub async fn close(&self) {
        self.task.0.abort();
        let hop = self.view.borrow().hop.clone();
        if let Some(hop) = hop {
            hop.close("the agent ends");
            let _ended = tokio::time::timeout(CLOSE_TIME, hop.closed()).await;
        }
    }
}

/// Wait of a request for a gateway that has answered before, if no direct fallback applies. Longer than
/// outages when the user changes cells or passes through tunnels, shorter than browsers wait for a head (5
/// min).
const PATIENCE_OUTAGE: Duration = Duration::from_secs(120);
/// Time for which a refusal may be temporary: a running gateway takes a second to notice a newly admitted
/// device, and the task dials again 0.5, 1 and 2 s after a refusal.
const PATIENCE_REFUSED: Duration = Duration::from_secs(3);
/// Wait of a request for a gateway that has not answered since the start.
const PATIENCE_UNKNOWN: Duration = Duration::from_secs(20);
/// Maximum time for closing a session.
const CLOSE_TIME: Duration = Duration::from_millis(500);

fn find(view: &View, need: Need) -> Option<(Arc<GatewaySession>, Timing)> {
    let hop = view.hop.as_ref()?;
    match (hop.link_state(), need) {
        (LinkState::Open, _) => Some((Arc::clone(hop), Timing::Open)),
        (LinkState::Connecting, Need::Early) => Some((Arc::clone(hop), Timing::Early)),
        (LinkState::Connecting | LinkState::Stalled | LinkState::Closed(_), _) => None,
    }
}
