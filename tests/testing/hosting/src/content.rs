//! Content of a server.
use bytes::Bytes;
use http::{Response, request};

/// URL scheme of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// Returns the scheme as it is written in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// The pages of a set of hosts.
pub trait Content: Send + Sync {
    /// Returns the response to a request. `request.uri` is absolute, whatever its form on the wire; the
    /// method is as sent.
    ///
    /// The body is that of a GET with its content codings applied, also for HEAD: the server omits it and
    /// keeps its length. A recorded HEAD without a body keeps its recorded `Content-Length`. The server
    /// evaluates conditions, frames the body and replaces `Date`; it removes the fields of a single
    /// connection.
    fn answer(&self, request: &request::Parts, scheme: Scheme) -> Response<Bytes>;

    /// Hosts of the content, without ports. Requests for other hosts are misdirected and never reach
    /// [`answer`](Self::answer).
    fn hosts(&self) -> Vec<String>;
}
