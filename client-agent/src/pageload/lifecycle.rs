//! Use and end of a page load.
use std::{sync::Arc, time::Duration};

use longhaul_session::{Cancel, EntryId, Message, Used};
use tokio::{sync::watch, time::sleep};

use super::{
    page_load::PageLoad,
    page_state::{DocumentProgress, Life, ManifestProgress},
    pushed_body::BodyFault,
};

/// Kind of end of a page load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The page load is complete and has not been used for some time.
    Complete,
    /// The browser has left the page.
    Cancelled,
    /// The page's fetch itself was cancelled; the gateway already has its `Cancel`.
    FetchCancelled,
}

/// Guard that keeps the page load in use.
#[derive(Debug)]
pub(crate) struct PageLoadGuard(Arc<PageLoad>);

impl Drop for PageLoadGuard {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl PageLoad {
    /// Joins the page load for a request of the browser.
    pub(crate) fn join(self: &Arc<Self>) -> PageLoadGuard {
        let mut state = self.state();
        state.live += 1;
        state.entered += 1;
        drop(state);
        PageLoadGuard(Arc::clone(self))
    }

    fn release(&self) {
        let end = {
            let mut state = self.state();
            state.live = state.live.saturating_sub(1);
            let unanswered = state.document == DocumentProgress::Awaited;
            let ends = state.life.is_left() || unanswered && state.life != Life::Ended;
            (state.live == 0 && ends).then_some(if unanswered {
                EndReason::FetchCancelled
            } else {
                EndReason::Cancelled
            })
        };
        match end {
            Some(end) => self.end(end),
            None => self.notify(),
        }
    }

    /// Marks the page as left: the page load ends as soon as no request uses it.
    pub(crate) fn leave_page(&self) {
        let mut state = self.state();
        state.life.leave();
        let idle = state.live == 0 && state.life != Life::Ended;
        drop(state);
        if idle {
            self.end(EndReason::Cancelled);
        }
    }

    /// Called when a document arrives that this page navigated to: a frame of the page, or the next page.
    /// Plain http does not distinguish them; but a page that was left sends no more requests. It is
    /// superseded after `time`.
    pub(crate) async fn leave_if_idle(&self, time: Duration) {
        let entered = self.state().entered;
        sleep(time).await;
        let left = {
            let state = self.state();
            state.live == 0 && state.entered == entered
        };
        if left {
            self.leave_page();
        }
    }

    /// Records that the browser aborted the page's document.
    pub(crate) fn abort_page(&self) {
        self.state().life.leave();
    }

    /// True if no more data will arrive.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state();
        let answered = state.document != DocumentProgress::Awaited;
        let manifest = match state.manifest {
            ManifestProgress::Awaited => answered,
            ManifestProgress::Complete(_) | ManifestProgress::Broken => true,
            ManifestProgress::Reading | ManifestProgress::Planned => false,
        };
        matches!(state.life, Life::SessionLost(_)) || manifest && state.entries.are_finished()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().life == Life::Ended
    }

    /// Waits for the end of the page load. Cancel safe.
    pub(super) async fn until_over(&self, changes: &mut watch::Receiver<()>) {
        while !self.is_over() {
            // The sender is part of this page load.
            let _open = changes.changed().await;
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.state().live > 0
    }

    /// Handles the loss of the session: missing data will not arrive.
    pub(super) fn session_lost(&self) {
        let mut state = self.state();
        state.life.lose_session();
        state.entries.end_bodies(BodyFault::SessionLost);
        drop(state);
        self.notify();
    }

    /// Ends the page load and sends `Used` and, if necessary, `Cancel` to the gateway.
    pub(super) fn end(&self, end: EndReason) {
        let complete = self.is_complete();
        let (entries, taken, lost) = {
            let mut state = self.state();
            let before = std::mem::replace(&mut state.life, Life::Ended);
            if before == Life::Ended {
                return;
            }
            state.entries.count_waste(&self.counters);
            state.entries.end_bodies(BodyFault::Cut);
            let lost = matches!(before, Life::SessionLost(_));
            (state.entries.count(), state.entries.used_entries(), lost)
        };
        if !lost {
            // `Used` precedes `Cancel`: the gateway learns from it before it discards the page load.
            if entries > 0 {
                let is_taken = |entry: EntryId| taken.binary_search(&entry).is_ok();
                self.session
                    .send_control(Message::Used(Used::new(self.page, entries, is_taken)));
            }
            if end == EndReason::Cancelled && !complete {
                self.session.send_control(Message::Cancel(Cancel {
                    fetch: self.page.fetch(),
                }));
            }
        }
        self.notify();
    }
}
