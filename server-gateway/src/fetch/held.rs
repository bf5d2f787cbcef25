//! Check if the agent already holds a response's body, so that only the hash crosses the hop.
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use longhaul_pageload::{BodyEnd, PageTap};
use longhaul_session::{Fetch, Method};
use longhaul_types::{ByteCount, ContentHash, Technique};
use longhaul_webcache::{BodyFault, BodyReader, RequesterIdentity};
use tokio::time::{Instant, timeout_at};

use crate::session::context::SessionContext;

/// Maximum length of a body whose end is awaited.
const MAX_READ_AHEAD: ByteCount = ByteCount::mib(4);
/// Bounds of the wait for a body's end: half of the transfer time that it may save.
const MIN_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Wait if the rate of the hop is unknown.
const USUAL_WAIT: Duration = Duration::from_secs(1);
/// Assumed length of a body of unknown length: about the median of pages.
const USUAL_LENGTH: u64 = 64 * 1024;

/// Result of the check.
pub(super) enum HeldCheck {
    /// The agent holds the body with this hash.
    Held(ContentHash),
    /// The agent does not hold the body, or the hash is not known yet.
    NotHeld(TappedBody),
}

/// A body on its way to the encoder, which a tap sees first.
pub(crate) struct TappedBody {
    body: BodyReader,
    tap: Option<PageTap>,
    /// Chunks that were read and shown to the tap.
    read_ahead: VecDeque<Bytes>,
}

/// The next piece of a body.
pub(super) enum Piece {
    Chunk(Bytes),
    /// The body is complete.
    End,
    Fault(BodyFault),
}

/// State of a piece with respect to the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
}

/// Checks if the agent holds the body. Waits for the end of a body that the agent may hold, within bounds;
/// the tap sees the body meanwhile.
pub(super) async fn check_held(
    context: &SessionContext,
    fetch: &Fetch,
    identity: &RequesterIdentity,
    body: BodyReader,
    tap: Option<PageTap>,
) -> HeldCheck {
    let mut body = TappedBody::new(body, tap);
    // An agent that turns out not to hold the body repeats the request, which must never happen to an unsafe
    // request.
    if fetch.resume.is_some()
        || fetch.method != Method::Get
        || context.gateway.without.contains(Technique::Chk)
    {
        return HeldCheck::NotHeld(body);
    }
    // Without a partition the agent made no lookup either. A body that the agent names belongs to the
    // partition of this request.
    let partition = identity.partition();
    let held = fetch.held.filter(|_| partition.is_some());
    let holds = |hash: ContentHash| held == Some(hash) || context.page_loads.holds(partition.as_ref(), &hash);
    let hash = match (body.chk(), held) {
        (Some(hash), _) => Some(hash),
        (None, None) => None,
        (None, Some(_)) => body.complete(wait(context, body.length())).await,
    };
    match hash {
        Some(hash) if holds(hash) => {
            // The page is still parsed, and before the browser gets it.
            body.show_rest().await;
            HeldCheck::Held(hash)
        }
        Some(_) | None => HeldCheck::NotHeld(body),
    }
}

fn wait(context: &SessionContext, length: Option<u64>) -> Duration {
    let Some(rate) = context
        .page_loads
        .context()
        .link_rate()
        .filter(|rate| rate.as_bps() > 0)
    else {
        return USUAL_WAIT;
    };
    let bits = length.unwrap_or(USUAL_LENGTH).saturating_mul(8);
    Duration::from_millis(bits.saturating_mul(1000 / 2) / rate.as_bps()).clamp(MIN_WAIT, MAX_WAIT)
}

impl TappedBody {
    pub(crate) fn new(body: BodyReader, tap: Option<PageTap>) -> Self {
        Self {
            body,
            tap,
            read_ahead: VecDeque::new(),
        }
    }

    /// See [`BodyReader::chk`].
    pub(super) fn chk(&self) -> Option<ContentHash> {
        self.body.chk()
    }

    /// See [`BodyReader::length`].
    pub(super) fn length(&self) -> Option<u64> {
        self.body.length()
    }

    /// Returns the next piece, which must be passed to [`Self::show`] before it is sent. Cancel safe.
    pub(super) async fn next(&mut self) -> (Piece, Shown) {
        if let Some(chunk) = self.read_ahead.pop_front() {
            return (Piece::Chunk(chunk), Shown::Yes);
        }
        let piece = match self.body.next().await {
            Some(Ok(chunk)) => Piece::Chunk(chunk),
            Some(Err(fault)) => Piece::Fault(fault),
            None => Piece::End,
        };
        (piece, Shown::No)
    }

    /// Shows a piece to the tap. Not cancel safe: the tap could miss the piece or see it twice.
    pub(super) async fn show(&mut self, piece: &Piece, shown: Shown) {
        if shown == Shown::Yes {
            return;
        }
        let end = match piece {
            Piece::Chunk(chunk) => {
                if let Some(tap) = &mut self.tap {
                    tap.chunk(chunk).await;
                }
                return;
            }
            Piece::End => self.chk().map_or(BodyEnd::Truncated, BodyEnd::Complete),
            Piece::Fault(_) => BodyEnd::Truncated,
        };
        if let Some(tap) = self.tap.take() {
            tap.end(end).await;
        }
    }

    /// Waits for the end of the body, within bounds; returns the CHK.
    async fn complete(&mut self, within: Duration) -> Option<ContentHash> {
        if self.tap.is_none() {
            return self.body.chk_when_complete(within, MAX_READ_AHEAD).await;
        }
        if self
            .length()
            .is_some_and(|length| length > MAX_READ_AHEAD.bytes())
        {
            return None;
        }
        let until = Instant::now() + within;
        let mut taken = 0;
        while taken <= MAX_READ_AHEAD.bytes() && self.chk().is_none() {
            // The end of the body is left to the next reader.
            let read = timeout_at(until, self.body.next()).await.ok()?;
            let Some(Ok(chunk)) = read else { break };
            taken += chunk.len() as u64;
            let piece = Piece::Chunk(chunk);
            self.show(&piece, Shown::No).await;
            if let Piece::Chunk(chunk) = piece {
                self.read_ahead.push_back(chunk);
            }
        }
        self.chk()
    }

    async fn show_rest(&mut self) {
        while self.tap.is_some() {
            let (piece, shown) = self.next().await;
            self.show(&piece, shown).await;
        }
    }
}
