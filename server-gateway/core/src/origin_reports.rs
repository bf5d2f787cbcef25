//! Reports to the agent of what origins sent for it (docs/protocol/session.md section 12).
use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use http::HeaderMap;
use longhaul_codec::dictionary;
use longhaul_http::transcoded_image;
use longhaul_session::{EntryId, Flow, OriginReport, PageId, ShortHash, UnchangedEntry};
use longhaul_webcache::OriginSize;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Interval of the reports while responses are being sent. A report delays other data by its size.
const INTERVAL: Duration = Duration::from_secs(1);

/// The counts of one session that no report contains yet.
#[derive(Debug, Default)]
pub struct OriginReports {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: OriginReport,
    /// Time of the report if responses are still being sent.
    due: Option<Instant>,
    /// Number of responses and tunnels that are being sent.
    open: usize,
}

/// Cause of the difference between the bytes of a body at its origin and on the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyCause {
    Coding,
    Base,
    Pictures,
}

/// Replacement of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The gateway replaced the image by a smaller one.
    Yes,
    /// The body is the origin's.
    No,
}

/// Returns whether a response with these fields contains a replaced image.
pub fn replaced(fields: &HeaderMap) -> Replaced {
    if fields.contains_key(transcoded_image::FIELD) {
        Replaced::Yes
    } else {
        Replaced::No
    }
}

impl OriginReports {
    /// Starts the count of a response or push.
    pub fn response(self: &Arc<Self>, origin: OriginSize, replaced: Replaced) -> ResponseCount {
        ResponseCount {
            _open: self.open(),
            reports: Arc::clone(self),
            origin,
            replaced,
            cause: BodyCause::Coding,
            skipped: 0,
            counted: 0,
        }
    }

    /// Delays reports to the interval until the guard is dropped, because more will follow.
    pub fn open(self: &Arc<Self>) -> OpenGuard {
        self.state().open += 1;
        OpenGuard(Arc::clone(self))
    }

    /// Counts bytes of a tunnel towards the agent.
    pub fn tunnelled(&self, bytes: u64) {
        self.count(|report| report.tunnels += bytes);
    }

    /// Counts bytes of manifests and `Head` messages on the hop.
    pub fn heads_sent(&self, bytes: u64) {
        self.count(|report| report.heads.hop += bytes);
    }

    /// Counts the head of an entry's response.
    pub fn entry_answered(&self, origin: &OriginSize) {
        self.count(|report| report.heads.origin += origin.head());
    }

    /// Counts an entry's body that the origin sent and that is not pushed.
    pub fn entry_unchanged(&self, page: PageId, entry: EntryId, origin: &OriginSize) {
        let bytes = origin.body().unwrap_or(0);
        self.count(|report| {
            // An entry beyond the limit is not reported at all, because the agent counts its use.
            if bytes > 0 && report.unchanged_entries.len() < OriginReport::MAX_ENTRIES {
                report.unchanged += bytes;
                report.unchanged_entries.push(UnchangedEntry { page, entry });
            }
        });
    }

    /// Waits for the next report. Cancel safe.
    pub async fn next(&self) -> OriginReport {
        loop {
            let until = {
                let mut state = self.state();
                match state.due {
                    Some(due) if state.open > 0 && Instant::now() < due => Some(due),
                    Some(_) => {
                        state.due = None;
                        return std::mem::take(&mut state.pending);
                    }
                    None => None,
                }
            };
            match until {
                Some(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn count(&self, add: impl FnOnce(&mut OriginReport)) {
        let mut state = self.state();
        add(&mut state.pending);
        if state.due.is_none() && !state.pending.is_empty() {
            state.due = Some(Instant::now() + INTERVAL);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code can panic while the guarded data is inconsistent.
        self.state.lock()
    }
}

/// See [`OriginReports::open`].
#[derive(Debug)]
pub struct OpenGuard(Arc<OriginReports>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        if state.open == 0 {
            drop(state);
            self.0.changed.notify_one();
        }
    }
}

/// The count of one response or push.
#[derive(Debug)]
pub struct ResponseCount {
    reports: Arc<OriginReports>,
    origin: OriginSize,
    replaced: Replaced,
    cause: BodyCause,
    /// Decoded bytes that an earlier response contained.
    skipped: u64,
    /// Bytes of the origin's body counted so far.
    counted: u64,
    _open: OpenGuard,
}

impl ResponseCount {
    /// The response resumes a body at this offset.
    pub fn resumed_at(&mut self, offset: u64) {
        self.skipped = offset;
    }

    /// Counts the head, of which `hop` bytes were sent.
    pub fn head(&self, hop: usize) {
        self.reports.count(|report| {
            report.heads.origin += self.origin.head();
            report.heads.hop += hop as u64;
        });
    }

    /// Counts `hop` further bytes of the body on the hop, with which `decoded` bytes of the body are sent.
    /// The body is encoded against `base`.
    pub fn body(&mut self, base: Option<&ShortHash>, hop: usize, decoded: u64) {
        self.cause = match (self.replaced, base) {
            (Replaced::Yes, _) => BodyCause::Pictures,
            (Replaced::No, Some(base)) if !dictionary::knows(base.as_bytes()) => BodyCause::Base,
            (Replaced::No, Some(_) | None) => BodyCause::Coding,
        };
        let hop = hop as u64;
        let origin = match (self.replaced, self.origin.part(decoded)) {
            // The bytes of the replacement do not correspond to bytes of the original.
            (Replaced::Yes, Some(_)) => 0,
            (Replaced::No, Some(part)) => {
                self.advance(part.saturating_sub(self.origin.part(self.skipped).unwrap_or(0)))
            }
            (_, None) => hop,
        };
        self.count_body(Flow { origin, hop });
    }

    /// Counts what remains of the origin's body: it is completely sent.
    pub fn complete(&mut self) {
        let Some(whole) = self.origin.body() else { return };
        let skipped = match self.skipped {
            0 => 0,
            skipped => self.origin.part(skipped).unwrap_or(0),
        };
        let origin = self.advance(whole.saturating_sub(skipped));
        self.count_body(Flow { origin, hop: 0 });
    }

    /// Counts a body that is not sent because the agent holds it.
    pub fn unchanged(&mut self) {
        let bytes = self.advance(self.origin.body().unwrap_or(0));
        self.reports.count(|report| report.unchanged += bytes);
    }

    /// Returns the bytes that exceed those counted so far, and counts them.
    fn advance(&mut self, to: u64) -> u64 {
        let further = to.saturating_sub(self.counted);
        self.counted += further;
        further
    }

    fn count_body(&self, further: Flow) {
        let cause = self.cause;
        self.reports.count(|report| {
            let flow = match cause {
                BodyCause::Coding => &mut report.coding,
                BodyCause::Base => &mut report.base,
                BodyCause::Pictures => &mut report.pictures,
            };
            flow.origin += further.origin;
            flow.hop += further.hop;
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reports_are_sent_at_once_when_nothing_else_is_being_sent() {
        let reports = Arc::new(OriginReports::default());
        assert!(reports.next().now_or_never().is_none());
        let mut first = reports.response(OriginSize::none(), Replaced::No);
        let second = reports.response(OriginSize::none(), Replaced::Yes);
        first.head(40);
        first.body(None, 100, 300);
        first.complete();
        drop(first);
        assert!(
            reports.next().now_or_never().is_none(),
            "another response is being sent"
        );
        drop(second);
        let report = reports.next().now_or_never().unwrap();
        assert_eq!((report.heads.hop, report.coding.hop), (40, 100));
        assert!(reports.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_response_is_reported_once_per_interval() {
        let reports = Arc::new(OriginReports::default());
        let _tunnel = reports.open();
        let start = Instant::now();
        for at in 1..4 {
            reports.tunnelled(5);
            reports.tunnelled(5);
            assert_eq!(reports.next().await.tunnels, 10);
            assert_eq!(start.elapsed(), INTERVAL * at);
        }
    }

    #[test]
    fn each_cause_has_its_own_flow() {
        let reports = Arc::new(OriginReports::default());
        let dictionary = ShortHash::of(&dictionary::all().next().unwrap());
        let held = ShortHash::from_bytes([7; 6]);
        reports
            .response(OriginSize::none(), Replaced::No)
            .body(Some(&dictionary), 1, 1);
        reports
            .response(OriginSize::none(), Replaced::No)
            .body(Some(&held), 2, 1);
        reports
            .response(OriginSize::none(), Replaced::Yes)
            .body(None, 4, 1);
        // The origin's bytes of this one are unknown.
        reports
            .response(OriginSize::default(), Replaced::No)
            .body(None, 8, 1);
        let report = reports.next().now_or_never().unwrap();
        assert_eq!(
            (report.coding.hop, report.base.hop, report.pictures.hop),
            (9, 2, 4)
        );
        assert_eq!(report.coding.origin, 8);
    }
}
