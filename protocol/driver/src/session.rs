//! A session as its users hold it.
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use longhaul_protocol::{
    connection::{ConnectionStats, EarlyData},
    endpoint::CloseReason,
    streams::Priority,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    command::{Commands, ConnectionCommand},
    stream::{RecvStream, SendStream},
};

/// How a stream is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Class of the scheduler, 0 first.
    pub class: Priority,
    /// Whether its bytes may travel before the handshake is complete, where they could be replayed.
    pub early: EarlyData,
    /// The stream's length, where it is known.
    pub total: Option<u64>,
}

/// Whether the first bytes of a stream are all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More follows.
    Open,
    /// The stream ends here.
    Finish,
}

/// The hop as a user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The handshake is not complete.
    Connecting,
    /// All is well.
    Open,
    /// Nothing has been heard for a while; everything is kept and goes on when the hop is back.
    Stalled,
    /// The session is over.
    Closed(CloseReason),
}

/// A session that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session is over.
    #[error("session lost: {0}")]
    Lost(CloseReason),
    /// Too many streams wait to be opened.
    #[error("too many streams wait to be opened")]
    Busy,
}

/// Somebody waits for something from the peer, as long as this lives.
#[derive(Debug)]
pub struct Expectation(Arc<AtomicUsize>);

impl Drop for Expectation {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session with a peer; clones are the same session. When the last clone is dropped, the session is closed.
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

/// What the shell keeps up to date for users.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    pub(crate) state: watch::Receiver<LinkState>,
    pub(crate) token: watch::Receiver<Option<[u8; 32]>>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) expecting: Arc<AtomicUsize>,
}

/// What nobody waits for: users look at it when they want to.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) stats: ConnectionStats,
    pub(crate) exporter: Option<[u8; 32]>,
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

    /// Opens a stream with its first bytes; waits while the peer allows no more streams.
    ///
    /// # Errors
    /// The session is lost, or too many wait already.
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

    /// The next stream that the peer opened.
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

    /// Says that something is awaited from the peer: a response, or more of one. While it is, a peer that is silent is asked for a
    /// sign of life, so that the loss of the session shows soon (docs/protocol/transport.md section 7.3).
    pub fn expect_data(&self) -> Expectation {
        // The shell looks when it wakes up next, at the latest for the stream that carries the request.
        let expecting = Arc::clone(&self.inner.watches.expecting);
        expecting.fetch_add(1, Ordering::Relaxed);
        Expectation(expecting)
    }

    /// The state of the hop, to read or to wait for changes.
    pub fn state(&self) -> watch::Receiver<LinkState> {
        self.inner.watches.state.clone()
    }

    /// Counters and estimates of the transport.
    pub fn stats(&self) -> ConnectionStats {
        self.seen().stats
    }

    /// The newest token that the gateway gave, to be kept for the next session.
    pub fn tokens(&self) -> watch::Receiver<Option<[u8; 32]>> {
        self.inner.watches.token.clone()
    }

    /// The exporter secret (docs/protocol/transport.md section 3.3), once the handshake is complete.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        self.seen().exporter
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Nobody panics with the lock held.
        self.inner
            .watches
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session.
    pub fn close(&self, error: u64, reason: &str) {
        self.inner
            .commands
            .send_late(ConnectionCommand::Close(error, reason.to_owned()));
    }

    /// Waits for the session's end.
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
        self.commands.send_late(ConnectionCommand::Abandoned);
    }
}
