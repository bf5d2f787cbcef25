//! Origin connections for connection-bound logins (docs/protocol/session.md section 8).
use std::{collections::BTreeMap, sync::Arc, time::Instant};

use parking_lot::Mutex;

use http::HeaderMap;
use longhaul_http::credentials;
use longhaul_origin::OriginClient;
use longhaul_session::BoundConnectionId;

/// Maximum number of a session's browser connections with their own origin connections. A browser opens 6
/// proxy connections for each of the few hosts that use such logins.
const MAX_CONNECTIONS: usize = 64;

/// An origin client that serves exactly one browser connection.
pub type Login = Arc<OriginClient>;

/// The origin clients of one session's bound connections, by connection number.
#[derive(Debug, Default)]
pub struct Logins(Mutex<BTreeMap<BoundConnectionId, Entry>>);

#[derive(Debug)]
struct Entry {
    client: Login,
    used: Instant,
}

impl Logins {
    /// Returns true if a connection has a client of its own.
    pub fn is_used(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Returns the client for a request on this connection, or `None` if the request may share connections. A
    /// connection-bound request without a connection gets a client of its own.
    pub fn client_for(
        &self,
        connection: Option<BoundConnectionId>,
        browser: &HeaderMap,
        origin: &OriginClient,
        now: Instant,
    ) -> Option<Login> {
        let Some(connection) = connection else {
            return credentials::is_connection_bound(browser).then(|| Arc::new(origin.isolated()));
        };
        let mut entries = self.0.lock();
        let entry = entries.entry(connection).or_insert_with(|| Entry {
            client: Arc::new(origin.isolated()),
            used: now,
        });
        entry.used = now;
        let client = Arc::clone(&entry.client);
        let idle = origin.pool_idle();
        // A client in use has a second owner.
        entries.retain(|_, entry| {
            Arc::strong_count(&entry.client) > 1 || now.saturating_duration_since(entry.used) <= idle
        });
        if entries.len() > MAX_CONNECTIONS {
            let others = entries.iter().filter(|(number, _)| **number != connection);
            let oldest = others
                .min_by_key(|(_, entry)| entry.used)
                .map(|(number, _)| *number);
            if let Some(oldest) = oldest {
                entries.remove(&oldest);
            }
        }
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderValue, header};
    use longhaul_origin::OriginConfig;

    use super::*;

    fn origin() -> OriginClient {
        OriginClient::new(OriginConfig::default()).unwrap()
    }

    fn numbers(logins: &Logins) -> Vec<u64> {
        let connections = logins.0.lock();
        connections.keys().map(|connection| connection.number()).collect()
    }

    #[tokio::test]
    async fn each_login_connection_has_its_own_client() {
        let (logins, origin, now) = (Logins::default(), origin(), Instant::now());
        let plain = HeaderMap::new();
        let client = |number, fields: &HeaderMap| {
            logins.client_for(BoundConnectionId::new(number), fields, &origin, now)
        };
        assert!(client(0, &plain).is_none());
        let (one, again, other) = (
            client(1, &plain).unwrap(),
            client(1, &plain).unwrap(),
            client(2, &plain).unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &again));
        assert!(!Arc::ptr_eq(&one, &other));
        let ntlm = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("NTLM x"))]);
        let (first, second) = (client(0, &ntlm).unwrap(), client(0, &ntlm).unwrap());
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(numbers(&logins), [1, 2]);
    }

    #[tokio::test]
    async fn unused_login_connections_are_removed() {
        let (logins, origin, start) = (Logins::default(), origin(), Instant::now());
        let plain = HeaderMap::new();
        let kept = logins.client_for(BoundConnectionId::new(1), &plain, &origin, start);
        for number in 2..=100 {
            let now = start + Duration::from_millis(number);
            drop(logins.client_for(BoundConnectionId::new(number), &plain, &origin, now));
        }
        let left = numbers(&logins);
        assert_eq!(left.len(), MAX_CONNECTIONS);
        assert_eq!((left.first(), left.last()), (Some(&37), Some(&100)));
        drop(kept);
        let in_use = logins.client_for(BoundConnectionId::new(200), &plain, &origin, start);
        let late = start + origin.pool_idle() + Duration::from_secs(1);
        drop(logins.client_for(BoundConnectionId::new(201), &plain, &origin, late));
        assert_eq!(numbers(&logins), [200, 201], "idle ones go, one in use stays");
        drop(in_use);
    }
}
