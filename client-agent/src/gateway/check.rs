//! A check of the gateway without a running agent, for `longhaul doctor`.
//!
//! The check is a handshake that ends with a CLOSE. A device has one session, which another one replaces when its
//! first packet under the full keys arrives, unless that packet is a CLOSE (docs/protocol/transport.md section
//! 3.2). So the check ends no session of an agent with the same key, on this machine or on another one. If the
//! CLOSE is lost, the gateway forgets the half-open session after three minutes.
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_driver::{TransportConfig, minted_hour};
use longhaul_protocol::endpoint::{AgentEndpointConfig, ConnectTo, ConnectionHandle, Endpoint, Event};
use longhaul_types::{Invite, Timestamp, UnixTime};
use tokio::{
    net::UdpSocket,
    time::{Instant, sleep_until},
};

use super::{device_identity::DeviceIdentity, reachability};
use crate::{
    state_dir::StateDir,
    trouble::{ClockDifference, Trouble},
};

/// Maximum duration of a check: two repetitions of the INIT, and longer than the round trip of the slowest
/// links.
const CHECK_TIME: Duration = Duration::from_secs(6);
/// Part of it for the lookup of the gateway's name.
const LOOKUP_TIME: Duration = Duration::from_secs(3);
/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// Asks the gateway of `invite` for a session, and opens none. Harmless beside a running agent.
///
/// # Errors
/// The reason why no session would open, or [`Trouble::ClockOff`] if one would.
pub async fn check_gateway(invite: Invite, state_dir: &StateDir) -> Result<(), Trouble> {
    // After a one-time invite, the gateway knows this device by a key of its own.
    let mut identity = DeviceIdentity::load(invite, state_dir);
    let mut outcome = check(identity.invite(), state_dir).await;
    if outcome.as_ref().is_err_and(Trouble::is_refused_key) && identity.try_other_key() {
        let other = check(identity.invite(), state_dir).await;
        // If neither key is accepted, the answer about the key in use says more.
        if !other.as_ref().is_err_and(Trouble::is_refused_key) {
            outcome = other;
        }
    }
    outcome
}

async fn check(invite: &Invite, state_dir: &StateDir) -> Result<(), Trouble> {
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
    let local_error = |error: io::Error| Trouble::LocalError(error.to_string());
    let mut attempt = Attempt::start(invite, state_dir, remote)
        .await
        .map_err(local_error)?;
    let look = reachability::look(remote, Duration::ZERO);
    tokio::pin!(look);
    let mut is_looking = true;
    let token = loop {
        tokio::select! {
            biased;
            answer = attempt.answer() => break answer.map_err(local_error)??,
            () = sleep_until(deadline) => return Err(Trouble::Silent),
            found = &mut look, if is_looking => {
                is_looking = false;
                if let Some(trouble) = found {
                    return Err(trouble);
                }
            }
        }
    };
    // The answer is known: what becomes of the farewell does not change it.
    let _ = attempt.close().await;
    let now = UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    match minted_hour(&token).and_then(|hour| ClockDifference::between(now, hour)) {
        Some(difference) => Err(Trouble::ClockOff(difference)),
        None => Ok(()),
    }
}

/// A handshake that ends with the gateway's answer.
struct Attempt {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    socket: UdpSocket,
    remote: SocketAddr,
    started: Instant,
}

impl Attempt {
    async fn start(invite: &Invite, state_dir: &StateDir, remote: SocketAddr) -> io::Result<Self> {
        let local: SocketAddr = match remote {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local).await?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        let config = AgentEndpointConfig {
            secret: invite.device().clone(),
            transport: TransportConfig::default(),
        };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut endpoint = Endpoint::agent(config, UnixTime::new(unix), seed);
        let to = ConnectTo {
            gateway: invite.gateway(),
            remote: remote.into(),
            token: Some(state_dir.token(invite)),
            profile: None,
            last_stamp: state_dir.stamp(),
        };
        let handle = endpoint.connect(Timestamp::ZERO, to).map_err(io::Error::other)?;
        endpoint.start(handle);
        Ok(Self {
            endpoint,
            handle,
            socket,
            remote,
            started: Instant::now(),
        })
    }

    /// Waits for the gateway's answer and returns the token in it, or the trouble that the answer shows.
    /// Cancel safe. Only the CLOSE of [`Attempt::close`] may be sent after the answer: another packet would open
    /// the session.
    async fn answer(&mut self) -> io::Result<Result<[u8; 32], Trouble>> {
        let mut buffer = Vec::new();
        let mut datagram = vec![0; MAX_DATAGRAM];
        loop {
            while self.endpoint.poll_transmit(self.now(), &mut buffer).is_some() {
                self.socket.send_to(&buffer, self.remote).await?;
            }
            let timer = self.endpoint.poll_timeout();
            let due = self.started + Duration::from_nanos(timer.map_or(0, Timestamp::as_nanos));
            tokio::select! {
                received = self.socket.recv_from(&mut datagram) => {
                    let (length, from) = received?;
                    let now = self.now();
                    self.endpoint.handle_datagram(now, from, &mut datagram[..length]);
                }
                () = sleep_until(due), if timer.is_some() => self.endpoint.handle_timeout(self.now()),
            }
            while let Some((_, event)) = self.endpoint.poll_event() {
                match event {
                    Event::Token(token) => return Ok(Ok(token)),
                    Event::Closed(reason) => return Ok(Err(Trouble::of_close(reason))),
                    Event::Connected { .. }
                    | Event::Accepted { .. }
                    | Event::Stream(_)
                    | Event::Stalled
                    | Event::Resumed
                    | Event::Moved
                    | Event::PathProbed { .. } => {}
                }
            }
        }
    }

    /// Lets the gateway forget the session that it has prepared.
    async fn close(&mut self) -> io::Result<()> {
        let now = self.now();
        if let Some(connection) = self.endpoint.connection(self.handle) {
            connection.close(now, 0, "the agent only asked");
        }
        let mut buffer = Vec::new();
        while self.endpoint.poll_transmit(now, &mut buffer).is_some() {
            self.socket.send_to(&buffer, self.remote).await?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }
}
