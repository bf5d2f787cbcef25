//! Why a fetch did not produce a response, and whose fault it is.
use thiserror::Error;

use crate::guard::GuardRefusal;

/// Who has to act so that the same request works next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// This machine: its resolver, its limits, its network, or the caller that gave up.
    Local,
    /// The origin, its name servers or the network in front of it.
    Origin,
    /// The operator's rules: the address guard.
    Policy,
    /// The request itself: its URL, its method or its body.
    Request,
}

/// Why [`OriginClient::fetch`](crate::OriginClient::fetch) or
/// [`OriginClient::connect_tcp`](crate::OriginClient::connect_tcp) gave no result.
///
/// No variant carries a URL or a host name; the address in `GuardRefused` is shown only by `{:?}`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The URL cannot be fetched as it is.
    #[error("the request's URL cannot be fetched: {0}")]
    BadUrl(#[from] BadUrl),
    /// The fetch was abandoned on this side, for example because the client shut down.
    #[error("the fetch was cancelled on this side")]
    Cancelled,
    /// No address of the origin accepted a connection in time.
    #[error("the origin did not accept a connection in time")]
    ConnectTimeout,
    /// The name may exist, but no name server gave a usable answer.
    #[error("the name could not be looked up: {0}")]
    DnsFailed(DnsFailure),
    /// The name does not exist, or has no IPv4 and no IPv6 address.
    #[error("the origin's name does not exist or has no address")]
    DnsNotFound,
    /// The origin's address is one that this gateway does not connect to.
    #[error("{0}")]
    GuardRefused(#[from] GuardRefusal),
    /// The response's header section exceeds the limits.
    #[error("the origin's response header is too large")]
    HeaderTooLarge,
    /// A bound of this client is reached.
    #[error("{0}")]
    Overloaded(Limit),
    /// The response is malformed, or breaks HTTP/1.1 or HTTP/2.
    #[error("the origin's response is malformed")]
    Protocol,
    /// The origin's machine refused the connection: nothing listens on that port.
    #[error("the origin refused the connection")]
    Refused,
    /// The origin closed or reset the connection before it answered.
    #[error("the origin closed the connection before it answered")]
    Reset,
    /// This machine could not open a socket, for example because it has no file descriptor left.
    #[error("this machine could not open a connection")]
    Resources,
    /// No response head came within [`Timeouts::response_head`](crate::Timeouts::response_head).
    #[error("the origin did not answer in time")]
    ResponseTimeout,
    /// The TLS handshake failed.
    #[error("the origin's TLS is unusable: {0}")]
    Tls(TlsDefect),
    /// No route leads to any address of the origin.
    #[error("the origin's network cannot be reached")]
    Unreachable,
    /// The request's body ended in an error of its source.
    #[error("the request's body broke off before its end")]
    Upload,
}

impl FetchError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::BadUrl(_) | Self::Upload => Fault::Request,
            Self::Cancelled | Self::Overloaded(_) | Self::Resources => Fault::Local,
            Self::DnsFailed(failure) => failure.fault(),
            Self::GuardRefused(_) => Fault::Policy,
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

    /// Whether the same request may succeed shortly after, without anybody changing anything.
    ///
    /// This is about the error only: whether the request may be repeated at all is for RFC 9110 section 9.2.2 to say.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::ConnectTimeout
            | Self::Overloaded(_)
            | Self::Refused
            | Self::Reset
            | Self::Resources
            | Self::ResponseTimeout
            | Self::Unreachable => true,
            Self::DnsFailed(failure) => *failure != DnsFailure::NoServers,
            Self::Tls(defect) => *defect == TlsDefect::Timeout,
            Self::BadUrl(_)
            | Self::Cancelled
            | Self::DnsNotFound
            | Self::GuardRefused(_)
            | Self::HeaderTooLarge
            | Self::Protocol
            | Self::Upload => false,
        }
    }

    /// Whether nothing of the request can have reached the origin, so that any request may be sent again.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::BadUrl(_)
            | Self::ConnectTimeout
            | Self::DnsFailed(_)
            | Self::DnsNotFound
            | Self::GuardRefused(_)
            | Self::Overloaded(_)
            | Self::Refused
            | Self::Resources
            | Self::Tls(_)
            | Self::Unreachable => true,
            Self::Cancelled
            | Self::HeaderTooLarge
            | Self::Protocol
            | Self::Reset
            | Self::ResponseTimeout
            | Self::Upload => false,
        }
    }
}

/// A bound that all requests of one device share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Limit {
    /// Of requests under way to one host.
    #[error(
        "this device has as many requests to this website under way as one device may; none of them ended in time"
    )]
    Host,
    /// Of connections.
    #[error(
        "this device has as many connections as one device may, or all devices together have; none ended in time"
    )]
    Connections,
    /// Of look-ups of names.
    #[error(
        "this device has as many names looked up as one device may, or all devices together have; none ended in time"
    )]
    Lookups,
}

/// What is wrong with a URL or with the way it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// The host is no valid domain name or address in the sense of the WHATWG URL standard.
    #[error("its host is not valid")]
    Host,
    /// `CONNECT` is a tunnel: see [`OriginClient::connect_tcp`](crate::OriginClient::connect_tcp).
    #[error("a tunnel is not a fetch")]
    Method,
    /// The URL names no host.
    #[error("it names no host")]
    NoHost,
    /// Port 0, or a port above 65535.
    #[error("its port is not valid")]
    Port,
    /// A scheme other than `http` and `https`.
    #[error("only http and https can be fetched")]
    Scheme,
    /// The URL carries a user name or password, which RFC 9110 section 4.2.4 deprecates.
    #[error("it carries a user name or password")]
    UserInfo,
}

/// Why the name servers gave no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DnsFailure {
    /// The question could not be put: no server can be reached.
    #[error("no name server can be reached; check the [fetch] dns setting")]
    Local,
    /// The system's resolver configuration is missing or names no server, and `[fetch] dns` names none either.
    #[error("this system names no DNS server; set [fetch] dns = [\"ADDRESS:53\"]")]
    NoServers,
    /// A server answered with an error such as SERVFAIL or REFUSED, or with nonsense.
    #[error("the name server answered with an error")]
    Server,
    /// No answer came in time.
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

/// What is wrong with an origin's TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum TlsDefect {
    /// The origin asks for a certificate of the client. Whether it would go on without is not tried: who has one is the
    /// browser's user, whom nobody but the browser can ask.
    #[error("it asks for a client certificate")]
    ClientCertificate,
    /// A key of the certificate's chain is on the operator's list ([`DenyList`](crate::DenyList)).
    #[error("a key of its certificate's chain is on the operator's deny list")]
    DeniedKey,
    /// The certificate's time is over.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate names other hosts.
    #[error("its certificate is for another name")]
    NameMismatch,
    /// The certificate's time has not begun.
    #[error("its certificate is not valid yet")]
    NotValidYet,
    /// What answers does not speak TLS.
    #[error("it does not speak TLS")]
    NotTls,
    /// Anything else: a bad signature, a broken chain, an alert, no common cipher.
    #[error("the handshake failed")]
    Other,
    /// The certificate is revoked.
    #[error("its certificate is revoked")]
    Revoked,
    /// The handshake took too long.
    #[error("the handshake took too long")]
    Timeout,
    /// No trusted authority signed the certificate.
    #[error("its certificate is not from a trusted authority")]
    UnknownIssuer,
    /// The origin speaks only versions before TLS 1.2.
    #[error("it speaks no TLS version that is still safe")]
    Version,
}

impl TlsDefect {
    /// Whether it is the origin's certificate that is wrong.
    pub const fn is_of_certificate(self) -> bool {
        match self {
            Self::DeniedKey
            | Self::Expired
            | Self::NameMismatch
            | Self::NotValidYet
            | Self::Revoked
            | Self::UnknownIssuer => true,
            Self::ClientCertificate | Self::NotTls | Self::Other | Self::Timeout | Self::Version => false,
        }
    }
}
