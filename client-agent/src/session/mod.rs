//! The session with the gateway: one task ([`Gateway::start`]) dials at the start, dials again on loss, and says how
//! things stand; requests take the session ([`Hop`]) from it.
mod book;
mod hop;
mod inbound;
mod keeper;
mod losses;
mod view;
mod windows;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_driver::LinkState;
use longhaul_protocol::session::Preferences;
use longhaul_types::{Invite, LinkProfile, PublicKey};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

pub use book::{BasePolicy, FetchContext, FetchDraft};
pub use hop::{Arrival, Exchange, Hop, HopError, ResponseStream, Timing};
pub(crate) use hop::{body_coding_of, coding_of};
pub(crate) use losses::short;
pub use view::{DownReason, GatewayState, Traffic, View};
pub(crate) use windows::next_window;

use crate::{bundle::Loads, https::Https, state_dir::StateDir, store::Store};
use view::Ledger;

/// What the session needs to know.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Gateway and device.
    pub invite: Invite,
    /// The hop, as far as it is known.
    pub link: Option<LinkProfile>,
    /// What the user prefers, now and whenever that changes.
    pub preferences: watch::Receiver<Preferences>,
    /// What HTTPS is accelerated.
    pub https: Https,
    /// Where the newest token is kept.
    pub state_dir: StateDir,
    /// The cache, which the gateway mirrors.
    pub store: Store,
    /// Page loads, which the gateway fills.
    pub loads: Loads,
}

/// The gateway, as requests see it. Clones are the same.
#[derive(Clone, Debug)]
pub struct Gateway {
    view: watch::Receiver<View>,
    demand: Arc<DemandCount>,
    ledger: Arc<Ledger>,
    key: PublicKey,
    task: Arc<KeeperTask>,
}

/// How ready a session must be for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The request may travel in early data: a session that is being opened will do.
    Early,
    /// The handshake must be complete.
    Open,
}

#[derive(Debug)]
struct KeeperTask(tokio::task::JoinHandle<()>);

impl Drop for KeeperTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gateway {
    /// Starts the task that keeps the session.
    pub fn start(config: GatewayConfig) -> Self {
        let key = config.invite.gateway();
        let demand = Arc::new(DemandCount::default());
        let ledger = Arc::new(Ledger::default());
        let losses = config.store.losses();
        let (sender, view) = watch::channel(View::starting());
        let keeper = keeper::Keeper::new(config, sender, Arc::clone(&demand), Arc::clone(&ledger));
        let task = Arc::new(KeeperTask(tokio::spawn(keeper.run())));
        if let Some(losses) = losses {
            tokio::spawn(losses::tell(losses, view.clone()));
        }
        Self {
            view,
            demand,
            ledger,
            key,
            task,
        }
    }

    /// How things stand.
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// To wait for changes.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// The gateway's key.
    pub const fn key(&self) -> PublicKey {
        self.key
    }

    /// What crossed the hop in all sessions since the start.
    pub fn traffic(&self) -> Traffic {
        self.ledger.traffic(self.view.borrow().hop.as_deref())
    }

    /// Says that somebody waits for the gateway, for as long as the answer lives: the keeper then dials more often.
    pub fn demand(&self) -> Demand {
        self.demand.waiting.fetch_add(1, Relaxed);
        self.demand.arrived.notify_waiters();
        Demand(Arc::clone(&self.demand))
    }

    /// A session that `need` can use right now.
    pub fn usable_now(&self, need: Need) -> Option<(Arc<Hop>, Timing)> {
        find(&self.view.borrow(), need)
    }

    /// Waits for a session that `need` can use. Cancel safe.
    pub async fn usable(&self, need: Need) -> (Arc<Hop>, Timing) {
        let mut view = self.view.clone();
        loop {
            let found = find(&view.borrow_and_update(), need);
            if let Some(found) = found {
                return found;
            }
            if view.changed().await.is_err() {
                // The keeper ends only with the agent.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the gateway has been silent for `time` without a break. Cancel safe.
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

    /// Waits until it is clear that a request that waits since `started` waits in vain: the gateway refuses this device,
    /// speaks no common version, or has been silent for too long (a gateway that has answered in this run is given more
    /// time: an outage of the link suspends, it does not fail). Cancel safe.
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

    /// Ends the session with a word to the gateway, and waits until the word is out.
    pub async fn close(&self) {
        self.task.0.abort();
        let hop = self.view.borrow().hop.clone();
        if let Some(hop) = hop {
            hop.close("the agent ends");
            let _ended = tokio::time::timeout(CLOSE_TIME, hop.closed()).await;
        }
    }
}

/// How long a request waits for a gateway that answered before, when it cannot go around it. Longer than the outages
/// that moving through cells and tunnels brings, shorter than browsers wait for a head (5 min).
const PATIENCE_OUTAGE: Duration = Duration::from_secs(120);
/// For how long a refusal may be an error: a gateway that runs takes a second to hear of a device that was just admitted,
/// and the keeper tries again 0.5, 1 and 2 s after a refusal.
const PATIENCE_REFUSED: Duration = Duration::from_secs(3);
/// How long a request waits for a gateway that has not answered since the start.
const PATIENCE_UNKNOWN: Duration = Duration::from_secs(20);
/// How long the end of a session may take.
const CLOSE_TIME: Duration = Duration::from_millis(500);

fn find(view: &View, need: Need) -> Option<(Arc<Hop>, Timing)> {
    let hop = view.hop.as_ref()?;
    match (hop.link_state(), need) {
        (LinkState::Open, _) => Some((Arc::clone(hop), Timing::Open)),
        (LinkState::Connecting, Need::Early) => Some((Arc::clone(hop), Timing::Early)),
        (LinkState::Connecting | LinkState::Stalled | LinkState::Closed(_), _) => None,
    }
}

#[derive(Debug, Default)]
struct DemandCount {
    waiting: AtomicUsize,
    arrived: Notify,
}

/// Somebody waits for the gateway.
#[derive(Debug)]
pub struct Demand(Arc<DemandCount>);

impl Drop for Demand {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
