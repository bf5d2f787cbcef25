//! Sends `Evicted` for bodies that the agent no longer holds.
use std::time::Duration;

use longhaul_driver::LinkState;
use longhaul_session::{Evicted, Message, ShortHash};
use tokio::{sync::watch, time::timeout};

use super::state::SessionSnapshot;
use crate::store::EvictionReports;

/// Delay before `Evicted` is sent: evictions occur in bursts, which go in one message.
const BURST_TIME: Duration = Duration::from_millis(200);
/// Maximum number of hashes in one message: 3 KiB.
const MAX_HASHES_PER_MESSAGE: usize = 512;
/// Maximum number of hashes that wait for a session. More are dropped: an outdated mirror costs only a
/// `Want`.
const MAX_WAITING: usize = 8192;

/// Runs until the cache is closed.
pub(super) async fn send(mut reports: EvictionReports, mut view: watch::Receiver<SessionSnapshot>) {
    while let Some(first) = reports.next().await {
        let mut hashes = first;
        while hashes.len() < MAX_WAITING
            && let Ok(Some(more)) = timeout(BURST_TIME, reports.next()).await
        {
            hashes.extend(more);
        }
        hashes.truncate(MAX_WAITING);
        let open = view.wait_for(|view| {
            let state = view.session.as_ref().map(|session| session.link_state());
            matches!(state, Some(LinkState::Open))
        });
        let Some(session) = open.await.ok().and_then(|view| view.session.clone()) else {
            return;
        };
        for part in hashes.chunks(MAX_HASHES_PER_MESSAGE) {
            let hashes = part.iter().map(ShortHash::of).collect();
            session.send_control(Message::Evicted(Evicted { hashes }));
        }
    }
}
