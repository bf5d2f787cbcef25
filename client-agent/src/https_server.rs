//! Connections of accelerated HTTPS.
//!
//! A connection to an accelerated host begins like a tunnel; `first_bytes` classifies the client's first bytes;
//! `serve` terminates TLS (`handshake`) and passes the requests to [`request`](crate::request). Anything but HTTP over TLS goes
//! unchanged through a tunnel, and so does the next connection to a host whose clients do not accept the agent's
//! certificate. The gateway verifies the origin's certificate; if verification or the exchange fails,
//! `incompatible_host` leads the client into a tunnel, and `bypass_offer` asks its user where the operator decided.
mod bypass_offer;
mod first_bytes;
mod handshake;
mod http2;
mod incompatible_host;
mod requested_url;
mod serve;
mod silent_client;

pub(crate) use serve::serve;
