//! Whether the agent holds a response's body already: then its hash is all that crosses the hop.
use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use longhaul_protocol::session::{Fetch, Method};
use longhaul_types::{ByteCount, ContentHash};
use tokio::time::{Instant, timeout_at};

use super::{BodyEnd, BodyTap, link_rate};
use crate::{
    asker::Asker,
    session::SessionContext,
    store::{BodyFault, BodyReader},
};

/// The largest body whose end is waited for.
const MAX_AHEAD: ByteCount = ByteCount::mib(4);
/// Half the time that the body would take on the hop is worth waiting to save all of it, within these bounds.
const MIN_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The wait where the hop's rate is not known.
const USUAL_WAIT: Duration = Duration::from_secs(1);
/// The length of a body that does not say how long it is: the median of pages is about that.
const USUAL_LENGTH: u64 = 64 * 1024;

/// What looking ahead told.
pub(super) enum Ahead {
    /// The agent holds the body with this hash.
    Held(ContentHash),
    /// It does not, or that is not known yet.
    Unknown(TappedBody),
}

/// A body on its way to the encoder, shown to a tap before.
pub(crate) struct TappedBody {
    body: BodyReader,
    tap: Option<Box<dyn BodyTap>>,
    /// Read and shown already.
    ahead: VecDeque<Bytes>,
}

/// What comes next of a body.
pub(super) enum Piece {
    Chunk(Bytes),
    /// The body is whole.
    End,
    Fault(BodyFault),
}

/// Whether a tap has seen a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
}

/// Finds out whether the agent holds the body. A body that it may hold is waited for, within bounds; a tap sees it
/// meanwhile.
pub(super) async fn look_ahead(
    context: &SessionContext,
    fetch: &Fetch,
    asker: &Asker,
    body: BodyReader,
    tap: Option<Box<dyn BodyTap>>,
) -> Ahead {
    let mut body = TappedBody::new(body, tap);
    // An agent that turns out not to hold the body asks again: that must never repeat what is not safe.
    if fetch.resume.is_some() || fetch.method != Method::Get {
        return Ahead::Unknown(body);
    }
    // Without a partition the agent looked nothing up either. What it names it got in the partition that asks now.
    let partition = asker.partition();
    let held = fetch
        .held
        .filter(|_| partition.is_some())
        .map(ContentHash::from_bytes);
    let holds = |hash: ContentHash| held == Some(hash) || context.loads.holds(partition.as_ref(), &hash);
    let hash = match (body.chk(), held) {
        (Some(hash), _) => Some(hash),
        (None, None) => None,
        (None, Some(_)) => body.complete(wait(context, body.length())).await,
    };
    match hash {
        Some(hash) if holds(hash) => {
            // A page is parsed all the same, and before the browser gets it.
            body.show_rest().await;
            Ahead::Held(hash)
        }
        Some(_) | None => Ahead::Unknown(body),
    }
}

fn wait(context: &SessionContext, length: Option<u64>) -> Duration {
    let Some(rate) = link_rate(context).filter(|rate| rate.as_bps() > 0) else {
        return USUAL_WAIT;
    };
    let bits = length.unwrap_or(USUAL_LENGTH).saturating_mul(8);
    Duration::from_millis(bits.saturating_mul(1000 / 2) / rate.as_bps()).clamp(MIN_WAIT, MAX_WAIT)
}

impl TappedBody {
    pub(crate) fn new(body: BodyReader, tap: Option<Box<dyn BodyTap>>) -> Self {
        Self {
            body,
            tap,
            ahead: VecDeque::new(),
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

    /// The next piece, to be given to [`Self::show`] before it is sent. Cancel safe.
    pub(super) async fn next(&mut self) -> (Piece, Shown) {
        if let Some(chunk) = self.ahead.pop_front() {
            return (Piece::Chunk(chunk), Shown::Yes);
        }
        let piece = match self.body.next().await {
            Some(Ok(chunk)) => Piece::Chunk(chunk),
            Some(Err(fault)) => Piece::Fault(fault),
            None => Piece::End,
        };
        (piece, Shown::No)
    }

    /// Shows a piece to the tap. Not cancel safe: the tap would miss it or see it twice.
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

    /// Waits for the end of the body, within bounds; the CHK.
    async fn complete(&mut self, within: Duration) -> Option<ContentHash> {
        if self.tap.is_none() {
            return self.body.chk_when_complete(within, MAX_AHEAD).await;
        }
        if self.length().is_some_and(|length| length > MAX_AHEAD.bytes()) {
            return None;
        }
        let until = Instant::now() + within;
        let mut taken = 0;
        while taken <= MAX_AHEAD.bytes() && self.chk().is_none() {
            // The end of the body is left to the next reader.
            let read = timeout_at(until, self.body.next()).await.ok()?;
            let Some(Ok(chunk)) = read else { break };
            taken += chunk.len() as u64;
            let piece = Piece::Chunk(chunk);
            self.show(&piece, Shown::No).await;
            if let Piece::Chunk(chunk) = piece {
                self.ahead.push_back(chunk);
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
