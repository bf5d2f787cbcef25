//! A check of the gateway without a running agent, for `longhaul doctor`.
use std::{
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_driver::{DialConfig, LinkState, Session, TransportConfig, dial, minted_hour};
use longhaul_types::{Invite, UnixTime};
use tokio::time::{Instant, sleep_until};

use super::reachability;
use crate::{
    state_dir::StateDir,
    trouble::{ClockDifference, Trouble},
};

/// Maximum duration of a check: two repetitions of the handshake, and longer than the round trip of the slowest
/// links.
const CHECK_TIME: Duration = Duration::from_secs(6);
/// Part of it for the lookup of the gateway's name.
const LOOKUP_TIME: Duration = Duration::from_secs(3);

/// Opens a session with the gateway of `invite`, sends no request, and closes it. A running agent of the same
/// device would lose its session: call it only if none runs.
///
/// # Errors
/// The reason why no session opened, or [`Trouble::ClockOff`] if one did.
pub async fn check_gateway(invite: &Invite, state_dir: &StateDir) -> Result<(), Trouble> {
    let deadline = Instant::now() + CHECK_TIME;
    let addresses = reachability::look_up(invite.address(), LOOKUP_TIME).await?;
    let mut outcome = Err(Trouble::NameNotFound(invite.address().to_owned()));
    for (at, &address) in addresses.iter().enumerate() {
        // The addresses share the rest of the time.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        outcome = check_address(invite, state_dir, address, Instant::now() + left / share).await;
        match &outcome {
            Ok(()) => break,
            Err(trouble) if trouble.is_refusal() || matches!(trouble, Trouble::ClockOff(_)) => break,
            Err(_) => {}
        }
    }
    outcome
}

async fn check_address(
    invite: &Invite,
    state_dir: &StateDir,
    remote: SocketAddr,
    deadline: Instant,
) -> Result<(), Trouble> {
    if let Some(trouble) = reachability::missing_route(remote).await {
        return Err(trouble);
    }
    let config = DialConfig {
        gateway_key: invite.gateway(),
        remote,
        secret: invite.device().clone(),
        token: Some(state_dir.token(invite)),
        profile: None,
        last_stamp: state_dir.stamp(),
        transport: TransportConfig::default(),
    };
    let dialled = dial(config, Vec::new());
    let (session, _) = dialled.map_err(|error| Trouble::LocalError(error.to_string()))?;
    let outcome = answer(&session, remote, deadline).await;
    session.close(0, "the check is over");
    outcome
}

/// Waits for the end of the handshake and compares the clocks.
async fn answer(session: &Session, remote: SocketAddr, deadline: Instant) -> Result<(), Trouble> {
    let mut state = session.state();
    let look = reachability::look(remote, Duration::ZERO);
    tokio::pin!(look);
    let mut is_looking = true;
    loop {
        tokio::select! {
            biased;
            answer = state.wait_for(|state| *state != LinkState::Connecting) => {
                match answer.map(|state| state.clone()) {
                    Ok(LinkState::Closed(reason)) => return Err(Trouble::of_close(reason)),
                    Ok(LinkState::Connecting | LinkState::Open | LinkState::Stalled) => break,
                    Err(_) => return Err(Trouble::Silent),
                }
            }
            () = sleep_until(deadline) => return Err(Trouble::Silent),
            found = &mut look, if is_looking => {
                is_looking = false;
                if let Some(trouble) = found {
                    return Err(trouble);
                }
            }
        }
    }
    let mut tokens = session.tokens();
    let token = tokens
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|token| *token);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let hour = token.as_ref().and_then(minted_hour);
    match hour.and_then(|hour| ClockDifference::between(UnixTime::new(now), hour)) {
        Some(difference) => Err(Trouble::ClockOff(difference)),
        None => Ok(()),
    }
}
