//! The hold-out: up to 2 % of visits go directly to their hosts, without the gateway, so that the agent knows whether
//! Longhaul is slower than a direct connection on the link in use. Where it is, visits go direct, and 2 % of them through
//! the gateway.
//!
//! `comparison` is the pure part: which visit goes which way, and what the times say. [`HoldOut`] applies it to tunnels
//! and to the pages that the agent reads. `kept` keeps what they say in the file `hold-out`, without hosts.
//! docs/decisions/0074.
mod comparison;
mod file;
mod kept;
mod link_class;
mod page_visits;
mod record;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_driver::ConnectionStats;
use longhaul_types::ClientId;
use parking_lot::Mutex;
use tracing::info;

use comparison::{Comparisons, Role, Verdict, Way};
pub use comparison::{Kind, Regression};
use kept::Kept;
pub use link_class::LinkClass;
pub(crate) use page_visits::PageRequest;
use page_visits::PageVisits;
use record::Link;

use crate::{
    gateway::{Gateway, RequiredSessionState, SessionSerial},
    networks::{Metered, NetworkMemory},
    state_dir::StateDir,
    wall_clock,
};

/// Settings of the hold-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldOutSetting {
    /// Visits are held out on links where the user does not pay for bytes.
    #[default]
    Yes,
    /// Visits are held out on every link.
    Metered,
    /// No visit is held out.
    No,
}

/// Time for which the price of a link is believed: a session goes on in other networks.
const PRICE_TIME: Duration = Duration::from_secs(30);

/// Decides which visits go direct, and compares their times. Clones share their state.
#[derive(Clone, Debug)]
pub struct HoldOut(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setting: HoldOutSetting,
    metered: Metered,
    gateway: Gateway,
    networks: NetworkMemory,
    kept: Kept,
    key: [u8; 32],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    comparisons: Comparisons,
    /// The class of the link in use, and the session that measured it.
    class: Option<(SessionSerial, LinkClass)>,
    pages: PageVisits,
    /// Whether the user pays for bytes, when it was found out, and in which session.
    is_paid: Option<(Instant, SessionSerial, bool)>,
    is_asking: bool,
    /// There are comparisons that are not in the file.
    has_changed: bool,
}

/// A visit of a host whose time is measured.
#[derive(Debug)]
pub(crate) struct Visit {
    hold_out: HoldOut,
    fields: VisitFields,
}

impl HoldOut {
    /// `secret` is the agent's: the state contains keyed hashes of hosts only. Comparisons are kept in `state_dir` if
    /// `networks` are remembered.
    pub(crate) fn new(
        setting: HoldOutSetting,
        metered: Metered,
        gateway: Gateway,
        (networks, state_dir): (NetworkMemory, StateDir),
        secret: &[u8],
    ) -> Self {
        let is_kept = setting != HoldOutSetting::No && networks.is_on();
        let kept = Kept::new(state_dir, is_kept);
        let now = wall_clock::now().since_epoch().as_secs();
        let state = State {
            comparisons: Comparisons::of_records(kept.read(), now),
            ..State::default()
        };
        Self(Arc::new(Inner {
            setting,
            metered,
            gateway,
            networks,
            kept,
            key: blake3::derive_key("longhaul 1 hold-out key", secret),
            state: Mutex::new(state),
        }))
    }

    /// Begins a visit of a host by a tunnel; `None` if its time says nothing about the link. `may_go_direct` is false
    /// where settings or rules exclude direct connections.
    pub(crate) fn begin_tunnel(&self, host: &str, may_go_direct: bool) -> Option<Visit> {
        self.begin(Kind::Tunnel, host, may_go_direct)
    }

    /// Begins a request of a page that the agent reads; `None` if hold-outs are switched off. The navigation decides for
    /// the whole page.
    pub(crate) fn begin_request(
        &self,
        client: ClientId,
        page_host: &str,
        is_navigation: bool,
        may_go_direct: bool,
    ) -> Option<PageRequest> {
        if self.0.setting == HoldOutSetting::No {
            return None;
        }
        let host = self.hash(page_host);
        let visit = is_navigation.then(|| self.begin(Kind::Page, page_host, may_go_direct));
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let finished = match visit {
            Some(visit) => {
                let fields = visit.map(|visit| visit.fields);
                state.pages.navigate((client, host), fields, now)
            }
            None => state.pages.finish_idle(now),
        };
        for (visit, time) in finished {
            state.record(visit, time);
        }
        let is_direct = state.pages.begin((client, host), now)?;
        Some(PageRequest::new(self.clone(), (client, host), is_direct))
    }

    fn spoil(&self, page: (ClientId, u64)) {
        self.0.state.lock().pages.spoil(page);
    }

    fn end_request(&self, page: (ClientId, u64)) {
        self.0.state.lock().pages.end(page, Instant::now());
    }

    fn begin(&self, kind: Kind, host: &str, may_go_direct: bool) -> Option<Visit> {
        if self.0.setting == HoldOutSetting::No {
            return None;
        }
        let (session, _) = self.0.gateway.usable_session(RequiredSessionState::Open)?;
        let (stats, serial) = (session.stats(), session.serial());
        drop(session);
        let link = self.link(serial, &stats);
        let may_go_direct = may_go_direct && link.class.is_comparable() && self.is_affordable(serial);
        let hash = self.hash(host);
        let mut state = self.0.state.lock();
        let now = wall_clock::now().since_epoch().as_secs();
        let (way, role) = state.comparisons.choose(kind, link, hash, may_go_direct, now);
        drop(state);
        Some(Visit {
            hold_out: self.clone(),
            fields: VisitFields {
                kind,
                link,
                host: hash,
                way,
                role,
                started: Instant::now(),
            },
        })
    }

    /// True if the user does not pay for bytes, or wants hold-outs nevertheless. Asks the system in the background; until
    /// it has answered in this session, nothing is held out.
    fn is_affordable(&self, session: SessionSerial) -> bool {
        if self.0.setting == HoldOutSetting::Metered {
            return true;
        }
        let mut state = self.0.state.lock();
        let known = state
            .is_paid
            .filter(|(at, of, _)| at.elapsed() < PRICE_TIME && *of == session);
        if known.is_none() && !std::mem::replace(&mut state.is_asking, true) {
            let inner = Arc::clone(&self.0);
            tokio::spawn(async move {
                let is_paid = inner.metered.is_paid().await;
                let mut state = inner.state.lock();
                (state.is_paid, state.is_asking) = (Some((Instant::now(), session, is_paid)), false);
            });
        }
        known.is_some_and(|(_, _, is_paid)| !is_paid)
    }

    fn hash(&self, host: &str) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&blake3::keyed_hash(&self.0.key, host.as_bytes()).as_bytes()[..8]);
        u64::from_be_bytes(bytes)
    }

    /// What the comparisons of the link in use say, by kind of visit.
    pub(crate) fn regressions(&self) -> Vec<(Kind, Regression)> {
        let Some((session, _)) = self.0.gateway.usable_session(RequiredSessionState::Open) else {
            return Vec::new();
        };
        let (stats, serial) = (session.stats(), session.serial());
        drop(session);
        let link = self.link(serial, &stats);
        let mut state = self.0.state.lock();
        for (visit, time) in state.pages.finish_idle(Instant::now()) {
            state.record(visit, time);
        }
        [Kind::Tunnel, Kind::Page]
            .into_iter()
            .map(|kind| (kind, state.comparisons.regression(kind, link)))
            .collect()
    }

    /// The link of a session. Its class follows the measurements while the session lasts.
    fn link(&self, session: SessionSerial, stats: &ConnectionStats) -> Link {
        let network = self.0.networks.present();
        let mut state = self.0.state.lock();
        let before = state.class.filter(|(of, _)| *of == session);
        let class = LinkClass::of(stats, before.map(|(_, class)| class));
        state.class = Some((session, class));
        Link { network, class }
    }
}

/// What identifies a visit in the comparisons.
#[derive(Clone, Copy, Debug)]
struct VisitFields {
    kind: Kind,
    link: Link,
    host: u64,
    way: Way,
    role: Role,
    started: Instant,
}

impl Visit {
    /// True if the visit goes directly to the host.
    pub(crate) fn is_direct(&self) -> bool {
        self.fields.way == Way::Direct
    }

    /// Records that the host's first bytes have arrived.
    pub(crate) fn arrived(self) {
        let time = self.fields.started.elapsed();
        self.hold_out.0.state.lock().record(self.fields, time);
    }
}

impl State {
    fn record(&mut self, visit: VisitFields, time: Duration) {
        let VisitFields { kind, link, host, .. } = visit;
        let verdict = self
            .comparisons
            .record(kind, link, host, (visit.way, visit.role), time);
        self.has_changed |= visit.role == Role::HeldOut;
        match verdict {
            Verdict::Unchanged => {}
            Verdict::Bypass => info!(
                kind = kind.name(),
                "Longhaul is slower on this link: connections go direct"
            ),
            Verdict::Return => info!(kind = kind.name(), "Longhaul is no longer slower on this link"),
        }
    }

    fn forget_hosts(&mut self) {
        self.comparisons.forget_hosts();
        self.pages = PageVisits::default();
    }
}
