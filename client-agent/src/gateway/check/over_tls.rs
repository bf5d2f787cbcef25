//! The check over TLS, where UDP is blocked.
use std::{io, net::SocketAddr, time::Duration};

use longhaul_carriers::{BareLink, TlsCarrier};
use longhaul_types::{Invite, Timestamp};
use tokio::time::{Instant, timeout};

use super::{LINK, Question, clock_trouble};
use crate::{gateway::carriers::host, state_dir::StateDir, trouble::Trouble};

/// Maximum duration of the check: the handshakes of TCP, TLS and the session on the slowest links.
const TLS_TIME: Duration = Duration::from_secs(10);

/// Asks the gateway at the TCP address `remote`.
///
/// # Errors
/// [`Trouble::Silent`] if no gateway with this key answers there.
pub(super) async fn check_address(
    invite: &Invite,
    state_dir: &StateDir,
    remote: SocketAddr,
) -> Result<(), Trouble> {
    let local_error = |error: io::Error| Trouble::LocalError(error.to_string());
    let carrier = TlsCarrier::new(remote, host(invite.address()), invite.gateway())
        .map_err(|error| Trouble::LocalError(error.to_string()))?;
    let mut question = Question::new(invite, state_dir, LINK.into()).map_err(local_error)?;
    question.endpoint.open_link(LINK, remote, true);
    let asked = timeout(TLS_TIME, ask(&mut question, &carrier));
    let token = asked.await.map_err(|_| Trouble::Silent)??;
    clock_trouble(&token)
}

async fn ask(question: &mut Question, carrier: &TlsCarrier) -> Result<[u8; 32], Trouble> {
    let started = Instant::now();
    let now = || Timestamp::ZERO + started.elapsed();
    let mut packet = Vec::new();
    question.endpoint.poll_transmit(now(), &mut packet);
    // Another server, or none: the reason does not matter to the user, who knows that UDP is silent.
    let mut link = carrier.open(&packet).await.map_err(|_| Trouble::Silent)?;
    loop {
        let Ok(Some(mut answer)) = link.receive().await else {
            return Err(Trouble::Silent);
        };
        question.endpoint.handle_datagram(now(), LINK, &mut answer);
        if let Some(answer) = question.answer() {
            close(question, now(), &mut link).await;
            return answer;
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
