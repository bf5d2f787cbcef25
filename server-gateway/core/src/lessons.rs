//! Storage of what ended page loads teach. It takes up to a second for a page (a search of its bodies), and neither the
//! session's other messages nor the end of the session wait for it.
use std::{sync::Arc, time::Duration};

use longhaul_http::request_context::RequestContext;
use longhaul_origin::{FairShares, Shares};
use longhaul_types::{ClientId, PublicKey};
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::timeout};
use tracing::debug;

/// Searches at the same time, of all devices.
const SEARCHES: usize = 2;
/// Page loads of one device whose results wait; those of further ones are not learned from.
const WAITING: usize = 8;
/// Maximum wait for the results at the end of the gateway.
const FAREWELL: Duration = Duration::from_secs(3);

/// The page loads whose results are being stored.
#[derive(Debug)]
pub struct Lessons {
    turns: Arc<FairShares<PublicKey>>,
    running: Mutex<Vec<Lesson>>,
}

#[derive(Debug)]
struct Lesson {
    device: PublicKey,
    context: RequestContext,
    task: JoinHandle<()>,
}

impl Default for Lessons {
    fn default() -> Self {
        Self {
            turns: FairShares::new(Shares {
                total: SEARCHES,
                per_owner: 1,
                reserved: 0,
                waiting: WAITING,
            }),
            running: Mutex::default(),
        }
    }
}

impl Lessons {
    /// Waits for the result of a device's page load with this context, and then for its turn to store it.
    pub fn keep<S>(
        &self,
        device: PublicKey,
        context: RequestContext,
        result: impl Future<Output = Option<S>> + Send + 'static,
    ) where
        S: Future<Output = ()> + Send + 'static,
    {
        let turns = Arc::clone(&self.turns);
        let task = tokio::spawn(async move {
            let Some(storing) = result.await else { return };
            match turns.acquire(device).await {
                Ok(_turn) => storing.await,
                Err(error) => debug!(%error, "a page load is not learned from"),
            }
        });
        let mut running = self.running.lock();
        running.retain(|lesson| !lesson.task.is_finished());
        running.push(Lesson {
            device,
            context,
            task,
        });
    }

    /// Discards the results of a device that are not stored yet and that a deletion concerns.
    pub fn discard(&self, device: &PublicKey, client: Option<ClientId>, domain: Option<&str>) {
        self.running.lock().retain(|lesson| {
            let is_kept = lesson.device != *device || !concerns(&lesson.context, client, domain);
            if !is_kept {
                lesson.task.abort();
            }
            is_kept
        });
    }

    /// Returns once all results are stored, or after a time.
    pub async fn finished(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        let all = async {
            for lesson in running {
                // A task that panicked stores nothing.
                let _ended = lesson.task.await;
            }
        };
        if timeout(FAREWELL, all).await.is_err() {
            debug!("the gateway ends before all page loads are learned from");
        }
    }
}

/// True if the deletion of the data of one client or all clients for one site or all sites concerns a page load with this
/// context.
pub fn concerns(context: &RequestContext, client: Option<ClientId>, domain: Option<&str>) -> bool {
    let partition = context.partition();
    client.is_none_or(|client| client == context.client())
        && domain.is_none_or(|domain| partition.is_none_or(|partition| partition.concerns(domain)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderName, HeaderValue, Method};
    use longhaul_http::request_context::CredentialsSecret;
    use tokio::sync::Notify;

    use super::*;

    const ANNA: PublicKey = PublicKey::from_bytes([1; 32]);

    fn page(client: u64, url: &str) -> RequestContext {
        let fields = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
            ("sec-fetch-site", "none"),
        ];
        let fields =
            fields.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let secret = CredentialsSecret::derived_from(b"key");
        RequestContext::of(
            ClientId(client),
            &secret,
            &Method::GET,
            url,
            &HeaderMap::from_iter(fields),
        )
    }

    #[tokio::test]
    async fn a_deletion_discards_only_the_results_that_it_concerns() {
        let lessons = Lessons::default();
        let gate = Arc::new(Notify::new());
        let stored = Arc::new(Mutex::new(Vec::new()));
        for (name, client, url) in [
            ("kept site", 1, "http://kept.test/"),
            ("deleted", 1, "http://deleted.test/a"),
            ("other client", 2, "http://deleted.test/b"),
        ] {
            let (gate, stored) = (Arc::clone(&gate), Arc::clone(&stored));
            lessons.keep(ANNA, page(client, url), async move {
                gate.notified().await;
                Some(async move { stored.lock().push(name) })
            });
        }
        tokio::task::yield_now().await;
        lessons.discard(&ANNA, Some(ClientId(1)), Some("deleted.test"));
        lessons.discard(&PublicKey::from_bytes([2; 32]), None, None);
        gate.notify_waiters();
        lessons.finished().await;
        let mut stored = stored.lock().clone();
        stored.sort_unstable();
        assert_eq!(stored, ["kept site", "other client"]);
    }
}
