//! State shared by the tasks of one session.
use std::sync::{Arc, OnceLock};

use longhaul_gateway_core::{gateway::Gateway, logins::Logins, quota::reached::QuotaState};
use longhaul_pageload::{context::PageLoadContext, registry::PageLoadRegistry};
use parking_lot::{Mutex, MutexGuard};

use longhaul_driver::{EarlyData, End, OpenOptions, Session, SessionError};
use longhaul_session::{FetchId, FieldCoding, HeaderSets, Message, PageId, class, encode};
use longhaul_types::{LinkProfile, PublicKey, Technique};

use super::{
    associations::Associations,
    cancellation::{Cancellations, Registration},
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
    pub(crate) page_loads: Arc<PageLoadRegistry>,
    /// The quota of the device.
    pub(crate) quota: Arc<QuotaState>,
    /// The open UDP associations.
    pub(crate) associations: Associations,
    /// Number of the agent's introduction, once `Hello` has arrived.
    pub(crate) introduction: OnceLock<u64>,
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
        let field_coding = if gateway.without.contains(Technique::Headers) {
            FieldCoding::Literal
        } else {
            FieldCoding::Shared
        };
        let quota = gateway.quotas.state(device);
        let page_loads =
            PageLoadContext::new(Arc::clone(&gateway), session.clone(), device, profile, window_key);
        let page_loads = Arc::new(PageLoadRegistry::new(page_loads));
        Self {
            window_key,
            gateway,
            session,
            device,
            profile,
            request_sets: Mutex::new(HeaderSets::new()),
            response_sets: Mutex::new(HeaderSets::with_coding(field_coding)),
            cancellations: Cancellations::default(),
            logins: Logins::default(),
            page_loads,
            quota,
            associations: Associations::default(),
            introduction: OnceLock::new(),
        }
    }

    pub(crate) fn request_sets(&self) -> MutexGuard<'_, HeaderSets> {
        self.request_sets.lock()
    }

    pub(crate) fn response_sets(&self) -> MutexGuard<'_, HeaderSets> {
        self.response_sets.lock()
    }

    /// Registers a fetch or tunnel for cancellation; `None` if its number is in use.
    pub(crate) fn register(&self, id: FetchId) -> Option<Registration<'_>> {
        self.cancellations.register(id)
    }

    /// Cancels a fetch and its page load, or a tunnel. The fetch or tunnel may not have arrived yet.
    pub(crate) fn cancel(&self, id: FetchId) {
        self.page_loads.cancel(PageId::of(id));
        self.cancellations.cancel(id);
    }

    /// Sends a message that takes the place of a response or precedes it, on a stream of its own.
    ///
    /// # Errors
    /// The session has ended: then nobody can receive the message.
    pub(crate) async fn send_alone(&self, message: &Message) -> Result<(), SessionError> {
        let mut wire = Vec::new();
        // The detail is at most 500 characters, which fits any envelope.
        let _fits = encode(message, &mut wire);
        let total = Some(wire.len() as u64);
        let options = OpenOptions {
            class: class::PAGE,
            early: EarlyData::Allowed,
            total,
        };
        self.session
            .open(options, wire.into(), End::Finish)
            .await
            .map(drop)
    }
}
