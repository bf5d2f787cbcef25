//! One HTTP/2 connection of a client (RFC 9113), inside TLS.
//!
//! `request` checks the heads, `exchange` answers one stream, `sender` sends bodies in the order of `turns`, `tunnel`
//! serves CONNECT, `uploads` judges whose fault a wait for a body is, and `resets` bounds the streams that a client cancels.
//!
//! The library answers PING and SETTINGS frames one at a time, bounds CONTINUATION frames by the size of the header list,
//! and refuses what RFC 9113 calls malformed. This module bounds what it hands out.
mod exchange;
mod request;
mod resets;
mod sender;
#[cfg(test)]
mod tests;
mod tunnel;
mod turns;
mod uploads;
mod watched;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use h2::{Reason, server};
use longhaul_gateway_core::{logins::Logins, tunnel_rules::Activity};
use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::timeout};
use tracing::debug;

pub use self::request::check;
use self::{resets::Resets, sender::Piece, turns::Turns, uploads::Uploads, watched::Watched};
use super::{
    Clientless,
    access::{Admitted, Peer},
    admission::{Admission, UNUSED_TIME},
    client::owner,
    fetch::ConnectionState,
    stream::ClientStream,
};

/// Requests and tunnels of a connection at the same time.
const MAX_STREAMS: u32 = 256;
/// Maximum size of a request's header list, counted as in RFC 9113 section 10.5.1 (32 bytes per field in addition to its
/// text): the limits of target and fields together.
const MAX_HEAD: u32 = 104 * 1024;
/// Maximum size of a frame: the least that the protocol allows, so that no frame delays others for long.
const MAX_FRAME: u32 = 16 * 1024;
/// Flow-control windows for what a client sends, on one stream and on all together.
const WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// Bytes of one response that the library may have and has not written yet.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// Streams that a client may reset before they are handed out, and that it may cause to be reset by its mistakes
/// (CVE-2023-44487). No browser comes near.
const MAX_EARLY_RESETS: usize = 256;
/// Time for the client's preface and settings: some round trips of the slowest links.
const PREFACE_TIME: Duration = Duration::from_secs(60);
/// Time for the last frames of a connection.
const LINGER: Duration = Duration::from_secs(2);

/// State of a connection that its streams share.
struct Http2Connection {
    shared: Arc<Clientless>,
    peer: Peer,
    turns: Turns,
    resets: Arc<Resets>,
    uploads: Uploads,
    activity: Arc<Activity>,
    /// The clients whose requests came through the connection: a login belongs to one of them.
    clients: Mutex<BTreeMap<PublicKey, Arc<ConnectionState>>>,
    admission: Admission,
}

/// Serves a connection to its end.
pub(super) async fn serve<S: ClientStream>(shared: Arc<Clientless>, stream: S, peer: Peer) {
    let activity = Arc::new(Activity::begin());
    let stream = Watched::new(stream, Arc::clone(&activity));
    let handshake = builder().handshake::<_, Piece>(stream);
    let Ok(Ok(mut frames)) = timeout(PREFACE_TIME, handshake).await else {
        return debug!("a connection did not begin as HTTP/2");
    };
    shared.counters.http2();
    let connection = Arc::new(Http2Connection {
        shared,
        peer,
        turns: Turns::default(),
        resets: Resets::new(),
        uploads: Uploads::default(),
        activity,
        clients: Mutex::default(),
        admission: Admission::default(),
    });
    // Dropped at the end, which ends the tasks.
    let mut streams = JoinSet::new();
    let mut is_judged = false;
    let mut unused = std::pin::pin!(tokio::time::sleep(UNUSED_TIME));
    let reason = loop {
        let is_used = !streams.is_empty();
        tokio::select! {
            accepted = frames.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    streams.spawn(exchange::serve(Arc::clone(&connection), request, respond));
                }
                Some(Err(error)) => return debug!(%error, "a connection failed"),
                None => return,
            },
            () = connection.resets.exhausted() => break Reason::ENHANCE_YOUR_CALM,
            () = connection.idle(is_used) => break Reason::NO_ERROR,
            // Tunnels then end their connections to hosts so that no host takes the end for a clean one.
            () = connection.admission.removed(connection.shared.access.clients()) => break Reason::CANCEL,
            () = &mut unused, if !is_judged => {
                if connection.clients.lock().is_empty() {
                    break Reason::NO_ERROR;
                }
                is_judged = true;
            }
            Some(_) = streams.join_next(), if is_used => {}
        }
    };
    debug!(?reason, "a connection is closed");
    if reason == Reason::NO_ERROR && streams.is_empty() {
        frames.graceful_shutdown();
    } else {
        frames.abrupt_shutdown(reason);
    }
    let _ended = timeout(LINGER, async { while frames.accept().await.is_some() {} }).await;
}

fn builder() -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .max_frame_size(MAX_FRAME)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .max_pending_accept_reset_streams(MAX_EARLY_RESETS)
        .max_local_error_reset_streams(Some(MAX_EARLY_RESETS));
    builder
}

impl Http2Connection {
    /// Returns once the connection is not needed: nothing is in progress, or a body waits, and no byte was transferred for
    /// the configured time.
    async fn idle(&self, is_used: bool) {
        let limit = self.shared.config.idle_timeout;
        loop {
            self.activity.idle(limit).await;
            if !is_used || self.turns.has_waiting() {
                return;
            }
            // Responses are still on their way to the proxy; these waits have limits of their own.
            tokio::time::sleep(limit).await;
        }
    }

    /// The state of the connection for a client.
    fn state(&self, admitted: &Admitted) -> Arc<ConnectionState> {
        self.admission.note(admitted);
        let owner = owner(admitted, self.peer.address);
        let mut clients = self.clients.lock();
        let state = clients.entry(owner).or_insert_with(|| {
            Arc::new(ConnectionState {
                shared: Arc::clone(&self.shared),
                peer: self.peer,
                logins: Logins::default(),
                browser: Mutex::default(),
            })
        });
        Arc::clone(state)
    }
}
