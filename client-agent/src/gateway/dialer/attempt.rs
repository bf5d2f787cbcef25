//! One attempt to open a session: the addresses and carriers over which it is tried.
use std::{sync::Arc, time::Duration};

use longhaul_driver::LinkState;
use longhaul_proxy::{HttpProxy, ProxyError};
use longhaul_session::SiteImages;
use tokio::time::Instant;

use super::{AttemptOutcome, Dialer};
use crate::{
    gateway::{
        address_order::KnownAddresses,
        carriers::{self, Carriers, LinkAddresses},
        gateway_session::{Credentials, GatewaySession, SessionStart},
        link_tracker::Start,
        reachability,
        state::LinkKnowledge,
    },
    trouble::Trouble,
};

/// Timeout of the lookup of the gateway's name. Resolvers repeat a query after 5 s.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Handshake timeout: a queue of 10 s in the link is not rare on GPRS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

impl Dialer {
    /// Looks up the gateway's name and tries its addresses.
    pub(super) async fn try_addresses(&mut self) -> AttemptOutcome {
        let carriers = self.config.carrier.carriers;
        let proxy = self.config.carrier.proxy_to(&self.config.invite);
        let proxy = proxy.filter(|_| carriers.tls).cloned();
        if let (Carriers::TLS, Some(proxy)) = (carriers, &proxy) {
            return self.try_proxy(proxy).await;
        }
        let name = self.config.invite.address().to_owned();
        let trouble = match reachability::look_up(&name, LOOKUP_TIMEOUT).await {
            Ok(mut addresses) => {
                let all = KnownAddresses {
                    all: addresses.clone(),
                    ports: self.announced.of(self.config.invite.gateway()).udp_ports,
                };
                let missing = reachability::drop_unreachable(&mut addresses).await;
                if let Some(way) = self.link.begin(&addresses, all).await {
                    return self.run_attempt(way, carriers).await;
                }
                missing.unwrap_or(Trouble::NameNotFound(name))
            }
            Err(trouble) => trouble,
        };
        match &proxy {
            // A network whose only way out is a proxy may have no name servers and no routes for anything else.
            Some(proxy) => self.try_proxy(proxy).await,
            None => AttemptOutcome::Failed(trouble),
        }
    }

    /// Tries TLS through the proxy alone. The way to the proxy is then the link.
    async fn try_proxy(&mut self, proxy: &HttpProxy) -> AttemptOutcome {
        let addresses = match proxy.addresses().await {
            Ok(addresses) => addresses,
            Err(error) => return AttemptOutcome::Failed(Trouble::Proxy(error)),
        };
        match self.link.begin(&addresses, KnownAddresses::default()).await {
            Some(way) => self.run_attempt(way, Carriers::TLS).await,
            None => {
                let error = ProxyError::NotReached("its name has no address".to_owned());
                AttemptOutcome::Failed(Trouble::Proxy(error))
            }
        }
    }

    /// Runs one session, from the first datagram to its end.
    async fn run_attempt(&mut self, way: Start, over: Carriers) -> AttemptOutcome {
        self.diagnosis.expect_answer(Instant::now());
        let first = way.address;
        let at = LinkAddresses {
            first,
            others: way.alternatives.addresses.clone(),
            delay: way.alternatives.delay,
        };
        let credentials = Credentials {
            token: self.token,
            last_stamp: self.stamp,
        };
        let levels = self.config.rules.image_levels();
        self.site_images = SiteImages { levels };
        let pages = SessionStart {
            streams: Arc::clone(&self.config.page_streams),
            cache_state: self.config.store.state_id(),
            preferences: *self.config.preferences.borrow_and_update(),
            accelerated: self.config.https.accelerated_hosts(),
            site_images: self.site_images.clone(),
            probing: way.probing(),
            verify_profile: self.link.knowledge == LinkKnowledge::Remembered,
            without: self.config.without,
        };
        let known = way.known;
        known.explain(over);
        let planned = carriers::plan(&self.config.carrier, over, self.identity.invite(), &at, known);
        let (carriers, attempts) = match planned {
            Ok(planned) => planned,
            Err(trouble) => return AttemptOutcome::Failed(trouble),
        };
        self.over = over;
        self.attempts = attempts;
        self.link_trouble = None;
        let dialled = GatewaySession::dial(self.identity.invite(), way, carriers, credentials, pages);
        let session = match dialled {
            Ok(session) => session,
            Err(error) => return AttemptOutcome::Failed(Trouble::LocalError(error.to_string())),
        };
        // Before the first await: `move_to` ends the session that is published.
        self.view.send_modify(|view| {
            view.session = Some(Arc::clone(&session));
            view.link = self.link.knowledge;
        });
        self.store_stamp().await;
        // The look for the cause is made by UDP.
        let looked_at = over.udp.then_some(first);
        let outcome = match self.wait_for_answer(&session, looked_at, HANDSHAKE_TIMEOUT).await {
            None => {
                session.close("no answer");
                AttemptOutcome::Failed(self.silence())
            }
            Some(LinkState::Closed(reason)) => {
                AttemptOutcome::Failed(Trouble::of_close(reason, self.config.carrier.tried()))
            }
            Some(LinkState::Connecting | LinkState::Open | LinkState::Stalled) => {
                self.run_session(&session).await
            }
        };
        self.link.record(&session.stats()).await;
        self.traffic_totals.add_closed(&session);
        outcome
    }
}
