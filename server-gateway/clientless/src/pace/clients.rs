//! The paces of clients.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_tcp_info::tcp_info;
use longhaul_types::LinkProfile;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::info;

use super::{Link, Pace};
use longhaul_gateway_core::client_network::ClientNetwork;

/// Time for which a client without connections is remembered, and the number of clients that are remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
const MAX_REMEMBERED: usize = 4096;

/// The paces of the networks that have connections, or had them.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    clients: Mutex<BTreeMap<ClientNetwork, Client>>,
    /// It has been logged that nothing is measured.
    is_refusal_known: AtomicBool,
}

#[derive(Debug)]
struct Client {
    pace: Arc<Pace>,
    /// When a connection was last known to be open.
    used: Instant,
}

impl Paces {
    /// The pace of a client's connection; `None` if its link is named as a fast one, or neither named nor measured.
    pub(crate) fn of(
        &self,
        client: IpAddr,
        connection: &Arc<Link>,
        link: Option<LinkProfile>,
    ) -> Option<Arc<Pace>> {
        let info = match tcp_info(&*connection.tcp()) {
            Ok(info) => Some(info),
            Err(error) => {
                if !self.is_refusal_known.swap(true, Relaxed) {
                    info!(
                        %error,
                        "the system does not tell how fast data arrives at clients without an agent (TCP_INFO), so only \
                         `clientless.link` keeps the queues of their links short"
                    );
                }
                None
            }
        };
        let pace = self.shared(ClientNetwork::of(client), link, info.is_some(), Instant::now())?;
        pace.add(connection, &info.unwrap_or_default());
        Some(pace)
    }

    /// The pace that the connections of a client share.
    fn shared(
        &self,
        client: ClientNetwork,
        link: Option<LinkProfile>,
        is_measured: bool,
        now: Instant,
    ) -> Option<Arc<Pace>> {
        let mut clients = self.clients.lock();
        clients.retain(|_, client| {
            // Connections hold the paces of their clients.
            if Arc::strong_count(&client.pace) > 1 {
                client.used = now;
            }
            now.saturating_duration_since(client.used) < REMEMBERED
        });
        if let Some(client) = clients.get_mut(&client) {
            client.used = now;
            return Some(Arc::clone(&client.pace));
        }
        let pace = Pace::of(link.map(|link| link.down), is_measured)?;
        if clients.len() >= MAX_REMEMBERED {
            let oldest = clients.iter().min_by_key(|(_, client)| client.used);
            if let Some(oldest) = oldest.map(|(client, _)| *client) {
                clients.remove(&oldest);
            }
        }
        let shared = Arc::clone(&pace);
        clients.insert(client, Client { pace, used: now });
        Some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> ClientNetwork {
        ClientNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn connections_of_one_client_share_a_pace_and_fast_links_have_none() {
        let (all, now) = (Paces::default(), Instant::now());
        let link = Some("gprs-3+1".parse().unwrap());
        let of = |text: &str| all.shared(network(text), link, true, now);
        let one = of("192.0.2.1").unwrap();
        assert!(Arc::ptr_eq(&one, &of("192.0.2.1").unwrap()));
        assert!(!Arc::ptr_eq(&one, &of("192.0.2.2").unwrap()));
        let six = of("2001:db8::1").unwrap();
        assert!(Arc::ptr_eq(&six, &of("2001:db8::2").unwrap()));
        let fast = Some("lan-fast".parse().unwrap());
        assert!(all.shared(network("192.0.2.8"), fast, true, now).is_none());
        // Neither named nor measured.
        assert!(all.shared(network("192.0.2.9"), None, false, now).is_none());
        assert!(all.shared(network("192.0.2.9"), link, false, now).is_some());
    }

    #[test]
    fn a_client_is_remembered_for_a_while() {
        let (all, now) = (Paces::default(), Instant::now());
        let of = |text: &str, at| all.shared(network(text), None, true, at).unwrap();
        let held = of("192.0.2.1", now);
        let pace = Arc::downgrade(&of("192.0.2.2", now));
        let within = now + REMEMBERED / 2;
        assert!(Arc::ptr_eq(&pace.upgrade().unwrap(), &of("192.0.2.2", within)));
        drop(of("192.0.2.3", within + REMEMBERED));
        assert!(pace.upgrade().is_none());
        assert!(Arc::ptr_eq(&held, &of("192.0.2.1", within + REMEMBERED)));
    }

    #[test]
    fn not_all_clients_are_remembered() {
        let (all, now) = (Paces::default(), Instant::now());
        for number in 0..=u32::try_from(MAX_REMEMBERED).unwrap() {
            let client = ClientNetwork::of(IpAddr::from(number.to_be_bytes()));
            all.shared(client, None, true, now + Duration::from_millis(number.into()));
        }
        let clients = all.clients.lock();
        assert_eq!(clients.len(), MAX_REMEMBERED);
        assert!(!clients.contains_key(&network("0.0.0.0")));
    }

    #[tokio::test]
    async fn a_connection_has_the_pace_of_its_clients_link() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap());
        let connection = Arc::new(Link::new(stream.await.unwrap()));
        let (all, client) = (Paces::default(), IpAddr::from([192, 0, 2, 1]));
        let of = |link: &str| all.of(client, &connection, Some(link.parse().unwrap()));
        assert!(of("lan-fast").is_none());
        let pace = of("gprs-3+1").unwrap();
        assert!(!pace.is_free());
        assert!(Arc::ptr_eq(&pace, &of("gprs-3+1").unwrap()));
    }
}
