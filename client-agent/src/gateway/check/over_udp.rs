//! The check over UDP.
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use longhaul_types::{Invite, Timestamp};
use tokio::{
    net::UdpSocket,
    time::{Instant, sleep_until},
};

use super::{Question, clock_trouble};
use crate::{
    gateway::reachability,
    state_dir::StateDir,
    trouble::{Tried, Trouble},
};

/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// Asks the gateway at `remote`.
pub(super) async fn check_address(
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
            () = sleep_until(deadline) => return Err(Trouble::Silent(Tried::UDP)),
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
    clock_trouble(&token)
}

/// A handshake that ends with the gateway's answer.
struct Attempt {
    question: Question,
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
        let question = Question::new(invite, state_dir, remote.into())?;
        Ok(Self {
            question,
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
            while self
                .question
                .endpoint
                .poll_transmit(self.now(), &mut buffer)
                .is_some()
            {
                self.socket.send_to(&buffer, self.remote).await?;
            }
            let timer = self.question.endpoint.poll_timeout();
            let due = self.started + Duration::from_nanos(timer.map_or(0, Timestamp::as_nanos));
            tokio::select! {
                received = self.socket.recv_from(&mut datagram) => {
                    let (length, from) = received?;
                    let now = self.now();
                    self.question.endpoint.handle_datagram(now, from, &mut datagram[..length]);
                }
                () = sleep_until(due), if timer.is_some() => {
                    let now = self.now();
                    self.question.endpoint.handle_timeout(now);
                },
            }
            if let Some(answer) = self.question.answer(Tried::UDP) {
                return Ok(answer);
            }
        }
    }

    /// Lets the gateway forget the session that it has prepared.
    async fn close(&mut self) -> io::Result<()> {
        let now = self.now();
        self.question.close(now);
        let mut buffer = Vec::new();
        while self.question.endpoint.poll_transmit(now, &mut buffer).is_some() {
            self.socket.send_to(&buffer, self.remote).await?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.started.elapsed()
    }
}
