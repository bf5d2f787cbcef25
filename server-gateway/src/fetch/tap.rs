//! Where a session's page loads meet its fetches: a page is shown to them before it is sent, and an object is asked of
//! them before it is fetched.
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use longhaul_cache::Partition;
use longhaul_protocol::session::Fetch;
use longhaul_types::ContentHash;

use super::request::Outgoing;

/// The page loads of one session.
pub(crate) trait PageLoads: Send + Sync {
    /// Whether an entry of a page load answers an object's fetch (whose delivery is `Any`). May wait for the head of an
    /// entry that is being fetched. Only asked for GET without body and without `Range`, `Authorization` and resumption.
    fn promised<'a>(&'a self, fetch: &'a Fetch, outgoing: &'a Outgoing) -> BoxFuture<'a, Option<Promise>>;

    /// The response to an object's fetch, which no entry answered, has come.
    fn answered(&self, fetch: &Fetch, outgoing: &Outgoing, head: PageHead<'_>);

    /// A page's response has come. Called before its `Head` is sent, so what this sends is before it; a tap gets the
    /// body. Only called for GET, without resumption; the status may be any.
    fn page<'a>(
        &'a self,
        fetch: &'a Fetch,
        outgoing: &'a Outgoing,
        head: PageHead<'a>,
    ) -> BoxFuture<'a, Option<Box<dyn BodyTap>>>;

    /// Whether the agent got this body in this partition, as far as the gateway knows.
    fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool;

    /// The agent has acknowledged a whole body, which came, for a request of this partition, as that of a response with
    /// this status and these fields.
    fn delivered(
        &self,
        partition: Option<Partition>,
        hash: ContentHash,
        status: StatusCode,
        headers: &HeaderMap,
    );
}

/// The entry that answers a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The page load, by its fetch.
    pub(crate) page: u64,
    /// The entry of its manifest.
    pub(crate) entry: u32,
}

/// The head of a response to a page's fetch, or to one of a page's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHead<'a> {
    pub(crate) status: StatusCode,
    /// As they go to the agent: codings undone, hop-by-hop fields removed.
    pub(crate) headers: &'a HeaderMap,
}

/// Sees a page's body on its way to the agent.
///
/// Dropped without [`Self::end`] when the fetch is cancelled or the agent takes no more.
pub(crate) trait BodyTap: Send {
    /// Decoded bytes, which are sent when this returns.
    fn chunk<'a>(&'a mut self, decoded: &'a Bytes) -> BoxFuture<'a, ()>;

    /// There is no more.
    fn end(self: Box<Self>, end: BodyEnd) -> BoxFuture<'static, ()>;
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// It is whole, and this is its CHK.
    Complete(ContentHash),
    /// The origin broke off, or its coding is damaged.
    Truncated,
}
