//! Session handle of the users.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use longhaul_protocol::{
    connection::{ConnectionStats, EarlyData},
    endpoint::CloseReason,
    streams::{Datagram, Priority},
};
use longhaul_types::{BitRate, LinkProfile};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    carrier_choice::LinkCarriers,
    command::{Commands, ConnectionCommand},
    datagrams::Datagrams,
    stream::{RecvStream, SendStream},
};

/// Options of a new stream.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Priority class of the scheduler; class 0 is sent first.
    pub class: Priority,
    /// Permission to send the bytes before the handshake is complete, where an attacker can replay them.
    pub early: EarlyData,
    /// Length of the stream, if known.
    pub total: Option<u64>,
}

/// State of a stream after its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More bytes follow.
    Open,
    /// The stream ends.
    Finish,
}

/// Change of the computer's attachment to the network, as an agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkChange {
    /// The network is the same, but its middleboxes may have forgotten the session: the computer was suspended,
    /// or its address changed within the network.
    Same,
    /// Another network, with its link profile if something is known about it.
    Other(Option<LinkProfile>),
}

/// The gateway's addresses, as they are reached from a network.
#[derive(Clone, Debug)]
pub struct GatewayAddresses {
    /// UDP addresses in the order in which they are tried; the session uses the first one from now on. At most eight. A
    /// session that was opened over other carriers alone may use UDP from now on; without an address, nothing changes.
    pub udp: Vec<SocketAddr>,
    /// Carriers with these addresses, if the others do not reach the gateway any more.
    pub carriers: Option<LinkCarriers>,
}

/// State of the session's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The handshake is not complete.
    Connecting,
    /// The session is open and not stalled.
    Open,
    /// Nothing has been received for a while. All state is kept and the session continues when the link works
    /// again.
    Stalled,
    /// The session is closed.
    Closed(CloseReason),
}

/// Errors of using a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session is closed.
    #[error("session lost: {0}")]
    Lost(CloseReason),
    /// Too many streams wait to be opened.
    #[error("too many streams wait to be opened")]
    Busy,
}

/// Guard of a user that waits for data from the peer; the wait ends when it is dropped.
#[derive(Debug)]
pub struct Expectation(Arc<AtomicUsize>);

impl Drop for Expectation {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session with a peer. Clones refer to the same session, which is closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: Commands,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Box<RecvStream>>>,
    watches: Watches,
}

/// Values that the driver task keeps up to date for users.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    pub(crate) state: watch::Receiver<LinkState>,
    pub(crate) token: watch::Receiver<Option<[u8; 32]>>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) expecting: Arc<AtomicUsize>,
    pub(crate) datagrams: Arc<Datagrams>,
}

/// Values that users read without waiting for changes.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) stats: ConnectionStats,
    pub(crate) exporter: Option<[u8; 32]>,
    /// Returns to UDP that were undone, and trials of a link that were kept, because UDP carried less.
    pub(crate) worse_returns: u64,
    /// A trial of a link has no result yet.
    pub(crate) is_trying_link: bool,
}

impl Session {
    pub(crate) fn new(
        commands: Commands,
        incoming: mpsc::Receiver<Box<RecvStream>>,
        watches: Watches,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                commands,
                incoming: tokio::sync::Mutex::new(incoming),
                watches,
            }),
        }
    }

    /// Waits until the driver task answers, which proves that it runs; completes also if the task has ended.
    pub async fn probe_liveness(&self) {
        let (reply, answer) = oneshot::channel();
        if self
            .inner
            .commands
            .send(ConnectionCommand::LivenessProbe(reply))
            .await
            .is_ok()
        {
            let _ended = answer.await;
        }
    }

    /// Opens a stream with its first bytes; waits while the peer's limit is reached.
    ///
    /// # Errors
    /// The session is lost, or too many streams wait already.
    pub async fn open(
        &self,
        options: OpenOptions,
        first: Bytes,
        end: End,
    ) -> Result<SendStream, SessionError> {
        let (reply, answer) = oneshot::channel();
        let command = ConnectionCommand::Open {
            options,
            first,
            end,
            reply,
        };
        self.inner.commands.send(command).await.map_err(|_| self.lost())?;
        answer.await.map_err(|_| self.lost())?
    }

    /// Returns the next stream that the peer opened.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn accept(&self) -> Result<RecvStream, SessionError> {
        self.inner
            .incoming
            .lock()
            .await
            .recv()
            .await
            .map(|stream| *stream)
            .ok_or_else(|| self.lost())
    }

    /// Sends a datagram, which may be lost (docs/protocol/transport.md section 4.4). Never waits: if the task of the
    /// session is behind, the oldest datagrams are dropped.
    pub fn send_datagram(&self, datagram: Datagram) {
        if self.inner.watches.datagrams.send(datagram) {
            self.inner.commands.send_at_once(ConnectionCommand::Datagrams);
        }
    }

    /// Returns the next received datagram. Only one task of a session may wait for datagrams; those that it does not
    /// take in time are dropped. Cancel safe.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn recv_datagram(&self) -> Result<Bytes, SessionError> {
        self.inner
            .watches
            .datagrams
            .recv()
            .await
            .ok_or_else(|| self.lost())
    }

    /// Largest datagram that can be sent at present; `None` if the peer receives none.
    pub fn max_datagram(&self) -> Option<usize> {
        self.seen().stats.max_datagram
    }

    /// Registers a user that waits for a response or more of one. Meanwhile an agent sends PINGs during
    /// silence, so that the loss of the session is detected early (docs/protocol/transport.md section 7.3).
    pub fn expect_data(&self) -> Expectation {
        // The driver task reads the value when it wakes up next, at the latest for the stream of the request.
        let expecting = Arc::clone(&self.inner.watches.expecting);
        expecting.fetch_add(1, Ordering::Relaxed);
        Expectation(expecting)
    }

    /// State of the link, to read or to wait for changes.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.inner.watches.state.clone()
    }

    /// Counters and estimates of the transport.
    pub fn stats(&self) -> ConnectionStats {
        self.seen().stats
    }

    /// Newest token from the gateway, to be stored for the next session.
    pub fn tokens(&self) -> watch::Receiver<Option<[u8; 32]>> {
        self.inner.watches.token.clone()
    }

    /// Exporter secret (docs/protocol/transport.md section 3.3), once the handshake is complete.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        self.seen().exporter
    }

    /// How often UDP has carried less than a link (agent): returns to UDP that were undone, and trials after which the session
    /// stayed on its link.
    pub fn worse_returns(&self) -> u64 {
        self.seen().worse_returns
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // No code panics while it holds the lock.
        self.inner.watches.seen.lock()
    }

    /// Reports a change of the network (agent): the session continues on a new socket, and the gateway hears of
    /// the new address at once (docs/protocol/transport.md section 7.1).
    pub fn network_changed(&self, change: NetworkChange) {
        self.inner
            .commands
            .send_at_once(ConnectionCommand::NetworkChanged(change));
    }

    /// Replaces the gateway's addresses (agent), for instance in a network of another address family. If the network has
    /// changed, [`Session::network_changed`] has to follow.
    pub fn use_addresses(&self, addresses: GatewayAddresses) {
        self.inner
            .commands
            .send_at_once(ConnectionCommand::UseAddresses(addresses));
    }

    /// Permits trials of a link where a network seems to limit UDP, or begins no more of them (agent): each costs some
    /// kilobytes. [`crate::ReturnTimes`] has the value with which a session begins.
    pub fn permit_trials(&self, is_permitted: bool) {
        self.inner
            .commands
            .send_at_once(ConnectionCommand::PermitTrials(is_permitted));
    }

    /// True while the session uses a link to find out whether it carries more than UDP (agent).
    pub fn is_trying_link(&self) -> bool {
        self.seen().is_trying_link
    }

    /// Limits the rate of the session in each direction by pacing, or removes the limit (gateway).
    pub fn limit_rate(&self, limit: Option<BitRate>) {
        self.inner
            .commands
            .send_at_once(ConnectionCommand::LimitRate(limit));
    }

    /// Closes the session.
    pub fn close(&self, error: u64, reason: &str) {
        self.inner
            .commands
            .send_at_once(ConnectionCommand::Close(error, reason.to_owned()));
    }

    /// Waits for the end of the session.
    pub async fn closed(&self) -> CloseReason {
        let mut state = self.state();
        match state
            .wait_for(|state| matches!(state, LinkState::Closed(_)))
            .await
            .as_deref()
        {
            Ok(LinkState::Closed(reason)) => reason.clone(),
            Ok(LinkState::Connecting | LinkState::Open | LinkState::Stalled) | Err(_) => {
                CloseReason::Local { error: 0 }
            }
        }
    }

    fn lost(&self) -> SessionError {
        let reason = match &*self.inner.watches.state.borrow() {
            LinkState::Closed(reason) => reason.clone(),
            LinkState::Connecting | LinkState::Open | LinkState::Stalled => CloseReason::Local { error: 0 },
        };
        SessionError::Lost(reason)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.commands.send_at_once(ConnectionCommand::Abandoned);
    }
}
