//! What Longhaul saved: the bytes that origins sent for this agent, less the bytes that crossed the hop
//! towards it.
//!
//! The gateway reports what origins sent (docs/protocol/session.md section 12), the transport counts what
//! crossed the hop, and the agent adds what its cache answered. [`Totals`] contains all counts and computes
//! the result; it is plain data, so that it can be stored and read back.
mod recent;
mod totals;

use parking_lot::{Mutex, MutexGuard};

use longhaul_session::{OriginReport, UnchangedEntry};
use longhaul_types::ContentHash;

use self::recent::Recent;
pub use self::totals::{FlowBytes, ReportedFlows, SavedByCause, SavedBytes, Totals};
use crate::session_serial::SessionSerial;

/// Maximum number of bodies whose transfer is remembered: 3 MiB of memory, and more bodies than most caches
/// hold.
const MAX_BODIES: usize = 32 * 1024;
/// Maximum number of entries of manifests that are remembered: those of some ten page loads. Without its
/// entry here, a body could only be counted twice.
const MAX_ENTRIES: usize = 8 * 1024;

/// An entry of a manifest in a session of this process.
type EntryKey = (SessionSerial, UnchangedEntry);

/// The counts of the agent since its start.
#[derive(Debug)]
pub struct Savings(Mutex<State>);

#[derive(Debug)]
struct State {
    totals: Totals,
    /// Bytes that each body took on the hop when it was transferred.
    transfers: Recent<ContentHash, u64>,
    /// Entries whose bodies an origin sent, and which the gateway has therefore counted.
    reported: Recent<EntryKey, ()>,
    /// Transfers that were not yet taken to be kept for the next run.
    unkept: Vec<(ContentHash, u64)>,
    /// Bytes counted here for uses of entries that the gateway has not reported.
    used: Recent<EntryKey, u64>,
}

impl Default for Savings {
    fn default() -> Self {
        Self::new(Totals::default())
    }
}

impl Savings {
    /// Continues from earlier counts.
    pub fn new(totals: Totals) -> Self {
        Self(Mutex::new(State {
            totals,
            transfers: Recent::new(MAX_BODIES),
            unkept: Vec::new(),
            reported: Recent::new(MAX_ENTRIES),
            used: Recent::new(MAX_ENTRIES),
        }))
    }

    /// The counts.
    pub fn totals(&self) -> Totals {
        self.state().totals
    }

    /// Adds a report of the gateway in session `session`.
    pub(crate) fn reported(&self, session: SessionSerial, report: &OriginReport) {
        let mut state = self.state();
        state.totals.add(report);
        for entry in &report.unchanged_entries {
            let key = (session, *entry);
            // The gateway counts what the origin sent, so this agent's count is taken back.
            let counted = state.used.remove(&key).unwrap_or(0);
            state.totals.held = state.totals.held.saturating_sub(counted);
            state.reported.insert(key, ());
        }
    }

    /// Records that a body crossed the hop in `coded` bytes.
    pub(crate) fn transferred(&self, body: ContentHash, coded: u64) {
        let mut state = self.state();
        state.transfers.insert(body, coded);
        if state.unkept.len() < MAX_BODIES {
            state.unkept.push((body, coded));
        }
    }

    /// Returns the transfers since the last call.
    pub(crate) fn take_transfers(&self) -> Vec<(ContentHash, u64)> {
        std::mem::take(&mut self.state().unkept)
    }

    /// Restores transfers of earlier runs.
    pub(crate) fn remember(&self, transfers: Vec<(ContentHash, u64)>) {
        let mut state = self.state();
        for (body, coded) in transfers {
            state.transfers.insert(body, coded);
        }
    }

    /// Forgets all transfers.
    pub(crate) fn forget_transfers(&self) {
        let mut state = self.state();
        state.transfers = Recent::new(MAX_BODIES);
        state.unkept = Vec::new();
    }

    /// Counts an answer of the cache: what the body took on the hop when it was transferred. A body whose transfer is
    /// unknown counts nothing.
    pub(crate) fn answered(&self, body: &ContentHash) {
        let mut state = self.state();
        let coded = state.transfers.get(body).copied().unwrap_or(0);
        state.totals.cached = state.totals.cached.saturating_add(coded);
    }

    /// Counts the use of an entry whose body the agent holds, like an answer of the cache, unless an origin
    /// sent the body and the gateway counted it.
    pub(crate) fn used(&self, session: SessionSerial, entry: UnchangedEntry, body: &ContentHash) {
        let mut state = self.state();
        let key = (session, entry);
        if state.reported.get(&key).is_some() {
            return;
        }
        let coded = state.transfers.get(body).copied().unwrap_or(0);
        let before = state.used.get(&key).copied().unwrap_or(0);
        state.used.insert(key, before.saturating_add(coded));
        state.totals.held = state.totals.held.saturating_add(coded);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code can panic while the guarded data is inconsistent.
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_session::{EntryId, FetchId, Flow, PageId};

    use super::*;

    const ENTRY: UnchangedEntry = UnchangedEntry {
        page: PageId::of(FetchId::new(3)),
        entry: EntryId::new(1),
    };

    fn body() -> ContentHash {
        ContentHash::of(b"body")
    }

    #[test]
    fn a_cached_body_saves_no_more_than_its_first_transfer() {
        let savings = Savings::default();
        savings.reported(
            SessionSerial::next(),
            &OriginReport {
                coding: Flow {
                    origin: 9_000,
                    hop: 2_000,
                },
                ..OriginReport::default()
            },
        );
        savings.answered(&body());
        assert_eq!(savings.totals().cached, 0, "its transfer is unknown");
        savings.transferred(body(), 2_000);
        let first = savings.totals().saved(2_100);
        savings.answered(&body());
        let second = savings.totals().saved(2_100);
        assert_eq!(second.bytes - first.bytes, 2_000);
        assert_eq!(second.by_cause.cache, 2_000);
    }

    #[test]
    fn a_held_entry_counts_once_whether_its_report_or_its_use_comes_first() {
        let report = OriginReport {
            unchanged: 50_000,
            unchanged_entries: vec![ENTRY],
            ..OriginReport::default()
        };
        let session = SessionSerial::next();
        let early = Savings::default();
        early.transferred(body(), 700);
        early.reported(session, &report);
        early.used(session, ENTRY, &body());
        let late = Savings::default();
        late.transferred(body(), 700);
        late.used(session, ENTRY, &body());
        let causes = |savings: &Savings| {
            let by_cause = savings.totals().saved(0).by_cause;
            (by_cause.unchanged, by_cause.cache)
        };
        assert_eq!(causes(&late), (0, 700), "no origin has sent it");
        late.reported(session, &report);
        assert_eq!(early.totals(), late.totals());
        assert_eq!(causes(&early), (50_000, 0));
        // The same numbers in another session are another entry.
        early.used(SessionSerial::next(), ENTRY, &body());
        assert_eq!(causes(&early), (50_000, 700));
    }

    #[test]
    fn transfers_of_an_earlier_run_count_until_they_are_forgotten() {
        let earlier = Savings::default();
        earlier.transferred(body(), 300);
        let savings = Savings::default();
        savings.remember(earlier.take_transfers());
        assert!(earlier.take_transfers().is_empty(), "once");
        savings.answered(&body());
        savings.forget_transfers();
        savings.answered(&body());
        assert_eq!(savings.totals().cached, 300);
    }

    #[test]
    fn counts_continue_from_earlier_ones() {
        let first = Savings::default();
        first.transferred(body(), 10);
        first.answered(&body());
        let next = Savings::new(first.totals());
        assert_eq!(next.totals(), first.totals());
    }
}
