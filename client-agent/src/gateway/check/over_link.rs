//! The check over TLS or QUIC, where UDP is blocked.
use std::{io, net::SocketAddr, time::Duration};

use longhaul_carriers::{BareLink, CarrierError};
use longhaul_protocol::path::LinkId;
use longhaul_types::{Invite, Timestamp};
use tokio::time::{Instant, timeout};

use super::{Question, clock_trouble};
use crate::{
    gateway::{
        address_order::at_port,
        carriers::{CarrierSettings, LinkAddresses, trouble_of},
    },
    state_dir::StateDir,
    trouble::{Tried, Trouble},
};

/// Maximum duration of the check: the handshakes of the carrier and the session on the slowest links.
const LINK_TIME: Duration = Duration::from_secs(10);

/// Asks the gateway over TLS at these addresses, or through the proxy of the settings.
///
/// # Errors
/// [`Trouble::Silent`] if no gateway with this key answers there.
pub(super) async fn check_tls(
    invite: &Invite,
    state_dir: &StateDir,
    settings: &CarrierSettings,
    at: &LinkAddresses,
) -> Result<(), Trouble> {
    let port = settings.tls_port;
    let carrier = settings.tls(invite, at)?;
    let mut asked = Asked::new(invite, state_dir, LinkId::ordered(0), at_port(at.first, port))?;
    let limit = match settings.proxy_to(invite) {
        Some(_) => LINK_TIME + longhaul_proxy::LONGEST,
        None => LINK_TIME,
    };
    let first = asked.first();
    asked
        .ask(carrier.open(&first), limit, Tried::tls(port), |error| {
            trouble_of(error, port)
        })
        .await
}

/// Asks the gateway over QUIC at these addresses.
///
/// # Errors
/// [`Trouble::Silent`] if no gateway with this key answers there.
pub(super) async fn check_quic(
    invite: &Invite,
    state_dir: &StateDir,
    settings: &CarrierSettings,
    at: &LinkAddresses,
) -> Result<(), Trouble> {
    let port = settings.quic_port;
    let carrier = settings.quic(invite, at)?;
    let mut asked = Asked::new(invite, state_dir, LinkId::datagram(0), at_port(at.first, port))?;
    let first = asked.first();
    asked
        .ask(carrier.open(&first), LINK_TIME, Tried::quic(port), |error| {
            matches!(error, CarrierError::Intercepted).then_some(Trouble::Intercepted)
        })
        .await
}

/// A question over a link: the only one of its endpoint.
struct Asked {
    question: Question,
    link: LinkId,
    started: Instant,
}

impl Asked {
    fn new(invite: &Invite, state_dir: &StateDir, link: LinkId, remote: SocketAddr) -> Result<Self, Trouble> {
        let local_error = |error: io::Error| Trouble::LocalError(error.to_string());
        let mut question = Question::new(invite, state_dir, link.into()).map_err(local_error)?;
        question.endpoint.open_link(link, remote, true);
        Ok(Self {
            question,
            link,
            started: Instant::now(),
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }

    /// The first packet of the link.
    fn first(&mut self) -> Vec<u8> {
        let mut packet = Vec::new();
        let now = self.now();
        self.question.endpoint.poll_transmit(now, &mut packet);
        packet
    }

    /// Waits for the gateway's answer on the link that is opened.
    async fn ask(
        &mut self,
        opening: impl Future<Output = Result<BareLink, CarrierError>>,
        limit: Duration,
        tried: Tried,
        trouble_of: impl Fn(&CarrierError) -> Option<Trouble>,
    ) -> Result<(), Trouble> {
        let silent = Trouble::Silent(tried);
        let token = match timeout(limit, self.answer(opening, tried)).await {
            Ok(Ok(answer)) => answer?,
            Ok(Err(Some(error))) => return Err(trouble_of(&error).unwrap_or(silent)),
            Ok(Err(None)) | Err(_) => return Err(silent),
        };
        clock_trouble(&token)
    }

    /// Returns the gateway's answer; an error if there is no link, or if it ends without an answer.
    async fn answer(
        &mut self,
        opening: impl Future<Output = Result<BareLink, CarrierError>>,
        tried: Tried,
    ) -> Result<Result<[u8; 32], Trouble>, Option<CarrierError>> {
        let mut link = opening.await.map_err(Some)?;
        loop {
            let now = self.now();
            let Ok(Some(mut answer)) = link.receive().await else {
                return Err(None);
            };
            self.question
                .endpoint
                .handle_datagram(now, self.link, &mut answer);
            if let Some(answer) = self.question.answer(tried) {
                self.close(link).await;
                return Ok(answer);
            }
        }
    }

    /// Lets the gateway forget the session. The answer is known: what becomes of the farewell does not change it.
    async fn close(&mut self, mut link: BareLink) {
        let now = self.now();
        self.question.close(now);
        let mut packet = Vec::new();
        while self.question.endpoint.poll_transmit(now, &mut packet).is_some() {
            if link.send(&packet).await.is_err() {
                return;
            }
        }
        link.close().await;
    }
}
