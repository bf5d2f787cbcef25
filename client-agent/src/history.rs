//! The savings that last: sums of what was saved by hour and day, in a file of the state directory.
//!
//! A task adds to the file what was counted since its last addition, within a second, so that the end of the process
//! loses no more. The sums contain no names of sites.
mod counts;
mod file;
mod link_rate;

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::warn;

pub use counts::Counts;
pub use file::{Day, Summary};

use crate::{counters::Counters, gateway::Gateway, private_database, wall_clock::now};
use counts::transfer_time_us;
use file::{Addition, HistoryFile};
use link_rate::LinkRate;

/// Interval of additions to the file.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval of additions while nothing but the bytes of an idle session is counted.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);
/// The file in the state directory.
const FILE: &str = "savings.sqlite";

/// The kept savings. Clones share the same file.
#[derive(Clone, Debug)]
pub struct History(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    counters: Arc<Counters>,
    gateway: Gateway,
    summary: Mutex<Summary>,
    written: Arc<Mutex<Written>>,
}

/// The file, and what of this run's counts is in it.
#[derive(Debug)]
struct Written {
    /// `None` if there is no memory for sums.
    file: Option<HistoryFile>,
    counts: Counts,
    at: Option<Instant>,
    rate: LinkRate,
    /// Time of the last look at the rate.
    looked: Instant,
    /// Saved bytes whose time is not estimated yet, because no rate is known.
    untimed: i64,
    is_failing: bool,
}

impl History {
    /// Opens the file in the state directory `dir`. Browsing never fails because it cannot be used: then the sums end
    /// with the process.
    pub(crate) async fn open(dir: &Path, counters: Arc<Counters>, gateway: Gateway) -> Self {
        let path = dir.join(FILE);
        // File operations block.
        let opened = tokio::task::spawn_blocking(move || {
            let file = open(&path);
            let transfers = file.as_ref().and_then(|file| file.transfers().ok());
            let summary = file.as_ref().and_then(|file| file.summary(now()).ok());
            (file, transfers.unwrap_or_default(), summary.unwrap_or_default())
        });
        let (file, transfers, summary) = opened.await.unwrap_or_default();
        counters.savings.remember(transfers);
        Self(Arc::new(Inner {
            counters,
            gateway,
            summary: Mutex::new(summary),
            written: Arc::new(Mutex::new(Written {
                file,
                counts: Counts::default(),
                at: None,
                rate: LinkRate::default(),
                looked: Instant::now(),
                untimed: 0,
                is_failing: false,
            })),
        }))
    }

    /// The sums in the file.
    pub fn summary(&self) -> Summary {
        self.0.summary.lock().clone()
    }

    /// Adds to the file what is counted, until the agent ends.
    pub(crate) async fn run(self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.add(IDLE_INTERVAL).await;
        }
    }

    /// Adds to the file what was counted since the last addition; after `idle` also if nothing but bytes on the hop was
    /// counted.
    pub(crate) async fn add(&self, idle: Duration) {
        let history = self.clone();
        // File operations block. This fails only when the process ends.
        let _ended = tokio::task::spawn_blocking(move || history.add_now(idle)).await;
    }

    fn add_now(&self, idle: Duration) {
        let Inner {
            counters,
            gateway,
            summary,
            written,
        } = &*self.0;
        let mut written = written.lock();
        let looked = std::mem::replace(&mut written.looked, Instant::now());
        let passed = written.looked.duration_since(looked);
        if let Some(session) = gateway.view().session {
            let rate = written.rate.add(session.serial(), &session.stats(), passed);
            counters.link_rate.set(rate);
        }
        let (totals, hop) = (counters.savings.totals(), gateway.traffic().reported_down);
        let counts = Counts::of(&totals, hop, 0);
        let new = counts.since(&written.counts);
        let is_due = !new.is_idle() || written.at.is_none_or(|at| at.elapsed() >= idle);
        if new == Counts::default() || !is_due {
            return;
        }
        let saved = counts.saved().bytes.saturating_sub(written.counts.saved().bytes);
        let rate = counters.link_rate.get();
        let untimed = written.untimed.saturating_add(saved);
        let addition = Addition {
            counts: new.with_time(transfer_time_us(untimed, rate)),
            transfers: counters.savings.take_transfers(),
            at: now(),
        };
        let Some(file) = &mut written.file else { return };
        match file.add(&addition).and_then(|()| file.summary(addition.at)) {
            Ok(sums) => {
                written.counts = counts;
                written.untimed = if rate == 0 { untimed } else { 0 };
                written.at = Some(Instant::now());
                written.is_failing = false;
                *summary.lock() = sums;
            }
            // The same counts are added when the file can be written again.
            Err(error) => {
                if !std::mem::replace(&mut written.is_failing, true) {
                    warn!("the savings cannot be written to {FILE}: {error}; free space on its disk");
                }
            }
        }
    }

    /// Deletes what says something about loaded pages. The file contains none of it when the call returns.
    pub(crate) async fn forget(&self) {
        self.0.counters.savings.forget_transfers();
        let written = Arc::clone(&self.0.written);
        let forgotten = tokio::task::spawn_blocking(move || {
            let written = written.lock();
            written.file.as_ref().map_or(Ok(()), HistoryFile::forget)
        })
        .await;
        if let Ok(Err(error)) = forgotten {
            warn!("{FILE} cannot be cleared: {error}; delete it while the agent is stopped");
        }
    }
}

/// Opens the file; sets aside one that cannot be used.
fn open(path: &Path) -> Option<HistoryFile> {
    let opened = HistoryFile::open(path).or_else(|error| {
        if !error.is_final() {
            return Err(error);
        }
        warn!("{FILE} cannot be used: {error}; it is set aside and the savings begin anew");
        private_database::set_aside(path);
        HistoryFile::open(path)
    });
    opened.map_or_else(
        |error| {
            warn!("the savings are in memory only and are lost when the agent stops: {error}");
            HistoryFile::in_memory().ok()
        },
        Some,
    )
}
