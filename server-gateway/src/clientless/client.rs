//! The clients of the proxy, as the fetcher sees them.
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, Method, header};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_session::{ImageLevel, Preferences};
use longhaul_types::{BitRate, ClientId, ContentHash, PublicKey};
use longhaul_webcache::RequesterIdentity;
use parking_lot::Mutex;

use super::access::Admitted;
use crate::{
    client::Client,
    config::clientless::LEVELS,
    images::{HopReservations, ImageRecipient},
    pageload::context::ObservedRequests,
};

/// The image level of a request; it is not forwarded.
pub(super) const LEVEL: HeaderName = HeaderName::from_static("x-longhaul-level");

/// A client of the proxy.
#[derive(Clone)]
pub(super) struct ClientlessClient {
    /// Owner of what belongs to the client.
    pub(super) owner: PublicKey,
    /// True if nothing private is stored for the client, because its address may have other users.
    pub(super) is_unnamed: bool,
    pub(super) level: ImageLevel,
    pub(super) link: Option<BitRate>,
    pub(super) browser: Arc<BrowserState>,
}

/// What is known of one browser of a client.
#[derive(Default)]
pub(super) struct BrowserState {
    /// The browser's requests, as far as they help to predict others.
    pub(super) observed: Mutex<ObservedRequests>,
    /// Page loads that fetch ahead of the browser.
    pub(super) pages: Mutex<usize>,
    pictures: HopReservations,
}

/// The browsers of the clients that have connections.
#[derive(Default)]
pub(super) struct Browsers(Mutex<BTreeMap<[u8; 32], Arc<BrowserState>>>);

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
        let mut browsers = self.0.lock();
        // Connections hold the states of their browsers.
        browsers.retain(|_, state| Arc::strong_count(state) > 1);
        Arc::clone(browsers.entry(*hash.finalize().as_bytes()).or_default())
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

    /// Removes the private partition of a client without name.
    pub(super) fn restrict(&self, identity: RequesterIdentity) -> RequesterIdentity {
        if self.is_unnamed {
            identity.without_partition()
        } else {
            identity
        }
    }
}

impl ImageRecipient for ClientlessClient {
    fn device(&self) -> PublicKey {
        self.owner
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
    fn link_rate(&self) -> Option<BitRate> {
        self.link
    }

    fn preferences(&self) -> Preferences {
        Preferences {
            images: self.level,
            ..Preferences::default()
        }
    }
}
