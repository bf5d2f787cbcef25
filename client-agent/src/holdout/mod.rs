//! The hold-out: up to 2 % of visits go directly to their hosts, without the gateway, so that the agent knows whether
//! Longhaul is slower than a direct connection on the link in use. Where it is, visits go direct, and 2 % of them through
//! the gateway.
//!
//! `comparison` is the pure part: which visit goes which way, and what the times say. [`HoldOut`] applies it to tunnels
//! and to the pages that the agent reads. docs/decisions/0074.
mod comparison;
mod link_class;
mod page_visits;

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
pub use link_class::LinkClass;
pub(crate) use page_visits::PageRequest;
use page_visits::PageVisits;

use crate::{
    gateway::{Gateway, RequiredSessionState, SessionSerial},
    networks::Metered,
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
}

/// A visit of a host whose time is measured.
#[derive(Debug)]
pub(crate) struct Visit {
    hold_out: HoldOut,
    fields: VisitFields,
}

impl HoldOut {
    /// `secret` is the agent's: the state contains keyed hashes of hosts only.
    pub(crate) fn new(setting: HoldOutSetting, metered: Metered, gateway: Gateway, secret: &[u8]) -> Self {
        Self(Arc::new(Inner {
            setting,
            metered,
            gateway,
            key: blake3::derive_key("longhaul 1 hold-out key", secret),
            state: Mutex::default(),
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
        let State {
            comparisons, pages, ..
        } = &mut *state;
        let finished = match visit {
            Some(visit) => pages.navigate((client, host), visit.map(|visit| visit.fields), now),
            None => pages.finish_idle(now),
        };
        for (visit, time) in finished {
            record(comparisons, visit, time);
        }
        let is_direct = pages.begin((client, host), now)?;
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
        let link = self.0.state.lock().class_of(serial, &stats);
        let may_go_direct = may_go_direct && link.is_comparable() && self.is_affordable(serial);
        let hash = self.hash(host);
        let mut state = self.0.state.lock();
        let (way, role) = state.comparisons.choose(kind, link, hash, may_go_direct);
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
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let link = state.class_of(serial, &stats);
        let State {
            comparisons, pages, ..
        } = &mut *state;
        for (visit, time) in pages.finish_idle(now) {
            record(comparisons, visit, time);
        }
        [Kind::Tunnel, Kind::Page]
            .into_iter()
            .map(|kind| (kind, comparisons.regression(kind, link)))
            .collect()
    }

    /// Forgets all times.
    pub(crate) fn clear(&self) {
        *self.0.state.lock() = State::default();
    }
}

impl State {
    /// The class of a session's link. It follows the measurements while the session lasts.
    fn class_of(&mut self, session: SessionSerial, stats: &ConnectionStats) -> LinkClass {
        let before = self.class.filter(|(of, _)| *of == session);
        let class = LinkClass::of(stats, before.map(|(_, class)| class));
        self.class = Some((session, class));
        class
    }
}

/// What identifies a visit in the comparisons.
#[derive(Clone, Copy, Debug)]
struct VisitFields {
    kind: Kind,
    link: LinkClass,
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
        record(&mut self.hold_out.0.state.lock().comparisons, self.fields, time);
    }
}

fn record(comparisons: &mut Comparisons, visit: VisitFields, time: Duration) {
    match comparisons.record(visit.kind, visit.link, visit.host, (visit.way, visit.role), time) {
        Verdict::Unchanged => {}
        Verdict::Bypass => info!(
            kind = visit.kind.name(),
            "Longhaul is slower on this link: connections go direct"
        ),
        Verdict::Return => info!(
            kind = visit.kind.name(),
            "Longhaul is no longer slower on this link"
        ),
    }
}
