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
pub(crate) struct Associations(Mutex<BTreeMap<FetchId, mpsc::Sender<Part>>>);

impl Associations {
    /// Passes a datagram of the session to its association. Drops it if there is none or it is behind.
    pub(crate) fn deliver(&self, datagram: Bytes) {
        if let Ok(part) = part_of(datagram)
            && let Some(parts) = self.0.lock().get(&part.association)
        {
            let _behind = parts.try_send(part);
        }
    }

    /// Registers an association.
    pub(crate) fn register(&self, id: FetchId) -> (Registered<'_>, mpsc::Receiver<Part>) {
        let (sender, parts) = mpsc::channel(WAITING);
        self.0.lock().insert(id, sender);
        (Registered(self, id), parts)
    }
}

/// An association gets datagrams until this is dropped.
pub(crate) struct Registered<'a>(&'a Associations, FetchId);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}
