//! Captive portals: the agent looks for one while the gateway is silent, and publishes it until it is gone
//! (docs/decisions/0039-captive-portals.md).
mod http;
mod look;

use std::{net::IpAddr, sync::Arc, time::Duration};

use longhaul_driver::{LinkState, NetworkChange};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tracing::{debug, info, warn};

use look::{Circumstances, Verdict, look};
pub use look::{PortalCheck, PortalSettings};

use super::{
    announced::Announced,
    state::{Enrolment, GatewayState, SessionSnapshot},
};
use crate::{
    networks::{Attachment, NetworkWatch, source_towards},
    session_serial::SessionSerial,
    trouble::{KnownTrouble, Trouble},
};

/// Time between two looks while a portal is known.
const AT_PORTAL: Duration = Duration::from_secs(5);
/// Time to the second look where there is none; it doubles with each look.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Looks in a row without an answer after which a portal counts as gone.
const UNANSWERED: u32 = 3;
/// An address on the way to which the default route is used (RFC 5737). Nothing is sent to it.
const OUTSIDE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const DISCARD: u16 = 9;

/// The task that looks for portals.
#[derive(Debug)]
pub(super) struct PortalWatch {
    pub(super) settings: PortalSettings,
    pub(super) view: watch::Sender<SessionSnapshot>,
    pub(super) enrolment: watch::Receiver<Enrolment>,
    pub(super) announced: Announced,
    /// Lets the dialer try at once.
    pub(super) retry: Arc<Notify>,
}

/// A network, as far as it can be told from others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Here {
    router: Option<Attachment>,
    source: Option<IpAddr>,
}

impl Here {
    async fn find() -> Self {
        let router = Attachment::find(OUTSIDE).await;
        // The address may change within a network.
        let source = match router {
            Some(_) => None,
            None => source_towards((OUTSIDE, DISCARD).into()).await.ok(),
        };
        Self { router, source }
    }
}

/// True if a portal may be the reason why there is no session.
fn is_suspicious(view: &SessionSnapshot) -> bool {
    let trouble = view.trouble.as_ref().map(|known| &known.trouble);
    view.state != GatewayState::Open && trouble.is_some_and(Trouble::may_be_portal)
}

impl PortalWatch {
    /// Runs until the agent stops.
    pub(super) async fn run(self) {
        let mut view = self.view.subscribe();
        let mut worked_in: Option<Here> = None;
        let mut newest: Option<SessionSerial> = None;
        loop {
            let next = view
                .wait_for(|view| is_suspicious(view) || opened(view).is_some_and(|now| newest != Some(now)));
            let Ok(serial) = next.await.map(|view| opened(&view)) else {
                return;
            };
            if serial.is_some() {
                newest = serial;
                worked_in = Some(Here::find().await);
            } else {
                self.look_until_open(&mut view, worked_in.as_ref()).await;
                // The session may have gone on in another network.
                newest = None;
            }
        }
    }

    /// Looks until there is no reason to look any more.
    async fn look_until_open(&self, view: &mut watch::Receiver<SessionSnapshot>, worked_in: Option<&Here>) {
        let mut network = NetworkWatch::start();
        let mut pause = FIRST_PAUSE;
        let mut unanswered = 0;
        loop {
            let is_new_network = worked_in != Some(&Here::find().await);
            let verdict = tokio::select! {
                verdict = self.look(is_new_network) => verdict,
                () = until_explained(view) => return self.clear(),
            };
            debug!(?verdict, is_new_network, "looked for a captive portal");
            unanswered = if verdict == Verdict::Silent {
                unanswered + 1
            } else {
                0
            };
            let was_known = self.is_known();
            match verdict {
                Verdict::Portal(page) => self.publish(Trouble::CaptivePortal(Box::new(page))),
                Verdict::Open if was_known => {
                    info!("the network's login page is gone");
                    self.clear();
                    self.try_now();
                }
                Verdict::Silent if was_known && unanswered >= UNANSWERED => self.clear(),
                Verdict::Open | Verdict::Silent => {}
            }
            let wait = if self.is_known() { AT_PORTAL } else { pause };
            pause = (pause * 2).min(LONGEST_PAUSE);
            tokio::select! {
                () = sleep(wait) => {}
                () = network.notified() => pause = FIRST_PAUSE,
                () = until_explained(view) => return self.clear(),
            }
        }
    }

    async fn look(&self, is_new_network: bool) -> Verdict {
        let invite = self.enrolment.borrow().invite.clone();
        let known = Circumstances {
            announced_port: self.announced.of(invite.gateway()).portal_port,
            is_new_network,
        };
        look(&self.settings, &invite, known).await
    }

    fn is_known(&self) -> bool {
        self.view.borrow().portal.is_some()
    }

    fn publish(&self, trouble: Trouble) {
        if !self.is_known() {
            warn!("the hop does not work: {trouble}");
        }
        self.view.send_if_modified(|view| {
            // The session may have opened meanwhile.
            let is_new = view.state != GatewayState::Open
                && view.portal.as_ref().is_none_or(|known| known.trouble != trouble);
            if is_new {
                let since = view
                    .portal
                    .as_ref()
                    .map_or_else(Instant::now, |known| known.since);
                view.portal = Some(KnownTrouble { trouble, since });
            }
            is_new
        });
    }

    fn clear(&self) {
        self.view.send_if_modified(|view| view.portal.take().is_some());
    }

    /// Lets a session open now, or continue.
    fn try_now(&self) {
        let session = self.view.borrow().session.clone();
        match session.filter(|session| session.link_state() == LinkState::Stalled) {
            Some(stalled) => stalled.network_changed(NetworkChange::Same),
            None => self.retry.notify_one(),
        }
    }
}

/// The open session.
fn opened(view: &SessionSnapshot) -> Option<SessionSerial> {
    let session = view.session.as_ref()?;
    (view.state == GatewayState::Open).then(|| session.serial())
}

/// Waits until a portal can no longer be the reason why there is no session. Cancel safe.
async fn until_explained(view: &mut watch::Receiver<SessionSnapshot>) {
    // Without a sender there is no agent any more.
    drop(view.wait_for(|view| !is_suspicious(view)).await);
}
