//! The clients of the proxy, as the fetcher sees them.
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderName, Method, header};
use longhaul_gateway_core::{
    client::Client, client_network::ClientNetwork, config::clientless::LEVELS,
    observed_requests::ObservedRequests,
};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_images::{HopReservations, ImageRecipient};
use longhaul_origin::ConnectionOwner;
use longhaul_session::{ImageLevel, Preferences};
use longhaul_types::{BitRate, ClientId, ContentHash, PublicKey};
use longhaul_webcache::RequesterIdentity;
use parking_lot::Mutex;

use super::{access::Admitted, network_shares::NetworkShares, prefetched::PrefetchedBytes};

/// The image level of a request; it is not forwarded.
pub(super) const LEVEL: HeaderName = HeaderName::from_static("x-longhaul-level");

/// A client of the proxy.
#[derive(Clone)]
pub(super) struct ClientlessClient {
    /// Owner of what belongs to the client.
    pub(super) owner: PublicKey,
    /// Whose bytes of a day or month the client uses: those of all clients without a name in one network are the same.
    pub(super) limits: PublicKey,
    /// Whose share of streams, turns and slots it takes.
    pub(super) share: PublicKey,
    /// True if nothing private is stored for the client, because its address may have other users.
    pub(super) is_unnamed: bool,
    pub(super) level: ImageLevel,
    pub(super) link: Option<BitRate>,
    pub(super) browser: Arc<BrowserState>,
    /// Page loads that fetch ahead of all browsers with the same share.
    pub(super) pages: Arc<Mutex<usize>>,
}

/// What is known of one browser of a client.
#[derive(Default)]
pub(super) struct BrowserState {
    /// The browser's requests, as far as they help to predict others.
    pub(super) observed: Mutex<ObservedRequests>,
    /// Page loads that fetch ahead of the browser.
    pub(super) pages: Mutex<usize>,
    /// Objects that were fetched ahead of the browser.
    pub(super) prefetched: PrefetchedBytes,
    pictures: HopReservations,
}

/// The browsers of the clients that have connections.
#[derive(Default)]
pub(super) struct Browsers {
    states: Mutex<BTreeMap<[u8; 32], Arc<BrowserState>>>,
    /// Page loads by share: a client can call itself a new browser with each request.
    pages: Mutex<BTreeMap<PublicKey, Arc<Mutex<usize>>>>,
}

/// Owner of what belongs to a client.
pub(super) fn owner(admitted: &Admitted, peer: IpAddr) -> PublicKey {
    match admitted {
        Admitted::Named(client, _) => client.owner(),
        Admitted::Unnamed => {
            let address = peer.to_string();
            PublicKey::from_bytes(blake3::derive_key(
                "longhaul clientless address",
                address.as_bytes(),
            ))
        }
    }
}

/// Whose bytes a client uses: its own if it has a name, else those of its network, because it can change its address.
pub(super) fn limits(admitted: &Admitted, peer: IpAddr) -> PublicKey {
    match admitted {
        Admitted::Named(client, _) => client.owner(),
        Admitted::Unnamed => ClientNetwork::of(peer).key(),
    }
}

/// Whose share of streams, turns and slots a client takes: its own if it has a name, else that of its network.
pub(super) fn share(admitted: &Admitted, peer: IpAddr, shares: &NetworkShares) -> PublicKey {
    match admitted {
        Admitted::Named(client, _) => client.owner(),
        Admitted::Unnamed => shares.of(peer, Instant::now()),
    }
}

/// Owner of the connections and look-ups for a client without a name.
pub(super) fn unnamed_connections(peer: IpAddr, shares: &NetworkShares) -> ConnectionOwner {
    ConnectionOwner::OfNetwork {
        client: owner(&Admitted::Unnamed, peer),
        network: share(&Admitted::Unnamed, peer, shares),
    }
}

/// Takes the image level out of a request.
pub(super) fn take_level(headers: &mut HeaderMap) -> Option<ImageLevel> {
    let name = headers.remove(LEVEL)?;
    LEVELS
        .into_iter()
        .find(|level| level.name().as_bytes() == name.as_bytes())
}

impl Browsers {
    /// The browser that sent a request. Several browsers may be behind one address, so that what one of them sends
    /// must not appear in what is predicted for another.
    pub(super) fn of(&self, owner: &PublicKey, headers: &HeaderMap) -> Arc<BrowserState> {
        let mut hash = blake3::Hasher::new();
        hash.update(owner.as_bytes());
        for name in [header::USER_AGENT, header::ACCEPT_LANGUAGE] {
            for value in headers.get_all(name) {
                hash.update(value.as_bytes());
            }
            hash.update(b"\n");
        }
        let mut browsers = self.states.lock();
        // Connections hold the states of their browsers.
        browsers.retain(|_, state| Arc::strong_count(state) > 1);
        Arc::clone(browsers.entry(*hash.finalize().as_bytes()).or_default())
    }

    /// The page loads of all browsers with this share.
    pub(super) fn pages(&self, share: PublicKey) -> Arc<Mutex<usize>> {
        let mut pages = self.pages.lock();
        pages.retain(|_, count| Arc::strong_count(count) > 1);
        Arc::clone(pages.entry(share).or_default())
    }
}

impl ClientlessClient {
    /// Device and operating-system user in the terms of agents.
    pub(super) const fn who(&self) -> (PublicKey, ClientId) {
        (self.owner, ClientId::OWNER)
    }

    /// Identity of a request of the client.
    pub(super) fn identity(
        &self,
        secret: &CredentialsSecret,
        method: &Method,
        url: &str,
        browser: &HeaderMap,
    ) -> RequesterIdentity {
        self.restrict(RequesterIdentity::of(self.who(), secret, method, url, browser))
    }

    /// Owner of the client's connections to origins.
    pub(super) const fn connection_owner(&self) -> ConnectionOwner {
        if self.is_unnamed {
            ConnectionOwner::OfNetwork {
                client: self.owner,
                network: self.share,
            }
        } else {
            ConnectionOwner::Device(self.owner)
        }
    }

    /// Removes the private partition of a client without name, and applies the share of its network.
    pub(super) fn restrict(&self, identity: RequesterIdentity) -> RequesterIdentity {
        if self.is_unnamed {
            identity.without_partition().in_network(self.share)
        } else {
            identity
        }
    }
}

impl ImageRecipient for ClientlessClient {
    fn device(&self) -> PublicKey {
        self.share
    }

    fn link_rate(&self) -> Option<BitRate> {
        self.link
    }

    fn queued(&self) -> Duration {
        // Unknown: the kernel has the queue.
        Duration::ZERO
    }

    fn promised(&self) -> &HopReservations {
        &self.browser.pictures
    }

    fn holds(&self, _: &ContentHash) -> bool {
        false
    }
}

impl Client for ClientlessClient {
    fn preferences(&self) -> Preferences {
        Preferences {
            images: self.level,
            ..Preferences::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::HeaderValue;
    use longhaul_types::ByteCount;

    use super::*;
    use crate::day_bytes::DayBytes;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn another_address_of_the_network_has_no_bytes_of_its_own() {
        let (day, now) = (DayBytes::new(ByteCount::new(1000)), SystemTime::UNIX_EPOCH);
        let add = |text: &str, bytes| day.add(limits(&Admitted::Unnamed, address(text)), bytes, now);
        assert!(add("2001:db8::1", 1000));
        assert!(!add("2001:db8::2", 1));
        assert!(add("2001:db8:0:1::1", 1000));
        assert!(add("192.0.2.1", 1000));
        assert!(!add("::ffff:192.0.2.1", 1));
    }

    #[test]
    fn the_clients_of_a_network_share_limits_and_nothing_else() {
        let [one, other] = ["2001:db8::1", "2001:db8::2"].map(address);
        assert_ne!(owner(&Admitted::Unnamed, one), owner(&Admitted::Unnamed, other));
        let shares = NetworkShares::default();
        let [one, other] = [one, other].map(|peer| unnamed_connections(peer, &shares));
        assert_ne!(one, other);
        assert_eq!(one.share(), other.share());
    }

    #[test]
    fn a_request_may_name_the_level_of_its_images_and_no_origin_sees_it() {
        for level in LEVELS {
            let value = HeaderValue::from_static(level.name());
            let mut headers = HeaderMap::from_iter([(LEVEL, value)]);
            assert_eq!(take_level(&mut headers), Some(level));
            assert!(headers.is_empty());
        }
        let mut headers = HeaderMap::from_iter([(LEVEL, HeaderValue::from_static("beautiful"))]);
        assert_eq!(take_level(&mut headers), None);
        assert!(headers.is_empty());
    }

    #[test]
    fn counts_of_pages_are_kept_as_long_as_there_are_clients() {
        let browsers = Browsers::default();
        let share = |number| PublicKey::from_bytes([number; 32]);
        let one = browsers.pages(share(1));
        assert!(Arc::ptr_eq(&one, &browsers.pages(share(1))));
        let other = browsers.pages(share(2));
        assert!(!Arc::ptr_eq(&one, &other));
        drop(one);
        browsers.pages(share(2));
        assert_eq!(browsers.pages.lock().len(), 1);
    }
}
