//! The open UDP associations of a session.
use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_session::{
    FetchId,
    datagram::{Part, part_of},
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Datagrams that wait for the task of an association, which never waits itself.
const WAITING: usize = 256;

/// The open associations of a session, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Associations(Mutex<BTreeMap<FetchId, mpsc::Sender<Part>>>);

impl Associations {
    /// Passes a datagram of the session to its association. Drops it if there is none or it is behind.
    pub(super) fn deliver(&self, datagram: Bytes) {
        if let Ok(part) = part_of(datagram)
            && let Some(parts) = self.0.lock().get(&part.association)
        {
            let _behind = parts.try_send(part);
        }
    }

    /// Registers an association.
    pub(super) fn register(&self, id: FetchId) -> mpsc::Receiver<Part> {
        let (sender, parts) = mpsc::channel(WAITING);
        self.0.lock().insert(id, sender);
        parts
    }

    pub(super) fn remove(&self, id: FetchId) {
        self.0.lock().remove(&id);
    }
}
