//! Interface between fetches and page loads: a page is shown to the page loads before it is sent, and an
//! object may be promised before it is fetched.
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use longhaul_cache::Partition;
use longhaul_session::Fetch;
use longhaul_types::ContentHash;
use longhaul_webcache::OriginRequest;

/// The page loads of one session.
pub(crate) trait PageLoads: Send + Sync {
    /// Returns the entry of a page load that answers an object's fetch (with delivery `Any`). May wait for
    /// the head of an entry that is being fetched. Called only for GET without body, `Range`, `Authorization`
    /// and resumption.
    fn promised<'a>(&'a self, fetch: &'a Fetch, request: &'a OriginRequest)
    -> BoxFuture<'a, Option<Promise>>;

    /// Called with the response to an object's fetch that no entry answered.
    fn answered(&self, fetch: &Fetch, request: &OriginRequest, head: PageHead<'_>);

    /// Called with a page's response before its `Head` is sent, so that messages of this function precede it;
    /// a returned tap gets the body. Called only for GET without resumption, with any status.
    fn page<'a>(
        &'a self,
        fetch: &'a Fetch,
        request: &'a OriginRequest,
        head: PageHead<'a>,
    ) -> BoxFuture<'a, Option<Box<dyn BodyTap>>>;

    /// Returns true if the mirror contains this body in this partition.
    fn holds(&self, partition: Option<&Partition>, hash: &ContentHash) -> bool;

    /// Called when the agent has acknowledged the whole body of a response with this status and these fields,
    /// for a request of this partition.
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
    /// Number of the page load.
    pub(crate) page: u64,
    /// Number of the entry in its manifest.
    pub(crate) entry: u32,
}

/// The head of a response to a page's fetch, or to a fetch of one of its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageHead<'a> {
    pub(crate) status: StatusCode,
    /// Fields as sent to the agent: content codings removed, hop-by-hop fields removed.
    pub(crate) headers: &'a HeaderMap,
}

/// Sees a page's body on its way to the agent.
///
/// Dropped without [`Self::end`] if the fetch is cancelled or the agent stops the stream.
pub(crate) trait BodyTap: Send {
    /// Called with decoded bytes, which are sent when the future completes.
    fn chunk<'a>(&'a mut self, decoded: &'a Bytes) -> BoxFuture<'a, ()>;

    /// Called at the end of the body.
    fn end(self: Box<Self>, end: BodyEnd) -> BoxFuture<'static, ()>;
}

/// End of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEnd {
    /// The body is complete and has this CHK.
    Complete(ContentHash),
    /// The origin truncated the body, or its content coding is malformed.
    Truncated,
}
