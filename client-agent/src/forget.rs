//! Deletion at both ends of the data that was fetched from a site or for it, or of all data
//! (docs/protocol/session.md section 10).
//!
//! The agent deletes its own data at once. It sends `Forget` in the session; until the gateway confirms it,
//! the deletion is kept in the state directory.
use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use longhaul_http::site::registrable_domain;
use longhaul_session::{self as messages, ForgetId, Message};
use longhaul_types::ClientId;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::timeout};
use tracing::warn;

use crate::{
    gateway::{Gateway, RequiredSessionState},
    history::History,
    holdout::HoldOut,
    journal::Journal,
    networks::NetworkMemory,
    pageload::PageLoads,
    state_dir::StateDir,
    store::Store,
    upstream::WaitingPages,
};

/// Maximum wait of a caller for the gateway's confirmation. A round trip takes a second or two on the slowest
/// hops.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of pending deletions. If there are more, one deletion of all data replaces them.
const MAX_PENDING: usize = 256;
/// Maximum length of a host name (RFC 1035 section 2.3.4).
const MAX_NAME: usize = 253;

/// Error: the text is not the name of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a site: give a host name such as example.org, without scheme and path")]
pub struct InvalidSite(pub String);

/// A site, identified by its registrable domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site(String);

impl std::str::FromStr for Site {
    type Err = InvalidSite;

    fn from_str(text: &str) -> Result<Self, InvalidSite> {
        let name = text.trim().trim_end_matches('.').to_ascii_lowercase();
        let is_name = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':')
        };
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name) {
            return Err(InvalidSite(text.to_owned()));
        }
        Ok(Self(registrable_domain(&name).to_owned()))
    }
}

impl Site {
    /// The registrable domain.
    pub fn domain(&self) -> &str {
        &self.0
    }
}

/// Result of a deletion. The agent's own data is deleted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionOutcome {
    /// The gateway has confirmed the deletion.
    Confirmed,
    /// The gateway could not be reached; `Forget` is sent as soon as possible.
    GatewayPending,
}

impl std::fmt::Display for DeletionOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Confirmed => "deleted on this machine and at the gateway",
            Self::GatewayPending => {
                "deleted on this machine; the gateway does not answer and will delete as soon as it can be reached"
            }
        })
    }
}

/// A pending deletion at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PendingDeletion {
    id: u64,
    client: Option<u64>,
    site: Option<String>,
}

/// Handle for deletions at both ends.
#[derive(Clone, Debug)]
pub struct DeletionQueue(Arc<Inner>);

/// What the agent keeps and deletes on demand.
#[derive(Debug)]
pub(crate) struct KeptData {
    /// The cache.
    pub(crate) store: Store,
    /// Page loads with their pushed bodies.
    pub(crate) loads: PageLoads,
    /// Pages that wait for the hop.
    pub(crate) waiting_pages: WaitingPages,
    /// The links of networks.
    pub(crate) networks: NetworkMemory,
    /// What bodies took on the hop.
    pub(crate) history: History,
    /// The last requests, which are those of the user who runs the agent.
    pub(crate) journal: Journal,
    /// The times of visits.
    pub(crate) hold_out: HoldOut,
}

#[derive(Debug)]
struct Inner {
    kept: KeptData,
    state_dir: StateDir,
    pending: Mutex<Vec<PendingDeletion>>,
    changed: watch::Sender<()>,
}

impl DeletionQueue {
    /// Reads the pending deletions, and sends them to the gateway while the agent runs.
    pub(crate) fn start(kept: KeptData, state_dir: StateDir, gateway: &Gateway) -> Self {
        let pending = state_dir.forgets();
        let pending = pending.and_then(|text| serde_json::from_str(&text).ok());
        let deletions = Self(Arc::new(Inner {
            kept,
            state_dir,
            pending: Mutex::new(pending.unwrap_or_default()),
            changed: watch::Sender::new(()),
        }));
        tokio::spawn(send_pending(Arc::clone(&deletions.0), gateway.clone()));
        deletions
    }

    /// Deletes the data of a client, or of all clients, from a site or for it, or all data. The agent's files
    /// contain none of this data when the call returns.
    pub async fn forget(&self, client: Option<ClientId>, site: Option<&Site>) -> DeletionOutcome {
        let inner = &self.0;
        inner.kept.waiting_pages.forget(client, site.map(Site::domain));
        inner.kept.loads.end_of_site(client, site.map(Site::domain));
        let id = inner.add(client, site);
        if site.is_none() {
            let networks = inner.kept.networks.clone();
            // This fails only when the process ends.
            let _done = tokio::task::spawn_blocking(move || networks.forget()).await;
            inner.kept.hold_out.forget().await;
        } else {
            inner.kept.hold_out.forget_hosts();
        }
        if client.is_none_or(|client| client == ClientId::OWNER) {
            inner.kept.journal.forget(site.map(Site::domain)).await;
        }
        inner.kept.history.forget().await;
        inner.kept.store.forget(client, site.map(Site::domain)).await;
        let mut changes = inner.changed.subscribe();
        let told = changes.wait_for(|()| !inner.pending().iter().any(|deletion| deletion.id == id));
        match timeout(CONFIRMATION_TIMEOUT, told).await {
            Ok(Ok(_)) => DeletionOutcome::Confirmed,
            Ok(Err(_)) | Err(_) => DeletionOutcome::GatewayPending,
        }
    }
}

impl Inner {
    fn pending(&self) -> MutexGuard<'_, Vec<PendingDeletion>> {
        self.pending.lock()
    }

    fn add(&self, client: Option<ClientId>, site: Option<&Site>) -> u64 {
        let mut pending = self.pending();
        let id = pending.last().map_or(1, |last| last.id + 1);
        if pending.len() >= MAX_PENDING {
            pending.clear();
            pending.push(PendingDeletion {
                id,
                client: None,
                site: None,
            });
        } else {
            pending.push(PendingDeletion {
                id,
                client: client.map(|client| client.0),
                site: site.map(|site| site.domain().to_owned()),
            });
        }
        self.store_pending(&pending);
        drop(pending);
        self.changed.send_replace(());
        id
    }

    fn remove(&self, id: u64) {
        let mut pending = self.pending();
        pending.retain(|deletion| deletion.id != id);
        self.store_pending(&pending);
        drop(pending);
        self.changed.send_replace(());
    }

    fn store_pending(&self, pending: &[PendingDeletion]) {
        let text = serde_json::to_string(pending).unwrap_or_default();
        if let Err(error) = self.state_dir.keep_forgets(&text) {
            warn!(%error, "a pending deletion cannot be stored and is lost if the agent ends before the gateway confirms it");
        }
    }
}

/// Sends the pending deletions to the gateway, one after the other.
async fn send_pending(inner: Arc<Inner>, gateway: Gateway) {
    let mut changes = inner.changed.subscribe();
    loop {
        changes.borrow_and_update();
        let next = inner.pending().first().cloned();
        let Some(deletion) = next else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        let (session, _) = gateway.wait_for_session(RequiredSessionState::Open).await;
        let id = ForgetId::new(deletion.id);
        session.send_control(Message::Forget(messages::Forget {
            id,
            client: deletion.client.map(ClientId),
            site: deletion.site,
        }));
        if session.wait_for_forgotten(id).await {
            inner.remove(deletion.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_to_forget_are_given_as_host_names() {
        for (text, domain) in [
            ("example.org", "example.org"),
            (" WWW.Example.ORG. ", "example.org"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("10.0.0.1", "10.0.0.1"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(text.parse::<Site>().unwrap().domain(), domain);
        }
        for text in [
            "",
            "https://example.org/",
            "a b",
            "example.org/x",
            &"x".repeat(300),
        ] {
            assert!(text.parse::<Site>().is_err(), "{text}");
        }
    }
}
