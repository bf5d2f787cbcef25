//! Connections whose requests are not admitted, or whose clients are removed, end.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_gateway_core::admission::clients::{ClientIdentity, Clients};
use tokio::{sync::watch, time::sleep};

use super::access::Admitted;

/// Time within which a connection must send a request that is admitted: until then it takes up a place of those who may.
pub(super) const UNUSED_TIME: Duration = Duration::from_secs(60);

/// The requests of a connection that were admitted.
#[derive(Debug, Default)]
pub(super) struct Admission {
    is_used: AtomicBool,
    /// The clients with names that sent them.
    clients: watch::Sender<Vec<ClientIdentity>>,
}

impl Admission {
    /// Notes such a request.
    pub(super) fn note(&self, admitted: &Admitted) {
        self.is_used.store(true, Relaxed);
        if let Admitted::Named(client, _) = admitted {
            self.clients.send_if_modified(|clients| {
                let is_new = !clients.contains(client);
                if is_new {
                    clients.push(*client);
                }
                is_new
            });
        }
    }

    /// Serves a connection; `None` if it sends no such request in time, whatever else it sends or does not read, or one of its
    /// clients is removed.
    pub(super) async fn serve<T>(
        &self,
        list: watch::Receiver<Arc<Clients>>,
        serving: impl Future<Output = T>,
    ) -> Option<T> {
        let missed = async {
            sleep(UNUSED_TIME).await;
            if self.is_used.load(Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            served = serving => Some(served),
            () = missed => None,
            () = self.removed(list) => None,
        }
    }

    /// Returns once a client of the connection is no longer in the list.
    pub(super) async fn removed(&self, mut list: watch::Receiver<Arc<Clients>>) {
        let mut served = self.clients.subscribe();
        loop {
            let clients = Arc::clone(&list.borrow_and_update());
            let is_removed = |client: &ClientIdentity| !clients.contains(*client);
            if served.borrow_and_update().iter().any(is_removed) {
                return;
            }
            let changed = tokio::select! {
                changed = list.changed() => changed,
                changed = served.changed() => changed,
            };
            if changed.is_err() {
                // The proxy has ended, and with it the list.
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_an_admitted_request_ends_and_others_go_on() {
        let admission = Admission::default();
        let list = watch::Sender::new(Arc::new(Clients::default()));
        let serve = || admission.serve(list.subscribe(), sleep(10 * UNUSED_TIME));
        assert_eq!(serve().await, None);
        admission.note(&Admitted::Unnamed);
        assert_eq!(serve().await, Some(()));
        // The client is not in the list.
        admission.note(&Admitted::Named(ClientIdentity::from_bytes([1; 32]), None));
        assert_eq!(serve().await, None);
    }
}
