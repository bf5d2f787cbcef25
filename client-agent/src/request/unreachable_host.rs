//! Requests to a host that the gateway could not reach for the same page.
use longhaul_session::{FailureReason, FetchKind};

use super::task::RequestTask;
use crate::pages::Failure;

impl RequestTask {
    /// Returns the failure of an earlier request of the same page load to the same scheme, host and port. It answers only
    /// requests that could be repeated, and never a navigation.
    pub(super) fn known_host_failure(&self) -> Option<Failure> {
        let page = self.page.as_ref()?;
        let is_object = self.request.fetch.kind == FetchKind::Object;
        if !is_object || !self.is_repeatable_now() || self.request.is_bound() {
            return None;
        }
        let (reason, detail) = page.load.host_failure(&self.request.fetch.origin)?;
        page.load.mark_failed(&self.request.fetch.url);
        Some(Failure::Gateway { reason, detail })
    }

    /// Records that the gateway could not answer the request.
    pub(super) fn record_host_failure(&self, reason: FailureReason, detail: &str) {
        if let Some(page) = &self.page {
            page.load
                .record_host_failure(&self.request.fetch.origin, reason, detail);
        }
    }
}
