//! A check of the gateway without a running agent, for `longhaul doctor`.
//!
//! The check is a handshake that ends with a CLOSE. A device has one session, which another one replaces when its
//! first packet under the full keys arrives, unless that packet is a CLOSE (docs/protocol/transport.md section
//! 3.2). So the check ends no session of an agent with the same key, on this machine or on another one. If the
//! CLOSE is lost, the gateway forgets the half-open session after three minutes.
mod over_link;
mod over_udp;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use longhaul_driver::{TransportConfig, minted_hour};
use longhaul_protocol::{
    endpoint::{AgentEndpointConfig, ConnectTo, ConnectionHandle, Endpoint, Event},
    path::Path,
};
use longhaul_types::{Invite, Timestamp};
use tokio::time::{Instant, timeout};

use super::{
    address_order::{Answered, delay, ordered},
    announced::Announced,
    carriers::{CarrierSettings, Carriers, LinkAddresses, UsedCarrier},
    device_identity::DeviceIdentity,
    reachability,
};
use crate::{
    state_dir::StateDir,
    trouble::{ClockDifference, Tried, Trouble},
    wall_clock,
};

/// Maximum duration of a check: two repetitions of the INIT, and longer than the round trip of the slowest
/// links.
const CHECK_TIME: Duration = Duration::from_secs(6);
/// Part of it for the lookup of the gateway's name.
const LOOKUP_TIME: Duration = Duration::from_secs(3);
/// Time for which only UDP is tried: longer than the round trip of the slowest links, so that other carriers load a slow
/// link only where UDP is silent.
const HEAD_START: Duration = Duration::from_millis(1_500);

/// Asks the gateway of `invite` for a session, and opens none. Harmless beside a running agent.
///
/// # Errors
/// The reason why no session would open, or [`Trouble::ClockOff`] if one would.
pub async fn check_gateway(
    invite: Invite,
    state_dir: &StateDir,
    carrier: &CarrierSettings,
) -> Result<UsedCarrier, Trouble> {
    // After a one-time invite, the gateway knows this device by a key of its own.
    let mut identity = DeviceIdentity::load(invite, state_dir);
    let mut outcome = check(identity.invite(), state_dir, carrier).await;
    if outcome.as_ref().is_err_and(Trouble::is_refused_key) && identity.try_other_key() {
        let other = check(identity.invite(), state_dir, carrier).await;
        // If neither key is accepted, the answer about the key in use says more.
        if !other.as_ref().is_err_and(Trouble::is_refused_key) {
            outcome = other;
        }
    }
    outcome
}

async fn check(
    invite: &Invite,
    state_dir: &StateDir,
    carrier: &CarrierSettings,
) -> Result<UsedCarrier, Trouble> {
    let deadline = Instant::now() + CHECK_TIME;
    // A certificate is compared with what earlier sessions have announced.
    let announced = Announced::load(state_dir.clone(), invite.gateway(), carrier.certificates.clone());
    let ports = announced.of(invite.gateway()).udp_ports;
    let Carriers { udp, tls, quic } = carrier.carriers;
    let has_proxy = tls && carrier.proxy_to(invite).is_some();
    // A proxy looks the name up itself.
    let found = if has_proxy && !udp && !quic {
        Ok(Vec::new())
    } else {
        reachability::look_up(invite.address(), LOOKUP_TIME).await
    };
    // An answer over UDP, also a refusal, ends the check. Only a gateway that does not answer is asked over the others.
    let is_answer = |over_udp: &Result<(), Trouble>| {
        !(is_silent(over_udp) || has_proxy && over_udp.as_ref().is_err_and(Trouble::is_of_network))
    };
    let over_links = check_links(invite, state_dir, carrier, links_at(&found), has_proxy);
    let over_udp = async {
        match &found {
            Err(trouble) => Err(trouble.clone()),
            Ok(_) if !udp => Err(Trouble::Silent(carrier.tried())),
            Ok(addresses) => {
                let addresses = ordered(addresses, &ports, Answered::default());
                check_addresses(invite, state_dir, &addresses, deadline).await
            }
        }
    };
    tokio::pin!(over_links, over_udp);
    let (over_udp, over_links) = match timeout(HEAD_START, &mut over_udp).await {
        Ok(outcome) if is_answer(&outcome) => return outcome.map(|()| UsedCarrier::Udp),
        Ok(outcome) => (outcome, over_links.await),
        Err(_) => tokio::select! {
            outcome = &mut over_udp => {
                if is_answer(&outcome) {
                    return outcome.map(|()| UsedCarrier::Udp);
                }
                (outcome, over_links.await)
            }
            links = &mut over_links => (over_udp.await, links),
        },
    };
    if is_answer(&over_udp) {
        return over_udp.map(|()| UsedCarrier::Udp);
    }
    let mut outcome = over_udp;
    for (answered, over_link) in over_links {
        if !is_silent(&over_link) {
            return over_link.map(|()| answered);
        }
        outcome = combined(carrier, outcome, over_link);
    }
    outcome.map(|()| UsedCarrier::Udp)
}

/// The addresses of the gateway's name, with alternating families.
fn links_at(found: &Result<Vec<SocketAddr>, Trouble>) -> Option<LinkAddresses> {
    let addresses = ordered(found.as_ref().ok()?, &[], Answered::default());
    let (first, others) = addresses.split_first()?;
    Some(LinkAddresses {
        first: *first,
        others: others.to_vec(),
        delay: delay(None),
    })
}

/// Asks over TLS and QUIC at the same time, as far as the settings permit them. An answer over TLS ends the check.
async fn check_links(
    invite: &Invite,
    state_dir: &StateDir,
    carrier: &CarrierSettings,
    at: Option<LinkAddresses>,
    has_proxy: bool,
) -> Vec<(UsedCarrier, Result<(), Trouble>)> {
    let Carriers { tls, quic, .. } = carrier.carriers;
    // A proxy does not need the address.
    let of_proxy = || LinkAddresses {
        first: (Ipv4Addr::UNSPECIFIED, 0).into(),
        others: Vec::new(),
        delay: Duration::ZERO,
    };
    let tls_at = at.clone().or_else(|| has_proxy.then(of_proxy));
    let over_tls = async {
        let at = tls_at.filter(|_| tls)?;
        Some(over_link::check_tls(invite, state_dir, carrier, &at).await)
    };
    let over_quic = async {
        let at = at.filter(|_| quic)?;
        Some(over_link::check_quic(invite, state_dir, carrier, &at).await)
    };
    tokio::pin!(over_tls, over_quic);
    let (over_tls, over_quic) = tokio::select! {
        over_tls = &mut over_tls => match over_tls {
            Some(answer) if !is_silent(&answer) => (Some(answer), None),
            over_tls => (over_tls, over_quic.await),
        },
        quic = &mut over_quic => (over_tls.await, quic),
    };
    let over_tls = over_tls.map(|outcome| (UsedCarrier::Tls, outcome));
    let over_quic = over_quic.map(|outcome| (UsedCarrier::Quic, outcome));
    over_tls.into_iter().chain(over_quic).collect()
}

/// True if nothing answered.
const fn is_silent(outcome: &Result<(), Trouble>) -> bool {
    matches!(outcome, Err(Trouble::Silent(_) | Trouble::PortClosed(_)))
}

/// What two carriers without an answer show. A closed UDP port says more than silence, and more than a closed TCP port,
/// which a gateway without `carriers.tls` has beside other carriers.
fn combined(
    carrier: &CarrierSettings,
    before: Result<(), Trouble>,
    then: Result<(), Trouble>,
) -> Result<(), Trouble> {
    let tried = carrier.tried();
    match before {
        _ if tried.name() == "tls" => then,
        Err(Trouble::Silent(_)) | Ok(()) => Err(Trouble::Silent(tried)),
        before @ Err(_) => before,
    }
}

async fn check_addresses(
    invite: &Invite,
    state_dir: &StateDir,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<(), Trouble> {
    let mut outcome = Err(Trouble::NameNotFound(invite.address().to_owned()));
    for (at, &address) in addresses.iter().enumerate() {
        // The addresses share the rest of the time.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        outcome = over_udp::check_address(invite, state_dir, address, Instant::now() + left / share).await;
        match &outcome {
            Ok(()) => break,
            Err(trouble) if trouble.is_refusal() || matches!(trouble, Trouble::ClockOff(_)) => break,
            Err(_) => {}
        }
    }
    outcome
}

/// Compares this computer's clock with the hour in the gateway's token.
fn clock_trouble(token: &[u8; 32]) -> Result<(), Trouble> {
    let now = wall_clock::now();
    match minted_hour(token).and_then(|hour| ClockDifference::between(now, hour)) {
        Some(difference) => Err(Trouble::ClockOff(difference)),
        None => Ok(()),
    }
}

/// A handshake that ends with the gateway's answer. Only the CLOSE of [`Question::close`] may be sent after the answer:
/// another packet would open the session.
struct Question {
    endpoint: Endpoint,
    handle: ConnectionHandle,
}

impl Question {
    /// A handshake over `path`. It begins at [`Timestamp::ZERO`].
    fn new(invite: &Invite, state_dir: &StateDir, path: Path) -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let config = AgentEndpointConfig {
            secret: invite.device().clone(),
            transport: TransportConfig::default(),
        };
        let mut endpoint = Endpoint::agent(config, wall_clock::now(), seed);
        let to = ConnectTo {
            gateway: invite.gateway(),
            remote: path,
            token: Some(state_dir.token(invite)),
            profile: None,
            last_stamp: state_dir.stamp(),
        };
        let handle = endpoint.connect(Timestamp::ZERO, to).map_err(io::Error::other)?;
        endpoint.start(handle);
        Ok(Self { endpoint, handle })
    }

    /// The token in the gateway's answer over these carriers, or the trouble that the answer shows; `None` before the answer.
    fn answer(&mut self, tried: Tried) -> Option<Result<[u8; 32], Trouble>> {
        while let Some((_, event)) = self.endpoint.poll_event() {
            match event {
                Event::Token(token) => return Some(Ok(token)),
                Event::Closed(reason) => return Some(Err(Trouble::of_close(reason, tried))),
                Event::Connected { .. }
                | Event::Accepted { .. }
                | Event::Stream(_)
                | Event::Datagrams
                | Event::Stalled
                | Event::Resumed
                | Event::Moved
                | Event::PathProbed { .. } => {}
            }
        }
        None
    }

    /// Lets the gateway forget the session that it has prepared: the next packets are its CLOSE.
    fn close(&mut self, now: Timestamp) {
        if let Some(connection) = self.endpoint.connection(self.handle) {
            connection.close(now, 0, "the agent only asked");
        }
    }
}
