//! The place of a response on its connection.
//!
//! Over HTTP/1.1 only the order of the messages associates responses with requests. The first response on a
//! connection can only be that of the first request. A later one may be a part of an earlier response that an
//! attacker made the origin send (response splitting); no later byte on the connection tells, since the head
//! of such a response can declare a body that contains the true response. The stream numbers of HTTP/2 associate every response.

/// Use of a connection by a request.
///
/// As an extension of a request, [`First`](Self::First) demands that no response came before on the connection. As an
/// extension of a response, it tells whether one came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionUse {
    /// The first exchange on an HTTP/1.1 connection, or one of HTTP/2: the response is certainly that of the request.
    First,
    /// The HTTP/1.1 connection may have carried other exchanges: the response may be one that another request caused.
    #[default]
    Any,
}
