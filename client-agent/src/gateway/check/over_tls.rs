//! The check over TLS, where UDP is blocked.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_carriers::{BareLink, CarrierError, TlsCarrier};
use longhaul_types::{Invite, Timestamp};
use tokio::time::{Instant, timeout};

use super::{LINK, Question, clock_trouble};
use crate::{
    gateway::carriers::{CarrierSettings, trouble_of},
    state_dir::StateDir,
    trouble::{Tried, Trouble},
};

/// Maximum duration of the check: the handshakes of TCP, TLS and the session on the slowest links.
const TLS_TIME: Duration = Duration::from_secs(10);

/// Asks the gateway at the address `ip`, or through the proxy of the settings.
///
/// # Errors
/// [`Trouble::Silent`] if no gateway with this key answers there.
pub(super) async fn check_address(
    invite: &Invite,
    state_dir: &StateDir,
    settings: &CarrierSettings,
    ip: IpAddr,
) -> Result<(), Trouble> {
    let local_error = |error: io::Error| Trouble::LocalError(error.to_string());
    let carrier = settings.tls(invite, ip)?;
    let mut question = Question::new(invite, state_dir, LINK.into()).map_err(local_error)?;
    let remote = SocketAddr::new(ip, settings.tls_port);
    question.endpoint.open_link(LINK, remote, true);
    let port = settings.tls_port;
    let tried = Tried::Tls { port };
    let silent = Trouble::Silent(tried);
    let limit = match settings.proxy_to(invite) {
        Some(_) => TLS_TIME + longhaul_proxy::LONGEST,
        None => TLS_TIME,
    };
    let asked = timeout(limit, ask(&mut question, &carrier, tried)).await;
    let token = match asked {
        Ok(Ok(answer)) => answer?,
        Ok(Err(Some(error))) => return Err(trouble_of(&error, port).unwrap_or(silent)),
        Ok(Err(None)) | Err(_) => return Err(silent),
    };
    clock_trouble(&token)
}

/// Returns the gateway's answer; an error if there is no link, or if it ends without an answer.
async fn ask(
    question: &mut Question,
    carrier: &TlsCarrier,
    tried: Tried,
) -> Result<Result<[u8; 32], Trouble>, Option<CarrierError>> {
    let started = Instant::now();
    let now = || Timestamp::ZERO + started.elapsed();
    let mut packet = Vec::new();
    question.endpoint.poll_transmit(now(), &mut packet);
    let mut link = carrier.open(&packet).await.map_err(Some)?;
    loop {
        let Ok(Some(mut answer)) = link.receive().await else {
            return Err(None);
        };
        question.endpoint.handle_datagram(now(), LINK, &mut answer);
        if let Some(answer) = question.answer(tried) {
            close(question, now(), &mut link).await;
            return Ok(answer);
        }
    }
}

/// Lets the gateway forget the session. The answer is known: what becomes of the farewell does not change it.
async fn close(question: &mut Question, now: Timestamp, link: &mut BareLink) {
    question.close(now);
    let mut packet = Vec::new();
    while question.endpoint.poll_transmit(now, &mut packet).is_some() {
        if link.send(&packet).await.is_err() {
            return;
        }
    }
}
