//! The time for which a request waits for an announced response.
use std::time::Duration;

use longhaul_driver::LinkState;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::pageload::PageLoad;

/// Round-trip times without a byte of the page after which the promise is given up: recovery from a lost
/// packet takes three.
const STALL_ROUND_TRIPS: u32 = 8;

/// Timeout of a promise: counts while the session is open and no data of the page arrives.
pub(super) struct StallTimeout {
    link: watch::Receiver<LinkState>,
    open_since: Option<Instant>,
    limit: Duration,
}

impl StallTimeout {
    pub(super) fn new(load: &PageLoad, least: Duration) -> Self {
        Self {
            link: load.session.watch_link(),
            open_since: None,
            limit: least.max(load.session.stats().srtt * STALL_ROUND_TRIPS),
        }
    }

    /// Completes when the timeout expires. Cancel safe.
    pub(super) async fn expires(&mut self, load: &PageLoad) {
        loop {
            let open = *self.link.borrow_and_update() == LinkState::Open;
            self.open_since = open.then(|| self.open_since.unwrap_or_else(Instant::now));
            let until = self
                .open_since
                .map(|since| since.max(load.last_progress()) + self.limit);
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            tokio::select! {
                changed = self.link.changed() => if changed.is_err() {
                    // The session is over; the page load reports it.
                    std::future::pending::<()>().await;
                },
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }
}
