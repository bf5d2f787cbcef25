//! What a server answers from.
use bytes::Bytes;
use http::{Response, request};

/// The scheme under which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The scheme as it stands in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The pages of a set of hosts.
pub trait Content: Send + Sync {
    /// The answer to a request. `request.uri` is absolute, whatever form it had on the wire; the method is as sent.
    ///
    /// The body is that of a GET with its content codings applied, also for HEAD: the server leaves it out and keeps
    /// its length. A recorded HEAD without a body keeps its recorded `Content-Length`. The server evaluates
    /// conditions, frames the body and replaces `Date`; it removes what concerns one connection only.
    fn answer(&self, request: &request::Parts, scheme: Scheme) -> Response<Bytes>;

    /// The hosts that it answers for, without ports. Requests for others are misdirected and never reach
    /// [`answer`](Self::answer).
    fn hosts(&self) -> Vec<String>;
}
