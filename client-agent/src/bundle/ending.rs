//! Who uses a page load, and how it ends.
use std::{sync::Arc, time::Duration};

use longhaul_protocol::session::{Cancel, Message, Used};
use tokio::{sync::watch, time::sleep};

use super::body::BodyFault;
use super::load::{Document, PageLoad, Progress};

/// How a page load ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is complete and has not been used for a while.
    Complete,
    /// The browser has left it.
    Cancelled,
    /// The page's fetch itself was given up, and the gateway knows that.
    Untold,
}

/// The browser uses the page load, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Live(Arc<PageLoad>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl PageLoad {
    /// A request of the browser uses it.
    pub(crate) fn enter(self: &Arc<Self>) -> Live {
        let mut state = self.state();
        state.live += 1;
        state.entered += 1;
        drop(state);
        Live(Arc::clone(self))
    }

    fn leave(&self) {
        let end = {
            let mut state = self.state();
            state.live = state.live.saturating_sub(1);
            let unanswered = state.document == Document::Awaited;
            (state.live == 0 && !state.over && (state.superseded || state.broken_off || unanswered))
                .then_some(if unanswered { End::Untold } else { End::Cancelled })
        };
        match end {
            Some(end) => self.end(end),
            None => self.notify(),
        }
    }

    /// The browser goes to another page: this load ends as soon as no request uses it.
    pub(crate) fn supersede(&self) {
        let mut state = self.state();
        state.superseded = true;
        let idle = state.live == 0 && !state.over;
        drop(state);
        if idle {
            self.end(End::Cancelled);
        }
    }

    /// A document that this page led to has come: a frame of it, or the next page. Plain http does not tell; but the page
    /// that was left makes no more requests, and is superseded after `time`.
    pub(crate) async fn supersede_if_left(&self, time: Duration) {
        let entered = self.state().entered;
        sleep(time).await;
        let left = {
            let state = self.state();
            state.live == 0 && state.entered == entered
        };
        if left {
            self.supersede();
        }
    }

    /// The browser broke the page itself off.
    pub(crate) fn break_off(&self) {
        self.state().broken_off = true;
    }

    /// Whether nothing more will come of it.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        let answered = state.document != Document::Awaited;
        let manifest = match state.manifest {
            Progress::Awaited => answered,
            Progress::Complete(_) | Progress::Broken => true,
            Progress::Reading | Progress::Planned => false,
        };
        state.session_lost || manifest && state.entries.are_finished()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until it is over. Cancel safe.
    pub(super) async fn over(&self, changes: &mut watch::Receiver<()>) {
        while !self.is_over() {
            // The sender lives in this load.
            let _open = changes.changed().await;
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.state().live > 0
    }

    /// The session is lost: what is not here will not come.
    pub(super) fn session_lost(&self) {
        let mut state = self.state();
        state.session_lost = true;
        state.entries.end_bodies(BodyFault::SessionLost);
        drop(state);
        self.notify();
    }

    /// Ends it, and tells the gateway what it must know.
    pub(super) fn end(&self, end: End) {
        let complete = self.is_complete();
        let (entries, taken, lost) = {
            let mut state = self.state();
            if std::mem::replace(&mut state.over, true) {
                return;
            }
            state.entries.count_waste(&self.counters);
            state.entries.end_bodies(BodyFault::Cut);
            (state.entries.count(), state.entries.taken(), state.session_lost)
        };
        if !lost {
            // The gateway learns from this before it forgets the load.
            if entries > 0 {
                let is_taken = |entry: u32| taken.binary_search(&entry).is_ok();
                self.hop
                    .tell(Message::Used(Used::new(self.page, entries, is_taken)));
            }
            if end == End::Cancelled && !complete {
                self.hop.tell(Message::Cancel(Cancel { fetch: self.page }));
            }
        }
        self.notify();
    }
}
