//! What the gateway has announced of itself in sessions, for the time in which there is none.
use std::sync::Arc;

use longhaul_session::{Announcement, MAX_UDP_PORTS};
use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::{
    carriers::{Certificates, KeyPin},
    gateway_session::GatewaySession,
    state::{Enrolment, SessionSnapshot},
};
use crate::{session_serial::SessionSerial, state_dir::StateDir};

/// The newest announcement, in memory and in the state directory. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    known: Arc<Mutex<Option<(PublicKey, Announcement)>>>,
    state_dir: StateDir,
    certificates: Certificates,
}

impl Announced {
    /// Reads what an earlier run has stored. The certificates of `gateway` are compared from now on.
    pub(super) fn load(state_dir: StateDir, gateway: PublicKey, certificates: Certificates) -> Self {
        let text = state_dir.announced();
        let announced = Self {
            known: Arc::new(Mutex::new(text.as_deref().and_then(parse))),
            state_dir,
            certificates,
        };
        announced.expect(gateway);
        announced
    }

    /// What this gateway has announced; nothing if it is not known.
    pub(super) fn of(&self, gateway: PublicKey) -> Announcement {
        let known = self.known.lock();
        let known = known.as_ref().filter(|(of, _)| *of == gateway);
        known.map_or_else(Announcement::default, |(_, announcement)| announcement.clone())
    }

    /// Compares the certificates of this gateway's links.
    fn expect(&self, gateway: PublicKey) {
        self.certificates
            .expect(self.of(gateway).certificate.map(KeyPin::new));
    }

    /// Stores the announcements of sessions until the agent stops.
    pub(super) async fn follow(
        self,
        mut view: watch::Receiver<SessionSnapshot>,
        mut enrolment: watch::Receiver<Enrolment>,
    ) {
        let mut heard: Option<(SessionSerial, Announcement)> = None;
        let mut certificates = self.certificates.watch();
        loop {
            let (number, session) = {
                let view = view.borrow_and_update();
                (view.enrolment, view.session.clone())
            };
            let serial = session.as_deref().map(GatewaySession::serial);
            let known = heard.as_ref().filter(|(heard_in, _)| Some(*heard_in) == serial);
            let known = known.map(|(_, announcement)| announcement.clone());
            tokio::select! {
                Some(announcement) = announcement_of(session.as_deref(), known.as_ref()) => {
                    heard = serial.map(|serial| (serial, announcement.clone()));
                    let (newest, gateway) = {
                        let enrolment = enrolment.borrow();
                        (enrolment.number, enrolment.invite.gateway())
                    };
                    if newest == number {
                        self.record(gateway, announcement).await;
                    }
                }
                changed = enrolment.changed() => match changed {
                    Ok(()) => {
                        let gateway = enrolment.borrow_and_update().invite.gateway();
                        self.expect(gateway);
                    }
                    Err(_) => return,
                },
                Ok(()) = certificates.changed() => if self.certificates.is_intercepted() {
                    warn!(
                        "TLS to the gateway is intercepted: its certificate is not the gateway's; what is intercepted is \
                         ciphertext"
                    );
                },
                changed = view.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    async fn record(&self, gateway: PublicKey, announcement: Announcement) {
        let (state_dir, text) = (self.state_dir.clone(), to_text(gateway, &announcement));
        let newest = Some((gateway, announcement));
        {
            let mut known = self.known.lock();
            if *known == newest {
                return;
            }
            *known = newest;
        }
        self.expect(gateway);
        let kept = tokio::task::spawn_blocking(move || state_dir.keep_announced(&text)).await;
        if let Ok(Err(error)) = kept {
            warn!("{error}");
        }
    }
}

/// Waits for an announcement of a session beside the one that is known; never completes without a session. `None` if the
/// session has ended.
async fn announcement_of(
    session: Option<&GatewaySession>,
    known: Option<&Announcement>,
) -> Option<Announcement> {
    let Some(session) = session else {
        return std::future::pending().await;
    };
    let mut announcement = session.watch_announcement();
    let is_new = |now: &Option<Announcement>| now.is_some() && now.as_ref() != known;
    let announced = announcement.wait_for(is_new).await;
    announced.ok().and_then(|announced| announced.clone())
}

const NONE: &str = "-";

/// The text of the file: the gateway's key, its port for questions about portals, the pin of its certificate, and its UDP
/// ports.
fn to_text(gateway: PublicKey, announcement: &Announcement) -> String {
    let port = announcement
        .portal_port
        .map_or_else(|| NONE.to_owned(), |port| port.to_string());
    let certificate = announcement
        .certificate
        .map_or_else(|| NONE.to_owned(), |pin| KeyPin::new(pin).to_string());
    let ports: Vec<String> = announcement.udp_ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() {
        NONE.to_owned()
    } else {
        ports.join(",")
    };
    format!("{gateway} {port} {certificate} {ports}\n")
}

fn parse(text: &str) -> Option<(PublicKey, Announcement)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [gateway, port, certificate, udp_ports] = words[..] else {
        return None;
    };
    let announcement = Announcement {
        portal_port: match port {
            NONE => None,
            port => Some(port.parse().ok()?),
        },
        certificate: match certificate {
            NONE => None,
            hex => Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes()),
        },
        udp_ports: match udp_ports {
            NONE => Vec::new(),
            ports => {
                let ports = ports.split(',').take(MAX_UDP_PORTS);
                ports.map(|port| port.parse().ok()).collect::<Option<_>>()?
            }
        },
    };
    Some((gateway.parse().ok()?, announcement))
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    #[test]
    fn what_is_stored_is_read_for_its_gateway_only() {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(home.path().to_owned());
        let [ours, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let load = || Announced::load(state_dir.clone(), ours, Certificates::default());
        assert_eq!(load().of(ours), Announcement::default());
        for announcement in [
            Announcement {
                portal_port: Some(8080),
                certificate: Some([7; 32]),
                udp_ports: vec![4433, 443],
            },
            Announcement::default(),
        ] {
            state_dir.keep_announced(&to_text(ours, &announcement)).unwrap();
            assert_eq!(load().of(ours), announcement);
            assert_eq!(load().of(other), Announcement::default());
        }
        for damaged in ["", "x - - -", "x", "- - - - -"] {
            state_dir.keep_announced(damaged).unwrap();
            assert_eq!(load().of(ours), Announcement::default(), "{damaged}");
        }
    }
}
