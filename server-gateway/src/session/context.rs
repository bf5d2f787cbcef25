//! State shared by the tasks of one session.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_driver::Session;
use longhaul_session::HeaderSets;
use longhaul_types::{LinkProfile, PublicKey};

use super::{
    cancellation::{Cancellations, Registration},
    logins::Logins,
};
use crate::{
    gateway::Gateway,
    pageload::{context::PageLoadContext, page_loads::PageLoads, registry::PageLoadRegistry},
};

/// State shared by the tasks of one session.
pub(crate) struct SessionContext {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) session: Session,
    pub(crate) device: PublicKey,
    pub(crate) profile: Option<LinkProfile>,
    /// Secret for window checks; see docs/protocol/session.md section 6.
    pub(crate) window_key: [u8; 32],
    request_sets: Mutex<HeaderSets>,
    response_sets: Mutex<HeaderSets>,
    cancellations: Cancellations,
    pub(crate) logins: Logins,
    /// The session's page loads, as the interface for fetches.
    pub(crate) loads: Arc<dyn PageLoads>,
    /// The session's page loads, as the interface for control messages.
    pub(crate) bundles: Arc<PageLoadRegistry>,
}

impl SessionContext {
    /// Creates the state of a new session.
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        session: Session,
        device: PublicKey,
        profile: Option<LinkProfile>,
        window_key: [u8; 32],
    ) -> Self {
        let bundles =
            PageLoadContext::new(Arc::clone(&gateway), session.clone(), device, profile, window_key);
        let bundles = Arc::new(PageLoadRegistry::new(bundles));
        Self {
            window_key,
            gateway,
            session,
            device,
            profile,
            request_sets: Mutex::new(HeaderSets::new()),
            response_sets: Mutex::new(HeaderSets::new()),
            cancellations: Cancellations::default(),
            logins: Logins::default(),
            loads: Arc::clone(&bundles) as Arc<dyn PageLoads>,
            bundles,
        }
    }

    pub(crate) fn request_sets(&self) -> MutexGuard<'_, HeaderSets> {
        lock(&self.request_sets)
    }

    pub(crate) fn response_sets(&self) -> MutexGuard<'_, HeaderSets> {
        lock(&self.response_sets)
    }

    /// Registers a fetch or tunnel for cancellation; `None` if its number is in use.
    pub(crate) fn register(&self, id: u64) -> Option<Registration<'_>> {
        self.cancellations.register(id)
    }

    /// Cancels a fetch and its page load, or a tunnel. The fetch or tunnel may not have arrived yet.
    pub(crate) fn cancel(&self, id: u64) {
        self.bundles.cancel(id);
        self.cancellations.cancel(id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code can panic while the guarded data is inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
