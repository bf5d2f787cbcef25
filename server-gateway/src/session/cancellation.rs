//! Cancellation of fetches and tunnels by their numbers.
use std::collections::{BTreeMap, BTreeSet};

use parking_lot::{Mutex, MutexGuard};

use longhaul_session::FetchId;
use tokio::sync::oneshot;

/// Maximum number of cancellations whose fetches are not registered yet. By default a session has 256 streams
/// that arrive, and as many whose fetches wait for a slot.
const MAX_OVERTAKING: usize = 1024;
/// Maximum number of ended fetches that are remembered. Their cancellations must not take the places of those
/// whose fetches are still to arrive.
const MAX_ENDED: usize = 1024;

/// The active fetches and tunnels of a session, and early cancellations.
#[derive(Debug, Default)]
pub(crate) struct Cancellations(Mutex<Cancels>);

impl Cancellations {
    /// Registers a fetch or tunnel for cancellation; `None` if its number is in use.
    pub(crate) fn register(&self, id: FetchId) -> Option<Registration<'_>> {
        let cancelled = self.lock().register(id)?;
        Some(Registration {
            cancellations: self,
            id,
            cancelled,
        })
    }

    /// Cancels a fetch or tunnel, which may not have arrived yet.
    pub(crate) fn cancel(&self, id: FetchId) {
        self.lock().cancel(id);
    }

    fn lock(&self) -> MutexGuard<'_, Cancels> {
        self.0.lock()
    }
}

/// Registration of an active fetch or tunnel.
pub(crate) struct Registration<'a> {
    cancellations: &'a Cancellations,
    id: FetchId,
    cancelled: oneshot::Receiver<()>,
}

impl Registration<'_> {
    /// Waits until the agent cancels the fetch or tunnel.
    pub(crate) async fn cancelled(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.cancellations.lock().end(self.id);
    }
}

#[derive(Debug, Default)]
struct Cancels {
    running: BTreeMap<FetchId, oneshot::Sender<()>>,
    /// Numbers cancelled before their fetch arrived, because streams arrive independently.
    overtaking: BTreeSet<FetchId>,
    /// Numbers of the last fetches and tunnels that have ended.
    ended: BTreeSet<FetchId>,
}

impl Cancels {
    fn register(&mut self, id: FetchId) -> Option<oneshot::Receiver<()>> {
        if self.running.contains_key(&id) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if self.overtaking.remove(&id) {
            // The receiver still exists.
            let _sent = sender.send(());
        } else {
            self.running.insert(id, sender);
        }
        Some(receiver)
    }

    fn end(&mut self, id: FetchId) {
        self.running.remove(&id);
        self.ended.insert(id);
        if self.ended.len() > MAX_ENDED {
            self.ended.pop_first();
        }
    }

    fn cancel(&mut self, id: FetchId) {
        match self.running.remove(&id) {
            Some(sender) => {
                // If the fetch ends at this moment, nothing is lost.
                let _ended = sender.send(());
            }
            None if self.ended.remove(&id) => {}
            // The fetch has not arrived yet, or ended long ago.
            None => {
                self.overtaking.insert(id);
                if self.overtaking.len() > MAX_OVERTAKING {
                    self.overtaking.pop_first();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellations_reach_running_and_later_fetches() {
        let mut cancels = Cancels::default();
        let mut running = cancels.register(FetchId::new(1)).unwrap();
        assert!(cancels.register(FetchId::new(1)).is_none(), "in use");
        cancels.cancel(FetchId::new(1));
        assert_eq!(running.try_recv(), Ok(()));
        cancels.cancel(FetchId::new(5));
        assert_eq!(cancels.register(FetchId::new(5)).unwrap().try_recv(), Ok(()));
        for id in 10..10_000 {
            cancels.cancel(FetchId::new(id));
        }
        assert_eq!(cancels.overtaking.len(), MAX_OVERTAKING);
        assert_eq!(cancels.register(FetchId::new(9_999)).unwrap().try_recv(), Ok(()));
    }

    #[test]
    fn cancellations_of_ended_fetches_do_not_displace_those_of_later_ones() {
        let mut cancels = Cancels::default();
        cancels.cancel(FetchId::new(1));
        for id in 2..10_000 {
            let _running = cancels.register(FetchId::new(id)).unwrap();
            cancels.end(FetchId::new(id));
            cancels.cancel(FetchId::new(id));
        }
        assert_eq!(cancels.register(FetchId::new(1)).unwrap().try_recv(), Ok(()));
        assert!(cancels.ended.len() <= MAX_ENDED);
    }
}
