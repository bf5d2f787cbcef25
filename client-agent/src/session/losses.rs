//! Tells the gateway which bodies the agent holds no longer.
use std::time::Duration;

use longhaul_driver::LinkState;
use longhaul_protocol::session::{Evicted, Message, ShortHash};
use longhaul_types::ContentHash;
use tokio::{sync::watch, time::timeout};

use super::View;
use crate::store::Losses;

/// Evictions come in bursts; so long the first one waits for the others.
const BURST: Duration = Duration::from_millis(200);
/// Hashes in one message: 3 KiB.
const IN_ONE: usize = 512;
/// Hashes that wait for a session. More are dropped: a wrong belief of the gateway costs a `Want`.
const MAX_WAITING: usize = 8192;

/// Runs until there is no cache any more.
pub(super) async fn tell(mut losses: Losses, mut view: watch::Receiver<View>) {
    while let Some(first) = losses.next().await {
        let mut hashes = first;
        while hashes.len() < MAX_WAITING
            && let Ok(Some(more)) = timeout(BURST, losses.next()).await
        {
            hashes.extend(more);
        }
        hashes.truncate(MAX_WAITING);
        let open = view.wait_for(|view| {
            let state = view.hop.as_ref().map(|hop| hop.link_state());
            matches!(state, Some(LinkState::Open))
        });
        let Some(hop) = open.await.ok().and_then(|view| view.hop.clone()) else {
            return;
        };
        for part in hashes.chunks(IN_ONE) {
            let hashes = part.iter().map(short).collect();
            hop.tell(Message::Evicted(Evicted { hashes }));
        }
    }
}

/// The first bytes of a CHK.
pub(crate) fn short(chk: &ContentHash) -> ShortHash {
    let mut short = ShortHash::default();
    let length = short.len();
    short.copy_from_slice(&chk.as_bytes()[..length]);
    short
}
