//! Errors of fetches, and the party at fault.
use longhaul_proxy::{ProxyError, Whose};
use thiserror::Error;

use crate::guard::GuardRefusal;

/// The party that must act so that the same request succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// This machine: its resolver, its limits, its network, or the caller that cancelled.
    Local,
    /// The origin, its name servers or the network in front of it.
    Origin,
    /// The operator's rules: the address guard.
    Policy,
    /// The request itself: its URL, its method or its body.
    Request,
}

/// Errors of [`OriginClient::fetch`](crate::OriginClient::fetch) and
/// [`OriginClient::connect_tcp`](crate::OriginClient::connect_tcp).
///
/// No variant contains a URL or a host name; only `{:?}` shows the address in `GuardRefused`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL of the request is not acceptable.
    #[error("the request's URL cannot be fetched: {0}")]
    BadUrl(#[from] BadUrl),
    /// The fetch was cancelled on this side, for example because the client shut down.
    #[error("the fetch was cancelled on this side")]
    Cancelled,
    /// No address of the origin accepted a connection in time.
    #[error("the origin did not accept a connection in time")]
    ConnectTimeout,
    /// The name may exist, but no name server returned a usable answer.
    #[error("the name could not be looked up: {0}")]
    DnsFailed(DnsFailure),
    /// The name does not exist, or has neither an IPv4 nor an IPv6 address.
    #[error("the origin's name does not exist or has no address")]
    DnsNotFound,
    /// The address guard rejects the origin's address.
    #[error("{0}")]
    GuardRefused(#[from] GuardRefusal),
    /// The response's header section exceeds the limits.
    #[error("the origin's response header is too large")]
    HeaderTooLarge,
    /// A limit of this client is reached.
    #[error("{0}")]
    Overloaded(Limit),
    /// The response is malformed, or violates HTTP/1.1 or HTTP/2.
    #[error("the origin's response is malformed")]
    Protocol,
    /// The HTTP proxy of this network opens no connection.
    #[error("{0}")]
    Proxy(#[from] ProxyError),
    /// The origin's machine refused the connection: nothing listens on that port.
    #[error("the origin refused the connection")]
    Refused,
    /// The origin closed or reset the connection before it answered.
    #[error("the origin closed the connection before it answered")]
    Reset,
    /// This machine could not open a socket, for example because no file descriptor is left.
    #[error("this machine could not open a connection")]
    Resources,
    /// No response head arrived within [`Timeouts::response_head`](crate::Timeouts::response_head).
    #[error("the origin did not answer in time")]
    ResponseTimeout,
    /// The TLS handshake failed.
    #[error("the origin's TLS is unusable: {0}")]
    Tls(TlsDefect),
    /// No route to any address of the origin.
    #[error("the origin's network cannot be reached")]
    Unreachable,
    /// The source of the request's body failed.
    #[error("the request's body broke off before its end")]
    Upload,
}

impl FetchError {
    /// Returns the party at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Self::BadUrl(_) | Self::Upload => Fault::Request,
            Self::Cancelled | Self::Overloaded(_) | Self::Resources => Fault::Local,
            Self::DnsFailed(failure) => failure.fault(),
            Self::GuardRefused(_) => Fault::Policy,
            Self::Proxy(error) => match error.whose() {
                Whose::Destination => Fault::Origin,
                Whose::Settings | Whose::Administrator => Fault::Local,
            },
            Self::ConnectTimeout
            | Self::DnsNotFound
            | Self::HeaderTooLarge
            | Self::Protocol
            | Self::Refused
            | Self::Reset
            | Self::ResponseTimeout
            | Self::Tls(_)
            | Self::Unreachable => Fault::Origin,
        }
    }
}

/// The limit that a request exceeded: its device's share, or the total of all devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Limit {
    /// Requests in progress to one host.
    #[error(
        "this device has reached its limit of concurrent requests to this website, and none of them ended in time"
    )]
    Host,
    /// Connections.
    #[error(
        "this device, or all devices together, reached the limit of open connections, and none of them ended in time"
    )]
    Connections,
    /// Name lookups.
    #[error(
        "this device, or all devices together, reached the limit of concurrent DNS lookups, and none of them ended in time"
    )]
    Lookups,
}

/// Defects of a URL or method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// The host is not a valid domain name or address according to the WHATWG URL standard.
    #[error("its host is not valid")]
    Host,
    /// `CONNECT` opens a tunnel: use [`OriginClient::connect_tcp`](crate::OriginClient::connect_tcp).
    #[error("a tunnel is not a fetch")]
    Method,
    /// The URL has no host.
    #[error("it names no host")]
    NoHost,
    /// Port 0, or a port above 65535.
    #[error("its port is not valid")]
    Port,
    /// The scheme is neither `http` nor `https`.
    #[error("only http and https can be fetched")]
    Scheme,
    /// The URL contains a user name or password, which RFC 9110 section 4.2.4 deprecates.
    #[error("it carries a user name or password")]
    UserInfo,
}

/// Reasons for the lack of a usable DNS answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DnsFailure {
    /// The query could not be sent: no name server is reachable.
    #[error("no name server can be reached; check the [fetch] dns setting")]
    Local,
    /// The system's resolver configuration is missing or lists no server, and `[fetch] dns` lists none.
    #[error("this system names no DNS server; set [fetch] dns = [\"ADDRESS:53\"]")]
    NoServers,
    /// A server answered with an error, such as SERVFAIL or REFUSED, or with invalid data.
    #[error("the name server answered with an error")]
    Server,
    /// No answer arrived in time.
    #[error("no name server answered in time")]
    Timeout,
}

impl DnsFailure {
    fn fault(self) -> Fault {
        match self {
            Self::Local | Self::NoServers | Self::Timeout => Fault::Local,
            Self::Server => Fault::Origin,
        }
    }
}

/// Defects of an origin's TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum TlsDefect {
    /// The origin closed or reset the connection during the handshake.
    #[error("it closed the connection during the handshake")]
    Closed,
    /// The origin requests a client certificate. The client does not try to continue without one: client
    /// certificates belong to the browser's user, and only the browser can ask for them.
    #[error("it asks for a client certificate")]
    ClientCertificate,
    /// A key of the certificate chain is on the operator's deny list ([`DenyList`](crate::DenyList)).
    #[error("a key of its certificate's chain is on the operator's deny list")]
    DeniedKey,
    /// The certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is for other names.
    #[error("its certificate is for another name")]
    NameMismatch,
    /// The certificate is not valid yet.
    #[error("its certificate is not valid yet")]
    NotValidYet,
    /// The server does not speak TLS.
    #[error("it does not speak TLS")]
    NotTls,
    /// Any other defect: a bad signature, a broken chain, an alert, no common cipher.
    #[error("the handshake failed")]
    Other,
    /// The certificate is revoked.
    #[error("its certificate is revoked")]
    Revoked,
    /// The handshake exceeded its time limit.
    #[error("the handshake took too long")]
    Timeout,
    /// No trusted authority signed the certificate.
    #[error("its certificate is not from a trusted authority")]
    UnknownIssuer,
    /// The origin supports only versions before TLS 1.2.
    #[error("it speaks no secure version of TLS")]
    Version,
}

impl TlsDefect {
    /// Returns true if the defect is one of the origin's certificate.
    pub const fn is_of_certificate(self) -> bool {
        match self {
            Self::DeniedKey
            | Self::Expired
            | Self::NameMismatch
            | Self::NotValidYet
            | Self::Revoked
            | Self::UnknownIssuer => true,
            Self::ClientCertificate
            | Self::Closed
            | Self::NotTls
            | Self::Other
            | Self::Timeout
            | Self::Version => false,
        }
    }
}
